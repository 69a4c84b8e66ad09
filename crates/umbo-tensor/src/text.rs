//! Tensors as text: dtype, shape and device, and then the elements. ndarray formats them and leaves
//! out the middle of long axes.

use std::fmt;

use ndarray::ArrayD;

use crate::Tensor;
use umbo_kernels::dtype::for_numeric;
use umbo_kernels::view::View;

impl fmt::Display for Tensor {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "{} {} on {}",
            self.dtype(),
            self.shape(),
            self.device()
        )?;
        let host = self.on_host();
        match host
            .as_ref()
            .map_err(ToString::to_string)
            .and_then(|host| host.reading().map_err(|error| error.to_string()))
        {
            Ok(view) => write_elements(&view, formatter),
            Err(error) => write!(formatter, "({error})"),
        }
    }
}

fn write_elements(view: &View, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
    for_numeric!(
        view.dtype(),
        T => match view.as_array::<T>() {
            Some(array) => write!(formatter, "{array}"),
            None => Err(fmt::Error),
        },
        else match view.as_array::<u8>() {
            // Not `mapv`, which keeps strides. An array without elements must not have these
            // strides.
            Some(array) => {
                let flags = ArrayD::from_shape_fn(array.raw_dim(), |place| array[place] != 0);
                write!(formatter, "{flags}")
            }
            None => Err(fmt::Error),
        }
    )
}

#[cfg(test)]
mod tests {
    use crate::{DType, Shape, Tensor};
    use umbo_device::DeviceId;

    fn shape(sizes: &[usize]) -> Shape {
        Shape::new(sizes).unwrap()
    }

    #[test]
    fn elements_are_written_in_row_major_order_whatever_the_strides() {
        let tensor = Tensor::from_slice(&[1i32, 2, 3, 4, 5, 6], shape(&[2, 3]), DeviceId::HOST);
        let turned = tensor.unwrap().transpose(&[1, 0]).unwrap();
        assert_eq!(
            turned.to_string(),
            "int32 [3, 2] on CPU:0\n[[1, 4],\n [2, 5],\n [3, 6]]"
        );
    }

    #[test]
    fn bools_scalars_and_empty_tensors_have_a_text() {
        let flags = Tensor::from_bytes(DType::Bool, shape(&[2]), &[1, 0], DeviceId::HOST).unwrap();
        assert_eq!(flags.to_string(), "bool [2] on CPU:0\n[true, false]");
        assert_eq!(
            Tensor::scalar(2.5f64).unwrap().to_string(),
            "float64 [] on CPU:0\n2.5"
        );
        let empty = Tensor::zeros(DType::Float16, shape(&[0, 3]), DeviceId::HOST).unwrap();
        assert!(empty.to_string().starts_with("float16 [0, 3] on CPU:0\n["));
        let flags = Tensor::zeros(DType::Bool, shape(&[2, 3]), DeviceId::HOST).unwrap();
        let none = flags.slice(0, 0, 0, 1).unwrap();
        assert!(none.to_string().starts_with("bool [0, 3] on CPU:0\n["));
    }

    #[test]
    fn long_axes_are_cut() {
        let long = Tensor::zeros(DType::Float32, shape(&[100_000]), DeviceId::HOST).unwrap();
        let text = long.to_string();
        assert!(text.len() < 2000 && text.contains("..."), "{text}");
    }
}

//! Floating-point numbers of one type as those of another.

use umbo_base::error::{Error, Result, memory};
use umbo_device::DeviceId;
use umbo_kernels::dtype::for_float;
use umbo_kernels::float::half_precision::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use umbo_kernels::half::{bf16, f16};
use umbo_tensor::{DType, Element, Tensor};

/// A floating-point type. Each is exact as float64.
trait FloatElement: Element {
    fn widened(self) -> f64;

    /// The nearest number, ties to even. What is too large becomes infinite, and NaN stays NaN.
    fn nearest(wide: f64) -> Self;
}

impl FloatElement for f64 {
    fn widened(self) -> f64 {
        self
    }

    fn nearest(wide: f64) -> f64 {
        wide
    }
}

impl FloatElement for f32 {
    fn widened(self) -> f64 {
        self.into()
    }

    fn nearest(wide: f64) -> f32 {
        wide as f32
    }
}

impl FloatElement for f16 {
    fn widened(self) -> f64 {
        f16_to_f32(self).into()
    }

    fn nearest(wide: f64) -> f16 {
        f32_to_f16(rounded_to_odd(wide))
    }
}

impl FloatElement for bf16 {
    fn widened(self) -> f64 {
        bf16_to_f32(self).into()
    }

    fn nearest(wide: f64) -> bf16 {
        f32_to_bf16(rounded_to_odd(wide))
    }
}

/// A float32 that rounds to the same 16-bit number as `wide` does. Of the two neighbours of a
/// number between them it is the odd one, which is never halfway between two 16-bit numbers. So the
/// number is not rounded twice.
fn rounded_to_odd(wide: f64) -> f32 {
    let near = wide as f32;
    let exact = f64::from(near);
    let bits = near.to_bits();
    if exact == wide || !near.is_finite() || bits & 1 == 1 {
        return near;
    }
    match exact.abs() > wide.abs() {
        true => f32::from_bits(bits - 1),
        false => f32::from_bits(bits + 1),
    }
}

/// The elements of `tensor` in the floating-point type `dtype`, each the nearest number, ties to
/// even.
pub(super) fn converted(tensor: &Tensor, dtype: DType) -> Result<Tensor> {
    for_float!(
        tensor.dtype(), From => for_float!(
            dtype, To => {
                let view = tensor.reading()?;
                let from: &[From] = view.as_slice().ok_or_else(unexpected)?;
                let all = from.iter().map(|&one| Ok(To::nearest(one.widened())));
                let all: Vec<To> = memory::collect(all, "elements of a tensor")?;
                Tensor::from_slice(&all, tensor.shape(), DeviceId::HOST)
            },
            else Err(unexpected())
        ),
        else Err(unexpected())
    )
}

/// The first element that has become infinite in a conversion, with its value before.
pub(super) fn first_overflow(before: &Tensor, after: &Tensor) -> Result<Option<(usize, f64)>> {
    for_float!(
        before.dtype(), From => for_float!(
            after.dtype(), To => {
                let (before, after) = (before.reading()?, after.reading()?);
                let before: &[From] = before.as_slice().ok_or_else(unexpected)?;
                let after: &[To] = after.as_slice().ok_or_else(unexpected)?;
                let mut pairs = before.iter().zip(after).enumerate();
                Ok(pairs.find_map(|(element, (&one, &other))| {
                    let one = one.widened();
                    (one.is_finite() && other.widened().is_infinite()).then_some((element, one))
                }))
            },
            else Err(unexpected())
        ),
        else Err(unexpected())
    )
}

fn unexpected() -> Error {
    Error::Internal("a tensor that is converted is not of contiguous floats".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_tensor::Shape;

    /// Compares with the nearest of all numbers of the type, by distances that are exact.
    fn check_nearest<T: FloatElement + PartialEq + std::fmt::Debug>(all: &[T], wide: f64) {
        let at = all.partition_point(|one| one.widened() < wide);
        let (below, above) = (&all[at - 1], &all[at]);
        let (down, up) = (wide - below.widened(), above.widened() - wide);
        let expected = match down.partial_cmp(&up) {
            Some(std::cmp::Ordering::Less) => below,
            Some(std::cmp::Ordering::Greater) => above,
            // The even one has an even index, since the numbers are those from 0 on.
            _ if (at - 1).is_multiple_of(2) => below,
            _ => above,
        };
        assert_eq!(T::nearest(wide), *expected, "{wide:e}");
    }

    #[test]
    fn numbers_are_rounded_once() {
        let halves: Vec<f16> = (0..0x7c00).map(f16::from_bits).collect();
        let brains: Vec<bf16> = (0..0x7f80).map(bf16::from_bits).collect();
        for at in (1..0x7000).step_by(13) {
            for part in [0.5, 0.25, 0.75] {
                for nudge in [0.0, 1e-14, -1e-14] {
                    let between = |low: f64, high: f64| (low + part * (high - low)) * (1.0 + nudge);
                    let wide = between(halves[at].widened(), halves[at + 1].widened());
                    check_nearest(&halves, wide);
                    let wide = between(brains[at].widened(), brains[at + 1].widened());
                    check_nearest(&brains, wide);
                }
            }
        }
    }

    #[test]
    fn what_is_no_number_of_the_type_stays_what_it_is() {
        let wide = [1e300, -1e300, f64::INFINITY, f64::NAN, -0.0, 1e-300];
        let shape = Shape::new(&[wide.len()]).unwrap();
        let tensor = Tensor::from_slice(&wide, shape, DeviceId::HOST).unwrap();
        for dtype in [DType::Float16, DType::BFloat16, DType::Float32] {
            let narrow = converted(&tensor, dtype).unwrap();
            assert_eq!(narrow.dtype(), dtype);
            let back = converted(&narrow, DType::Float64)
                .unwrap()
                .to_vec::<f64>()
                .unwrap();
            assert_eq!(back[..3], [f64::INFINITY, f64::NEG_INFINITY, f64::INFINITY]);
            assert!(back[3].is_nan());
            assert_eq!((back[4].to_bits(), back[5]), ((-0.0f64).to_bits(), 0.0));
        }
        assert!(converted(&tensor, DType::Int32).is_err());
    }
}

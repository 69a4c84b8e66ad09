//! Copies of rows.

use umbo_base::error::Status;
use umbo_device::DeviceId;
use umbo_kernels::rows::{copy_rows, copy_to_row, write_bytes};
use umbo_tensor::{DType, Shape, Tensor};

fn numbers(shape: &[usize]) -> Tensor {
    let shape = Shape::new(shape).unwrap();
    let data: Vec<i16> = (0..shape.elements() as i16).collect();
    Tensor::from_slice(&data, shape, DeviceId::HOST).unwrap()
}

fn capacity(shape: &[usize]) -> Tensor {
    Tensor::zeros(DType::Int16, Shape::new(shape).unwrap(), DeviceId::HOST).unwrap()
}

fn elements(tensor: &Tensor) -> Vec<i16> {
    tensor.reading().unwrap().as_slice().unwrap().to_vec()
}

#[test]
fn rows_of_every_size_arrive() {
    for columns in [0, 1, 2, 3, 4, 7] {
        let source = numbers(&[5, columns]);
        let target = capacity(&[3, columns]);
        // SAFETY: nobody else has the target.
        let mut view = unsafe { target.assume_exclusive() }.into_view().unwrap();
        copy_rows(&source.reading().unwrap(), &[4, 0, 4], &mut view).unwrap();
        let expected: Vec<i16> = [4, 0, 4]
            .iter()
            .flat_map(|&row| (0..columns).map(move |column| (row * columns + column) as i16))
            .collect();
        assert_eq!(elements(&target), expected);
    }
}

#[test]
fn strided_rows_arrive_in_row_major_order() {
    let source = numbers(&[2, 3, 4]).transpose(&[2, 1, 0]).unwrap();
    let target = capacity(&[2, 3, 2]);
    // SAFETY: nobody else has the target.
    let mut view = unsafe { target.assume_exclusive() }.into_view().unwrap();
    copy_rows(&source.reading().unwrap(), &[3, 1], &mut view).unwrap();
    assert_eq!(
        elements(&target),
        [3, 15, 7, 19, 11, 23, 1, 13, 5, 17, 9, 21]
    );
}

#[test]
fn mismatched_operands_are_refused() {
    let source = numbers(&[5, 2]);
    let target = capacity(&[2, 2]);
    let read = source.reading().unwrap();
    // SAFETY: nobody else has the target.
    let mut write = unsafe { target.assume_exclusive() }.into_view().unwrap();
    let copy = |rows: &[u64], view: &mut _| copy_rows(&read, rows, view);
    assert_eq!(
        copy(&[5], &mut write).unwrap_err().status(),
        Status::OutOfRange
    );
    assert_eq!(
        copy(&[0, 1, 2], &mut write).unwrap_err().status(),
        Status::InvalidArgument
    );
    assert!(copy_to_row(&read, &mut write, 0).is_err());
    assert!(write_bytes(&mut write, 7, &[0; 2]).is_err());
    write_bytes(&mut write, 6, &9i16.to_ne_bytes()).unwrap();
    assert_eq!(elements(&target), [0, 0, 0, 9]);
}

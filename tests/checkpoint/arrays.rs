//! Tensors as NumPy's files.

use std::fs;
use std::path::Path;

use umbo_core::checkpoint::arrays::{load_npy, load_npz, save_npy, save_npz};
use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::tensor::{DType, Tensor};

use crate::scene::{Folder, bytes, shape};

fn tensor(dtype: DType, sizes: &[usize]) -> Tensor {
    let bytes: usize = sizes.iter().product::<usize>() * dtype.size();
    let pattern: Vec<u8> = match dtype {
        DType::Bool => (0..bytes).map(|byte| (byte % 3 == 0).into()).collect(),
        _ => (0..bytes).map(|byte| (byte * 37 % 101) as u8).collect(),
    };
    Tensor::from_bytes(dtype, shape(sizes), &pattern, DeviceId::HOST).unwrap()
}

#[track_caller]
fn same(one: &Tensor, other: &Tensor) {
    assert_eq!((one.dtype(), one.shape()), (other.dtype(), other.shape()));
    let [one, other] = [one, other].map(|tensor| tensor.to_contiguous().unwrap());
    assert_eq!(
        one.reading().unwrap().as_bytes(),
        other.reading().unwrap().as_bytes()
    );
}

#[test]
fn every_dtype_and_rank_comes_back() {
    let folder = Folder::new();
    let path = folder.path("array.npy");
    for dtype in DType::ALL {
        for sizes in [&[][..], &[0], &[7], &[2, 3], &[1; 8], &[3, 0, 2]] {
            let saved = tensor(dtype, sizes);
            save_npy(&saved, &path).unwrap();
            same(&load_npy(&path).unwrap(), &saved);
            let file = bytes(&path);
            let elements = saved.shape().bytes(dtype).unwrap();
            assert_eq!((file.len() - elements) % 64, 0);
            assert_eq!(file[file.len() - elements - 1], b'\n');
        }
    }
    // What is not contiguous is written in C order.
    let transposed = tensor(DType::Int32, &[4, 5]).transpose(&[1, 0]).unwrap();
    save_npy(&transposed, &path).unwrap();
    same(&load_npy(&path).unwrap(), &transposed);
}

/// As NumPy itself writes it.
#[test]
fn the_header_is_numpys() {
    let folder = Folder::new();
    let path = folder.path("array.npy");
    for (sizes, tuple) in [(&[][..], "()"), (&[3], "(3,)"), (&[2, 3], "(2, 3)")] {
        save_npy(&tensor(DType::Float32, sizes), &path).unwrap();
        let file = bytes(&path);
        let header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {tuple}, }}");
        assert_eq!(&file[..10], b"\x93NUMPY\x01\x00\x76\x00");
        assert_eq!(&file[10..10 + header.len()], header.as_bytes());
        assert!(
            file[10 + header.len()..127]
                .iter()
                .all(|&byte| byte == b' ')
        );
    }
}

#[test]
fn archives_have_arrays_by_name() {
    let folder = Folder::new();
    let path = folder.path("arrays.npz");
    let one = tensor(DType::Float32, &[2, 3]);
    let other = tensor(DType::BFloat16, &[5]);
    save_npz(&[("one", &one), ("other one", &other)], &path).unwrap();
    same(&load_npz(&path, "one").unwrap(), &one);
    same(&load_npz(&path, "other one").unwrap(), &other);
    let missing = load_npz(&path, "two").unwrap_err();
    assert_eq!(missing.status(), Status::NotFound);
    assert!(missing.to_string().contains("one, other one"), "{missing}");
    let refused = save_npz(&[("a", &one), ("a", &other)], &path).unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument, "{refused}");
    assert!(save_npz(&[], &path).is_err());
    // What was refused has left the file alone, and nothing beside it.
    same(&load_npz(&path, "one").unwrap(), &one);
    assert_eq!(folder.names(), ["arrays.npz"]);
    assert!(load_npy(&path).is_err());
}

#[test]
fn failures_leave_the_old_file() {
    let folder = Folder::new();
    let path = folder.path("array.npy");
    let one = tensor(DType::Float32, &[2, 3]);
    assert_eq!(
        save_npy(&one, Path::new("no/such/folder/x"))
            .unwrap_err()
            .status(),
        Status::NotFound
    );
    save_npy(&one, &path).unwrap();
    fs::write(folder.path("short"), &bytes(&path)[..140]).unwrap();
    assert_eq!(
        load_npy(&folder.path("short")).unwrap_err().status(),
        Status::DataLoss
    );
}

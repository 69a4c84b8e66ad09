//! Arrays in files: `.npy`, `.npz`, IDX.

use umbo_core::checkpoint::arrays::{load_npy, load_npz, save_npy, save_npz};
use umbo_core::device::DeviceId;
use umbo_core::input::Dataset;
use umbo_core::tensor::{DType, Shape, Tensor};
use umbo_core::values::Value;

use super::file::{holding, written_by};

/// More elements of a dataset than this are not looked at one by one.
const ELEMENTS: usize = 64;

/// Reads every byte of the first elements, and makes sure that there are as many elements as are
/// announced.
fn read(dataset: &Dataset) {
    let pass = dataset.iterator().expect("a pass over what was accepted");
    let mut bytes = 0u64;
    for _ in 0..ELEMENTS {
        let Some(element) = pass.next().expect("an element of what was accepted") else {
            break;
        };
        bytes = bytes.wrapping_add(sum(&element));
    }
    std::hint::black_box(bytes);
}

fn sum(element: &Value) -> u64 {
    match element {
        Value::Tensor(tensor) => sum_of(tensor),
        Value::Nest(nest) => nest.items().iter().map(sum).fold(0, u64::wrapping_add),
        other => panic!("files hold arrays, not {other:?}"),
    }
}

fn sum_of(tensor: &Tensor) -> u64 {
    let whole = tensor.to_contiguous().expect("memory for an element");
    // SAFETY: it is contiguous, of so many bytes, and nobody writes it.
    let bytes = unsafe { std::slice::from_raw_parts(whole.address(), whole.bytes()) };
    bytes
        .iter()
        .fold(0, |sum, &byte| sum.wrapping_add(u64::from(byte)))
}

pub fn npy(bytes: &[u8]) {
    holding(bytes, |path| {
        let mapped = Dataset::from_npy_file(path);
        let loaded = load_npy(path);
        if let Ok(dataset) = &mapped {
            read(dataset);
            assert!(loaded.is_ok(), "one reader takes what the other refuses");
        }
        if let Ok(tensor) = loaded {
            sum_of(&tensor);
        }
    });
}

pub fn npz(bytes: &[u8]) {
    holding(bytes, |path| {
        if let Ok(dataset) = Dataset::from_npz_file(path, None) {
            read(&dataset);
        }
        for name in ["x", "label"] {
            if let Ok(tensor) = load_npz(path, name) {
                sum_of(&tensor);
            }
        }
    });
}

pub fn idx(bytes: &[u8]) {
    holding(bytes, |path| {
        if let Ok(dataset) = Dataset::from_idx_files(&[path], None) {
            read(&dataset);
        }
    });
}

fn counting(dtype: DType, sizes: &[usize]) -> Tensor {
    let shape = Shape::new(sizes).expect("a shape");
    let bytes: Vec<u8> = (0..shape.bytes(dtype).expect("a size"))
        .map(|at| at as u8 % 2)
        .collect();
    Tensor::from_bytes(dtype, shape, &bytes, DeviceId::HOST).expect("a tensor")
}

pub fn npy_seeds() -> Vec<Vec<u8>> {
    let arrays = [
        (DType::Float32, &[3, 2][..]),
        (DType::BFloat16, &[4]),
        (DType::Bool, &[2, 0, 3]),
        (DType::Int64, &[]),
        (DType::UInt8, &[1, 2, 3, 1, 2]),
    ];
    let mut seeds: Vec<_> = arrays
        .iter()
        .map(|(dtype, sizes)| {
            written_by(|path| save_npy(&counting(*dtype, sizes), path).expect("a file"))
        })
        .collect();
    // As another program may write them: in the other byte order, in Fortran's, with a longer
    // header.
    for (header, bytes) in [
        (
            "{'descr': '>f8', 'fortran_order': False, 'shape': (2,), }",
            16,
        ),
        (
            "{'descr': '<i2', 'fortran_order': True, 'shape': (2, 3), }",
            12,
        ),
        ("{\"shape\":(2,),'descr':'|u1','fortran_order':False}", 2),
    ] {
        let mut file = b"\x93NUMPY\x02\x00".to_vec();
        file.extend((header.len() as u32).to_le_bytes());
        file.extend(header.as_bytes());
        file.extend(std::iter::repeat_n(1, bytes));
        seeds.push(file);
    }
    seeds
}

pub fn npz_seeds() -> Vec<Vec<u8>> {
    let x = counting(DType::Float32, &[3, 2]);
    let label = counting(DType::Int64, &[3]);
    let of =
        |arrays: &[(&str, &Tensor)]| written_by(|path| save_npz(arrays, path).expect("an archive"));
    vec![
        of(&[("x", &x), ("label", &label)]),
        of(&[("layer.0.weight", &x)]),
    ]
}

pub fn idx_seeds() -> Vec<Vec<u8>> {
    let file = |code: u8, sizes: &[u32], bytes: usize| {
        let mut file = vec![0, 0, code, sizes.len() as u8];
        file.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
        file.extend(std::iter::repeat_n(1, bytes));
        file
    };
    let mut seeds = vec![
        file(8, &[3, 2, 2], 12),
        file(9, &[4], 4),
        file(0x0b, &[2, 3], 12),
        file(0x0c, &[3], 12),
        file(0x0d, &[1, 2], 8),
        file(0x0e, &[0, 5], 0),
    ];
    // What `printf '\0\0\10\1\0\0\0\2AB' | gzip -n` writes.
    seeds.push(vec![
        0x1f, 0x8b, 0x08, 0, 0, 0, 0, 0, 0, 0x03, 0x63, 0x60, 0xe0, 0x60, 0x64, 0x60, 0x60, 0x60,
        0x72, 0x74, 0x02, 0, 0xe1, 0xf2, 0x2c, 0xe4, 0x0a, 0, 0, 0,
    ]);
    seeds
}

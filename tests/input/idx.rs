//! IDX files: all element types, plain and compressed, and every way to be wrong.

use std::io::Write;
use std::path::Path;

use crate::common::{Temporary, fails, read, rest};
use flate2::{Compression, write::GzEncoder};
use umbo_core::error::{Result, Status};
use umbo_core::input::{Dataset, ShuffleOptions};
use umbo_core::tensor::{DType, Element};

fn idx(code: u8, sizes: &[u32], data: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0, 0, code, sizes.len() as u8];
    bytes.extend(sizes.iter().flat_map(|size| size.to_be_bytes()));
    bytes.extend(data);
    bytes
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn dataset_of(path: &Path) -> Result<Dataset> {
    Dataset::from_idx_files(&[path], None)
}

fn rows<T: Element>(path: &Path) -> Vec<Vec<T>> {
    let dataset = dataset_of(path).unwrap();
    rest(&dataset.iterator().unwrap(), |element| {
        read(element.tensor_of(0).unwrap())
    })
}

fn each_way<T: Element>(name: &str, code: u8, bytes: &[u8], expected: [[T; 2]; 2]) {
    let file = idx(code, &[2, 2], bytes);
    let plain = Temporary::new(name, &file);
    assert_eq!(rows::<T>(&plain.0), expected);
    let compressed = Temporary::new(&format!("{name}.gz"), &gzip(&file));
    assert_eq!(rows::<T>(&compressed.0), expected);
}

#[test]
fn all_element_types_plain_and_compressed() {
    each_way("u8", 0x08, &[1, 2, 3, 255], [[1u8, 2], [3, 255]]);
    each_way("i8", 0x09, &[1, 2, 3, 255], [[1i8, 2], [3, -1]]);
    let bytes = [258i16, -2, 3, 4].map(i16::to_be_bytes).concat();
    each_way("i16", 0x0b, &bytes, [[258i16, -2], [3, 4]]);
    let bytes = [66051i32, -2, 3, 4].map(i32::to_be_bytes).concat();
    each_way("i32", 0x0c, &bytes, [[66051i32, -2], [3, 4]]);
    let bytes = [1.5f32, -2.25, 3.0, 4.0].map(f32::to_be_bytes).concat();
    each_way("f32", 0x0d, &bytes, [[1.5f32, -2.25], [3.0, 4.0]]);
    let bytes = [1.5f64, -2.25, 3.0, 1e300].map(f64::to_be_bytes).concat();
    each_way("f64", 0x0e, &bytes, [[1.5f64, -2.25], [3.0, 1e300]]);
}

#[test]
fn larger_files_than_one_chunk() {
    let values: Vec<i16> = (0..100_000u32).map(|value| value as i16).collect();
    let data: Vec<u8> = values
        .iter()
        .flat_map(|value| value.to_be_bytes())
        .collect();
    let file = Temporary::new("large.gz", &gzip(&idx(0x0b, &[1000, 100], &data)));
    assert_eq!(rows::<i16>(&file.0).concat(), values);
}

#[test]
fn mapped_bytes_are_batched_in_place_and_shuffled() {
    let data: Vec<u8> = (0..60).collect();
    let file = Temporary::new("mapped", &idx(0x08, &[20, 3], &data));
    let dataset = dataset_of(&file.0).unwrap();
    let batch = dataset
        .batch(20, false)
        .unwrap()
        .iterator()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    assert!(batch.tensor_of(0).unwrap().is_read_only());
    assert_eq!(read::<u8>(batch.tensor_of(0).unwrap()), data);
    let shuffled = dataset.shuffle(&ShuffleOptions::default()).unwrap();
    let batch = shuffled
        .batch(20, true)
        .unwrap()
        .iterator()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let tensor = batch.tensor_of(0).unwrap();
    assert_eq!(
        (tensor.dtype(), &tensor.shape()[..]),
        (DType::UInt8, &[20, 3][..])
    );
    let mut found = read::<u8>(tensor);
    assert!(
        found
            .chunks(3)
            .all(|row| row[0] % 3 == 0 && row[1] == row[0] + 1)
    );
    assert_ne!(found, data);
    found.sort_unstable();
    assert_eq!(found, data);
}

#[test]
fn damaged_and_foreign_files_are_refused() {
    let good = idx(0x08, &[2, 3], &[1, 2, 3, 4, 5, 6]);
    let huge = |code| idx(code, &[u32::MAX; 2], &[0; 100]);
    let wide: Vec<u8> = [0, 0, 0x08, 9].into_iter().chain([0; 36]).collect();
    let mut broken = gzip(&good);
    let checksum = broken.len() - 8;
    broken[checksum] ^= 1;
    let gz = gzip(&good);
    let cases: &[(&str, Vec<u8>, Status, &str)] = &[
        ("empty", vec![], Status::DataLoss, "empty"),
        (
            "magic",
            b"\x89PNG\r\n".to_vec(),
            Status::InvalidArgument,
            "not an IDX file",
        ),
        (
            "type",
            idx(0x0a, &[1], &[1]),
            Status::InvalidArgument,
            "00, 00, 0a",
        ),
        ("rank", wide, Status::InvalidArgument, "9 dimensions"),
        (
            "scalar",
            idx(0x08, &[], &[1]),
            Status::InvalidArgument,
            "scalar",
        ),
        ("short-magic", good[..3].to_vec(), Status::DataLoss, "magic"),
        (
            "short-header",
            good[..10].to_vec(),
            Status::DataLoss,
            "header",
        ),
        (
            "short",
            good[..17].to_vec(),
            Status::DataLoss,
            "5 are there",
        ),
        (
            "long",
            [&good[..], &[7]].concat(),
            Status::DataLoss,
            "7 are there",
        ),
        ("huge", huge(0x08), Status::DataLoss, "4294967295"),
        ("huge-f64", huge(0x0e), Status::DataLoss, "4294967295"),
        (
            "overflow",
            idx(0x0e, &[u32::MAX; 8], &[]),
            Status::DataLoss,
            "claims",
        ),
        (
            "short.gz",
            gzip(&good[..17]),
            Status::DataLoss,
            "5 are there",
        ),
        (
            "long.gz",
            gzip(&[&good[..], &[7]].concat()),
            Status::DataLoss,
            "more are",
        ),
        ("cut.gz", gz[..gz.len() - 12].to_vec(), Status::DataLoss, ""),
        ("cut-header.gz", gz[..12].to_vec(), Status::DataLoss, ""),
        ("checksum.gz", broken, Status::DataLoss, "decompressed"),
        (
            "bomb.gz",
            gzip(&[&good[..], &vec![0; 64 << 20]].concat()),
            Status::DataLoss,
            "more",
        ),
    ];
    for (name, bytes, status, part) in cases {
        let file = Temporary::new(name, bytes);
        let result = dataset_of(&file.0);
        let message = result
            .as_ref()
            .err()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(
            message.contains(name),
            "'{message}' does not name the file '{name}'"
        );
        fails(result, *status, part);
    }
    fails(
        dataset_of(Path::new("/no/such/file")),
        Status::NotFound,
        "/no/such/file",
    );
    fails(
        dataset_of(&std::env::temp_dir()),
        Status::InvalidArgument,
        "regular file",
    );
}

/// Tapes and other media in blocks leave zeros behind a compressed file, which gzip ignores;
/// anything else is not.
#[test]
fn zeros_may_follow_a_compressed_file() {
    let good = idx(0x08, &[2, 3], &[1, 2, 3, 4, 5, 6]);
    let members = [gzip(&good[..7]), gzip(&good[7..])].concat();
    for (name, bytes) in [("one", gzip(&good)), ("two", members)] {
        for zeros in [0, 1, 7, 512, 100_000] {
            let file = Temporary::new(name, &[&bytes[..], &vec![0; zeros]].concat());
            assert_eq!(
                rows::<u8>(&file.0),
                [[1, 2, 3], [4, 5, 6]],
                "{name}, {zeros}"
            );
            let file = Temporary::new(name, &[&bytes[..], &vec![0; zeros], &[1]].concat());
            fails(dataset_of(&file.0), Status::DataLoss, name);
        }
    }
}

//! NumPy's files: every dtype, order and byte order, and every way to be wrong.

use std::io::Write;
use std::path::Path;

use crate::common::{Temporary, fails, read, rest};
use half::{bf16, f16};
use umbo_core::error::{Result, Status};
use umbo_core::input::{Cardinality, Dataset};
use umbo_core::tensor::{DType, Element};
use umbo_core::values::Value;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

fn npy_of(version: u8, header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"\x93NUMPY".to_vec();
    bytes.extend([version, 0]);
    let length_bytes = if version == 1 { 2 } else { 4 };
    let unpadded = bytes.len() + length_bytes + header.len() + 1;
    let header = format!(
        "{header}{}\n",
        " ".repeat(unpadded.next_multiple_of(64) - unpadded)
    );
    bytes.extend(&(header.len() as u32).to_le_bytes()[..length_bytes]);
    bytes.extend(header.as_bytes());
    bytes.extend(data);
    bytes
}

fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}");
    npy_of(1, &header, data)
}

fn open(name: &str, bytes: &[u8]) -> Result<Dataset> {
    let file = Temporary::new(&format!("{name}.npy"), bytes);
    Dataset::from_npy_file(&file.0)
}

fn rows<T: Element>(dataset: &Dataset) -> Vec<Vec<T>> {
    rest(&dataset.iterator().unwrap(), |element| {
        read(element.tensor_of(0).unwrap())
    })
}

/// Both byte orders of [[a, b], [c, d]] and of its columns in Fortran order.
fn each_way<T: Element, const N: usize>(
    code: &str,
    elements: [T; 4],
    little: impl Fn(T) -> [u8; N],
) {
    let [a, b, c, d] = elements;
    let expected = [vec![a, b], vec![c, d]];
    for (order, reversed) in [("<", false), (">", true), ("=", false)] {
        let bytes = |elements: [T; 4]| {
            let each = elements.map(|element| {
                let mut bytes = little(element);
                if reversed {
                    bytes.reverse();
                }
                bytes
            });
            each.concat()
        };
        let descr = format!("{order}{code}");
        let name = format!("{code}-{reversed}");
        let file = npy(&descr, false, "(2, 2)", &bytes([a, b, c, d]));
        assert_eq!(rows::<T>(&open(&name, &file).unwrap()), expected, "{descr}");
        let file = npy(&descr, true, "(2, 2)", &bytes([a, c, b, d]));
        assert_eq!(
            rows::<T>(&open(&name, &file).unwrap()),
            expected,
            "{descr}, Fortran order"
        );
    }
}

#[test]
fn all_dtypes_and_orders() {
    each_way(
        "f2",
        [1.5, -2.0, 0.25, 4.0].map(f16::from_f32),
        f16::to_le_bytes,
    );
    each_way(
        "V2",
        [1.5, -2.0, 0.25, 4.0].map(bf16::from_f32),
        bf16::to_le_bytes,
    );
    each_way("f4", [1.5f32, -2.25, 3.0, 4.0], f32::to_le_bytes);
    each_way("f8", [1.5f64, -2.25, 3.0, 1e300], f64::to_le_bytes);
    each_way("i1", [1i8, -2, 3, 4], i8::to_le_bytes);
    each_way("i2", [258i16, -2, 3, 4], i16::to_le_bytes);
    each_way("i4", [66051i32, -2, 3, 4], i32::to_le_bytes);
    each_way("i8", [1i64 << 40, -2, 3, 4], i64::to_le_bytes);
    each_way("u1", [1u8, 255, 3, 4], u8::to_le_bytes);
    each_way("u2", [258u16, 2, 3, 4], u16::to_le_bytes);
    each_way("u4", [66051u32, 2, 3, 4], u32::to_le_bytes);
    each_way("u8", [u64::MAX - 1, 2, 3, 4], u64::to_le_bytes);
    // Whatever is not 0 is true.
    let bools = open("bool", &npy("|b1", false, "(2, 2)", &[0, 1, 7, 0])).unwrap();
    let mut bytes = [9; 4];
    let batch = bools
        .batch(2, false)
        .unwrap()
        .iterator()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let batch = batch.tensor_of(0).unwrap();
    batch.copy_to_host(&mut bytes).unwrap();
    assert_eq!((batch.dtype(), bytes), (DType::Bool, [0, 1, 1, 0]));
}

#[test]
fn fortran_order_of_higher_rank() {
    // Element (i, j, k) of shape (2, 3, 4) at i + 2 j + 6 k.
    let data: Vec<u8> = (0..24).collect();
    let dataset = open("rank3", &npy("|u1", true, "(2, 3, 4)", &data)).unwrap();
    let expected: Vec<Vec<u8>> = (0..2u8)
        .map(|i| {
            (0..3)
                .flat_map(|j| (0..4).map(move |k| i + 2 * j + 6 * k))
                .collect()
        })
        .collect();
    assert_eq!(rows::<u8>(&dataset), expected);
}

#[test]
fn plain_files_are_mapped() {
    let data: Vec<u8> = (0..8).flat_map(f32_bytes).collect();
    let dataset = open("mapped", &npy("<f4", false, "(8,)", &data)).unwrap();
    let batch = dataset
        .batch(8, false)
        .unwrap()
        .iterator()
        .unwrap()
        .next()
        .unwrap()
        .unwrap();
    let tensor = batch.tensor_of(0).unwrap();
    assert!(tensor.is_read_only());
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let address = tensor.address() as usize;
    let line = maps.lines().find(|line| {
        let (start, stop) = line.split(' ').next().unwrap().split_once('-').unwrap();
        let number = |text| usize::from_str_radix(text, 16).unwrap();
        (number(start)..number(stop)).contains(&address)
    });
    assert!(line.unwrap().contains("mapped.npy"), "{line:?}");
}

fn f32_bytes(number: u8) -> [u8; 4] {
    f32::from(number).to_le_bytes()
}

#[test]
fn headers_in_every_spelling() {
    let reads = |version, header: &str| {
        let dataset = open("header", &npy_of(version, header, &[1, 2, 3, 4])).unwrap();
        assert_eq!(rows::<u8>(&dataset), [[1, 2], [3, 4]], "{header}");
    };
    reads(
        1,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }",
    );
    reads(
        2,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }",
    );
    reads(
        3,
        "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2), }",
    );
    reads(
        1,
        "{\"shape\":(2,2),\"fortran_order\":False,\"descr\":\"|u1\"}",
    );
    reads(
        1,
        " { 'shape' : ( 2L , 2L , ) , 'descr' : '|u1' , 'fortran_order' : False } ",
    );
    // Elements that do not begin at a multiple of their size are copied.
    let mut odd = b"\x93NUMPY\x01\x00".to_vec();
    let header = "{'descr': '<i4', 'fortran_order': False, 'shape': (1,)}  ";
    assert_eq!((odd.len() + 2 + header.len()) % 4, 3);
    odd.extend((header.len() as u16).to_le_bytes());
    odd.extend(header.as_bytes());
    odd.extend(77i32.to_le_bytes());
    assert_eq!(rows::<i32>(&open("odd", &odd).unwrap()), [[77]]);
}

#[test]
fn empty_arrays_and_arrays_larger_than_a_chunk() {
    let dataset = open("empty", &npy("<f4", false, "(0, 3)", &[])).unwrap();
    assert_eq!(dataset.cardinality(), Cardinality::Exact(0));
    let numbers: Vec<u8> = (0..100_000u32).flat_map(u32::to_be_bytes).collect();
    let dataset = open("large", &npy(">u4", false, "(100000,)", &numbers)).unwrap();
    assert_eq!(rows::<u32>(&dataset).concat(), Vec::from_iter(0..100_000));
}

#[test]
fn what_is_no_array_is_refused() {
    use Status::{DataLoss, InvalidArgument, Unimplemented};
    let good = npy("<i4", false, "(2,)", &[0; 8]);
    let with = |descr: &str, shape: &str| npy(descr, false, shape, &[0; 8]);
    let header = |text: &str| npy_of(1, text, &[0; 8]);
    let mut huge = good.clone();
    huge[6] = 2;
    huge[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut version = good.clone();
    version[6] = 9;
    let table: Vec<(Vec<u8>, Status, &str)> = vec![
        (
            b"PK\x03\x04-------------".to_vec(),
            InvalidArgument,
            "not a .npy file",
        ),
        (vec![], DataLoss, "empty"),
        (good[..5].to_vec(), DataLoss, "magic number"),
        (good[..9].to_vec(), DataLoss, "within its header"),
        (good[..40].to_vec(), DataLoss, "within its header"),
        (good[..good.len() - 1].to_vec(), DataLoss, "7 are"),
        ([&good[..], &[0]].concat(), DataLoss, "9 are"),
        (huge, DataLoss, "a header of 4294967295 bytes"),
        (version, Unimplemented, "version 9.0"),
        (with("|O", "(1,)"), Unimplemented, "Python objects"),
        (with("<U2", "(1,)"), Unimplemented, "dtype '<U2'"),
        (with("<c8", "(1,)"), Unimplemented, "dtype '<c8'"),
        (with("<M8[ns]", "(1,)"), Unimplemented, "dtype '<M8[ns]'"),
        (with("?f4", "(2,)"), DataLoss, "dtype '?f4'"),
        (with("", "(2,)"), DataLoss, "dtype ''"),
        (with("<f8", "()"), InvalidArgument, "scalar"),
        (
            with("|u1", "(1,1,1,1,1,1,1,1,8)"),
            InvalidArgument,
            "9 dimensions",
        ),
        (with("<f4", "(-2,)"), DataLoss, "not understood"),
        (
            with("<f4", "(99999999999999999999999,)"),
            DataLoss,
            "not understood",
        ),
        (
            with("<f4", "(4611686018427387904, 4)"),
            DataLoss,
            "claims a shape",
        ),
        (
            with("<f4", "(1000000000000,)"),
            DataLoss,
            "4000000000000 bytes",
        ),
        (header("[('descr', '<f4')]"), DataLoss, "not understood"),
        (
            header("{'descr': '<f4', 'shape': (2,)}"),
            DataLoss,
            "not understood",
        ),
        (
            header("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': (2,)}"),
            DataLoss,
            "not understood",
        ),
        (
            header("{'descr': [('x', '<f4')], 'fortran_order': False, 'shape': (2,)}"),
            Unimplemented,
            "records",
        ),
        (
            header("{'descr': '<f4', 'fortran_order': False, 'shape': (2,)} + x"),
            DataLoss,
            "not understood",
        ),
    ];
    for (at, (bytes, status, part)) in table.into_iter().enumerate() {
        fails(open(&format!("wrong{at}"), &bytes), status, part);
    }
    fails(
        Dataset::from_npy_file("/no/such/file.npy"),
        Status::NotFound,
        "/no/such/file.npy",
    );
    fails(
        Dataset::from_npy_file("/"),
        InvalidArgument,
        "not a regular file",
    );
}

fn archive(entries: &[(&str, &[u8])], method: CompressionMethod) -> Vec<u8> {
    let mut writer = ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        let options = SimpleFileOptions::default().compression_method(method);
        writer.start_file(*name, options).unwrap();
        writer.write_all(bytes).unwrap();
    }
    writer.finish().unwrap().into_inner()
}

fn npz(path: &Path, names: Option<&[&str]>) -> Result<Dataset> {
    Dataset::from_npz_file(path, names)
}

#[test]
fn archives_of_arrays() {
    let x = npy(
        ">i4",
        false,
        "(2, 2)",
        &[1, 2, 3, 4].map(i32::to_be_bytes).concat(),
    );
    let y = npy("|u1", false, "(2,)", &[7, 8]);
    let z = npy("|u1", false, "(5,)", &[0; 5]);
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let bytes = archive(&[("x.npy", &x), ("y.npy", &y)], method);
        let file = Temporary::new(&format!("{method}.npz"), &bytes);
        let dataset = npz(&file.0, None).unwrap();
        assert_eq!(
            dataset.element_spec().to_string(),
            "{x: int32 [2], y: uint8 []}"
        );
        let seen = rest(&dataset.iterator().unwrap(), |element: &Value| {
            let leaf = |name| element.at_path(name).unwrap().tensor_of(0).unwrap();
            (read::<i32>(leaf("x")), read::<u8>(leaf("y"))[0])
        });
        assert_eq!(seen, [(vec![1, 2], 7), (vec![3, 4], 8)]);

        let bytes = archive(&[("x.npy", &x), ("z.npy", &z), ("y.npy", &y)], method);
        std::fs::write(&file.0, bytes).unwrap();
        fails(
            npz(&file.0, None),
            Status::InvalidArgument,
            "dimension 0 differs",
        );
        let chosen = npz(&file.0, Some(&["y", "x"])).unwrap();
        assert_eq!(
            chosen.element_spec().to_string(),
            "{y: uint8 [], x: int32 [2]}"
        );
        fails(npz(&file.0, Some(&["w"])), Status::NotFound, "'w'");
        fails(
            npz(&file.0, Some(&["x", "x"])),
            Status::InvalidArgument,
            "twice",
        );
        fails(
            npz(&file.0, Some(&[])),
            Status::InvalidArgument,
            "no arrays",
        );
    }
}

#[test]
fn archives_that_are_wrong_are_refused() {
    use Status::{DataLoss, InvalidArgument};
    let good = npy("<i4", false, "(2,)", &[0; 8]);
    let stored = |entries: &[(&str, &[u8])]| archive(entries, CompressionMethod::Stored);
    let packed = |entries: &[(&str, &[u8])]| archive(entries, CompressionMethod::Deflated);
    let large = npy("<f4", false, "(1000000000000,)", &[0; 64]);
    let mut flipped = stored(&[("x.npy", &good)]);
    let data = flipped
        .windows(4)
        .position(|four| four == b"  \n\0")
        .unwrap()
        + 3;
    flipped[data] ^= 1;
    let mut bomb = packed(&[("x.npy", &good)]);
    // The uncompressed size, in the central directory and in the local header.
    let central = bomb
        .windows(4)
        .position(|four| four == b"PK\x01\x02")
        .unwrap();
    bomb[central + 24..central + 28].copy_from_slice(&0x7fff_ffffu32.to_le_bytes());
    let table: Vec<(Vec<u8>, Status, &str)> = vec![
        (good.clone(), InvalidArgument, "not a .npz file"),
        (vec![], DataLoss, "empty"),
        (stored(&[]), InvalidArgument, "no arrays"),
        (stored(&[("x.txt", b"x")]), InvalidArgument, "no arrays"),
        (
            stored(&[("x.npy", b"not an array")]),
            InvalidArgument,
            "not a .npy file",
        ),
        (
            packed(&[("x.npy", &large)]),
            DataLoss,
            "4000000000000 bytes",
        ),
        (
            stored(&[("x.npy", &good[..good.len() - 2])]),
            DataLoss,
            "6 are",
        ),
        (flipped, DataLoss, "checksum"),
        (bomb, DataLoss, "are there"),
    ];
    for (at, (bytes, status, part)) in table.into_iter().enumerate() {
        let file = Temporary::new(&format!("wrong{at}.npz"), &bytes);
        fails(npz(&file.0, None), status, part);
    }
    fails(
        npz(Path::new("/no/such.npz"), None),
        Status::NotFound,
        "/no/such.npz",
    );
}

/// Entries that are not arrays, or not wanted, do not keep anybody from the arrays.
#[test]
fn other_entries_of_an_archive_are_ignored() {
    let [x, y] = [1, 2].map(|number| npy("<f4", false, "(1,)", &f32_bytes(number)));
    let entries: [(&str, &[u8]); 6] = [
        ("readme.txt", b"hello"),
        ("x.npy", &x),
        ("folder/", b""),
        ("objects.npy", &npy("|O", false, "(1,)", b"pickled")),
        ("y.npy", &y),
        ("x.npy.sig", b"signature"),
    ];
    let file = Temporary::new(
        "others.npz",
        &archive(&entries, CompressionMethod::Deflated),
    );
    for (name, number) in [("x", 1.0), ("y", 2.0)] {
        let array = umbo_core::checkpoint::arrays::load_npz(&file.0, name).unwrap();
        assert_eq!(
            array.to_vec::<f32>().unwrap(),
            [f32::from_le_bytes(f32_bytes(number as u8))]
        );
        npz(&file.0, Some(&[name])).unwrap();
    }
    fails(
        npz(&file.0, Some(&["readme.txt"])),
        Status::NotFound,
        "it has x, objects, y",
    );
    fails(npz(&file.0, None), Status::Unimplemented, "Python objects");
    let file = Temporary::new(
        "none.npz",
        &archive(&entries[..1], CompressionMethod::Stored),
    );
    fails(npz(&file.0, None), Status::InvalidArgument, "no arrays");
}

/// Compressions that are not read are not called damage.
#[test]
fn other_compressions_are_unimplemented() {
    let x = npy("<f4", false, "(1,)", &f32_bytes(1));
    let stored = archive(&[("x.npy", &x)], CompressionMethod::Stored);
    // The method stands in the header of the entry and in the directory. 12 is bzip2, 14 LZMA, 93
    // Zstandard.
    let directory = stored
        .windows(4)
        .position(|part| part == b"PK\x01\x02")
        .unwrap();
    for method in [12u16, 14, 93, 9, 77] {
        let mut bytes = stored.clone();
        for place in [8, directory + 10] {
            bytes[place..place + 2].copy_from_slice(&method.to_le_bytes());
        }
        let file = Temporary::new("compressed.npz", &bytes);
        for read in [npz(&file.0, None), npz(&file.0, Some(&["x"]))] {
            fails(read, Status::Unimplemented, "DEFLATE");
        }
    }
}

/// NumPy reads dtypes without an order of bytes, and its own names of them.
#[test]
fn dtypes_without_an_order_are_those_of_the_machine() {
    for (code, name) in [
        ("f4", "float32"),
        ("i8", "int64"),
        ("u2", "uint16"),
        ("b1", "bool"),
    ] {
        let size = code[1..].parse().unwrap();
        let bytes: Vec<u8> = [1].into_iter().chain([0; 7]).take(size).collect();
        for descr in [code, name] {
            let element = open(descr, &npy(descr, false, "(1,)", &bytes)).unwrap();
            assert!(element.element_spec().to_string().contains(name), "{descr}");
        }
    }
    fails(
        open("odd", &npy("#f4", false, "(1,)", &[0; 4])),
        Status::DataLoss,
        "dtype '#f4'",
    );
}

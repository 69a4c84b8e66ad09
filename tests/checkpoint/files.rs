//! Files: what is in them, and that damage is found.

use std::fs::{self, File};

use serde_json::Value as Json;
use umbo_core::checkpoint::reader::CheckpointFile;
use umbo_core::error::Status;
use umbo_core::strategy::variables::read;

use crate::scene::{Feature, Folder, Scene, bytes};

/// The checksum bit by bit, as its definition has it.
fn crc32(bytes: impl Iterator<Item = u8>) -> u32 {
    !bytes.fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(byte), |crc, _| {
            if crc & 1 == 1 {
                crc >> 1 ^ 0xedb8_8320
            } else {
                crc >> 1
            }
        })
    })
}

fn digits(json: &Json) -> u32 {
    u32::from_str_radix(json.as_str().unwrap(), 16).unwrap()
}

#[test]
fn a_file_is_what_the_format_says() {
    let folder = Folder::new();
    let path = folder.path("model.safetensors");
    let scene = Scene::new("momentum", Feature::Accumulation, 2);
    scene.train(4);
    scene.checkpoint.save(&path).unwrap();
    assert_eq!(folder.names(), ["model.safetensors"]);
    let file = bytes(&path);
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    assert_eq!(length % 8, 0);
    let (start, data) = file.split_at(8 + length);
    let header: Json = serde_json::from_slice(&start[8..]).unwrap();
    let own: Json = serde_json::from_str(header["__metadata__"]["umbo"].as_str().unwrap()).unwrap();
    assert_eq!(
        (own["format"].as_u64(), own["steps"].as_u64()),
        (Some(1), Some(4))
    );
    // The header's checksum counts its own digits as zeros.
    let text = std::str::from_utf8(start.get(8..).unwrap()).unwrap();
    let stated = own["checksums"]["header"].as_str().unwrap();
    let place = 8 + text.find(stated).unwrap();
    let zeroed = start.iter().enumerate();
    let zeroed = zeroed.map(|(at, &byte)| {
        if (place..place + 8).contains(&at) {
            b'0'
        } else {
            byte
        }
    });
    assert_eq!(crc32(zeroed), digits(&own["checksums"]["header"]));
    let mut covered = 0;
    for (name, info) in header.as_object().unwrap() {
        if name == "__metadata__" {
            continue;
        }
        let offset = |index: usize| info["data_offsets"][index].as_u64().unwrap() as usize;
        let part = &data[offset(0)..offset(1)];
        covered += part.len();
        assert_eq!(
            crc32(part.iter().copied()),
            digits(&own["checksums"]["tensors"][name]),
            "{name}"
        );
        if let Some(variable) = name.strip_prefix("model/") {
            let found = scene
                .variables
                .iter()
                .find(|found| found.name().as_str() == variable);
            let value = read(found.unwrap()).unwrap();
            assert_eq!(part, value.reading().unwrap().as_bytes().unwrap(), "{name}");
            assert_eq!(
                info["shape"].as_array().unwrap().len(),
                value.shape().rank()
            );
        }
    }
    assert_eq!(covered, data.len());
    assert_eq!(own["objects"]["optimizer0"]["rule"], "momentum");
    assert_eq!(own["objects"]["gradients0"]["runs"], 1);
    assert!(header["gradients0/model/wide/sum"]["dtype"] == "F64");
    CheckpointFile::open(&path).unwrap().verify().unwrap();
}

/// Each byte of a file counts, and so does its length.
#[test]
fn damage_is_found_and_nothing_is_changed() {
    let folder = Folder::new();
    let path = folder.path("whole");
    let damaged = folder.path("damaged");
    let scene = Scene::new("sgd", Feature::RowsAccumulation, 1);
    scene.train(2);
    scene.checkpoint.save(&path).unwrap();
    let whole = bytes(&path);
    scene.train(1);
    let before = scene.bits();
    let mut tried = 0;
    let mut refused = |bytes: &[u8], what: String| {
        fs::write(&damaged, bytes).unwrap();
        let error = scene.checkpoint.restore(&damaged).expect_err(&what);
        assert!(error.to_string().contains("damaged'"), "{what}: {error}");
        assert_ne!(error.status(), Status::Internal, "{what}: {error}");
        assert!(scene.bits() == before, "{what}: something changed");
        tried += 1;
    };
    for place in 0..whole.len() {
        let mut other = whole.clone();
        other[place] ^= 1 << (place % 8);
        refused(&other, format!("byte {place}"));
    }
    for length in (0..whole.len()).step_by(41) {
        refused(&whole[..length], format!("{length} bytes"));
    }
    refused(&[&whole[..], b"x"].concat(), "a byte more".into());
    assert!(tried > 4000, "{tried}");
}

#[test]
fn a_later_format_is_refused() {
    let folder = Folder::new();
    let path = folder.path("later");
    let scene = Scene::new("sgd", Feature::Plain, 1);
    scene.checkpoint.save(&path).unwrap();
    let text = bytes(&path);
    let place = text
        .windows(13)
        .position(|part| part == br#"\"format\":1,"#)
        .unwrap();
    let mut later = text.clone();
    later[place + 11] = b'2';
    fs::write(&path, later).unwrap();
    let error = scene.checkpoint.restore(&path).unwrap_err();
    assert_eq!(error.status(), Status::Unimplemented, "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
}

#[test]
fn what_killed_processes_have_left_is_removed() {
    let folder = Folder::new();
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let left = folder.path(".model.123.0.partial");
    let held = folder.path(".model.124.0.partial");
    let other = folder.path(".model2.123.0.partial");
    let own = folder.path("model.partial");
    for path in [&left, &held, &other, &own] {
        fs::write(path, "x").unwrap();
    }
    let holder = File::open(&held).unwrap();
    holder.lock().unwrap();
    scene.checkpoint.save(&folder.path("model")).unwrap();
    assert_eq!(
        folder.names(),
        [
            ".model.124.0.partial",
            ".model2.123.0.partial",
            "model",
            "model.partial"
        ]
    );
}

#[test]
fn paths_that_lead_nowhere_are_refused() {
    let folder = Folder::new();
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let save = |path: &std::path::Path| scene.checkpoint.save(path).unwrap_err();
    assert_eq!(
        save(&folder.path("no/such/folder")).status(),
        Status::NotFound
    );
    assert_eq!(save(&folder.path("")).status(), Status::InvalidArgument);
    assert_eq!(save(&folder.path("..")).status(), Status::InvalidArgument);
    let restore = |path: &std::path::Path| scene.checkpoint.restore(path).unwrap_err();
    assert_eq!(restore(&folder.path("nothing")).status(), Status::NotFound);
    assert_eq!(restore(&folder.path("")).status(), Status::InvalidArgument);
    fs::write(folder.path("empty"), "").unwrap();
    assert_eq!(restore(&folder.path("empty")).status(), Status::DataLoss);
    fs::write(folder.path("text"), "Lorem ipsum dolor sit amet").unwrap();
    assert_eq!(restore(&folder.path("text")).status(), Status::DataLoss);
}

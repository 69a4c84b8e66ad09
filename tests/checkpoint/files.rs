//! Files: what is in them, and that damage is found.

use std::collections::BTreeMap;
use std::fs::{self, File};

use serde_json::{Value as Json, json};
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
    let entry = |name: &str| header["__metadata__"][name].as_str().unwrap();
    let text = entry("umbo.checkpoint");
    let metadata: Json = serde_json::from_str(text).unwrap();
    assert_eq!(
        (metadata["format"].as_u64(), metadata["steps"].as_u64()),
        (Some(1), Some(4))
    );
    assert_eq!(
        crc32(text.bytes()),
        digits(&header["__metadata__"]["umbo.crc32"])
    );
    let all = header.as_object().unwrap().iter();
    let mut tensors: BTreeMap<&str, &Json> = all.map(|(name, info)| (&name[..], info)).collect();
    tensors.remove("__metadata__");
    let line = |(name, info): (&&str, &&Json)| {
        let sizes = info["shape"].as_array().unwrap().iter();
        let sizes: String = sizes.map(|size| format!(" {size}")).collect();
        format!("{name} {}{sizes}\n", info["dtype"].as_str().unwrap())
    };
    let lines: String = tensors.iter().map(line).collect();
    assert_eq!(crc32(lines.bytes()), digits(&metadata["tensors"]));
    let elements = metadata["elements"].as_str().unwrap();
    assert_eq!(elements.len(), 8 * tensors.len());
    let is_variable = |at: usize| {
        let runs = metadata["variables"].as_array().unwrap().iter();
        let [first, end] =
            [0, 1].map(|side| move |run: &Json| run[side].as_u64().unwrap() as usize);
        runs.filter(|run| (first(run)..end(run)).contains(&at))
            .count()
            == 1
    };
    let mut covered = 0;
    for (at, (&name, info)) in tensors.iter().enumerate() {
        let offset = |index: usize| info["data_offsets"][index].as_u64().unwrap() as usize;
        let part = &data[offset(0)..offset(1)];
        covered += part.len();
        assert_eq!(
            crc32(part.iter().copied()),
            digits(&elements[8 * at..8 * at + 8].into()),
            "{name}"
        );
        assert_eq!(is_variable(at), name.starts_with("model/"), "{name}");
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
    assert_eq!(metadata["objects"]["optimizer0"]["rule"], "momentum");
    assert_eq!(metadata["objects"]["gradients0"]["runs"], 1);
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
    let mut refused = |bytes: &[u8], damage: String| {
        fs::write(&damaged, bytes).unwrap();
        let error = scene.checkpoint.restore(&damaged).expect_err(&damage);
        assert!(error.to_string().contains("damaged'"), "{damage}: {error}");
        assert_ne!(error.status(), Status::Internal, "{damage}: {error}");
        assert!(scene.bits() == before, "{damage}: something changed");
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

/// The file with Umbo's entry changed, and its checksum made right.
fn edited(file: &[u8], edit: impl FnOnce(&mut Json)) -> Vec<u8> {
    let length = u64::from_le_bytes(file[..8].try_into().unwrap()) as usize;
    let (start, data) = file.split_at(8 + length);
    let mut header: Json = serde_json::from_slice(&start[8..]).unwrap();
    let metadata = &mut header["__metadata__"];
    let text = metadata["umbo.checkpoint"].as_str().unwrap();
    let mut entry: Json = serde_json::from_str(text).unwrap();
    edit(&mut entry);
    let text = entry.to_string();
    metadata["umbo.crc32"] = format!("{:08x}", crc32(text.bytes())).into();
    metadata["umbo.checkpoint"] = text.into();
    let header = header.to_string();
    let length = (header.len() as u64).to_le_bytes();
    [&length, header.as_bytes(), data].concat()
}

#[test]
fn later_versions_are_refused_and_later_fields_are_ignored() {
    let folder = Folder::new();
    let path = folder.path("now");
    let later = folder.path("later");
    let scene = Scene::new("adam", Feature::Plain, 1);
    scene.train(2);
    scene.checkpoint.save(&path).unwrap();
    let file = bytes(&path);
    let restore = |edit: &dyn Fn(&mut Json)| {
        fs::write(&later, edited(&file, edit)).unwrap();
        scene.checkpoint.restore(&later)
    };
    let error = restore(&|metadata| *metadata = json!({"format": 2, "steps": "four"})).unwrap_err();
    assert_eq!(error.status(), Status::Unimplemented, "{error}");
    assert!(error.to_string().contains("version 2"), "{error}");
    let deep = (0..60).fold(json!(1), |inner, _| json!([inner]));
    let field = |metadata: &mut Json| metadata["later"] = deep.clone();
    restore(&|metadata| {
        field(metadata);
        field(&mut metadata["objects"]["optimizer0"]);
        field(&mut metadata["objects"]["optimizer0"]["variables"]["model/wide"]);
        field(&mut metadata["objects"]["metrics"]["metrics"]["loss"]);
        field(&mut metadata["objects"]["epoch"]);
        metadata.as_object_mut().unwrap().remove("library");
    })
    .unwrap();
    scene.checkpoint.save(&later).unwrap();
    assert!(bytes(&later) == file, "something else was restored");
}

/// Contents that have the right checksum: each of them is a mismatch, or damage.
#[test]
fn values_out_of_range_are_refused() {
    let folder = Folder::new();
    let path = folder.path("whole");
    let other = folder.path("other");
    let scene = Scene::new("adam", Feature::DynamicLossScale, 1);
    scene.train(2);
    scene.checkpoint.save(&path).unwrap();
    let file = bytes(&path);
    let before = scene.bits();
    let refused = |edit: &dyn Fn(&mut Json), status: Status, part: &str| {
        fs::write(&other, edited(&file, edit)).unwrap();
        let error = scene.checkpoint.restore(&other).expect_err(part);
        assert_eq!(error.status(), status, "{error}");
        assert!(
            error.to_string().contains(part),
            "'{part}' is not in: {error}"
        );
        assert!(scene.bits() == before, "{part}: something changed");
    };
    let damaged = |edit: &dyn Fn(&mut Json), part: &str| refused(edit, Status::DataLoss, part);
    damaged(
        &|metadata| metadata["format"] = json!("1"),
        "its metadata: invalid type",
    );
    damaged(
        &|metadata| metadata["steps"] = json!(1u64 << 53),
        "a count below 2^53",
    );
    damaged(
        &|metadata| metadata["steps"] = Json::Null,
        "its metadata: invalid type",
    );
    damaged(
        &|metadata| metadata["objects"]["epoch"] = json!({}),
        "missing field `kind`",
    );
    damaged(
        &|metadata| metadata["tensors"] = json!("00000000"),
        "damaged, or rewritten: Umbo's metadata are of",
    );
    let elements = |metadata: &Json| metadata["elements"].as_str().unwrap().to_owned();
    damaged(
        &|metadata| metadata["elements"] = json!(elements(metadata) + "00000000"),
        "damaged, or rewritten: Umbo's metadata are of",
    );
    damaged(
        &|metadata| metadata["elements"] = json!(elements(metadata).to_uppercase()),
        "eight hexadecimal digits",
    );
    damaged(
        &|metadata| metadata["elements"] = json!(elements(metadata).replace(|_| true, "0")),
        "and should have 00000000",
    );
    for runs in [json!([[0, 1000]]), json!([[1, 1]]), json!([[1, 2], [0, 1]])] {
        damaged(
            &|metadata| metadata["variables"] = runs.clone(),
            "variables at",
        );
    }
    damaged(
        &|metadata| metadata["objects"]["model/wide"] = json!({"kind": "tensor"}),
        "'model/wide' is a variable and another object",
    );
    refused(
        &|metadata| metadata["variables"] = json!([]),
        Status::InvalidArgument,
        "missing: the file has no variable 'model/wide'",
    );
    damaged(
        &|metadata| metadata["parts"] = json!([{"file": "../whole", "crc32": "00000000"}]),
        "'../whole' is not the name of a file",
    );
    for (shape, boundaries) in [
        ([4, 5], [0, 19]),
        ([4, 5], [1, 20]),
        ([1u64 << 40, 1 << 40], [0, 1]),
    ] {
        let sharding = json!({"x": {"shape": shape, "boundaries": boundaries}});
        damaged(
            &|metadata| metadata["sharded"] = sharding.clone(),
            "its metadata: ",
        );
    }
    type Edit<'a> = &'a dyn Fn(&mut Json);
    let objects: [(Edit<'_>, &str); 12] = [
        (
            &|all| all["optimizer0"]["rule"] = json!("x"),
            "optimizer0: its rule is adam here, x",
        ),
        (
            &|all| all["optimizer0"]["learning_rate"] = json!(-1),
            "optimizer0: its values in the file are not valid: -1 where a number of at least 0",
        ),
        (
            &|all| all["optimizer0"]["iterations"] = json!(0.5),
            "optimizer0: its values",
        ),
        (
            &|all| all["optimizer0"]["dynamic_loss_scale"]["scale"] = json!(0),
            "optimizer0: its loss scale in the file is 0",
        ),
        (
            &|all| all["optimizer0"]["variables"]["model/wide"]["updates"] = json!(0),
            "optimizer0: in the file 'model/wide' was updated 0 times",
        ),
        (
            &|all| all["optimizer0"]["variables"]["model/wide"]["running"] = json!([1]),
            "optimizer0: in the file 'model/wide' was updated",
        ),
        (
            &|all| all["gradients0"]["weight"] = json!(-0.5),
            "gradients0: its values",
        ),
        (
            &|all| all["gradients0"]["loss_reduction"] = json!("median"),
            "unknown variant `median`, expected one of `sum`, `mean`, `global_mean`",
        ),
        (
            &|all| all["metrics"]["metrics"]["loss"]["total"] = Json::Null,
            "metrics: metric 'loss' has no total of its kind",
        ),
        (
            &|all| all["metrics"]["metrics"]["seen"]["total"]["counts"]["hits"] = json!(-1),
            "metrics: its values",
        ),
        (
            &|all| all["epoch"]["value"] = json!({"integer": 0.5}),
            "epoch: its values",
        ),
        (
            &|all| all["pass"]["position"] = json!(7),
            "pass: position: is not a saved position: invalid type",
        ),
    ];
    for (edit, part) in objects {
        refused(
            &|metadata| edit(&mut metadata["objects"]),
            Status::InvalidArgument,
            part,
        );
    }
}

#[test]
fn partial_files_of_killed_processes_are_removed() {
    let folder = Folder::new();
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let left = folder.path(".model.123.0.partial");
    let held = folder.path(".model.124.0.partial");
    let other = folder.path(".model2.123.0.partial");
    let own_partial = folder.path("model.partial");
    for path in [&left, &held, &other, &own_partial] {
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

//! Checkpoints in memory: the bytes of files, and refused as files are.

use std::fs;
use std::mem::MaybeUninit;

use umbo_core::checkpoint::reader::CheckpointFile;
use umbo_core::checkpoint::{LoadWeightsOptions, LoadedWeights, SaveWeightsOptions};
use umbo_core::error::{Error, Result, Status};
use umbo_core::strategy::variables::read;
use umbo_core::tensor::DType;

use crate::scene::{Feature, Folder, Scene, bytes, strategy, values, variable};

/// The bytes that `save` writes to memory that is one byte larger than it has to be.
fn in_memory(save: impl Fn(&mut [MaybeUninit<u8>]) -> Result<usize>) -> Vec<u8> {
    let untouched = 0xa5;
    let size = save(&mut []).unwrap();
    let mut short = vec![MaybeUninit::new(untouched); size - 1];
    assert_eq!(save(&mut short).unwrap(), size);
    let mut memory = vec![MaybeUninit::new(untouched); size + 1];
    assert_eq!(save(&mut memory).unwrap(), size);
    let bytes = |memory: Vec<MaybeUninit<u8>>| -> Vec<u8> {
        let bytes = memory.into_iter();
        bytes
            // SAFETY: each was made of a number above, and a save writes numbers over some.
            .map(|byte| unsafe { byte.assume_init() })
            .collect()
    };
    assert!(bytes(short).iter().all(|&byte| byte == untouched));
    let mut all = bytes(memory);
    assert_eq!(all.pop(), Some(untouched));
    all
}

#[test]
fn memory_has_the_bytes_of_a_file() {
    for feature in [Feature::Accumulation, Feature::EightBits] {
        has_the_bytes_of_a_file(feature);
    }
}

fn has_the_bytes_of_a_file(feature: Feature) {
    let folder = Folder::new();
    let path = folder.path("file");
    let from = Scene::new("adam", feature, 2);
    from.train(4);
    from.checkpoint.save(&path).unwrap();
    let whole = in_memory(|memory| from.checkpoint.save_to_memory(memory));
    assert!(whole == bytes(&path));
    from.checkpoint.save_weights(&path).unwrap();
    let weights = in_memory(|memory| {
        from.checkpoint
            .save_weights_to_memory(memory, SaveWeightsOptions::default())
    });
    assert!(weights == bytes(&path));

    let to = Scene::new("adam", feature, 2);
    to.checkpoint.restore_from_memory(&whole).unwrap();
    assert_eq!(to.bits(), from.bits());
    from.train(3);
    to.train(3);
    assert_eq!(to.bits(), from.bits());
    let file = CheckpointFile::in_memory(&weights).unwrap();
    let other = Scene::new("adam", feature, 1);
    let loaded = other
        .checkpoint
        .load_weights_from(&file, LoadWeightsOptions::default());
    assert_eq!(loaded.unwrap().unused, Vec::<String>::new());
}

#[test]
fn bytes_in_memory_are_refused_as_those_of_files_are() {
    let folder = Folder::new();
    let path = folder.path("file");
    let scene = Scene::new("sgd", Feature::Plain, 1);
    scene.train(1);
    let good = in_memory(|memory| scene.checkpoint.save_to_memory(memory));
    scene.train(1);
    let before = scene.bits();
    let same = |given: &[u8], case: &str| {
        fs::write(&path, given).unwrap();
        let outcome = |result: Result<()>| result.map_err(|error| error.status());
        let of_file = outcome(scene.checkpoint.restore(&path));
        let of_memory = outcome(scene.checkpoint.restore_from_memory(given));
        assert_eq!(of_memory, of_file, "{case}");
        assert!(of_memory.is_err(), "{case}");
        assert_eq!(scene.bits(), before, "{case}");
    };
    for length in (0..good.len()).step_by(97).chain([good.len() - 1]) {
        same(&good[..length], &format!("cut off at {length}"));
    }
    for at in (0..good.len()).step_by(61).chain(0..16) {
        let mut bad = good.clone();
        bad[at] ^= 1 << (at % 8);
        same(&bad, &format!("another byte at {at}"));
    }
    same(&[good.clone(), vec![0]].concat(), "a byte more");
    let error = scene
        .checkpoint
        .restore_from_memory(&good[..good.len() - 1]);
    let message = error.unwrap_err().to_string();
    assert!(message.starts_with("'data': damaged"), "{message}");
    let weights = in_memory(|memory| {
        scene
            .checkpoint
            .save_weights_to_memory(memory, SaveWeightsOptions::default())
    });
    let error = scene.checkpoint.restore_from_memory(&weights).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(error.to_string().starts_with("data: "), "{error}");
    scene.checkpoint.restore_from_memory(&good).unwrap();
}

/// Variables of one type in memory, loaded into those of another one.
#[test]
fn floats_are_converted_if_the_options_say_so() {
    let wide = strategy(1);
    let from = umbo_core::checkpoint::Checkpoint::new(&wide);
    let double = variable(&wide, "a", &[5], DType::Float64);
    from.add("net/a", std::sync::Arc::new(double.clone()))
        .unwrap();
    let narrow = strategy(1);
    let to = umbo_core::checkpoint::Checkpoint::new(&narrow);
    let float = variable(&narrow, "a", &[5], DType::Float32);
    to.add("a", std::sync::Arc::new(float.clone())).unwrap();
    let weights =
        in_memory(|memory| from.save_weights_to_memory(memory, SaveWeightsOptions::default()));
    let file = CheckpointFile::in_memory(&weights).unwrap();
    let prefixed = |convert_floats| LoadWeightsOptions {
        prefix: "net/",
        convert_floats,
        ..LoadWeightsOptions::default()
    };
    let error = to.load_weights_from(&file, prefixed(false)).unwrap_err();
    assert!(
        error.to_string().contains("is float32 here, float64"),
        "{error}"
    );
    to.load_weights_from(&file, prefixed(true)).unwrap();
    let rounded: Vec<f64> = values(&read(&double).unwrap())
        .into_iter()
        .map(|value| f64::from(value as f32))
        .collect();
    assert_eq!(values(&read(&float).unwrap()), rounded);
    // And back: each float32 is a float64.
    let weights =
        in_memory(|memory| to.save_weights_to_memory(memory, SaveWeightsOptions::default()));
    let file = CheckpointFile::in_memory(&weights).unwrap();
    let pairs = [("net/a", "a")];
    let options = LoadWeightsOptions {
        pairs: Some(&pairs),
        convert_floats: true,
        ..LoadWeightsOptions::default()
    };
    from.load_weights_from(&file, options).unwrap();
    assert_eq!(values(&read(&double).unwrap()), rounded);
}

#[test]
fn names_are_mapped_and_what_is_left_is_reported() {
    let scene = Scene::new("sgd", Feature::Plain, 1);
    scene.train(2);
    let weights = in_memory(|memory| {
        scene
            .checkpoint
            .save_weights_to_memory(memory, SaveWeightsOptions::default())
    });
    let file = CheckpointFile::in_memory(&weights).unwrap();
    let names = file.names();
    let (first, second) = (names[0], names[1]);
    let before = scene.bits();
    let load = |map: &mut dyn FnMut(&str) -> Result<Option<String>>, allow_missing| {
        let options = LoadWeightsOptions {
            map_name: Some(map),
            allow_missing,
            ..LoadWeightsOptions::default()
        };
        scene.checkpoint.load_weights_from(&file, options)
    };
    scene.train(1);
    let mut one = |name: &str| Ok((name == first).then(|| first.to_owned()));
    let error = load(&mut one, false).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("gives no tensor of the file for"),
        "{error}"
    );
    let LoadedWeights { variables, unused } = load(&mut one, true).unwrap();
    let (loaded, missing): (Vec<_>, Vec<_>) = variables
        .into_iter()
        .partition(|(_, tensor)| tensor.is_some());
    assert_eq!(loaded, [(first.to_owned(), Some(first.to_owned()))]);
    assert_eq!(missing.len(), names.len() - 1);
    assert_eq!(unused, names[1..]);
    assert_ne!(scene.bits().0, before.0);
    load(&mut |name| Ok(Some(name.to_owned())), false).unwrap();
    assert_eq!(scene.bits().0, before.0);

    let error = load(&mut |_| Ok(Some(first.to_owned())), true).unwrap_err();
    let expected = format!("it gives '{first}' for the tensors '{first}' and '{second}'");
    assert!(error.to_string().contains(&expected), "{error}");
    let refused = load(&mut |_| Err(Error::precondition("not now")), true).unwrap_err();
    assert_eq!(refused.status(), Status::FailedPrecondition);
}

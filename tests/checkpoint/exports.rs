//! Variables alone, for other programs: in another type, and in several files with an index.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU64;
use std::path::Path;

use safetensors::tensor::{Dtype, SafeTensors};
use serde_json::Value as Json;
use umbo_core::checkpoint::reader::CheckpointFile;
use umbo_core::checkpoint::{Checkpoint, LoadWeightsOptions, SaveWeightsOptions};
use umbo_core::collectives::Assignment;
use umbo_core::error::{Error, Status};
use umbo_core::strategy::variables::{assign, read};
use umbo_core::values::Value;

use umbo_core::tensor::{DType, Tensor};

use crate::scene::{Feature, Folder, Scene, bytes, shape, strategy, variable};

const INDEX: &str = "model.safetensors.index.json";

fn in_type(dtype: DType) -> SaveWeightsOptions {
    SaveWeightsOptions {
        float_dtype: Some(dtype),
        ..SaveWeightsOptions::default()
    }
}

fn in_files(bytes: u64) -> SaveWeightsOptions {
    SaveWeightsOptions {
        max_file_bytes: NonZeroU64::new(bytes),
        ..SaveWeightsOptions::default()
    }
}

/// The names of the files of a folder.
fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
}

fn load(checkpoint: &Checkpoint, path: &Path) -> Result<(), Error> {
    let options = LoadWeightsOptions {
        convert_floats: true,
        ..LoadWeightsOptions::default()
    };
    let file = CheckpointFile::open(path)?;
    checkpoint.load_weights_from(&file, options).map(|_| ())
}

/// A number of each kind that rounding treats in its own way, and others.
fn numbers(seed: u32, count: usize) -> Vec<f32> {
    let special = [0.0, -0.0, 1.0, -2.5, f32::INFINITY, 6e-8, 65_504.0, 1e-40];
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(747_796_405).wrapping_add(2_891_336_453);
        let exponent = (state >> 27) as i32 - 16;
        (f64::from(state & 0xffff) / 65_536.0 - 0.5) as f32 * 2f32.powi(exponent)
    };
    let drawn = std::iter::repeat_with(&mut next);
    special.into_iter().chain(drawn).take(count).collect()
}

#[test]
fn variables_are_written_in_16_bits_as_the_crate_half_rounds_them() {
    let folder = Folder::new();
    let path = folder.path("exported");
    for seed in 0..20 {
        let values = numbers(seed, 300);
        let strategy = strategy(2);
        let weights = variable(&strategy, "w", &[300], DType::Float32);
        let host = umbo_core::device::DeviceId::HOST;
        let value = Tensor::from_slice(&values, shape(&[300]), host).unwrap();
        assign(&weights, Assignment::Assign, &Value::Tensor(value)).unwrap();
        let checkpoint = Checkpoint::new(&strategy);
        checkpoint.add("w", std::sync::Arc::new(weights)).unwrap();
        for dtype in [DType::BFloat16, DType::Float16] {
            checkpoint.save_weights_as(&path, in_type(dtype)).unwrap();
            let file = bytes(&path);
            let (_, header) = SafeTensors::read_metadata(&file).unwrap();
            // Hugging Face's libraries ask for it.
            assert_eq!(header.metadata().as_ref().unwrap()["format"], "pt");
            let file = SafeTensors::deserialize(&file).unwrap();
            let tensor = file.tensor("w").unwrap();
            let (expected, name): (Vec<u16>, _) = match dtype {
                DType::Float16 => {
                    let bits = values.iter().map(|&one| half::f16::from_f32(one).to_bits());
                    (bits.collect(), Dtype::F16)
                }
                _ => {
                    let bits = values
                        .iter()
                        .map(|&one| half::bf16::from_f32(one).to_bits());
                    (bits.collect(), Dtype::BF16)
                }
            };
            assert_eq!(tensor.dtype(), name);
            let expected: Vec<u8> = expected.into_iter().flat_map(u16::to_le_bytes).collect();
            assert!(tensor.data() == expected, "{dtype}, seed {seed}");
            let memory = checkpoint.save_weights_to_memory(&mut [], in_type(dtype));
            assert_eq!(memory.unwrap() as u64, fs::metadata(&path).unwrap().len());
        }
    }
}

#[test]
fn integers_stay_and_floats_of_the_type_too() {
    let folder = Folder::new();
    let path = folder.path("exported");
    let scene = Scene::new("adam", Feature::Plain, 2);
    scene.train(1);
    scene
        .checkpoint
        .save_weights_as(&path, in_type(DType::Float64))
        .unwrap();
    let other = Scene::new("adam", Feature::Plain, 1);
    load(&other.checkpoint, &path).unwrap();
    // Every float32 is a float64.
    assert_eq!(other.bits().0, scene.bits().0);
}

#[test]
fn what_would_become_infinite_is_refused_by_name() {
    let folder = Folder::new();
    let path = folder.path("exported");
    let scene = Scene::new("sgd", Feature::Plain, 2);
    scene.checkpoint.save_weights(&path).unwrap();
    let old = bytes(&path);
    let host = umbo_core::device::DeviceId::HOST;
    let mut large = vec![1f32; 15];
    large[11] = 70_000.0;
    let value = Tensor::from_slice(&large, shape(&[5, 3]), host).unwrap();
    assign(
        &scene.variables[0],
        Assignment::Assign,
        &Value::Tensor(value),
    )
    .unwrap();
    let refused = scene
        .checkpoint
        .save_weights_as(&path, in_type(DType::Float16))
        .unwrap_err();
    assert_eq!(refused.status(), Status::InvalidArgument);
    for part in ["element 11", "'model/dense/kernel'", "7e4", "bfloat16"] {
        assert!(refused.to_string().contains(part), "{refused}");
    }
    assert!(bytes(&path) == old);
    let brain = in_type(DType::BFloat16);
    scene.checkpoint.save_weights_as(&path, brain).unwrap();
    let refused = scene
        .checkpoint
        .save_weights_as(&path, in_type(DType::Int32))
        .unwrap_err();
    assert!(refused.to_string().contains("float_dtype"), "{refused}");
    let refused = scene.checkpoint.save_weights_as(&path, in_files(100));
    let refused = refused.unwrap_err();
    assert!(refused.to_string().contains("max_file_bytes"), "{refused}");
}

/// Each limit makes files that together are the variables, within the limit unless one variable has
/// more, and nothing of the save before stays.
#[test]
fn several_files_are_the_variables_and_replace_each_other() {
    let folder = Folder::new();
    let index = folder.path(INDEX);
    let scene = Scene::new("adam", Feature::Plain, 2);
    let beside = folder.path("model.safetensors");
    scene.checkpoint.save(&beside).unwrap();
    for (round, largest) in [1, 4, 60, 61, 112, 1680, 5000].into_iter().enumerate() {
        scene.train(1);
        let options = in_files(largest);
        scene.checkpoint.save_weights_as(&index, options).unwrap();
        let text: Json = serde_json::from_slice(&bytes(&index)).unwrap();
        assert_eq!(text["metadata"]["total_size"], 1680 + 60 + 4 + 48);
        let map: BTreeMap<String, String> =
            serde_json::from_value(text["weight_map"].clone()).unwrap();
        assert_eq!(map.len(), 4);
        let mut shards: Vec<&String> = map.values().collect();
        shards.sort();
        shards.dedup();
        for shard in &shards {
            let file = bytes(&folder.path(shard));
            let file = SafeTensors::deserialize(&file).unwrap();
            let sizes: Vec<u64> = file
                .tensors()
                .iter()
                .map(|(_, tensor)| tensor.data().len() as u64)
                .collect();
            let fits = sizes.iter().sum::<u64>() <= largest;
            assert!(fits || sizes.len() == 1, "{largest}: {sizes:?}");
            let named = file.names().into_iter().all(|name| &&map[name] == shard);
            assert!(named, "{map:?}");
        }
        let mut expected: Vec<String> = shards.into_iter().cloned().collect();
        expected.extend([INDEX.to_owned(), "model.safetensors".to_owned()]);
        expected.sort();
        assert_eq!(names(index.parent().unwrap()), expected, "round {round}");
        let other = Scene::new("sgd", Feature::Plain, 1);
        load(&other.checkpoint, &index).unwrap();
        assert_eq!(other.bits().0, scene.bits().0);
    }
    // Without a limit all are in one file, and the checkpoint is still one.
    let all = SaveWeightsOptions::default();
    scene.checkpoint.save_weights_as(&index, all).unwrap();
    assert_eq!(names(index.parent().unwrap()).len(), 3);
    scene.checkpoint.restore(&beside).unwrap();
}

/// A folder in the place of a file stops the save there: the old model stays, with all its files.
#[test]
fn a_save_that_fails_leaves_the_old_files() {
    let folder = Folder::new();
    let index = folder.path(INDEX);
    let scene = Scene::new("adam", Feature::Plain, 2);
    let save = || scene.checkpoint.save_weights_as(&index, in_files(100));
    // The names of the next files follow from the weights.
    save().unwrap();
    let first = names(index.parent().unwrap());
    let before = scene.bits();
    scene.train(1);
    save().unwrap();
    let second = names(index.parent().unwrap());
    assert!(
        first
            .iter()
            .all(|name| name == INDEX || !second.contains(name))
    );
    for blocked in first.iter().filter(|name| *name != INDEX) {
        // The weights of the first save, again.
        let again = Scene::new("adam", Feature::Plain, 2);
        assert_eq!(again.bits(), before);
        let place = folder.path(blocked);
        fs::create_dir(&place).unwrap();
        let refused = again.checkpoint.save_weights_as(&index, in_files(100));
        assert!(refused.is_err());
        fs::remove_dir(&place).unwrap();
        assert_eq!(names(index.parent().unwrap()), second);
        let other = Scene::new("sgd", Feature::Plain, 1);
        load(&other.checkpoint, &index).unwrap();
        assert_eq!(other.bits().0, scene.bits().0);
    }
    // The same weights make the same files, which a failure does not remove.
    save().unwrap();
    assert_eq!(names(index.parent().unwrap()), second);
}

/// The weights that are exported are the averages where these stand for the weights.
#[test]
fn averages_are_exported() {
    let folder = Folder::new();
    let path = folder.path("averages");
    let scene = Scene::new("sgd", Feature::Average, 2);
    scene.train(4);
    let optimizer = &scene.trainers[0].0;
    let weights = read(&scene.variables[0]).unwrap().to_vec::<f32>().unwrap();
    optimizer
        .with_average(|| {
            scene
                .checkpoint
                .save_weights_as(&path, in_type(DType::BFloat16))
        })
        .unwrap();
    let file = bytes(&path);
    let file = SafeTensors::deserialize(&file).unwrap();
    let tensor = file.tensor("model/dense/kernel").unwrap();
    let rounded: Vec<u8> = weights
        .iter()
        .flat_map(|&one| half::bf16::from_f32(one).to_bits().to_le_bytes())
        .collect();
    assert_eq!(tensor.data().len(), rounded.len());
    assert!(tensor.data() != rounded);
}

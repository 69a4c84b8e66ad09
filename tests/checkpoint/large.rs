//! Files that several threads read, and that are written while other threads want to train.

use std::collections::HashMap;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use safetensors::tensor::{Dtype, TensorView, serialize};
use umbo_core::checkpoint::Checkpoint;
use umbo_core::collectives::Assignment;
use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::strategy::variables::{Initial, assign, create, read};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::{DType, Tensor};
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use crate::scene::{Folder, bytes, shape, strategy, values, variable};

/// More than two mebibytes of float32, which are read in three pieces, and the last of them ends
/// anywhere.
const ELEMENTS: usize = 700_001;

fn checkpoint_of(strategy: &Strategy, variables: &[Variable]) -> Arc<Checkpoint> {
    let checkpoint = Checkpoint::new(strategy);
    for variable in variables {
        checkpoint
            .add(variable.name().as_str(), Arc::new(variable.clone()))
            .unwrap();
    }
    checkpoint
}

fn filled(value: f32) -> Value {
    let tensor = Tensor::from_slice(&vec![value; ELEMENTS], shape(&[ELEMENTS]), DeviceId::HOST);
    Value::Tensor(tensor.unwrap())
}

/// In whatever piece of a tensor a byte is wrong, the tensor is named and no variable is changed,
/// whichever thread has read it and whatever the others have read by then.
#[test]
fn damage_is_found_in_every_piece_of_a_tensor() {
    let folder = Folder::new();
    let whole = folder.path("whole");
    let weights = folder.path("weights");
    let damaged = folder.path("damaged");
    let strategy = strategy(1);
    let made = |name: &str, elements| variable(&strategy, name, &[elements], DType::Float32);
    let variables = [
        made("empty", 0),
        made("first", ELEMENTS),
        made("last", ELEMENTS / 2),
    ];
    let saved = variables
        .each_ref()
        .map(|variable| values(&read(variable).unwrap()));
    let checkpoint = checkpoint_of(&strategy, &variables);
    checkpoint.save(&whole).unwrap();
    checkpoint.save_weights(&weights).unwrap();
    for variable in &variables[1..] {
        let zeros = Tensor::zeros(DType::Float32, variable.shape(), DeviceId::HOST).unwrap();
        assign(variable, Assignment::Assign, &Value::Tensor(zeros)).unwrap();
    }
    let before = variables
        .each_ref()
        .map(|variable| values(&read(variable).unwrap()));
    for path in [&whole, &weights] {
        let file = bytes(path);
        let data = file.len() - 4 * (ELEMENTS + ELEMENTS / 2);
        let end = 4 * ELEMENTS;
        for (place, name) in [
            (0, "first"),
            ((1 << 20) - 1, "first"),
            (1 << 20, "first"),
            (end - 1, "first"),
            (end, "last"),
            (file.len() - data - 1, "last"),
        ] {
            let mut wrong = file.clone();
            wrong[data + place] ^= 0x10;
            fs::write(&damaged, wrong).unwrap();
            for loads in [true, false] {
                let error = match loads {
                    true => checkpoint.load_weights(&damaged, None),
                    false if path == &weights => continue,
                    false => checkpoint.restore(&damaged),
                };
                let error = error.unwrap_err();
                assert_eq!(error.status(), Status::DataLoss, "{place}: {error}");
                let named = format!("tensor '{name}' has checksum");
                assert!(error.to_string().contains(&named), "{place}: {error}");
            }
        }
        let now = variables
            .each_ref()
            .map(|variable| values(&read(variable).unwrap()));
        assert!(now == before);
    }
    checkpoint.restore(&whole).unwrap();
    assert!(
        variables
            .each_ref()
            .map(|variable| values(&read(variable).unwrap()))
            == saved
    );
}

/// A file of others has no checksums, and any byte but 0 is true in it.
#[test]
fn large_files_of_others_are_read() {
    let folder = Folder::new();
    let path = folder.path("others");
    let strategy = strategy(2);
    let weights: Vec<f32> = (0..ELEMENTS).map(|index| index as f32 / 7.0).collect();
    let elements: Vec<u8> = weights
        .iter()
        .flat_map(|weight| weight.to_le_bytes())
        .collect();
    let tensors = HashMap::from([
        (
            "weights",
            TensorView::new(Dtype::F32, vec![ELEMENTS], &elements).unwrap(),
        ),
        (
            "mask",
            TensorView::new(Dtype::BOOL, vec![4], &[0, 1, 2, 255]).unwrap(),
        ),
    ]);
    fs::write(&path, serialize(tensors, None).unwrap()).unwrap();
    let mask = Tensor::from_bytes(DType::Bool, shape(&[4]), &[1, 0, 0, 0], DeviceId::HOST);
    let new = crate::fresh::new_variable("mask", Aggregation::None);
    let mask = create(Some(&strategy), new, Initial::Value(&mask.unwrap())).unwrap();
    let variables = [
        variable(&strategy, "weights", &[ELEMENTS], DType::Float32),
        mask,
    ];
    checkpoint_of(&strategy, &variables)
        .load_weights(&path, None)
        .unwrap();
    assert!(read(&variables[0]).unwrap().to_vec::<f32>().unwrap() == weights);
    let mask = read(&variables[1]).unwrap();
    assert_eq!(
        mask.reading().unwrap().as_bytes(),
        Some(&[0u8, 1, 1, 1][..])
    );
}

/// A file is written of the variables themselves, and yet has them as they were between two steps.
#[test]
fn a_file_is_of_one_step_while_another_thread_trains() {
    let folder = Folder::new();
    let path = folder.path("whole");
    let alone = folder.path("weights");
    let training = strategy(2);
    let reading = strategy(1);
    let variables_of = |strategy: &Strategy| {
        ["a", "b"].map(|name| variable(strategy, name, &[ELEMENTS], DType::Float32))
    };
    let trained = variables_of(&training);
    let restored = variables_of(&reading);
    let from = checkpoint_of(&training, &trained);
    let to = checkpoint_of(&reading, &restored);
    let step = |context: &ReplicaContext| {
        for variable in &trained {
            assign(
                variable,
                Assignment::Assign,
                &filled(context.step_number() as f32),
            )?;
        }
        Ok(None)
    };
    training.run(&step, None).unwrap();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                training.run(&step, None).unwrap();
            }
        });
        let mut last = 0.0;
        for _ in 0..5 {
            from.save(&path).unwrap();
            from.save_weights(&alone).unwrap();
            for file in [&path, &alone] {
                to.load_weights(file, None).unwrap();
                let all = restored
                    .each_ref()
                    .map(|variable| values(&read(variable).unwrap()));
                let number = all[0][0];
                assert!(
                    all.iter().flatten().all(|&element| element == number),
                    "{number}"
                );
                assert!(number >= last);
                last = number;
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

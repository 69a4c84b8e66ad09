//! What row-sparse gradients cost does not grow with the table.

use std::fs;

use umbo_core::device::DeviceId;
use umbo_core::optimizer::LossReduction::Sum;
use umbo_core::optimizer::Settings;
use umbo_core::strategy::commit::StepParticipant;
use umbo_core::tensor::{DType, Shape, Tensor};

use crate::setup::*;

/// 2 GiB of float32.
const ROWS: usize = 1 << 23;
const WIDTH: usize = 64;

/// The memory that the process has touched, in bytes.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status
        .lines()
        .find(|line| line.starts_with("VmRSS:"))
        .unwrap();
    let kibibytes: usize = line.split_whitespace().nth(1).unwrap().parse().unwrap();
    kibibytes << 10
}

/// Of 2 GiB of a table, as much of each of Adam's moments, and dense gradients if there were any,
/// only what belongs to the rows is ever touched: a pass over any of it would show.
#[test]
fn rows_that_nobody_names_are_never_touched() {
    let before = resident();
    let shape = Shape::new(&[ROWS, WIDTH]).unwrap();
    let value = Tensor::zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
    let table = variable_from(STRATEGY, "table", value);
    let gradients = row_gradients(2, &[&table], Sum, &[true], 2);
    let optimizer = optimizer("adam", 0.5);
    let settings = Settings {
        weight_decay: Some(0.1),
        global_clip_norm: Some(1.0),
        ..Default::default()
    };
    optimizer.configure(settings).unwrap();
    for step in 1..=6 {
        for replica in 0..2 {
            let indices = [0, ROWS as i64 - 1, (ROWS / 2) as i64, 12_345];
            add_rows(&gradients, step, replica, 0, &indices, &[1.0f32; 4 * WIDTH]);
        }
        submit(&gradients, step, &[1.0; 2]);
        gradients.commit(step);
        apply(&optimizer, &gradients).unwrap();
    }
    assert_eq!(optimizer.iterations(), 3);
    let touched = resident().saturating_sub(before);
    // Four rows of three tensors are a few pages, at most of 2 MiB each; other tests run, too.
    assert!(touched < 1 << 30, "{touched} bytes");
    let last = committed(&table).slice(0, ROWS - 1, ROWS, 1).unwrap();
    assert!(read::<f32>(&last).iter().all(|&weight| weight < -1.0));
}

//! The contract of row-sparse gradients: what is read, what is refused, what stays as it is.

use std::sync::Arc;

use umbo_core::device::DeviceId;
use umbo_core::error::Status;
use umbo_core::optimizer::GradientMode::{Add, Overwrite};
use umbo_core::optimizer::LossReduction::{GlobalMean, Sum};
use umbo_core::optimizer::{
    ApplyAction, Gradients, GradientsOptions, Optimizer, Settings, VariableGroup,
};
use umbo_core::strategy::commit::{CommitAction, StepParticipant};
use umbo_core::tensor::{DType, Element, Shape, Tensor};
use umbo_core::values::indexed_slices::IndexedSlices;
use umbo_core::values::variable::Variable;

use crate::setup::*;

/// A table of 4 rows of 2 and its gradients from two replicas.
fn training() -> (Variable, Arc<Gradients>) {
    let variable = table("users", &[0.0f32; 8], 2);
    let gradients = row_gradients(2, &[&variable], Sum, &[true], 1);
    (variable, gradients)
}

fn add(gradients: &Gradients, step: u64, replica: usize, indices: &[i64], value: f32) {
    add_rows(
        gradients,
        step,
        replica,
        0,
        indices,
        &vec![value; indices.len() * 2],
    );
}

/// Submits, commits and applies.
fn finish(
    gradients: &Arc<Gradients>,
    optimizer: &Arc<Optimizer>,
    step: u64,
    weights: &[f64],
) -> umbo_core::optimizer::ApplyReport {
    submit(gradients, step, weights);
    gradients.commit(step);
    apply(optimizer, gradients).unwrap()
}

#[test]
fn weight_zero_is_neither_read_nor_checked() {
    let (variable, gradients) = training();
    add(&gradients, 1, 0, &[99, -1, i64::MIN], f32::NAN);
    add(&gradients, 1, 1, &[2], 4.0);
    let report = finish(&gradients, &optimizer("sgd", 1.0), 1, &[0.0, 2.0]);
    assert_eq!((report.variables_updated, report.total_weight), (1, 2.0));
    assert_eq!(
        value::<f32>(&variable),
        [0.0, 0.0, 0.0, 0.0, -2.0, -2.0, 0.0, 0.0]
    );

    // Only replicas of weight 0 added rows: the variable does not count as written.
    add(&gradients, 2, 0, &[7], f32::NAN);
    let report = finish(&gradients, &optimizer("sgd", 1.0), 2, &[0.0, 2.0]);
    assert_eq!((report.applied, report.variables_updated), (true, 0));
    // Nobody has a weight.
    add(&gradients, 3, 0, &[7], f32::NAN);
    let report = finish(&gradients, &optimizer("sgd", 1.0), 3, &[0.0, 0.0]);
    assert!(!report.applied);
    assert_eq!(value::<f32>(&variable)[4..6], [-2.0, -2.0]);
}

#[test]
fn an_index_out_of_range_is_refused_when_it_is_submitted() {
    for wrong in [-1, 4, i64::MAX, i64::MIN] {
        let (variable, gradients) = training();
        add(&gradients, 1, 0, &[0], 1.0);
        add(&gradients, 1, 1, &[3, 0], 1.0);
        add(&gradients, 1, 1, &[1, wrong], 1.0);
        gradients.submit(0, 1, 1.0).unwrap();
        let message = refusal(gradients.submit(1, 1, 1.0), Status::OutOfRange);
        for part in [
            &wrong.to_string(),
            "position 3",
            "replica 1",
            "'users'",
            "[0, 4)",
        ] {
            assert!(message.contains(part), "{message}");
        }
        // It has not submitted; with other rows it can.
        add(&gradients, 1, 1, &[], 0.0);
        refusal(gradients.submit(1, 1, 1.0), Status::OutOfRange);
        gradients.roll_back(1);
        assert_eq!(value::<f32>(&variable), [0.0; 8]);
    }
}

/// The memory of the indices is the replica's, and might be written too late.
#[test]
fn indices_that_were_changed_later_change_nothing_else() {
    let dense = variable("dense", &[1.0f32]);
    let variable = table("users", &[0.5f32; 8], 2);
    let gradients = row_gradients(1, &[&dense, &variable], Sum, &[false, true], 1);
    let optimizer = optimizer("adam", 0.1);
    gradients.try_begin_step(1);
    overwrite(&gradients, 1, 0, 0, &[1.0f32]);
    let added = gradients.add_rows(0, 1, 1, 2).unwrap();
    write(&added.indices, &[1i64, 2]);
    write(&added.values, &[1.0f32; 4]);
    submit(&gradients, 1, &[1.0]);
    gradients.commit(1);
    write(&added.indices, &[1i64, 4]);
    let message = refusal(apply(&optimizer, &gradients), Status::OutOfRange);
    for part in ["4, at position 1", "replica 0", "'users'", "[0, 4)"] {
        assert!(message.contains(part), "{message}");
    }
    assert_eq!(
        (value::<f32>(&dense), value::<f32>(&variable)),
        (vec![1.0], vec![0.5; 8])
    );
    refusal(optimizer.state(&dense, "m"), Status::NotFound);
    assert_eq!(optimizer.iterations(), 0);
    // The contributions are still there.
    write(&added.indices, &[1i64, 3]);
    let report = apply(&optimizer, &gradients).unwrap();
    assert_eq!(
        (report.applied, report.variables_updated, report.iterations),
        (true, 2, 1)
    );
    assert_eq!(value::<f32>(&variable)[..2], [0.5; 2]);
    assert!(
        value::<f32>(&variable)[6..]
            .iter()
            .all(|&weight| weight < 0.5)
    );
}

/// State and weights of rows that nobody names stay, to the bit; those of the others move on.
#[test]
fn only_rows_that_were_named_change() {
    let (variable, gradients) = training();
    let optimizer = optimizer("momentum", 1.0);
    let settings = Settings {
        weight_decay: Some(0.5),
        ..Settings::default()
    };
    optimizer.configure(settings).unwrap();
    add(&gradients, 1, 0, &[0, 1], 1.0);
    add(&gradients, 1, 1, &[1], 2.0);
    finish(&gradients, &optimizer, 1, &[1.0; 2]);
    assert_eq!(
        value::<f32>(&variable),
        [-0.5, -0.5, -1.5, -1.5, 0.0, 0.0, 0.0, 0.0]
    );
    let before = bits(&read(&optimizer.state(&variable, "momentum").unwrap()));
    add(&gradients, 2, 0, &[0], 0.0);
    finish(&gradients, &optimizer, 2, &[1.0; 2]);
    let after = bits(&read(&optimizer.state(&variable, "momentum").unwrap()));
    assert_eq!(before[2..], after[2..]);
    assert_ne!(before[..2], after[..2]);
    // m = 0.9 · 0.5 − 0.5 · 0.5
    assert!((value::<f32>(&variable)[0] + 0.7).abs() < 1e-6);
    assert_eq!(value::<f32>(&variable)[2..4], [-1.5; 2]);
}

/// Adam's t counts the updates of the variable, with rows or without, and no others.
#[test]
fn updates_without_rows_count() {
    let (variable, gradients) = training();
    let optimizer = optimizer("adam", 0.5);
    add(&gradients, 1, 0, &[0], 1.0);
    finish(&gradients, &optimizer, 1, &[1.0; 2]);
    // Nobody adds anything: no update of the variable.
    assert_eq!(
        finish(&gradients, &optimizer, 2, &[1.0; 2]).variables_updated,
        0
    );
    add(&gradients, 3, 1, &[], 1.0);
    assert_eq!(
        finish(&gradients, &optimizer, 3, &[1.0; 2]).variables_updated,
        1
    );
    let before = value::<f32>(&variable);
    add(&gradients, 4, 1, &[1], 1.0);
    finish(&gradients, &optimizer, 4, &[1.0; 2]);
    // The third update of the variable: m and v are those of a first gradient of 0.5.
    let m = 0.05 / (1.0 - BETA1.powi(3));
    let v = 0.00025 / (1.0 - BETA2.powi(3));
    let expected = -0.5 * m / (v.sqrt() + EPSILON);
    assert!((f64::from(value::<f32>(&variable)[2]) - expected).abs() < 1e-6);
    assert_eq!(value::<f32>(&variable)[..2], before[..2]);
}

#[test]
fn rows_of_earlier_steps_do_not_count() {
    let (variable, gradients) = training();
    let optimizer = optimizer("sgd", 1.0);
    // Not applied, so replaced.
    add(&gradients, 1, 0, &[0, 1, 2], 64.0);
    submit(&gradients, 1, &[1.0; 2]);
    gradients.commit(1);
    // Rolled back.
    add(&gradients, 2, 0, &[3], 64.0);
    gradients.roll_back(2);
    refusal(gradients.add_rows(0, 2, 0, 1), Status::FailedPrecondition);
    add(&gradients, 3, 1, &[1], 4.0);
    finish(&gradients, &optimizer, 3, &[1.0; 2]);
    add(&gradients, 4, 0, &[2], 2.0);
    finish(&gradients, &optimizer, 4, &[1.0; 2]);
    assert_eq!(
        value::<f32>(&variable),
        [0.0, 0.0, -2.0, -2.0, -1.0, -1.0, 0.0, 0.0]
    );
}

#[test]
fn an_action_that_is_dropped_leaves_the_rows() {
    let variable = table("users", &[0.0f32; 8], 2);
    let gradients = row_gradients(1, &[&variable], GlobalMean, &[true], 2);
    let optimizer = optimizer("sgd", 1.0);
    for step in 1..=2 {
        add(&gradients, step, 0, &[step as i64, 1], step as f32);
        submit(&gradients, step, &[1.0]);
        gradients.commit(step);
        for _ in 0..2 {
            let action = ApplyAction::new(Arc::clone(&optimizer), Arc::clone(&gradients));
            let mut action = action;
            action.prepare().unwrap();
        }
        apply(&optimizer, &gradients).unwrap();
    }
    assert_eq!(
        value::<f32>(&variable),
        [0.0, 0.0, -4.0, -4.0, -2.0, -2.0, 0.0, 0.0]
    );
}

#[test]
fn lamb_needs_all_rows() {
    let (variable, gradients) = training();
    let lamb = optimizer("lamb", 0.1);
    add(&gradients, 1, 0, &[1], 1.0);
    submit(&gradients, 1, &[1.0; 2]);
    gradients.commit(1);
    let message = refusal(apply(&lamb, &gradients), Status::InvalidArgument);
    assert!(
        message.contains("lamb") && message.contains("'users'"),
        "{message}"
    );
    assert_eq!(
        (value::<f32>(&variable), lamb.iterations()),
        (vec![0.0; 8], 0)
    );
    // The contributions are still there, for another rule.
    assert!(apply(&optimizer("adam", 0.1), &gradients).unwrap().applied);
    // Where they are not looked at, they are no obstacle.
    lamb.add_group(
        &[variable],
        VariableGroup {
            frozen: true,
            ..VariableGroup::default()
        },
    )
    .unwrap();
    add(&gradients, 2, 0, &[1], 1.0);
    assert_eq!(finish(&gradients, &lamb, 2, &[1.0; 2]).variables_updated, 0);
}

/// Also of rows that another rule has accumulated, if the last run names none.
#[test]
fn lamb_refuses_accumulated_rows() {
    let users = table("users", &[0.0f32; 8], 2);
    let gradients = row_gradients(1, &[&users], Sum, &[true], 2);
    add(&gradients, 1, 0, &[1], 1.0);
    let adam = optimizer("adam", 0.1);
    assert_eq!(finish(&gradients, &adam, 1, &[1.0]).accumulated_runs, 1);
    gradients.try_begin_step(2);
    submit(&gradients, 2, &[1.0]);
    gradients.commit(2);
    let message = refusal(
        apply(&optimizer("lamb", 0.1), &gradients),
        Status::InvalidArgument,
    );
    assert!(message.contains("'users'"), "{message}");
    assert_eq!(apply(&adam, &gradients).unwrap().variables_updated, 1);
}

#[test]
fn rows_may_have_no_elements() {
    let before = variable("before", &[0.0f32; 3]);
    let after = variable("after", &[0.0f32; 3]);
    let shape = Shape::new(&[10, 0]).unwrap();
    let empty = Tensor::zeros(DType::Float32, shape, DeviceId::HOST).unwrap();
    let empty = variable_from(STRATEGY, "empty", empty);
    let gradients = row_gradients(1, &[&before, &empty, &after], Sum, &[false, true, false], 1);
    overwrite(&gradients, 1, 0, 0, &[1.0f32; 3]);
    add_rows::<f32>(&gradients, 1, 0, 1, &[2, 7], &[]);
    overwrite(&gradients, 1, 0, 2, &[1.0f32; 3]);
    assert_eq!(
        finish(&gradients, &optimizer("sgd", 1.0), 1, &[1.0]).variables_updated,
        3
    );
    assert_eq!([value::<f32>(&before), value(&after)], [[-1.0; 3]; 2]);
}

#[test]
fn rows_and_whole_gradients_are_not_mixed() {
    let dense = variable("dense", &[0.0f32; 4]);
    let users = table("users", &[0.0f32; 8], 2);
    let gradients = row_gradients(1, &[&dense, &users], Sum, &[false, true], 1);
    gradients.try_begin_step(1);
    for mode in [Add, Overwrite] {
        let message = refusal(gradients.view(0, 1, 1, mode), Status::FailedPrecondition);
        assert!(
            message.contains("'users'") && message.contains("rows"),
            "{message}"
        );
    }
    let message = refusal(gradients.add_rows(0, 1, 0, 1), Status::FailedPrecondition);
    assert!(
        message.contains("'dense'") && message.contains("row_sparse"),
        "{message}"
    );
    refusal(gradients.add_rows(0, 1, 2, 1), Status::OutOfRange);
    refusal(gradients.add_rows(1, 1, 1, 1), Status::OutOfRange);
    refusal(
        gradients.add_rows(0, 1, 1, usize::MAX),
        Status::ResourceExhausted,
    );
    gradients.submit(0, 1, 1.0).unwrap();
    refusal(gradients.add_rows(0, 1, 1, 1), Status::FailedPrecondition);
}

#[test]
fn the_choice_is_checked() {
    let users = table("users", &[0.0f32; 8], 2);
    let scalar = variable_from(STRATEGY, "scalar", Tensor::scalar(1.0f32).unwrap());
    let made = |variables: &[&Variable], row_sparse: &[bool]| {
        let variables = variables.iter().map(|&variable| variable.clone()).collect();
        let options = GradientsOptions {
            row_sparse,
            ..GradientsOptions::default()
        };
        Gradients::new(STRATEGY, &devices(1), variables, Sum, options)
    };
    let message = refusal(
        made(&[&users, &scalar], &[true, true]),
        Status::InvalidArgument,
    );
    assert!(
        message.contains("row_sparse[1]") && message.contains("'scalar'"),
        "{message}"
    );
    refusal(made(&[&users, &scalar], &[true]), Status::InvalidArgument);
    made(&[&users, &scalar], &[true, false]).unwrap();
    made(&[&users, &scalar], &[]).unwrap();
}

fn tensor<T: Element>(values: &[T], sizes: &[usize]) -> Tensor {
    Tensor::from_slice(
        values,
        Shape::new(sizes).unwrap(),
        umbo_core::device::DeviceId::HOST,
    )
    .unwrap()
}

#[test]
fn indexed_slices_are_copied() {
    let (variable, gradients) = training();
    let slices = |values: Tensor, indices: &[i64], shape: &[usize]| {
        let indices = tensor(indices, &[indices.len()]);
        IndexedSlices::new(values, indices, Shape::new(shape).unwrap()).unwrap()
    };
    // Strided values, too.
    let values = tensor(&[1.0f32, 3.0, 5.0, 2.0, 4.0, 6.0], &[2, 3])
        .transpose(&[1, 0])
        .unwrap();
    let right = slices(values.clone(), &[2, 0, 2], &[4, 2]);
    gradients.try_begin_step(1);
    gradients.add_indexed_slices(0, 1, 0, &right).unwrap();
    write(right.values(), &[64.0f32; 6]);
    let wide = slices(tensor(&[1.0f64; 2], &[1, 2]), &[0], &[4, 2]);
    refusal(
        gradients.add_indexed_slices(0, 1, 0, &wide),
        Status::InvalidArgument,
    );
    let long = slices(tensor(&[1.0f32; 2], &[1, 2]), &[0], &[5, 2]);
    let message = refusal(
        gradients.add_indexed_slices(0, 1, 0, &long),
        Status::InvalidArgument,
    );
    assert!(
        message.contains("[5, 2]") && message.contains("'users'"),
        "{message}"
    );
    finish(&gradients, &optimizer("sgd", 1.0), 1, &[1.0, 0.0]);
    assert_eq!(
        value::<f32>(&variable),
        [-3.0, -4.0, 0.0, 0.0, -6.0, -8.0, 0.0, 0.0]
    );
}

//! What is committed on a GPU asks for nothing that could be refused: from the end of the preparation on
//! no memory is to be had, neither the GPU's nor the host's that copies go through, and no kernels.

use std::sync::Arc;

use fake_cuda::Control;
use fake_cuda::harness::under_driver;
use umbo::error::Result;
use umbo::optimizer::adam::Adam;
use umbo::optimizer::rule::WeightDecay;
use umbo::optimizer::sgd::Sgd;
use umbo::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, UpdateRule, apply,
};
use umbo::strategy::commit::CommitAction;
use umbo::strategy::merge::{MergeCall, Operation};
use umbo::strategy::variables::{self, Initial, NewVariable};
use umbo::strategy::{ReplicaContext, Strategy};
use umbo::tensor::{DType, Element, Tensor};
use umbo::values::variable::{Aggregation, Synchronization, Variable};

use super::own_rules::own;
use super::strategy::strategy_on;
use super::*;

/// Waits for the commit point behind an apply: all requests fail when it is prepared, until it is carried
/// out.
struct NothingLeft(Arc<Control>);

impl CommitAction for NothingLeft {
    fn prepare(&mut self) -> Result<()> {
        let all = ["cuMemAllocAsync", "cuMemAlloc_v2", "cuMemHostAlloc", "cuModuleLoadData"];
        self.0.fault(&all.map(|function| format!("{function}:0:2")).join(","));
        Ok(())
    }

    fn commit(&mut self) {
        self.0.fault("");
    }
}

const ROWS: usize = 3000;

fn create<T: Element>(strategy: &Strategy, values: &[T], sizes: &[usize]) -> Variable {
    let new = NewVariable {
        name: "v".into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation: Aggregation::None,
    };
    let initial = Tensor::from_slice(values, shape(sizes), HOST).unwrap();
    variables::create(Some(strategy), new, Initial::Value(&initial)).unwrap()
}

/// Updates variables of two types and a table, by some of its rows if `rows` says so; accumulates two runs
/// for each update. Returns the weights.
fn train(
    device: &str,
    rule: Box<dyn UpdateRule>,
    rows: bool,
    nothing_left: Option<&Arc<Control>>,
) -> Vec<Vec<u8>> {
    let strategy = strategy_on(&[device], device).unwrap();
    let variables = vec![
        create(&strategy, &[0.5f32; 5], &[5]),
        create(&strategy, &[0.25f64; 7], &[7]),
        create(&strategy, &vec![1.5f32; ROWS * 4], &[ROWS, 4]),
    ];
    let options =
        GradientsOptions { accumulation_steps: 2, row_sparse: &[false, false, rows], dtype: None };
    let devices = strategy.compute_devices();
    let reduction = LossReduction::Mean;
    let made = variables.clone();
    let gradients = Gradients::with_options(strategy.id(), devices, made, reduction, options);
    let gradients = gradients.unwrap();
    let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
    let contribute = |context: &ReplicaContext| -> Result<()> {
        for (index, variable) in variables.iter().enumerate() {
            let values = |shape: Shape| match variable.dtype() {
                DType::Float64 => Tensor::from_slice(&[0.375f64; 7], shape, context.device()),
                _ => Tensor::from_slice(&vec![0.125f32; shape.elements()], shape, context.device()),
            };
            if rows && index == 2 {
                let added = gradients.add_rows_in(context, index, ROWS / 2)?;
                let numbers: Vec<i64> = (0..ROWS as i64 / 2).map(|row| row * 2).collect();
                let shape = shape(&[ROWS / 2]);
                let numbers = Tensor::from_slice(&numbers, shape, context.device())?;
                // SAFETY: the rows are this replica's to write.
                unsafe {
                    added.indices.assume_exclusive().copy_from(&numbers)?;
                    added.values.assume_exclusive().copy_from(&values(added.values.shape())?)?;
                }
                continue;
            }
            let buffer = gradients.view_in(context, index, GradientMode::Overwrite)?;
            // SAFETY: the buffer is this replica's.
            unsafe { buffer.assume_exclusive() }.copy_from(&values(buffer.shape())?)?;
        }
        gradients.submit_in(context, Some(1.0))
    };
    for _ in 0..4 {
        let run = strategy.run(
            &|context| {
                contribute(context)?;
                let (optimizer, gradients) = (Arc::clone(&optimizer), Arc::clone(&gradients));
                let nothing_left = nothing_left.map(Arc::clone);
                let merge = move |strategy: &Strategy, _: &mut [&mut MergeCall]| {
                    apply(&optimizer, &gradients)?;
                    if let Some(control) = nothing_left {
                        strategy.defer(Box::new(NothingLeft(control)))?;
                    }
                    Ok(None)
                };
                let operation = Operation::MergeCall { function: 1 };
                context.synchronize(operation, None, Box::new(merge))
            },
            None,
        );
        run.unwrap();
    }
    let bytes = |variable: &Variable| {
        let value = variables::read(variable).unwrap();
        let mut bytes = vec![0; value.bytes()];
        value.copy_to_host(&mut bytes).unwrap();
        bytes
    };
    variables.iter().map(bytes).collect()
}

fn commits_without_memory(rule: impl Fn() -> Box<dyn UpdateRule>, rows: bool) {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "1")]) else { return };
    let expected = train("CPU:0", rule(), rows, None);
    let control = Arc::new(control);
    assert_eq!(train("GPU:0", rule(), rows, Some(&control)), expected);
    clean(&control);
}

#[test]
fn variables_of_two_types_are_updated() {
    commits_without_memory(|| Box::new(Sgd), false);
}

#[test]
fn rows_are_updated() {
    commits_without_memory(|| Box::new(Adam::new(0.9, 0.99, 1e-7).unwrap()), true);
}

#[test]
fn what_is_measured_is_updated() {
    commits_without_memory(|| Box::new(Adam::lamb(0.9, 0.99, 1e-7, 0.05).unwrap()), false);
}

#[test]
fn rows_are_updated_by_a_rule_of_the_programs() {
    commits_without_memory(|| own(WeightDecay::L2), true);
}

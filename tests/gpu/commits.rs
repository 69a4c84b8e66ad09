//! What is committed on a GPU asks for nothing that could be refused: from the end of the
//! preparation on no memory is to be had, neither the GPU's nor the host's that copies go through,
//! and no kernels.

use std::sync::Arc;

use fake_cuda::harness::under_driver;
use umbo_core::device::registry::release_kept;
use umbo_core::optimizer::apply;
use umbo_core::strategy::commit::CommitAction;
use umbo_core::strategy::step::merge::{MergeCall, Operation};
use umbo_core::strategy::{ReplicaContext, Strategy};

use super::optimizers::{Case, STEPS, Training, cases, rule};
use super::*;

/// Waits for the commit point behind an apply: all requests fail when it is prepared, until it is
/// carried out.
struct NothingLeft(Arc<Control>);

impl CommitAction for NothingLeft {
    fn prepare(&mut self) -> Result<()> {
        // Another thread shuts down.
        release_kept();
        let all = [
            "cuMemAllocAsync",
            "cuMemAlloc_v2",
            "cuMemHostAlloc",
            "cuModuleLoadData",
        ];
        self.0
            .fault(&all.map(|function| format!("{function}:0:2")).join(","));
        Ok(())
    }

    fn commit(&mut self) {
        self.0.fault("");
    }
}

fn train(case: Case, device: &str, nothing_left: Option<&Arc<Control>>) -> Vec<u64> {
    let training = Training::new(case, &[device], device);
    let optimizer = training.optimizer(rule(case.rule));
    for step in 0..STEPS {
        let scale = optimizer.loss_scale();
        let callback = |context: &ReplicaContext| {
            training.contribute(context, step, scale)?;
            let optimizer = Arc::clone(&optimizer);
            let gradients = Arc::clone(&training.gradients);
            let nothing_left = nothing_left.map(Arc::clone);
            let merge = move |strategy: &Strategy, _: &mut [&mut MergeCall]| {
                apply(&optimizer, &gradients)?;
                if let Some(control) = nothing_left {
                    strategy.defer(Box::new(NothingLeft(control)))?;
                }
                Ok(None)
            };
            context.synchronize(Operation::MergeCall { function: 1 }, None, Box::new(merge))
        };
        training.strategy.run(&callback, None).unwrap();
    }
    training.bits(&optimizer)
}

/// A case in which several runs make an update.
fn commits_without_memory(rule: &str, rows: bool, wide: bool) {
    let Some(control) = under_driver(&[("FAKE_CUDA_DEVICES", "1")]) else {
        return;
    };
    let is_it = |case: &Case| {
        (case.rule, case.rows, case.wide) == (rule, rows, wide) && case.accumulation > 1
    };
    let case = cases().into_iter().find(is_it).unwrap();
    let expected = train(case, "CPU:0", None);
    let control = Arc::new(control);
    assert_eq!(train(case, "GPU:0", Some(&control)), expected);
    clean(&control);
}

#[test]
fn variables_of_two_types_are_updated() {
    commits_without_memory("sgd", false, true);
}

#[test]
fn rows_are_updated() {
    commits_without_memory("adam", true, false);
}

#[test]
fn what_is_measured_is_updated() {
    commits_without_memory("lamb", false, false);
}

#[test]
fn rows_are_updated_by_a_rule_of_the_programs() {
    commits_without_memory("own", true, false);
}

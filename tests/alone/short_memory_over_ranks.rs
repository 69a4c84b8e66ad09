//! Several ranks, and looks at gradients, while memory is short: what has a size that the program decides fails, and is
//! there when it is tried again.

use std::sync::Arc;

use umbo::cluster::communicator::{Communicator, EngineCall, RankPlace};
use umbo::device::DeviceId;
use umbo::error::{Error, Result, Status};
use umbo::optimizer::adam::Adam;
use umbo::optimizer::reduced::reduced;
use umbo::optimizer::{GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply};
use umbo::strategy::variables::{self, Initial};
use umbo::strategy::{Options, ReplicaContext, Strategy};
use umbo::tensor::{Element, Shape, Tensor};
use umbo::values::Value;
use umbo::values::variable::Aggregation;

use crate::allocator::{LARGE, serve};

/// The memory of so many numbers may be refused.
const COUNT: usize = LARGE / 4;

/// Two ranks, of which the other one says what this one says.
struct Echo;

impl Communicator for Echo {
    fn place(&self) -> RankPlace {
        RankPlace { rank: 0, size: 2, node_rank: 0, node_size: 2 }
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        match call {
            EngineCall::AllToAll { receive, .. } => receive.on_host()?.fill(0),
            EngineCall::AllGather { send, receive, counts } => {
                let (own, other) = receive.on_host()?.split_at_mut(counts[0]);
                own.copy_from_slice(send.on_host()?);
                let count = other.len().min(own.len());
                other[..count].copy_from_slice(&own[..count]);
            }
            _ => {}
        }
        Ok(())
    }

    fn abort(&self, _: &Error) {}
}

fn tensor<T: Element>(values: &[T]) -> Tensor {
    Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), DeviceId::HOST).unwrap()
}

fn fill(to: &Tensor, from: &Tensor) {
    // SAFETY: it is the replica's alone.
    unsafe { to.assume_exclusive() }.copy_from(from).unwrap();
}

/// Tries it with more and more memory until there is enough; how often there was not.
fn until_there_is_enough(what: &str, attempt: &dyn Fn() -> Result<()>) -> usize {
    for requests in 0.. {
        serve(requests);
        let done = attempt();
        serve(usize::MAX);
        match done {
            Ok(()) => return requests,
            Err(error) => {
                assert_eq!(
                    error.status(),
                    Status::ResourceExhausted,
                    "{what}, {requests}: {error}"
                );
            }
        }
    }
    unreachable!()
}

#[test]
fn sizes_of_the_program_s_fail_and_may_be_tried_again() {
    let true = crate::is_alone(sizes_of_the_program_s_fail_and_may_be_tried_again) else { return };
    let echo: Arc<dyn Communicator> = Arc::new(Echo);
    for (communicator, accumulation_steps) in [(None, 1), (Some(echo.clone()), 1), (Some(echo), 2)]
    {
        let ranks = if communicator.is_some() { 2 } else { 1 };
        let options =
            Options { cpu_replicas: 1, bind_threads: false, communicator, ..Options::default() };
        let strategy = Strategy::new(&options).unwrap();
        let make = |name: &str| {
            let new = crate::fresh::new_variable(name, Aggregation::None);
            let initial = tensor(&vec![1f32; COUNT]);
            variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap()
        };
        let variables = vec![make("dense"), make("rows")];
        let gradients = Gradients::new(
            strategy.id(),
            strategy.replica_devices(),
            variables,
            LossReduction::Mean,
            GradientsOptions {
                row_sparse: &[false, true],
                accumulation_steps,
                ..GradientsOptions::default()
            },
        );
        let gradients = gradients.unwrap();
        let rule = Box::new(Adam::new(0.9, 0.999, 1e-7).unwrap());
        let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
        let step = |context: &ReplicaContext| {
            let view = gradients.view_in(context, 0, GradientMode::Overwrite)?;
            fill(view, &tensor(&vec![1f32; COUNT]));
            let added = gradients.add_rows_in(context, 1, COUNT)?;
            fill(&added.indices, &tensor(&(0..COUNT as i64).collect::<Vec<_>>()));
            fill(&added.values, &tensor(&vec![0.5f32; COUNT]));
            gradients.submit_in(context, Some(1.0))?;
            Ok(None)
        };
        let look =
            |index| move |gradients: &Arc<Gradients>| reduced(gradients, index, None).map(drop);
        for run in 0..accumulation_steps {
            strategy.run(&step, None).unwrap();
            let what =
                |what: &str| format!("{what}, {ranks} ranks, run {run} of {accumulation_steps}");
            let dense = || look(0)(&gradients);
            let rows = || look(1)(&gradients);
            assert!(until_there_is_enough(&what("a look at a dense gradient"), &dense) > 0);
            assert!(until_there_is_enough(&what("a look at rows"), &rows) > 1);
            let update = || apply(&optimizer, &gradients).map(drop);
            until_there_is_enough(&what("an apply"), &update);
        }
        let large = Value::Tensor(tensor(&vec![1f32; COUNT]));
        let gather = |context: &ReplicaContext| context.all_gather(large.clone(), 0).map(Some);
        let gathers = || strategy.run(&gather, None).map(drop);
        until_there_is_enough("a gather", &gathers);
    }
}

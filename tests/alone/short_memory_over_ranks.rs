//! Several ranks, and looks at gradients, while memory is short: what has a size that the program
//! decides fails, and is there when it is tried again.

use std::sync::Arc;
use std::thread;

use umbo_core::cluster::communicator::{Communicator, EngineCall, Incoming, Outgoing, RankPlace};
use umbo_core::device::DeviceId;
use umbo_core::error::{Error, Result, Status};
use umbo_core::optimizer::gradients::reduced::reduced;
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{
    GradientMode, Gradients, GradientsOptions, LossReduction, Optimizer, apply,
};
use umbo_core::strategy::variables::{self, Initial};
use umbo_core::strategy::{Options, ReplicaContext, Strategy};
use umbo_core::tensor::{Element, Shape, Tensor};
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use crate::allocator::{LARGE, never_refusing, refusing};
use crate::engine;

/// The memory of so many numbers may be refused.
const COUNT: usize = LARGE / 4;

/// One of two ranks, which are threads. What the engine needs itself is never refused.
struct Rank(Arc<engine::Rank>);

impl Rank {
    /// What rank 0 says.
    fn told(&self, payload: bool) -> bool {
        let payload = [payload.into()];
        let mut all = [0; 2];
        let send = Outgoing::Host(&payload);
        let receive = Incoming::Host(&mut all);
        self.call(EngineCall::AllGather {
            send,
            receive,
            counts: &[1, 1],
        })
        .unwrap();
        all[0] == 1
    }
}

impl Communicator for Rank {
    fn place(&self) -> RankPlace {
        self.0.place()
    }

    fn call(&self, call: EngineCall<'_>) -> Result<()> {
        never_refusing(|| self.0.call(call))
    }

    fn abort(&self, error: &Error) {
        self.0.abort(error);
    }
}

fn tensor<T: Element>(values: &[T]) -> Tensor {
    Tensor::from_slice(values, Shape::new(&[values.len()]).unwrap(), DeviceId::HOST).unwrap()
}

fn fill(to: &Tensor, from: &Tensor) {
    // SAFETY: it is the replica's alone.
    unsafe { to.assume_exclusive() }.copy_from(from).unwrap();
}

/// Attempts it while each of the large requests for memory in turn is refused to rank 0; how often
/// an attempt failed. `next` prepares for the attempt after one that did not.
fn at_each_request(
    rank: Option<&Rank>,
    operation: &str,
    next: &dyn Fn(),
    attempt: &dyn Fn() -> Result<()>,
) -> usize {
    let mut failures = 0;
    for number in 0.. {
        let (done, left) = match rank.is_none_or(|rank| rank.place().rank == 0) {
            true => refusing(number, attempt),
            false => (attempt(), 0),
        };
        let is_refused = left == usize::MAX;
        let goes_on = rank.map_or(is_refused, |rank| rank.told(is_refused));
        match done {
            Ok(()) if !goes_on => return failures,
            Ok(()) => next(),
            Err(error) => {
                failures += 1;
                let status = error.status();
                assert_eq!(
                    status,
                    Status::ResourceExhausted,
                    "{operation}, {number}: {error}"
                );
            }
        }
    }
    unreachable!()
}

/// What is tried, on one rank.
fn rank_alone_or_with(rank: Option<&Arc<Rank>>, accumulation_steps: u64) {
    let communicator = rank.map(|rank| Arc::clone(rank) as Arc<dyn Communicator>);
    let options = Options {
        cpu_replicas: 1,
        bind_threads: false,
        communicator,
        ..Options::default()
    };
    let strategy = Strategy::new(&options).unwrap();
    let make = |name: &str| {
        let new = crate::fresh::new_variable(name, Aggregation::None);
        let initial = tensor(&vec![1f32; COUNT]);
        variables::create(Some(&strategy), new, Initial::Value(&initial)).unwrap()
    };
    let gradients = Gradients::new(
        strategy.id(),
        strategy.replica_devices(),
        vec![make("dense"), make("rows")],
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
        fill(
            &added.indices,
            &tensor(&(0..COUNT as i64).collect::<Vec<_>>()),
        );
        fill(&added.values, &tensor(&vec![0.5f32; COUNT]));
        gradients.submit_in(context, Some(1.0))?;
        Ok(None)
    };
    let run = || strategy.run(&step, None).map(drop).unwrap();
    let look = |index| reduced(&gradients, index, None).map(drop);
    let update = || apply(&optimizer, &gradients).map(drop);
    for number in 0..accumulation_steps {
        let at = |operation: &str, next: &dyn Fn(), attempt: &dyn Fn() -> Result<()>| {
            let operation = format!("{operation}, run {number} of {accumulation_steps}");
            at_each_request(rank.map(|rank| &**rank), &operation, next, attempt)
        };
        run();
        assert!(at("a look at a dense gradient", &|| {}, &|| look(0)) > 0);
        assert!(at("a look at rows", &|| {}, &|| look(1)) > 1);
        at("an apply", &run, &update);
        let large = Value::Tensor(tensor(&vec![1f32; COUNT]));
        let gather = |context: &ReplicaContext| context.all_gather(large.clone(), 0).map(Some);
        at("a gather", &|| {}, &|| {
            strategy.run(&gather, None).map(drop)
        });
    }
}

#[test]
fn sizes_of_the_program_s_fail_and_may_be_tried_again() {
    let true = crate::is_alone(sizes_of_the_program_s_fail_and_may_be_tried_again) else {
        return;
    };
    rank_alone_or_with(None, 1);
    for accumulation_steps in [1, 2] {
        let ranks = engine::ranks(2)
            .into_iter()
            .map(|rank| Arc::new(Rank(rank)));
        let ranks = ranks
            .map(|rank| thread::spawn(move || rank_alone_or_with(Some(&rank), accumulation_steps)));
        ranks
            .collect::<Vec<_>>()
            .into_iter()
            .for_each(|rank| rank.join().unwrap());
    }
}

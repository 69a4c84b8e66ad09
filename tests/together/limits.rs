//! Limits of one rank's epoch that are reached while it leaves elements out.

use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex};

use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::{Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, ElementSpec, Generator, LeafSpec, Sharding, distribute_dataset,
};
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::{ReplicaContext, ReplicaFunction};
use umbo_core::tensor::DType;
use umbo_core::training::Epoch;
use umbo_core::values::Value;

use super::engine::ranks;
use super::passed_over::epoch_over;
use super::{on_ranks, tensor};

/// The numbers from 1 on, which cancel a token at the thousandth.
struct Numbers {
    count: Arc<AtomicI32>,
    token: Cancellation,
}

impl Generator for Numbers {
    fn next(&mut self) -> Result<Option<Value>> {
        let number = self.count.fetch_add(1, Ordering::SeqCst) + 1;
        if number == 1000 {
            self.token.cancel();
        }
        Ok(Some(Value::Tensor(tensor(&[number], &[]))))
    }

    fn reset(&mut self) -> Result<()> {
        self.count.store(0, Ordering::SeqCst);
        Ok(())
    }
}

/// The ranks learn of it at once, no step is anybody's, and another epoch continues with the same
/// elements on all ranks; none is made twice.
#[test]
fn a_limit_of_one_rank_ends_its_skip_and_the_epoch_of_all() {
    let shardings = [Sharding::Data, Sharding::Off];
    for (sharding, read_ahead) in shardings.map(|it| [(it, 0), (it, 2)]).concat() {
        for limited in [0, 1] {
            let case = format!("{sharding:?}, {read_ahead} ahead, rank {limited}");
            let options = DistributeOptions {
                sharding,
                read_ahead: Some(read_ahead),
                ..DistributeOptions::default()
            };
            let came = on_ranks(&ranks(2), 1, |rank, strategy| {
                let strategy = strategy.unwrap();
                let (count, token) = (Arc::new(AtomicI32::new(0)), Cancellation::new());
                let spec = ElementSpec::Leaf(LeafSpec {
                    dtype: DType::Int32,
                    shape: vec![],
                });
                let of_generator = (Arc::clone(&count), token.clone());
                let numbers = Dataset::from_generator(spec, move || {
                    let (count, token) = of_generator.clone();
                    Ok(Box::new(Numbers { count, token }) as _)
                });
                let rest = numbers.unwrap().skip(2000).unwrap().take(12).unwrap();
                let batches = rest.batch(4, false).unwrap();
                let distributed = distribute_dataset(&strategy, &batches, &options).unwrap();
                let iterator = distributed.iterator().unwrap();
                let (got, seen) = (
                    Arc::new(Mutex::new(Vec::new())),
                    Arc::new(AtomicI32::new(0)),
                );
                let (of_step, steps) = (Arc::clone(&got), Arc::clone(&seen));
                let step: Arc<ReplicaFunction> = Arc::new(move |context: &ReplicaContext| {
                    let rows = context.arguments()?.unwrap();
                    let rows = rows.tensor_of(0)?.to_vec::<i32>()?;
                    of_step.lock().unwrap().extend(rows);
                    steps.fetch_add(1, Ordering::SeqCst);
                    Ok(None)
                });
                let run = |epoch: Epoch<'_>| {
                    epoch.run(
                        &OwnedCallback::of(Arc::clone(&step)),
                        &|_, _, _| Ok(()),
                        &mut |_, _| Ok(()),
                    )
                };
                let cancellation = (rank == limited).then(|| token.clone());
                let error = run(Epoch {
                    limits: Limits {
                        cancellation,
                        ..Limits::default()
                    },
                    ..epoch_over(&strategy, &iterator)
                })
                .unwrap_err();
                assert_eq!(error.status(), Status::Cancelled, "{case}: {error}");
                let text = error.to_string();
                let names = text.contains(&format!("rank {limited} failed"));
                assert_eq!(names, rank != limited, "{case}: {text}");
                assert!(
                    text.contains("elements that are left out"),
                    "{case}: {text}"
                );
                assert_eq!(seen.load(Ordering::SeqCst), 0, "{case}");
                let report = run(epoch_over(&strategy, &iterator)).unwrap();
                assert_eq!(report.steps, 3, "{case}");
                assert_eq!(count.load(Ordering::SeqCst), 2012, "{case}");
                got.lock().unwrap().clone()
            });
            let all: Vec<i32> = (2001..=2012).collect();
            if sharding == Sharding::Off {
                assert_eq!(came, [all.clone(), all], "{case}");
            } else {
                let mut rows = came.concat();
                rows.sort_unstable();
                assert_eq!(rows, all, "{case}");
            }
        }
    }
}

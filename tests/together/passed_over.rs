//! Elements of an epoch that cannot be made: they are left out on all ranks.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use umbo_core::collectives::Assignment;
use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    DistributeOptions, DistributedDataset, MapOptions, PassIterator, Sharding, distribute_dataset,
};
use umbo_core::strategy::variables::{assign, read};
use umbo_core::strategy::{ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::training::Epoch;
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use super::engine::ranks;
use super::input::{joined, rows};
use super::{on_ranks, tensor, variable};

/// Steps alone, without updates, metrics or limits.
pub fn epoch_over<'a>(strategy: &'a Strategy, iterator: &'a PassIterator) -> Epoch<'a> {
    Epoch {
        strategy,
        iterator,
        update: None,
        metrics: None,
        limits: Default::default(),
        max_steps: None,
        flush: true,
        keep_metrics: false,
        reset: false,
        evaluates: false,
    }
}

/// Batches of four of the rows below 22, of which `fails` makes each or fails.
fn some_failing(
    strategy: &Strategy,
    fails: impl Fn(&Value) -> Result<Value> + Send + Sync + 'static,
    options: &DistributeOptions,
) -> DistributedDataset {
    let data = rows(0..22).batch(4, false).unwrap();
    let data = data.map(fails, MapOptions::default()).unwrap();
    distribute_dataset(strategy, &data, options).unwrap()
}

fn reading_ahead(sharding: Sharding, elements: i64) -> DistributeOptions {
    DistributeOptions {
        sharding,
        read_ahead: Some(elements),
        ..DistributeOptions::default()
    }
}

/// An element of an epoch fails, on one rank, on some or on all: the ranks learn of it at once, the
/// step is nobody's, and another epoch continues after it, with the same rows on all ranks.
#[test]
fn an_element_of_an_epoch_that_fails_on_one_rank_is_left_out_on_all() {
    const FAILING: i32 = 8;
    // The rows come in batches of four; those of the failing one are left out.
    let sums = |upto: i32| (0..upto).filter(|row| row / 4 != FAILING / 4).sum::<i32>() as f32;
    for (size, replicas) in [(2, 1), (2, 2), (3, 1)] {
        for sharding in [Sharding::Data, Sharding::Off] {
            for read_ahead in [0, 2] {
                for failing in 1..1_usize << size {
                    let options = reading_ahead(sharding, read_ahead);
                    let case = format!("{size}×{replicas}, {failing:b}, {options:?}");
                    on_ranks(&ranks(size), replicas, |rank, strategy| {
                        let strategy = strategy.unwrap();
                        let own_fails = failing & 1 << rank != 0;
                        let fails = move |value: &Value| -> Result<Value> {
                            match value.tensor_of(0)?.to_vec::<i32>()?[0] {
                                FAILING if own_fails => Err(Error::NotFound("the third".into())),
                                _ => Ok(value.clone()),
                            }
                        };
                        let distributed = some_failing(&strategy, fails, &options);
                        let iterator = distributed.iterator().unwrap();
                        let zero = tensor(&[0f32], &[1]);
                        let sum = variable(&strategy, "sum", Aggregation::Sum, &zero);
                        let of_step = sum.clone();
                        let step = move |context: &ReplicaContext| {
                            let rows = context
                                .arguments()?
                                .unwrap()
                                .tensor_of(0)?
                                .to_vec::<i32>()?;
                            let assigned =
                                Value::Tensor(tensor(&[rows.iter().sum::<i32>() as f32], &[1]));
                            assign(&of_step, Assignment::Add, &assigned)?;
                            Ok(None)
                        };
                        let step: Arc<ReplicaFunction> = Arc::new(step);
                        let epoch = epoch_over(&strategy, &iterator);
                        let run = || {
                            epoch.run(
                                &OwnedCallback::of(Arc::clone(&step)),
                                &|_, _, _| Ok(()),
                                &mut |_, _| Ok(()),
                            )
                        };
                        let error = run().unwrap_err();
                        assert_eq!(error.status(), Status::NotFound, "{case}: {error}");
                        let text = error.to_string();
                        assert!(text.contains("step 3 of the epoch"), "{case}: {text}");
                        assert!(text.contains("the third"), "{case}: {text}");
                        let first = failing.trailing_zeros();
                        let names = text.contains(&format!("rank {first} failed"));
                        assert_eq!(names, !own_fails, "{case}: {text}");
                        // With datasets of their own all ranks have all rows.
                        let times = if sharding == Sharding::Off {
                            size as f32
                        } else {
                            1.0
                        };
                        let value = || read(&sum).unwrap().to_vec::<f32>().unwrap()[0];
                        assert_eq!(value(), times * sums(8), "{case}");
                        let report = run().unwrap();
                        assert!(report.pass_ended, "{case}");
                        if sharding == Sharding::Data {
                            assert_eq!((report.steps, value()), (3, sums(22)), "{case}");
                        }
                    });
                }
            }
        }
    }
}

/// One rank cannot make an element, another one lacks the memory for it and would try again, and to
/// a third it would be given again: it is left out on all.
#[test]
fn an_element_that_one_rank_passes_over_is_given_again_on_none() {
    for (failing, short) in [(0, 1), (1, 0), (2, 1), (1, 2)] {
        for read_ahead in [0, 2] {
            let options = reading_ahead(Sharding::Data, read_ahead);
            let came = on_ranks(&ranks(3), 1, |rank, strategy| {
                let strategy = strategy.unwrap();
                let calls = AtomicUsize::new(0);
                let fails = move |value: &Value| -> Result<Value> {
                    let is_it = value.tensor_of(0)?.to_vec::<i32>()?[0] == 8;
                    if is_it && rank == failing {
                        return Err(Error::NotFound("the third".into()));
                    }
                    if is_it && rank == short && calls.fetch_add(1, Ordering::SeqCst) == 0 {
                        return Err(Error::no_memory_for("the third"));
                    }
                    Ok(value.clone())
                };
                let distributed = some_failing(&strategy, fails, &options);
                let iterator = distributed.iterator().unwrap();
                let epoch = epoch_over(&strategy, &iterator);
                let got = Arc::new(Mutex::new(Vec::new()));
                let mut seen = Vec::new();
                let of_step = Arc::clone(&got);
                let step: Arc<ReplicaFunction> = Arc::new(move |context| {
                    let rows = context
                        .arguments()?
                        .unwrap()
                        .tensor_of(0)?
                        .to_vec::<i32>()?;
                    *of_step.lock().unwrap() = rows;
                    Ok(None)
                });
                let mut run = || {
                    epoch.run(
                        &OwnedCallback::of(Arc::clone(&step)),
                        &|_, _, _| Ok(()),
                        &mut |_, _| {
                            seen.push(vec![std::mem::take(&mut *got.lock().unwrap())]);
                            Ok(())
                        },
                    )
                };
                let error = run().unwrap_err().to_string();
                assert!(error.contains("step 3 of the epoch"), "{error}");
                assert!(!error.contains("begins with its batch"), "{error}");
                assert!(run().unwrap().pass_ended);
                seen
            });
            let all: Vec<i32> = joined(came).into_iter().flatten().flatten().collect();
            let case =
                format!("rank {failing} fails, rank {short} lacks memory, {read_ahead} ahead");
            assert!(
                all.into_iter().eq((0..22).filter(|row| row / 4 != 2)),
                "{case}"
            );
        }
    }
}

/// On one rank the progress function fails after a step that counts, while another one cannot make
/// the next element: that is left out on all, and the rows of later ones belong together.
#[test]
fn an_element_is_passed_over_by_a_rank_whose_progress_fails_meanwhile() {
    for (failing, short) in [(0, 1), (1, 0), (2, 1), (1, 2)] {
        for read_ahead in [0, 2] {
            let options = reading_ahead(Sharding::Data, read_ahead);
            let came = on_ranks(&ranks(3), 1, |rank, strategy| {
                let strategy = strategy.unwrap();
                let fails = move |value: &Value| -> Result<Value> {
                    match value.tensor_of(0)?.to_vec::<i32>()?[0] {
                        8 if rank == failing => Err(Error::NotFound("the third".into())),
                        _ => Ok(value.clone()),
                    }
                };
                let distributed = some_failing(&strategy, fails, &options);
                let iterator = distributed.iterator().unwrap();
                let epoch = epoch_over(&strategy, &iterator);
                let seen = Arc::new(Mutex::new(Vec::new()));
                let of_step = Arc::clone(&seen);
                let step: Arc<ReplicaFunction> = Arc::new(move |context| {
                    let part = context.arguments()?.unwrap();
                    let rows = part.tensor_of(0)?.to_vec::<i32>()?;
                    of_step.lock().unwrap().push(rows);
                    Ok(None)
                });
                let run =
                    |fails: bool| {
                        let step = OwnedCallback::of(Arc::clone(&step));
                        let fails = |steps: u64| fails && steps == 2;
                        epoch.run(&step, &|_, _, _| Ok(()), &mut |report, _| match fails(
                            report.steps,
                        ) {
                            true => Err(Error::Internal("no progress".into())),
                            false => Ok(()),
                        })
                    };
                assert!(run(rank == short).is_err());
                let report = run(false).unwrap();
                assert!(report.pass_ended);
                assert_eq!(report.steps, 3);
                seen.lock().unwrap().clone()
            });
            // Each step has one batch of the data: the parts of its ranks follow each other.
            for step in 0..came[0].len() {
                let batch: Vec<i32> = came.iter().flat_map(|rank| rank[step].clone()).collect();
                let first = [0, 4, 12, 16, 20][step];
                let last = (first + 4).min(22);
                assert_eq!(
                    batch,
                    (first..last).collect::<Vec<_>>(),
                    "{failing} {short}"
                );
            }
        }
    }
}

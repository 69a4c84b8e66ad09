//! Epochs that end on some ranks before the others: all ranks are told at once, and none waits for
//! the others in vain.

use std::slice;
use std::sync::Arc;
use std::time::{Duration, Instant};

use umbo_core::equivalence::OwnedCallback;
use umbo_core::error::{Error, Result, Status};
use umbo_core::input::{
    Dataset, DistributeOptions, ElementSpec, Generator, LeafSpec, PassIterator, Sharding,
    distribute_dataset,
};
use umbo_core::optimizer::rules::adam::Adam;
use umbo_core::optimizer::{ApplyReport, GradientsOptions, Optimizer};
use umbo_core::strategy::{ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::tensor::DType;
use umbo_core::training::{Epoch, EpochReport};
use umbo_core::values::Value;
use umbo_core::values::variable::Aggregation;

use super::dividing::{contribute, gradients};
use super::engine::ranks;
use super::passed_over::epoch_over;
use super::{on_ranks, tensor, variable};

/// No rank waits as long before it is told. Where nobody tells it, it waits for a minute.
const SOON: Duration = Duration::from_secs(20);

/// The numbers from 0 on, as many as it has.
struct Counting(i32, i32);

impl Generator for Counting {
    fn next(&mut self) -> Result<Option<Value>> {
        let number = self.0;
        self.0 += i32::from(number < self.1);
        Ok((number < self.1).then(|| Value::Tensor(tensor(&[number], &[]))))
    }

    fn reset(&mut self) -> Result<()> {
        self.0 = 0;
        Ok(())
    }
}

/// So many batches of 6 rows, which nobody knows before.
pub fn counted_batches(count: i32) -> Dataset {
    let spec = ElementSpec::Leaf(LeafSpec {
        dtype: DType::Int32,
        shape: vec![],
    });
    let begin = move || Ok(Box::new(Counting(0, 6 * count)) as _);
    let rows = Dataset::from_generator(spec, begin).unwrap();
    rows.batch(6, false).unwrap()
}

/// An iterator over so many batches, which nobody knows before.
fn batches(strategy: &Strategy, count: i32, options: &DistributeOptions) -> PassIterator {
    let distributed = distribute_dataset(strategy, &counted_batches(count), options).unwrap();
    distributed.iterator().unwrap()
}

fn run(epoch: &Epoch<'_>, progress: impl Fn(u64) -> Result<()>) -> Result<EpochReport> {
    let step: Arc<ReplicaFunction> = Arc::new(|_: &ReplicaContext| Ok(None));
    let begun = Instant::now();
    let done = epoch.run(
        &OwnedCallback::of(step),
        &|_, _, _| Ok(()),
        &mut |report, _| progress(report.steps),
    );
    assert!(begun.elapsed() < SOON, "{done:?}");
    done
}

#[test]
fn a_pass_that_ends_earlier_on_some_ranks_is_told_to_all() {
    for lengths in [
        &[1, 2][..],
        &[3, 0],
        &[0, 1],
        &[2, 2, 4],
        &[4, 2, 2],
        &[3, 1, 1, 5],
    ] {
        let shortest = *lengths.iter().min().unwrap();
        for read_ahead in [0, 2] {
            let options = DistributeOptions {
                read_ahead: Some(read_ahead),
                ..DistributeOptions::default()
            };
            on_ranks(&ranks(lengths.len()), 2, |rank, strategy| {
                let strategy = strategy.unwrap();
                let iterator = batches(&strategy, lengths[rank], &options);
                let epoch = epoch_over(&strategy, &iterator);
                for steps in [shortest, 0] {
                    let error = run(&epoch, |_| Ok(())).unwrap_err();
                    let text = error.to_string();
                    assert_eq!(error.status(), Status::FailedPrecondition, "{text}");
                    for (other, &length) in lengths.iter().enumerate() {
                        let one = format!("{other}");
                        let ended = format!("{steps} steps of the epoch");
                        let said = if length == shortest {
                            ended
                        } else {
                            format!("{} or more", steps + 1)
                        };
                        let part = text.split(", ").find(|part| {
                            part.contains(&said) && part.split(&said).last().unwrap().contains(&one)
                        });
                        assert!(
                            part.is_some(),
                            "'{said}' of rank {other} is missing: {text}"
                        );
                    }
                    assert!(
                        text.contains(&format!("step {} of the epoch", steps + 1)),
                        "{text}"
                    );
                    let again = text.contains("begins with its batch");
                    assert_eq!(again, lengths[rank] > shortest, "{text}");
                }
                // Nothing is lost: the ranks with more still have the rest.
                let more = lengths[rank] - shortest;
                let left = std::iter::from_fn(|| iterator.next().unwrap()).count();
                // `next` drops the element that was given back.
                assert_eq!(left as i32, (more - 1).max(0));
            });
        }
    }
}

#[test]
fn passes_of_one_length_end_together() {
    for sharding in [Sharding::Data, Sharding::Off] {
        for (length, most) in [
            (0, None),
            (3, None),
            (3, Some(2)),
            (3, Some(3)),
            (3, Some(4)),
        ] {
            let options = DistributeOptions {
                sharding,
                ..DistributeOptions::default()
            };
            on_ranks(&ranks(3), 1, |_, strategy| {
                let strategy = strategy.unwrap();
                let iterator = batches(&strategy, length, &options);
                let epoch = Epoch {
                    max_steps: most,
                    reset: true,
                    ..epoch_over(&strategy, &iterator)
                };
                for _ in 0..2 {
                    let report = run(&epoch, |_| Ok(())).unwrap();
                    let ends = most.is_none_or(|most| most > length as u64);
                    assert_eq!(report.pass_ended, ends);
                    assert_eq!(report.steps, most.unwrap_or(u64::MAX).min(length as u64));
                    if !ends {
                        iterator.reset().unwrap();
                    }
                }
            });
        }
    }
}

/// One rank's function ends the epoch, after its first step, in the middle or after the last step,
/// or that of all ranks.
#[test]
fn a_progress_function_that_ends_the_epoch_on_one_rank_ends_it_on_all() {
    for sharding in [Sharding::Data, Sharding::Off] {
        for (at, ending) in [(1, 0b001), (2, 0b100), (3, 0b010), (3, 0b101), (2, 0b111)] {
            let options = DistributeOptions {
                sharding,
                ..DistributeOptions::default()
            };
            on_ranks(&ranks(3), 1, |rank, strategy| {
                let strategy = strategy.unwrap();
                let iterator = batches(&strategy, 3, &options);
                let epoch = epoch_over(&strategy, &iterator);
                let ends = ending & 1 << rank != 0;
                let progress = |steps| match ends && steps == at {
                    true => Err(Error::Cancelled("that is enough".into())),
                    false => Ok(()),
                };
                let error = run(&epoch, progress).unwrap_err();
                let text = error.to_string();
                assert_eq!(error.status(), Status::Cancelled, "{text}");
                assert!(
                    text.contains(&format!("step {at} of the epoch: progress")),
                    "{text}"
                );
                assert_eq!(text.contains("rank"), !ends, "{text}");
                // No step is lost.
                let report = run(&epoch, |_| Ok(())).unwrap();
                assert_eq!((report.steps, report.pass_ended), (3 - at, true));
            });
        }
    }
}

/// After the last step of all ranks there is still the flush, which is also for all of them.
#[test]
fn a_progress_function_that_fails_after_the_last_step_fails_the_flush_on_all() {
    on_ranks(&ranks(2), 1, |rank, strategy| {
        let strategy = strategy.unwrap();
        let weights = variable(
            &strategy,
            "weights",
            Aggregation::Sum,
            &tensor(&[0f32], &[1]),
        );
        let options = GradientsOptions {
            accumulation_steps: 5,
            ..GradientsOptions::default()
        };
        let gradients = gradients(&strategy, slice::from_ref(&weights), options);
        let rule = Box::new(Adam::new(0.9, 0.999, 1e-8).unwrap());
        let optimizer = Optimizer::new(strategy.id(), rule, 0.1).unwrap();
        let iterator = batches(&strategy, 3, &DistributeOptions::default());
        let update = Some((optimizer, Arc::clone(&gradients)));
        let epoch = Epoch {
            update,
            max_steps: Some(2),
            ..epoch_over(&strategy, &iterator)
        };
        let submit: Arc<ReplicaFunction> = Arc::new(move |context: &ReplicaContext| {
            contribute(context, &gradients, 0).map(|()| None)
        });
        let mut progress = |report: &EpochReport, _: Option<&ApplyReport>| match report.steps {
            2 if rank == 1 => Err(Error::Cancelled("that is enough".into())),
            _ => Ok(()),
        };
        let begun = Instant::now();
        let error = epoch
            .run(&OwnedCallback::of(submit), &|_, _, _| Ok(()), &mut progress)
            .unwrap_err();
        assert!(begun.elapsed() < SOON, "{error}");
        let text = error.to_string();
        assert_eq!(error.status(), Status::Cancelled, "{text}");
        assert_eq!(text.contains("rank 1 failed"), rank == 0, "{text}");
        assert_eq!(text.contains("the flush"), rank == 0, "{text}");
    });
}

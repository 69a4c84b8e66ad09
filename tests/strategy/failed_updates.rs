//! An update that fails inside of a step takes the step with it if anything was written there.

use umbo_core::metrics::Metrics;
use umbo_core::metrics::kind::MetricKind;

use crate::*;

/// Where the update is called.
#[derive(Clone, Copy, Debug)]
enum Place {
    Outside,
    MergeCall,
    Update,
    UpdateInMergeCall,
}

/// What the step writes before the update, and what the update writes.
#[derive(Clone, Copy, Debug)]
struct Writes {
    before: bool,
    within: bool,
    /// An update inside of the failing one that succeeds.
    inner: bool,
    fails: bool,
}

fn add(v: &Variable, value: f32) -> Result<()> {
    assign(v, Assignment::Add, &scalar(value))
}

fn attempt(s: &Strategy, v: &Variable, w: &Variable, writes: Writes) -> Result<()> {
    if writes.before {
        add(v, 1.0)?;
    }
    let strategy = s.clone();
    let other = w.clone();
    let update = s.update(v, None, move |v, _| {
        if writes.within {
            add(v, 10.0)?;
            add(&other, 10.0)?;
        }
        if writes.inner {
            let other = other.clone();
            strategy.update(v, None, move |v, _| {
                add(v, 100.0)?;
                add(&other, 100.0)?;
                Ok(None)
            })?;
        }
        match writes.fails {
            true => Err(Error::DataLoss("torn".into())),
            false => Ok(None),
        }
    });
    match writes.fails {
        true => drop(refused(update, Status::DataLoss, &["torn"])),
        false => drop(update?),
    }
    // What the step sees afterwards is what it commits.
    add(w, 1000.0)
}

fn at(place: Place, s: &Strategy, v: &Variable, w: &Variable, writes: Writes) -> Result<()> {
    let in_merge = |place: Place| {
        let v = v.clone();
        let w = w.clone();
        let merge = move |context: &ReplicaContext| {
            let v = v.clone();
            let w = w.clone();
            context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(move |s, _| {
                    at(place, s, &v, &w, writes)?;
                    Ok(None)
                }),
            )
        };
        s.run(&merge, None).map(drop)
    };
    match place {
        Place::Outside => attempt(s, v, w, writes),
        Place::MergeCall => in_merge(Place::Outside),
        Place::UpdateInMergeCall => in_merge(Place::Update),
        Place::Update => {
            let strategy = s.clone();
            let w = w.clone();
            let body = move |v: &Variable, _| {
                attempt(&strategy, v, &w, writes)?;
                Ok(None)
            };
            s.update(v, None, body).map(drop)
        }
    }
}

#[test]
fn a_step_with_a_failed_update_keeps_nothing_that_it_wrote() {
    use Place::*;
    for place in [Outside, MergeCall, Update, UpdateInMergeCall] {
        for bits in 0..16 {
            let bit = |number: u32| bits >> number & 1 == 1;
            let writes = Writes {
                before: bit(0),
                within: bit(1),
                inner: bit(2),
                fails: bit(3),
            };
            let is_step = !matches!(place, Outside);
            let has_written = writes.before || writes.within || writes.inner;
            for replicas in [1, 2] {
                let s = strategy(replicas);
                let v = variable(&s, Aggregation::Sum, 0.5);
                let w = variable(&s, Aggregation::Sum, 0.25);
                let done = at(place, &s, &v, &w, writes);
                let counted = |condition: bool, value: f32| if condition { value } else { 0.0 };
                let kept = counted(!writes.fails && writes.within, 10.0)
                    + counted(!writes.fails && writes.inner, 100.0);
                let mut of_v = 0.5 + counted(writes.before, 1.0) + kept;
                let mut of_w = 1000.25 + kept;
                if is_step && writes.fails && has_written {
                    refused(
                        done,
                        Status::FailedPrecondition,
                        &["nothing of the step was kept", "torn"],
                    );
                    (of_v, of_w) = (0.5, 0.25);
                } else {
                    done.unwrap();
                }
                assert_eq!(
                    (value_of(&v), value_of(&w)),
                    (of_v, of_w),
                    "{place:?} {writes:?}"
                );
                // The strategy can be used again.
                add(&v, 1.0).unwrap();
                assert_eq!(value_of(&v), of_v + 1.0);
            }
        }
    }
}

/// A nested run that fails takes the step with it once it has written something, also where the
/// merge function continues.
#[test]
fn what_a_nested_run_that_failed_has_written_does_not_count() {
    #[derive(Clone, Copy, PartialEq)]
    enum Writes {
        Nothing,
        Variable,
        Metrics,
    }
    for replicas in 1..=3 {
        for writes in [Writes::Nothing, Writes::Variable, Writes::Metrics] {
            let s = strategy(replicas);
            let v = variable(&s, Aggregation::Sum, 1.0);
            let metrics = Metrics::new(&s);
            metrics.define("m", MetricKind::Sum).unwrap();
            let fails = {
                let v = v.clone();
                let metrics = Arc::clone(&metrics);
                move |context: &ReplicaContext| {
                    match writes {
                        Writes::Nothing => {}
                        Writes::Variable => assign(&v, Assignment::Add, &scalar(1.0))?,
                        Writes::Metrics => metrics.add_in(context, "m", 1.0, 1.0)?,
                    }
                    Err(Error::DataLoss("torn".into()))
                }
            };
            let function = move |context: &ReplicaContext| {
                let strategy = context.strategy().clone();
                let fails = fails.clone();
                context.synchronize(
                    Operation::MergeCall { function: 7 },
                    None,
                    Box::new(move |_, _| {
                        let limits = Limits::default();
                        let inner = strategy.run_within(Arc::new(fails), None, limits, None);
                        refused(inner, Status::DataLoss, &["torn"]);
                        Ok(None)
                    }),
                )
            };
            let result = s.run_within(Arc::new(function), None, Limits::default(), None);
            assert_eq!(
                result.is_ok(),
                writes == Writes::Nothing,
                "{:?}",
                result.err()
            );
            assert_eq!((value_of(&v), metrics.result("m").unwrap().sum), (1.0, 0.0));
        }
    }
}

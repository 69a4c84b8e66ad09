//! An update that fails undoes what it wrote, and nothing else, wherever it is called.

use umbo::metrics::Metrics;
use umbo::metrics::kind::MetricKind;

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
    let (strategy, other) = (s.clone(), w.clone());
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
        let (v, w) = (v.clone(), w.clone());
        let merge = move |context: &ReplicaContext| {
            let (v, w) = (v.clone(), w.clone());
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
            let (of, w) = (s.clone(), w.clone());
            let body = move |v: &Variable, _| {
                attempt(&of, v, &w, writes)?;
                Ok(None)
            };
            s.update(v, None, body).map(drop)
        }
    }
}

#[test]
fn a_failed_update_is_undone_alone() {
    use Place::*;
    for place in [Outside, MergeCall, Update, UpdateInMergeCall] {
        for bits in 0..16 {
            let bit = |number: u32| bits >> number & 1 == 1;
            let writes = Writes { before: bit(0), within: bit(1), inner: bit(2), fails: bit(3) };
            for replicas in [1, 2] {
                let s = strategy(replicas);
                let (v, w) =
                    (variable(&s, Aggregation::Sum, 0.5), variable(&s, Aggregation::Sum, 0.25));
                at(place, &s, &v, &w, writes).unwrap();
                let of = |condition: bool, value: f32| if condition { value } else { 0.0 };
                let kept = of(!writes.fails && writes.within, 10.0)
                    + of(!writes.fails && writes.inner, 100.0);
                assert_eq!(
                    value_of(&v),
                    0.5 + of(writes.before, 1.0) + kept,
                    "{place:?} {writes:?}"
                );
                assert_eq!(value_of(&w), 1000.25 + kept, "{place:?} {writes:?}");
            }
        }
    }
}

/// A run inside of an update whose callbacks contribute can't be undone alone, so that nothing of
/// the step is kept.
#[test]
fn an_update_that_has_run_a_step_takes_the_whole_step_with_it() {
    let s = strategy(2);
    let v = variable(&s, Aggregation::Sum, 0.0);
    let inside = v.clone();
    let error = s.run(
        &move |context: &ReplicaContext| {
            let v = inside.clone();
            context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(move |s, _| {
                    add(&v, 1.0)?;
                    let of = s.clone();
                    let update = s.update(&v, None, move |v, _| {
                        let v = v.clone();
                        of.run(
                            &move |_| {
                                assign(&v, Assignment::Add, &scalar(1.0))?;
                                Ok(None)
                            },
                            None,
                        )?;
                        Err(Error::DataLoss("torn".into()))
                    });
                    refused(update, Status::DataLoss, &["torn"]);
                    Ok(None)
                }),
            )
        },
        None,
    );
    refused(error, Status::FailedPrecondition, &["nothing of the step was kept"]);
    assert_eq!(value_of(&v), 0.0);
    add(&v, 1.0).unwrap();
    assert_eq!(value_of(&v), 1.0);
}

/// A nested run that fails takes the step with it once it has written something, also where the merge
/// function goes on.
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
                let (v, metrics) = (v.clone(), Arc::clone(&metrics));
                move |context: &ReplicaContext| {
                    match writes {
                        Writes::Nothing => {}
                        Writes::Variable => assign(&v, Assignment::Add, &scalar(1.0))?,
                        Writes::Metrics => metrics.add_in(context, 0, 1.0, 1.0)?,
                    }
                    Err(Error::DataLoss("torn".into()))
                }
            };
            let function = move |context: &ReplicaContext| {
                let (strategy, fails) = (context.strategy().clone(), fails.clone());
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
            assert_eq!(result.is_ok(), writes == Writes::Nothing, "{:?}", result.err());
            assert_eq!((value_of(&v), metrics.result(0).unwrap().sum), (1.0, 0.0));
        }
    }
}

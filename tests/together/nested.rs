//! Runs from merge calls, updates, deadlines and tokens, over ranks: what goes right has the bits
//! of one process; what fails on one rank, wherever it is and also where the program overlooks it,
//! counts on none.

use std::sync::Arc;
use std::time::{Duration, Instant};

use umbo_core::collectives::{Assignment, ReduceOp};
use umbo_core::error::{Error, Result, Status};
use umbo_core::optimizer::rules::momentum::Momentum;
use umbo_core::optimizer::{GradientMode, Gradients, GradientsOptions, Optimizer, apply};
use umbo_core::strategy::context::metrics::Metric;
use umbo_core::strategy::step::cancellation::Cancellation;
use umbo_core::strategy::step::merge::Operation;
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::variables::{assign, read};
use umbo_core::strategy::{ReplicaContext, Strategy};
use umbo_core::tensor::Tensor;
use umbo_core::values::Value;
use umbo_core::values::variable::{Aggregation, Variable};

use super::dividing::gradients;
use super::engine::{job, ranks};
use super::on_gpus::tried;
use super::pairwise::pairwise;
use super::{alone, bytes, copy_into, on_ranks, tensor, variable};

const SPLITS: [(usize, usize); 3] = [(2, 1), (2, 2), (3, 1)];

/// Parts of the step below, in which one rank may fail or be late.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Nowhere,
    Callback,
    MergeFunction,
    NestedBeforeAssignment,
    NestedAfterAssignment,
    UpdateInMergeCall,
    UpdateInReplica,
    End,
}

impl Place {
    const ALL: [Place; 7] = [
        Place::Callback,
        Place::MergeFunction,
        Place::NestedBeforeAssignment,
        Place::NestedAfterAssignment,
        Place::UpdateInMergeCall,
        Place::UpdateInReplica,
        Place::End,
    ];
}

/// What becomes of a rank at its place.
#[derive(Clone)]
enum Fate {
    Fails,
    /// It fails, and the program does not look at the failure of the part.
    Overlooked,
    /// Its callback waits until it is told to stop, and cancels this before.
    Late(Option<Cancellation>),
}

/// Says it of a rank, of so many.
type OfRank = fn(usize, usize) -> bool;

/// Which ranks' runs have limits, which nothing reaches.
const LIMITED: [(&str, OfRank); 4] = [
    ("no limits", |_, _| false),
    ("limits on all ranks", |_, _| true),
    ("limits on the first rank", |rank, _| rank == 0),
    ("limits on the last rank", |rank, size| rank + 1 == size),
];

fn limits(are_there: bool) -> Limits {
    Limits {
        deadline: are_there.then(|| Instant::now() + Duration::from_secs(3600)),
        cancellation: are_there.then(Cancellation::new),
    }
}

struct Program {
    strategy: Strategy,
    counts: Variable,
    weights: Variable,
    gradients: Arc<Gradients>,
    optimizer: Arc<Optimizer>,
}

fn numbers(seed: usize) -> Tensor {
    let number = |at: usize| 0.1 + ((seed * 7 + at) % 13) as f32 / 3.0;
    tensor(&[number(0), number(1), number(2)], &[3])
}

impl Program {
    fn new(strategy: Strategy) -> Arc<Program> {
        let initial = tensor(&[0.5f32, -1.0, 2.0], &[3]);
        let counts = variable(&strategy, "counts", Aggregation::Sum, &initial);
        let weights = variable(&strategy, "weights", Aggregation::None, &initial);
        let options = GradientsOptions::default();
        let gradients = gradients(&strategy, std::slice::from_ref(&weights), options);
        let rule = Momentum::new(0.9, false).unwrap();
        let optimizer = Optimizer::new(strategy.id(), Box::new(rule), 0.1).unwrap();
        Arc::new(Program {
            gradients,
            strategy,
            counts,
            weights,
            optimizer,
        })
    }

    fn state(&self) -> Vec<Vec<u8>> {
        [&self.counts, &self.weights]
            .map(|it| bytes(&read(it).unwrap()))
            .to_vec()
    }

    /// A step in which this rank meets its fate at a place, if it has one.
    fn step(
        self: &Arc<Self>,
        step: usize,
        limits: Limits,
        fate: Option<(Place, Fate)>,
    ) -> Result<Vec<u8>> {
        let (place, fate) = fate.unwrap_or((Place::Nowhere, Fate::Fails));
        let program = Arc::clone(self);
        let callback = move |context: &ReplicaContext| program.call(context, step, place, &fate);
        let came = self
            .strategy
            .run_within(Arc::new(callback), None, limits, None)?;
        let came = came.unwrap();
        let component = came.component(0)?;
        Ok(bytes(component.tensor_of(0)?))
    }

    fn call(
        self: &Arc<Self>,
        context: &ReplicaContext,
        step: usize,
        place: Place,
        fate: &Fate,
    ) -> Result<Option<Value>> {
        let seed = context.replica_in_sync() + 10 * step;
        let buffer = self
            .gradients
            .view_in(context, 0, GradientMode::Overwrite)?;
        copy_into(buffer, &numbers(seed));
        self.gradients
            .submit_in(context, Some(1.0 + (seed % 3) as f64))?;
        meet(context, place == Place::Callback, fate)?;

        let program = Arc::clone(self);
        let of_merge = fate.clone();
        let merged = context.synchronize(
            Operation::MergeCall { function: 1 },
            None,
            Box::new(move |strategy, _| {
                program.in_merge_call(strategy, step, place, &of_merge)?;
                Ok(None)
            }),
        );
        overlook(merged.map(drop), fate)?;

        let fails = place == Place::UpdateInReplica && !matches!(fate, Fate::Late(_));
        let updated = self.strategy.update(&self.counts, None, move |it, _| {
            assign(it, Assignment::Add, &Value::Tensor(numbers(3)))?;
            if fails { Err(planned()) } else { Ok(None) }
        });
        overlook(updated.map(drop), fate)?;

        assign(
            &self.counts,
            Assignment::Add,
            &Value::Tensor(numbers(seed + 1)),
        )?;
        meet(context, place == Place::End, fate)?;
        apply(&self.optimizer, &self.gradients)?;
        context
            .all_reduce(ReduceOp::Mean, Value::Tensor(numbers(seed + 2)))
            .map(Some)
    }

    fn in_merge_call(
        self: &Arc<Self>,
        strategy: &Strategy,
        step: usize,
        place: Place,
        fate: &Fate,
    ) -> Result<()> {
        let program = Arc::clone(self);
        let of_nested = fate.clone();
        let nested = move |context: &ReplicaContext| {
            let seed = context.replica_in_sync() + 10 * step;
            meet(context, place == Place::NestedBeforeAssignment, &of_nested)?;
            assign(
                &program.counts,
                Assignment::Add,
                &Value::Tensor(numbers(seed)),
            )?;
            meet(context, place == Place::NestedAfterAssignment, &of_nested)?;
            context.all_reduce(ReduceOp::Sum, Value::Tensor(numbers(seed)))?;
            context.add_metric(
                "nested",
                Metric {
                    sum: seed as f64,
                    weight: 1.0,
                },
            )?;
            Ok(None)
        };
        let ran = strategy.run_within(Arc::new(nested), None, Limits::default(), None);
        overlook(ran.map(drop), fate)?;

        let fails = place == Place::UpdateInMergeCall && !matches!(fate, Fate::Late(_));
        let updated = strategy.update(&self.counts, None, move |it, _| {
            assign(it, Assignment::Add, &Value::Tensor(numbers(5)))?;
            if fails { Err(planned()) } else { Ok(None) }
        });
        overlook(updated.map(drop), fate)?;
        match place == Place::MergeFunction && !matches!(fate, Fate::Late(_)) {
            true => Err(planned()),
            false => Ok(()),
        }
    }
}

fn planned() -> Error {
    Error::NotFound("as planned".into())
}

fn overlook(result: Result<()>, fate: &Fate) -> Result<()> {
    if matches!(fate, Fate::Overlooked) {
        Ok(())
    } else {
        result
    }
}

/// The last replica of the rank fails here, or is late, if it is here.
fn meet(context: &ReplicaContext, is_here: bool, fate: &Fate) -> Result<()> {
    let is_last = context.replica() + 1 == context.strategy().num_replicas();
    match fate {
        _ if !is_here || !is_last => Ok(()),
        Fate::Fails | Fate::Overlooked => Err(planned()),
        Fate::Late(token) => {
            if let Some(token) = token {
                token.cancel();
            }
            while !context.is_cancelled() {
                std::thread::yield_now();
            }
            Ok(())
        }
    }
}

/// What is known after each of four steps.
fn train(strategy: Strategy, limits: impl Fn() -> Limits) -> Vec<Vec<Vec<u8>>> {
    let program = Program::new(strategy);
    let after = |step| {
        let mut known = vec![program.step(step, limits(), None).unwrap()];
        known.extend(program.state());
        let metric = program.strategy.metric("nested").unwrap();
        known.push(format!("{} {}", metric.sum, metric.weight).into_bytes());
        known
    };
    (0..4).map(after).collect()
}

#[test]
fn what_is_nested_under_limits_has_the_bits_of_one_process() {
    for choice in tried(pairwise(&[SPLITS.len(), LIMITED.len()])) {
        let (size, replicas) = SPLITS[choice[0]];
        let (limited, are_on) = LIMITED[choice[1]];
        let expected = train(alone(size * replicas), Limits::default);
        let came = on_ranks(
            &job(size, Some(choice[0] as u64), None),
            replicas,
            |rank, strategy| train(strategy.unwrap(), || limits(are_on(rank, size))),
        );
        assert!(
            came.iter().all(|came| *came == expected),
            "{size}×{replicas}, {limited}"
        );
    }
}

/// Every part of the step fails on each rank in turn; a program that overlooks it is told at the
/// end.
#[test]
fn a_part_that_fails_on_one_rank_fails_the_step_on_all() {
    for choice in tried(pairwise(&[SPLITS.len(), LIMITED.len(), 3])) {
        let (size, replicas) = SPLITS[choice[0]];
        let (limited, are_on) = LIMITED[choice[1]];
        let failing = choice[2] % size;
        let expected = train(alone(size * replicas), Limits::default);
        on_ranks(
            &job(size, Some(choice[0] as u64), None),
            replicas,
            |rank, strategy| {
                let program = Program::new(strategy.unwrap());
                let limits = || limits(are_on(rank, size));
                program.step(0, limits(), None).unwrap();
                for place in Place::ALL {
                    for fate in [Fate::Fails, Fate::Overlooked] {
                        let before = program.state();
                        let fate_of_rank = (rank == failing).then(|| (place, fate.clone()));
                        let overlooked = matches!(fate, Fate::Overlooked);
                        let case = || format!("{place:?} on {failing}, {limited}, {overlooked}");
                        let came = program.step(1, limits(), fate_of_rank);
                        let error = came.map_err(|it| (it.status(), it.to_string()));
                        let (status, text) = error.expect_err(&case());
                        if !overlooked {
                            assert_eq!(status, Status::NotFound, "{}: {text}", case());
                            let names = text.contains(&format!("rank {failing} failed"));
                            assert_eq!(names, rank != failing, "{}: {text}", case());
                        } else {
                            let names = text.contains(&format!("rank {failing} "));
                            assert!(names || rank == failing, "{}: {text}", case());
                        }
                        assert_eq!(program.state(), before, "{}", case());
                    }
                }
                program.step(1, limits(), None).unwrap();
                assert_eq!(program.state()[..], expected[1][1..3]);
            },
        );
    }
}

/// A rank is late in each part with callbacks, by deadline and by token, while the others continue
/// as far as they can.
#[test]
fn a_part_that_is_late_on_one_rank_is_given_up_on_all() {
    use Place::{Callback, End, NestedAfterAssignment, NestedBeforeAssignment};
    for (size, replicas) in tried(SPLITS) {
        let expected = train(alone(size * replicas), Limits::default);
        for late in 0..size {
            on_ranks(&ranks(size), replicas, |rank, strategy| {
                let program = Program::new(strategy.unwrap());
                program.step(0, Limits::default(), None).unwrap();
                for place in [Callback, NestedBeforeAssignment, NestedAfterAssignment, End] {
                    for by_token in [false, true] {
                        let case = format!("{place:?} on {late}, by token: {by_token}");
                        let token = by_token.then(Cancellation::new);
                        let limits = match (rank == late, &token) {
                            (false, _) => Limits::default(),
                            (true, Some(_)) => Limits {
                                cancellation: token.clone(),
                                ..Limits::default()
                            },
                            (true, None) => Limits {
                                deadline: Some(Instant::now() + Duration::from_millis(20)),
                                ..Limits::default()
                            },
                        };
                        let before = program.state();
                        let fate = (rank == late).then_some((place, Fate::Late(token)));
                        let error = program.step(1, limits, fate).expect_err(&case);
                        let status = match by_token {
                            true => Status::Cancelled,
                            false => Status::DeadlineExceeded,
                        };
                        assert_eq!(error.status(), status, "{case}: {error}");
                        let names = error.to_string().contains(&format!("rank {late} failed"));
                        assert_eq!(names, rank != late, "{case}: {error}");
                        assert_eq!(program.state(), before, "{case}");
                        program.strategy.synchronize().unwrap();
                    }
                }
                program.step(1, Limits::default(), None).unwrap();
                assert_eq!(program.state()[..], expected[1][1..3]);
            });
        }
    }
}

//! Runs inside of merge calls of runs that have limits: every way in which either of them ends.

use umbo::metrics::Metrics;
use umbo::metrics::kind::MetricKind;

use crate::*;

/// Which limit of the outer run is reached.
#[derive(Clone, Copy, Debug)]
enum Limit {
    Deadline,
    Token,
}

/// Where replicas are when it is.
#[derive(Clone, Copy, Debug)]
enum Late {
    /// In the inner callback.
    Inner,
    /// In a merge call of the inner callback, for a replica that does not come.
    InnerMergeCall,
    /// In a run inside of a merge call of the inner run.
    Deeper,
}

/// Of some depth, in whose innermost callbacks replicas are late.
fn nest(depth: usize, late: Late, token: Option<Cancellation>, gate: Arc<Gate>) -> NestedRun {
    NestedRun { depth, late, token, gate, large: vec![1.0; 4096].into() }
}

#[derive(Clone)]
struct NestedRun {
    depth: usize,
    late: Late,
    token: Option<Cancellation>,
    gate: Arc<Gate>,
    /// What callbacks look at after the run has returned, so that a lost one is noticed.
    large: Arc<[f32]>,
}

impl NestedRun {
    fn call(&self, context: &ReplicaContext) -> Result<Option<Value>> {
        if self.depth > 0 {
            let inner = NestedRun { depth: self.depth - 1, ..self.clone() };
            return context.synchronize(
                Operation::MergeCall { function: self.depth },
                None,
                Box::new(move |strategy, _| {
                    let run = move |context: &ReplicaContext| inner.call(context);
                    strategy.run_within(Arc::new(run), None, Limits::default(), None)?;
                    Ok(None)
                }),
            );
        }
        let last = context.replica() + 1 == context.strategy().num_replicas();
        if last {
            if let Some(token) = &self.token {
                token.cancel();
            }
            self.gate.pass();
            assert_eq!(self.large.iter().sum::<f32>(), 4096.0);
            let refused = context.check_live();
            assert_eq!(refused.unwrap_err().status(), Status::Cancelled);
        } else if matches!(self.late, Late::InnerMergeCall) {
            merge_sum(context, 1.0)?;
        }
        Ok(None)
    }
}

#[test]
fn a_nested_run_is_given_up_with_the_run_around_it() {
    for replicas in 1..=3 {
        for limit in [Limit::Deadline, Limit::Token] {
            for late in [Late::Inner, Late::InnerMergeCall, Late::Deeper] {
                returns("a nested run under limits", move || check(replicas, limit, late));
            }
        }
    }
}

fn check(replicas: usize, limit: Limit, late: Late) {
    let s = strategy(replicas);
    let v = variable(&s, Aggregation::Sum, 1.0);
    let attempt = |time| {
        let (gate, released) = (Arc::new(Gate::default()), Released::default());
        let token = matches!(limit, Limit::Token).then(Cancellation::new);
        let deadline = Instant::now() + time;
        let limits = Limits {
            deadline: matches!(limit, Limit::Deadline).then_some(deadline),
            cancellation: token.clone(),
        };
        let depth = if matches!(late, Late::Deeper) { 3 } else { 1 };
        let nested = nest(depth, late, token, Arc::clone(&gate));
        let (strategy, variable) = (s.clone(), v.clone());
        let function = move |context: &ReplicaContext| {
            context.synchronize(
                Operation::MergeCall { function: 99 },
                None,
                Box::new({
                    let (strategy, variable) = (strategy.clone(), variable.clone());
                    move |_, _| {
                        assert!(strategy.is_in_bounded_step());
                        assign(&variable, Assignment::Add, &scalar(1.0))?;
                        Ok(None)
                    }
                }),
            )?;
            nested.call(context)
        };
        let status = match limit {
            Limit::Deadline => Status::DeadlineExceeded,
            Limit::Token => Status::Cancelled,
        };
        let result = s.run_within(Arc::new(function), None, limits, released.baggage());
        refused(result, status, &[]);
        if !gate.is_reached_by(1) {
            gate.open();
            s.synchronize().unwrap();
            return false;
        }
        assert!(!released.is_released());
        assert!(s.late_replicas().contains(&(replicas - 1)));
        refused(s.run(&|_| Ok(None), None), Status::FailedPrecondition, &["draining"]);
        assert_eq!(value_of(&v), 1.0);
        gate.open();
        s.synchronize().unwrap();
        assert!(released.is_released());
        s.run(&|context| merge_sum(context, 1.0), None).unwrap();
        assert_eq!(value_of(&v), 1.0);
        true
    };
    for _ in 0..3 {
        with_enough_time(attempt);
    }
}

/// What a nested run was given is released by the last of its callbacks, not by its return.
#[test]
fn what_a_nested_run_was_given_outlives_its_callbacks() {
    with_enough_time(a_nested_run_is_given_something);
}

fn a_nested_run_is_given_something(time: Duration) -> bool {
    let s = strategy(2);
    let (gate, released) = (Arc::new(Gate::default()), Released::default());
    let inside = Arc::new(AtomicBool::new(false));
    let function = {
        let (gate, released, inside) = (Arc::clone(&gate), released.clone(), Arc::clone(&inside));
        move |context: &ReplicaContext| {
            let (gate, released, inside) =
                (Arc::clone(&gate), released.clone(), Arc::clone(&inside));
            context.synchronize(
                Operation::MergeCall { function: 1 },
                None,
                Box::new(move |strategy, _| {
                    let baggage = released.baggage();
                    let late = move |context: &ReplicaContext| {
                        if context.replica() == 1 {
                            gate.pass();
                            inside.store(!released.is_released(), Ordering::SeqCst);
                        }
                        Ok(None)
                    };
                    let limits = Limits::default();
                    strategy.run_within(Arc::new(late), None, limits, baggage)?;
                    Ok(None)
                }),
            )
        }
    };
    let deadline = Some(Instant::now() + time);
    let limits = Limits { deadline, ..Limits::default() };
    let result = s.run_within(Arc::new(function), None, limits, None);
    refused(result, Status::DeadlineExceeded, &[]);
    if !gate.is_reached_by(1) {
        gate.open();
        s.synchronize().unwrap();
        return false;
    }
    assert!(!released.is_released());
    gate.open();
    s.synchronize().unwrap();
    assert!(released.is_released() && inside.load(Ordering::SeqCst));
    true
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

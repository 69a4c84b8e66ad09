//! The trace: what is in the file, and which files it is written to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use serde_json::Value as Json;
use umbo_core::collectives::{ReduceOp, reduce};
use umbo_core::device::DeviceId;
use umbo_core::diagnose::trace::{self, program};
use umbo_core::error::{Error, Status};
use umbo_core::input::Dataset;
use umbo_core::observe::{self, Counter, Phase};
use umbo_core::strategy::step::merge::{MergeCall, Operation};
use umbo_core::strategy::step::run::Limits;
use umbo_core::strategy::{Options, ReplicaContext, ReplicaFunction, Strategy};
use umbo_core::tensor::{Shape, Tensor};
use umbo_core::values::Value;

pub fn file(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("umbo-trace-{}-{name}.json", std::process::id()))
}

pub fn strategy(replicas: usize) -> Strategy {
    Strategy::new(&Options {
        cpu_replicas: replicas,
        ..Options::default()
    })
    .unwrap()
}

/// A trace that was read, and whose file is gone.
pub struct Trace(Vec<Json>);

impl Trace {
    #[track_caller]
    pub fn read(path: &PathBuf) -> Trace {
        let text = std::fs::read_to_string(path).unwrap();
        let events: Vec<Json> = serde_json::from_str(&text).unwrap();
        std::fs::remove_file(path).unwrap();
        Trace(events)
    }

    fn of_phase(&self, phase: &str) -> impl Iterator<Item = &Json> {
        self.0.iter().filter(move |event| event["ph"] == phase)
    }

    pub fn spans(&self, name: &str) -> Vec<&Json> {
        self.of_phase("X")
            .filter(|event| event["name"] == name)
            .collect()
    }

    pub fn summary(&self) -> &Json {
        let last = self.0.last().unwrap();
        assert_eq!(last["name"], "summary");
        &last["args"]
    }
}

/// In nanoseconds, which the three digits behind the point are.
fn time(event: &Json, field: &str) -> u64 {
    (event[field].as_f64().unwrap() * 1000.0).round() as u64
}

/// The spans of each thread lie inside of each other or beside each other.
#[track_caller]
fn check_nesting(trace: &Trace) {
    let mut threads: BTreeMap<u64, Vec<(u64, u64, String)>> = BTreeMap::new();
    for event in trace.of_phase("X") {
        let start = time(event, "ts");
        let duration = time(event, "dur");
        let spans = threads.entry(event["tid"].as_u64().unwrap()).or_default();
        spans.push((start, start + duration, event["name"].to_string()));
    }
    assert!(!threads.is_empty());
    for spans in threads.values_mut() {
        spans.sort_by_key(|&(start, end, _)| (start, std::cmp::Reverse(end)));
        let mut open: Vec<(u64, String)> = Vec::new();
        for (start, end, name) in spans.drain(..) {
            while open.last().is_some_and(|&(until, _)| until <= start) {
                open.pop();
            }
            if let Some((until, around)) = open.last() {
                // Microseconds of this size have some hundred nanoseconds of rounding as numbers.
                assert!(end <= until + 1000, "{name} reaches out of {around}");
            }
            open.push((end, name));
        }
    }
}

#[test]
fn replicas_workers_and_threads_of_input_are_there() {
    let true = crate::is_alone(replicas_workers_and_threads_of_input_are_there) else {
        return;
    };
    let path = file("whole");
    let strategy = strategy(2);
    let dataset = Dataset::range(0, 64, 1).unwrap().batch(4, false).unwrap();
    let iterator = dataset.prefetch(2).unwrap().iterator().unwrap();
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    const STEPS: usize = 8;
    for _ in 0..STEPS {
        program::begin("my \"own\" step");
        let batch = iterator.next().unwrap().unwrap();
        let step = |context: &ReplicaContext| {
            program::begin(if context.replica() == 0 {
                "first"
            } else {
                "second"
            });
            let meet = Box::new(|_: &Strategy, _: &mut [&mut MergeCall]| Ok(None));
            context.synchronize(Operation::MergeCall { function: 1 }, None, meet)?;
            program::end();
            Ok(None)
        };
        strategy.run(&step, Some(batch)).unwrap();
        program::end();
    }
    drop(iterator);
    let account = trace::stop().unwrap();
    let trace = Trace::read(&path);
    check_nesting(&trace);

    let spans = trace.of_phase("X").count() as u64;
    assert_eq!((account.events, account.dropped), (spans, 0));
    assert_eq!(trace.summary()["events"], spans);
    for replica in 0..2 {
        let steps_of_strategy: Vec<_> = trace
            .spans("compute")
            .into_iter()
            .filter(|span| span["args"]["replica"] == replica)
            .collect();
        assert_eq!(steps_of_strategy.len(), STEPS);
        let steps: BTreeSet<_> = steps_of_strategy
            .iter()
            .map(|span| span["args"]["step"].as_u64())
            .collect();
        assert_eq!(steps.len(), STEPS);
        let threads: BTreeSet<_> = steps_of_strategy
            .iter()
            .map(|span| span["tid"].as_u64())
            .collect();
        assert_eq!(threads.len(), 1);
        let thread = steps_of_strategy[0]["tid"].as_u64();
        let named = trace.of_phase("M").any(|event| {
            event["name"] == "thread_name"
                && event["tid"].as_u64() == thread
                && event["args"]["name"]
                    .as_str()
                    .unwrap()
                    .starts_with(&format!("replica {replica}"))
        });
        assert!(named, "replica {replica} has no row of its own");
    }
    for (name, count) in [
        ("step", STEPS),
        ("commit", STEPS),
        ("merge call", STEPS),
        ("next element", STEPS),
        ("my \"own\" step", STEPS),
        ("first", STEPS),
        ("second", STEPS),
    ] {
        assert_eq!(trace.spans(name).len(), count, "{name}");
    }
    assert!(trace.spans("make an element ahead").len() >= STEPS);
    for step in trace.spans("step") {
        assert_eq!(step["args"]["replicas"], 2);
        assert_eq!(step["args"]["strategy"], strategy.id());
        assert!(step["args"]["run_ns"].as_u64().unwrap() > 0);
    }
    let process = std::process::id();
    assert!(trace.0.iter().all(|event| event["pid"] == process));
}

/// How a callback of the matrix below ends.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Ending {
    Fine,
    Fails,
    Panics,
    IsLate,
}

/// Steps of every kind, watched in every way, end as they do unwatched; reports count those that
/// were committed, and traces stay whole.
#[test]
fn tracing_and_measuring_change_no_outcome() {
    let true = crate::is_alone(tracing_and_measuring_change_no_outcome) else {
        return;
    };
    let path = file("crossings");
    let other = strategy(1);
    for (measured, traced) in [(true, false), (false, true), (true, true)] {
        for replicas in 1..=3 {
            for nested in [false, true] {
                for ending in [Ending::Fine, Ending::Fails, Ending::Panics, Ending::IsLate] {
                    let case = format!("{measured} {traced} {replicas} {nested} {ending:?}");
                    let strategy = strategy(replicas);
                    strategy.measure_steps(measured).unwrap();
                    other.measure_steps(measured).unwrap();
                    if traced {
                        trace::start(&path, trace::MOST_EVENTS).unwrap();
                    }
                    for _ in 0..3 {
                        strategy.run(&|_| Ok(None), None).unwrap();
                        // Another one's steps between them, on the same thread.
                        other.run(&|_| Ok(None), None).unwrap();
                    }
                    let release = Arc::new(OnceLock::new());
                    let result = end_as(&strategy, ending, nested, &release);
                    let expected = match ending {
                        Ending::Fine => None,
                        Ending::Fails => Some(Status::DataLoss),
                        Ending::Panics => Some(Status::Internal),
                        Ending::IsLate => Some(Status::DeadlineExceeded),
                    };
                    assert_eq!(result.err().map(|error| error.status()), expected, "{case}");
                    // Late replicas come back with or without a trace.
                    if replicas == 2 {
                        release.set(()).unwrap();
                    }
                    if traced {
                        trace::stop().unwrap();
                        let trace = Trace::read(&path);
                        check_nesting(&trace);
                        let spans = trace.spans("step").into_iter();
                        let spans = spans.filter(|span| span["args"]["strategy"] == strategy.id());
                        assert_eq!(
                            spans.count(),
                            3 + usize::from(ending == Ending::Fine),
                            "{case}"
                        );
                    }
                    release.get_or_init(|| ());
                    strategy.synchronize().unwrap();
                    strategy.run(&|_| Ok(None), None).unwrap();
                    let counted = 4 + u64::from(ending == Ending::Fine);
                    match measured {
                        true => {
                            let summary = strategy.step_report().unwrap().summary;
                            assert_eq!(summary.measured, counted, "{case}");
                            assert_eq!(summary.replicas.len(), replicas);
                        }
                        false => assert!(strategy.step_report().is_err(), "{case}"),
                    }
                }
            }
        }
    }
}

/// A step whose last replica ends so; `nested`: after a merge call that runs all replicas again.
fn end_as(
    strategy: &Strategy,
    ending: Ending,
    nested: bool,
    release: &Arc<OnceLock<()>>,
) -> umbo_core::error::Result<Option<Value>> {
    let release = Arc::clone(release);
    let callback: Arc<ReplicaFunction> = Arc::new(move |context: &ReplicaContext| {
        if nested {
            let meet = Box::new(|strategy: &Strategy, _: &mut [&mut MergeCall]| {
                let inner: Arc<ReplicaFunction> = Arc::new(|_| Ok(None));
                strategy.run_within(inner, None, Limits::default(), None)?;
                Ok(None)
            });
            context.synchronize(Operation::MergeCall { function: 1 }, None, meet)?;
        }
        if context.replica() + 1 != context.strategy().num_replicas() {
            return Ok(None);
        }
        match ending {
            Ending::Fine => Ok(None),
            Ending::Fails => Err(Error::DataLoss("as planned".into())),
            Ending::Panics => std::panic::resume_unwind(Box::new("as planned")),
            Ending::IsLate => {
                release.wait();
                Ok(None)
            }
        }
    });
    let deadline = match ending {
        Ending::IsLate => Some(Instant::now() + Duration::from_millis(100)),
        _ => None,
    };
    strategy.run_within(
        callback,
        None,
        Limits {
            deadline,
            ..Limits::default()
        },
        None,
    )
}

#[test]
fn counters_add_up() {
    let true = crate::is_alone(counters_add_up) else {
        return;
    };
    let path = file("counters");
    let strategy = strategy(2);
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    let shape = Shape::new(&[1000]).unwrap();
    let tensor = || Tensor::from_slice(&[1.0f32; 1000], shape, DeviceId::HOST).unwrap();
    for _ in 0..3 {
        reduce(
            ReduceOp::Sum,
            &[tensor(), tensor()],
            None,
            DeviceId::HOST,
            None,
        )
        .unwrap();
        umbo_core::collectives::copy_to(&tensor(), DeviceId::HOST).unwrap();
        observe::count(Counter::Exchanged, || 7);
        {
            let mut exchange = observe::span(Phase::Exchange).named("all-reduce of ranks");
            exchange.of_bytes(|| 7);
        }
        strategy.run(&|_| Ok(None), None).unwrap();
    }
    trace::stop().unwrap();
    let trace = Trace::read(&path);
    let counters: Vec<&Json> = trace.of_phase("C").collect();
    assert_eq!(counters.len(), 3);
    for (step, counter) in (1..).zip(counters) {
        assert_eq!(counter["args"]["reduced"], step * 8000);
        assert_eq!(counter["args"]["copied"], step * 4000);
        assert_eq!(counter["args"]["exchanged"], step * 7);
        assert_eq!(counter["args"]["updated"], 0);
    }
    let bytes: u64 = trace
        .spans("copy")
        .iter()
        .map(|span| span["args"]["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(bytes, 3 * 4000);
    assert_eq!(trace.spans("all-reduce of ranks")[0]["cat"], "exchange");
    // A measured step after them knows what its thread did before it.
    let steps = trace.spans("step");
    assert!(
        steps[1]["args"]["before_exchange_ns"].as_u64().is_some(),
        "{}",
        steps[1]
    );
    assert!(
        steps[1]["args"]["before_reduce_ns"].as_u64().is_some(),
        "{}",
        steps[1]
    );
}

#[test]
fn events_past_the_limit_are_counted() {
    let true = crate::is_alone(events_past_the_limit_are_counted) else {
        return;
    };
    let path = file("bounded");
    let strategy = strategy(1);
    trace::start(&path, 10).unwrap();
    for _ in 0..10_000 {
        strategy.run(&|_| Ok(None), None).unwrap();
    }
    let account = trace::stop().unwrap();
    assert_eq!(account.events, 10);
    assert!(account.dropped >= 20_000 - 10, "{account:?}");
    assert!(std::fs::metadata(&path).unwrap().len() < 10_000);
    let trace = Trace::read(&path);
    assert_eq!(trace.of_phase("X").count(), 10);
    assert_eq!(trace.summary()["dropped"], account.dropped);
}

#[test]
fn a_full_disk_ends_the_trace_and_nothing_else() {
    let true = crate::is_alone(a_full_disk_ends_the_trace_and_nothing_else) else {
        return;
    };
    let strategy = strategy(1);
    let path = file("full");
    let limit = libc::rlimit {
        rlim_cur: 1,
        rlim_max: libc::RLIM_INFINITY,
    };
    // SAFETY: the signal and the limit are those of this process, which is the test's own.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
        assert_eq!(libc::setrlimit(libc::RLIMIT_FSIZE, &limit), 0);
    }
    // The first bytes are written at once.
    let refused = trace::start(&path, 100).unwrap_err();
    assert_eq!(refused.status(), Status::ResourceExhausted, "{refused}");
    strategy.run(&|_| Ok(None), None).unwrap();
    assert!(!observe::trace::is_on());
    std::fs::remove_file(&path).unwrap();
}

/// A trace is written to a file, also through a link, and to nothing else: a pipe would keep the
/// threads waiting.
#[test]
fn a_trace_is_written_to_a_file() {
    let true = crate::is_alone(a_trace_is_written_to_a_file) else {
        return;
    };
    let folder = file("places");
    std::fs::create_dir(&folder).unwrap();
    let pipe = folder.join("pipe");
    let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
    // SAFETY: the name ends in a zero.
    assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
    let link = folder.join("link");
    std::os::unix::fs::symlink("pipe", &link).unwrap();
    for path in [&pipe, &link, &folder] {
        let refused = trace::start(path, 100).unwrap_err();
        assert_eq!(refused.status(), Status::InvalidArgument, "{refused}");
        assert!(
            refused.to_string().contains(path.to_str().unwrap()),
            "{refused}"
        );
    }
    std::fs::remove_file(&pipe).unwrap();
    std::fs::write(&pipe, "an older and longer file".repeat(100)).unwrap();
    trace::start(&link, 100).unwrap();
    trace::stop().unwrap();
    assert!(link.is_symlink());
    assert!(Trace::read(&pipe).summary()["dropped"] == 0);
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn spans_of_the_program_need_no_care() {
    let true = crate::is_alone(spans_of_the_program_need_no_care) else {
        return;
    };
    // Outside of a trace, and an end too many.
    program::begin("nothing");
    program::end();
    program::end();
    let path = file("own");
    program::begin("begun before");
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    program::end();
    for _ in 0..100 {
        program::begin("deep");
    }
    for _ in 0..100 {
        program::end();
    }
    program::begin(&"long ".repeat(1000));
    program::end();
    program::begin("not ended");
    std::thread::spawn(|| {
        program::begin("of a thread that is gone");
        program::end();
    })
    .join()
    .unwrap();
    trace::stop().unwrap();
    program::end();
    let trace = Trace::read(&path);
    check_nesting(&trace);
    assert_eq!(trace.spans("deep").len(), 64);
    assert_eq!(trace.spans("of a thread that is gone").len(), 1);
    assert_eq!(trace.of_phase("X").count(), 66);
    // What was begun in one trace is not ended in the next.
    trace::start(&path, trace::MOST_EVENTS).unwrap();
    program::end();
    trace::stop().unwrap();
    assert_eq!(Trace::read(&path).of_phase("X").count(), 0);
}

//! Each cause of slow steps, provoked through the public functions, is named, and no other.
//!
//! What is provoked is large against what the machine does besides, and stands in what the threads
//! did themselves: on a processor, blocked, or kept from one by others. So a busy machine changes
//! nothing.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use umbo_core::diagnose::advice::Cause;
use umbo_core::error::{Result, Status};
use umbo_core::executor::affinity;
use umbo_core::input::{Dataset, ElementSpec, Generator, LeafSpec};
use umbo_core::observe::phase::Phase;
use umbo_core::strategy::{Options, ReplicaContext, StepReport, Strategy};
use umbo_core::tensor::{DType, Tensor};
use umbo_core::values::Value;

/// A strategy whose steps are measured, with so many replicas or as many as there are processors.
fn strategy(replicas: usize) -> Strategy {
    let options = Options {
        cpu_replicas: replicas,
        ..Options::default()
    };
    let strategy = Strategy::new(&options).unwrap();
    strategy.measure_steps(true).unwrap();
    strategy
}

/// Whether two replicas have a processor each. Else every report rightly says that they have not.
fn has_two_processors() -> bool {
    affinity::available() >= 2
}

/// The calling thread is on a processor for so long.
fn burn(time: Duration) {
    fn used() -> Duration {
        let mut time = libc::timespec {
            tv_sec: 0,
            tv_nsec: 0,
        };
        // SAFETY: there is room for what the clock shows.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    let start = used();
    while used() - start < time {
        std::hint::spin_loop();
    }
}

const fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

#[track_caller]
fn names(strategy: &Strategy, expected: &[Cause]) -> StepReport {
    let report = strategy.step_report().unwrap();
    assert_eq!(
        causes(&report),
        expected,
        "{}\n{:#?}",
        report.text(),
        report.summary
    );
    report
}

/// The causes that are the program's: what else this machine does is said too.
fn causes(report: &StepReport) -> Vec<Cause> {
    let causes = report.advice.iter().map(|advice| advice.cause);
    causes.filter(|cause| !cause.is_of_machine()).collect()
}

fn run(strategy: &Strategy, steps: usize, step: &(dyn Fn(&ReplicaContext) + Send + Sync)) {
    for _ in 0..steps {
        let callback = |context: &ReplicaContext| {
            step(context);
            Ok(None)
        };
        strategy.run(&callback, None).unwrap();
    }
}

#[test]
fn replicas_that_work_side_by_side_hear_nothing() {
    let true = crate::is_alone(replicas_that_work_side_by_side_hear_nothing) else {
        return;
    };
    let strategy = strategy(affinity::available().min(2));
    run(&strategy, 20, &|_| burn(milliseconds(3)));
    let report = names(&strategy, &[]);
    assert_eq!((report.summary.measured, report.summary.seen), (20, 20));
    for replica in &report.summary.replicas {
        assert!(
            replica.spent[Phase::Compute as usize] >= 3_000_000,
            "{replica:?}"
        );
        assert_eq!(replica.spent[Phase::Input as usize], 0);
    }
    assert!(report.text().contains("replica 0"), "{}", report.text());
}

#[test]
fn threads_that_are_not_the_library_s_fight_with_the_replicas() {
    let true = crate::is_alone(threads_that_are_not_the_library_s_fight_with_the_replicas) else {
        return;
    };
    let strategy = strategy(affinity::available());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let blas = std::thread::Builder::new().name("blas".into());
            blas.spawn_scoped(scope, || {
                while !stop.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
            .unwrap();
        }
        run(&strategy, 30, &|_| burn(milliseconds(5)));
        let report = strategy.step_report();
        stop.store(true, Ordering::Relaxed);
        let report = report.unwrap();
        assert_eq!(
            causes(&report),
            [Cause::OtherThreads],
            "{}\n{:#?}",
            report.text(),
            report.summary
        );
        let text = &report.advice[0].text;
        assert!(
            text.contains("(blas)") && text.contains("OMP_NUM_THREADS=1"),
            "{text}"
        );
    });
}

/// Makes numbers, and takes its time.
struct Slow;

impl Generator for Slow {
    fn next(&mut self) -> Result<Option<Value>> {
        std::thread::sleep(milliseconds(25));
        Ok(Some(Value::Tensor(Tensor::scalar(1.0f32)?)))
    }

    fn reset(&mut self) -> Result<()> {
        Ok(())
    }
}

#[test]
fn input_that_is_late_holds_the_replicas_up() {
    let true = crate::is_alone(input_that_is_late_holds_the_replicas_up) else {
        return;
    };
    let strategy = strategy(affinity::available().min(2));
    let spec = ElementSpec::Leaf(LeafSpec {
        dtype: DType::Float32,
        shape: vec![],
    });
    let dataset = Dataset::from_generator(spec, || Ok(Box::new(Slow))).unwrap();
    let iterator = dataset.iterator().unwrap();
    for _ in 0..20 {
        assert!(iterator.next().unwrap().is_some());
        run(&strategy, 1, &|_| burn(milliseconds(1)));
    }
    let report = names(&strategy, &[Cause::Input]);
    assert!(
        report.advice[0].text.contains("prefetch"),
        "{}",
        report.advice[0].text
    );
    let input = report.summary.central(Phase::Input);
    assert!(input >= 25_000_000, "{input}");
}

#[test]
fn one_replica_that_computes_longer_is_slow() {
    let true = crate::is_alone(one_replica_that_computes_longer_is_slow) else {
        return;
    };
    if !has_two_processors() {
        return;
    }
    for slow in 0..2 {
        let strategy = strategy(2);
        run(&strategy, 20, &|context| {
            burn(milliseconds(if context.replica() == slow { 12 } else { 2 }));
        });
        let report = names(&strategy, &[Cause::SlowReplica]);
        let expected = format!("replica {slow} computes");
        assert!(
            report.advice[0].text.contains(&expected),
            "{}",
            report.advice[0].text
        );
    }
}

#[test]
fn a_lock_around_the_callbacks_serialises_them() {
    let true = crate::is_alone(a_lock_around_the_callbacks_serialises_them) else {
        return;
    };
    if !has_two_processors() {
        return;
    }
    let report = || {
        let strategy = strategy(2);
        let interpreter = Mutex::new(());
        run(&strategy, 30, &|_| {
            let _interpreter = interpreter.lock().unwrap();
            burn(milliseconds(6));
        });
        strategy.step_report().unwrap()
    };
    // Where other programs have the processors, the callbacks may hardly meet.
    let tries: Vec<_> = (0..5).map(|_| report()).collect();
    let found = tries
        .iter()
        .find(|report| causes(report) == [Cause::Serialised]);
    let found = found.unwrap_or_else(|| panic!("{}", tries[0].text()));
    assert!(
        found.advice[0].text.contains("interpreter"),
        "{}",
        found.advice[0].text
    );
}

#[test]
fn without_measured_steps_there_is_no_report() {
    let true = crate::is_alone(without_measured_steps_there_is_no_report) else {
        return;
    };
    let strategy = Strategy::new(&Options {
        cpu_replicas: 1,
        ..Options::default()
    })
    .unwrap();
    run(&strategy, 10, &|_| ());
    assert_eq!(
        strategy.step_report().unwrap_err().status(),
        Status::FailedPrecondition
    );
    strategy.measure_steps(true).unwrap();
    assert_eq!(
        strategy.step_report().unwrap_err().status(),
        Status::FailedPrecondition
    );
    run(&strategy, 10, &|_| ());
    strategy.measure_steps(false).unwrap();
    run(&strategy, 10, &|_| ());
    // What was measured is kept, and one replica has nobody to wait for.
    let report = names(&strategy, &[]);
    assert_eq!(report.summary.measured, 10);
    strategy.measure_steps(true).unwrap();
    assert!(strategy.step_report().is_err());
}

//! Measures the steps of a strategy.
//!
//! A measured step costs some reads of clocks, about a microsecond. The latest steps are kept, in
//! memory of a fixed size.
//!
//! A step includes everything that its thread did since the step before it, because programs take
//! the next element and apply the gradients of the step before outside of runs as often as inside.
//! So the thread is measured from the end of the run before (`running`). If that is not known, as
//! with the first step, the measurement contains nothing about the time before the run.

use parking_lot::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::advice::{self, Cause};
use crate::first_runs::FirstRuns;
use crate::machine::Watch;
pub use crate::meter::{Meter, Opened};
use crate::processes::Usage;
use crate::run_end::RunEnd;
pub use crate::running::WatchedRun;
pub use crate::sample::{Clocks, ReplicaSample, Setup, StepPlace, StepSample};
use crate::summary::Summary;
use crate::trace::{self, Detail, Entry};
use crate::{libraries, processors};
use umbo_base::observe::log::{self, Level};
use umbo_base::observe::trace::Event;
use umbo_base::observe::watching;
use umbo_system::threads;

/// The number of steps that are kept.
const KEPT: usize = 256;

/// The number of measured steps after which advice is logged for the first time.
const FIRST_LOGGED: u64 = 64;

/// Measures the steps of one strategy.
#[derive(Debug)]
pub struct Recorder {
    setup: Setup,
    on: AtomicBool,
    /// The duration of the last run.
    pub(super) last_run: AtomicU64,
    /// The samples of the replicas of the current step.
    replicas: Box<[Mutex<ReplicaSample>]>,
    /// The end of the last run.
    pub(super) end: Mutex<Option<RunEnd>>,
    kept: Mutex<Option<KeptSteps>>,
    first_runs: FirstRuns,
}

/// The measurements.
#[derive(Debug)]
struct KeptSteps {
    steps: Vec<StepSample>,
    /// The samples of all replicas of the first step, then those of the next step, and so on.
    replicas: Vec<ReplicaSample>,
    /// The number of steps for which there is memory.
    capacity: usize,
    measured: u64,
    seen: u64,
    usage: Usage,
    machine: Watch,
    /// The threads that called the runs, as far as there is memory for them.
    callers: Vec<u32>,
    logged: Option<Vec<Cause>>,
}

impl Recorder {
    /// A recorder for a strategy. It does not measure yet.
    pub fn new(setup: Setup) -> Recorder {
        Recorder {
            setup,
            on: AtomicBool::new(false),
            last_run: AtomicU64::new(0),
            replicas: (0..setup.replicas).map(|_| Mutex::default()).collect(),
            end: Mutex::default(),
            kept: Mutex::default(),
            first_runs: FirstRuns::new(setup),
        }
    }

    /// Starts measuring, and drops earlier measurements.
    pub fn start(&self) {
        let replicas = self.replicas.len();
        let capacity = (65_536 / replicas.max(1)).clamp(16, KEPT);
        let fresh = KeptSteps {
            steps: Vec::with_capacity(capacity),
            replicas: Vec::with_capacity(capacity * replicas),
            capacity,
            measured: 0,
            seen: 0,
            usage: Usage::now(),
            machine: Watch::begin(),
            callers: Vec::with_capacity(8),
            logged: None,
        };
        *self.kept.lock() = Some(fresh);
        if !self.on.swap(true, Ordering::Relaxed) {
            watching::add_measurer();
        }
    }

    /// Stops measuring, and keeps the measurements.
    pub fn stop(&self) {
        if self.on.swap(false, Ordering::Relaxed) {
            watching::remove_measurer();
        }
    }

    /// The identity of a step of the strategy with number `strategy`.
    pub fn place(&self, strategy: u64, step: u64) -> StepPlace {
        StepPlace {
            strategy,
            step,
            setup: self.setup,
        }
    }

    /// Whether someone looks at the run of the strategy that begins, measured or not.
    #[inline]
    pub fn begin_first(&self) -> bool {
        self.first_runs.begin()
    }

    /// Ends a run for which [`Recorder::begin_first`] was true. The caller holds locks.
    pub fn end_first(&self, strategy: u64) {
        self.first_runs.end(strategy);
    }

    /// Whether steps are measured.
    pub fn is_on(&self) -> bool {
        self.on.load(Ordering::Relaxed)
    }

    /// Stores the sample of `replica` in the current step.
    pub fn note(&self, place: StepPlace, replica: usize, sample: ReplicaSample, start: u64) {
        *self.replicas[replica].lock() = sample;
        if watching::is_traced() {
            trace::record(Entry {
                event: Event::of("compute", "compute", start, sample.wall, 0),
                detail: Detail::Replica(place, replica as u32, sample),
            });
        }
    }

    /// The summary of all measurements since [`Recorder::start`]; nothing if it was never called,
    /// or no step was measured since.
    pub fn summary(&self) -> Option<Summary> {
        let kept = self.kept.lock();
        let kept = kept.as_ref().filter(|kept| !kept.steps.is_empty())?;
        Some(kept.summary(self.setup))
    }

    /// Keeps a step if it was committed. Returns whether advice may be logged.
    pub(super) fn keep(&self, sample: StepSample, committed: bool) -> bool {
        let mut kept = self.kept.lock();
        let Some(kept) = kept.as_mut().filter(|_| self.is_on()) else {
            return false;
        };
        kept.seen += 1;
        if !committed {
            return false;
        }
        let thread = threads::number();
        if kept.callers.len() < kept.callers.capacity() && !kept.callers.contains(&thread) {
            kept.callers.push(thread);
        }
        let replicas = self.replicas.iter().map(|sample| *sample.lock());
        if kept.steps.len() < kept.capacity {
            kept.steps.push(sample);
            kept.replicas.extend(replicas);
        } else {
            let at = (kept.measured % kept.capacity as u64) as usize;
            kept.steps[at] = sample;
            let first = at * self.replicas.len();
            for (kept, sample) in kept.replicas[first..].iter_mut().zip(replicas) {
                *kept = sample;
            }
        }
        kept.measured += 1;
        kept.measured >= FIRST_LOGGED && kept.measured.is_power_of_two()
    }

    /// Logs advice, if it differs from the advice that was logged before.
    pub(super) fn log_advice(&self, strategy: u64) {
        if !log::is_wanted(Level::Info) {
            return;
        }
        let Some(summary) = self.summary() else {
            return;
        };
        let advice = advice::of(&summary);
        // Causes that come and go with other programs are not logged again.
        let causes = advice.iter().map(|advice| advice.cause);
        let causes: Vec<Cause> = causes.filter(|cause| !cause.is_of_machine()).collect();
        let is_new = self
            .kept
            .lock()
            .as_mut()
            .is_some_and(|kept| kept.logged.replace(causes.clone()).as_ref() != Some(&causes));
        if is_new {
            log::log(Level::Info, || {
                format!(
                    "strategy {strategy}: {}",
                    advice::in_one_line(&summary, &advice)
                )
            });
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.stop();
    }
}

impl KeptSteps {
    fn summary(&self, setup: Setup) -> Summary {
        let mut summary = Summary::of(setup, &self.steps, &self.replicas);
        summary.measured = self.measured;
        summary.seen = self.seen;
        (summary.others, summary.own_on_processor) = self.usage.since(&self.callers);
        summary.load = self.machine.load();
        summary.libraries = libraries::loaded();
        summary.notes = libraries::lesser_kernels(&summary.libraries);
        summary.notes.extend(processors::notes(setup.cpu_devices));
        summary
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use umbo_base::observe::phase::{Counter, Phase};
    use umbo_system::clock;

    const SETUP: Setup = Setup {
        replicas: 1,
        devices: 1,
        cpu_devices: 1,
        processors: 2,
    };

    /// Runs one step whose callback takes this number of nanoseconds.
    fn step(recorder: &Recorder, nanoseconds: u64) -> bool {
        step_of(recorder, 7, nanoseconds)
    }

    fn step_of(recorder: &Recorder, strategy: u64, nanoseconds: u64) -> bool {
        let running = recorder.begin(strategy);
        let meter = running.as_ref().map(|run| Meter::start(run.opened));
        burn(nanoseconds);
        let place = recorder.place(strategy, 1);
        let measured = meter.is_some();
        if let Some(meter) = meter {
            let (sample, start) = meter.stop();
            recorder.note(place, 0, sample, start);
        }
        if let Some(running) = running {
            running.finish(place, true);
        }
        measured
    }

    #[test]
    fn nothing_is_measured_while_switched_off() {
        let recorder = Recorder::new(SETUP);
        assert!(!step(&recorder, 0));
        assert!(recorder.summary().is_none());
    }

    #[test]
    fn steps_are_kept_in_fixed_memory() {
        let recorder = Recorder::new(SETUP);
        recorder.start();
        assert!((0..2_000).all(|_| step(&recorder, 0)));
        let kept = recorder.kept.lock();
        let kept = kept.as_ref().unwrap();
        assert_eq!((kept.seen, kept.measured), (2_000, 2_000));
        assert!(kept.steps.len() <= KEPT && kept.steps.capacity() == KEPT);
    }

    fn burn(nanoseconds: u64) {
        let until = clock::now() + nanoseconds;
        while clock::now() < until {}
    }

    const INPUT: u64 = 4_000;
    const OUTSIDE: u64 = 3_000;

    /// Work between two runs: input, updated bytes, and work of the program.
    fn between() {
        {
            let _input = umbo_base::observe::span(Phase::Input);
            burn(INPUT);
        }
        {
            let _update = umbo_base::observe::span(Phase::Update);
            umbo_base::observe::count(Counter::Updated, || 10);
        }
        burn(OUTSIDE);
    }

    #[track_caller]
    fn knows_what_was_between(recorder: &Recorder, unknown: usize) {
        let kept = recorder.kept.lock();
        let kept = kept.as_ref().unwrap();
        let steps: Vec<&StepSample> = kept.steps.iter().filter(|step| step.period > 0).collect();
        assert!(
            kept.steps.len() - steps.len() <= unknown,
            "{} of {}",
            steps.len(),
            kept.steps.len()
        );
        for step in steps {
            assert!(step.before[Phase::Input as usize] >= INPUT, "{step:?}");
            let between = step.run + step.before.iter().sum::<u64>();
            assert!(step.period >= between + OUTSIDE, "{step:?}");
            assert_eq!(step.updated % 10, 0);
            assert!(step.updated > 0, "{step:?}");
        }
        let summary = kept.summary(SETUP);
        assert!(
            summary.is_whole && summary.outside >= OUTSIDE,
            "{summary:?}"
        );
        assert!(summary.central(Phase::Input) >= INPUT, "{summary:?}");
    }

    #[test]
    fn time_between_runs_is_measured_from_the_second_step_on() {
        for steps in [2, 10, 100, 1000] {
            let recorder = Recorder::new(SETUP);
            recorder.start();
            for _ in 0..steps {
                between();
                assert!(step(&recorder, 0));
            }
            // The first step is no longer among the kept ones.
            knows_what_was_between(&recorder, usize::from(steps <= KEPT));
        }
    }

    #[test]
    fn time_between_runs_is_measured_per_strategy() {
        let recorders = [Recorder::new(SETUP), Recorder::new(SETUP)];
        recorders.iter().for_each(Recorder::start);
        for _ in 0..3000 {
            for (strategy, recorder) in (7..).zip(&recorders) {
                between();
                step_of(recorder, strategy, 0);
            }
        }
        for recorder in &recorders {
            knows_what_was_between(recorder, 0);
        }
    }

    #[test]
    fn unknown_times_are_not_zero() {
        let recorder = Recorder::new(SETUP);
        recorder.start();
        step(&recorder, 0);
        let summary = recorder.summary().unwrap();
        assert!(!summary.is_whole && summary.period == summary.run);
        assert!(
            summary.table().contains("between the runs: not known"),
            "{}",
            summary.table()
        );
        // Each step runs on its own thread, where no run follows another one.
        for _ in 0..50 {
            std::thread::scope(|scope| {
                scope.spawn(|| step(&recorder, 0)).join().unwrap();
            });
        }
        assert!(!recorder.summary().unwrap().is_whole);
    }

    #[test]
    fn unfinished_runs_are_not_measured() {
        let recorder = Recorder::new(SETUP);
        recorder.start();
        drop(recorder.begin(7));
        assert!(recorder.summary().is_none());
        let place = recorder.place(7, 1);
        recorder.begin(7).unwrap().finish(place, false);
        assert!(recorder.summary().is_none());
        step(&recorder, 0);
        assert_eq!(recorder.summary().unwrap().measured, 1);
        recorder.stop();
        assert!(!step(&recorder, 0));
        assert_eq!(recorder.summary().unwrap().measured, 1);
        recorder.start();
        assert!(recorder.summary().is_none());
    }
}

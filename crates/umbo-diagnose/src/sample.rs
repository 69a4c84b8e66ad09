//! The measurements of a step.

use umbo_base::observe::phase::ByPhase;

/// The configuration of a strategy, for reports.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// The number of replicas.
    pub replicas: u32,
    /// The number of compute devices to which the replicas are assigned in turn. As many replicas
    /// compute at a time.
    pub devices: u32,
    /// The number of devices that are CPUs.
    pub cpu_devices: u32,
    /// The number of processors that the process may use.
    pub processors: u32,
}

/// The identity of a step.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepPlace {
    /// The number of the strategy.
    pub strategy: u64,
    /// The number of the step.
    pub step: u64,
    /// The strategy's configuration.
    pub setup: Setup,
}

/// The times of a step without its callbacks, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepSample {
    /// The time from the end of the step before to the end of this one; 0 if it is not known. The
    /// time between the two steps is then not known, either.
    pub period: u64,
    /// The time of the run.
    pub run: u64,
    /// The time that the calling thread spent in the library between the steps.
    pub before: ByPhase<u64>,
    /// The time that it spent in the library during the run, outside of the callback of replica 0.
    pub central: ByPhase<u64>,
    /// The number of bytes that updates moved.
    pub updated: u64,
}

/// A thread's clocks during a callback, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The time for which the thread was on a processor.
    pub on_processor: u64,
    /// The time for which it was ready and had no processor.
    pub ready: u64,
}

/// The times of a replica in a step, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSample {
    /// How long after the step's beginning the callback began.
    pub begun: u64,
    /// How long the callback took.
    pub wall: u64,
    /// The part of this time that was spent in the library.
    pub spent: ByPhase<u64>,
    /// The times of the thread's clocks, if they were read.
    pub clocks: Option<Clocks>,
}

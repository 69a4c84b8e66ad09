//! What is measured of a step.

use super::phase::ByPhase;

/// What a strategy consists of, as far as reports go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Setup {
    /// How many replicas.
    pub replicas: u32,
    /// How many compute devices they are on, dealt out in turn: so many compute at a time.
    pub devices: u32,
    /// How many of the devices are CPUs.
    pub cpu_devices: u32,
    /// How many processors the process may use.
    pub processors: u32,
}

/// Which step something belongs to.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepPlace {
    /// The number of the strategy.
    pub strategy: u64,
    /// The number of the step.
    pub step: u64,
    /// The strategy.
    pub setup: Setup,
}

/// What a step took beside its callbacks, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StepSample {
    /// From the end of the step before to the end of this one; 0 if it is not known, and then neither is
    /// what was between the two.
    pub period: u64,
    /// The run.
    pub run: u64,
    /// What the calling thread spent in the library between the steps.
    pub before: ByPhase<u64>,
    /// And in the run, beside the callback of replica 0.
    pub central: ByPhase<u64>,
    /// How many bytes updates moved.
    pub updated: u64,
}

/// What the system's clocks of a thread say about a callback, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Clocks {
    /// The thread was on a processor.
    pub on_processor: u64,
    /// It was ready and had none.
    pub ready: u64,
}

/// What a replica did in a step, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReplicaSample {
    /// How long after the step's beginning the callback began.
    pub begun: u64,
    /// How long the callback took.
    pub wall: u64,
    /// What of it was spent in the library.
    pub spent: ByPhase<u64>,
    /// What clocks of the thread say, if they were read.
    pub clocks: Option<Clocks>,
}

//! The state that the steps of a strategy share: the step lock, the open transaction, and the
//! abandoned steps.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, RwLock};

use super::draining::Draining;
use super::lending::TurnCell;
use super::lock::StepLock;
use super::record::StepRecord;
use crate::commit::transaction::{Transaction, Writes};
use crate::context::metrics::MetricTable;
use umbo_diagnose::report::Recorder;

pub(crate) struct Steps {
    pub lock: Arc<StepLock>,
    /// The records of steps, to be used again: one for each depth of nested runs, except for those
    /// in use. Only the thread that has the step lock uses them.
    pub records: TurnCell<Vec<Option<Arc<StepRecord>>>>,
    pub draining: Draining,
    pub transaction: Mutex<Transaction>,
    /// The lists of the writes of the next step but one, without contents: a steady step allocates
    /// nothing. Only the thread that has the step lock uses them.
    pub spare_writes: TurnCell<Writes>,
    /// Held for writing while committed values change, for reading while others copy them.
    pub central: RwLock<()>,
    /// The metrics of the last committed run that measured anything.
    pub metrics: Mutex<MetricTable>,
    /// Whether an addition to a metric was warned of, whose sum and weight look swapped.
    pub has_warned_of_swap: AtomicBool,
    /// Whether a write through a view of a variable was warned of.
    pub has_warned_of_written_view: AtomicBool,
    /// Measures the steps, if that is enabled.
    pub recorder: Recorder,
}

impl Steps {
    pub fn new(recorder: Recorder) -> Steps {
        Steps {
            lock: Arc::new(StepLock::new()),
            records: TurnCell::default(),
            draining: Draining::default(),
            transaction: Mutex::default(),
            spare_writes: TurnCell::default(),
            central: RwLock::new(()),
            metrics: Mutex::default(),
            has_warned_of_swap: AtomicBool::new(false),
            has_warned_of_written_view: AtomicBool::new(false),
            recorder,
        }
    }
}

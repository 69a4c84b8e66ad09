//! One step: its record, its start on all replicas, what its replicas ask for, its end.

pub use record::*;

pub mod cancellation;
pub(crate) mod dispatch;
pub(crate) mod draining;
mod entry;
pub(crate) mod execution;
pub(crate) mod lending;
pub mod limits;
pub(crate) mod lock;
pub(crate) mod measuring;
pub mod merge;
pub mod operation;
pub(crate) mod panic;
pub(crate) mod record;
pub mod run;
pub(crate) mod scratch;
pub(crate) mod slot;
pub(crate) mod steps;
pub(crate) mod threads;
pub(crate) mod trace;

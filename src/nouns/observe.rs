//! Watching a program: what its steps spend their time on, and the trace.

use crate::machinery::prelude::*;
use umbo_core::diagnose::advice::Cause;
use umbo_core::diagnose::trace;
use umbo_core::observe::phase::Phase;

/// A cause of slow steps: a bit of `causes` in umbo_strategy_step_report().
pub type umbo_step_cause = i32;

/// Handing a step to the replicas takes longer than its work.
pub const UMBO_STEP_CAUSE_SMALL_STEP: umbo_step_cause = 1 << 20;
/// There are more replicas than processors.
pub const UMBO_STEP_CAUSE_FEW_PROCESSORS: umbo_step_cause = 1 << 21;
/// Threads of BLAS, OpenMP or others use the same processors.
pub const UMBO_STEP_CAUSE_OTHER_THREADS: umbo_step_cause = 1 << 22;
/// The input is not ready in time.
pub const UMBO_STEP_CAUSE_INPUT: umbo_step_cause = 1 << 23;
/// One replica takes longer than the others.
pub const UMBO_STEP_CAUSE_SLOW_REPLICA: umbo_step_cause = 1 << 24;
/// The callbacks run one after the other, as with the lock of an interpreter.
pub const UMBO_STEP_CAUSE_SERIALISED: umbo_step_cause = 1 << 25;
/// The update takes most of a step, or is limited by memory.
pub const UMBO_STEP_CAUSE_UPDATE: umbo_step_cause = 1 << 26;
/// Other processes used the processors.
pub const UMBO_STEP_CAUSE_BUSY_MACHINE: umbo_step_cause = 1 << 27;
/// Some steps take far longer than most: the mean is over 1.5 times the median.
pub const UMBO_STEP_CAUSE_UNEVEN_STEPS: umbo_step_cause = 1 << 28;
/// A BLAS computes with kernels that are older than the processor.
pub const UMBO_STEP_CAUSE_OLD_KERNELS: umbo_step_cause = 1 << 29;

constants! { Cause {
    UMBO_STEP_CAUSE_SMALL_STEP = SmallStep, UMBO_STEP_CAUSE_FEW_PROCESSORS = FewProcessors,
    UMBO_STEP_CAUSE_OTHER_THREADS = OtherThreads, UMBO_STEP_CAUSE_INPUT = Input,
    UMBO_STEP_CAUSE_SLOW_REPLICA = SlowReplica, UMBO_STEP_CAUSE_SERIALISED = Serialised,
    UMBO_STEP_CAUSE_UPDATE = Update, UMBO_STEP_CAUSE_BUSY_MACHINE = BusyMachine,
    UMBO_STEP_CAUSE_UNEVEN_STEPS = UnevenSteps, UMBO_STEP_CAUSE_OLD_KERNELS = OldKernels,
} }

/// The time of a replica's step by purpose, in seconds: medians over the measured steps.
///
/// A step begins with the end of the run before it on its thread; if that is not known, it is a run
/// alone. Work that is done once for all replicas counts for each, so the fields from `input` to
/// `outside` add up to about `step`.
#[c_struct]
pub struct umbo_step_times {
    /// The number of measured steps.
    pub measured_step_count: i64,
    /// The number of all steps since measuring began.
    pub step_count: i64,
    /// From the end of a step to the end of the next.
    pub step: f64,
    /// Making the next element, or waiting for it.
    pub input: f64,
    /// Splitting batches over the replicas.
    pub split: f64,
    /// Copying tensors, between devices too.
    pub copy: f64,
    /// The callback.
    pub compute: f64,
    /// Waiting for other replicas, or to be woken.
    pub wait: f64,
    /// Reductions, gathers and the functions of merge calls.
    pub reduce: f64,
    /// The update of the variables, and the rest of the commit point.
    pub update: f64,
    /// Exchanges between ranks.
    pub exchange: f64,
    /// The program's own work between the steps.
    pub outside: f64,
}

/// Starts or stops to measure the steps of a strategy.
///
/// @param[in] measure 1: measure from now on, and forget what was measured. 0: measure no more.
///
/// It takes about a microsecond of a step, and at most 1 % of one of a millisecond or more. The
/// latest 256 are kept, fewer with more than 256 replicas. Meanwhile the causes of slow steps are
/// logged at UMBO_LOG_INFO after 64 measured steps, and when they change.
#[c_call(flag(measure), get(strategy))]
pub fn umbo_strategy_measure_steps(strategy: *mut umbo_strategy, measure: i32) {
    strategy.measure_steps(measure)
}

/// Reports what the steps of a strategy spend their time on, and what to change.
///
/// @param[out] buffer The report: a table with a line for each replica, and a line for each cause
///   with its remedy. Its length changes with the figures. If it is too small, `causes` is written,
///   too.
/// @param[out] causes The sum of constants of umbo_step_cause, 0 for none. May be NULL.
/// @return UMBO_STATUS_FAILED_PRECONDITION: no step was measured since
///   umbo_strategy_measure_steps(), or none was committed.
///
/// Callbacks may call it.
#[c_call(
    out(length),
    optional_out(causes),
    buffer(buffer, capacity),
    get(strategy)
)]
pub fn umbo_strategy_step_report(
    strategy: *const umbo_strategy,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
    causes: *mut i32,
) {
    let report = strategy.step_report()?;
    causes.write(report.advice.iter().map(|advice| advice.cause.to_c()).sum());
    buffer.write(&report.text(), length)
}

/// Gets the figures of one replica.
///
/// @param[in] replica_id A local id.
/// @return
/// - UMBO_STATUS_OUT_OF_RANGE: no such replica.
/// - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_step_report().
#[c_call(result(times), get(strategy))]
pub fn umbo_strategy_step_times(
    strategy: *const umbo_strategy,
    replica_id: i32,
    times: *mut umbo_step_times,
) {
    let summary = strategy.step_report()?.summary;
    let replicas = Listed {
        count: summary.replicas.len(),
        elements: "the replicas",
    };
    let of_replica = at(replica_id, "replica_id", replicas, |at| {
        summary.replicas.get(at)
    })?;
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let spent = |phase: Phase| seconds(of_replica.spent[phase as usize]);
    times.write(umbo_step_times {
        measured_step_count: summary.measured as i64,
        step_count: summary.seen as i64,
        step: seconds(summary.period),
        input: spent(Phase::Input),
        split: spent(Phase::Split),
        copy: spent(Phase::Copy),
        compute: spent(Phase::Compute),
        wait: spent(Phase::Wait),
        reduce: spent(Phase::Reduce),
        update: spent(Phase::Update),
        exchange: spent(Phase::Exchange),
        outside: seconds(summary.outside),
        ..Default::default()
    });
}

/// The options of a trace.
#[c_struct(max_events = 4_000_000)]
pub struct umbo_trace_options {
    /// The most events that are written, 1 or more: 4,000,000 take about 500 MB. Others are counted
    /// and dropped.
    pub max_events: i64,
}

const _: () = assert!(trace::MOST_EVENTS == 4_000_000);

/// Starts to write a trace: what each thread does when.
///
/// @param[in] path A file, which is overwritten, also through a symbolic link.
/// @param[in] options May be NULL.
/// @return
/// - UMBO_STATUS_FAILED_PRECONDITION: a trace is being written already.
/// - UMBO_STATUS_INVALID_ARGUMENT: not a regular file.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED, UMBO_STATUS_UNAVAILABLE: the file cannot
///   be made.
///
/// The trace has spans of replicas, workers, input threads, copies to and from GPUs, and the
/// program (umbo_trace_span_begin()), and the bytes that were reduced, copied, exchanged and
/// updated. The file is JSON for ui.perfetto.dev and chrome://tracing; `umbo trace FILE --html
/// PAGE` and `umbo doctor FILE` read it, too. If the process dies, it can be read up to at most a
/// fifth of a second before. The environment variable UMBO_TRACE names a file (%p: the process's
/// number) to write a trace from the first strategy on.
#[c_call(path(path), options(options))]
pub fn umbo_trace_start(path: *const c_char, options: *const umbo_trace_options) {
    trace::start(path, positive(options.max_events, "options.max_events")?)
}

/// Ends the trace and finishes its file.
///
/// @param[out] event_count The number of its events. May be NULL.
/// @param[out] dropped_count The number of events beyond `max_events`. May be NULL.
/// @return UMBO_STATUS_FAILED_PRECONDITION: no trace is being written.
///   UMBO_STATUS_RESOURCE_EXHAUSTED, or UMBO_STATUS_UNAVAILABLE: not all could be written (the disk
///   is full, or another reason). The trace has ended, and the file can be read as far as it goes.
#[c_call(optional_out(event_count), optional_out(dropped_count))]
pub fn umbo_trace_stop(event_count: *mut i64, dropped_count: *mut i64) {
    let account = trace::stop()?;
    event_count.write(account.events as i64);
    dropped_count.write(account.dropped as i64);
}

/// Begins a span in the trace, on this thread. Without a trace it does nothing.
///
/// @param[in] name Cut after 200 bytes. NULL: "program". A name that is not UTF-8 is logged as an
///   error.
///
/// Spans may lie in each other and in callbacks; the outermost 64 of a thread are in the trace.
#[c_call(quietly)]
pub fn umbo_trace_span_begin(name: *const c_char) {
    // SAFETY: the caller gives NULL or a text.
    let name = unsafe { optional_text(name, "name") }?;
    trace::program::begin(name.unwrap_or("program"));
}

/// Ends the span that this thread began last, if there is one.
#[c_call(quietly)]
pub fn umbo_trace_span_end() {
    trace::program::end();
}

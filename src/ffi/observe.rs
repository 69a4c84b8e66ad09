//! Watching a program: what its steps spend their time on, and the trace.

use std::path::Path;

use super::prelude::*;
use crate::observe::advice::Cause;
use crate::observe::phase::Phase;
use crate::observe::trace;

/// What keeps the steps of a strategy from being faster. Each is one bit of `causes` in
/// umbo_strategy_step_report().
pub type umbo_step_cause = i32;

/// A step's work is so little that handing it to the replicas takes longer than doing it.
pub const UMBO_STEP_CAUSE_SMALL_STEP: umbo_step_cause = 1;
/// There are more replicas than processors.
pub const UMBO_STEP_CAUSE_FEW_PROCESSORS: umbo_step_cause = 2;
/// Threads that are not the library's want the same processors, as those of BLAS and OpenMP do.
pub const UMBO_STEP_CAUSE_OTHER_THREADS: umbo_step_cause = 4;
/// The input is not there in time.
pub const UMBO_STEP_CAUSE_INPUT: umbo_step_cause = 8;
/// One replica takes longer than the others.
pub const UMBO_STEP_CAUSE_SLOW_REPLICA: umbo_step_cause = 16;
/// The callbacks run one after the other, as under the lock of an interpreter.
pub const UMBO_STEP_CAUSE_SERIALISED: umbo_step_cause = 32;
/// The update takes long: memory limits it, or it is the greatest part of a step.
pub const UMBO_STEP_CAUSE_UPDATE: umbo_step_cause = 64;
/// The machine was busy: other processes used processors that the replicas need.
pub const UMBO_STEP_CAUSE_BUSY_MACHINE: umbo_step_cause = 128;
/// Some steps take far longer than most: the mean is more than 1.5 times the median.
pub const UMBO_STEP_CAUSE_UNEVEN_STEPS: umbo_step_cause = 256;

constants! { Cause {
    UMBO_STEP_CAUSE_SMALL_STEP = Cause::SmallStep,
    UMBO_STEP_CAUSE_FEW_PROCESSORS = Cause::FewProcessors,
    UMBO_STEP_CAUSE_OTHER_THREADS = Cause::OtherThreads, UMBO_STEP_CAUSE_INPUT = Cause::Input,
    UMBO_STEP_CAUSE_SLOW_REPLICA = Cause::SlowReplica,
    UMBO_STEP_CAUSE_SERIALISED = Cause::Serialised, UMBO_STEP_CAUSE_UPDATE = Cause::Update,
    UMBO_STEP_CAUSE_BUSY_MACHINE = Cause::BusyMachine,
    UMBO_STEP_CAUSE_UNEVEN_STEPS = Cause::UnevenSteps,
} }

/// What a replica spends a step on, in seconds: medians over the steps that were measured. Start from
/// UMBO_STEP_TIMES_INIT.
///
/// To a step belongs what its thread did since the end of the run before it: the input and the update, too. Where
/// no two runs followed each other on one thread, that is not known: `step` is a run, and `input`, `update` and
/// `outside` are what was seen in it.
///
/// Input, update and other work that is done once for all replicas counts for each of them, so that
/// the fields from `input` to `outside` add up to about a step.
#[c_struct]
#[repr(C)]
pub struct umbo_step_times {
    /// sizeof(umbo_step_times).
    pub struct_size: usize,
    /// How many steps were measured.
    pub steps_measured: i64,
    /// How many steps there were meanwhile.
    pub steps: i64,
    /// From the end of a step to the end of the next.
    pub step: f64,
    /// Waiting for the next element, or making it.
    pub input: f64,
    /// Cutting batches into the replicas' parts.
    pub split: f64,
    /// Copying tensors, between devices too.
    pub copy: f64,
    /// The callback.
    pub compute: f64,
    /// The replica has nothing to do: others compute, or it is being woken.
    pub wait: f64,
    /// Reductions, gathers and the functions of merge calls.
    pub reduce: f64,
    /// The update of the variables, and what else is done when a step is committed.
    pub update: f64,
    /// What goes between processes.
    pub exchange: f64,
    /// What the program does between the steps, outside of the library.
    pub outside: f64,
}

/// Measures the steps of a strategy, or stops measuring.
///
/// @param[in] measure 1: steps are measured from now on, and what was measured before is forgotten. 0:
///   none are measured, and what was measured is kept.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `strategy` is not a valid handle, or `measure` is
///   neither 0 nor 1.
///
/// A new strategy measures nothing, which costs nothing. Measuring takes at most 1 % of the time of a
/// step: short steps are measured now and then only, after the first 32. The figures of the latest 256
/// are kept, fewer if there are more than 256 replicas.
///
/// While steps are measured, the log is told at UMBO_LOG_INFO what keeps them from being faster, once
/// after 64 measured steps and again when that changes. A machine that becomes busy or quiet is no change.
#[c_call(flag(measure), get(strategy))]
pub fn umbo_strategy_measure_steps(strategy: *const umbo_strategy, measure: i32) {
    strategy.measure_steps(measure)
}

/// Says what the steps of a strategy spend their time on, and what to change to make them faster.
///
/// @param[out] causes What keeps the steps from being faster: constants of umbo_step_cause, added up. 0
///   if nothing stands out. `causes` may be NULL.
/// @param[out] buffer The report, a text of several lines ended by a NUL: a table with a row for each
///   replica, and one line for each cause with what to do about it. `buffer` may be NULL if `capacity`
///   is 0.
/// @param[in] capacity The size of `buffer` in bytes.
/// @param[out] length The length of the text in bytes, without the NUL. It changes with the figures.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` and `causes`
///   are.
/// - UMBO_STATUS_FAILED_PRECONDITION: no step was measured since umbo_strategy_measure_steps(), or none
///   that was committed.
/// - UMBO_STATUS_INVALID_ARGUMENT: `strategy` is not a valid handle, or an output is a null pointer.
///
/// Can be called at any time, in a callback too.
#[c_call(out(length), optional_out(causes), buffer(buffer, capacity), get(strategy))]
pub fn umbo_strategy_step_report(
    strategy: *const umbo_strategy,
    causes: *mut i32,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    let report = strategy.step_report()?;
    causes.write(report.advice.iter().map(|advice| advice.cause.to_c()).sum());
    buffer.write(&report.text(), length)
}

/// Gives the figures of one replica.
///
/// @param[in] replica The replica's id: 0 to the number of replicas less one.
/// @param[in,out] times The figures. `struct_size` says how much of the struct is filled.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: no such replica.
/// - UMBO_STATUS_FAILED_PRECONDITION: no step was measured since umbo_strategy_measure_steps(), or none
///   that was committed.
#[c_call(result(times), get(strategy))]
pub fn umbo_strategy_step_times(
    strategy: *const umbo_strategy,
    replica: i32,
    times: *mut umbo_step_times,
) {
    let summary = strategy.step_report()?.summary;
    let replicas = (summary.replicas.len(), "the replicas");
    let of_replica = at(replica, "replica", replicas, |at| summary.replicas.get(at))?;
    let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
    let spent = |phase: Phase| seconds(of_replica.spent[phase as usize]);
    times.write(umbo_step_times {
        struct_size: size_of::<umbo_step_times>(),
        steps_measured: summary.measured as i64,
        steps: summary.seen as i64,
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
    });
}

/// How a trace is written. Start from UMBO_TRACE_OPTIONS_INIT.
#[c_struct(most_events = 4_000_000)]
#[repr(C)]
pub struct umbo_trace_options {
    /// sizeof(umbo_trace_options).
    pub struct_size: usize,
    /// The most events that are written, at least 1. Those that follow are counted and dropped. By
    /// default 4,000,000, which are about 500 MB.
    pub most_events: i64,
}

const _: () = assert!(trace::MOST_EVENTS == 4_000_000);

/// Begins to write a trace: what every thread does when, in a file.
///
/// @param[in] path The file, which is made anew.
/// @param[in] options How it is written; `options` may be NULL: the defaults.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: a trace is being written already.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED, UMBO_STATUS_RESOURCE_EXHAUSTED,
///   UMBO_STATUS_UNAVAILABLE: the file cannot be made.
/// - UMBO_STATUS_INVALID_ARGUMENT: `path` is a null pointer, not UTF-8, or leads to no file, or an option is
///   out of range.
///
/// The trace has spans of each replica, of the workers for central work, of threads that make elements
/// ahead, of copies to and from GPUs, and what umbo_trace_span_begin() and umbo_trace_span_end() say; and the
/// bytes that were reduced, copied, exchanged and updated so far, after each step. The file is in the
/// JSON format of Chrome's trace viewer, which ui.perfetto.dev and chrome://tracing show. The command
/// `umbo trace FILE --html PAGE` makes a page of it, and `umbo doctor FILE` says what keeps the steps
/// from being faster.
///
/// Each thread keeps up to 2048 events until they are written, which happens at least five times in a
/// second while threads work. What a process that dies has written by then can be read.
///
/// The environment variable UMBO_TRACE has the process write a trace without this call, from its first
/// strategy to its end: it names the file, and %p in it stands for the number of the process.
#[c_call(text(path), options(options))]
pub fn umbo_trace_start(path: *const c_char, options: *const umbo_trace_options) {
    trace::start(Path::new(path), positive(options.most_events, "options.most_events")?)
}

/// Ends the trace and finishes its file.
///
/// @param[out] events How many events it has. `events` may be NULL.
/// @param[out] dropped How many were dropped since there were too many. `dropped` may be NULL.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_FAILED_PRECONDITION: no trace is being written.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: not all of it could be written since the disk is full;
///   UMBO_STATUS_UNAVAILABLE: for another reason. The trace has ended, and the file can be read as far as it
///   goes.
#[c_call(optional_out(events), optional_out(dropped))]
pub fn umbo_trace_stop(events: *mut i64, dropped: *mut i64) {
    let account = trace::stop()?;
    events.write(account.events as i64);
    dropped.write(account.dropped as i64);
}

/// Begins a span of the program's own in the trace, on the calling thread.
///
/// @param[in] name What the span is called there. Up to 200 bytes count. `name` may be NULL: "program".
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `name` is not UTF-8.
///
/// Does nothing while no trace is being written. Spans may lie inside of each other, also inside of
/// callbacks; the outermost 64 of a thread are in the trace. Each is ended on the thread that began it.
#[c_call(optional_text(name))]
pub fn umbo_trace_span_begin(name: *const c_char) {
    trace::own::begin(name.unwrap_or("program"));
}

/// Ends the span that the calling thread began last.
///
/// @return UMBO_OK.
///
/// Does nothing if there is none, for instance since the trace was started after its beginning.
#[unsafe(no_mangle)]
pub extern "C" fn umbo_trace_span_end() -> umbo_status {
    boundary("umbo_trace_span_end", || {
        trace::own::end();
        Ok(())
    })
}

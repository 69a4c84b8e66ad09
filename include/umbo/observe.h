/* Generated from src/ffi; do not edit. */
#ifndef UMBO_OBSERVE_H
#define UMBO_OBSERVE_H

/**
 * @file observe.h
 * @brief Watching a program: what its steps spend their time on, what to change, and the trace.
 *
 * Two ways to look: umbo_strategy_step_report() says in words why a strategy is not as fast as its
 * replicas are many. A trace shows what every thread did when. Both are off at the start and cost
 * nothing then. Messages of the library are another matter: see umbo_set_log_callback().
 *
 * Threads: all functions are *concurrent*.
 *
 * Example:
 * ```c
 * // Prints what a strategy's steps spend their time on. To be called after some steps, the first
 * // time to have them measured.
 * #include <stdio.h>
 *
 * static umbo_status print_report(const umbo_strategy *strategy) {
 *   char text[8192];
 *   size_t length = 0;
 *   const umbo_status status =
 *       umbo_strategy_step_report(strategy, NULL, text, sizeof(text), &length);
 *   if (status == UMBO_STATUS_FAILED_PRECONDITION) return umbo_strategy_measure_steps(strategy, 1);
 *   if (status == UMBO_OK) puts(text);
 *   return status;
 * }
 * ```
 */

#include <umbo/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif


/**
 * What keeps the steps of a strategy from being faster. Each is one bit of `causes` in
 * umbo_strategy_step_report().
 */
UMBO_ENUM(umbo_step_cause) {
  /** A step's work is so little that handing it to the replicas takes longer than doing it. */
  UMBO_STEP_CAUSE_SMALL_STEP = 1,
  /** There are more replicas than processors. */
  UMBO_STEP_CAUSE_FEW_PROCESSORS = 2,
  /**
   * Threads that are not the library's want the same processors, as those of BLAS and OpenMP do.
   */
  UMBO_STEP_CAUSE_OTHER_THREADS = 4,
  /** The input is not there in time. */
  UMBO_STEP_CAUSE_INPUT = 8,
  /** One replica takes longer than the others. */
  UMBO_STEP_CAUSE_SLOW_REPLICA = 16,
  /** The callbacks run one after the other, as under the lock of an interpreter. */
  UMBO_STEP_CAUSE_SERIALISED = 32,
  /** The update takes long: memory limits it, or it is the greatest part of a step. */
  UMBO_STEP_CAUSE_UPDATE = 64,
  /** The machine was busy: other processes used processors that the replicas need. */
  UMBO_STEP_CAUSE_BUSY_MACHINE = 128,
  /** Some steps take far longer than most: the mean is more than 1.5 times the median. */
  UMBO_STEP_CAUSE_UNEVEN_STEPS = 256
};

/**
 * What a replica spends a step on, in seconds: medians over the steps that were measured. Start
 * from UMBO_STEP_TIMES_INIT.
 *
 * To a step belongs what its thread did since the end of the run before it: the input and the
 * update, too. Where no two runs followed each other on one thread, that is not known: `step` is a
 * run, and `input`, `update` and `outside` are what was seen in it.
 *
 * Input, update and other work that is done once for all replicas counts for each of them, so that
 * the fields from `input` to `outside` add up to about a step.
 */
typedef struct umbo_step_times {
  size_t struct_size;
  /** How many steps were measured. */
  int64_t steps_measured;
  /** How many steps there were meanwhile. */
  int64_t steps;
  /** From the end of a step to the end of the next. */
  double step;
  /** Waiting for the next element, or making it. */
  double input;
  /** Cutting batches into the replicas' parts. */
  double split;
  /** Copying tensors, between devices too. */
  double copy;
  /** The callback. */
  double compute;
  /** The replica has nothing to do: others compute, or it is being woken. */
  double wait;
  /** Reductions, gathers and the functions of merge calls. */
  double reduce;
  /** The update of the variables, and what else is done when a step is committed. */
  double update;
  /** What goes between processes. */
  double exchange;
  /** What the program does between the steps, outside of the library. */
  double outside;
} umbo_step_times;

#define UMBO_STEP_TIMES_INIT \
  { sizeof(umbo_step_times), 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 }
UMBO_DEFAULT(umbo_step_times, UMBO_STEP_TIMES_INIT)

/** How a trace is written. Start from UMBO_TRACE_OPTIONS_INIT. */
typedef struct umbo_trace_options {
  size_t struct_size;
  /**
   * The most events that are written, at least 1. Those that follow are counted and dropped. By
   * default 4,000,000, which are about 500 MB.
   */
  int64_t most_events;
} umbo_trace_options;

#define UMBO_TRACE_OPTIONS_INIT { sizeof(umbo_trace_options), 4000000 }
UMBO_DEFAULT(umbo_trace_options, UMBO_TRACE_OPTIONS_INIT)

/**
 * Measures the steps of a strategy, or stops measuring.
 *
 * @param[in] measure 1: steps are measured from now on, and what was measured before is forgotten.
 *   0: none are measured, and what was measured is kept.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `strategy` is not a valid handle, or `measure`
 *   is neither 0 nor 1.
 *
 * A new strategy measures nothing, which costs nothing. Measuring takes at most 1 % of the time of
 * a step: short steps are measured now and then only, after the first 32. The figures of the latest
 * 256 are kept, fewer if there are more than 256 replicas.
 *
 * While steps are measured, the log is told at UMBO_LOG_INFO what keeps them from being faster,
 * once after 64 measured steps and again when that changes. A machine that becomes busy or quiet is
 * no change.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_measure_steps(
    const umbo_strategy *strategy, int32_t measure);

/**
 * Says what the steps of a strategy spend their time on, and what to change to make them faster.
 *
 * @param[out] causes What keeps the steps from being faster: constants of umbo_step_cause, added
 *   up. 0 if nothing stands out. `causes` may be NULL.
 * @param[out] buffer The report, a text of several lines ended by a NUL: a table with a row for
 *   each replica, and one line for each cause with what to do about it. `buffer` may be NULL if
 *   `capacity` is 0.
 * @param[in] capacity The size of `buffer` in bytes.
 * @param[out] length The length of the text in bytes, without the NUL. It changes with the figures.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` and
 *   `causes` are.
 * - UMBO_STATUS_FAILED_PRECONDITION: no step was measured since umbo_strategy_measure_steps(), or
 *   none that was committed.
 * - UMBO_STATUS_INVALID_ARGUMENT: `strategy` is not a valid handle, or an output is a null pointer.
 *
 * Can be called at any time, in a callback too.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_step_report(
    const umbo_strategy *strategy, int32_t *causes, char *buffer, size_t capacity, size_t *length);

/**
 * Gives the figures of one replica.
 *
 * @param[in] replica The replica's id: 0 to the number of replicas less one.
 * @param[in,out] times The figures. `struct_size` says how much of the struct is filled.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: no such replica.
 * - UMBO_STATUS_FAILED_PRECONDITION: no step was measured since umbo_strategy_measure_steps(), or
 *   none that was committed.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_step_times(
    const umbo_strategy *strategy, int32_t replica, umbo_step_times *times);

/**
 * Begins to write a trace: what every thread does when, in a file.
 *
 * @param[in] path The file, which is made anew.
 * @param[in] options How it is written; `options` may be NULL: the defaults.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: a trace is being written already.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED, UMBO_STATUS_RESOURCE_EXHAUSTED,
 *   UMBO_STATUS_UNAVAILABLE: the file cannot be made.
 * - UMBO_STATUS_INVALID_ARGUMENT: `path` is a null pointer, not UTF-8, or leads to no file, or an
 *   option is out of range.
 *
 * The trace has spans of each replica, of the workers for central work, of threads that make
 * elements ahead, of copies to and from GPUs, and what umbo_trace_span_begin() and
 * umbo_trace_span_end() say; and the bytes that were reduced, copied, exchanged and updated so far,
 * after each step. The file is in the JSON format of Chrome's trace viewer, which ui.perfetto.dev
 * and chrome://tracing show. The command `umbo trace FILE --html PAGE` makes a page of it, and
 * `umbo doctor FILE` says what keeps the steps from being faster.
 *
 * Each thread keeps up to 2048 events until they are written, which happens at least five times in
 * a second while threads work. What a process that dies has written by then can be read.
 *
 * The environment variable UMBO_TRACE has the process write a trace without this call, from its
 * first strategy to its end: it names the file, and %p in it stands for the number of the process.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trace_start(
    const char *path, const umbo_trace_options *options);

/**
 * Ends the trace and finishes its file.
 *
 * @param[out] events How many events it has. `events` may be NULL.
 * @param[out] dropped How many were dropped since there were too many. `dropped` may be NULL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: no trace is being written.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: not all of it could be written since the disk is full;
 *   UMBO_STATUS_UNAVAILABLE: for another reason. The trace has ended, and the file can be read as
 *   far as it goes.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trace_stop(int64_t *events, int64_t *dropped);

/**
 * Begins a span of the program's own in the trace, on the calling thread.
 *
 * @param[in] name What the span is called there. Up to 200 bytes count. `name` may be NULL:
 *   "program".
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `name` is not UTF-8.
 *
 * Does nothing while no trace is being written. Spans may lie inside of each other, also inside of
 * callbacks; the outermost 64 of a thread are in the trace. Each is ended on the thread that began
 * it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trace_span_begin(const char *name);

/**
 * Ends the span that the calling thread began last.
 *
 * @return UMBO_OK.
 *
 * Does nothing if there is none, for instance since the trace was started after its beginning.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trace_span_end(void);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

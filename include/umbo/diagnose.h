/* Generated from src; do not edit. */
#ifndef UMBO_DIAGNOSE_H
#define UMBO_DIAGNOSE_H

/**
 * @file diagnose.h
 * @brief Watching a program: what its steps spend their time on, what to change, and the trace.
 *
 * umbo_strategy_step_report() explains why N replicas are not N times as fast. A trace shows what
 * each thread did when. Both are off at first and cost nothing then.
 *
 * Threads: all functions are *concurrent*.
 *
 * Example:
 * ```c
 * // Call it after some steps that were measured.
 * #include <stdio.h>
 *
 * static umbo_status print_report(const umbo_strategy *strategy) {
 *   char text[8192];
 *   size_t length = 0;
 *   UMBO_TRY(umbo_strategy_step_report(strategy, text, sizeof(text), &length, NULL));
 *   puts(text);
 *   return UMBO_OK;
 * }
 * ```
 */

#include <umbo/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A cause of slow steps: a bit of `causes` in umbo_strategy_step_report(). */
typedef enum umbo_step_cause UMBO_INT32 {
  /** Handing a step to the replicas takes longer than its work. */
  UMBO_STEP_CAUSE_SMALL_STEP = 1 << 20,
  /** There are more replicas than processors. */
  UMBO_STEP_CAUSE_FEW_PROCESSORS = 1 << 21,
  /** Threads of BLAS, OpenMP or others use the same processors. */
  UMBO_STEP_CAUSE_OTHER_THREADS = 1 << 22,
  /** The input is not ready in time. */
  UMBO_STEP_CAUSE_INPUT = 1 << 23,
  /** One replica takes longer than the others. */
  UMBO_STEP_CAUSE_SLOW_REPLICA = 1 << 24,
  /** The callbacks run one after the other, as with the lock of an interpreter. */
  UMBO_STEP_CAUSE_SERIALISED = 1 << 25,
  /** The update takes most of a step, or is limited by memory. */
  UMBO_STEP_CAUSE_UPDATE = 1 << 26,
  /** Other processes used the processors. */
  UMBO_STEP_CAUSE_BUSY_MACHINE = 1 << 27,
  /** Some steps take far longer than most: the mean is over 1.5 times the median. */
  UMBO_STEP_CAUSE_UNEVEN_STEPS = 1 << 28,
  /** A BLAS computes with kernels that are older than the processor. */
  UMBO_STEP_CAUSE_OLD_KERNELS = 1 << 29
} umbo_step_cause;

/**
 * The time of a replica's step by purpose, in seconds: medians over the measured steps.
 *
 * A step begins with the end of the run before it on its thread; if that is not known, it is a run
 * alone. Work that is done once for all replicas counts for each, so the fields from `input` to
 * `outside` add up to about `step`.
 */
typedef struct umbo_step_times {
  size_t struct_size;
  /** The number of measured steps. */
  int64_t measured_step_count;
  /** The number of all steps since measuring began. */
  int64_t step_count;
  /** From the end of a step to the end of the next. */
  double step;
  /** Making the next element, or waiting for it. */
  double input;
  /** Splitting batches over the replicas. */
  double split;
  /** Copying tensors, between devices too. */
  double copy;
  /** The callback. */
  double compute;
  /** Waiting for other replicas, or to be woken. */
  double wait;
  /** Reductions, gathers and the functions of merge calls. */
  double reduce;
  /** The update of the variables, and the rest of the commit point. */
  double update;
  /** Exchanges between ranks. */
  double exchange;
  /** The program's own work between the steps. */
  double outside;
} umbo_step_times;

#define UMBO_STEP_TIMES_INIT \
  { UMBO_STRUCT_SIZE(umbo_step_times), 0, 0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0 }

/** The options of a trace. */
typedef struct umbo_trace_options {
  size_t struct_size;
  /**
   * The most events that are written, 1 or more: 4,000,000 take about 500 MB. Others are counted
   * and dropped.
   */
  int64_t max_events;
} umbo_trace_options;

#define umbo_trace_options_defaults UMBO_STRUCT_SIZE(umbo_trace_options), 4000000
#define UMBO_TRACE_OPTIONS_INIT { umbo_trace_options_defaults }

/**
 * Starts or stops to measure the steps of a strategy.
 *
 * @param[in] measure 1: measure from now on, and forget what was measured. 0: measure no more.
 *
 * It takes about a microsecond of a step, and at most 1 % of one of a millisecond or more. The
 * latest 256 are kept, fewer with more than 256 replicas. Meanwhile the causes of slow steps are
 * logged at UMBO_LOG_INFO after 64 measured steps, and when they change.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_measure_steps(
    umbo_strategy *strategy, int32_t measure);

/**
 * Reports what the steps of a strategy spend their time on, and what to change.
 *
 * @param[out] buffer The report: a table with a line for each replica, and a line for each cause
 *   with its remedy. Its length changes with the figures. If it is too small, `causes` is written,
 *   too.
 * @param[out] causes The sum of constants of umbo_step_cause, 0 for none. May be NULL.
 * @return UMBO_STATUS_FAILED_PRECONDITION: no step was measured since
 *   umbo_strategy_measure_steps(), or none was committed.
 *
 * Callbacks may call it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_step_report(
    const umbo_strategy *strategy, char *buffer, size_t capacity, size_t *length, int32_t *causes);

/**
 * Gets the figures of one replica.
 *
 * @param[in] replica_id A local id.
 * @return
 * - UMBO_STATUS_OUT_OF_RANGE: no such replica.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_strategy_step_report().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_step_times(
    const umbo_strategy *strategy, int32_t replica_id, umbo_step_times *times);

/**
 * Starts to write a trace: what each thread does when.
 *
 * @param[in] path A file, which is overwritten, also through a symbolic link.
 * @param[in] options May be NULL.
 * @return
 * - UMBO_STATUS_FAILED_PRECONDITION: a trace is being written already.
 * - UMBO_STATUS_INVALID_ARGUMENT: not a regular file.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED, UMBO_STATUS_UNAVAILABLE: the file cannot
 *   be made.
 *
 * The trace has spans of replicas, workers, input threads, copies to and from GPUs, and the
 * program (umbo_trace_span_begin()), and the bytes that were reduced, copied, exchanged and
 * updated. The file is JSON for ui.perfetto.dev and chrome://tracing; `umbo trace FILE --html
 * PAGE` and `umbo doctor FILE` read it, too. If the process dies, it can be read up to at most a
 * fifth of a second before. The environment variable UMBO_TRACE names a file (%p: the process's
 * number) to write a trace from the first strategy on.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trace_start(
    const char *path, const umbo_trace_options *options);

/**
 * Ends the trace and finishes its file.
 *
 * @param[out] event_count The number of its events. May be NULL.
 * @param[out] dropped_count The number of events beyond `max_events`. May be NULL.
 * @return UMBO_STATUS_FAILED_PRECONDITION: no trace is being written.
 *   UMBO_STATUS_RESOURCE_EXHAUSTED, or UMBO_STATUS_UNAVAILABLE: not all could be written (the disk
 *   is full, or another reason). The trace has ended, and the file can be read as far as it goes.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trace_stop(int64_t *event_count, int64_t *dropped_count);

/**
 * Begins a span in the trace, on this thread. Without a trace it does nothing.
 *
 * @param[in] name Cut after 200 bytes. NULL: "program". A name that is not UTF-8 is logged as an
 *   error.
 *
 * Spans may lie in each other and in callbacks; the outermost 64 of a thread are in the trace.
 */
UMBO_API void umbo_trace_span_begin(const char *name);

/** Ends the span that this thread began last, if there is one. */
UMBO_API void umbo_trace_span_end(void);

/**
 * Gets how the library was built: a JSON object with "version", "target", "profile" and
 * "features", the names of the optional parts that it has.
 */
UMBO_API const char *umbo_build_info(void);

/**
 * Gets whether the library has an optional feature.
 *
 * @param[in] name "cuda": there is a GPU that can be a device of a strategy. Others: the library
 *   was built with "checkpoints", "checks" of steps, "files" of arrays, communicators over "mpi"
 *   and over "nccl", which need not be installed, strategies over several "ranks", "rules-extra"
 *   (all but SGD, momentum, Adam and AdamW), "tensorflow" (tensorflow.h), the "trace", "vectors"
 *   (loops for AVX2 and AVX-512). What is not known: 0.
 * @param[out] result 1 or 0.
 *
 * Functions of a part that the library was built without fail with UMBO_STATUS_UNIMPLEMENTED.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_build_has_feature(const char *name, int32_t *result);

/**
 * Gets the number of threads for central work, the calling one included. Small operations use
 * fewer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_worker_count(int64_t *count);

/**
 * Describes a value in words: dtype, shape, device and elements of each tensor, without the middle
 * of long axes.
 *
 * @param[out] buffer The text. `buffer` may be NULL if `capacity` is 0.
 * @return As umbo_variable_read(), if the value contains a variable.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_value_text(
    const umbo_value *value, char *buffer, size_t capacity, size_t *length);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

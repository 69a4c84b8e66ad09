/* Generated from src/ffi; do not edit. */
#ifndef UMBO_TRAINING_H
#define UMBO_TRAINING_H

/**
 * @file training.h
 * @brief A training loop: a pass over a dataset, a step for each element.
 *
 * Each part of it can be called alone: umbo_iterator_next(), umbo_strategy_run(),
 * umbo_optimizer_apply(), umbo_metrics_result(), umbo_iterator_reset().
 *
 * Threads: an epoch is *serialised* with other runs of its strategy step by step.
 *
 * Example:
 * ```c
 * // Evaluates: no optimizer, no gradients. The step adds to metric 0.
 * static umbo_status evaluate(umbo_strategy *strategy, umbo_iterator *test, umbo_replica_fn step,
 *                             umbo_metrics *metrics, umbo_metric *loss) {
 *   umbo_train_epoch_options options = umbo_train_epoch_options_default();
 *   options.metrics = metrics;
 *   UMBO_TRY(umbo_train_epoch(strategy, test, NULL, NULL, step, NULL, &options, NULL));
 *   return umbo_metrics_result(metrics, 0, loss);
 * }
 * ```
 */

#include <umbo/dataset.h>
#include <umbo/metrics.h>
#include <umbo/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif


/** How far an epoch is. More fields may follow in later versions. */
typedef struct umbo_progress {
  size_t struct_size;
  /** Steps that were done. */
  int64_t steps;
  /** The examples of their elements, as far as these tell how many they have. */
  int64_t examples;
  /** Updates that took effect. */
  int64_t applied;
  /** Updates that were skipped because a gradient was not finite. */
  int64_t skipped;
  /** Seconds since the beginning. */
  double seconds;
  /** What the last step's update did; NULL without an optimizer. */
  const umbo_apply_report *last_apply;
  /** The metrics of the options, with what all steps so far have added. */
  umbo_metrics *metrics;
} umbo_progress;

#define UMBO_PROGRESS_INIT { sizeof(umbo_progress), 0, 0, 0, 0, 0.0, NULL, NULL }
UMBO_DEFAULT(umbo_progress, UMBO_PROGRESS_INIT)

/**
 * Is told after each step how far the epoch is.
 *
 * @param[in] progress How far it is; valid for the call.
 * @param[in] user_data `progress_user_data` of the options.
 * @return UMBO_OK, or why the epoch is to end. Any other status than UMBO_OK ends it, and
 *   umbo_train_epoch() returns that status. The step counts, and the next epoch begins with the
 *   element behind it. With several ranks the functions of all of them decide alike.
 *
 * It is called on the thread that called umbo_train_epoch(), outside of the step: it may read
 * variables and metrics, set a learning rate, run and evaluate.
 */
typedef umbo_status (*umbo_progress_fn)(const umbo_progress *progress, void *user_data);

/** How an epoch is done. Start from UMBO_TRAIN_EPOCH_OPTIONS_INIT. */
typedef struct umbo_train_epoch_options {
  size_t struct_size;
  /**
   * Metrics that the step adds to: they are reset before the first step, so that they are the
   * epoch's, unless `keep_metrics` says otherwise. NULL: none are reset.
   */
  umbo_metrics *metrics;
  /** Is told after each step how far the epoch is. NULL: nobody is. */
  umbo_progress_fn progress;
  /** Passed to `progress`. */
  void *progress_user_data;
  /**
   * The epoch ends after this many seconds at the latest, with UMBO_STATUS_DEADLINE_EXCEEDED; 0: at
   * once. UMBO_INFINITE, the default: it takes as long as it takes. Waiting for an element is not
   * cut short.
   */
  double timeout_seconds;
  /** The epoch ends, with UMBO_STATUS_CANCELLED, when this token is cancelled. NULL: no token. */
  const umbo_cancellation *cancellation;
  /**
   * The epoch ends after this many steps, if the pass has not ended before. By default
   * UMBO_ALL.
   */
  int64_t most_steps;
  /**
   * 1, the default: what gradients with `accumulation_steps` have accumulated when the epoch ends
   * is applied. 0: it waits for the next one.
   */
  int32_t flush;
  /**
   * 1, the default: when the pass has ended the iterator begins the next one. 0: it stays at its
   * end. After `most_steps` steps it stays where it is in any case.
   */
  int32_t reset_iterator;
  /**
   * Releases the step's `user_data`, exactly once, when its last callback is back, which may be
   * after the epoch has returned, on another thread; also if the epoch could not start. May be
   * NULL.
   */
  umbo_destroy_fn user_data_destroy;
  /**
   * 0, the default: the metrics of the options are reset before the first step. 1: they go on, as
   * for the rest of an epoch whose first part a checkpoint has brought back.
   */
  int32_t keep_metrics;
} umbo_train_epoch_options;

#define UMBO_TRAIN_EPOCH_OPTIONS_INIT \
  { sizeof(umbo_train_epoch_options), NULL, NULL, NULL, UMBO_INFINITE, NULL, UMBO_ALL, 1, 1, NULL, \
    0 }
UMBO_DEFAULT(umbo_train_epoch_options, UMBO_TRAIN_EPOCH_OPTIONS_INIT)

/** What an epoch did. Start from UMBO_TRAIN_EPOCH_REPORT_INIT. */
typedef struct umbo_train_epoch_report {
  size_t struct_size;
  /** How many steps. */
  int64_t steps;
  /** The examples of their elements, as far as these tell how many they have. */
  int64_t examples;
  /**
   * Updates that took effect, a flush included. With `accumulation_steps` there are fewer than
   * steps.
   */
  int64_t applied;
  /** Updates that were skipped because a gradient was not finite. */
  int64_t skipped;
  /** How long it took. */
  double seconds;
  /** 1: the pass has ended. 0: `most_steps` came before. */
  int32_t pass_ended;
} umbo_train_epoch_report;

#define UMBO_TRAIN_EPOCH_REPORT_INIT { sizeof(umbo_train_epoch_report), 0, 0, 0, 0, 0.0, 0 }
UMBO_DEFAULT(umbo_train_epoch_report, UMBO_TRAIN_EPOCH_REPORT_INIT)

/**
 * Trains, or evaluates, over a pass of an iterator: takes the next element, runs the step on it as
 * umbo_strategy_run(), and applies the gradients that the replicas submitted as
 * umbo_optimizer_apply(), until there are no more elements.
 *
 * The update belongs to its step: both take effect, with what the step added to metrics, or none
 * does. If something fails the epoch ends, and variables, optimizer, metrics and the iterator's
 * place are as after the step before. The message says which step it was, counted from 1, and what
 * in it failed; if replicas failed, a line for each of them follows. Called once more, it goes on
 * with the pass.
 *
 * So the element of a step that failed, was cancelled or came too late comes again: it is the first
 * one of the next epoch over the iterator, as the step has left it if that wrote to it. A position
 * or a checkpoint that is saved in between is before it. umbo_iterator_next() passes over it;
 * umbo_iterator_reset() and umbo_iterator_restore_position() drop it. An element that could not be
 * made is passed over, on all ranks; one that there was no memory for comes again. A step whose
 * update was skipped because a gradient was not finite, and one whose `progress` function failed,
 * have taken effect: their elements do not come again. Nor does an element if another thread has
 * asked something of the iterator since the step took it.
 *
 * @param[in] strategy The strategy whose replicas run the step.
 * @param[in] iterator Where elements come from, usually of a distributed dataset.
 * @param[in] optimizer Updates the variables; `optimizer` may be NULL, together with the
 *   gradients: then nothing is updated.
 * @param[in] gradients What the step submits; `gradients` may be NULL, together with the
 *   optimizer.
 * @param[in] step The step; it gets the element as `args`. What it returns as a result is
 *   dropped.
 * @param[in] user_data Passed to the step.
 * @param[in] options Limits, metrics, progress; `options` may be NULL: all defaults.
 * @param[out] report Gets what was done; `report` may be NULL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, only one of optimizer and
 *   gradients, or an iterator, an optimizer, gradients or metrics of another strategy.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside of a run, in another strategy's scope, while the
 *   strategy is draining.
 * - UMBO_STATUS_DEADLINE_EXCEEDED and UMBO_STATUS_CANCELLED: as the options say.
 * - What the iterator, the step, the update or the progress function fails with.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. What another rank has failed with is
 * the status here, too, and the message names that rank.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_train_epoch(
    umbo_strategy *strategy, umbo_iterator *iterator, umbo_optimizer *optimizer,
    umbo_gradients *gradients, umbo_replica_fn step, void *user_data,
    const umbo_train_epoch_options *options, umbo_train_epoch_report *report);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

/* Generated from src; do not edit. */
#ifndef UMBO_TRAINING_H
#define UMBO_TRAINING_H

/**
 * @file training.h
 * @brief A training loop: a pass over a dataset, a step for each element.
 *
 * Each part of it can be called alone: umbo_iterator_next(), umbo_strategy_run(),
 * umbo_optimizer_apply(), umbo_iterator_reset().
 *
 * Threads: an epoch is *serialised* with other runs of its strategy step by step.
 *
 * Example:
 * ```c
 * // The loss over a test set. The step adds to the metric "loss".
 * static umbo_status test_loss(umbo_strategy *strategy, umbo_iterator *test, umbo_replica_fn step,
 *                              umbo_metric_result *loss) {
 *   UMBO_TRY(umbo_evaluate(strategy, test, step, NULL, NULL, NULL));
 *   return umbo_strategy_metric_result(strategy, "loss", loss);
 * }
 * ```
 */

#include <umbo/dataset.h>
#include <umbo/metrics.h>
#include <umbo/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** How far an epoch is. Later versions may append fields. */
typedef struct umbo_progress {
  size_t struct_size;
  /** Steps that were done. */
  int64_t step_count;
  /** The examples of their elements, if the elements know how many they have. */
  int64_t example_count;
  /** Updates that took effect. */
  int64_t update_count;
  /** Updates that were skipped because a gradient was not finite. */
  int64_t skipped_count;
  /** Seconds since the beginning. */
  double seconds;
  /** The outcome of the last step's update; NULL without an optimizer. */
  const umbo_apply_report *last_apply;
  /** The metrics of the options, with what all steps so far have added. */
  umbo_metrics *metrics;
} umbo_progress;

/**
 * Called after each step, outside of it, on the thread that called umbo_train_epoch().
 *
 * @param[in] progress Valid for the call.
 * @return UMBO_OK, or why the epoch is to end: the step is kept, and umbo_train_epoch() returns
 *   this status, also on the other ranks, which do not begin another step.
 *
 * It may read variables and metrics, set a learning rate, run and evaluate. Here
 * umbo_strategy_metric_result() has the totals of the last step.
 */
typedef umbo_status (*umbo_progress_fn)(const umbo_progress *progress, void *user_data);

/** Options of an epoch. */
typedef struct umbo_train_epoch_options {
  size_t struct_size;
  /** Metrics that the step adds to: they are reset before the first step. NULL: none are. */
  umbo_metrics *metrics;
  /** Called after each step. NULL: no callback. */
  umbo_progress_fn progress;
  /** Passed to `progress`. */
  void *progress_user_data;
  /**
   * After this many seconds the epoch ends with UMBO_STATUS_DEADLINE_EXCEEDED; 0: at once. Where
   * umbo_dataset_skip() or umbo_dataset_shard() makes elements only to leave them out, the epoch
   * also ends between two of these, and another epoch continues there. The limit does not cut
   * short the making of an element, or the waiting for other ranks. UMBO_INFINITE: no limit.
   */
  double timeout_seconds;
  /**
   * Cancelled, it ends the epoch with UMBO_STATUS_CANCELLED, at the same places as
   * `timeout_seconds`. NULL: none.
   */
  const umbo_cancellation *cancellation;
  /**
   * The epoch ends after this many steps, if the pass has not ended before. If these take the
   * last element, the pass has ended, too. Where umbo_dataset_cardinality() does not know, the
   * epoch makes the next element to find out, which the next request gets. With several ranks
   * none looks ahead: `pass_ended` is 0 then, and the next epoch, in which no rank finds an
   * element, has `step_count` 0 and `pass_ended` 1, and resets the iterator if `reset_iterator`
   * says so. UMBO_ALL: no limit.
   */
  int64_t max_steps;
  /** 1: what `accumulation_steps` have accumulated at the end is applied. 0: it waits. */
  int32_t flush;
  /**
   * 1: when the pass has ended, the iterator begins the next one. An iterator that is at its end
   * before the epoch (umbo_iterator_has_ended()) does so first. 0: it stays at its end.
   */
  int32_t reset_iterator;
  /**
   * Releases the step's `user_data`, exactly once, on any thread, when its last callback is
   * back, which may be after the epoch has returned; even if the epoch cannot start. NULL: none.
   */
  umbo_destroy_fn user_data_destroy;
  /** 1: the metrics are not reset, as when an epoch resumes from a checkpoint. */
  int32_t keep_metrics;
} umbo_train_epoch_options;

#define umbo_train_epoch_options_defaults \
  UMBO_STRUCT_SIZE(umbo_train_epoch_options), NULL, NULL, NULL, UMBO_INFINITE, NULL, UMBO_ALL, 1, \
    1, NULL, 0
#define UMBO_TRAIN_EPOCH_OPTIONS_INIT { umbo_train_epoch_options_defaults }

/** The outcome of an epoch. */
typedef struct umbo_train_epoch_report {
  size_t struct_size;
  /** Steps that took effect. */
  int64_t step_count;
  /** The examples of their elements, if the elements know how many they have. */
  int64_t example_count;
  /** Updates that took effect, with a flush; fewer than steps with `accumulation_steps`. */
  int64_t update_count;
  /** Updates that were skipped because a gradient was not finite. */
  int64_t skipped_count;
  /** How long it took. */
  double seconds;
  /** 1: the pass has ended. 0: `max_steps` came before. */
  int32_t pass_ended;
} umbo_train_epoch_report;

#define UMBO_TRAIN_EPOCH_REPORT_INIT \
  { UMBO_STRUCT_SIZE(umbo_train_epoch_report), 0, 0, 0, 0, 0.0, 0 }

/**
 * Trains, or evaluates, over a pass of an iterator: until there are no more elements it takes one,
 * runs the step on it (umbo_strategy_run()), and applies the gradients (umbo_optimizer_apply()).
 *
 * @param[in] iterator Usually of a distributed dataset.
 * @param[in] optimizer May be NULL, together with `gradients`: nothing is updated.
 * @param[in] step Gets the element as `args`. Its result is dropped.
 * @param[out] report May be NULL.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: only one of optimizer and gradients, objects
 *   of another strategy, or an option out of range. UMBO_STATUS_FAILED_PRECONDITION: inside a run,
 *   in another strategy's scope, or while the strategy is draining; on all ranks, if the pass ends
 *   earlier on one than on another. UMBO_STATUS_DEADLINE_EXCEEDED, UMBO_STATUS_CANCELLED: as the
 *   options say. What the iterator, the step, the update or `progress` fails with; the message
 *   says in which step, counted from 1.
 *
 * The update, and what the step adds to metrics, belong to the step: all of it takes effect, or
 * nothing. If something fails, the epoch ends, and all is as after the step before. Afterwards
 * umbo_strategy_metric_result() has the totals and means over all steps that took effect, and
 * nothing else: after an epoch without steps, which is UMBO_OK, it is UMBO_STATUS_NOT_FOUND.
 *
 * The element of a step that failed, was cancelled or was late is the first one of the next epoch
 * over the iterator; positions and checkpoints in between are before it. It is dropped by
 * umbo_iterator_next(), by a reset, and if another thread has used the iterator meanwhile. An
 * element that could not be made is passed over, unless there was no memory for it. A step whose
 * update was skipped, or whose `progress` failed, has taken effect; if it was the last one of the
 * pass, the next epoch is what was left of this one: no steps, and the end of the pass. With
 * several ranks, if that step was also the last of `max_steps`, this epoch has ended the pass.
 *
 * Collective. What another rank fails with is the status here, too; the message names the rank.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_train_epoch(
    umbo_strategy *strategy, umbo_iterator *iterator, umbo_optimizer *optimizer,
    umbo_gradients *gradients, umbo_replica_fn step, void *user_data,
    const umbo_train_epoch_options *options, umbo_train_epoch_report *report);

/**
 * Evaluates over a pass of an iterator: umbo_train_epoch() without an update.
 *
 * @param[in] step Adds to metrics and submits no gradients.
 * @param[in] options `options` may be NULL.
 * @param[out] report May be NULL.
 */
UMBO_MUST_USE static inline umbo_status umbo_evaluate(
    umbo_strategy *strategy, umbo_iterator *iterator, umbo_replica_fn step, void *user_data,
    const umbo_train_epoch_options *options, umbo_train_epoch_report *report) {
  return umbo_train_epoch(strategy, iterator, NULL, NULL, step, user_data, options, report);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

/* Generated from src; do not edit. */
#ifndef UMBO_EQUIVALENCE_H
#define UMBO_EQUIVALENCE_H

/**
 * @file equivalence.h
 * @brief Checking that a training step does the same on one replica as on many.
 *
 * The check runs a step on one batch, split in several ways, and commits nothing. Its result is a
 * list of findings: what differs, and why.
 *
 * With the environment variable UMBO_CHECK_STEPS=1 umbo_train_epoch(), and umbo_strategy_run() with
 * an element of umbo_iterator_next(), check the first batch of each pass of a distributed dataset
 * and log each verdict once for a strategy. docs/concepts.md says more.
 *
 * Threads: umbo_strategy_check_equivalence() is *serialised* with the strategy's steps; functions
 * on its result are *concurrent*.
 *
 * Example:
 * ```c
 * // Prints what is wrong with a step; true if nothing is.
 * #include <stdio.h>
 *
 * static int is_sound(const umbo_equivalence *found) {
 *   umbo_equivalence_info info = UMBO_EQUIVALENCE_INFO_INIT;
 *   if (umbo_equivalence_get_info(found, &info) != UMBO_OK) return 0;
 *   puts(info.text);
 *   return info.holds;
 * }
 * ```
 */

#include <umbo/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The subject of a finding. */
typedef enum umbo_equivalence_subject UMBO_INT32 {
  /** The step as a whole. */
  UMBO_EQUIVALENCE_OF_STEP = 1701,
  /** The gradient of a variable. */
  UMBO_EQUIVALENCE_OF_GRADIENT = 1702,
  /** A metric. */
  UMBO_EQUIVALENCE_OF_METRIC = 1703,
  /** The value of a variable. */
  UMBO_EQUIVALENCE_OF_VARIABLE = 1704
} umbo_equivalence_subject;

/**
 * The verdict of a check. All but EQUAL, NOT_WRITTEN and SIZE_DEPENDENT count against the
 * equivalence.
 */
typedef enum umbo_equivalence_verdict UMBO_INT32 {
  /** The same for every split of the batch. */
  UMBO_EQUIVALENCE_EQUAL = 1801,
  /** No replica writes the gradient, so the variable would not be updated. */
  UMBO_EQUIVALENCE_NOT_WRITTEN = 1802,
  /** The callback fails for another split of the batch, for instance with empty parts. */
  UMBO_EQUIVALENCE_CALLBACK_FAILED = 1803,
  /** A replica does not submit its gradients. */
  UMBO_EQUIVALENCE_NOT_SUBMITTED = 1804,
  /** The weights are not in proportion to the examples. */
  UMBO_EQUIVALENCE_WRONG_WEIGHT = 1805,
  /** A buffer viewed with UMBO_GRADIENT_OVERWRITE is not written in full, or is added to. */
  UMBO_EQUIVALENCE_NOT_OVERWRITTEN = 1806,
  /** A number is infinite or NaN. */
  UMBO_EQUIVALENCE_NOT_FINITE = 1807,
  /** Two runs with the same parts of the batch differ. */
  UMBO_EQUIVALENCE_NOT_REPEATABLE = 1808,
  /** The callback does not reduce over its examples in the way that was declared. */
  UMBO_EQUIVALENCE_WRONG_REDUCTION = 1809,
  /** Each replica contributes the gradient of the whole batch. */
  UMBO_EQUIVALENCE_WHOLE_BATCH = 1810,
  /** Replicas that have different examples contribute the very same gradient. */
  UMBO_EQUIVALENCE_SAME_EXAMPLES = 1811,
  /** Only some of the replicas that have examples write the gradient. */
  UMBO_EQUIVALENCE_PARTLY_WRITTEN = 1812,
  /** Each replica adds a term that does not come from an example, such as weight decay. */
  UMBO_EQUIVALENCE_TERM_PER_REPLICA = 1813,
  /** Different, and the numbers do not show why. The text lists likely causes. */
  UMBO_EQUIVALENCE_DIFFERENT = 1814,
  /**
   * The callback writes a variable, or a copy of it, through a view for reading. The check restores
   * it; gradients and metrics that differ for that reason have this verdict too.
   */
  UMBO_EQUIVALENCE_VARIABLE_WRITTEN = 1815,
  /**
   * Different only for a smaller batch: the callback uses statistics of the whole batch, or its
   * size for more than the mean.
   */
  UMBO_EQUIVALENCE_SIZE_DEPENDENT = 1816
} umbo_equivalence_verdict;

/** The tolerances within which two numbers count as equal. */
typedef struct umbo_equivalence_options {
  size_t struct_size;
  /**
   * The largest allowed difference, as a fraction of the terms that a gradient is the sum of; 0:
   * bit-identical. UMBO_AUTO: what another order of the sum can change: 0.0001 to 0.01 for
   * float32, more for larger batches, 0.012 for float16, 0.026 for bfloat16.
   */
  double relative_tolerance;
  /** A difference up to this is ignored; 0 or more. */
  double absolute_tolerance;
} umbo_equivalence_options;

#define umbo_equivalence_options_defaults UMBO_STRUCT_SIZE(umbo_equivalence_options), UMBO_AUTO, 0.0
#define UMBO_EQUIVALENCE_OPTIONS_INIT { umbo_equivalence_options_defaults }

/** The result of a check as a whole. */
typedef struct umbo_equivalence_info {
  size_t struct_size;
  /** 1: the update and the metrics are the same on one replica as on all. */
  int32_t holds;
  /**
   * All that was found: a line about the whole, then one for each finding that is not
   * UMBO_EQUIVALENCE_EQUAL. Lives as long as the result.
   */
  const char *text;
  /** The number of findings: those about the step, then one for each gradient and metric. */
  int64_t finding_count;
} umbo_equivalence_info;

#define UMBO_EQUIVALENCE_INFO_INIT { UMBO_STRUCT_SIZE(umbo_equivalence_info), 0, NULL, 0 }

/** One finding of a check. */
typedef struct umbo_equivalence_finding {
  size_t struct_size;
  /** The subject of the finding. */
  umbo_equivalence_subject subject;
  /** UMBO_EQUIVALENCE_EQUAL, or what is wrong. */
  umbo_equivalence_verdict verdict;
  /** The position of the variable among the gradients, or UMBO_NONE. */
  int64_t variable_index;
  /** The element that `text` mentions, in row-major order; UMBO_NONE: none. */
  int64_t element_index;
  /**
   * The factor by which the gradient is too large (more than 1) or too small (less than 1) on
   * all replicas. 0: no single factor describes it.
   */
  double factor;
  /** The largest difference between two splits, as a fraction of the largest element. */
  double difference;
  /** The variable's or metric's name; NULL: of the step. Lives as long as the result. */
  const char *name;
  /** The finding and its remedy, as text. Lives as long as the result. */
  const char *text;
} umbo_equivalence_finding;

#define UMBO_EQUIVALENCE_FINDING_INIT \
  { UMBO_STRUCT_SIZE(umbo_equivalence_finding), UMBO_ENUM_VALUE(umbo_equivalence_subject, 0), \
    UMBO_ENUM_VALUE(umbo_equivalence_verdict, 0), 0, 0, 0.0, 0.0, NULL, NULL }

/**
 * Checks that a step does the same on one replica as on all. It is for tests, and for the first
 * step of a new trainer.
 *
 * @param[in] gradients What the callback writes. NULL: only metrics are compared.
 * @param[in] batch A global batch that is not distributed yet: a nest of tensors, with 3 examples
 *   or more along dimension 0.
 * @param[out] equivalence What was found; a mistake of the callback is not a failure of this
 *   function.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a batch that cannot be split, gradients of
 *   another strategy, or a tolerance out of range. UMBO_STATUS_FAILED_PRECONDITION: inside a run,
 *   in another strategy's scope, while the strategy is draining, or while `gradients` wait for an
 *   apply. What umbo_strategy_run() returns, if the callback fails on the usual split of the
 *   batch.
 *
 * The check runs the callback on several splits of the batch, 6 times on each replica, and up to
 * 22 times if something differs. It compares gradients, weights and metrics, of
 * umbo_replica_context_add_metric() and of every umbo_metrics. With one replica it finds only what
 * a single run shows.
 *
 * Nothing is committed: variables, `gradients`, optimizers and metrics are as before, and an apply
 * in the callback has no effect. Other gradients that it writes are as after a run that fails.
 * Copies of all gradients in float64 are kept, two for each replica and up to seven more; of
 * row-sparse ones they are as large as the table. docs/concepts.md says more.
 *
 * Collective: each rank gives a batch of its own, of as many examples.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_check_equivalence(
    umbo_strategy *strategy, umbo_gradients *gradients, umbo_replica_fn function,
    const umbo_value *batch, void *user_data, const umbo_equivalence_options *options,
    umbo_equivalence **equivalence);

/** Gets what a check has found as a whole. */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_get_info(
    const umbo_equivalence *equivalence, umbo_equivalence_info *info);

/** Makes another handle to the same equivalence: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_equivalence_retain(
    const umbo_equivalence *equivalence, umbo_equivalence **retained) {
  return umbo_retain(equivalence, UMBO_HANDLE_EQUIVALENCE, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_equivalence_release(const umbo_equivalence *equivalence) {
  umbo_release(equivalence, UMBO_HANDLE_EQUIVALENCE);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

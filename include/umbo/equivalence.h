/* Generated from src/ffi; do not edit. */
#ifndef UMBO_EQUIVALENCE_H
#define UMBO_EQUIVALENCE_H

/**
 * @file equivalence.h
 * @brief Checking that a training step does the same on one replica as on many, and finding out why
 * if it does not.
 *
 * The check runs a step on one batch, split in several ways, and commits nothing. Its result is a
 * list of findings, which the caller releases.
 *
 * The environment variable UMBO_CHECK=1 checks a program that does not call it: umbo_train_epoch(),
 * and umbo_strategy_run() with an element of umbo_iterator_next(), check the first batch of each
 * pass of a distributed dataset and log the verdict. docs/concepts.md says which programs that
 * covers.
 *
 * Threads: umbo_strategy_check_equivalence() is *serialised* with the strategy's steps. The
 * functions on its result are *concurrent*.
 *
 * Example:
 * ```c
 * // Prints what is wrong with a step; true if nothing is.
 * #include <stdio.h>
 *
 * static int is_sound(const umbo_equivalence *found) {
 *   const char *text = NULL;
 *   int32_t holds = 0;
 *   if (umbo_equivalence_text(found, &text) == UMBO_OK) puts(text);
 *   return umbo_equivalence_holds(found, &holds) == UMBO_OK && holds;
 * }
 * ```
 */

#include <umbo/strategy.h>

#ifdef __cplusplus
extern "C" {
#endif


/** What a finding is about. */
UMBO_ENUM(umbo_equivalence_subject) {
  /** The step as a whole. */
  UMBO_EQUIVALENCE_OF_STEP = 1,
  /** The gradient of a variable. */
  UMBO_EQUIVALENCE_OF_GRADIENT = 2,
  /** A metric. */
  UMBO_EQUIVALENCE_OF_METRIC = 3,
  /** The value of a variable. */
  UMBO_EQUIVALENCE_OF_VARIABLE = 4
};

/**
 * What a check has found.
 *
 * UMBO_EQUIVALENCE_EQUAL, UMBO_EQUIVALENCE_NOT_WRITTEN and UMBO_EQUIVALENCE_SIZE_DEPENDENT do not
 * count against the equivalence. All others do.
 */
UMBO_ENUM(umbo_equivalence_verdict) {
  /** The same for every split of the batch. */
  UMBO_EQUIVALENCE_EQUAL = 1,
  /**
   * No replica writes the gradient, so the variable would not be updated. Does not count against
   * the equivalence.
   */
  UMBO_EQUIVALENCE_NOT_WRITTEN = 2,
  /** The callback fails for another split of the batch, for instance with empty parts. */
  UMBO_EQUIVALENCE_CALLBACK_FAILED = 3,
  /** A replica does not submit its gradients. */
  UMBO_EQUIVALENCE_NOT_SUBMITTED = 4,
  /** The weights are not in proportion to the examples. */
  UMBO_EQUIVALENCE_WRONG_WEIGHT = 5,
  /**
   * A buffer that was viewed with UMBO_GRADIENT_OVERWRITE is not written in full, or is added to.
   */
  UMBO_EQUIVALENCE_NOT_OVERWRITTEN = 6,
  /** A number is infinite or NaN. */
  UMBO_EQUIVALENCE_NOT_FINITE = 7,
  /** Two runs with the same parts of the batch differ. */
  UMBO_EQUIVALENCE_NOT_REPEATABLE = 8,
  /** The callback does not reduce over its examples in the way that was declared. */
  UMBO_EQUIVALENCE_WRONG_REDUCTION = 9,
  /** Each replica contributes the gradient of the whole batch. */
  UMBO_EQUIVALENCE_WHOLE_BATCH = 10,
  /** Replicas that have different examples contribute the very same gradient. */
  UMBO_EQUIVALENCE_SAME_EXAMPLES = 11,
  /** Only some of the replicas that have examples write the gradient. */
  UMBO_EQUIVALENCE_PARTLY_WRITTEN = 12,
  /**
   * Each replica adds a term that does not come from an example, such as weight decay. Such a term
   * belongs to the optimizer.
   */
  UMBO_EQUIVALENCE_TERM_PER_REPLICA = 13,
  /** Different, and the numbers do not show why. The text lists likely causes. */
  UMBO_EQUIVALENCE_DIFFERENT = 14,
  /**
   * The callback writes a variable, or a copy of it on a device or in another dtype, through a
   * view, which is for reading. The check restores the value. Gradients and metrics that differ for
   * that reason have this verdict too.
   */
  UMBO_EQUIVALENCE_VARIABLE_WRITTEN = 15,
  /**
   * The same for every split of the batch, but different for a smaller batch: the callback uses
   * statistics of the whole batch, or uses the batch's size for more than the mean. Does not count
   * against the equivalence.
   */
  UMBO_EQUIVALENCE_SIZE_DEPENDENT = 16
};

/** When two numbers count as the same. Start from UMBO_EQUIVALENCE_OPTIONS_INIT. */
typedef struct umbo_equivalence_options {
  size_t struct_size;
  /**
   * The largest allowed difference, as a fraction of the terms that are added up to a gradient.
   * 0 or more; 0: the same bits. UMBO_AUTO, the default: as much as a sum over the
   * batch in the gradients' dtype can change when it is added in another order. That is 0.0001
   * to 0.01 for float32, more for larger batches; 0.012 for float16; and 0.026 for bfloat16.
   */
  double relative_tolerance;
  /** A difference up to this never counts. 0 or more; by default 0. */
  double absolute_tolerance;
} umbo_equivalence_options;

#define UMBO_EQUIVALENCE_OPTIONS_INIT { sizeof(umbo_equivalence_options), UMBO_AUTO, 0.0 }
UMBO_DEFAULT(umbo_equivalence_options, UMBO_EQUIVALENCE_OPTIONS_INIT)

/**
 * One finding of a check. Start from UMBO_EQUIVALENCE_FINDING_INIT.
 *
 * The texts live as long as the umbo_equivalence.
 */
typedef struct umbo_equivalence_finding {
  size_t struct_size;
  /** What the finding is about. */
  umbo_equivalence_subject subject;
  /** UMBO_EQUIVALENCE_EQUAL, or what is wrong. */
  umbo_equivalence_verdict verdict;
  /**
   * The place of the variable among the gradients. -1 if the finding is not about a variable, or
   * if the variable is not among them.
   */
  int64_t variable;
  /**
   * The element of the gradient or variable that `text` mentions, in row-major order; -1 if
   * none.
   */
  int64_t element;
  /**
   * By which factor the gradient is wrong on all replicas: more than 1 if it is too large, less
   * than 1 if it is too small. 0 if no single factor describes it.
   */
  double factor;
  /** The largest difference between two splits, as a fraction of the largest element. */
  double difference;
  /** The name of the variable or metric; NULL if the finding is about the step. */
  const char *name;
  /** What was found, and what to do about it. */
  const char *text;
} umbo_equivalence_finding;

#define UMBO_EQUIVALENCE_FINDING_INIT \
  { sizeof(umbo_equivalence_finding), UMBO_ENUM_VALUE(umbo_equivalence_subject, 0), \
    UMBO_ENUM_VALUE(umbo_equivalence_verdict, 0), 0, 0, 0.0, 0.0, NULL, NULL }
UMBO_DEFAULT(umbo_equivalence_finding, UMBO_EQUIVALENCE_FINDING_INIT)

/**
 * Checks that a step does the same on one replica as on all.
 *
 * @param[in] function The step's callback, as for umbo_strategy_run().
 * @param[in] user_data Passed to `function` unchanged; may be anything.
 * @param[in] batch A global batch that is not distributed yet: a tensor, or a tuple, list or struct
 *   of tensors, with 3 examples or more along dimension 0.
 * @param[in] gradients The gradients that the callback writes. `gradients` may be NULL: only
 *   metrics are compared.
 * @param[in] options The tolerances; `options` may be NULL: all defaults.
 * @param[out] equivalence What was found. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a batch that cannot be split or has too few examples, gradients
 *   of another strategy, or a tolerance that is out of range.
 * - UMBO_STATUS_FAILED_PRECONDITION: the call comes from a replica's callback, a merge call or
 *   another strategy's scope; or the strategy is draining.
 * - what umbo_strategy_run() returns, if the callback fails on the batch in its usual split.
 *
 * A mistake in the callback is not a failure of this function. It is reported in `*equivalence`:
 * ask umbo_equivalence_holds() and umbo_equivalence_text(). The check is for tests, and for the
 * first step of a new trainer.
 *
 * *How it works.* The check splits the batch over the replicas as
 * umbo_strategy_distribute_dataset() does, and runs the callback. It compares the results with
 * those of other splits: all examples on replica 0, as with one replica; two parts of different
 * sizes; and a smaller batch. The callback runs 6 times on each replica, and up to 22 times if
 * something differs. The buffers of `gradients` that it views with UMBO_GRADIENT_OVERWRITE contain
 * 0 in some runs and NaN in others, which shows whether it writes all of them. The check waits for
 * its turn as a run does. Runs of other threads may happen in between; they are not affected.
 *
 * *What it finds.*
 * - Gradients that are not reduced over the examples as `loss_reduction` declares, or that are
 *   divided by a fixed number.
 * - Weights that are not in proportion to the examples.
 * - Buffers that are not overwritten in full.
 * - Replicas that read the whole batch, or all read the same rows.
 * - Replicas without examples that do not submit, or fail.
 * - Regularisers that are added once for each replica.
 * - Results that are not repeatable, on one replica or only on several.
 * - Metrics with wrong sums or weights, of umbo_replica_context_add_metric() and of every
 *   umbo_metrics that the callback adds to. Means and accuracies are compared as quotients, sums
 *   and counts as numbers, confusion matrices and AUCs cell by cell.
 *
 * Some results depend on the split by design, such as the statistics of batch normalisation. Of
 * these the check can only tell that they do. With one replica there are no splits to compare, so
 * it finds only what a single run shows.
 *
 * *What it leaves.* Nothing is committed. The strategy's variables, `gradients` with what they
 * have accumulated, optimizers and metrics are as they were before. An umbo_optimizer_apply() in
 * the callback has no effect. What the callback changes in memory of its own stays changed. If the
 * callback writes other gradients than `gradients`, the check affects these as a run that fails:
 * what an earlier run has contributed to them, and was not applied yet, is lost, and the apply
 * fails. So pass the gradients that the callback writes, or apply before the check.
 *
 * *Memory.* The check keeps copies of all gradients in float64: two for each replica and five
 * more, and another two once something differs. The copies of a row-sparse gradient are as large
 * as the whole table, however few rows are added; for a large table that is many times the memory
 * of its variable. Contributions that wait for an apply are copied once more, in their own dtype;
 * of row-sparse ones only the rows.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. Each gives a batch of its own, of as
 * many examples.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_check_equivalence(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, const umbo_value *batch,
    umbo_gradients *gradients, const umbo_equivalence_options *options,
    umbo_equivalence **equivalence);

/**
 * Tells whether the step does the same on one replica as on all.
 *
 * @param[in] equivalence What the check found.
 * @param[out] holds 1 if the update and the metrics are the same, else 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_holds(
    const umbo_equivalence *equivalence, int32_t *holds);

/**
 * Gives all findings as text.
 *
 * @param[in] equivalence What the check found.
 * @param[out] text A line that says whether the equivalence holds and for which parts of the
 *   batch, then a line for each finding that is not UMBO_EQUIVALENCE_EQUAL. Lives as long as
 *   `equivalence`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_text(
    const umbo_equivalence *equivalence, const char **text);

/**
 * Tells how many findings there are.
 *
 * @param[in] equivalence What the check found.
 * @param[out] count Their number.
 *
 * First come the findings about the step as a whole, if something is wrong with it. Then there is
 * one for each gradient and each metric, also if it is UMBO_EQUIVALENCE_EQUAL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_count(
    const umbo_equivalence *equivalence, int64_t *count);

/**
 * Gives one finding.
 *
 * @param[in] equivalence What the check found.
 * @param[in] index The finding's place: 0 to the number of findings less one.
 * @param[out] finding The finding. Start from UMBO_EQUIVALENCE_FINDING_INIT, which sets its size.
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such finding.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_at(
    const umbo_equivalence *equivalence, int64_t index, umbo_equivalence_finding *finding);

/** Makes another handle to the same equivalence: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_equivalence_retain(
    const umbo_equivalence *equivalence, umbo_equivalence **retained) {
  return umbo_retain(equivalence, UMBO_HANDLE_EQUIVALENCE, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * When the last handle is released, the texts that were taken from it end.
 */
static inline void umbo_equivalence_release(const umbo_equivalence *equivalence) {
  umbo_release(equivalence, UMBO_HANDLE_EQUIVALENCE);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

/* Generated from src/ffi; do not edit. */
#ifndef UMBO_EQUIVALENCE_H
#define UMBO_EQUIVALENCE_H

/**
 * @file equivalence.h
 * @brief Whether a training step does the same on one replica as on many, and what it gets wrong if
 * not.
 *
 * The check runs a step on one batch, split in several ways, and commits nothing. The caller
 * releases what it finds.
 *
 * Threads: umbo_strategy_check_equivalence() is *serialised* with the strategy's steps. Functions
 * that ask what was found are *concurrent*.
 *
 * Functions:
 * - umbo_strategy_check_equivalence(): Finds out whether a step means the same on one replica and
 *   on all, and if not, why.
 * - umbo_equivalence_holds(): Whether an update and the metrics are the same on one replica and on
 *   all: 1 or 0.
 * - umbo_equivalence_text(): All that was found as text: a line that says whether the equivalence
 *   holds and for which parts of the batch, then one for each finding that is not
 *   UMBO_EQUIVALENCE_EQUAL.
 * - umbo_equivalence_count(): How many findings there are: what is wrong with the step as a whole,
 *   then one for each gradient and each metric, also if it is the same.
 * - umbo_equivalence_at(): The finding at `index`.
 * - umbo_equivalence_retain(): Another handle to the same object, to be released like the first;
 *   also of what a callback was only lent, which then stays.
 * - umbo_equivalence_release(): Releases a reference.
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


/** What sums in another order differ by in the gradients' dtype. */
#define UMBO_TOLERANCE_OF_DTYPE (-1.0)

/** When two numbers count as the same. Start from UMBO_EQUIVALENCE_OPTIONS_INIT. */
typedef struct umbo_equivalence_options {
  /** sizeof(umbo_equivalence_options). */
  size_t struct_size;
  /**
   * The largest difference, as a fraction of the terms that a gradient is the sum of; 0: the same
   * bits. UMBO_TOLERANCE_OF_DTYPE, the default: what a sum over the batch may differ by in the
   * gradients' dtype when it is added in another order: 0.0001 to 0.01 for float32, as the batch
   * grows, 0.012 for float16, 0.026 for bfloat16.
   */
  double relative_tolerance;
  /** A difference that never counts. */
  double absolute_tolerance;
} umbo_equivalence_options;

/** The starting value of a umbo_equivalence_options. */
#define UMBO_EQUIVALENCE_OPTIONS_INIT \
  { sizeof(umbo_equivalence_options), UMBO_TOLERANCE_OF_DTYPE, 0.0 }

/** UMBO_EQUIVALENCE_OPTIONS_INIT, to be assigned. */
static inline umbo_equivalence_options umbo_equivalence_options_default(void) {
  umbo_equivalence_options value = UMBO_EQUIVALENCE_OPTIONS_INIT;
  return value;
}

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

/** What a check has found. */
UMBO_ENUM(umbo_equivalence_verdict) {
  /** The same, however the batch is split. */
  UMBO_EQUIVALENCE_EQUAL = 1,
  /**
   * No replica writes the gradient, so the variable would not be updated. Does not count against
   * the equivalence.
   */
  UMBO_EQUIVALENCE_NOT_WRITTEN = 2,
  /** The callback fails when the batch is split in another way, with empty parts for instance. */
  UMBO_EQUIVALENCE_CALLBACK_FAILED = 3,
  /** A replica does not submit its gradients. */
  UMBO_EQUIVALENCE_NOT_SUBMITTED = 4,
  /** Weights do not follow the examples. */
  UMBO_EQUIVALENCE_WRONG_WEIGHT = 5,
  /**
   * A buffer that was viewed with UMBO_GRADIENT_OVERWRITE is not written in full, or is added to.
   */
  UMBO_EQUIVALENCE_NOT_OVERWRITTEN = 6,
  /** Infinite or NaN. */
  UMBO_EQUIVALENCE_NOT_FINITE = 7,
  /** Two runs with the same parts differ. */
  UMBO_EQUIVALENCE_NOT_REPEATABLE = 8,
  /** The callback reduces over its examples in another way than was declared. */
  UMBO_EQUIVALENCE_WRONG_REDUCTION = 9,
  /** Each replica contributes the gradient of the whole batch. */
  UMBO_EQUIVALENCE_WHOLE_BATCH = 10,
  /** Replicas with different examples contribute the very same. */
  UMBO_EQUIVALENCE_SAME_EXAMPLES = 11,
  /** Only some of the replicas that have examples write the gradient. */
  UMBO_EQUIVALENCE_PARTLY_WRITTEN = 12,
  /**
   * Each replica adds a term that is no example's, such as weight decay: that belongs to the
   * optimizer.
   */
  UMBO_EQUIVALENCE_TERM_PER_REPLICA = 13,
  /** Different, for a reason that the numbers do not tell; the text lists what is likely. */
  UMBO_EQUIVALENCE_DIFFERENT = 14,
  /**
   * The callback writes a variable through a view of it, which is for reading. The check puts the
   * value back.
   */
  UMBO_EQUIVALENCE_VARIABLE_WRITTEN = 15,
  /**
   * The same however a batch is split, but other for a smaller batch: the callback uses statistics
   * of the whole batch, or its size for more than the mean. Does not count against the equivalence.
   */
  UMBO_EQUIVALENCE_SIZE_DEPENDENT = 16
};

/**
 * One thing that was found. Start from UMBO_EQUIVALENCE_FINDING_INIT. The texts live as long as
 * the umbo_equivalence.
 */
typedef struct umbo_equivalence_finding {
  /** sizeof(umbo_equivalence_finding). */
  size_t struct_size;
  /**
   * UMBO_EQUIVALENCE_OF_STEP, UMBO_EQUIVALENCE_OF_GRADIENT, UMBO_EQUIVALENCE_OF_METRIC or
   * UMBO_EQUIVALENCE_OF_VARIABLE.
   */
  umbo_equivalence_subject subject;
  /** UMBO_EQUIVALENCE_EQUAL, or what is wrong. */
  umbo_equivalence_verdict verdict;
  /**
   * The place of the variable among the gradients; -1 if it is about none, or has no place there.
   */
  int64_t variable;
  /**
   * The element of the gradient or variable, in row-major order, that `text` speaks of; -1 if none.
   */
  int64_t element;
  /**
   * How many times too large the gradient is on all replicas, less than 1 if it is too small; 0 if
   * no single number says it.
   */
  double factor;
  /** The largest difference that the split makes, as a fraction of the largest element. */
  double difference;
  /** The name of the variable or metric; NULL if it is about the step. */
  const char *name;
  /** What was found and what to do about it. */
  const char *text;
} umbo_equivalence_finding;

/** The starting value of a umbo_equivalence_finding. */
#define UMBO_EQUIVALENCE_FINDING_INIT \
  { sizeof(umbo_equivalence_finding), UMBO_ENUM_VALUE(umbo_equivalence_subject, 0), \
  UMBO_ENUM_VALUE(umbo_equivalence_verdict, 0), 0, 0, 0.0, 0.0, NULL, NULL }

/** UMBO_EQUIVALENCE_FINDING_INIT, to be assigned. */
static inline umbo_equivalence_finding umbo_equivalence_finding_default(void) {
  umbo_equivalence_finding value = UMBO_EQUIVALENCE_FINDING_INIT;
  return value;
}

/**
 * Finds out whether a step means the same on one replica and on all, and if not, why. For tests and
 * for the first step of a new trainer.
 *
 * `function` and `user_data` are what umbo_strategy_run() is given. `batch` is a global batch, not
 * distributed yet: a tensor, or a tuple or struct of tensors, with 3 examples or more along
 * dimension 0. The check splits it over the replicas as umbo_strategy_distribute_dataset() does,
 * runs the callback, and compares with other splits: all examples on replica 0, which is what one
 * replica would do, two parts of different sizes, and a smaller batch. `gradients` are the ones
 * that the callback writes, or NULL: then only metrics are compared. `options` may be NULL.
 *
 * Nothing is committed. Variables of the strategy, `gradients` with what they may have
 * accumulated, optimizers and metrics are as they were; an umbo_optimizer_apply() in the callback
 * does not take place. What the callback changes in the caller's own memory stays changed. Other
 * gradients than `gradients` that the callback writes, also where that is NULL, are as after a run
 * that failed: what an earlier run has contributed to them, and no umbo_optimizer_apply() has used
 * yet, is lost, and that apply fails. Give those gradients, or apply before the check.
 *
 * The callback runs 6 times on each replica, up to 22 times if something differs, and finds 0 or
 * NaN in buffers of `gradients` that it views with UMBO_GRADIENT_OVERWRITE, which shows whether it
 * writes all of them. The check waits for its turn as a run does; runs of other threads may come in
 * between, and notice nothing.
 *
 * The check keeps copies of all gradients in float64: two for each replica and five more, and
 * another two once something differs. Row-sparse gradients count with their whole table in each of
 * them, however few rows are added: for a large table that is many times the memory of its
 * variable. Of contributions that wait for an apply it keeps one copy more, but for rows, in their
 * own dtype.
 *
 * What is found: gradients that are reduced over the examples in another way than
 * `loss_reduction` declares, or divided by a fixed number; weights that do not follow the examples;
 * buffers that are not overwritten in full; replicas that read the whole batch, or all the same
 * rows; that do not submit, or fail, without examples; regularisers that count once a replica;
 * results that are not repeatable, on one replica or only on several; and metrics that are added
 * with wrong sums or weights. Of what depends on the split by design, such as the statistics of
 * batch normalisation, the check can only say that it does. With one replica there is nothing to
 * compare, and only what one run shows is found.
 *
 * What the callback gets wrong is no failure of this function, but in `*equivalence`, a new handle;
 * see umbo_equivalence_holds() and umbo_equivalence_text().
 *
 * INVALID_ARGUMENT: a batch that cannot be split, gradients of another strategy, tolerances below
 * 0. FAILED_PRECONDITION: in a replica's callback, in a merge call, in another strategy's scope,
 * and while the strategy is draining. RESOURCE_EXHAUSTED: no memory for the copies. If the callback
 * fails on the batch as it is usually split, its status, as from umbo_strategy_run().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_check_equivalence(
    umbo_strategy *strategy, umbo_replica_fn function, void *user_data, const umbo_value *batch,
    umbo_gradients *gradients, const umbo_equivalence_options *options,
    umbo_equivalence **equivalence);

/** Whether an update and the metrics are the same on one replica and on all: 1 or 0. */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_holds(
    const umbo_equivalence *equivalence, int32_t *holds);

/**
 * All that was found as text: a line that says whether the equivalence holds and for which parts of
 * the batch, then one for each finding that is not UMBO_EQUIVALENCE_EQUAL. Lives as long as
 * `equivalence`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_text(
    const umbo_equivalence *equivalence, const char **text);

/**
 * How many findings there are: what is wrong with the step as a whole, then one for each gradient
 * and each metric, also if it is the same.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_count(
    const umbo_equivalence *equivalence, int64_t *count);

/** The finding at `index`. OUT_OF_RANGE if there is none. */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_at(
    const umbo_equivalence *equivalence, int64_t index, umbo_equivalence_finding *finding);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_equivalence_retain(
    const umbo_equivalence *equivalence, umbo_equivalence **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_equivalence_release(const umbo_equivalence *equivalence);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

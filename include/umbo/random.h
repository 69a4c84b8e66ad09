/* Generated from src; do not edit. */
#ifndef UMBO_RANDOM_H
#define UMBO_RANDOM_H

/**
 * @file random.h
 * @brief Random numbers for callbacks, which do not depend on the number of replicas.
 *
 * The numbers of an example follow from a key alone: a seed, a stream, the step and the number of
 * the example in its batch. They are the same for any way in which the batch is split, after a
 * training was resumed, and on every machine. An example's first numbers do not depend on how many
 * are drawn for it. The generator is ChaCha with 8 rounds, as for the initial values of variables.
 *
 * Threads: all functions are *concurrent*. They fill host memory.
 *
 * Example:
 * ```c
 * // Dropout: sets a tenth of the activations to 0, and scales the others up to keep their mean.
 * static umbo_status drop_out(umbo_replica_context *ctx, int64_t rows, int64_t width,
 *                             float *activations) {
 *   umbo_random_key key = UMBO_RANDOM_KEY_INIT;
 *   void *mask;
 *   UMBO_TRY(umbo_replica_context_scratch(ctx, sizeof(float) * (size_t)(rows * width), &mask));
 *   UMBO_TRY(umbo_replica_context_random_key(ctx, 42, 0, &key));
 *   UMBO_TRY(umbo_random_bernoulli(&key, 0.9, 1 / 0.9, rows, width, UMBO_DTYPE_FLOAT32, mask));
 *   for (int64_t at = 0; at < rows * width; at++) activations[at] *= ((float *)mask)[at];
 *   return UMBO_OK;
 * }
 * ```
 */

#include <umbo/replica_context.h>
#include <umbo/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The key from which random numbers follow. umbo_replica_context_random_key() fills it. */
typedef struct umbo_random_key {
  size_t struct_size;
  /** The seed of the training. */
  uint64_t seed;
  /** The number of one use within a step: another one for each layer, or purpose. */
  uint64_t stream;
  /**
   * The number of the step: each run of the strategy is one, also one that only evaluates, but
   * not those of umbo_trainer_evaluate().
   */
  int64_t step;
  /** The number of the first example in the global batch. */
  int64_t first_example;
} umbo_random_key;

#define UMBO_RANDOM_KEY_INIT { UMBO_STRUCT_SIZE(umbo_random_key), 0, 0, 0, 0 }

/**
 * Gets the key of the examples that this replica has in this step.
 *
 * @return UMBO_STATUS_FAILED_PRECONDITION: there are several replicas, and the run's arguments
 *   have no per-replica value, so that `first_example` is not known: fill in a key by hand.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_replica_context_random_key(
    const umbo_replica_context *ctx, uint64_t seed, uint64_t stream, umbo_random_key *key);

/**
 * Draws uniform numbers from 0 to 1, without 1 itself.
 *
 * @param[in] example_count The number of examples, from `key->first_example` on.
 * @param[in] count The count of numbers for each example.
 * @param[in] dtype UMBO_DTYPE_FLOAT32, for 24 random bits, or UMBO_DTYPE_FLOAT64, for 53.
 * @param[out] numbers Host memory for `example_count` rows of `count` numbers. `numbers` may be
 *   NULL if there are none.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_random_uniform(
    const umbo_random_key *key, int64_t example_count, int64_t count, umbo_dtype dtype,
    void *numbers);

/**
 * Draws standard normal numbers: of mean 0 and variance 1.
 *
 * @param[out] numbers As for umbo_random_uniform(), and so are all other arguments.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_random_normal(
    const umbo_random_key *key, int64_t example_count, int64_t count, umbo_dtype dtype,
    void *numbers);

/**
 * Draws `value` with a probability, else 0. A dropout of rate p has the probability 1 - p and the
 * value 1 / (1 - p).
 *
 * @param[in] probability From 0 to 1. It is kept to 32 binary digits.
 * @param[in] value Finite.
 * @param[out] numbers As for umbo_random_uniform(), and so are all other arguments.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_random_bernoulli(
    const umbo_random_key *key, double probability, double value, int64_t example_count,
    int64_t count, umbo_dtype dtype, void *numbers);

/**
 * Draws integers from 0 to `bound` less one, all with the same probability.
 *
 * @param[in] bound 1 or more.
 * @param[out] numbers As for umbo_random_uniform(), and so are all other arguments.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_random_integers(
    const umbo_random_key *key, int64_t bound, int64_t example_count, int64_t count,
    int64_t *numbers);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

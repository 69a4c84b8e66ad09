/* Generated from src; do not edit. */
#ifndef UMBO_UMBO_H
#define UMBO_UMBO_H

/**
 * @file umbo.h
 * @brief Umbo: data-parallel training for C and C++, with one copy of the weights.
 *
 * Example:
 * ```c
 * typedef struct {
 *   umbo_variable *line;
 *   umbo_gradients *gradients;
 * } model;
 *
 * // Runs on all replicas at the same time, on each with its own rows of the batch.
 * static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data,
 *                         umbo_value **result) {
 *   const model *m = (const model *)user_data;
 *   umbo_view rows, line, gradient;
 *   (void)result;
 *   UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
 *   UMBO_TRY(umbo_variable_view(m->line, ctx, UMBO_DTYPE_FLOAT32, &line));
 *   UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient));
 *   // Your mathematics: reads rows.data and line.data, adds to gradient.mutable_data.
 *   return umbo_gradients_submit(m->gradients, ctx);
 * }
 *
 * static umbo_status train(umbo_strategy *strategy, umbo_iterator *batches,
 *                          umbo_optimizer *optimizer, model *m) {
 *   return umbo_train_epoch(strategy, batches, optimizer, m->gradients, step, m, NULL, NULL);
 * }
 * ```
 *
 * What to call, by task; core.h has the rules of all functions:
 * - Set up: umbo_strategy_create_cpu(), umbo_variable_create_drawn(), umbo_gradients_create(),
 *   umbo_optimizer_create_adamw() and other rules, umbo_optimizer_configure().
 * - Data: umbo_dataset_from_arrays(), umbo_dataset_from_generator(), umbo_dataset_shuffle(),
 *   umbo_dataset_batch(), umbo_dataset_map(), umbo_strategy_iterate();
 *   umbo_strategy_split_arrays() for a batch that is there.
 * - Train: umbo_train_epoch(), or its parts: umbo_iterator_next(), umbo_strategy_run(),
 *   umbo_optimizer_apply().
 * - In a step: umbo_value_view(), umbo_variable_view(), umbo_gradients_view(),
 *   umbo_gradients_submit(), umbo_replica_context_add_metric(), umbo_replica_context_scratch().
 * - Random numbers in a step: umbo_replica_context_random_key(), umbo_random_bernoulli().
 * - Replicas meet: umbo_replica_context_all_reduce(), umbo_replica_context_merge_call().
 * - Values: umbo_strategy_reduce(), umbo_strategy_gather(), umbo_strategy_metric_result(),
 *   umbo_variable_download(), umbo_metrics_result().
 * - Stop: umbo_run_options.timeout_seconds, umbo_cancellation_cancel().
 * - Check: umbo_strategy_check_equivalence(); umbo_last_error_message().
 *
 * Included by name: trainer.h (all of it made together, for weights that are arrays of floats),
 * io.h (files and checkpoints), cluster.h (several processes), diagnose.h (what time goes to),
 * expert.h (update rules of the program, other libraries' tensors, sparse values, scopes, rarer
 * datasets), dlpack.h, tensorflow.h (for programs that follow TensorFlow's strategy call by call),
 * gpu.h (experimental), all.h (all of them). C++ programs include umbo.hpp.
 */

#include <umbo/core.h>
#include <umbo/device.h>
#include <umbo/tensor.h>
#include <umbo/value.h>
#include <umbo/strategy.h>
#include <umbo/replica_context.h>
#include <umbo/random.h>
#include <umbo/collective.h>
#include <umbo/variable.h>
#include <umbo/dataset.h>
#include <umbo/gradients.h>
#include <umbo/optimizer.h>
#include <umbo/metrics.h>
#include <umbo/training.h>
#include <umbo/equivalence.h>

#endif

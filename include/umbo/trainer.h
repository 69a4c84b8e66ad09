/* Generated from src; do not edit. */
#ifndef UMBO_TRAINER_H
#define UMBO_TRAINER_H

/**
 * @file trainer.h
 * @brief A trainer, for weights that are arrays of floats, and data that are rows with numbers.
 *
 * It is a strategy, variables over the arrays, gradients, an optimizer and a checkpoint, each of
 * which a program can get when it outgrows the trainer.
 *
 * Threads: functions on one trainer are *serialised*; those that get something are *concurrent*.
 *
 * Example:
 * ```c
 * // A slope through points. umbo_trainer_epoch(trainer, count, 32, learn, points, &loss) calls it.
 * static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient,
 *                          void *user_data, double *loss) {
 *   for (int64_t i = 0; i < rows->count; ++i) {
 *     const float *point = (const float *)user_data + 2 * rows->indices[i];
 *     const float error = weights[0] * point[0] - point[1];
 *     *loss += error * error / 2;
 *     if (gradient != NULL) gradient[0] += error * point[0];
 *   }
 *   return UMBO_OK;
 * }
 * ```
 */

#include <string.h>

#include <umbo/umbo.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A row of an array that a call has asked for: a place in a umbo_row_places. */
typedef struct umbo_row_place {
  /** The number of the row. */
  int64_t row;
  /** The memory to which its gradient is added. NULL: no row is here. */
  float *gradient;
} umbo_row_place;

/**
 * The rows of an array that a call has asked for, in which umbo_rows_gradient_row() finds one:
 * from the place `row * multiplier >> shift` on, the place 0 following the last, before the first
 * one without a row. The layout stays the same in later versions.
 */
typedef struct umbo_row_places {
  /** `call` of the umbo_rows that they are for, if there are places. */
  uint64_t call;
  /** The places, one of which at least has no row. */
  const umbo_row_place *places;
  /** See above. */
  uint64_t multiplier;
  /** See above. */
  uint64_t shift;
  /** How many places there are, less one. */
  uint64_t mask;
} umbo_row_places;

/**
 * The rows of a batch that a replica has. Valid for the call that gets it, on its thread. Later
 * versions may append fields.
 */
typedef struct umbo_rows {
  size_t struct_size;
  /** How many rows there are, 1 or more. */
  int64_t count;
  /** Their numbers. */
  const int64_t *indices;
  /** 1: gradients are wanted. 0: in umbo_trainer_evaluate(). */
  int32_t training;
  /**
   * The local id of the replica: 0 to `replica_count` of umbo_trainer_info less one, which with
   * `replicas_in_sync` is more than `replicas`. No two calls have the same at a time.
   */
  int32_t replica_id;
  /**
   * How many threads of its own the function may use: the replica's share of the processors, for
   * an engine or a loop with OpenMP. Always 1 with `replicas_in_sync`, since a sum by another
   * number of threads is rounded otherwise.
   */
  int64_t thread_count;
  /**
   * The replica's context, for all functions that take one: umbo_replica_context_random_key()
   * for random numbers that do not depend on the number of replicas,
   * umbo_replica_context_add_metric(), umbo_replica_context_scratch().
   */
  umbo_replica_context *context;
  /** How many arrays the trainer has. */
  int64_t array_count;
  /**
   * The arrays, for reading: the `weights` of the parameters themselves, so that code that reads
   * the program's arrays by their own names reads the same. NULL for those of bfloat16
   * (`half_weights`).
   */
  const float *const *weights;
  /**
   * For each array where this replica adds its gradient: as long as the array, and zero at
   * first. NULL for arrays with a `row_length` (umbo_rows_gradient_row()) or whose gradients
   * have 16 bits (`half_gradients`), and for all if `training` is 0.
   */
  float *const *gradients;
  /** The number of this call, for the library. */
  uint64_t call;
  /**
   * For each array the rows that this call has asked for, which umbo_rows_gradient_row() reads.
   * NULL if `training` is 0.
   */
  const umbo_row_places *places;
  /**
   * In place of `gradients`, if the `gradient_dtype` of the trainer is UMBO_DTYPE_FLOAT16 or
   * UMBO_DTYPE_BFLOAT16: numbers of that type. NULL for arrays whose gradients are float32, and
   * instead of this if all are.
   */
  void *const *half_gradients;
  /**
   * The arrays that the parameters have as `half_weights`, bfloat16, for reading. NULL for the
   * others, and instead of this if there are none.
   */
  const uint16_t *const *half_weights;
} umbo_rows;

/**
 * Learns from the rows of a batch that a replica has: what the body of a loop over rows does.
 * Called on all replicas at the same time, each with rows of its own.
 *
 * @param[in] rows The rows.
 * @param[in] weights The first array, for reading: `rows->weights[0]`.
 * @param[out] gradient Where the gradients of the rows are added: `rows->gradients[0]`. NULL in
 *   umbo_trainer_evaluate(), if the first array has a `row_length`, and if gradients have 16 bits.
 * @param[in] user_data The same on all replicas: nothing there is written that they share.
 * @param[out] loss The sum of the losses of the rows; 0 at first. With `loss_reduction`
 *   UMBO_LOSS_MEAN their mean, as the gradients are then that of the mean.
 * @return Any status but UMBO_OK fails the step, which then changes nothing.
 */
typedef umbo_status (*umbo_learn_fn)(
    const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss);

/**
 * For umbo_rows_gradient_row() alone, which calls it for a row that is new in this call, and for
 * an error.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_rows_new_gradient_row(
    const umbo_rows *rows, int64_t array, int64_t row, float **gradient);

/**
 * Makes the rows of this call count by a weight other than their number: the words of sentences,
 * the steps of games. The update divides by the weights of all replicas, and so does the loss.
 *
 * @param[in] rows What the function that calls got.
 * @param[in] weight Finite and 0 or more. With 0 what the call has added is left out; if all
 *   weights of a step are 0, it changes no array, and its loss is NaN.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the weight is negative or not finite.
 *   UMBO_STATUS_FAILED_PRECONDITION: not in the call that got `rows`, or on another thread.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_rows_weigh(const umbo_rows *rows, double weight);

/**
 * Gets where this replica adds the gradient of a row of an array with a `row_length`.
 *
 * @param[in] rows What the function that calls got.
 * @param[in] array The index of the array.
 * @param[in] row The number of the row in the array.
 * @param[out] gradient `row_length` numbers: zero when the call asks for the row first, and then
 *   what it has added. They stay there until the function returns.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: no such array or row.
 * - UMBO_STATUS_INVALID_ARGUMENT: an array without a `row_length`.
 * - UMBO_STATUS_FAILED_PRECONDITION: not in the call that got `rows`, or `training` is 0. On
 *   a thread other than that of the call, if the call has not asked for the row.
 *
 * The update is *lazy*: it changes only rows that a replica has asked for, and the state of the
 * optimizer for them. Allocates nothing if two earlier steps had as many rows. A row that the call
 * has asked for costs some instructions, and a new one as many as filling it with zeros.
 */
UMBO_MUST_USE static inline umbo_status umbo_rows_gradient_row(
    const umbo_rows *rows, int64_t array, int64_t row, float **gradient);

/**
 * An array of the program that is trained. What is not given is 0: `{.weights = w, .count = n}` is
 * an array with all defaults. The size of the struct stays the same in later versions.
 */
typedef struct umbo_parameters {
  /**
   * The array, float32 in host memory, which stays where it is: the program reads it whenever no
   * call of the trainer is in progress. NULL if there are `half_weights`.
   */
  float *weights;
  /** How many numbers it has, 1 or more. */
  int64_t count;
  /**
   * Its name in messages and checkpoints. NULL: "weights", or among several "weights_0" and so
   * on, by its index.
   */
  const char *name;
  /**
   * How many numbers a row has, if replicas add to the gradients of few rows, as of an embedding
   * table (umbo_rows_gradient_row()). Not with LAMB or LARS. 0: gradients are as long as
   * the array.
   */
  int64_t row_length;
  /** The factor of the learning rate, more than 0. 0: 1. */
  double learning_rate_factor;
  /** 1: no weight decay, as is usual for biases and normalisation. */
  int32_t no_weight_decay;
  /** 1: it is not updated. */
  int32_t frozen;
  /**
   * In place of `weights`, an array of bfloat16, whose new numbers are rounded
   * (`stochastic_rounding` of the options). `learn` gets it as `half_weights`, and adds to
   * `half_gradients`, of bfloat16 unless `gradient_dtype` names another type. It has no
   * `row_length`. NULL: none.
   */
  uint16_t *half_weights;
  /** Zeros. */
  int64_t reserved[3];
} umbo_parameters;

/** The options of a trainer. */
typedef struct umbo_trainer_options {
  size_t struct_size;
  /**
   * The update rule with the defaults of its options: "sgd", "momentum", "nesterov", "adam",
   * "adamw", "nadam", "radam", "lion", "lamb", "lars", "adafactor", "adagrad", "rmsprop" or
   * "ftrl". NULL: "sgd". Other values of its options, such as betas, take an `optimizer`.
   */
  const char *rule;
  /** Finite and 0 or more. UMBO_AUTO: the default of the rule. */
  double learning_rate;
  /** How the learning rate falls to 0: "linear" or "cosine". NULL: it stays. */
  const char *schedule;
  /**
   * The number of updates of the whole training, after which a `schedule` has let the rate fall
   * to 0; without one, 0. An epoch has ceil(ceil(row_count / batch_size) / accumulation_steps)
   * updates.
   */
  int64_t schedule_updates;
  /** The updates at the beginning in which the learning rate rises to its full value. */
  int64_t warmup_updates;
  /** As in umbo_optimizer_options. */
  double weight_decay;
  /** As in umbo_optimizer_options. */
  double global_clip_norm;
  /** How many steps make one update; 1 or more. */
  int64_t accumulation_steps;
  /**
   * Whether `learn` sums over its rows, takes the mean, or divides by the rows of the batch.
   * With UMBO_LOSS_GLOBAL_MEAN the library divides nothing: for a `learn` that divides by
   * itself, or an update by the sum of the gradients, and the loss is a sum, too.
   */
  umbo_loss_reduction loss_reduction;
  /**
   * The number of replicas, each on a processor. 0: one for each processor of this process, or
   * `replicas_in_sync` if that is less. If the first steps show that one would be faster, the
   * log says so. UMBO_AUTO: as 0 at first. Steps are measured, and as long as fewer replicas
   * are faster the next smaller divisor is tried, with `thread_count` of umbo_rows for
   * each; the fastest number stays. A handle to one of the trainer's parts ends this. With
   * `replicas_in_sync` it changes no bit of the result.
   */
  int64_t replicas;
  /**
   * The number of parts into which each batch is split, whatever the number of processors:
   * results are bit-identical on any number of them. 0: one for each replica.
   */
  int64_t replicas_in_sync;
  /** The seed of the orders of rows. */
  uint64_t seed;
  /** 1: each epoch has the rows in another order. 0: all have them in their order. */
  int32_t shuffle;
  /**
   * 1: standard error gets a line that says how far an epoch is, how many rows it does in a
   * second, how long the rest will take, and the loss.
   */
  int32_t progress;
  /**
   * During epochs an interrupt (Ctrl-C, SIGINT) ends the epoch after the step in progress: the
   * training is saved to this file, and umbo_trainer_epoch() returns UMBO_STATUS_CANCELLED. A
   * second one ends the process. NULL: interrupts are the program's, as they are during
   * umbo_trainer_step().
   */
  const char *interrupt_path;
  /**
   * The time that an epoch, a step or an evaluation may take. UMBO_INFINITE: no limit. After it,
   * callbacks that have not returned must not use what the program has released.
   */
  double timeout_seconds;
  /** Cancelled, it ends the call in progress and all later ones. NULL: none. */
  const umbo_cancellation *cancellation;
  /**
   * Joins ranks, whose replicas run in sync (cluster.h). Each rank has all rows. NULL: this
   * process is alone.
   */
  const umbo_communicator *communicator;
  /**
   * A strategy that the program has made, for what the options above do not have, such as
   * `replica_thread_start`. Not together with `replicas`, `replicas_in_sync` or `communicator`.
   * NULL: the trainer makes one.
   */
  umbo_strategy *strategy;
  /**
   * An optimizer of `strategy`, for other rules and settings. Not together with the options of
   * the one that the trainer makes otherwise: those from `rule` to `global_clip_norm`,
   * `average_decay`, `state_bits`, `stochastic_rounding` and `rounding_seed`.
   */
  umbo_optimizer *optimizer;
  /**
   * The type of the gradients that `learn` adds to. UMBO_DTYPE_NONE: float32. With
   * UMBO_DTYPE_FLOAT16 or UMBO_DTYPE_BFLOAT16 `learn` gets `half_gradients`, and half as many
   * bytes are written and read; arrays, sums and the optimizer's state keep their type. Not for
   * arrays with a `row_length`. For `half_weights`, UMBO_DTYPE_NONE is bfloat16.
   */
  umbo_dtype gradient_dtype;
  /**
   * The decay of an exponential moving average of the weights, with its warm-up, which
   * umbo_trainer_evaluate() takes for the weights; less than 1. 0: none.
   */
  double average_decay;
  /**
   * As in umbo_optimizer_options: 8 saves three quarters of the memory of a rule's states. Not
   * with arrays that have a `row_length` and 4096 or more numbers.
   */
  int64_t state_bits;
  /** As in umbo_optimizer_options: 1 if there are `half_weights`. Not with `average_decay`. */
  int32_t stochastic_rounding;
  /** As in umbo_optimizer_options. */
  uint64_t rounding_seed;
} umbo_trainer_options;

#define umbo_trainer_options_defaults \
  UMBO_STRUCT_SIZE(umbo_trainer_options), NULL, UMBO_AUTO, NULL, 0, 0, UMBO_AUTO, UMBO_INFINITE, \
    1, UMBO_LOSS_SUM, 0, 0, 0, 1, 0, NULL, UMBO_INFINITE, NULL, NULL, NULL, NULL, UMBO_DTYPE_NONE, \
    0.0, 0, 0, 0
#define UMBO_TRAINER_OPTIONS_INIT { umbo_trainer_options_defaults }

/**
 * Makes a trainer of arrays of the program: a strategy, variables over the arrays, gradients and
 * an optimizer.
 *
 * Weights are float32, or bfloat16 that is rounded (`half_weights`), in host memory, and replicas
 * compute on processors. `gradient_dtype` makes gradients smaller, `state_bits` the optimizer's
 * states, and umbo_variable_view() gives a copy of float32 weights in 16 bits. Weights of float64,
 * or on GPUs, are variables of a strategy (umbo_variable_create_in_memory()), which
 * umbo_train_epoch() trains.
 *
 * @param[in] count How many arrays there are, 1 or more.
 * @param[in] parameters The arrays, whose numbers are the initial values. They stay where they are
 *   until the trainer and all handles that it gave are released; only the trainer writes them.
 * @param[in] options `options` may be NULL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an array that is NULL, not at a multiple of its numbers' size,
 *   overlaps another one, or has a `count` that `row_length` does not divide; two arrays of one
 *   name; options out of range, or that exclude each other; `half_weights` without
 *   `stochastic_rounding`; `state_bits` or `stochastic_rounding` with a rule that has no such.
 * - UMBO_STATUS_UNIMPLEMENTED: a strategy with GPUs; `accumulation_steps` with `replicas_in_sync`
 *   over several ranks.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a replica's callback, or in a strategy's scope.
 *
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_create_with_arrays(
    int64_t count, const umbo_parameters *parameters, const umbo_trainer_options *options,
    umbo_trainer **trainer);

/**
 * Makes a trainer of one array: umbo_trainer_create_with_arrays() for weights that lie one after
 * the other, with all defaults of umbo_parameters. They are float32 and in host memory.
 *
 * @param[in] weights The array, as `weights` of umbo_parameters. Messages name it `parameters[0]`.
 * @param[in] count How many numbers it has, 1 or more.
 * @param[in] options `options` may be NULL.
 * @return As umbo_trainer_create_with_arrays().
 *
 * Collective.
 */
UMBO_MUST_USE static inline umbo_status umbo_trainer_create(
    float *weights, int64_t count, const umbo_trainer_options *options, umbo_trainer **trainer);

/** How far a training is. */
typedef struct umbo_trainer_info {
  size_t struct_size;
  /** How many arrays it has. */
  int64_t array_count;
  /** The number of replicas in this process: one more than the largest `replica_id`. */
  int64_t replica_count;
  /** How many epochs have ended. */
  int64_t epoch_count;
  /** How many steps have taken effect, of epochs and of umbo_trainer_step(). */
  int64_t step_count;
  /** How many steps took effect in an epoch that has ended early and is to be continued; else 0. */
  int64_t epoch_step_count;
} umbo_trainer_info;

#define UMBO_TRAINER_INFO_INIT { UMBO_STRUCT_SIZE(umbo_trainer_info), 0, 0, 0, 0, 0 }

/** Gets how far a training is. It may be called during a call of another thread. */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_get_info(
    const umbo_trainer *trainer, umbo_trainer_info *info);

/** Gets a new handle to the strategy: for metrics, other steps on the same arrays, reports. */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_strategy(
    const umbo_trainer *trainer, umbo_strategy **strategy);

/**
 * Gets a new handle to the variable over an array.
 *
 * @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such array.
 *
 * umbo_variable_upload() changes an array between two calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_variable(
    const umbo_trainer *trainer, int64_t array, umbo_variable **variable);

/** Gets a new handle to the gradients of all arrays. */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_gradients(
    const umbo_trainer *trainer, umbo_gradients **gradients);

/**
 * Gets a new handle to the optimizer: for its learning rate, a schedule, and all settings that the
 * trainer's options do not have.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_optimizer(
    const umbo_trainer *trainer, umbo_optimizer **optimizer);

/**
 * Gets a new handle to what umbo_trainer_save() saves, to which the program can add what is its
 * own, such as a vocabulary.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_checkpoint(
    const umbo_trainer *trainer, umbo_checkpoint **checkpoint);

/**
 * Makes the dataset of the next epoch: batches of the numbers of rows, in its order.
 *
 * @param[in] row_count As for umbo_trainer_epoch().
 * @param[in] batch_size As for umbo_trainer_epoch().
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a number out of range.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_dataset(
    const umbo_trainer *trainer, int64_t row_count, int64_t batch_size, umbo_dataset **dataset);

/** Makes another handle to the same trainer: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_trainer_retain(
    const umbo_trainer *trainer, umbo_trainer **retained) {
  return umbo_retain(trainer, UMBO_HANDLE_TRAINER, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_trainer_release(const umbo_trainer *trainer) {
  umbo_release(trainer, UMBO_HANDLE_TRAINER);
}

/**
 * Trains over the rows 0 to `row_count` less one, once, in batches. Each epoch has another order,
 * which depends on `seed` and the number of the epoch alone.
 *
 * @param[in] row_count 1 or more.
 * @param[in] batch_size The rows of a step, 1 or more; the last batch may have fewer, and none
 *   has more than 268,435,456. They are split over the replicas: the first one gets the first
 *   ceil(batch_size / replica_count), and so on.
 * @param[in] learn Called on each replica that has rows.
 * @param[out] loss The mean loss of a row, each with the weights that its step had. `loss` may be
 *   NULL.
 * @return UMBO_OK, or:
 * - What `learn` returned; the message names the step, the replica and the rows.
 * - UMBO_STATUS_INVALID_ARGUMENT: a number out of range; or a gradient that is not finite, with
 *   `global_clip_norm`.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a step, or while a callback of an earlier step, which
 *   ran out of time, has not returned: umbo_strategy_synchronize() of umbo_trainer_strategy()
 *   waits for it.
 * - UMBO_STATUS_CANCELLED: an interrupt, after which the training is in `interrupt_path`; or the
 *   token of `cancellation`.
 * - UMBO_STATUS_DEADLINE_EXCEEDED: `timeout_seconds` are over.
 *
 * A step takes effect as a whole, or changes nothing. An epoch that has ended early is continued
 * by the next call with the same numbers, from the batch whose step did not take effect; with
 * other numbers or another `seed` or `shuffle` it begins again. Its loss is that of the whole
 * epoch. What is accumulated at the end of an epoch is applied.
 *
 * Serialised with all calls of this trainer. Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_epoch(
    umbo_trainer *trainer, int64_t row_count, int64_t batch_size, umbo_learn_fn learn,
    void *user_data, double *loss);

/**
 * Trains one batch: the rows from `first_row` on, whatever a program with its own input means by
 * these numbers. Rows of an epoch that has ended early are not affected.
 *
 * @param[in] first_row 0 or more. Ranks do not compare it, since each may have numbers of its own.
 * @param[in] row_count How many rows the batch has, 1 to 268,435,456.
 * @param[in] learn Called on each replica that has rows.
 * @param[out] loss The mean loss of a row. `loss` may be NULL.
 * @return As umbo_trainer_epoch().
 *
 * With `accumulation_steps` an update is made after that many steps.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_step(
    umbo_trainer *trainer, int64_t first_row, int64_t row_count, umbo_learn_fn learn,
    void *user_data, double *loss);

/**
 * Calls a function for the rows 0 to `row_count` less one, in order, in batches on all replicas,
 * without gradients: nothing is updated.
 *
 * @param[in] learn Gets rows whose `training` is 0.
 * @param[out] loss The mean loss of a row. `loss` may be NULL.
 * @return As umbo_trainer_epoch().
 *
 * With `average_decay` the arrays have the averages of the weights as values during the call. Its
 * steps are not counted: what later steps draw by umbo_replica_context_random_key() is as
 * without it. umbo_strategy_metric_result() has the totals of metrics that `learn` adds to
 * (`rows->context`), such as an accuracy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_evaluate(
    umbo_trainer *trainer, int64_t row_count, int64_t batch_size, umbo_learn_fn learn,
    void *user_data, double *loss);

/**
 * Sets the learning rate from the next update on, such as before each step or epoch, and ends the
 * `schedule` of the options.
 *
 * @param[in] learning_rate Finite and 0 or more; for FTRL, which divides by it, more than 0.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: the rate is not such a number.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a step.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_set_learning_rate(
    umbo_trainer *trainer, double learning_rate);

/**
 * Saves the training to a file: arrays, optimizer, how many epochs there were, and where in an
 * epoch it is.
 *
 * @return As umbo_checkpoint_save(); UMBO_STATUS_NOT_FOUND: no such folder.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_save(const umbo_trainer *trainer, const char *path);

/**
 * Restores a training from a file. The arrays get the saved values. The learning rate follows the
 * schedule of this trainer's options, if they have one, and the log warns if the training had
 * another; else that of the training.
 *
 * @return As umbo_checkpoint_restore(); UMBO_STATUS_NOT_FOUND: no such file.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_restore(umbo_trainer *trainer, const char *path);

/**
 * Restores a training from a file if there is one, so that a program that is started again
 * continues where it was.
 *
 * @param[out] epoch_count How many epochs have ended: the number of the one to begin with, from 0.
 *   `epoch_count` may be NULL.
 * @return As umbo_trainer_restore(), but UMBO_OK if there is no such file in a folder that exists.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_trainer_resume(
    umbo_trainer *trainer, const char *path, int64_t *epoch_count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/trainer.h>

#endif

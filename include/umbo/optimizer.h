/* Generated from src/ffi; do not edit. */
#ifndef UMBO_OPTIMIZER_H
#define UMBO_OPTIMIZER_H

/**
 * @file optimizer.h
 * @brief Optimizers: rules that change variables by gradients, with their state.
 *
 * The caller releases an optimizer. It makes its state for a variable when it first updates that
 * variable, on the parameter device. An apply outside of a run changes the variables at once; in a
 * run it changes them at the run's commit point. An apply that fails changes nothing.
 *
 * Threads: all functions on one optimizer are *serialised*. Applies are also serialised with the
 * strategy's steps.
 *
 * Example:
 * ```c
 * // Adam with weight decay and clipping.
 * static umbo_status make_optimizer(umbo_strategy *strategy, umbo_optimizer **optimizer) {
 *   umbo_adamw_options rule = umbo_adamw_options_default();
 *   umbo_optimizer_options settings = umbo_optimizer_options_default();
 *   rule.learning_rate = 1e-3;
 *   rule.weight_decay = 1e-2;
 *   settings.global_clip_norm = 1.0;
 *   UMBO_TRY(umbo_optimizer_create_adamw(strategy, &rule, optimizer));
 *   return umbo_optimizer_configure(*optimizer, &settings);
 * }
 * ```
 */

#include <umbo/gradients.h>

#ifdef __cplusplus
extern "C" {
#endif


/** The options of stochastic gradient descent. UMBO_SGD_OPTIONS_INIT gives the defaults. */
typedef struct umbo_sgd_options {
  size_t struct_size;
  /** The learning rate; finite and 0 or more. By default 0.01. */
  double learning_rate;
} umbo_sgd_options;

#define UMBO_SGD_OPTIONS_INIT { sizeof(umbo_sgd_options), 0.01 }
UMBO_DEFAULT(umbo_sgd_options, UMBO_SGD_OPTIONS_INIT)

/** The options of gradient descent with momentum. UMBO_MOMENTUM_OPTIONS_INIT gives the defaults. */
typedef struct umbo_momentum_options {
  size_t struct_size;
  /** The learning rate; finite and 0 or more. By default 0.01. */
  double learning_rate;
  /** The decay factor of the sum of gradients: 0 or more, less than 1. By default 0.9. */
  double momentum;
  /** 1: Nesterov's momentum. 0, the default: plain momentum. */
  int32_t nesterov;
  /**
   * What a gradient loses before it is added to the sum: 0 or more, at most 1. 0, the default:
   * nothing. Must be 0 with Nesterov's momentum.
   */
  double dampening;
} umbo_momentum_options;

#define UMBO_MOMENTUM_OPTIONS_INIT { sizeof(umbo_momentum_options), 0.01, 0.9, 0, 0.0 }
UMBO_DEFAULT(umbo_momentum_options, UMBO_MOMENTUM_OPTIONS_INIT)

/** The options of Adam. UMBO_ADAM_OPTIONS_INIT gives the defaults. */
typedef struct umbo_adam_options {
  size_t struct_size;
  /** The learning rate; finite and 0 or more. By default 0.001. */
  double learning_rate;
  /** The decay factor of the first moment: 0 or more, less than 1. By default 0.9. */
  double beta1;
  /** The decay factor of the second moment: 0 or more, less than 1. By default 0.999. */
  double beta2;
  /** Added to the square root of the second moment; more than 0. By default 1e-8. */
  double epsilon;
  /**
   * 1: the step divides by the root of the largest second moment so far (AMSGrad). 0, the default:
   * by that of the second moment.
   */
  int32_t amsgrad;
} umbo_adam_options;

#define UMBO_ADAM_OPTIONS_INIT { sizeof(umbo_adam_options), 0.001, 0.9, 0.999, 1e-8, 0 }
UMBO_DEFAULT(umbo_adam_options, UMBO_ADAM_OPTIONS_INIT)

/** The options of Adam with decoupled weight decay. UMBO_ADAMW_OPTIONS_INIT gives the defaults. */
typedef struct umbo_adamw_options {
  size_t struct_size;
  /** The learning rate; finite and 0 or more. By default 0.001. */
  double learning_rate;
  /** The decay factor of the first moment: 0 or more, less than 1. By default 0.9. */
  double beta1;
  /** The decay factor of the second moment: 0 or more, less than 1. By default 0.999. */
  double beta2;
  /** Added to the square root of the second moment; more than 0. By default 1e-8. */
  double epsilon;
  /**
   * The weight decay, which is multiplied by the learning rate; finite and 0 or more. By default
   * 0.01.
   */
  double weight_decay;
  /**
   * 1: the step divides by the root of the largest second moment so far (AMSGrad). 0, the default:
   * by that of the second moment.
   */
  int32_t amsgrad;
} umbo_adamw_options;

#define UMBO_ADAMW_OPTIONS_INIT { sizeof(umbo_adamw_options), 0.001, 0.9, 0.999, 1e-8, 0.01, 0 }
UMBO_DEFAULT(umbo_adamw_options, UMBO_ADAMW_OPTIONS_INIT)

/** The options of LAMB. UMBO_LAMB_OPTIONS_INIT gives the defaults. */
typedef struct umbo_lamb_options {
  size_t struct_size;
  /** The learning rate; finite and 0 or more. By default 0.001. */
  double learning_rate;
  /** The decay factor of the first moment: 0 or more, less than 1. By default 0.9. */
  double beta1;
  /** The decay factor of the second moment: 0 or more, less than 1. By default 0.999. */
  double beta2;
  /** Added to the square root of the second moment; more than 0. By default 1e-6. */
  double epsilon;
  /**
   * The weight decay, which is part of the direction whose norm is adapted; finite and 0 or
   * more. By default 0.01.
   */
  double weight_decay;
} umbo_lamb_options;

#define UMBO_LAMB_OPTIONS_INIT { sizeof(umbo_lamb_options), 0.001, 0.9, 0.999, 1e-6, 0.01 }
UMBO_DEFAULT(umbo_lamb_options, UMBO_LAMB_OPTIONS_INIT)

/** The options of Adagrad. UMBO_ADAGRAD_OPTIONS_INIT gives the defaults. */
typedef struct umbo_adagrad_options {
  size_t struct_size;
  /** The learning rate; finite and 0 or more. By default 0.01. */
  double learning_rate;
  /** The first value of the sums of squares; finite and 0 or more. By default 0. */
  double initial_accumulator;
  /** Added to the square root of the sum of squares; more than 0. By default 1e-10. */
  double epsilon;
  /**
   * How fast the learning rate falls: it is divided by 1 + learning_rate_decay * (t - 1) in update
   * t of a variable. Finite and 0 or more. 0, the default: it stays.
   */
  double learning_rate_decay;
} umbo_adagrad_options;

#define UMBO_ADAGRAD_OPTIONS_INIT { sizeof(umbo_adagrad_options), 0.01, 0.0, 1e-10, 0.0 }
UMBO_DEFAULT(umbo_adagrad_options, UMBO_ADAGRAD_OPTIONS_INIT)

/** The options of RMSprop. UMBO_RMSPROP_OPTIONS_INIT gives the defaults. */
typedef struct umbo_rmsprop_options {
  size_t struct_size;
  /** The learning rate; finite and 0 or more. By default 0.01. */
  double learning_rate;
  /** The decay factor of the moments: 0 or more, less than 1. By default 0.99. */
  double rho;
  /** The decay factor of the sum of steps: 0 or more, less than 1. 0, the default: no momentum. */
  double momentum;
  /** Added to the square root of the second moment; more than 0. By default 1e-8. */
  double epsilon;
  /** 1: the second moment is taken about the mean. 0, the default: about zero. */
  int32_t centered;
} umbo_rmsprop_options;

#define UMBO_RMSPROP_OPTIONS_INIT { sizeof(umbo_rmsprop_options), 0.01, 0.99, 0.0, 1e-8, 0 }
UMBO_DEFAULT(umbo_rmsprop_options, UMBO_RMSPROP_OPTIONS_INIT)

/**
 * The options of FTRL-Proximal. UMBO_FTRL_OPTIONS_INIT gives the defaults.
 *
 * `beta`, `l2` and `initial_accumulator` must not all be 0.
 */
typedef struct umbo_ftrl_options {
  size_t struct_size;
  /** The learning rate; finite and more than 0. By default 0.1. */
  double learning_rate;
  /** Added to the square root of the sum of squares; finite and 0 or more. By default 1. */
  double beta;
  /** The strength of the L1 regularisation; finite and 0 or more. By default 0. */
  double l1;
  /** The strength of the L2 regularisation; finite and 0 or more. By default 0. */
  double l2;
  /** The first value of the sums of squares; finite and 0 or more. By default 0. */
  double initial_accumulator;
} umbo_ftrl_options;

#define UMBO_FTRL_OPTIONS_INIT { sizeof(umbo_ftrl_options), 0.1, 1.0, 0.0, 0.0, 0.0 }
UMBO_DEFAULT(umbo_ftrl_options, UMBO_FTRL_OPTIONS_INIT)

/**
 * Makes an optimizer: stochastic gradient descent.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
 *
 * For each element w with gradient g:
 *
 * ```text
 * w = w - learning_rate * g
 * ```
 *
 * It keeps no state.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_sgd(
    umbo_strategy *strategy, const umbo_sgd_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: gradient descent with momentum.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
 *
 * For each element w with gradient g:
 *
 * ```text
 * a = momentum * a + g
 * w = w - learning_rate * a
 * ```
 *
 * With Nesterov's momentum the second line is:
 *
 * ```text
 * w = w - learning_rate * (g + momentum * a)
 * ```
 *
 * With a dampening the first line is a = momentum * a + (1 - dampening) * g, but in the first
 * update of a variable a = g.
 *
 * The state is "momentum" (a), which starts at 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_momentum(
    umbo_strategy *strategy, const umbo_momentum_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Adam.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
 *
 * For each element w with gradient g, in update t (1, 2, ...) of its variable:
 *
 * ```text
 * m = beta1 * m + (1 - beta1) * g
 * v = beta2 * v + (1 - beta2) * g * g
 * w = w - learning_rate * m' / (sqrt(v') + epsilon)
 * ```
 *
 * m' = m / (1 - beta1^t) and v' = v / (1 - beta2^t) correct for the start at zero. The states are
 * "m" and "v", without the correction.
 *
 * With `amsgrad` the largest v of all updates so far takes the place of v in the last line. It is a
 * state, too: "v_max".
 *
 * Source: Kingma and Ba, 2015, Algorithm 1; AMSGrad: Reddi, Kale and Kumar, 2018.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adam(
    umbo_strategy *strategy, const umbo_adam_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Adam with decoupled weight decay (AdamW).
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
 *
 * For each element w:
 *
 * ```text
 * w = (1 - learning_rate * weight_decay) * w
 * ```
 *
 * Then follows the step of umbo_optimizer_create_adam(). The states are "m" and "v", and "v_max"
 * with `amsgrad`. They do not contain the decay.
 *
 * Source: Loshchilov and Hutter, 2019.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adamw(
    umbo_strategy *strategy, const umbo_adamw_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: LAMB.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
 *
 * For each variable w, with m' and v' as in umbo_optimizer_create_adam():
 *
 * ```text
 * r = m' / (sqrt(v') + epsilon)
 * u = r + weight_decay * w
 * w = w - learning_rate * |w| / |u| * u
 * ```
 *
 * If one of the norms |w| and |u| is 0, their quotient counts as 1. The states are "m" and "v".
 * The norms cost one more pass over memory. Row-sparse gradients are not possible, since they need
 * the norms of whole variables.
 *
 * Source: You et al., 2020.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_lamb(
    umbo_strategy *strategy, const umbo_lamb_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Adagrad.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
 *
 * For each element w with gradient g:
 *
 * ```text
 * n = n + g * g
 * w = w - learning_rate * g / (sqrt(n) + epsilon)
 * ```
 *
 * With `learning_rate_decay` the learning rate in update t (1, 2, ...) of the variable is
 * learning_rate / (1 + learning_rate_decay * (t - 1)).
 *
 * The state is "accumulator" (n), which starts at `initial_accumulator`.
 *
 * Source: Duchi, Hazan and Singer, 2011.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adagrad(
    umbo_strategy *strategy, const umbo_adagrad_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: RMSprop.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range.
 *
 * For each element w with gradient g:
 *
 * ```text
 * v = rho * v + (1 - rho) * g * g
 * d = sqrt(v) + epsilon
 * w = w - learning_rate * g / d
 * ```
 *
 * With `centered`, the second moment is taken about the mean a:
 *
 * ```text
 * a = rho * a + (1 - rho) * g
 * d = sqrt(v - a * a) + epsilon
 * ```
 *
 * With momentum, the last step is:
 *
 * ```text
 * b = momentum * b + g / d
 * w = w - learning_rate * b
 * ```
 *
 * The states are "v", with `centered` also "mean" (a), and with momentum also "momentum" (b).
 *
 * Source: Tieleman and Hinton, 2012; the centered form: Graves, 2013.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_rmsprop(
    umbo_strategy *strategy, const umbo_rmsprop_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: FTRL-Proximal.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] options The options; `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, or `beta`, `l2`
 *   and `initial_accumulator` that are all 0.
 *
 * For each element w with gradient g:
 *
 * ```text
 * s = (sqrt(n + g * g) - sqrt(n)) / learning_rate
 * z = z + g - s * w
 * n = n + g * g
 * w = 0 if |z| <= l1, else -(z - sign(z) * l1) / ((beta + sqrt(n)) / learning_rate + l2)
 * ```
 *
 * The states are "z" and "n". An update computes the elements from the states alone: let variables
 * start at 0.
 *
 * Source: McMahan et al., 2013, Algorithm 1.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_ftrl(
    umbo_strategy *strategy, const umbo_ftrl_options *options, umbo_optimizer **optimizer);

/**
 * Some neighbouring elements of a variable that a rule of the program's is to update. All arrays
 * have `count` elements of type `dtype`, which is the variable's. It is filled by the library;
 * later versions may add fields at the end.
 */
typedef struct umbo_update_tile {
  size_t struct_size;
  /** The type of weights, gradient and states: UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64. */
  umbo_dtype dtype;
  /** How many states there are. */
  int32_t state_count;
  /** How many elements there are, 1 or more. */
  int64_t count;
  /** The number of the first of them among the variable's, in row-major order. */
  int64_t first;
  /** The weights, to be read and written. */
  void *weights;
  /**
   * The gradient: summed over replicas and runs, without the loss scale, clipped, and with the
   * weight decay added unless that is decoupled.
   */
  const void *gradient;
  /** The states, to be read and written, in the order of umbo_custom_rule_options. */
  void *const *states;
  /** The learning rate, with the factor of the variable's group. */
  double learning_rate;
  /** The weight decay that the rule has to do itself; 0 unless it is decoupled. */
  double weight_decay;
  /** How many updates of this variable came before, by this optimizer. */
  int64_t step;
} umbo_update_tile;

#define UMBO_UPDATE_TILE_INIT \
  { sizeof(umbo_update_tile), UMBO_DTYPE_NONE, 0, 0, 0, NULL, NULL, NULL, 0.0, 0.0, 0 }
UMBO_DEFAULT(umbo_update_tile, UMBO_UPDATE_TILE_INIT)

/**
 * Updates weights and states of some elements, each from its own weight, states and gradient alone.
 *
 * @param[in] tile The elements. It and its arrays are valid until the function returns.
 * @param[in] user_data What was given to umbo_optimizer_create_custom().
 *
 * It is called in the pass that reduces the gradients, by several threads at once, on tiles that
 * have nothing in common, in any order. With several ranks each calls it for its part of a
 * variable, twice for each element: what it makes of copies of the states is what the ranks
 * exchange, and once they have agreed it is done with the states themselves. So it must come to the
 * same both times. It cannot fail, since other tiles are changed already: a rule checks its
 * settings before it makes the optimizer. Functions of this library are
 * UMBO_STATUS_FAILED_PRECONDITION here.
 */
typedef void (*umbo_update_tile_fn)(const umbo_update_tile *tile, void *user_data);

/**
 * What a rule of the program's is to compute on a GPU: new weights and states of a variable that
 * the GPU holds, or of those of its rows that have gradients. All arrays but `states` itself are
 * memory of the GPU and this call's alone. Weights, gradient and each state have `count` elements
 * of type `dtype`. It is filled by the library; later versions may add fields at the end.
 */
typedef struct umbo_gpu_update {
  size_t struct_size;
  /** The type of weights, gradient and states: UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64. */
  umbo_dtype dtype;
  /** How many states there are. */
  int32_t state_count;
  /** How many elements there are, 1 or more. */
  int64_t count;
  /** The weights, to be read and written. */
  void *weights;
  /** The gradient, as umbo_update_tile has it. */
  const void *gradient;
  /** The states, to be read and written, in the order of umbo_custom_rule_options. */
  void *const *states;
  /** How many rows of the variable the elements are; 0 if they are all of it. */
  int64_t row_count;
  /**
   * The numbers of these rows, `row_count` of them, which ascend, in memory of the GPU. NULL if the
   * elements are all of the variable.
   */
  const int64_t *rows;
  /** The learning rate, with the factor of the variable's group. */
  double learning_rate;
  /** The weight decay that the rule has to do itself; 0 unless it is decoupled. */
  double weight_decay;
  /** How many updates of this variable came before, by this optimizer. */
  int64_t step;
  /** The GPU. */
  umbo_device device;
  /** The CUstream on which everything has to be queued; never NULL. */
  void *stream;
} umbo_gpu_update;

#define UMBO_GPU_UPDATE_INIT \
  { sizeof(umbo_gpu_update), UMBO_DTYPE_NONE, 0, 0, NULL, NULL, NULL, 0, NULL, 0.0, 0.0, 0, { \
    UMBO_ENUM_VALUE(umbo_device_type, 0), 0 }, NULL }
UMBO_DEFAULT(umbo_gpu_update, UMBO_GPU_UPDATE_INIT)

/**
 * Queues kernels that update weights and states on a GPU, each element from its own weight, states
 * and gradient alone.
 *
 * @param[in] update What is to be computed, and the stream on which to queue. The struct and its
 *   list `states` are valid until the function returns, the arrays until the kernels are done.
 * @param[in] user_data What was given to umbo_optimizer_create_custom().
 * @return UMBO_OK, or why it fails. Any other status than UMBO_OK fails the apply, or the step that
 *   it belongs to, and nothing has changed.
 *
 * It is called when an apply is about to begin, for one variable after the other, on the thread
 * that applies, with the GPU's primary context current. The arrays are copies: what it computes
 * counts only once it has returned UMBO_OK for all variables and its kernels are done, for which
 * the library waits. Functions of this library, but for umbo_set_last_error(), are
 * UMBO_STATUS_FAILED_PRECONDITION here.
 */
typedef umbo_status (*umbo_update_on_gpu_fn)(const umbo_gpu_update *update, void *user_data);

/**
 * What a rule of the program's keeps, and what it does on GPUs. Start from
 * UMBO_CUSTOM_RULE_OPTIONS_INIT.
 */
typedef struct umbo_custom_rule_options {
  size_t struct_size;
  /** The name of the rule, for messages and umbo_optimizer_rule(). NULL: "custom". */
  const char *name;
  /** The learning rate; finite and 0 or more. By default 0.01. */
  double learning_rate;
  /**
   * The weight decay where umbo_optimizer_configure() gives none; finite and 0 or more. By default
   * 0.
   */
  double weight_decay;
  /**
   * 1: the rule decays weights itself, by the number that it finds in the tile. 0, the default:
   * weight_decay * w is added to the gradient.
   */
  int32_t decoupled_weight_decay;
  /**
   * How many states the rule keeps for each variable, of the variable's type and shape: 0 to 8. By
   * default 0.
   */
  int64_t state_count;
  /**
   * Their names, which differ and are copied: an array of `state_count`. NULL if there are no
   * states.
   */
  const char *const *state_names;
  /**
   * What every element of each state is before the first update: an array of `state_count`, which
   * is copied. NULL: all are 0.
   */
  const double *state_initials;
  /**
   * What updates variables that a GPU holds; it gets the same user data as the rule. NULL: such
   * variables cannot be updated, which is UMBO_STATUS_UNIMPLEMENTED when they are.
   */
  umbo_update_on_gpu_fn update_on_gpu;
} umbo_custom_rule_options;

#define UMBO_CUSTOM_RULE_OPTIONS_INIT \
  { sizeof(umbo_custom_rule_options), NULL, 0.01, 0.0, 0, 0, NULL, NULL, NULL }
UMBO_DEFAULT(umbo_custom_rule_options, UMBO_CUSTOM_RULE_OPTIONS_INIT)

/**
 * Makes an optimizer whose rule is a function of the program's.
 *
 * @param[in] strategy The strategy, whose variables the optimizer updates.
 * @param[in] update The rule. It is called until the optimizer is gone.
 * @param[in] user_data What `update` and `update_on_gpu` of the options are given.
 * @param[in] destroy Releases `user_data`, exactly once, on any thread, when the optimizer is gone,
 *   and also if this function fails. NULL: nothing to release.
 * @param[in] options What the rule keeps, and what it does where a GPU holds the variables;
 *   `options` may be NULL: all defaults.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: an option that is out of range, or a name of a
 *   state that is empty or appears twice.
 *
 * All else is as for the rules that there are: gradients of replicas and of several runs are
 * reduced, also those of 16 bits, clipped, and handed to `update` in tiles of some hundred elements
 * while they are in the cache. Groups, schedules, loss scales and low-precision copies act.
 * Row-sparse variables are updated by rows. umbo_optimizer_state() reads the states.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_custom(
    umbo_strategy *strategy, umbo_update_tile_fn update, void *user_data, umbo_destroy_fn destroy,
    const umbo_custom_rule_options *options, umbo_optimizer **optimizer);

/** What an apply does with a gradient that is not finite (infinite or NaN). */
UMBO_ENUM(umbo_non_finite) {
  /**
   * SKIP with a dynamic loss scale. FAIL with `global_clip_norm`, where one such element would
   * spoil all variables. Otherwise IGNORE.
   */
  UMBO_NON_FINITE_AUTO = 0,
  /**
   * It uses the gradient like any other, so infinity and NaN get into the variables. The report
   * names the first such variable, and the log gets one warning for each optimizer.
   */
  UMBO_NON_FINITE_IGNORE = 1,
  /** It changes no variable and no state, uses the gradients up, and reports `skipped`. */
  UMBO_NON_FINITE_SKIP = 2,
  /**
   * It fails with UMBO_STATUS_INVALID_ARGUMENT and changes nothing. The message names the variable,
   * the step, the replica and the first such element.
   */
  UMBO_NON_FINITE_FAIL = 3
};

/**
 * Whether losses are multiplied by a factor, which keeps small 16-bit gradients from becoming
 * zero.
 */
UMBO_ENUM(umbo_loss_scaling) {
  /** There is no factor. */
  UMBO_LOSS_SCALING_NONE = 0,
  /** The factor is the same in all runs. */
  UMBO_LOSS_SCALING_FIXED = 1,
  /**
   * The factor grows after a number of applies that took effect, and shrinks when one is skipped.
   */
  UMBO_LOSS_SCALING_DYNAMIC = 2
};

/**
 * What an optimizer does besides its update rule. Start from UMBO_OPTIMIZER_OPTIONS_INIT.
 *
 * An apply does this in order: it combines what the replicas submitted, divides by the loss scale,
 * clips by norm, clips by value, adds the weight decay, and updates. By default all of it but the
 * first and the last is off.
 */
typedef struct umbo_optimizer_options {
  size_t struct_size;
  /**
   * The weight decay; finite and 0 or more. AdamW and LAMB apply it beside the gradient
   * (decoupled); all other rules add weight_decay * w to the gradient (L2).
   * UMBO_AUTO, the default: that in the options of the rule; none if the rule
   * has no such option.
   */
  double weight_decay;
  /**
   * The largest allowed norm of all gradients of an apply together. If the norm is larger, all
   * gradients are scaled down to it. More than 0; UMBO_INFINITE, the default: no bound.
   *
   * The norm costs a pass over the gradients. With more than two replicas, or several
   * accumulated runs, this pass keeps the combined gradients: as much memory as the variables,
   * from the first apply until the gradients are released. If that memory is not available, an
   * apply takes more time instead. The same holds for the search for values that are not finite,
   * where `non_finite` asks for it.
   */
  double global_clip_norm;
  /**
   * The largest allowed magnitude of each element of a gradient. More than 0; UMBO_INFINITE,
   * the default: no bound.
   */
  double clip_value;
  /**
   * What an apply does with gradients that are not finite. By default UMBO_NON_FINITE_AUTO. A
   * dynamic loss scale needs AUTO or SKIP. If runs are accumulated, FAIL checks each run before
   * it is added, and SKIP checks the sum when it is applied.
   */
  umbo_non_finite non_finite;
  /** Whether there is a loss scale, and whether it adapts. By default UMBO_LOSS_SCALING_NONE. */
  umbo_loss_scaling loss_scaling;
  /**
   * The factor that callbacks multiply their loss by and an apply divides by, if there is a loss
   * scale; see umbo_optimizer_loss_scale(). A dynamic loss scale starts with it. More than 0; by
   * default 65536.
   */
  double loss_scale;
  /** The factor by which a dynamic loss scale grows; more than 1. By default 2. */
  double loss_scale_growth_factor;
  /**
   * The factor by which a dynamic loss scale shrinks; more than 0 and less than 1. By default
   * 0.5.
   */
  double loss_scale_backoff_factor;
  /**
   * The smallest value of a dynamic loss scale; more than 0, and at most `loss_scale`. By
   * default 1.
   */
  double loss_scale_minimum;
  /**
   * A dynamic loss scale grows after so many applies in a row that took effect; 1 or more. By
   * default 2000.
   */
  int64_t loss_scale_growth_interval;
  /**
   * 1: the loss is maximised: the gradient changes its sign, after clipping and before the weight
   * decay is added. 0, the default: the loss is minimised.
   */
  int32_t maximize;
} umbo_optimizer_options;

#define UMBO_OPTIMIZER_OPTIONS_INIT \
  { sizeof(umbo_optimizer_options), UMBO_AUTO, UMBO_INFINITE, UMBO_INFINITE, UMBO_NON_FINITE_AUTO, \
    UMBO_LOSS_SCALING_NONE, 65536.0, 2.0, 0.5, 1.0, 2000, 0 }
UMBO_DEFAULT(umbo_optimizer_options, UMBO_OPTIMIZER_OPTIONS_INIT)

/** How the variables of a group are treated. Start from UMBO_GROUP_OPTIONS_INIT. */
typedef struct umbo_group_options {
  size_t struct_size;
  /** The factor that the learning rate is multiplied by; finite and 0 or more. By default 1. */
  double learning_rate_factor;
  /**
   * The weight decay of these variables; finite and 0 or more. 0: none, as is usual for biases
   * and normalisation. UMBO_AUTO, the default: that of the optimizer.
   */
  double weight_decay;
  /**
   * 1: these variables are not updated, and their gradients are not read: they are not part of
   * the norm either. 0, the default: they are updated.
   */
  int32_t frozen;
} umbo_group_options;

#define UMBO_GROUP_OPTIONS_INIT { sizeof(umbo_group_options), 1.0, UMBO_AUTO, 0 }
UMBO_DEFAULT(umbo_group_options, UMBO_GROUP_OPTIONS_INIT)

/**
 * Replaces all settings of an optimizer.
 *
 * @param[in] options The new settings; `options` may be NULL: all defaults, so everything is off.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: settings that are out of range or exclude each
 *   other.
 *
 * The settings are used from the next apply on. If a setting of the loss scale changes, the loss
 * scale starts again at `loss_scale`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_configure(
    umbo_optimizer *optimizer, const umbo_optimizer_options *options);

/**
 * Treats some variables differently from the others.
 *
 * @param[in] count The number of variables.
 * @param[in] variables The variables, made by the optimizer's strategy. Each is in one group at
 *   most.
 * @param[in] options The learning rate factor, the weight decay and whether they are frozen, from
 *   the next apply on; `options` may be NULL: all defaults.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy, one that is in a group already,
 *   or an option that is out of range. None of the variables is in the group then.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 *
 * Variables in no group are treated as umbo_optimizer_configure() says.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_add_group(
    umbo_optimizer *optimizer, int64_t count, umbo_variable *const *variables,
    const umbo_group_options *options);

/** The options of one apply. UMBO_APPLY_OPTIONS_INIT gives the defaults. */
typedef struct umbo_apply_options {
  size_t struct_size;
  /**
   * 1: update now, even if fewer runs than `accumulation_steps` are accumulated, as at the end
   * of an epoch. Runs that earlier applies have accumulated are then applied without another
   * run. 0, the default: update after every `accumulation_steps` runs.
   */
  int32_t flush;
  /**
   * 1: report the norm of the gradients even if clipping does not need it. That costs time and
   * memory as `global_clip_norm` does. 0, the default: report it only if it is needed.
   */
  int32_t measure_norm;
} umbo_apply_options;

#define UMBO_APPLY_OPTIONS_INIT { sizeof(umbo_apply_options), 0, 0 }
UMBO_DEFAULT(umbo_apply_options, UMBO_APPLY_OPTIONS_INIT)

/** What an apply did. Start from UMBO_APPLY_REPORT_INIT. */
typedef struct umbo_apply_report {
  size_t struct_size;
  /**
   * 1: the apply took effect and updated `variables_updated` variables. 0: it has not done so
   * yet (`deferred` is 1, or `accumulated_runs` is not 0), or it will not (`skipped` is 1, or
   * the total weight was 0) and the gradients are used up.
   */
  int32_t applied;
  /**
   * 1: the apply was called inside a run and happens at the run's commit point. All other fields
   * are 0 then; umbo_optimizer_last_report() tells later what it did.
   */
  int32_t deferred;
  /**
   * How many variables were updated: those that are not frozen and that a replica viewed whose
   * weight is not 0. 0 is possible.
   */
  int64_t variables_updated;
  /** 1: a gradient was not finite, so nothing was updated. */
  int32_t skipped;
  /** The sum of the replicas' weights, over all accumulated runs. */
  double total_weight;
  /** How many applies of this optimizer have taken effect, this one included. */
  int64_t iterations;
  /**
   * The norm of all gradients together: without the loss scale, before clipping and without
   * weight decay. -1 if it was not measured.
   */
  double gradient_norm;
  /** The learning rate of the update; 0 if there was none. */
  double learning_rate;
  /** The loss scale of the next run. */
  double loss_scale;
  /**
   * The name of the first variable whose gradient was not finite, even if it was applied; NULL
   * if all were finite. With `global_clip_norm` a norm that is not finite counts too. Lives as
   * long as the variable.
   */
  const char *non_finite_variable;
  /** 1: the norm was larger than `global_clip_norm`. */
  int32_t clipped;
  /** How many runs are accumulated and wait for an update. */
  int64_t accumulated_runs;
} umbo_apply_report;

#define UMBO_APPLY_REPORT_INIT \
  { sizeof(umbo_apply_report), 0, 0, 0, 0, 0.0, 0, 0.0, 0.0, 0.0, NULL, 0, 0 }
UMBO_DEFAULT(umbo_apply_report, UMBO_APPLY_REPORT_INIT)

/**
 * Combines the submitted gradients and updates the variables.
 *
 * @param[in] gradients The gradients, of the optimizer's strategy. They are used up: apply once
 *   for each run.
 * @param[in] options How; `options` may be NULL: all defaults.
 * @param[out] report What the apply did. Start from UMBO_APPLY_REPORT_INIT, which sets its size.
 *   `report` may be NULL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: an optimizer and gradients of different strategies, row-sparse
 *   gradients with LAMB, weights whose sum is not finite, or a gradient that is not finite with
 *   UMBO_NON_FINITE_FAIL.
 * - UMBO_STATUS_FAILED_PRECONDITION: nothing was submitted since the last apply, a replica has not
 *   submitted (the message names it), the last run failed, the call comes from the context of
 *   another strategy, or the strategy was released or is draining.
 * - UMBO_STATUS_CANCELLED: in a replica's callback, another replica has failed or the run has
 *   ended.
 * - what the schedule returned.
 *
 * An apply that fails changes nothing. It takes one pass over memory; a norm, or a search for
 * values that are not finite, is a pass over the gradients before that. With k
 * `accumulation_steps`, every k-th apply updates. The others add what was submitted to a sum, and
 * report `accumulated_runs`.
 *
 * Outside of a run it acts at once, after waiting for a run that another thread has under way.
 *
 * Inside a run it is deferred to the run's commit point, uses what the replicas have submitted by
 * then, and reports `deferred`. In a replica's callback it is a synchronising call that all
 * replicas make (see umbo_replica_context_merge_call()). If the run fails, nothing is applied. If
 * a deferred apply fails, the run fails.
 *
 * With several ranks a call that all of them make: it fails on all if it fails on one. Then
 * UMBO_STATUS_FAILED_PRECONDITION is also for ranks that make different calls, and
 * UMBO_STATUS_UNAVAILABLE for ranks that cannot meet any more. Ranks whose settings, progress or
 * learning rates differ are UMBO_STATUS_FAILED_PRECONDITION, too.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_apply(
    umbo_optimizer *optimizer, umbo_gradients *gradients, const umbo_apply_options *options,
    umbo_apply_report *report);

/**
 * Tells what the last apply did.
 *
 * @param[out] report The report of the last apply that was carried out, deferred ones included;
 *   all fields are 0 before the first. Start from UMBO_APPLY_REPORT_INIT, which sets its size.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_last_report(
    const umbo_optimizer *optimizer, umbo_apply_report *report);

/**
 * Computes the learning rate of an update.
 *
 * @param[in] step How many updates the optimizer has made before this one.
 * @param[in] user_data What umbo_optimizer_set_schedule() was given.
 * @param[out] learning_rate The learning rate, which must be written; finite and 0 or more.
 * @return UMBO_OK, or why it failed. Any other status than UMBO_OK fails the apply, which then
 *   changes nothing.
 *
 * Each apply that is to update calls it, on the thread that carries out the apply; an apply that
 * is then skipped because of a gradient that is not finite has called it too. Inside it, functions
 * that run steps of the strategy or change its state (runs, applies, assignments,
 * umbo_strategy_synchronize()) give UMBO_STATUS_FAILED_PRECONDITION.
 */
typedef umbo_status (*umbo_schedule_fn)(int64_t step, void *user_data, double *learning_rate);

/**
 * Sets a function that computes the learning rate of each update.
 *
 * @param[in] schedule The function, which replaces an earlier one. `schedule` may be NULL: the
 *   learning rate stays what it is now, as with umbo_optimizer_set_learning_rate().
 * @param[in] user_data Passed to the function unchanged; may be anything.
 * @param[in] destroy Releases the user data when the function is replaced or the optimizer ends,
 *   and if this call fails. NULL: nothing to release.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_schedule(
    umbo_optimizer *optimizer, umbo_schedule_fn schedule, void *user_data,
    umbo_destroy_fn destroy);

/**
 * Tells the factor that callbacks multiply their loss by.
 *
 * @param[out] loss_scale The factor of this run, valid until the next apply; 1 if there is no loss
 *   scale.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 *
 * It may be called inside a run. A callback may multiply its gradients instead of its loss.
 * Several gradients of one run may be applied one after the other: each apply divides by the scale
 * that the run had.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_loss_scale(
    const umbo_optimizer *optimizer, double *loss_scale);

/**
 * Sets the learning rate and ends a schedule.
 *
 * @param[in] learning_rate The learning rate from the next apply on; finite and 0 or more.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a learning rate that is out of range; 0 also is for FTRL, which
 *   divides by it.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_learning_rate(
    umbo_optimizer *optimizer, double learning_rate);

/**
 * Tells the learning rate.
 *
 * @param[out] learning_rate That of the next apply; with a schedule that of the last one.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_learning_rate(
    const umbo_optimizer *optimizer, double *learning_rate);

/**
 * Tells how many applies have taken effect.
 *
 * @param[out] iterations Their number.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_iterations(
    const umbo_optimizer *optimizer, int64_t *iterations);

/**
 * Copies what an optimizer keeps for a variable. Where several ranks train together each keeps a
 * part of it, and the copy is put together of all parts: all ranks make this call, outside of runs.
 *
 * @param[in] name The name of the state, such as "momentum". The function that made the optimizer
 *   lists the names.
 * @param[out] state A new tensor of the variable's dtype and shape. The caller releases it.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: the update rule has no state of this name, or the optimizer has not
 *   updated the variable yet.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure(); with several ranks also
 *   inside a run, and if the ranks make different calls.
 * - UMBO_STATUS_UNAVAILABLE: the ranks cannot meet any more.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_state(
    const umbo_optimizer *optimizer, const umbo_variable *variable, const char *name,
    umbo_tensor **state);

/** Makes another handle to the same optimizer: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_optimizer_retain(
    const umbo_optimizer *optimizer, umbo_optimizer **retained) {
  return umbo_retain(optimizer, UMBO_HANDLE_OPTIMIZER, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_optimizer_release(const umbo_optimizer *optimizer) {
  umbo_release(optimizer, UMBO_HANDLE_OPTIMIZER);
}

/**
 * Tells the name of an optimizer's update rule.
 *
 * @param[out] name "sgd", "momentum", "adam", "adamw", "lamb", "adagrad", "rmsprop" or "ftrl". For
 *   a custom rule, what its umbo_custom_rule_options say. Lives as long as the optimizer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_rule(
    const umbo_optimizer *optimizer, const char **name);

/**
 * Tells one of the numbers that an optimizer was made with.
 *
 * @param[in] name The name of a field of the rule's options, such as "beta1".
 * @param[out] value The number. For "learning_rate" it is what umbo_optimizer_learning_rate()
 *   tells. Fields that are 0 or 1 give 0 or 1.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: the options have no such field. The message lists the names that there
 *   are.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_setting(
    const umbo_optimizer *optimizer, const char *name, double *value);

/**
 * Tells what an optimizer does besides its update rule.
 *
 * @param[out] options The settings that are in effect. Start from UMBO_OPTIMIZER_OPTIONS_INIT,
 *   which sets the size.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 *
 * They can be passed to umbo_optimizer_configure(). Choices are resolved: `weight_decay` is a
 * number, that of the rule if none was configured, and `non_finite` is never UMBO_NON_FINITE_AUTO.
 * Without a loss scale its fields have their defaults.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_get_options(
    const umbo_optimizer *optimizer, umbo_optimizer_options *options);

/**
 * Tells how an optimizer treats a variable.
 *
 * @param[in] variable A variable of the optimizer's strategy.
 * @param[out] options The options of the variable's group, or of the variables in no group. Start
 *   from UMBO_GROUP_OPTIONS_INIT, which sets the size. `weight_decay` is the number that updates
 *   use.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_get_group_options(
    const umbo_optimizer *optimizer, const umbo_variable *variable, umbo_group_options *options);

/**
 * How often an optimizer has updated a variable, and the numbers that its rule carries from one
 * update to the next. Start from UMBO_VARIABLE_PROGRESS_INIT.
 */
typedef struct umbo_variable_progress {
  size_t struct_size;
  /** How often it was updated. */
  int64_t updates;
  /**
   * For Adam, AdamW and LAMB the power of beta1; for custom rules, and for Adagrad with a
   * `learning_rate_decay`, the number of updates; for momentum with a dampening 1 once it was
   * updated; otherwise 0.
   */
  double first_running;
  /** For Adam, AdamW and LAMB the power of beta2; otherwise 0. */
  double second_running;
} umbo_variable_progress;

#define UMBO_VARIABLE_PROGRESS_INIT { sizeof(umbo_variable_progress), 0, 0.0, 0.0 }
UMBO_DEFAULT(umbo_variable_progress, UMBO_VARIABLE_PROGRESS_INIT)

/**
 * Sets what an optimizer keeps for a variable, as if an update had left it.
 *
 * @param[in] variable The variable, of the optimizer's strategy.
 * @param[in] name The name of the state, such as "momentum".
 * @param[in] state The elements, which are copied: of the variable's dtype and shape.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy, or another dtype or shape.
 * - UMBO_STATUS_NOT_FOUND: the update rule has no state of this name.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
 *
 * A variable that was not updated yet counts as updated once:
 * umbo_optimizer_set_variable_progress() says how often it was.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_state(
    umbo_optimizer *optimizer, const umbo_variable *variable, const char *name,
    const umbo_tensor *state);

/**
 * Tells how often an optimizer has updated a variable, and what its rule carries along.
 *
 * @param[in] variable The variable, of the optimizer's strategy.
 * @param[out] progress Gets both. Start from UMBO_VARIABLE_PROGRESS_INIT, which sets its size.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy.
 * - UMBO_STATUS_FAILED_PRECONDITION: as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_variable_progress(
    const umbo_optimizer *optimizer, const umbo_variable *variable,
    umbo_variable_progress *progress);

/**
 * Sets how often an optimizer has updated a variable, and what its rule carries along.
 *
 * @param[in] variable The variable, of the optimizer's strategy.
 * @param[in] progress Both. With 0 updates the variable has no state that could be read.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy, numbers below 0 or not finite, or
 *   more than 2^52 updates.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_variable_progress(
    umbo_optimizer *optimizer, const umbo_variable *variable,
    const umbo_variable_progress *progress);

/**
 * Sets how many applies have taken effect, which a schedule is asked with.
 *
 * @param[in] iterations Their number; 0 to 2^52, from where they can be counted on and saved.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a number out of range.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_iterations(
    umbo_optimizer *optimizer, int64_t iterations);

/**
 * Sets the factor that callbacks multiply their loss by, from the next run on.
 *
 * @param[in] loss_scale The factor; more than 0 and finite as a float32.
 * @param[in] applies How many applies in a row have taken effect with it, for a dynamic scale; 0 to
 *   2^52.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a number out of range.
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a run, or as for umbo_optimizer_configure().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_loss_scale(
    umbo_optimizer *optimizer, double loss_scale, int64_t applies);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

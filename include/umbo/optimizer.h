/* Generated from src/ffi; do not edit. */
#ifndef UMBO_OPTIMIZER_H
#define UMBO_OPTIMIZER_H

/**
 * @file optimizer.h
 * @brief Optimizers: rules that change variables by gradients, with their state.
 *
 * The caller releases an optimizer. Its state is made on the parameter device when it meets a
 * variable, and belongs to it. An apply takes part in a step: what it changes becomes central state
 * with the step, or at once between steps, all of it or nothing.
 *
 * Threads: all functions are *serialised* on one optimizer, and applies with the strategy's steps
 * too.
 *
 * Functions:
 * - umbo_optimizer_create_sgd(): Stochastic gradient descent, for variables of the strategy: w = w
 *   - learning_rate * g.
 * - umbo_optimizer_create_momentum(): Gradient descent with momentum, for variables of the
 *   strategy: a = momentum * a + g, then w = w - learning_rate * a, or with Nesterov's momentum w
 *   = w - learning_rate * (g + momentum * a).
 * - umbo_optimizer_create_adam(): Adam (Kingma and Ba, 2015, Algorithm 1), for variables of the
 *   strategy: m = beta1 * m + (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g, and with both
 *   corrected for their start at zero, w = w - learning_rate * m / (sqrt(v) + epsilon).
 * - umbo_optimizer_create_adamw(): AdamW (Loshchilov and Hutter, 2019), for variables of the
 *   strategy: w = (1 - learning_rate * weight_decay) * w, then the step of Adam, whose states "m"
 *   and "v" have nothing of the decay.
 * - umbo_optimizer_create_lamb(): LAMB (You et al., 2020), for variables of the strategy: with
 *   Adam's direction r = m / (sqrt(v) + epsilon), corrected, and u = r + weight_decay * w, it is
 *   w = w - learning_rate * |w| / |u| * u for each variable, where |w| / |u| is 1 if one of the
 *   norms is 0.
 * - umbo_optimizer_create_adagrad(): Adagrad (Duchi, Hazan and Singer, 2011), for variables of the
 *   strategy: n = n + g * g, then w = w - learning_rate * g / (sqrt(n) + epsilon).
 * - umbo_optimizer_create_rmsprop(): RMSprop (Tieleman and Hinton, 2012), for variables of the
 *   strategy: v = rho * v + (1 - rho) * g * g and d = sqrt(v) + epsilon; centered (Graves, 2013),
 *   a = rho * a + (1 - rho) * g and d = sqrt(v - a * a) + epsilon; then w = w - learning_rate * g
 *   / d, or with momentum b = momentum * b + g / d and w = w - learning_rate * b.
 * - umbo_optimizer_create_ftrl(): FTRL-Proximal (McMahan et al., 2013, Algorithm 1), for variables
 *   of the strategy: s = (sqrt(n + g * g) - sqrt(n)) / learning_rate, z = z + g - s * w, n = n +
 *   g * g, then w = 0 where |z| <= l1, else w = -(z - sign(z) * l1) / ((beta + sqrt(n)) /
 *   learning_rate + l2).
 * - umbo_optimizer_configure(): Replaces all settings of the optimizer, from the next apply on.
 * - umbo_optimizer_add_group(): Treats `count` variables, from the next apply on, as `options`
 *   (NULL: all defaults) say.
 * - umbo_optimizer_set_schedule(): Takes the learning rate of each update from `schedule`, in
 *   place of the one before.
 * - umbo_optimizer_loss_scale(): What callbacks multiply their loss (or their gradients) with, in
 *   this run and until the next apply.
 * - umbo_optimizer_apply(): Reduces the gradients that the replicas submitted and updates the
 *   variables, in one pass over memory; a norm or a look for values that are not finite is a pass
 *   over the gradients before it.
 * - umbo_optimizer_last_report(): What the last apply did that was carried out, also if it was
 *   deferred; all 0 before the first.
 * - umbo_optimizer_set_learning_rate(): Sets the learning rate, from the next apply on: finite and
 *   0 or more.
 * - umbo_optimizer_learning_rate(): The learning rate of the next apply; while there is a
 *   schedule, that of the last one.
 * - umbo_optimizer_iterations(): How many applies have taken effect.
 * - umbo_optimizer_state(): A copy of what the optimizer keeps for a variable under `name`, such
 *   as "momentum"; the function that makes the optimizer lists the names.
 * - umbo_optimizer_retain(): Another handle to the same object, to be released like the first;
 *   also of what a callback was only lent, which then stays.
 * - umbo_optimizer_release(): Releases a reference.
 * - umbo_optimizer_rule(): The name of the optimizer's rule: "sgd", "momentum", "adam", "adamw",
 *   "lamb", "adagrad", "rmsprop", "ftrl", or what umbo_custom_rule_options says.
 * - umbo_optimizer_setting(): A number of the options that the optimizer was made with, by the
 *   name of its field: "learning_rate", which is what umbo_optimizer_learning_rate() says, or one
 *   of the rule's own, such as "beta1".
 * - umbo_optimizer_get_options(): What the optimizer does around its rule, as it takes effect:
 *   `weight_decay` is a number, that of the rule if umbo_optimizer_configure() gave none, and
 *   `non_finite` is not UMBO_NON_FINITE_AUTO.
 * - umbo_optimizer_get_group_options(): How the optimizer treats a variable: as its group says, or
 *   as those in no group.
 *
 * Example:
 * ```c
 * // Adam with weight decay and clipping.
 * static umbo_status make_optimizer(umbo_strategy *strategy, umbo_optimizer **optimizer) {
 *   umbo_adamw_options rule = umbo_adamw_options_default();
 *   rule.learning_rate = 1e-3;
 *   rule.weight_decay = 1e-2;
 *   return umbo_optimizer_create_adamw(strategy, &rule, optimizer);
 * }
 * ```
 */

#include <umbo/gradients.h>

#ifdef __cplusplus
extern "C" {
#endif


/** Options of stochastic gradient descent. UMBO_SGD_OPTIONS_INIT sets all to default. */
typedef struct umbo_sgd_options {
  /** sizeof(umbo_sgd_options). */
  size_t struct_size;
  /** Finite and 0 or more. By default 0.01. */
  double learning_rate;
} umbo_sgd_options;

/** The starting value of a umbo_sgd_options. */
#define UMBO_SGD_OPTIONS_INIT { sizeof(umbo_sgd_options), 0.01 }

/** UMBO_SGD_OPTIONS_INIT, to be assigned. */
static inline umbo_sgd_options umbo_sgd_options_default(void) {
  umbo_sgd_options value = UMBO_SGD_OPTIONS_INIT;
  return value;
}

/** Options of gradient descent with momentum. UMBO_MOMENTUM_OPTIONS_INIT sets all to default. */
typedef struct umbo_momentum_options {
  /** sizeof(umbo_momentum_options). */
  size_t struct_size;
  /** Finite and 0 or more. By default 0.01. */
  double learning_rate;
  /** The decay factor of the sum of gradients, less than 1. By default 0.9. */
  double momentum;
  /** 1: Nesterov's momentum. */
  int32_t nesterov;
} umbo_momentum_options;

/** The starting value of a umbo_momentum_options. */
#define UMBO_MOMENTUM_OPTIONS_INIT { sizeof(umbo_momentum_options), 0.01, 0.9, 0 }

/** UMBO_MOMENTUM_OPTIONS_INIT, to be assigned. */
static inline umbo_momentum_options umbo_momentum_options_default(void) {
  umbo_momentum_options value = UMBO_MOMENTUM_OPTIONS_INIT;
  return value;
}

/** Options of Adam. UMBO_ADAM_OPTIONS_INIT sets all to default. */
typedef struct umbo_adam_options {
  /** sizeof(umbo_adam_options). */
  size_t struct_size;
  /** Finite and 0 or more. By default 0.001. */
  double learning_rate;
  /** The decay factor of the first moment, less than 1. By default 0.9. */
  double beta1;
  /** The decay factor of the second moment, less than 1. By default 0.999. */
  double beta2;
  /** What is added to the square root of the second moment. By default 1e-8. */
  double epsilon;
} umbo_adam_options;

/** The starting value of a umbo_adam_options. */
#define UMBO_ADAM_OPTIONS_INIT { sizeof(umbo_adam_options), 0.001, 0.9, 0.999, 1e-8 }

/** UMBO_ADAM_OPTIONS_INIT, to be assigned. */
static inline umbo_adam_options umbo_adam_options_default(void) {
  umbo_adam_options value = UMBO_ADAM_OPTIONS_INIT;
  return value;
}

/** Options of Adam with decoupled weight decay. UMBO_ADAMW_OPTIONS_INIT sets all to default. */
typedef struct umbo_adamw_options {
  /** sizeof(umbo_adamw_options). */
  size_t struct_size;
  /** Finite and 0 or more. By default 0.001. */
  double learning_rate;
  /** The decay factor of the first moment, less than 1. By default 0.9. */
  double beta1;
  /** The decay factor of the second moment, less than 1. By default 0.999. */
  double beta2;
  /** What is added to the square root of the second moment. By default 1e-8. */
  double epsilon;
  /** The decay, which is multiplied with the learning rate. By default 0.01. */
  double weight_decay;
} umbo_adamw_options;

/** The starting value of a umbo_adamw_options. */
#define UMBO_ADAMW_OPTIONS_INIT { sizeof(umbo_adamw_options), 0.001, 0.9, 0.999, 1e-8, 0.01 }

/** UMBO_ADAMW_OPTIONS_INIT, to be assigned. */
static inline umbo_adamw_options umbo_adamw_options_default(void) {
  umbo_adamw_options value = UMBO_ADAMW_OPTIONS_INIT;
  return value;
}

/** Options of LAMB. UMBO_LAMB_OPTIONS_INIT sets all to default. */
typedef struct umbo_lamb_options {
  /** sizeof(umbo_lamb_options). */
  size_t struct_size;
  /** Finite and 0 or more. By default 0.001. */
  double learning_rate;
  /** The decay factor of the first moment, less than 1. By default 0.9. */
  double beta1;
  /** The decay factor of the second moment, less than 1. By default 0.999. */
  double beta2;
  /** What is added to the square root of the second moment. By default 1e-6. */
  double epsilon;
  /** The decay, as a part of the direction whose norm is adapted. By default 0.01. */
  double weight_decay;
} umbo_lamb_options;

/** The starting value of a umbo_lamb_options. */
#define UMBO_LAMB_OPTIONS_INIT { sizeof(umbo_lamb_options), 0.001, 0.9, 0.999, 1e-6, 0.01 }

/** UMBO_LAMB_OPTIONS_INIT, to be assigned. */
static inline umbo_lamb_options umbo_lamb_options_default(void) {
  umbo_lamb_options value = UMBO_LAMB_OPTIONS_INIT;
  return value;
}

/** Options of Adagrad. UMBO_ADAGRAD_OPTIONS_INIT sets all to default. */
typedef struct umbo_adagrad_options {
  /** sizeof(umbo_adagrad_options). */
  size_t struct_size;
  /** Finite and 0 or more. By default 0.01. */
  double learning_rate;
  /** Where the sums of squares start; 0 or more. */
  double initial_accumulator;
  /** What is added to the square root of the sum of squares. By default 1e-10. */
  double epsilon;
} umbo_adagrad_options;

/** The starting value of a umbo_adagrad_options. */
#define UMBO_ADAGRAD_OPTIONS_INIT { sizeof(umbo_adagrad_options), 0.01, 0.0, 1e-10 }

/** UMBO_ADAGRAD_OPTIONS_INIT, to be assigned. */
static inline umbo_adagrad_options umbo_adagrad_options_default(void) {
  umbo_adagrad_options value = UMBO_ADAGRAD_OPTIONS_INIT;
  return value;
}

/** Options of RMSprop. UMBO_RMSPROP_OPTIONS_INIT sets all to default. */
typedef struct umbo_rmsprop_options {
  /** sizeof(umbo_rmsprop_options). */
  size_t struct_size;
  /** Finite and 0 or more. By default 0.01. */
  double learning_rate;
  /** The decay factor of the moments, less than 1. By default 0.99. */
  double rho;
  /** The decay factor of the sum of steps, less than 1; 0: no momentum. */
  double momentum;
  /** What is added to the square root of the second moment. By default 1e-8. */
  double epsilon;
  /** 1: the second moment is taken about the mean. */
  int32_t centered;
} umbo_rmsprop_options;

/** The starting value of a umbo_rmsprop_options. */
#define UMBO_RMSPROP_OPTIONS_INIT { sizeof(umbo_rmsprop_options), 0.01, 0.99, 0.0, 1e-8, 0 }

/** UMBO_RMSPROP_OPTIONS_INIT, to be assigned. */
static inline umbo_rmsprop_options umbo_rmsprop_options_default(void) {
  umbo_rmsprop_options value = UMBO_RMSPROP_OPTIONS_INIT;
  return value;
}

/** Options of FTRL-Proximal. UMBO_FTRL_OPTIONS_INIT sets all to default. */
typedef struct umbo_ftrl_options {
  /** sizeof(umbo_ftrl_options). */
  size_t struct_size;
  /** Finite and more than 0. By default 0.1. */
  double learning_rate;
  /** What is added to the square root of the sum of squares. By default 1. */
  double beta;
  /** The strength of the L1 regularisation; 0 or more. */
  double l1;
  /** The strength of the L2 regularisation; 0 or more. */
  double l2;
  /** Where the sums of squares start; 0 or more. */
  double initial_accumulator;
} umbo_ftrl_options;

/** The starting value of a umbo_ftrl_options. */
#define UMBO_FTRL_OPTIONS_INIT { sizeof(umbo_ftrl_options), 0.1, 1.0, 0.0, 0.0, 0.0 }

/** UMBO_FTRL_OPTIONS_INIT, to be assigned. */
static inline umbo_ftrl_options umbo_ftrl_options_default(void) {
  umbo_ftrl_options value = UMBO_FTRL_OPTIONS_INIT;
  return value;
}

/**
 * Stochastic gradient descent, for variables of the strategy: w = w - learning_rate * g.
 * `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_sgd(
    umbo_strategy *strategy, const umbo_sgd_options *options, umbo_optimizer **optimizer);

/**
 * Gradient descent with momentum, for variables of the strategy: a = momentum * a + g, then
 * w = w - learning_rate * a, or with Nesterov's momentum w = w - learning_rate * (g + momentum *
 * a). The state "momentum" is a. `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_momentum(
    umbo_strategy *strategy, const umbo_momentum_options *options, umbo_optimizer **optimizer);

/**
 * Adam (Kingma and Ba, 2015, Algorithm 1), for variables of the strategy: m = beta1 * m +
 * (1 - beta1) * g, v = beta2 * v + (1 - beta2) * g * g, and with both corrected for their start
 * at zero, w = w - learning_rate * m / (sqrt(v) + epsilon). The states are "m" and "v", before the
 * correction. `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adam(
    umbo_strategy *strategy, const umbo_adam_options *options, umbo_optimizer **optimizer);

/**
 * AdamW (Loshchilov and Hutter, 2019), for variables of the strategy: w = (1 - learning_rate *
 * weight_decay) * w, then the step of Adam, whose states "m" and "v" have nothing of the decay.
 * `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adamw(
    umbo_strategy *strategy, const umbo_adamw_options *options, umbo_optimizer **optimizer);

/**
 * LAMB (You et al., 2020), for variables of the strategy: with Adam's direction r = m / (sqrt(v) +
 * epsilon), corrected, and u = r + weight_decay * w, it is w = w - learning_rate * |w| / |u| * u
 * for each variable, where |w| / |u| is 1 if one of the norms is 0. The states are "m" and "v". The
 * norms cost one more pass over memory. `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_lamb(
    umbo_strategy *strategy, const umbo_lamb_options *options, umbo_optimizer **optimizer);

/**
 * Adagrad (Duchi, Hazan and Singer, 2011), for variables of the strategy: n = n + g * g, then
 * w = w - learning_rate * g / (sqrt(n) + epsilon). The state "accumulator" is n. `options` may be
 * NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adagrad(
    umbo_strategy *strategy, const umbo_adagrad_options *options, umbo_optimizer **optimizer);

/**
 * RMSprop (Tieleman and Hinton, 2012), for variables of the strategy: v = rho * v + (1 - rho) *
 * g * g and d = sqrt(v) + epsilon; centered (Graves, 2013), a = rho * a + (1 - rho) * g and
 * d = sqrt(v - a * a) + epsilon; then w = w - learning_rate * g / d, or with momentum b = momentum
 * * b + g / d and w = w - learning_rate * b. The states are "v", "mean" (a) and "momentum" (b), as
 * far as there are any. `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_rmsprop(
    umbo_strategy *strategy, const umbo_rmsprop_options *options, umbo_optimizer **optimizer);

/**
 * FTRL-Proximal (McMahan et al., 2013, Algorithm 1), for variables of the strategy: s = (sqrt(n + g
 * * g) - sqrt(n)) / learning_rate, z = z + g - s * w, n = n + g * g, then w = 0 where |z| <= l1,
 * else w = -(z - sign(z) * l1) / ((beta + sqrt(n)) / learning_rate + l2). The states are "z" and
 * "n". Weights follow from the states alone: start them at 0. `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_ftrl(
    umbo_strategy *strategy, const umbo_ftrl_options *options, umbo_optimizer **optimizer);

/** The weight decay that the options of the rule say. */
#define UMBO_WEIGHT_DECAY_OF_RULE (-1.0)

/** The weight decay of all variables that are in no group. */
#define UMBO_WEIGHT_DECAY_OF_OPTIMIZER (-1.0)

/** A bound that clips nothing. */
#define UMBO_NO_CLIPPING (-1.0)

/** What an apply does with gradients that are not finite. */
UMBO_ENUM(umbo_non_finite) {
  /**
   * UMBO_NON_FINITE_SKIP with a dynamic loss scale, UMBO_NON_FINITE_FAIL with `global_clip_norm`,
   * since one element would spoil all variables, else UMBO_NON_FINITE_IGNORE.
   */
  UMBO_NON_FINITE_AUTO = 0,
  /**
   * It applies them like any others, so that NaN and infinity get into the weights. The report
   * names the first variable, and the log gets one warning for each optimizer.
   */
  UMBO_NON_FINITE_IGNORE = 1,
  /** It changes no variable and no state, uses the gradients up and reports `skipped`. */
  UMBO_NON_FINITE_SKIP = 2,
  /**
   * It fails with INVALID_ARGUMENT, naming variable, step, replica and first element; nothing is
   * changed.
   */
  UMBO_NON_FINITE_FAIL = 3
};

/**
 * Whether losses are multiplied with a factor, so that small gradients of 16 bits do not vanish.
 */
UMBO_ENUM(umbo_loss_scaling) {
  /** They are not. */
  UMBO_LOSS_SCALING_NONE = 0,
  /** By the same factor in all runs. */
  UMBO_LOSS_SCALING_FIXED = 1,
  /** The factor grows after applies that took effect, and backs off when one is skipped. */
  UMBO_LOSS_SCALING_DYNAMIC = 2
};

/**
 * What an optimizer does around its rule; for umbo_optimizer_configure(). An apply sums what the
 * replicas submitted, takes the loss scale out, clips by the norm, then by the value, adds the
 * weight decay, and updates. UMBO_OPTIMIZER_OPTIONS_INIT sets all to default: everything is off.
 */
typedef struct umbo_optimizer_options {
  /** sizeof(umbo_optimizer_options). */
  size_t struct_size;
  /**
   * The weight decay. AdamW and LAMB decay weights beside the gradient (decoupled); for all other
   * rules weight_decay * w is added to the gradient (L2). UMBO_WEIGHT_DECAY_OF_RULE, the default:
   * what the options of the rule say, and where they say nothing, none.
   */
  double weight_decay;
  /**
   * The largest norm of all gradients of an apply together; if it is larger, all of them are
   * scaled down to it. UMBO_NO_CLIPPING, the default: no bound. The norm is found in a pass of its
   * own, and likewise whether all gradients are finite where `non_finite` asks for that. With more
   * than two replicas, or several accumulated runs, that pass keeps the aggregated gradients, which
   * takes as much memory as the variables, from the first apply on until the gradients are
   * released; where there is no such memory, it takes time instead.
   */
  double global_clip_norm;
  /**
   * The largest magnitude of each element of a gradient. UMBO_NO_CLIPPING, the default: no bound.
   */
  double clip_value;
  /**
   * What an apply does with gradients that are not finite. A dynamic loss scale cannot be had with
   * another than SKIP. Where runs are accumulated, FAIL looks at each of them before it is added,
   * SKIP at the sum when it is applied.
   */
  umbo_non_finite non_finite;
  /** Whether there is a loss scale, and whether it adapts. By default there is none. */
  umbo_loss_scaling loss_scaling;
  /**
   * What the callbacks multiply their loss with, and an apply divides by, where there is a loss
   * scale; see umbo_optimizer_loss_scale(). A dynamic one starts there. By default 65536.
   */
  double loss_scale;
  /** What a dynamic loss scale is multiplied with to grow, more than 1. By default 2. */
  double loss_scale_growth_factor;
  /** What it is multiplied with to back off, less than 1. By default 0.5. */
  double loss_scale_backoff_factor;
  /** The least that it becomes. By default 1. */
  double loss_scale_minimum;
  /** It grows after so many applies in a row that took effect. By default 2000. */
  int64_t loss_scale_growth_interval;
} umbo_optimizer_options;

/** The starting value of a umbo_optimizer_options. */
#define UMBO_OPTIMIZER_OPTIONS_INIT \
  { sizeof(umbo_optimizer_options), UMBO_WEIGHT_DECAY_OF_RULE, UMBO_NO_CLIPPING, UMBO_NO_CLIPPING, \
    UMBO_NON_FINITE_AUTO, UMBO_LOSS_SCALING_NONE, 65536.0, 2.0, 0.5, 1.0, 2000 }

/** UMBO_OPTIMIZER_OPTIONS_INIT, to be assigned. */
static inline umbo_optimizer_options umbo_optimizer_options_default(void) {
  umbo_optimizer_options value = UMBO_OPTIMIZER_OPTIONS_INIT;
  return value;
}

/** How the variables of a group are treated. Start from UMBO_GROUP_OPTIONS_INIT. */
typedef struct umbo_group_options {
  /** sizeof(umbo_group_options). */
  size_t struct_size;
  /** What the learning rate is multiplied with, 0 or more. By default 1. */
  double learning_rate_factor;
  /**
   * Their weight decay; 0, as is usual for biases and normalisation: none.
   * UMBO_WEIGHT_DECAY_OF_OPTIMIZER, the default: that of the optimizer.
   */
  double weight_decay;
  /** 1: they are not updated, and their gradients are neither looked at nor part of the norm. */
  int32_t frozen;
} umbo_group_options;

/** The starting value of a umbo_group_options. */
#define UMBO_GROUP_OPTIONS_INIT \
  { sizeof(umbo_group_options), 1.0, UMBO_WEIGHT_DECAY_OF_OPTIMIZER, 0 }

/** UMBO_GROUP_OPTIONS_INIT, to be assigned. */
static inline umbo_group_options umbo_group_options_default(void) {
  umbo_group_options value = UMBO_GROUP_OPTIONS_INIT;
  return value;
}

/**
 * Tells the learning rate of an update. `step` counts the updates of the optimizer before it;
 * `learning_rate` is to be written, finite and 0 or more. Called by each apply that is to update
 * (also if that then finds a gradient that is not finite and is skipped), on the thread that
 * carries it out. Functions of the strategy that run steps or change its state (runs, applies,
 * assignments, umbo_strategy_synchronize()) fail with UMBO_STATUS_FAILED_PRECONDITION here. A
 * status other than UMBO_OK makes the apply fail, which changes nothing.
 */
typedef umbo_status (*umbo_schedule_fn)(int64_t step, void *user_data, double *learning_rate);

/** Options of an apply. UMBO_APPLY_OPTIONS_INIT sets all to default. */
typedef struct umbo_apply_options {
  /** sizeof(umbo_apply_options). */
  size_t struct_size;
  /**
   * 1: update now, also if the gradients have accumulated fewer runs than their
   * `accumulation_steps`: at the end of an epoch, say. Runs that earlier applies have accumulated
   * are applied without another run, after the loop.
   */
  int32_t flush;
  /**
   * 1: report the norm of the gradient also if clipping does not need it; costs a pass over the
   * gradients, and the memory that it says at `global_clip_norm`.
   */
  int32_t measure_norm;
} umbo_apply_options;

/** The starting value of a umbo_apply_options. */
#define UMBO_APPLY_OPTIONS_INIT { sizeof(umbo_apply_options), 0, 0 }

/** UMBO_APPLY_OPTIONS_INIT, to be assigned. */
static inline umbo_apply_options umbo_apply_options_default(void) {
  umbo_apply_options value = UMBO_APPLY_OPTIONS_INIT;
  return value;
}

/** What an apply did. Start from UMBO_APPLY_REPORT_INIT. */
typedef struct umbo_apply_report {
  /** sizeof(umbo_apply_report). */
  size_t struct_size;
  /**
   * 1: the apply took effect, and `variables_updated` variables were updated. 0: not yet
   * (`deferred`, or `accumulated_runs` is not 0), or not at all (`skipped`, or the total weight was
   * 0), in which case the gradients are used up.
   */
  int32_t applied;
  /**
   * 1: the apply was called inside of a run and waits for its commit point; all other fields
   * are 0. umbo_optimizer_last_report() says later what it did.
   */
  int32_t deferred;
  /**
   * How many variables were updated: those that a replica of non-zero weight viewed and that are
   * not frozen. There may be none.
   */
  int64_t variables_updated;
  /** 1: a gradient was not finite, so nothing was updated. */
  int32_t skipped;
  /** The sum of the replicas' weights, over all accumulated runs. */
  double total_weight;
  /** How many applies of this optimizer have taken effect, with this one. */
  int64_t iterations;
  /**
   * The norm of all gradients together, without the loss scale, before clipping and without
   * weight decay; -1 if it was not measured.
   */
  double gradient_norm;
  /** The learning rate of the update; 0 if there was none. */
  double learning_rate;
  /** The loss scale of the next run. */
  double loss_scale;
  /**
   * The name of the first variable whose gradient (or, with global_clip_norm, its norm) was not
   * finite, also if it was applied; NULL if all are finite. Lives as long as the variable.
   */
  const char *non_finite_variable;
  /** 1: the norm was larger than global_clip_norm. */
  int32_t clipped;
  /** How many runs are accumulated and wait for an update. */
  int64_t accumulated_runs;
} umbo_apply_report;

/** The starting value of a umbo_apply_report. */
#define UMBO_APPLY_REPORT_INIT \
  { sizeof(umbo_apply_report), 0, 0, 0, 0, 0.0, 0, 0.0, 0.0, 0.0, NULL, 0, 0 }

/** UMBO_APPLY_REPORT_INIT, to be assigned. */
static inline umbo_apply_report umbo_apply_report_default(void) {
  umbo_apply_report value = UMBO_APPLY_REPORT_INIT;
  return value;
}

/**
 * Replaces all settings of the optimizer, from the next apply on. `options` may be NULL: everything
 * is off. The loss scale starts anew if its settings are other ones than before. INVALID_ARGUMENT:
 * settings that are out of range or exclude each other.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_configure(
    umbo_optimizer *optimizer, const umbo_optimizer_options *options);

/**
 * Treats `count` variables, from the next apply on, as `options` (NULL: all defaults) say. A
 * variable is in one group at most; those in none are treated as umbo_optimizer_configure() says.
 *
 * INVALID_ARGUMENT: a variable of another strategy or in a group already (none of the variables is
 * then in the group), options that are out of range or exclude each other.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_add_group(
    umbo_optimizer *optimizer, int64_t count, umbo_variable *const *variables,
    const umbo_group_options *options);

/**
 * Takes the learning rate of each update from `schedule`, in place of the one before. NULL keeps
 * the learning rate where it is, as umbo_optimizer_set_learning_rate() does. `destroy` (or NULL)
 * releases `user_data` when the schedule is replaced or the optimizer is gone, and also if this
 * function fails.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_schedule(
    umbo_optimizer *optimizer, umbo_schedule_fn schedule, void *user_data,
    umbo_destroy_fn destroy);

/**
 * What callbacks multiply their loss (or their gradients) with, in this run and until the next
 * apply. May be called inside of a run. 1 where no loss scale was configured. Several gradients of
 * one run may be applied after it, one by one: each apply divides by the scale that the run had.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_loss_scale(
    const umbo_optimizer *optimizer, double *loss_scale);

/**
 * Reduces the gradients that the replicas submitted and updates the variables, in one pass over
 * memory; a norm or a look for values that are not finite is a pass over the gradients before it.
 * Uses the gradients up: apply once for each run. `options` may be NULL; `report` may be NULL.
 *
 * With gradients whose `accumulation_steps` is k, every k-th apply updates; the others add what was
 * submitted to a sum, and report `accumulated_runs`.
 *
 * After a run it acts at once; it waits for a run that another thread has in progress. Inside of a
 * run it is deferred to the commit point, takes what the replicas have submitted by then, and is
 * reported as `deferred`; called by a replica's callback it synchronises, and all replicas call
 * it. If the run fails, nothing is applied; if a deferred apply fails, so does the run. An apply
 * that fails changes nothing.
 *
 * FAILED_PRECONDITION: nothing was submitted since the last apply, a replica did not submit (it is
 * named), the last run failed, the context of another strategy, a strategy that was released.
 * INVALID_ARGUMENT: optimizer and gradients of different strategies, or a gradient that is not
 * finite where that was to fail (umbo_optimizer_options). Also whatever a schedule fails with.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_apply(
    umbo_optimizer *optimizer, umbo_gradients *gradients, const umbo_apply_options *options,
    umbo_apply_report *report);

/**
 * What the last apply did that was carried out, also if it was deferred; all 0 before the first.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_last_report(
    const umbo_optimizer *optimizer, umbo_apply_report *report);

/** Sets the learning rate, from the next apply on: finite and 0 or more. Ends a schedule. */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_learning_rate(
    umbo_optimizer *optimizer, double learning_rate);

/** The learning rate of the next apply; while there is a schedule, that of the last one. */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_learning_rate(
    const umbo_optimizer *optimizer, double *learning_rate);

/** How many applies have taken effect. */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_iterations(
    const umbo_optimizer *optimizer, int64_t *iterations);

/**
 * A copy of what the optimizer keeps for a variable under `name`, such as "momentum"; the function
 * that makes the optimizer lists the names. It is of the variable's dtype and shape. NOT_FOUND: a
 * name that its rule does not have, or a variable that it has not updated yet.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_state(
    const umbo_optimizer *optimizer, const umbo_variable *variable, const char *name,
    umbo_tensor **state);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_retain(
    const umbo_optimizer *optimizer, umbo_optimizer **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_optimizer_release(const umbo_optimizer *optimizer);

/**
 * The name of the optimizer's rule: "sgd", "momentum", "adam", "adamw", "lamb", "adagrad",
 * "rmsprop", "ftrl", or what umbo_custom_rule_options says.
 *
 * @param optimizer The optimizer.
 * @param name Gets the name. Lives as long as the optimizer.
 * @return UMBO_OK.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_rule(
    const umbo_optimizer *optimizer, const char **name);

/**
 * A number of the options that the optimizer was made with, by the name of its field:
 * "learning_rate", which is what umbo_optimizer_learning_rate() says, or one of the rule's own,
 * such as "beta1". Fields that are 0 or 1 are so here.
 *
 * @param optimizer The optimizer.
 * @param name The name of the field.
 * @param value Gets the number.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND, with the names that there are, for another name.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_setting(
    const umbo_optimizer *optimizer, const char *name, double *value);

/**
 * What the optimizer does around its rule, as it takes effect: `weight_decay` is a number, that of
 * the rule if umbo_optimizer_configure() gave none, and `non_finite` is not UMBO_NON_FINITE_AUTO.
 * What belongs to a loss scale that there is not has its default.
 *
 * @param optimizer The optimizer.
 * @param options Start from UMBO_OPTIMIZER_OPTIONS_INIT; gets the settings, and can be given to
 * umbo_optimizer_configure().
 * @return UMBO_OK.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_get_options(
    const umbo_optimizer *optimizer, umbo_optimizer_options *options);

/**
 * How the optimizer treats a variable: as its group says, or as those in no group.
 *
 * @param optimizer The optimizer.
 * @param variable A variable of the optimizer's strategy.
 * @param options Start from UMBO_GROUP_OPTIONS_INIT; gets the treatment, with the weight decay that
 * updates take.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT for a variable of another strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_get_group_options(
    const umbo_optimizer *optimizer, const umbo_variable *variable, umbo_group_options *options);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

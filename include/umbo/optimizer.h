/* Generated from src; do not edit. */
#ifndef UMBO_OPTIMIZER_H
#define UMBO_OPTIMIZER_H

/**
 * @file optimizer.h
 * @brief Optimizers: rules that change variables by gradients, with their state.
 *
 * An optimizer makes its state for a variable, on the parameter device, when it first updates it.
 * Formulas are for each element w of a variable, with its gradient g; docs/concepts.md compares
 * rules and defaults with those of other libraries.
 *
 * Threads: all functions on one optimizer are *serialised*. Applies are also serialised with the
 * strategy's steps.
 *
 * Example:
 * ```c
 * // Adam with weight decay and clipping.
 * static umbo_status make_optimizer(umbo_strategy *strategy, umbo_optimizer **optimizer) {
 *   UMBO_TRY(umbo_optimizer_create_adamw(
 *       strategy, &UMBO_OPTIONS(umbo_adamw, .learning_rate = 1e-3), optimizer));
 *   return umbo_optimizer_configure(
 *       *optimizer, &UMBO_OPTIONS(umbo_optimizer, .global_clip_norm = 1.0));
 * }
 * ```
 */

#include <umbo/gradients.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Options of gradient descent. */
typedef struct umbo_sgd_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
} umbo_sgd_options;

#define umbo_sgd_options_defaults UMBO_STRUCT_SIZE(umbo_sgd_options), 0.01
#define UMBO_SGD_OPTIONS_INIT { umbo_sgd_options_defaults }

/** Options of gradient descent with momentum. */
typedef struct umbo_momentum_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the sum of gradients; in [0, 1). */
  double momentum;
  /** 1: Nesterov's momentum. */
  int32_t nesterov;
  /**
   * The share of a gradient that is left out of the sum; in [0, 1]. 0 with Nesterov's momentum.
   * Without effect if `momentum` is 0.
   */
  double dampening;
} umbo_momentum_options;

#define umbo_momentum_options_defaults UMBO_STRUCT_SIZE(umbo_momentum_options), 0.01, 0.9, 0, 0.0
#define UMBO_MOMENTUM_OPTIONS_INIT { umbo_momentum_options_defaults }

/** Options of Adam. */
typedef struct umbo_adam_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the first moment; in [0, 1). */
  double beta1;
  /** The decay of the second moment; in [0, 1). */
  double beta2;
  /** Added to the root of the second moment; more than 0. */
  double epsilon;
  /** 1: the largest second moment so far takes the place of the second moment (AMSGrad). */
  int32_t amsgrad;
} umbo_adam_options;

#define umbo_adam_options_defaults UMBO_STRUCT_SIZE(umbo_adam_options), 0.001, 0.9, 0.999, 1e-8, 0
#define UMBO_ADAM_OPTIONS_INIT { umbo_adam_options_defaults }

/** Options of AdamW. */
typedef struct umbo_adamw_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the first moment; in [0, 1). */
  double beta1;
  /** The decay of the second moment; in [0, 1). */
  double beta2;
  /** Added to the root of the second moment; more than 0. */
  double epsilon;
  /** Is multiplied by the learning rate; finite and 0 or more. */
  double weight_decay;
  /** 1: the largest second moment so far takes the place of the second moment (AMSGrad). */
  int32_t amsgrad;
} umbo_adamw_options;

#define umbo_adamw_options_defaults \
  UMBO_STRUCT_SIZE(umbo_adamw_options), 0.001, 0.9, 0.999, 1e-8, 0.01, 0
#define UMBO_ADAMW_OPTIONS_INIT { umbo_adamw_options_defaults }

/** Options of NAdam. */
typedef struct umbo_nadam_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the first moment; in [0, 1). */
  double beta1;
  /** The decay of the second moment; in [0, 1). */
  double beta2;
  /** Added to the root of the second moment; more than 0. */
  double epsilon;
  /** How fast the momentum rises from about half of beta1 to beta1; finite and 0 or more. */
  double momentum_decay;
  /**
   * 1: the weight decay of umbo_optimizer_options is applied apart from the gradient, as AdamW
   * does. 0: it is added to the gradient.
   */
  int32_t decoupled_weight_decay;
} umbo_nadam_options;

#define umbo_nadam_options_defaults \
  UMBO_STRUCT_SIZE(umbo_nadam_options), 0.002, 0.9, 0.999, 1e-8, 0.004, 0
#define UMBO_NADAM_OPTIONS_INIT { umbo_nadam_options_defaults }

/** Options of RAdam. */
typedef struct umbo_radam_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the first moment; in [0, 1). */
  double beta1;
  /** The decay of the second moment; in [0, 1). */
  double beta2;
  /** Added to the root of the second moment; more than 0. */
  double epsilon;
  /** As in umbo_nadam_options. */
  int32_t decoupled_weight_decay;
} umbo_radam_options;

#define umbo_radam_options_defaults UMBO_STRUCT_SIZE(umbo_radam_options), 0.001, 0.9, 0.999, 1e-8, 0
#define UMBO_RADAM_OPTIONS_INIT { umbo_radam_options_defaults }

/** Options of Lion. */
typedef struct umbo_lion_options {
  size_t struct_size;
  /** The size of each step; finite and 0 or more. */
  double learning_rate;
  /** The share of the momentum in a step; in [0, 1). */
  double beta1;
  /** The decay of the momentum; in [0, 1). */
  double beta2;
  /** Is multiplied by the learning rate; finite and 0 or more. */
  double weight_decay;
} umbo_lion_options;

#define umbo_lion_options_defaults UMBO_STRUCT_SIZE(umbo_lion_options), 0.0001, 0.9, 0.99, 0.0
#define UMBO_LION_OPTIONS_INIT { umbo_lion_options_defaults }

/** Options of LAMB. */
typedef struct umbo_lamb_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the first moment; in [0, 1). */
  double beta1;
  /** The decay of the second moment; in [0, 1). */
  double beta2;
  /** Added to the root of the second moment; more than 0. */
  double epsilon;
  /** A part of the direction whose norm is adapted; finite and 0 or more. */
  double weight_decay;
} umbo_lamb_options;

#define umbo_lamb_options_defaults \
  UMBO_STRUCT_SIZE(umbo_lamb_options), 0.001, 0.9, 0.999, 1e-6, 0.01
#define UMBO_LAMB_OPTIONS_INIT { umbo_lamb_options_defaults }

/** Options of LARS. */
typedef struct umbo_lars_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the sum of steps; in [0, 1). */
  double momentum;
  /** The factor of the quotient of the norms; finite and 0 or more. */
  double trust_coefficient;
  /** A part of the direction whose norm is adapted; finite and 0 or more. */
  double weight_decay;
} umbo_lars_options;

#define umbo_lars_options_defaults UMBO_STRUCT_SIZE(umbo_lars_options), 0.1, 0.9, 0.001, 0.0
#define UMBO_LARS_OPTIONS_INIT { umbo_lars_options_defaults }

/** Options of Muon. */
typedef struct umbo_muon_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the momentum; in [0, 1). */
  double momentum;
  /** 1: Nesterov's momentum. */
  int32_t nesterov;
  /** Is multiplied by the learning rate; finite and 0 or more. */
  double weight_decay;
  /** The least norm that a matrix is divided by; more than 0. */
  double epsilon;
  /** 1: steps are as large as those of AdamW, for its learning rate and weight decay. */
  int32_t match_adamw;
} umbo_muon_options;

#define umbo_muon_options_defaults UMBO_STRUCT_SIZE(umbo_muon_options), 0.001, 0.95, 1, 0.1, 1e-7, 0
#define UMBO_MUON_OPTIONS_INIT { umbo_muon_options_defaults }

/** Options of Adafactor. */
typedef struct umbo_adafactor_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The exponent of t in a gradient's share of the second moments; 0 or less. */
  double beta2_decay;
  /**
   * The least root of a second moment, more than 0; 0: the distance from 1 to the next number of
   * the variable's type.
   */
  double epsilon1;
  /** The least size of the weights from which the length of a step follows; 0 or more. */
  double epsilon2;
  /** The size (d) from which on steps are scaled down; 1 or more. */
  double clip_threshold;
  /** Is multiplied by the learning rate; finite and 0 or more. */
  double weight_decay;
} umbo_adafactor_options;

#define umbo_adafactor_options_defaults \
  UMBO_STRUCT_SIZE(umbo_adafactor_options), 0.01, -0.8, 0.0, 1e-3, 1.0, 0.0
#define UMBO_ADAFACTOR_OPTIONS_INIT { umbo_adafactor_options_defaults }

/** Options of Adagrad. */
typedef struct umbo_adagrad_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The first value of the sums of squares; finite and 0 or more. */
  double initial_accumulator;
  /** Added to the root of the sum of squares; more than 0. */
  double epsilon;
  /** In update t of a variable the rate is divided by 1 + learning_rate_decay * (t - 1). */
  double learning_rate_decay;
} umbo_adagrad_options;

#define umbo_adagrad_options_defaults UMBO_STRUCT_SIZE(umbo_adagrad_options), 0.01, 0.0, 1e-10, 0.0
#define UMBO_ADAGRAD_OPTIONS_INIT { umbo_adagrad_options_defaults }

/** Options of RMSprop. */
typedef struct umbo_rmsprop_options {
  size_t struct_size;
  /** Finite and 0 or more. */
  double learning_rate;
  /** The decay of the moments; in [0, 1). */
  double rho;
  /** The decay of the sum of steps; in [0, 1). 0: no momentum. */
  double momentum;
  /** Added to the root of the second moment; more than 0. */
  double epsilon;
  /** 1: the second moment is taken about the mean. 0: about zero. */
  int32_t centered;
} umbo_rmsprop_options;

#define umbo_rmsprop_options_defaults \
  UMBO_STRUCT_SIZE(umbo_rmsprop_options), 0.01, 0.99, 0.0, 1e-8, 0
#define UMBO_RMSPROP_OPTIONS_INIT { umbo_rmsprop_options_defaults }

/** Options of FTRL-Proximal. `beta`, `l2` and `initial_accumulator` must not all be 0. */
typedef struct umbo_ftrl_options {
  size_t struct_size;
  /** Finite and more than 0. */
  double learning_rate;
  /** Added to the root of the sum of squares; finite and 0 or more. */
  double beta;
  /** The strength of the L1 regularisation; finite and 0 or more. */
  double l1;
  /** The strength of the L2 regularisation; finite and 0 or more. */
  double l2;
  /** The first value of the sums of squares; finite and 0 or more. */
  double initial_accumulator;
} umbo_ftrl_options;

#define umbo_ftrl_options_defaults UMBO_STRUCT_SIZE(umbo_ftrl_options), 0.1, 1.0, 0.0, 0.0, 0.0
#define UMBO_FTRL_OPTIONS_INIT { umbo_ftrl_options_defaults }

/**
 * Makes an optimizer: gradient descent. It keeps no state.
 *
 * For each element w with gradient g: w = w - learning_rate * g
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_sgd(
    const umbo_strategy *strategy, const umbo_sgd_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: gradient descent with momentum. Its state is "momentum" (a), at first 0.
 *
 * ```text
 * a = momentum * a + g
 * w = w - learning_rate * a                      with nesterov: g + momentum * a in place of a
 * ```
 *
 * With a dampening it adds (1 - dampening) * g, except in the first update of a variable and if
 * momentum is 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_momentum(
    const umbo_strategy *strategy, const umbo_momentum_options *options,
    umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Adam. Its states are "m" and "v", with `amsgrad` also "v_max".
 *
 * In update t (1, 2, ...) of a variable:
 *
 * ```text
 * m = beta1 * m + (1 - beta1) * g                m' = m / (1 - beta1^t)
 * v = beta2 * v + (1 - beta2) * g * g            v' = v / (1 - beta2^t)
 * w = w - learning_rate * m' / (sqrt(v') + epsilon)
 * ```
 *
 * With `amsgrad` the last line takes the largest v so far. Sources: Kingma and Ba, 2015, Algorithm
 * 1; Reddi, Kale and Kumar, 2018.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adam(
    const umbo_strategy *strategy, const umbo_adam_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: AdamW, Adam with decoupled weight decay. Its states are Adam's.
 *
 * First w = (1 - learning_rate * weight_decay) * w, then the step of umbo_optimizer_create_adam(),
 * whose states do not contain the decay. Source: Loshchilov and Hutter, 2019.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adamw(
    const umbo_strategy *strategy, const umbo_adamw_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: NAdam, Adam with Nesterov's momentum. Its states are "m" and "v".
 *
 * In update t (1, 2, ...) of a variable:
 *
 * ```text
 * p(t) = beta1 * (1 - 0.5 * 0.96^(t * momentum_decay))
 * q(t) = 1 - p(1) * p(2) * ... * p(t)
 * m = beta1 * m + (1 - beta1) * g
 * v = beta2 * v + (1 - beta2) * g * g            v' = v / (1 - beta2^t)
 * u = (1 - p(t)) / q(t) * g + p(t + 1) / q(t + 1) * m
 * w = w - learning_rate * u / (sqrt(v') + epsilon)
 * ```
 *
 * With `decoupled_weight_decay` first w = (1 - learning_rate * weight_decay) * w. Source: Dozat,
 * 2016.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_nadam(
    const umbo_strategy *strategy, const umbo_nadam_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: RAdam, Adam whose first steps are rectified. Its states are "m" and "v".
 *
 * In update t (1, 2, ...) of a variable, with n = 2 / (1 - beta2) - 1:
 *
 * ```text
 * m = beta1 * m + (1 - beta1) * g                m' = m / (1 - beta1^t)
 * v = beta2 * v + (1 - beta2) * g * g            v' = (sqrt(v) + epsilon) / sqrt(1 - beta2^t)
 * p = n - 2 * t * beta2^t / (1 - beta2^t)
 * r = sqrt((p - 4) * (p - 2) * n / ((n - 4) * (n - 2) * p))
 * w = w - learning_rate * m' * r / v'            if p is at most 5: w - learning_rate * m'
 * ```
 *
 * With `decoupled_weight_decay` first w = (1 - learning_rate * weight_decay) * w. Source: Liu et
 * al., 2020.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_radam(
    const umbo_strategy *strategy, const umbo_radam_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Lion, whose steps are signs. Its state is "m".
 *
 * ```text
 * u = sign(beta1 * m + (1 - beta1) * g)          sign(0) is 0
 * w = w - learning_rate * (u + weight_decay * w)
 * m = beta2 * m + (1 - beta2) * g
 * ```
 *
 * Source: Chen et al., 2023, whose learning rates for it are 3 to 10 times smaller than for AdamW,
 * and whose weight decays are as many times larger.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_lion(
    const umbo_strategy *strategy, const umbo_lion_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: LAMB. Its states are "m" and "v".
 *
 * For each variable, with m' and v' as in umbo_optimizer_create_adam():
 *
 * ```text
 * u = m' / (sqrt(v') + epsilon) + weight_decay * w
 * w = w - learning_rate * |w| / |u| * u          |w| / |u| is 1 if one of the norms is 0
 * ```
 *
 * The norms take one more pass over memory, and whole variables: row-sparse gradients are refused.
 * Source: You et al., 2020.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_lamb(
    const umbo_strategy *strategy, const umbo_lamb_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: LARS. Its state is "momentum" (a).
 *
 * For each variable:
 *
 * ```text
 * u = g + weight_decay * w
 * r = trust_coefficient * |w| / |u|              1 if one of the norms is 0
 * a = momentum * a + learning_rate * r * u
 * w = w - a
 * ```
 *
 * Each variable has a trust ratio r of its own. The norms take one more pass over memory, and
 * whole variables: row-sparse gradients are refused. Biases and normalisations, which LARS usually
 * leaves out, belong to gradients and an optimizer of their own, such as that of
 * umbo_optimizer_create_momentum(). Source: You, Gitman and Ginsburg, 2017.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_lars(
    const umbo_strategy *strategy, const umbo_lars_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Muon, whose steps are orthogonal matrices. Its state is "momentum" (a).
 *
 * For each variable, which is a matrix of r rows and c columns:
 *
 * ```text
 * a = momentum * a + (1 - momentum) * g
 * u = a                                          with nesterov: momentum * a + (1 - momentum) * g
 * x = u / max(|u|, epsilon)
 * x = 3.4445 * x + (-4.7750 * y + 2.0315 * y * y) * x, with y = x * transposed(x); five times
 * s = sqrt(max(1, r / c))                        with match_adamw: 0.2 * sqrt(max(r, c))
 * w = w - learning_rate * (s * x + weight_decay * w)
 * ```
 *
 * The iteration is computed in float32. Variables that are not matrices, which Muon is not for,
 * and embeddings and the last layer, for which it is worse than AdamW, belong to gradients and an
 * optimizer of their own; an apply of these is refused, and so are row-sparse gradients. On a GPU
 * an apply returns UMBO_STATUS_UNIMPLEMENTED. Source: Jordan et al., 2024.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_muon(
    const umbo_strategy *strategy, const umbo_muon_options *options, umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Adafactor, whose second moments are the means of rows and columns. Its
 * states are "v_row" (R) and "v_column" (C), of a variable of r rows and c columns; for each
 * further dimension before these two it has as many matrices. The state of a variable of fewer
 * dimensions is "v". |x| is the root of the mean of the squares of x.
 *
 * ```text
 * share = t^beta2_decay
 * R = R + share * (mean over columns of g * g - R)
 * C = C + share * (mean over rows of g * g - C)
 * v = R * C / max(epsilon1, mean of R)                  fewer dimensions: v + share * (g * g - v)
 * u = g / sqrt(max(v, epsilon1 * epsilon1))
 * rate = max(epsilon2, |w|) * min(learning_rate, 1 / sqrt(t)) / max(1, |u| / clip_threshold)
 * w = (1 - learning_rate * weight_decay) * w - rate * u
 * ```
 *
 * An apply of row-sparse gradients is refused. On a GPU an apply returns
 * UMBO_STATUS_UNIMPLEMENTED. Source: Shazeer and Stern, 2018, in PyTorch's form.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adafactor(
    const umbo_strategy *strategy, const umbo_adafactor_options *options,
    umbo_optimizer **optimizer);

/**
 * Makes an optimizer: Adagrad. Its state is "accumulator" (n), at first `initial_accumulator`.
 *
 * ```text
 * n = n + g * g
 * w = w - learning_rate * g / (sqrt(n) + epsilon)
 * ```
 *
 * Source: Duchi, Hazan and Singer, 2011.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_adagrad(
    const umbo_strategy *strategy, const umbo_adagrad_options *options,
    umbo_optimizer **optimizer);

/**
 * Makes an optimizer: RMSprop. Its states are "v", with `centered` also "mean" (a), with momentum
 * also "momentum" (b).
 *
 * ```text
 * v = rho * v + (1 - rho) * g * g
 * a = rho * a + (1 - rho) * g                    only if centered
 * d = sqrt(v) + epsilon                          if centered: sqrt(v - a * a) + epsilon
 * w = w - learning_rate * g / d                  with momentum: b = momentum * b + g / d
 *                                                               w = w - learning_rate * b
 * ```
 *
 * Sources: Tieleman and Hinton, 2012; the centered form: Graves, 2013.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_rmsprop(
    const umbo_strategy *strategy, const umbo_rmsprop_options *options,
    umbo_optimizer **optimizer);

/**
 * Makes an optimizer: FTRL-Proximal. Its states are "z" and "n".
 *
 * ```text
 * s = (sqrt(n + g * g) - sqrt(n)) / learning_rate
 * z = z + g - s * w
 * n = n + g * g
 * w = 0 if |z| <= l1, else -(z - sign(z) * l1) / ((beta + sqrt(n)) / learning_rate + l2)
 * ```
 *
 * An update computes w from the states alone: let variables start at 0. Source: McMahan et al.,
 * 2013, Algorithm 1.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_create_ftrl(
    const umbo_strategy *strategy, const umbo_ftrl_options *options, umbo_optimizer **optimizer);

/** The treatment of a gradient that is not finite (infinite or NaN). */
typedef enum umbo_non_finite UMBO_INT32 {
  /**
   * SKIP with a dynamic loss scale, FAIL with `global_clip_norm`, which one such element would make
   * useless, and IGNORE in all other cases.
   */
  UMBO_NON_FINITE_AUTO = 0,
  /**
   * It uses the gradient like any other. The report names the first such variable, and the log gets
   * one warning for each optimizer.
   */
  UMBO_NON_FINITE_IGNORE = 1401,
  /** It changes no variable and no state, uses the gradients up, and reports `skipped`. */
  UMBO_NON_FINITE_SKIP = 1402,
  /**
   * It fails with UMBO_STATUS_INVALID_ARGUMENT and changes nothing. The message names the variable,
   * the step, the replica and the first such element.
   */
  UMBO_NON_FINITE_FAIL = 1403
} umbo_non_finite;

/** Whether losses are multiplied by a factor, so that small 16-bit gradients do not become zero. */
typedef enum umbo_loss_scaling UMBO_INT32 {
  /** There is no factor. */
  UMBO_LOSS_SCALING_NONE = 0,
  /** The factor is the same in all runs. */
  UMBO_LOSS_SCALING_FIXED = 1501,
  /** The factor grows after some applies that took effect, and shrinks when one is skipped. */
  UMBO_LOSS_SCALING_DYNAMIC = 1502
} umbo_loss_scaling;

/** Whether an optimizer keeps a moving average of the weights. */
typedef enum umbo_average UMBO_INT32 {
  /** There is no average. */
  UMBO_AVERAGE_NONE = 0,
  /** An exponential moving average: average = decay * average + (1 - decay) * weights. */
  UMBO_AVERAGE_EXPONENTIAL = 2001,
  /** The mean of all weights that are averaged, as stochastic weight averaging (SWA) takes it. */
  UMBO_AVERAGE_MEAN = 2002
} umbo_average;

/**
 * The options of an optimizer besides its update rule.
 *
 * An apply does this in order: it combines what the replicas submitted, divides by the loss scale,
 * clips by norm, clips by value, adds the weight decay, and updates. By default it only combines
 * and updates.
 */
typedef struct umbo_optimizer_options {
  size_t struct_size;
  /**
   * Finite and 0 or more. AdamW, Lion, LAMB, LARS, Muon, Adafactor and rules with
   * `decoupled_weight_decay` apply it apart from the gradient; other rules add weight_decay * w
   * to the gradient (L2). UMBO_AUTO: that of the rule's options, or none.
   */
  double weight_decay;
  /**
   * The largest norm of all gradients of an apply together: if it is larger, all are scaled down
   * to it. More than 0, or UMBO_INFINITE. It takes a pass over the gradients and, with more than
   * two replicas or several accumulated runs, as much memory as the variables have; without that
   * memory it takes more time. So does the search for values that are not finite.
   */
  double global_clip_norm;
  /** The largest magnitude of each element of a gradient. More than 0, or UMBO_INFINITE. */
  double clip_value;
  /**
   * A dynamic loss scale needs AUTO or SKIP. If runs are accumulated, FAIL checks each run
   * before it is added, and SKIP checks the sum when it is applied.
   */
  umbo_non_finite non_finite;
  /** Whether there is a loss scale, and whether it adapts. */
  umbo_loss_scaling loss_scaling;
  /**
   * The factor, or what a dynamic one starts with; more than 0. `loss_scale` of
   * umbo_optimizer_info is the present one.
   */
  double loss_scale;
  /** The factor of a dynamic loss scale when it grows; more than 1. */
  double loss_scale_growth_factor;
  /** The factor when it shrinks; more than 0 and less than 1. */
  double loss_scale_backoff_factor;
  /** Its smallest value; more than 0, and at most `loss_scale`. */
  double loss_scale_minimum;
  /** It grows after this many applies in a row that took effect; 1 or more. */
  int64_t loss_scale_growth_interval;
  /** 1: the loss is maximised: after clipping, the gradient changes its sign. */
  int32_t maximize;
  /**
   * Chosen before the first update. The average is the state "average" of each variable, and
   * umbo_optimizer_with_average() puts it in the place of the weights.
   */
  umbo_average average;
  /** The decay of an exponential average; 0 or more and less than 1. */
  double average_decay;
  /** The updates of a variable during which the average is a copy of the weights; 0 or more. */
  int64_t average_start;
  /** The average moves after this many updates; 1 or more. */
  int64_t average_interval;
  /** 1: the decay of the i-th move is at most (1 + i) / (10 + i). */
  int32_t average_warmup;
  /**
   * The bits of an element of the rule's states, chosen before the first update. 0: as many as
   * the variable has. 8: those of float32 variables of 4096 or more elements have 8 bits, if the
   * rule has such states, as AdamW has. That saves memory; updates take longer. Such a variable
   * has no row-sparse gradients, and on a GPU its first apply fails with
   * UMBO_STATUS_UNIMPLEMENTED.
   */
  int64_t state_bits;
  /**
   * 1: bfloat16 variables are updated, too. An update computes in float32, and rounds each new
   * weight up or down at random, to either with the probability of the other's distance, so that
   * small steps are not lost and no float32 copy is kept. The rule is neither LAMB, LARS, Muon
   * nor one of the program's own, and there is no `average`.
   */
  int32_t stochastic_rounding;
  /**
   * The seed of the rounding, which follows from it, the variable's name, how often the variable
   * was updated, and the index of the element alone.
   */
  uint64_t rounding_seed;
} umbo_optimizer_options;

#define umbo_optimizer_options_defaults \
  UMBO_STRUCT_SIZE(umbo_optimizer_options), UMBO_AUTO, UMBO_INFINITE, UMBO_INFINITE, \
    UMBO_NON_FINITE_AUTO, UMBO_LOSS_SCALING_NONE, 65536.0, 2.0, 0.5, 1.0, 2000, 0, \
    UMBO_AVERAGE_NONE, 0.999, 0, 1, 0, 0, 0, 0
#define UMBO_OPTIMIZER_OPTIONS_INIT { umbo_optimizer_options_defaults }

/** How an optimizer treats the variables of a group. */
typedef struct umbo_group_options {
  size_t struct_size;
  /** The factor of the learning rate; finite and 0 or more. */
  double learning_rate_factor;
  /** Finite and 0 or more; 0 is usual for biases and normalisation. UMBO_AUTO: the optimizer's. */
  double weight_decay;
  /** 1: they are not updated, and their gradients are not read, also not for the norm. */
  int32_t frozen;
} umbo_group_options;

#define umbo_group_options_defaults UMBO_STRUCT_SIZE(umbo_group_options), 1.0, UMBO_AUTO, 0
#define UMBO_GROUP_OPTIONS_INIT { umbo_group_options_defaults }

/**
 * Replaces all settings of an optimizer, from the next apply on.
 *
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: settings out of range, or that exclude each other.
 * - UMBO_STATUS_FAILED_PRECONDITION: an average begins or ends, or `state_bits` changes, after the
 *   first update.
 *
 * If a setting of the loss scale changes, it starts again at `loss_scale`.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_configure(
    umbo_optimizer *optimizer, const umbo_optimizer_options *options);

/**
 * Treats some variables differently from what umbo_optimizer_configure() says.
 *
 * @param[in] variables Variables of the optimizer's strategy. Each is in one group at most.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a variable of another strategy or in a group
 *   already, or an option out of range. Then the group is not made.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_add_group(
    umbo_optimizer *optimizer, int64_t count, umbo_variable *const *variables,
    const umbo_group_options *options);

/** Options of one apply. */
typedef struct umbo_apply_options {
  size_t struct_size;
  /**
   * 1: update now, as at the end of an epoch, also with fewer runs than `accumulation_steps`;
   * with runs that earlier applies have accumulated, even without another run.
   */
  int32_t flush;
  /** 1: report the norm even without clipping; it costs what `global_clip_norm` does. */
  int32_t measure_norm;
} umbo_apply_options;

#define umbo_apply_options_defaults UMBO_STRUCT_SIZE(umbo_apply_options), 0, 0
#define UMBO_APPLY_OPTIONS_INIT { umbo_apply_options_defaults }

/** The outcome of an apply. */
typedef struct umbo_apply_report {
  size_t struct_size;
  /**
   * 1: it took effect. 0: it has not done so yet (`deferred`, or `accumulated_count`), or it
   * will not (`skipped`, or the total weight was 0) and the gradients are used up.
   */
  int32_t applied;
  /**
   * 1: it was called inside a run and happens at the run's commit point. The other fields are 0
   * then; umbo_optimizer_last_report() has them later.
   */
  int32_t deferred;
  /**
   * How many variables were updated: those that are not frozen and that a replica wrote whose
   * weight is not 0.
   */
  int64_t updated_count;
  /** 1: a gradient was not finite, so nothing was updated. */
  int32_t skipped;
  /** The sum of the replicas' weights, over all accumulated runs. */
  double total_weight;
  /** How many applies of this optimizer have taken effect, with this one. */
  int64_t iterations;
  /**
   * The norm of all gradients together, without the loss scale, before clipping and weight
   * decay. UMBO_NONE: it was not measured.
   */
  double gradient_norm;
  /** The learning rate of the update; 0 if there was none. */
  double learning_rate;
  /** The loss scale of the next run. */
  double loss_scale;
  /**
   * The name of the first variable whose gradient was not finite, even if it was applied; with
   * `global_clip_norm` also if its norm was not. NULL: none. Lives as long as the variable.
   */
  const char *non_finite_variable;
  /** 1: the norm was larger than `global_clip_norm`. */
  int32_t clipped;
  /** How many runs are accumulated and wait for an update. */
  int64_t accumulated_count;
} umbo_apply_report;

#define UMBO_APPLY_REPORT_INIT \
  { UMBO_STRUCT_SIZE(umbo_apply_report), 0, 0, 0, 0, 0.0, 0, 0.0, 0.0, 0.0, NULL, 0, 0 }

/**
 * Combines the submitted gradients and updates the variables. Call it once for each run.
 *
 * @param[in] gradients Of the optimizer's strategy. They are used up.
 * @param[out] report May be NULL.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: objects of different strategies, row-sparse
 *   gradients with LAMB, LARS, Muon or Adafactor, a variable that is not a matrix with Muon,
 *   weights whose sum is not finite, or what UMBO_NON_FINITE_FAIL finds.
 *   UMBO_STATUS_FAILED_PRECONDITION: nothing was submitted since the last apply, a replica has not
 *   submitted, the last run failed, or the strategy is draining. What the schedule returned.
 *
 * If it fails, nothing changes, except that ranks that have exchanged the gradients have used them
 * up. Outside of a run it waits for the run of another thread and acts at once. Inside a run it is
 * deferred to the run's commit point, and fails with the run, or makes the run fail; in a
 * replica's callback all replicas make the call (umbo_replica_context_merge_call()). With k
 * `accumulation_steps` every k-th apply updates; the others add to a sum.
 *
 * Collective. Ranks with different settings or progress are UMBO_STATUS_FAILED_PRECONDITION.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_apply(
    umbo_optimizer *optimizer, umbo_gradients *gradients, const umbo_apply_options *options,
    umbo_apply_report *report);

/**
 * Gets the report of the last apply that was carried out, deferred ones included. All fields are 0
 * before the first.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_last_report(
    const umbo_optimizer *optimizer, umbo_apply_report *report);

/**
 * Computes the learning rate of an update.
 *
 * @param[in] step The number of updates that the optimizer has made before this one.
 * @param[out] learning_rate Must be written; finite and 0 or more.
 * @return UMBO_OK, or why it failed: then the apply fails and changes nothing.
 *
 * Each apply that is to update calls it, on its own thread, also one that is then skipped. In it
 * runs, applies and assignments of the strategy are UMBO_STATUS_FAILED_PRECONDITION.
 */
typedef umbo_status (*umbo_schedule_fn)(int64_t step, void *user_data, double *learning_rate);

/** Runs while variables have the averages of their weights as values. */
typedef umbo_status (*umbo_average_fn)(void *user_data);

/**
 * Sets a function that computes the learning rate of each update, in place of an earlier one.
 *
 * @param[in] schedule NULL: none; the learning rate stays what it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_schedule(
    umbo_optimizer *optimizer, umbo_schedule_fn schedule, void *user_data,
    umbo_destroy_fn destroy);

/**
 * Sets the learning rate from the next apply on, and ends a schedule.
 *
 * @param[in] learning_rate Finite and 0 or more; for FTRL, which divides by it, more than 0.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_learning_rate(
    umbo_optimizer *optimizer, double learning_rate);

/**
 * Calls a function while the variables that an optimizer has updated have the moving averages of
 * their weights as values: to evaluate them, or to export them.
 *
 * @return What `function` returned, or UMBO_STATUS_FAILED_PRECONDITION: the optimizer keeps no
 *   average, or this is called in a run or in `function`. It takes memory for the weights again.
 *
 * `function` may run steps and save the variables, which have their weights again afterwards, but
 * not apply, save or restore the optimizer. Collective: each rank keeps a part of the averages.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_with_average(
    umbo_optimizer *optimizer, umbo_average_fn function, void *user_data);

/** Makes another handle to the same optimizer: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_optimizer_retain(
    const umbo_optimizer *optimizer, umbo_optimizer **retained) {
  return umbo_retain(optimizer, UMBO_HANDLE_OPTIMIZER, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_optimizer_release(const umbo_optimizer *optimizer) {
  umbo_release(optimizer, UMBO_HANDLE_OPTIMIZER);
}

/** The shape of a learning rate schedule after its warm-up. */
typedef enum umbo_schedule_kind UMBO_INT32 {
  /** The full rate. */
  UMBO_SCHEDULE_CONSTANT = 0,
  /** A straight line to the final rate, after `updates` updates. */
  UMBO_SCHEDULE_LINEAR = 2101,
  /** Half a cosine to the final rate, after `updates` updates. */
  UMBO_SCHEDULE_COSINE = 2102,
  /** The rate is multiplied by `factor` after each `interval` updates. */
  UMBO_SCHEDULE_STEP = 2103,
  /**
   * Half a cosine up from the initial rate in `warmup_updates`, and another down to the final rate.
   */
  UMBO_SCHEDULE_ONE_CYCLE = 2104,
  /** The rate is multiplied by `factor` when umbo_optimizer_observe() gets no better values. */
  UMBO_SCHEDULE_PLATEAU = 2105
} umbo_schedule_kind;

/** A learning rate schedule. The formulas are PyTorch's. */
typedef struct umbo_schedule_options {
  size_t struct_size;
  /** The shape. */
  umbo_schedule_kind kind;
  /** The full rate; finite and 0 or more. UMBO_AUTO: the rate of the optimizer. */
  double learning_rate;
  /** The updates in which the rate rises at first, in equal steps; 0 or more, 2 of ONE_CYCLE. */
  int64_t warmup_updates;
  /** All updates of the training, for LINEAR, COSINE and ONE_CYCLE; 0 for the others. */
  int64_t updates;
  /**
   * The factor of the final rate, of the lowest with PLATEAU; in [0, 1]. UMBO_AUTO: 0, of
   * ONE_CYCLE 4e-6.
   */
  double final_factor;
  /** The factor of the rate at the beginning of ONE_CYCLE; in [0, 1]. */
  double initial_factor;
  /** The factor of STEP and PLATEAU; more than 0 and less than 1. */
  double factor;
  /** The updates between two steps of STEP; 1 or more. */
  int64_t interval;
  /** How many values in a row without a better one PLATEAU tolerates; 0 or more. */
  int64_t patience;
  /** How many values after a reduction PLATEAU ignores; 0 or more. */
  int64_t cooldown;
  /** A value is better if it differs from the best by more than this fraction of it; 0 or more. */
  double threshold;
  /** 1: larger values are better, as of an accuracy. */
  int32_t larger_is_better;
} umbo_schedule_options;

#define umbo_schedule_options_defaults \
  UMBO_STRUCT_SIZE(umbo_schedule_options), UMBO_SCHEDULE_CONSTANT, UMBO_AUTO, 0, 0, UMBO_AUTO, \
    0.04, 0.1, 0, 10, 0, 1e-4, 0
#define UMBO_SCHEDULE_OPTIONS_INIT { umbo_schedule_options_defaults }

/**
 * Sets a schedule with a name, which the learning rate of each update follows, in place of an
 * earlier schedule.
 *
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: numbers out of range, or that do not fit each
 *   other.
 *
 * A checkpoint has the schedule. It is followed after a restore if the optimizer has none of its
 * own; the log warns if it has another one. The values that
 * PLATEAU has observed are always restored.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_named_schedule(
    umbo_optimizer *optimizer, const umbo_schedule_options *options);

/**
 * Tells the schedule UMBO_SCHEDULE_PLATEAU a value, such as the loss of an evaluation.
 *
 * @param[in] value NaN is a value that is not better.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: the optimizer has another schedule or none.
 *
 * With several ranks all of them tell the same value.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_observe(umbo_optimizer *optimizer, double value);

/** The properties and the progress of an optimizer. */
typedef struct umbo_optimizer_info {
  size_t struct_size;
  /**
   * The name of the rule: "sgd", "adamw" and so on, or that of a custom rule. Lives as long as
   * the optimizer.
   */
  const char *rule;
  /** How many applies have taken effect. */
  int64_t iterations;
  /** The learning rate of the next apply; with a schedule, that of the last one. */
  double learning_rate;
  /**
   * The factor that callbacks multiply their loss (or their gradients) by, valid until the next
   * apply; 1 if there is no loss scale. An apply divides by the factor that its run had.
   */
  double loss_scale;
} umbo_optimizer_info;

#define UMBO_OPTIMIZER_INFO_INIT { UMBO_STRUCT_SIZE(umbo_optimizer_info), NULL, 0, 0.0, 0.0 }

/** Gets what an optimizer is. It may be called inside a run. */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_get_info(
    const umbo_optimizer *optimizer, umbo_optimizer_info *info);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

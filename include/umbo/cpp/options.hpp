/* Generated from src/ffi; do not edit. */
// Options that are numbers, flags and enums, with the defaults of C.
#ifndef UMBO_CPP_OPTIONS_HPP
#define UMBO_CPP_OPTIONS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <umbo/cpp/error.hpp>

UMBO_DETAIL_BEGIN

// The options of update rules.
struct sgd_options {
    double learning_rate = 0.01;
};

struct momentum_options {
    double learning_rate = 0.01;
    double momentum = 0.9;
    bool nesterov = false;
    double dampening = 0.0;
};

struct adam_options {
    double learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    bool amsgrad = false;
};

struct adamw_options {
    double learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
    bool amsgrad = false;
};

struct lamb_options {
    double learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-6;
    double weight_decay = 0.01;
};

struct adagrad_options {
    double learning_rate = 0.01;
    double initial_accumulator = 0.0;
    double epsilon = 1e-10;
    double learning_rate_decay = 0.0;
};

struct rmsprop_options {
    double learning_rate = 0.01;
    double rho = 0.99;
    double momentum = 0.0;
    double epsilon = 1e-8;
    bool centered = false;
};

// What a rule of the program's keeps; see umbo_custom_rule_options.
struct custom_rule_options {
    std::string name = "custom";
    double learning_rate = 0.01;
    double weight_decay = 0;
    bool decoupled_weight_decay = false;
    std::vector<std::string> states = {};
    std::vector<double> initials = {}; // none: all 0
};

struct ftrl_options {
    double learning_rate = 0.1;
    double beta = 1.0;
    double l1 = 0.0;
    double l2 = 0.0;
    double initial_accumulator = 0.0;
};

// What an optimizer does around its rule; see umbo_optimizer_options.
struct optimizer_options {
    double weight_decay = UMBO_AUTO;
    double global_clip_norm = UMBO_INFINITE;
    double clip_value = UMBO_INFINITE;
    umbo::non_finite non_finite = umbo::non_finite{UMBO_NON_FINITE_AUTO};
    umbo::loss_scaling loss_scaling = umbo::loss_scaling{UMBO_LOSS_SCALING_NONE};
    double loss_scale = 65536.0;
    double loss_scale_growth_factor = 2.0;
    double loss_scale_backoff_factor = 0.5;
    double loss_scale_minimum = 1.0;
    std::int64_t loss_scale_growth_interval = 2000;
    bool maximize = false;
};

// How the variables of a group are treated; see umbo_group_options.
struct group_options {
    double learning_rate_factor = 1.0;
    double weight_decay = UMBO_AUTO;
    bool frozen = false;
};

struct apply_options {
    bool flush = false;
    bool measure_norm = false;
};

struct shuffle_options {
    std::int64_t buffer_capacity = UMBO_ALL;
    std::uint64_t seed = 0;
    bool keep_order_each_pass = false;
};

// How batches are split over the replicas; see umbo_distribute_options.
struct distribute_options {
    umbo::split split = umbo::split{UMBO_SPLIT_CEIL};
    bool drop_partial_step = false;
    bool host_only = false;
    std::int64_t prefetch_count = UMBO_AUTO;
    umbo::sharding sharding = umbo::sharding{UMBO_SHARDING_DATA};
};

// Which checkpoints are kept, and when one is due; see umbo_checkpoint_manager_options.
struct checkpoint_manager_options {
    std::int64_t keep = 5;
    std::int64_t keep_best = 0;
    bool larger_is_better = false;
    bool in_background = true;
    std::int64_t every_steps = 1;
    double every_seconds = UMBO_INFINITE;
    bool begin_anew = false;
};

// What a metric is more exactly; see umbo_metric_options.
struct metric_options {
    std::int64_t classes = 0;
    std::int64_t bins = 200;
    double lowest_score = 0.0;
    double highest_score = 1.0;
};

namespace detail {

inline umbo_sgd_options raw_options(const sgd_options &how) noexcept {
    auto raw = umbo_sgd_options_default();
    raw.learning_rate = how.learning_rate;
    return raw;
}

inline umbo_momentum_options raw_options(const momentum_options &how) noexcept {
    auto raw = umbo_momentum_options_default();
    raw.learning_rate = how.learning_rate;
    raw.momentum = how.momentum;
    raw.nesterov = how.nesterov ? 1 : 0;
    raw.dampening = how.dampening;
    return raw;
}

inline umbo_adam_options raw_options(const adam_options &how) noexcept {
    auto raw = umbo_adam_options_default();
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.amsgrad = how.amsgrad ? 1 : 0;
    return raw;
}

inline umbo_adamw_options raw_options(const adamw_options &how) noexcept {
    auto raw = umbo_adamw_options_default();
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.weight_decay = how.weight_decay;
    raw.amsgrad = how.amsgrad ? 1 : 0;
    return raw;
}

inline umbo_lamb_options raw_options(const lamb_options &how) noexcept {
    auto raw = umbo_lamb_options_default();
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.weight_decay = how.weight_decay;
    return raw;
}

inline umbo_adagrad_options raw_options(const adagrad_options &how) noexcept {
    auto raw = umbo_adagrad_options_default();
    raw.learning_rate = how.learning_rate;
    raw.initial_accumulator = how.initial_accumulator;
    raw.epsilon = how.epsilon;
    raw.learning_rate_decay = how.learning_rate_decay;
    return raw;
}

inline umbo_rmsprop_options raw_options(const rmsprop_options &how) noexcept {
    auto raw = umbo_rmsprop_options_default();
    raw.learning_rate = how.learning_rate;
    raw.rho = how.rho;
    raw.momentum = how.momentum;
    raw.epsilon = how.epsilon;
    raw.centered = how.centered ? 1 : 0;
    return raw;
}

inline umbo_ftrl_options raw_options(const ftrl_options &how) noexcept {
    auto raw = umbo_ftrl_options_default();
    raw.learning_rate = how.learning_rate;
    raw.beta = how.beta;
    raw.l1 = how.l1;
    raw.l2 = how.l2;
    raw.initial_accumulator = how.initial_accumulator;
    return raw;
}

inline umbo_optimizer_options raw_options(const optimizer_options &how) noexcept {
    auto raw = umbo_optimizer_options_default();
    raw.weight_decay = how.weight_decay;
    raw.global_clip_norm = how.global_clip_norm;
    raw.clip_value = how.clip_value;
    raw.non_finite = to_c(how.non_finite);
    raw.loss_scaling = to_c(how.loss_scaling);
    raw.loss_scale = how.loss_scale;
    raw.loss_scale_growth_factor = how.loss_scale_growth_factor;
    raw.loss_scale_backoff_factor = how.loss_scale_backoff_factor;
    raw.loss_scale_minimum = how.loss_scale_minimum;
    raw.loss_scale_growth_interval = how.loss_scale_growth_interval;
    raw.maximize = how.maximize ? 1 : 0;
    return raw;
}

inline umbo_group_options raw_options(const group_options &how) noexcept {
    auto raw = umbo_group_options_default();
    raw.learning_rate_factor = how.learning_rate_factor;
    raw.weight_decay = how.weight_decay;
    raw.frozen = how.frozen ? 1 : 0;
    return raw;
}

inline umbo_apply_options raw_options(const apply_options &how) noexcept {
    auto raw = umbo_apply_options_default();
    raw.flush = how.flush ? 1 : 0;
    raw.measure_norm = how.measure_norm ? 1 : 0;
    return raw;
}

inline umbo_shuffle_options raw_options(const shuffle_options &how) noexcept {
    auto raw = umbo_shuffle_options_default();
    raw.buffer_capacity = how.buffer_capacity;
    raw.seed = how.seed;
    raw.keep_order_each_pass = how.keep_order_each_pass ? 1 : 0;
    return raw;
}

inline umbo_distribute_options raw_options(const distribute_options &how) noexcept {
    auto raw = umbo_distribute_options_default();
    raw.split = to_c(how.split);
    raw.drop_partial_step = how.drop_partial_step ? 1 : 0;
    raw.host_only = how.host_only ? 1 : 0;
    raw.prefetch_count = how.prefetch_count;
    raw.sharding = to_c(how.sharding);
    return raw;
}

inline umbo_checkpoint_manager_options raw_options(const checkpoint_manager_options &how) noexcept {
    auto raw = umbo_checkpoint_manager_options_default();
    raw.keep = how.keep;
    raw.keep_best = how.keep_best;
    raw.larger_is_better = how.larger_is_better ? 1 : 0;
    raw.in_background = how.in_background ? 1 : 0;
    raw.every_steps = how.every_steps;
    raw.every_seconds = how.every_seconds;
    raw.begin_anew = how.begin_anew ? 1 : 0;
    return raw;
}

inline umbo_metric_options raw_options(const metric_options &how) noexcept {
    auto raw = umbo_metric_options_default();
    raw.classes = how.classes;
    raw.bins = how.bins;
    raw.lowest_score = how.lowest_score;
    raw.highest_score = how.highest_score;
    return raw;
}

} // namespace detail
UMBO_DETAIL_END

#endif

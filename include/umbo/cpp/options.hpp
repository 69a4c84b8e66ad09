/* Generated from src; do not edit. */
// Structs of numbers, flags, enums and texts: options, with the defaults of C, and results.
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

struct nadam_options {
    double learning_rate = 0.002;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double momentum_decay = 0.004;
    bool decoupled_weight_decay = false;
};

struct radam_options {
    double learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    bool decoupled_weight_decay = false;
};

struct lion_options {
    double learning_rate = 0.0001;
    double beta1 = 0.9;
    double beta2 = 0.99;
    double weight_decay = 0.0;
};

struct lamb_options {
    double learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-6;
    double weight_decay = 0.01;
};

struct lars_options {
    double learning_rate = 0.1;
    double momentum = 0.9;
    double trust_coefficient = 0.001;
    double weight_decay = 0.0;
};

struct muon_options {
    double learning_rate = 0.001;
    double momentum = 0.95;
    bool nesterov = true;
    double weight_decay = 0.1;
    double epsilon = 1e-7;
    bool match_adamw = false;
};

struct adafactor_options {
    double learning_rate = 0.01;
    double beta2_decay = -0.8;
    double epsilon1 = 0.0;
    double epsilon2 = 1e-3;
    double clip_threshold = 1.0;
    double weight_decay = 0.0;
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

// Options of a custom rule; see umbo_custom_rule_options.
struct custom_rule_options {
    std::string name = "custom";
    double learning_rate = 0.01;
    double weight_decay = 0;
    bool decoupled_weight_decay = false;
    std::vector<std::string> state_names = {};
    std::vector<double> state_initials = {}; // none: all 0
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
    umbo::average average = umbo::average{UMBO_AVERAGE_NONE};
    double average_decay = 0.999;
    std::int64_t average_start = 0;
    std::int64_t average_interval = 1;
    bool average_warmup = false;
    std::int64_t state_bits = 0;
    bool stochastic_rounding = false;
    std::uint64_t rounding_seed = 0;
};

// How the variables of a group are treated; see umbo_group_options.
struct group_options {
    double learning_rate_factor = 1.0;
    double weight_decay = UMBO_AUTO;
    bool frozen = false;
};

struct schedule_options {
    umbo::schedule_kind kind = umbo::schedule_kind{UMBO_SCHEDULE_CONSTANT};
    double learning_rate = UMBO_AUTO;
    std::int64_t warmup_updates = 0;
    std::int64_t updates = 0;
    double final_factor = UMBO_AUTO;
    double initial_factor = 0.04;
    double factor = 0.1;
    std::int64_t interval = 0;
    std::int64_t patience = 10;
    std::int64_t cooldown = 0;
    double threshold = 1e-4;
    bool larger_is_better = false;
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

struct sample_options {
    std::uint64_t seed = 0;
    bool keep_order_each_pass = false;
    bool stop_on_empty = false;
};

// How batches are split over the replicas; see umbo_distribute_options.
struct distribute_options {
    umbo::split split = umbo::split{UMBO_SPLIT_CEIL};
    bool drop_partial_step = false;
    bool host_only = false;
    std::int64_t prefetch_count = UMBO_AUTO;
    umbo::sharding sharding = umbo::sharding{UMBO_SHARDING_DATA};
    std::int64_t compared_steps = UMBO_AUTO;
};

// The checkpoints that are kept, and when one is due; see umbo_checkpoint_manager_options.
struct checkpoint_manager_options {
    std::int64_t max_to_keep = 5;
    std::int64_t max_best_to_keep = 0;
    bool larger_is_better = false;
    bool asynchronous = false;
    std::int64_t every_steps = 1;
    double every_seconds = UMBO_INFINITE;
    bool start_fresh = false;
};

// Options of a metric; see umbo_metric_options.
struct metric_options {
    std::int64_t class_count = 0;
    std::int64_t bin_count = 200;
    double lowest_score = 0.0;
    double highest_score = 1.0;
    std::int64_t top_k = 5;
    std::int64_t ignore_index = 0;
    bool has_ignore_index = false;
};

struct equivalence_options {
    double relative_tolerance = UMBO_AUTO;
    double absolute_tolerance = 0.0;
};

// Results; see the structs of C. A text that is NULL there is empty.
struct gradients_info {
    std::int64_t variable_count = 0;
    std::int64_t accumulation_steps = 0;
    umbo::loss_reduction loss_reduction = umbo::loss_reduction{};
    umbo::dtype dtype = umbo::dtype{UMBO_DTYPE_NONE};
    bool row_sparse = false;
};

struct optimizer_info {
    std::string rule = {};
    std::int64_t iterations = 0;
    double learning_rate = 0.0;
    double loss_scale = 0.0;
};

struct variable_progress {
    std::int64_t update_count = 0;
    double first_running = 0.0;
    double second_running = 0.0;
};

struct apply_report {
    bool applied = false;
    bool deferred = false;
    std::int64_t updated_count = 0;
    bool skipped = false;
    double total_weight = 0.0;
    std::int64_t iterations = 0;
    double gradient_norm = 0.0;
    double learning_rate = 0.0;
    double loss_scale = 0.0;
    std::string non_finite_variable = {};
    bool clipped = false;
    std::int64_t accumulated_count = 0;
};

struct metric_result {
    double sum = 0.0;
    double weight = 0.0;
    double mean = 0.0;
    umbo::metric_kind kind = umbo::metric_kind{};
};

struct metric_class_result {
    double true_positives = 0.0;
    double false_positives = 0.0;
    double false_negatives = 0.0;
    double precision = 0.0;
    double recall = 0.0;
    double f1 = 0.0;
};

struct train_epoch_report {
    std::int64_t step_count = 0;
    std::int64_t example_count = 0;
    std::int64_t update_count = 0;
    std::int64_t skipped_count = 0;
    double seconds = 0.0;
    bool pass_ended = false;
};

struct equivalence_info {
    bool holds = false;
    std::string text = {};
    std::int64_t finding_count = 0;
};

struct equivalence_finding {
    umbo::equivalence_subject subject = umbo::equivalence_subject{};
    umbo::equivalence_verdict verdict = umbo::equivalence_verdict{};
    std::int64_t variable_index = 0;
    std::int64_t element_index = 0;
    double factor = 0.0;
    double difference = 0.0;
    std::string name = {};
    std::string text = {};
};

namespace detail {

inline umbo_sgd_options raw_options(const sgd_options &how) noexcept {
    umbo_sgd_options raw = UMBO_SGD_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    return raw;
}

inline umbo_momentum_options raw_options(const momentum_options &how) noexcept {
    umbo_momentum_options raw = UMBO_MOMENTUM_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.momentum = how.momentum;
    raw.nesterov = how.nesterov ? 1 : 0;
    raw.dampening = how.dampening;
    return raw;
}

inline umbo_adam_options raw_options(const adam_options &how) noexcept {
    umbo_adam_options raw = UMBO_ADAM_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.amsgrad = how.amsgrad ? 1 : 0;
    return raw;
}

inline umbo_adamw_options raw_options(const adamw_options &how) noexcept {
    umbo_adamw_options raw = UMBO_ADAMW_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.weight_decay = how.weight_decay;
    raw.amsgrad = how.amsgrad ? 1 : 0;
    return raw;
}

inline umbo_nadam_options raw_options(const nadam_options &how) noexcept {
    umbo_nadam_options raw = UMBO_NADAM_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.momentum_decay = how.momentum_decay;
    raw.decoupled_weight_decay = how.decoupled_weight_decay ? 1 : 0;
    return raw;
}

inline umbo_radam_options raw_options(const radam_options &how) noexcept {
    umbo_radam_options raw = UMBO_RADAM_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.decoupled_weight_decay = how.decoupled_weight_decay ? 1 : 0;
    return raw;
}

inline umbo_lion_options raw_options(const lion_options &how) noexcept {
    umbo_lion_options raw = UMBO_LION_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.weight_decay = how.weight_decay;
    return raw;
}

inline umbo_lamb_options raw_options(const lamb_options &how) noexcept {
    umbo_lamb_options raw = UMBO_LAMB_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta1 = how.beta1;
    raw.beta2 = how.beta2;
    raw.epsilon = how.epsilon;
    raw.weight_decay = how.weight_decay;
    return raw;
}

inline umbo_lars_options raw_options(const lars_options &how) noexcept {
    umbo_lars_options raw = UMBO_LARS_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.momentum = how.momentum;
    raw.trust_coefficient = how.trust_coefficient;
    raw.weight_decay = how.weight_decay;
    return raw;
}

inline umbo_muon_options raw_options(const muon_options &how) noexcept {
    umbo_muon_options raw = UMBO_MUON_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.momentum = how.momentum;
    raw.nesterov = how.nesterov ? 1 : 0;
    raw.weight_decay = how.weight_decay;
    raw.epsilon = how.epsilon;
    raw.match_adamw = how.match_adamw ? 1 : 0;
    return raw;
}

inline umbo_adafactor_options raw_options(const adafactor_options &how) noexcept {
    umbo_adafactor_options raw = UMBO_ADAFACTOR_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta2_decay = how.beta2_decay;
    raw.epsilon1 = how.epsilon1;
    raw.epsilon2 = how.epsilon2;
    raw.clip_threshold = how.clip_threshold;
    raw.weight_decay = how.weight_decay;
    return raw;
}

inline umbo_adagrad_options raw_options(const adagrad_options &how) noexcept {
    umbo_adagrad_options raw = UMBO_ADAGRAD_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.initial_accumulator = how.initial_accumulator;
    raw.epsilon = how.epsilon;
    raw.learning_rate_decay = how.learning_rate_decay;
    return raw;
}

inline umbo_rmsprop_options raw_options(const rmsprop_options &how) noexcept {
    umbo_rmsprop_options raw = UMBO_RMSPROP_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.rho = how.rho;
    raw.momentum = how.momentum;
    raw.epsilon = how.epsilon;
    raw.centered = how.centered ? 1 : 0;
    return raw;
}

inline umbo_ftrl_options raw_options(const ftrl_options &how) noexcept {
    umbo_ftrl_options raw = UMBO_FTRL_OPTIONS_INIT;
    raw.learning_rate = how.learning_rate;
    raw.beta = how.beta;
    raw.l1 = how.l1;
    raw.l2 = how.l2;
    raw.initial_accumulator = how.initial_accumulator;
    return raw;
}

inline umbo_optimizer_options raw_options(const optimizer_options &how) noexcept {
    umbo_optimizer_options raw = UMBO_OPTIMIZER_OPTIONS_INIT;
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
    raw.average = to_c(how.average);
    raw.average_decay = how.average_decay;
    raw.average_start = how.average_start;
    raw.average_interval = how.average_interval;
    raw.average_warmup = how.average_warmup ? 1 : 0;
    raw.state_bits = how.state_bits;
    raw.stochastic_rounding = how.stochastic_rounding ? 1 : 0;
    raw.rounding_seed = how.rounding_seed;
    return raw;
}

inline umbo_group_options raw_options(const group_options &how) noexcept {
    umbo_group_options raw = UMBO_GROUP_OPTIONS_INIT;
    raw.learning_rate_factor = how.learning_rate_factor;
    raw.weight_decay = how.weight_decay;
    raw.frozen = how.frozen ? 1 : 0;
    return raw;
}

inline umbo_schedule_options raw_options(const schedule_options &how) noexcept {
    umbo_schedule_options raw = UMBO_SCHEDULE_OPTIONS_INIT;
    raw.kind = to_c(how.kind);
    raw.learning_rate = how.learning_rate;
    raw.warmup_updates = how.warmup_updates;
    raw.updates = how.updates;
    raw.final_factor = how.final_factor;
    raw.initial_factor = how.initial_factor;
    raw.factor = how.factor;
    raw.interval = how.interval;
    raw.patience = how.patience;
    raw.cooldown = how.cooldown;
    raw.threshold = how.threshold;
    raw.larger_is_better = how.larger_is_better ? 1 : 0;
    return raw;
}

inline umbo_apply_options raw_options(const apply_options &how) noexcept {
    umbo_apply_options raw = UMBO_APPLY_OPTIONS_INIT;
    raw.flush = how.flush ? 1 : 0;
    raw.measure_norm = how.measure_norm ? 1 : 0;
    return raw;
}

inline umbo_shuffle_options raw_options(const shuffle_options &how) noexcept {
    umbo_shuffle_options raw = UMBO_SHUFFLE_OPTIONS_INIT;
    raw.buffer_capacity = how.buffer_capacity;
    raw.seed = how.seed;
    raw.keep_order_each_pass = how.keep_order_each_pass ? 1 : 0;
    return raw;
}

inline umbo_sample_options raw_options(const sample_options &how) noexcept {
    umbo_sample_options raw = UMBO_SAMPLE_OPTIONS_INIT;
    raw.seed = how.seed;
    raw.keep_order_each_pass = how.keep_order_each_pass ? 1 : 0;
    raw.stop_on_empty = how.stop_on_empty ? 1 : 0;
    return raw;
}

inline umbo_distribute_options raw_options(const distribute_options &how) noexcept {
    umbo_distribute_options raw = UMBO_DISTRIBUTE_OPTIONS_INIT;
    raw.split = to_c(how.split);
    raw.drop_partial_step = how.drop_partial_step ? 1 : 0;
    raw.host_only = how.host_only ? 1 : 0;
    raw.prefetch_count = how.prefetch_count;
    raw.sharding = to_c(how.sharding);
    raw.compared_steps = how.compared_steps;
    return raw;
}

inline umbo_checkpoint_manager_options raw_options(const checkpoint_manager_options &how) noexcept {
    umbo_checkpoint_manager_options raw = UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT;
    raw.max_to_keep = how.max_to_keep;
    raw.max_best_to_keep = how.max_best_to_keep;
    raw.larger_is_better = how.larger_is_better ? 1 : 0;
    raw.asynchronous = how.asynchronous ? 1 : 0;
    raw.every_steps = how.every_steps;
    raw.every_seconds = how.every_seconds;
    raw.start_fresh = how.start_fresh ? 1 : 0;
    return raw;
}

inline umbo_metric_options raw_options(const metric_options &how) noexcept {
    umbo_metric_options raw = UMBO_METRIC_OPTIONS_INIT;
    raw.class_count = how.class_count;
    raw.bin_count = how.bin_count;
    raw.lowest_score = how.lowest_score;
    raw.highest_score = how.highest_score;
    raw.top_k = how.top_k;
    raw.ignore_index = how.ignore_index;
    raw.has_ignore_index = how.has_ignore_index ? 1 : 0;
    return raw;
}

inline umbo_equivalence_options raw_options(const equivalence_options &how) noexcept {
    umbo_equivalence_options raw = UMBO_EQUIVALENCE_OPTIONS_INIT;
    raw.relative_tolerance = how.relative_tolerance;
    raw.absolute_tolerance = how.absolute_tolerance;
    return raw;
}

inline umbo_variable_progress raw_options(const variable_progress &how) noexcept {
    umbo_variable_progress raw = UMBO_VARIABLE_PROGRESS_INIT;
    raw.update_count = how.update_count;
    raw.first_running = how.first_running;
    raw.second_running = how.second_running;
    return raw;
}

inline gradients_info from_c(const umbo_gradients_info &raw) {
    gradients_info own;
    own.variable_count = raw.variable_count;
    own.accumulation_steps = raw.accumulation_steps;
    own.loss_reduction = umbo::loss_reduction{raw.loss_reduction};
    own.dtype = umbo::dtype{raw.dtype};
    own.row_sparse = raw.row_sparse != 0;
    return own;
}

inline optimizer_info from_c(const umbo_optimizer_info &raw) {
    optimizer_info own;
    own.rule = raw.rule == nullptr ? "" : raw.rule;
    own.iterations = raw.iterations;
    own.learning_rate = raw.learning_rate;
    own.loss_scale = raw.loss_scale;
    return own;
}

inline variable_progress from_c(const umbo_variable_progress &raw) {
    variable_progress own;
    own.update_count = raw.update_count;
    own.first_running = raw.first_running;
    own.second_running = raw.second_running;
    return own;
}

inline apply_report from_c(const umbo_apply_report &raw) {
    apply_report own;
    own.applied = raw.applied != 0;
    own.deferred = raw.deferred != 0;
    own.updated_count = raw.updated_count;
    own.skipped = raw.skipped != 0;
    own.total_weight = raw.total_weight;
    own.iterations = raw.iterations;
    own.gradient_norm = raw.gradient_norm;
    own.learning_rate = raw.learning_rate;
    own.loss_scale = raw.loss_scale;
    own.non_finite_variable = raw.non_finite_variable == nullptr ? "" : raw.non_finite_variable;
    own.clipped = raw.clipped != 0;
    own.accumulated_count = raw.accumulated_count;
    return own;
}

inline metric_result from_c(const umbo_metric_result &raw) {
    metric_result own;
    own.sum = raw.sum;
    own.weight = raw.weight;
    own.mean = raw.mean;
    own.kind = umbo::metric_kind{raw.kind};
    return own;
}

inline metric_class_result from_c(const umbo_metric_class_result &raw) {
    metric_class_result own;
    own.true_positives = raw.true_positives;
    own.false_positives = raw.false_positives;
    own.false_negatives = raw.false_negatives;
    own.precision = raw.precision;
    own.recall = raw.recall;
    own.f1 = raw.f1;
    return own;
}

inline train_epoch_report from_c(const umbo_train_epoch_report &raw) {
    train_epoch_report own;
    own.step_count = raw.step_count;
    own.example_count = raw.example_count;
    own.update_count = raw.update_count;
    own.skipped_count = raw.skipped_count;
    own.seconds = raw.seconds;
    own.pass_ended = raw.pass_ended != 0;
    return own;
}

inline equivalence_info from_c(const umbo_equivalence_info &raw) {
    equivalence_info own;
    own.holds = raw.holds != 0;
    own.text = raw.text == nullptr ? "" : raw.text;
    own.finding_count = raw.finding_count;
    return own;
}

inline equivalence_finding from_c(const umbo_equivalence_finding &raw) {
    equivalence_finding own;
    own.subject = umbo::equivalence_subject{raw.subject};
    own.verdict = umbo::equivalence_verdict{raw.verdict};
    own.variable_index = raw.variable_index;
    own.element_index = raw.element_index;
    own.factor = raw.factor;
    own.difference = raw.difference;
    own.name = raw.name == nullptr ? "" : raw.name;
    own.text = raw.text == nullptr ? "" : raw.text;
    return own;
}

} // namespace detail
UMBO_DETAIL_END

#endif

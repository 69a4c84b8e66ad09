// Gradients and optimizers.
#ifndef UMBO_CPP_OPTIMIZER_HPP
#define UMBO_CPP_OPTIMIZER_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <umbo/cpp/callback.hpp>
#include <umbo/cpp/strategy.hpp>

namespace umbo {

// The gradient buffers of all replicas; written and submitted through `replica_context`.
// `row_sparse` is empty, or says for each variable whether replicas contribute rows of it; see
// umbo_gradients_options.
class gradients : public handle<umbo_gradients> {
public:
    using handle::handle;

    static gradients create(const strategy &of, const std::vector<umbo::variable> &variables,
                            loss loss_reduction,
                            std::int64_t accumulation_steps = 1,
                            const std::vector<bool> &row_sparse = {},
                            umbo::dtype dtype = umbo::dtype::none) {
        auto options = detail::sized<umbo_gradients_options>();
        options.loss_reduction = to_c(loss_reduction);
        options.accumulation_steps = accumulation_steps;
        options.dtype = to_c(dtype);
        const std::vector<std::int32_t> choices(row_sparse.begin(), row_sparse.end());
        if (!choices.empty()) {
            if (choices.size() != variables.size()) {
                throw error(status::invalid_argument,
                            "row_sparse: " + std::to_string(choices.size()) + " choices for " +
                                std::to_string(variables.size()) + " variables");
            }
            options.row_sparse = choices.data();
        }
        const auto raw = detail::raw_variables(variables);
        umbo_gradients *out = nullptr;
        check(umbo_gradients_create(of.get(), detail::count_of(raw.size()),
                                    raw.data(), &options, &out));
        return gradients(out);
    }

    std::int64_t count() const {
        std::int64_t out = 0;
        check(umbo_gradients_count(get(), &out));
        return out;
    }

    umbo::variable variable(std::int64_t index) const {
        umbo_variable *out = nullptr;
        check(umbo_gradients_variable(get(), index, &out));
        return umbo::variable(out);
    }

    umbo_loss_reduction loss_reduction() const {
        umbo_loss_reduction out{};
        check(umbo_gradients_loss_reduction(get(), &out));
        return out;
    }

    std::int64_t accumulation_steps() const {
        std::int64_t out = 0;
        check(umbo_gradients_accumulation_steps(get(), &out));
        return out;
    }

    bool row_sparse(std::int64_t index) const {
        std::int32_t out = 0;
        check(umbo_gradients_row_sparse(get(), index, &out));
        return out != 0;
    }

    umbo_dtype dtype(std::int64_t index) const {
        umbo_dtype out{};
        check(umbo_gradients_dtype(get(), index, &out));
        return out;
    }
};

// The options of update rules, with their defaults.
struct sgd_options {
    double learning_rate = 0.01;
};

struct momentum_options {
    double learning_rate = 0.01;
    double momentum = 0.9;
    bool nesterov = false;
};

struct adam_options {
    double learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
};

struct adamw_options {
    double learning_rate = 0.001;
    double beta1 = 0.9;
    double beta2 = 0.999;
    double epsilon = 1e-8;
    double weight_decay = 0.01;
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
    double initial_accumulator = 0;
    double epsilon = 1e-10;
};

struct rmsprop_options {
    double learning_rate = 0.01;
    double rho = 0.99;
    double momentum = 0;
    double epsilon = 1e-8;
    bool centered = false;
};

struct ftrl_options {
    double learning_rate = 0.1;
    double beta = 1;
    double l1 = 0;
    double l2 = 0;
    double initial_accumulator = 0;
};

// What an optimizer does around its rule; see umbo_optimizer_options.
struct optimizer_options {
    double weight_decay = UMBO_WEIGHT_DECAY_OF_RULE;
    double global_clip_norm = UMBO_NO_CLIPPING;
    double clip_value = UMBO_NO_CLIPPING;
    umbo::non_finite non_finite = umbo::non_finite::automatic;
    umbo::loss_scaling loss_scaling = umbo::loss_scaling::none;
    double loss_scale = 65536;
    double loss_scale_growth_factor = 2;
    double loss_scale_backoff_factor = 0.5;
    double loss_scale_minimum = 1;
    std::int64_t loss_scale_growth_interval = 2000;
};

// How the variables of a group are treated; see umbo_group_options.
struct group_options {
    double learning_rate_factor = 1;
    double weight_decay = UMBO_WEIGHT_DECAY_OF_OPTIMIZER;
    bool frozen = false;
};

struct apply_options {
    bool flush = false;
    bool measure_norm = false;
};

namespace detail {

template <class Callable>
umbo_status schedule_trampoline(std::int64_t step, void *callable, double *learning_rate) noexcept {
    return guarded([&] { *learning_rate = (*static_cast<Callable *>(callable))(step); });
}

} // namespace detail

class optimizer : public handle<umbo_optimizer> {
public:
    using handle::handle;

    static optimizer sgd(const strategy &of, const sgd_options &how = {}) {
        auto options = detail::sized<umbo_sgd_options>();
        options.learning_rate = how.learning_rate;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_sgd(of.get(), &options, &out));
        return optimizer(out);
    }

    static optimizer momentum(const strategy &of, const momentum_options &how = {}) {
        auto options = detail::sized<umbo_momentum_options>();
        options.learning_rate = how.learning_rate;
        options.momentum = how.momentum;
        options.nesterov = how.nesterov ? 1 : 0;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_momentum(of.get(), &options, &out));
        return optimizer(out);
    }

    static optimizer adam(const strategy &of, const adam_options &how = {}) {
        auto options = detail::sized<umbo_adam_options>();
        options.learning_rate = how.learning_rate;
        options.beta1 = how.beta1;
        options.beta2 = how.beta2;
        options.epsilon = how.epsilon;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_adam(of.get(), &options, &out));
        return optimizer(out);
    }

    static optimizer adamw(const strategy &of, const adamw_options &how = {}) {
        auto options = detail::sized<umbo_adamw_options>();
        options.learning_rate = how.learning_rate;
        options.beta1 = how.beta1;
        options.beta2 = how.beta2;
        options.epsilon = how.epsilon;
        options.weight_decay = how.weight_decay;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_adamw(of.get(), &options, &out));
        return optimizer(out);
    }

    static optimizer lamb(const strategy &of, const lamb_options &how = {}) {
        auto options = detail::sized<umbo_lamb_options>();
        options.learning_rate = how.learning_rate;
        options.beta1 = how.beta1;
        options.beta2 = how.beta2;
        options.epsilon = how.epsilon;
        options.weight_decay = how.weight_decay;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_lamb(of.get(), &options, &out));
        return optimizer(out);
    }

    static optimizer adagrad(const strategy &of, const adagrad_options &how = {}) {
        auto options = detail::sized<umbo_adagrad_options>();
        options.learning_rate = how.learning_rate;
        options.initial_accumulator = how.initial_accumulator;
        options.epsilon = how.epsilon;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_adagrad(of.get(), &options, &out));
        return optimizer(out);
    }

    static optimizer rmsprop(const strategy &of, const rmsprop_options &how = {}) {
        auto options = detail::sized<umbo_rmsprop_options>();
        options.learning_rate = how.learning_rate;
        options.rho = how.rho;
        options.momentum = how.momentum;
        options.epsilon = how.epsilon;
        options.centered = how.centered ? 1 : 0;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_rmsprop(of.get(), &options, &out));
        return optimizer(out);
    }

    static optimizer ftrl(const strategy &of, const ftrl_options &how = {}) {
        auto options = detail::sized<umbo_ftrl_options>();
        options.learning_rate = how.learning_rate;
        options.beta = how.beta;
        options.l1 = how.l1;
        options.l2 = how.l2;
        options.initial_accumulator = how.initial_accumulator;
        umbo_optimizer *out = nullptr;
        check(umbo_optimizer_create_ftrl(of.get(), &options, &out));
        return optimizer(out);
    }

    // Replaces all settings.
    void configure(const optimizer_options &how) const {
        auto options = detail::sized<umbo_optimizer_options>();
        options.weight_decay = how.weight_decay;
        options.global_clip_norm = how.global_clip_norm;
        options.clip_value = how.clip_value;
        options.non_finite = to_c(how.non_finite);
        options.loss_scaling = to_c(how.loss_scaling);
        options.loss_scale = how.loss_scale;
        options.loss_scale_growth_factor = how.loss_scale_growth_factor;
        options.loss_scale_backoff_factor = how.loss_scale_backoff_factor;
        options.loss_scale_minimum = how.loss_scale_minimum;
        options.loss_scale_growth_interval = how.loss_scale_growth_interval;
        check(umbo_optimizer_configure(get(), &options));
    }

    void add_group(const std::vector<variable> &variables, const group_options &how) const {
        auto options = detail::sized<umbo_group_options>();
        options.learning_rate_factor = how.learning_rate_factor;
        options.weight_decay = how.weight_decay;
        options.frozen = how.frozen ? 1 : 0;
        const auto raw = detail::raw_variables(variables);
        check(umbo_optimizer_add_group(get(), detail::count_of(raw.size()), raw.data(),
                                       &options));
    }

    // What umbo_optimizer_setting() gives: "learning_rate", "beta1", ...
    double setting(const std::string &name) const {
        double out = 0;
        check(umbo_optimizer_setting(get(), name.c_str(), &out));
        return out;
    }

    // "sgd", "adam", ...
    std::string rule() const {
        const char *out = nullptr;
        check(umbo_optimizer_rule(get(), &out));
        return out;
    }

    // The settings as they take effect.
    optimizer_options options() const {
        auto raw = detail::sized<umbo_optimizer_options>();
        check(umbo_optimizer_get_options(get(), &raw));
        optimizer_options out;
        out.weight_decay = raw.weight_decay;
        out.global_clip_norm = raw.global_clip_norm;
        out.clip_value = raw.clip_value;
        out.non_finite = umbo::non_finite{raw.non_finite};
        out.loss_scaling = umbo::loss_scaling{raw.loss_scaling};
        out.loss_scale = raw.loss_scale;
        out.loss_scale_growth_factor = raw.loss_scale_growth_factor;
        out.loss_scale_backoff_factor = raw.loss_scale_backoff_factor;
        out.loss_scale_minimum = raw.loss_scale_minimum;
        out.loss_scale_growth_interval = raw.loss_scale_growth_interval;
        return out;
    }

    // How a variable is treated.
    group_options options_for(const variable &of) const {
        auto raw = detail::sized<umbo_group_options>();
        check(umbo_optimizer_get_group_options(get(), of.get(), &raw));
        group_options out;
        out.learning_rate_factor = raw.learning_rate_factor;
        out.weight_decay = raw.weight_decay;
        out.frozen = raw.frozen != 0;
        return out;
    }

    // The learning rate of each update is `schedule(step)`, where `step` counts those before it.
    template <class Schedule>
    void set_schedule(Schedule &&schedule) const {
        using callable = std::decay_t<Schedule>;
        auto *kept = new callable(std::forward<Schedule>(schedule));
        check(umbo_optimizer_set_schedule(get(), &detail::schedule_trampoline<callable>, kept,
                                          &detail::destroy_callable<callable>));
    }

    // What callbacks multiply their loss with.
    double loss_scale() const {
        double out = 0;
        check(umbo_optimizer_loss_scale(get(), &out));
        return out;
    }

    // Reduces what the replicas submitted and updates the variables.
    umbo_apply_report apply(const gradients &submitted, const apply_options &how = {}) const {
        auto options = detail::sized<umbo_apply_options>();
        options.flush = how.flush ? 1 : 0;
        options.measure_norm = how.measure_norm ? 1 : 0;
        auto report = detail::sized<umbo_apply_report>();
        check(umbo_optimizer_apply(get(), submitted.get(), &options, &report));
        return report;
    }

    // What the last apply did that was carried out.
    umbo_apply_report last_report() const {
        auto report = detail::sized<umbo_apply_report>();
        check(umbo_optimizer_last_report(get(), &report));
        return report;
    }

    void set_learning_rate(double learning_rate) const {
        check(umbo_optimizer_set_learning_rate(get(), learning_rate));
    }

    double learning_rate() const {
        double out = 0;
        check(umbo_optimizer_learning_rate(get(), &out));
        return out;
    }

    std::int64_t iterations() const {
        std::int64_t out = 0;
        check(umbo_optimizer_iterations(get(), &out));
        return out;
    }

    // A copy of what the optimizer keeps for a variable: "momentum", "m", "v".
    tensor state(const variable &of, const std::string &name) const {
        umbo_tensor *out = nullptr;
        check(umbo_optimizer_state(get(), of.get(), name.c_str(), &out));
        return tensor(out);
    }
};

} // namespace umbo

#endif

// Gradients and optimizers.
#ifndef UMBO_CPP_OPTIMIZER_HPP
#define UMBO_CPP_OPTIMIZER_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <umbo/cpp/strategy.hpp>

namespace umbo {

// The gradient buffers of all replicas; written and submitted through `replica_context`.
class gradients : public handle<umbo_gradients> {
public:
    using handle::handle;

    static gradients create(const strategy &of, const std::vector<variable> &variables,
                            umbo_loss_reduction loss_reduction) {
        auto options = detail::sized<umbo_gradients_options>();
        options.loss_reduction = loss_reduction;
        const auto raw = detail::raw_handles(variables);
        umbo_gradients *out = nullptr;
        check(umbo_gradients_create(of.get(), detail::count_of(raw.size(), "variables"),
                                    raw.data(), &options, &out));
        return gradients(out);
    }
};

// What is 0 has the usual value.
struct sgd_options {
    double learning_rate = 0; // 0.01
};

struct momentum_options {
    double learning_rate = 0; // 0.01
    double momentum = 0;      // 0.9
    bool nesterov = false;
};

struct adam_options {
    double learning_rate = 0; // 0.001
    double beta1 = 0;         // 0.9
    double beta2 = 0;         // 0.999
    double epsilon = 0;       // 1e-8
};

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

    // Reduces what the replicas submitted and updates the variables.
    umbo_apply_report apply(const gradients &submitted) const {
        auto report = detail::sized<umbo_apply_report>();
        check(umbo_optimizer_apply(get(), submitted.get(), nullptr, &report));
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

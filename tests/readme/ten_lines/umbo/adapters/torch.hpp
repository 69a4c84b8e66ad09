// A stand-in for the LibTorch adapter: as much of its names as the ten lines of docs/engines.md use. A step counts its batch and submits
// gradients of zero.
#pragma once

#include <umbo/umbo.hpp>

#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace torch::nn::functional {
inline void cross_entropy(int, int) {}
} // namespace torch::nn::functional

namespace umbo::adapters {

struct part {
    int operator[](const char *) const { return 0; }
};

inline strategy torch_strategy(int replicas) {
    strategy_options options;
    options.cpu_replicas = replicas;
    return strategy::create(options);
}

inline dataset rows_of(const std::vector<std::pair<std::string, tensor>> &fields) {
    value::field_list shared;
    for (const auto &field : fields) shared.emplace_back(field.first, value(field.second));
    return dataset::from_tensor_slices(value::create_struct(shared));
}

// The examples of all batches that models were trained on.
inline std::int64_t examples = 0;

template <typename Net>
class torch_model {
public:
    torch_model(const strategy &strategy, const std::function<std::shared_ptr<Net>()> &make)
        : strategy_(strategy), net_(make()),
          weight_(strategy.create_variable("weight", tensor::create_zeros(dtype::float32, {1}))) {
        gradients_ = umbo::gradients::create(strategy, {weight_}, loss_reduction::sum);
    }

    template <typename Loss>
    void train(const value &batch, const Loss &loss) {
        examples += batch.field("x").example_count();
        loss(*net_, part());
        strategy_.run(
            [this](replica_context &context, const value &) {
                context.gradient<float>(gradients_, 0, gradient_mode::add);
                context.submit(gradients_);
            },
            batch);
    }

    const umbo::gradients &gradients() const { return gradients_; }

private:
    umbo::strategy strategy_;
    std::shared_ptr<Net> net_;
    variable weight_;
    umbo::gradients gradients_;
};

} // namespace umbo::adapters

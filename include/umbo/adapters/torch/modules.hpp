// What the adapter has to know about modules of torch.
#ifndef UMBO_ADAPTERS_TORCH_MODULES_HPP
#define UMBO_ADAPTERS_TORCH_MODULES_HPP

#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

#include <umbo/adapters/torch/tensor.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

// Whether a module is one of these layers.
template <class... Layers>
bool is_one_of(const torch::nn::Module &module) {
    return (... || (module.as<Layers>() != nullptr));
}

// Torch computes a normalisation of 16-bit examples with running statistics of float32 only if the parameters are
// float32 as well.
inline bool keeps_statistics(const torch::nn::Module &module) {
    using namespace torch::nn;
    return is_one_of<BatchNorm1dImpl, BatchNorm2dImpl, BatchNorm3dImpl, InstanceNorm1dImpl, InstanceNorm2dImpl,
                     InstanceNorm3dImpl>(module);
}

// Whether one of these layers, which a module may be, has a rate above 0.
template <class... Layers, class Rate>
bool drops(const torch::nn::Module &module, Rate rate) {
    const auto is_above = [&](const auto *layer) { return layer != nullptr && rate(layer->options) > 0; };
    return (... || is_above(module.as<Layers>()));
}

// Whether a module drops out by torch's generator, of which the process has one.
inline bool drops_by_torch(const torch::nn::Module &module) {
    using namespace torch::nn;
    return drops<DropoutImpl, Dropout2dImpl, Dropout3dImpl, AlphaDropoutImpl, FeatureAlphaDropoutImpl>(
               module, [](const auto &options) { return options.p(); }) ||
           drops<MultiheadAttentionImpl, RNNImpl, LSTMImpl, GRUImpl>(
               module, [](const auto &options) { return options.dropout(); });
}

// Warns, once in a process, that results will differ from run to run.
inline void warn_of_shared_generator(const strategy &on, const torch::nn::Module &module) {
    if (on.replica_count() == 1) return;
    for (const auto &named : module.named_modules()) {
        if (!drops_by_torch(*named.value())) continue;
        TORCH_WARN_ONCE("umbo: '", named.key(), "' drops out by torch's generator, which all replicas share: results ",
                        "differ from run to run. umbo::adapters::keyed_dropout draws by example.");
        return;
    }
}

// The modes of a module and of its submodules: whether each is in training mode, in the order of `modules()`.
inline std::vector<bool> modes_of(const torch::nn::Module &module) {
    std::vector<bool> modes;
    for (const auto &each : module.modules()) modes.push_back(each->is_training());
    return modes;
}

// The same modes for a module that is made alike.
inline void set_modes(torch::nn::Module &module, const std::vector<bool> &modes) {
    if (modes_of(module) == modes) return;
    std::size_t number = 0;
    // A module comes before its submodules, to which `train` hands its mode down.
    for (const auto &each : module.modules()) {
        if (number < modes.size()) each->train(modes[number++]);
    }
}

// Leaves a module in the modes that it was in.
class mode_guard {
public:
    explicit mode_guard(torch::nn::Module &module) : module_(module), before_(modes_of(module)) {}
    ~mode_guard() { set_modes(module_, before_); }
    mode_guard(const mode_guard &) = delete;
    mode_guard &operator=(const mode_guard &) = delete;

private:
    torch::nn::Module &module_;
    std::vector<bool> before_;
};

// Takes back what torch's generator for CPUs draws while it lives.
class generator_guard {
public:
    generator_guard() : generator_(at::detail::getDefaultCPUGenerator()) {
        const std::lock_guard<std::mutex> alone(generator_.mutex());
        before_ = generator_.get_state();
    }
    ~generator_guard() {
        const std::lock_guard<std::mutex> alone(generator_.mutex());
        generator_.set_state(before_);
    }
    generator_guard(const generator_guard &) = delete;
    generator_guard &operator=(const generator_guard &) = delete;

private:
    at::Generator generator_;
    at::Tensor before_;
};

// What makes modules like this one, for other replicas. Throws INVALID_ARGUMENT if it is null.
template <class Module>
std::function<std::shared_ptr<Module>()> another(const std::shared_ptr<Module> &module) {
    if (module == nullptr) throw error(status::invalid_argument, "torch_model: module is null");
    if constexpr (std::is_base_of_v<torch::nn::Cloneable<Module>, Module>) {
        return [module] { return std::dynamic_pointer_cast<Module>(module->clone()); };
    } else {
        static_assert(std::is_default_constructible_v<Module>,
                      "the module is neither a torch::nn::Cloneable nor made without arguments: give torch_model a function that "
                      "makes one, torch_model(strategy, module, make)");
        return [] { return std::make_shared<Module>(); };
    }
}

} // namespace torch_detail

} // namespace adapters
} // namespace umbo

#endif

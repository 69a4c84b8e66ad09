// What the adapter has to know about modules of torch.
#ifndef UMBO_ADAPTERS_TORCH_MODULES_HPP
#define UMBO_ADAPTERS_TORCH_MODULES_HPP

#include <string>

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

} // namespace torch_detail

} // namespace adapters
} // namespace umbo

#endif

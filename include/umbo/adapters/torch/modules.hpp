// What the adapter has to know about modules of torch.
#ifndef UMBO_ADAPTERS_TORCH_MODULES_HPP
#define UMBO_ADAPTERS_TORCH_MODULES_HPP

#include <cstdint>
#include <string>

#include <umbo/adapters/torch/tensor.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

// The LibTorch adapter computes on CPUs: memory of a GPU would look like host memory to torch.
inline void refuse_gpus(const strategy &on) {
    const auto replicas = static_cast<std::int32_t>(on.local_replica_count());
    for (std::int32_t replica = 0; replica < replicas; ++replica) {
        const std::string device = on.compute_device(replica);
        if (device.find("CPU:") != std::string::npos) continue;
        throw error(status::unimplemented, "torch_model: the strategy computes on " + device +
                                               "; the LibTorch adapter needs a strategy of CPUs, such as torch_strategy(2)");
    }
}

// Torch computes a normalisation of 16-bit examples with running statistics of float32 only if the parameters are
// float32 as well.
inline bool keeps_statistics(const torch::nn::Module &module) {
    return module.as<torch::nn::BatchNorm1dImpl>() || module.as<torch::nn::BatchNorm2dImpl>() ||
           module.as<torch::nn::BatchNorm3dImpl>() || module.as<torch::nn::InstanceNorm1dImpl>() ||
           module.as<torch::nn::InstanceNorm2dImpl>() || module.as<torch::nn::InstanceNorm3dImpl>();
}

// Whether a module drops out by torch's generator, of which the process has one.
inline bool drops_by_torch(const torch::nn::Module &module) {
    if (const auto *dropout = module.as<torch::nn::DropoutImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::Dropout2dImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::Dropout3dImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::AlphaDropoutImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::FeatureAlphaDropoutImpl>()) return dropout->options.p() > 0;
    if (const auto *layer = module.as<torch::nn::MultiheadAttentionImpl>()) return layer->options.dropout() > 0;
    if (const auto *layer = module.as<torch::nn::RNNImpl>()) return layer->options.dropout() > 0;
    if (const auto *layer = module.as<torch::nn::LSTMImpl>()) return layer->options.dropout() > 0;
    if (const auto *layer = module.as<torch::nn::GRUImpl>()) return layer->options.dropout() > 0;
    return false;
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

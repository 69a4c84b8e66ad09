// The module of a replica, with its tensors one by one.
#ifndef UMBO_ADAPTERS_TORCH_REPLICA_MODULE_HPP
#define UMBO_ADAPTERS_TORCH_REPLICA_MODULE_HPP

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <umbo/adapters/torch/dropout.hpp>
#include <umbo/adapters/torch/modules.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

// A module's own tensors, each once: one that is registered twice is listed twice.
template <class Module>
struct replica_module {
    std::shared_ptr<Module> module;
    std::vector<std::string> names, buffer_names;
    std::vector<at::Tensor> parameters, buffers;
    // For each parameter whether it belongs to a module that keeps statistics.
    std::vector<bool> normalises;

    replica_module() = default;

    // Numbers the layers of keyed dropout, too.
    explicit replica_module(std::shared_ptr<Module> of) : module(std::move(of)) {
        if (module == nullptr) throw error(status::invalid_argument, "make: it gives a null pointer");
        std::unordered_set<const void *> seen, statistical;
        for (const auto &each : module->modules()) {
            if (!keeps_statistics(*each)) continue;
            for (const auto &parameter : each->parameters(false)) statistical.insert(parameter.unsafeGetTensorImpl());
        }
        const auto is_new = [&](const at::Tensor &tensor) {
            return tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second;
        };
        for (const auto &each : module->named_parameters()) {
            if (!is_new(each.value())) continue;
            names.push_back(each.key());
            parameters.push_back(each.value());
            normalises.push_back(statistical.count(each.value().unsafeGetTensorImpl()) != 0);
        }
        for (const auto &each : module->named_buffers()) {
            if (!is_new(each.value())) continue;
            buffer_names.push_back(each.key());
            buffers.push_back(each.value());
        }
        std::uint64_t layer = 0;
        for (const auto &each : module->modules()) {
            if (auto *dropout = dynamic_cast<keyed_layer *>(each.get())) dropout->layer = layer++;
        }
    }

    // Throws INVALID_ARGUMENT if its tensors have other names or shapes than another's. `what` begins the message.
    void require_like(const replica_module &other, const std::string &what) const {
        const auto have_shapes = [](const std::vector<at::Tensor> &tensors, const std::vector<at::Tensor> &those) {
            return std::equal(tensors.begin(), tensors.end(), those.begin(), those.end(),
                              [](const at::Tensor &one, const at::Tensor &two) { return one.sizes() == two.sizes(); });
        };
        if (names != other.names || buffer_names != other.buffer_names) {
            throw error(status::invalid_argument, what + " parameters or buffers of other names");
        }
        if (!have_shapes(parameters, other.parameters) || !have_shapes(buffers, other.buffers)) {
            throw error(status::invalid_argument, what + " parameters or buffers of other shapes");
        }
    }
};

} // namespace torch_detail

} // namespace adapters
} // namespace umbo

#endif

// What the adapter has to know about layers of dlib.
#ifndef UMBO_ADAPTERS_DLIB_LAYERS_HPP
#define UMBO_ADAPTERS_DLIB_LAYERS_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <dlib/dnn.h>

#include <umbo/adapters/common.hpp>

#if defined(DLIB_USE_CUDA)
#error "umbo/adapters/dlib.hpp computes on CPUs: compile dlib without CUDA"
#endif

namespace umbo {
namespace adapters {

namespace dlib_detail {

// A part of a layer's parameters that dlib's rules treat alike: its weights, or its biases.
struct part_of_layer {
    std::size_t layer; // among those that compute, from the loss on
    std::size_t first, count;
    bool is_bias;
    double rate, decay; // multiples of those of the rule
};

// How many of a layer's parameters, at their end, are biases for dlib's rules.
template <class Layer>
std::size_t bias_count(const Layer &) {
    return 0;
}

template <unsigned long Outputs>
std::size_t bias_count(const dlib::fc_<Outputs, dlib::FC_HAS_BIAS> &layer) {
    return layer.bias_is_disabled() ? 0 : layer.get_num_outputs();
}

template <long Filters, long Rows, long Columns, int StrideY, int StrideX, int PaddingY, int PaddingX>
std::size_t bias_count(const dlib::con_<Filters, Rows, Columns, StrideY, StrideX, PaddingY, PaddingX> &layer) {
    return layer.bias_is_disabled() ? 0 : static_cast<std::size_t>(layer.num_filters());
}

template <long Filters, long Rows, long Columns, int StrideY, int StrideX, int PaddingY, int PaddingX>
std::size_t bias_count(const dlib::cont_<Filters, Rows, Columns, StrideY, StrideX, PaddingY, PaddingX> &layer) {
    return layer.bias_is_disabled() ? 0 : static_cast<std::size_t>(layer.num_filters());
}

template <dlib::layer_mode Mode>
std::size_t bias_count(const dlib::bn_<Mode> &layer) {
    return layer.get_layer_params().size() / 2;
}

template <class Layer, class = void>
struct bias_multiples {
    static double rate(const Layer &) { return 1; }
    static double decay(const Layer &) { return 1; }
};

template <class Layer>
struct bias_multiples<Layer, std::void_t<decltype(&Layer::get_bias_learning_rate_multiplier)>> {
    static double rate(const Layer &layer) { return layer.get_bias_learning_rate_multiplier(); }
    static double decay(const Layer &layer) { return layer.get_bias_weight_decay_multiplier(); }
};

// The parts of all layers that have parameters, whose tensors have their sizes already.
template <class Net>
std::vector<part_of_layer> parts_of(Net &net) {
    std::vector<part_of_layer> found;
    std::size_t number = 0;
    dlib::visit_computational_layers(net, [&](auto &layer) {
        using Layer = std::decay_t<decltype(layer)>;
        const std::size_t all = layer.get_layer_params().size(), biases = bias_count(layer), weights = all - biases;
        const double rate = dlib::get_learning_rate_multiplier(layer), decay = dlib::get_weight_decay_multiplier(layer);
        if (weights != 0) found.push_back({number, 0, weights, false, rate, decay});
        if (biases != 0) {
            found.push_back({number, weights, biases, true, rate * bias_multiples<Layer>::rate(layer), decay * bias_multiples<Layer>::decay(layer)});
        }
        ++number;
    });
    return found;
}

// The tensors of all layers, by their numbers.
template <class Net>
std::vector<dlib::tensor *> parameters_of(Net &net) {
    std::vector<dlib::tensor *> found;
    dlib::visit_layer_parameters(net, [&](std::size_t, dlib::tensor &each) { found.push_back(&each); });
    return found;
}

template <class Net>
std::vector<dlib::tensor *> gradients_of(Net &net) {
    std::vector<dlib::tensor *> found;
    dlib::visit_layer_parameter_gradients(net, [&](std::size_t, dlib::tensor &each) { found.push_back(&each); });
    return found;
}

// What dlib throws, as a status of Umbo's.
template <class Compute>
auto translated(Compute compute) {
    try {
        return compute();
    } catch (const dlib::error &failed) {
        throw error(status::unknown, std::string("dlib: ") + failed.what());
    }
}

} // namespace dlib_detail

} // namespace adapters
} // namespace umbo

#endif

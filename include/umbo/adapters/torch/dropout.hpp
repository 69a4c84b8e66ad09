// Dropout that does not depend on how a batch was split.
#ifndef UMBO_ADAPTERS_TORCH_DROPOUT_HPP
#define UMBO_ADAPTERS_TORCH_DROPOUT_HPP

#include <atomic>
#include <cstdint>
#include <ostream>
#include <vector>

#include <umbo/adapters/torch/tensor.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

// Where the part of the replica that this thread serves lies; for dropout.
struct place {
    std::int64_t step = 0, first_example = 0;
    bool known = false;
    // Another number each time that a thread comes to a place.
    std::uint64_t visit = 0;
};

inline std::uint64_t next_visit() {
    static std::atomic<std::uint64_t> visits{0};
    return ++visits;
}

inline place &current_place() {
    thread_local place now;
    return now;
}

// The finaliser of splitmix64: a bijection whose outputs look random.
inline std::uint64_t mixed(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

inline std::uint64_t keyed(std::uint64_t key, std::uint64_t number) {
    return mixed(key + 0x9e3779b97f4a7c15u * (number + 1));
}

// Factors of dropout: of each of `rows` examples from `first_example` on `width`, 0 or `kept`.
struct draw_of {
    std::uint64_t key;
    std::int64_t first_example, rows, width;
    std::uint64_t limit;
    float kept;
};

inline at::Tensor drawn_by_loop(const draw_of &all) {
    auto factors = at::empty({all.rows, all.width}, at::TensorOptions(at::kFloat));
    float *const to = factors.template data_ptr<float>();
    for (std::int64_t row = 0; row < all.rows; ++row) {
        const auto key = keyed(all.key, static_cast<std::uint64_t>(all.first_example + row));
        for (std::int64_t column = 0; column < all.width; ++column) {
            const auto number = keyed(key, static_cast<std::uint64_t>(column)) >> 32;
            to[row * all.width + column] = number >= all.limit ? all.kept : 0.0f;
        }
    }
    return factors;
}

// The bits of 64-bit integers, moved down.
inline at::Tensor moved_down(const at::Tensor &bits, std::int64_t by) {
    return at::bitwise_and(at::bitwise_right_shift(bits, by), static_cast<std::int64_t>(~std::uint64_t{0} >> by));
}

// `keyed` of tensors of 64-bit integers, whose arithmetic wraps around as that of unsigned ones does.
inline at::Tensor keyed(const at::Tensor &keys, const at::Tensor &numbers) {
    const auto factor = [](std::uint64_t bits) { return static_cast<std::int64_t>(bits); };
    auto bits = keys + (numbers + 1) * factor(0x9e3779b97f4a7c15u);
    bits = at::bitwise_xor(bits, moved_down(bits, 30)) * factor(0xbf58476d1ce4e5b9u);
    bits = at::bitwise_xor(bits, moved_down(bits, 27)) * factor(0x94d049bb133111ebu);
    return at::bitwise_xor(bits, moved_down(bits, 31));
}

// The same factors, computed on the device by operations of torch's.
inline at::Tensor drawn_by_tensors(const draw_of &all, const c10::Device &device) {
    const auto whole = at::TensorOptions(at::kLong).device(device);
    const auto counted = [&](std::int64_t from, std::int64_t count) { return at::cumsum(at::ones({count}, whole), 0) + (from - 1); };
    const auto keys = keyed(at::full({1}, static_cast<std::int64_t>(all.key), whole), counted(all.first_example, all.rows));
    const auto numbers = moved_down(keyed(keys.unsqueeze(1), counted(0, all.width).unsqueeze(0)), 32);
    return numbers.ge(static_cast<std::int64_t>(all.limit)).to(at::kFloat) * all.kept;
}

// What layers of keyed dropout share: their settings, and the draws of the step that their replica is in.
class keyed_layer {
public:
    double p;
    std::uint64_t seed;
    // The number of this layer among those of a module; a `torch_model` sets it.
    std::uint64_t layer = 0;

protected:
    keyed_layer(const char *its_name, double its_p, std::uint64_t its_seed) : p(its_p), seed(its_seed), layer_name(its_name) {
        TORCH_CHECK(p >= 0 && p <= 1, layer_name, ": p is ", p, "; it is from 0 to 1");
    }

    // For each of `rows` examples `width` factors, which are 0 or 1 / (1 - p), on a device: the same on every one.
    at::Tensor drawn(std::int64_t rows, std::int64_t width, const c10::Device &device) {
        const auto &at = current_place();
        TORCH_CHECK(at.known, layer_name, ": in training it is used in the steps of a torch_model, which know where examples are");
        if (visit != at.visit) {
            visit = at.visit;
            uses = 0;
        }
        std::uint64_t of_step = keyed(keyed(mixed(seed), layer), static_cast<std::uint64_t>(at.step));
        // A network may use one layer several times.
        if (uses > 0) of_step = keyed(mixed(of_step), uses);
        ++uses;
        // Numbers below this one, of 2^32, drop.
        const auto limit = static_cast<std::uint64_t>(p * 4294967296.0);
        const draw_of all{of_step, at.first_example, rows, width, limit, p < 1 ? static_cast<float>(1 / (1 - p)) : 0.0f};
        return device.is_cpu() ? drawn_by_loop(all) : drawn_by_tensors(all, device);
    }

    void print(std::ostream &stream) const { stream << layer_name << "(p=" << p << ")"; }

    const char *layer_name;

private:
    // The visit that its replica is in, and the number of its uses there.
    std::uint64_t visit = 0, uses = 0;
};

} // namespace torch_detail

// Dropout whose zeros depend on the seed, the layer, how often the step has used that layer before, the step
// and the global position of the example in its batch (dimension 0), not on how the batch was split. In
// training it works inside of the steps of a `torch_model`; elsewhere it is an error. Like torch's, it scales
// what stays by 1 / (1 - p).
class keyed_dropoutImpl : public torch::nn::Cloneable<keyed_dropoutImpl>, public torch_detail::keyed_layer {
public:
    explicit keyed_dropoutImpl(double p = 0.5, std::uint64_t seed = 0) : keyed_layer("keyed_dropout", p, seed) {}
    explicit keyed_dropoutImpl(const torch::nn::DropoutOptions &options) : keyed_dropoutImpl(options.p()) {}

    void reset() override {}

    void pretty_print(std::ostream &stream) const override { print(stream); }

    at::Tensor forward(const at::Tensor &input) {
        if (!is_training() || p == 0) return input;
        TORCH_CHECK(input.dim() > 0, layer_name, ": an input without examples in dimension 0");
        const std::int64_t rows = input.size(0), width = rows == 0 ? 0 : input.numel() / rows;
        return input * drawn(rows, width, input.device()).view(input.sizes()).to(input.options(), true);
    }
};
TORCH_MODULE_IMPL(keyed_dropout, keyed_dropoutImpl);

// The same for whole channels, as torch's Dropout2d drops them: inputs are (examples, channels, ...).
class keyed_dropout2dImpl : public torch::nn::Cloneable<keyed_dropout2dImpl>, public torch_detail::keyed_layer {
public:
    explicit keyed_dropout2dImpl(double p = 0.5, std::uint64_t seed = 0) : keyed_layer("keyed_dropout2d", p, seed) {}
    explicit keyed_dropout2dImpl(const torch::nn::Dropout2dOptions &options) : keyed_dropout2dImpl(options.p()) {}

    void reset() override {}

    void pretty_print(std::ostream &stream) const override { print(stream); }

    at::Tensor forward(const at::Tensor &input) {
        if (!is_training() || p == 0) return input;
        TORCH_CHECK(input.dim() > 1, layer_name, ": an input without channels in dimension 1");
        std::vector<std::int64_t> shape(static_cast<std::size_t>(input.dim()), 1);
        shape[0] = input.size(0);
        shape[1] = input.size(1);
        return input * drawn(shape[0], shape[1], input.device()).view(shape).to(input.options(), true);
    }
};
TORCH_MODULE_IMPL(keyed_dropout2d, keyed_dropout2dImpl);

namespace torch_detail {

// What uses of the function `dropout` share on a thread, as a layer of its own.
struct layer_of_function : keyed_layer {
    layer_of_function() : keyed_layer("dropout", 0, 0) { layer = ~std::uint64_t{0}; }
    using keyed_layer::drawn;
};

} // namespace torch_detail

// The same as a function in the place of `torch::dropout`: in training its zeros depend on the step, how often the step has
// called it before, and the global position of the example.
inline at::Tensor dropout(const at::Tensor &input, double p, bool train) {
    TORCH_CHECK(p >= 0 && p <= 1, "dropout: p is ", p, "; it is from 0 to 1");
    if (!train || p == 0) return input;
    TORCH_CHECK(input.dim() > 0, "dropout: an input without examples in dimension 0");
    thread_local torch_detail::layer_of_function uses;
    uses.p = p;
    const std::int64_t rows = input.size(0), width = rows == 0 ? 0 : input.numel() / rows;
    return input * uses.drawn(rows, width, input.device()).view(input.sizes()).to(input.options(), true);
}

} // namespace adapters
} // namespace umbo

#endif

// LibTorch under Umbo beside LibTorch alone, on a card: losses, samples a second, and what goes over the bus.
//
//   torch_card --whole     on the first GPU that torch knows, as one logical GPU and as two; on CPUs if torch has no CUDA
//   torch_card             the same with networks and rounds so small that a test has time for them
//
// It ends with 1 if losses differ from those of torch alone, or bits where torch repeats its own.
#include <umbo/adapters/torch.hpp>

#ifdef TORCH_ON_FAKE_CUDA
#include "torch_on_fake_cuda.hpp"
#endif

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

namespace F = torch::nn::functional;
using umbo::adapters::part;
using umbo::adapters::torch_model;

bool small = true;

std::int64_t size_of(std::int64_t whole, std::int64_t in_tests) { return small ? in_tests : whole; }

// Two convolutions and two full layers, for pictures of MNIST's size.
struct mnist_impl : torch::nn::Module {
    mnist_impl() {
        torch::manual_seed(1);
        const std::int64_t narrow = size_of(32, 4), wide = size_of(64, 6), full = size_of(128, 16);
        first = register_module("first", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, narrow, 3)));
        second = register_module("second", torch::nn::Conv2d(torch::nn::Conv2dOptions(narrow, wide, 3)));
        third = register_module("third", torch::nn::Linear(wide * 144, full));
        last = register_module("last", torch::nn::Linear(full, 10));
    }
    torch::Tensor forward(torch::Tensor x) {
        x = torch::max_pool2d(torch::relu(second(torch::relu(first(x)))), 2);
        return last(torch::relu(third(x.flatten(1))));
    }
    torch::nn::Conv2d first{nullptr}, second{nullptr};
    torch::nn::Linear third{nullptr}, last{nullptr};
};

// DCGAN's two networks, for pictures of 32 x 32; they normalise by groups of channels, so that a split changes nothing.
struct maker_impl : torch::nn::Module {
    maker_impl() {
        torch::manual_seed(2);
        const std::int64_t width = size_of(64, 2), noise = size_of(100, 4);
        const auto up = [&](std::int64_t from, std::int64_t to, int stride, int padding) {
            layers->push_back(torch::nn::ConvTranspose2d(torch::nn::ConvTranspose2dOptions(from, to, 4).stride(stride).padding(padding).bias(false)));
        };
        const auto between = [&](std::int64_t channels) {
            layers->push_back(torch::nn::GroupNorm(2, channels));
            layers->push_back(torch::nn::ReLU());
        };
        up(noise, width * 4, 1, 0);
        between(width * 4);
        up(width * 4, width * 2, 2, 1);
        between(width * 2);
        up(width * 2, width, 2, 1);
        between(width);
        up(width, 3, 2, 1);
        register_module("layers", layers);
    }
    torch::Tensor forward(const torch::Tensor &noise) { return torch::tanh(layers->forward(noise)); }
    torch::nn::Sequential layers;
};

struct critic_impl : torch::nn::Module {
    critic_impl() {
        torch::manual_seed(3);
        const std::int64_t width = size_of(64, 2);
        const auto down = [&](std::int64_t from, std::int64_t to, int stride, int padding) {
            layers->push_back(torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, 4).stride(stride).padding(padding).bias(false)));
        };
        const auto between = [&] { layers->push_back(torch::nn::LeakyReLU(torch::nn::LeakyReLUOptions().negative_slope(0.2))); };
        down(3, width, 2, 1);
        between();
        down(width, width * 2, 2, 1);
        layers->push_back(torch::nn::GroupNorm(2, width * 2));
        between();
        down(width * 2, width * 4, 2, 1);
        layers->push_back(torch::nn::GroupNorm(2, width * 4));
        between();
        down(width * 4, 1, 1, 0);
        register_module("layers", layers);
    }
    torch::Tensor forward(const torch::Tensor &pictures) { return layers->forward(pictures).flatten(); }
    torch::nn::Sequential layers;
};

// A transformer of 10 M weights, which names the next token.
struct transformer_impl : torch::nn::Module {
    transformer_impl() {
        torch::manual_seed(4);
        const std::int64_t width = size_of(320, 16);
        embedding = register_module("embedding", torch::nn::Embedding(tokens(), width));
        places = register_parameter("places", torch::randn({length(), width}) * 0.02);
        for (std::int64_t layer = 0; layer < size_of(8, 1); ++layer) blocks->push_back(block(width));
        register_module("blocks", blocks);
        out = register_module("out", torch::nn::Linear(width, tokens()));
    }
    static std::int64_t tokens() { return size_of(512, 11); }
    static std::int64_t length() { return size_of(128, 6); }
    torch::Tensor forward(const torch::Tensor &text) {
        auto x = embedding(text) + places;
        for (const auto &each : *blocks) x = each->as<block_impl>()->forward(x);
        return out(x);
    }

    struct block_impl : torch::nn::Module {
        explicit block_impl(std::int64_t width) : heads(size_of(8, 2)) {
            norm_1 = register_module("norm_1", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
            norm_2 = register_module("norm_2", torch::nn::LayerNorm(torch::nn::LayerNormOptions({width})));
            queries = register_module("queries", torch::nn::Linear(width, width * 3));
            mixed = register_module("mixed", torch::nn::Linear(width, width));
            wide = register_module("wide", torch::nn::Linear(width, width * 4));
            narrow = register_module("narrow", torch::nn::Linear(width * 4, width));
        }
        torch::Tensor forward(torch::Tensor x) {
            const std::int64_t rows = x.size(0), length = x.size(1), width = x.size(2);
            const auto split = queries(norm_1(x)).view({rows, length, 3, heads, width / heads}).permute({2, 0, 3, 1, 4});
            const auto query = split[0], key = split[1], worth = split[2];
            auto scores = torch::matmul(query, key.transpose(-2, -1)) / std::sqrt(static_cast<double>(width / heads));
            const auto later = torch::ones({length, length}, scores.options()).triu(1) * -1e9;
            scores = torch::softmax(scores + later, -1);
            x = x + mixed(torch::matmul(scores, worth).permute({0, 2, 1, 3}).reshape({rows, length, width}));
            return x + narrow(torch::relu(wide(norm_2(x))));
        }
        std::int64_t heads;
        torch::nn::LayerNorm norm_1{nullptr}, norm_2{nullptr};
        torch::nn::Linear queries{nullptr}, mixed{nullptr}, wide{nullptr}, narrow{nullptr};
    };
    static std::shared_ptr<block_impl> block(std::int64_t width) { return std::make_shared<block_impl>(width); }

    torch::nn::Embedding embedding{nullptr};
    torch::Tensor places;
    torch::nn::ModuleList blocks;
    torch::nn::Linear out{nullptr};
};

// AdamW of torch's: fused, where it has that.
class fused_adamw {
public:
    explicit fused_adamw(std::vector<torch::Tensor> parameters) : parameters_(std::move(parameters)) {
#if TORCH_VERSION_MAJOR >= 2
        for (const auto &each : parameters_) {
            first_.push_back(torch::zeros_like(each));
            second_.push_back(torch::zeros_like(each));
            steps_.push_back(torch::zeros({}, each.options().requires_grad(false)));
        }
#else
        rule_ = std::make_unique<torch::optim::AdamW>(parameters_, torch::optim::AdamWOptions(rate).weight_decay(decay));
#endif
    }
    void zero() {
        for (auto &each : parameters_) each.mutable_grad().reset();
    }
    void step() {
#if TORCH_VERSION_MAJOR >= 2
        const torch::NoGradGuard no_grad;
        std::vector<torch::Tensor> gradients;
        for (std::size_t index = 0; index < parameters_.size(); ++index) {
            steps_[index] += 1;
            gradients.push_back(parameters_[index].grad());
        }
        at::_fused_adamw_(parameters_, gradients, first_, second_, {}, steps_, rate, 0.9, 0.999, decay, 1e-8, false, false);
#else
        rule_->step();
#endif
    }
    static constexpr double rate = 1e-3, decay = 0.01;

private:
    std::vector<torch::Tensor> parameters_, first_, second_, steps_;
    std::unique_ptr<torch::optim::AdamW> rule_;
};

umbo::optimizer adamw_of(const umbo::strategy &strategy) {
    return umbo::adapters::optimizer_of(strategy, torch::optim::AdamWOptions(fused_adamw::rate).weight_decay(fused_adamw::decay));
}

// A training that takes steps, each of which gives its losses.
using step_function = std::function<std::vector<double>()>;

// Fields of a batch in host memory, and what torch alone sees of one.
using fields = std::vector<std::pair<std::string, torch::Tensor>>;

struct on_device {
    fields all;
    torch::Tensor operator[](const char *name) const {
        for (const auto &field : all) {
            if (field.first == name) return field.second;
        }
        throw std::out_of_range(name);
    }
};

on_device moved(const fields &all, const torch::Device &to) {
    on_device there;
    for (const auto &field : all) there.all.emplace_back(field.first, field.second.to(to, true));
    return there;
}

struct workload {
    const char *name;
    fields batch;
    std::function<step_function(const fields &, torch::Device)> alone;
    std::function<step_function(const fields &, const umbo::strategy &)> under_umbo;

    std::int64_t examples() const { return batch.front().second.size(0); }
};

// A workload of one network by its loss, `loss(net, fields)`.
template <class Module, class Loss>
workload of_one_network(const char *name, fields batch, Loss loss) {
    return {name, std::move(batch),
            [loss](const fields &given, torch::Device device) -> step_function {
                const auto net = std::make_shared<Module>();
                net->to(device);
                const auto rule = std::make_shared<fused_adamw>(net->parameters());
                return [=] {
                    rule->zero();
                    const auto lost = loss(*net, moved(given, device));
                    lost.backward();
                    rule->step();
                    return std::vector<double>{lost.template item<double>()};
                };
            },
            [loss](const fields &given, const umbo::strategy &strategy) -> step_function {
                const auto model = std::make_shared<torch_model<Module>>(strategy, [] { return std::make_shared<Module>(); });
                const auto rule = adamw_of(strategy);
                const auto batch_of_all = umbo::adapters::batch_of(given);
                return [=] {
                    const auto lost = model->train(batch_of_all, [&](Module &net, const part &of) { return loss(net, of); });
                    rule.apply(model->gradients());
                    return std::vector<double>{lost.template item<double>()};
                };
            }};
}

workload mnist() {
    torch::manual_seed(11);
    const std::int64_t examples = size_of(256, 8);
    return of_one_network<mnist_impl>(
        "convolutions, 28 x 28", {{"x", torch::randn({examples, 1, 28, 28})}, {"y", torch::randint(10, {examples}, torch::kLong)}},
        [](mnist_impl &net, const auto &of) { return F::cross_entropy(net.forward(of["x"]), of["y"]); });
}

workload transformer() {
    torch::manual_seed(12);
    const auto text = torch::randint(transformer_impl::tokens(), {size_of(32, 4), transformer_impl::length() + 1}, torch::kLong);
    const auto x = text.slice(1, 0, -1).contiguous(), y = text.slice(1, 1).contiguous();
    return of_one_network<transformer_impl>("transformer", {{"x", x}, {"y", y}}, [](transformer_impl &net, const auto &of) {
        const auto scores = net.forward(of["x"]);
        return F::cross_entropy(scores.reshape({-1, scores.size(2)}), of["y"].reshape({-1}));
    });
}

torch::Tensor judged(critic_impl &critic, const torch::Tensor &pictures, double as) {
    const auto found = critic.forward(pictures);
    return F::binary_cross_entropy_with_logits(found, torch::full_like(found, as));
}

workload dcgan() {
    torch::manual_seed(13);
    const std::int64_t examples = size_of(128, 4);
    const auto critic_loss = [](critic_impl &critic, const auto &of, maker_impl &maker) {
        return judged(critic, of["real"], 1) + judged(critic, maker.forward(of["noise"]).detach(), 0);
    };
    const auto maker_loss = [](maker_impl &maker, const auto &of, critic_impl &critic) {
        return judged(critic, maker.forward(of["noise"]), 1);
    };
    return {"DCGAN, 32 x 32",
            {{"real", torch::randn({examples, 3, 32, 32})}, {"noise", torch::randn({examples, size_of(100, 4), 1, 1})}},
            [=](const fields &given, torch::Device device) -> step_function {
                const auto maker = std::make_shared<maker_impl>();
                const auto critic = std::make_shared<critic_impl>();
                maker->to(device);
                critic->to(device);
                const auto of_maker = std::make_shared<fused_adamw>(maker->parameters());
                const auto of_critic = std::make_shared<fused_adamw>(critic->parameters());
                return [=] {
                    const auto there = moved(given, device);
                    of_critic->zero();
                    const auto first = critic_loss(*critic, there, *maker);
                    first.backward();
                    of_critic->step();
                    of_maker->zero();
                    const auto second = maker_loss(*maker, there, *critic);
                    second.backward();
                    of_maker->step();
                    return std::vector<double>{first.template item<double>(), second.template item<double>()};
                };
            },
            [=](const fields &given, const umbo::strategy &strategy) -> step_function {
                const auto maker = std::make_shared<torch_model<maker_impl>>(strategy, [] { return std::make_shared<maker_impl>(); });
                const auto critic = std::make_shared<torch_model<critic_impl>>(strategy, [] { return std::make_shared<critic_impl>(); });
                const auto of_maker = adamw_of(strategy), of_critic = adamw_of(strategy);
                const auto all = umbo::adapters::batch_of(given);
                return [=] {
                    const auto batch = strategy.split(all);
                    const auto first = critic->train(batch, critic_loss, *maker);
                    of_critic.apply(critic->gradients());
                    const auto second = maker->train(batch, maker_loss, *critic);
                    of_maker.apply(maker->gradients());
                    return std::vector<double>{first.template item<double>(), second.template item<double>()};
                };
            }};
}

struct placement {
    std::vector<std::string> devices;
    std::string parameters;

    std::string name() const {
        std::string text;
        for (const auto &device : devices) text += (text.empty() ? "" : ", ") + device;
        return text + "; parameters on " + parameters;
    }
    umbo::strategy strategy() const {
        umbo::strategy_options options;
        options.compute_devices = devices;
        options.parameter_device = parameters;
        return umbo::strategy::create(umbo::adapters::with_torch_threads(std::move(options)));
    }
};

std::vector<double> losses_of(const step_function &step, int steps) {
    std::vector<double> all;
    for (int number = 0; number < steps; ++number) {
        const auto losses = step();
        all.insert(all.end(), losses.begin(), losses.end());
    }
    return all;
}

double apart(const std::vector<double> &a, const std::vector<double> &b) {
    double most = 0;
    for (std::size_t index = 0; index < a.size(); ++index) {
        most = std::max(most, std::abs(a[index] - b[index]) / std::max(1.0, std::abs(b[index])));
    }
    return most;
}

double seconds_of(const step_function &step, int steps) {
    const auto before = std::chrono::steady_clock::now();
    for (int number = 0; number < steps; ++number) step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - before).count();
}

double median(std::vector<double> of) {
    std::sort(of.begin(), of.end());
    return of[of.size() / 2];
}

struct traffic {
    double up = 0, down = 0;
};

// What a step copies to GPUs and from them, as the library's trace has it.
traffic bus_of(const step_function &step) {
    const char *const file = "torch_card.trace.json";
    if (umbo_trace_start(file, nullptr) != UMBO_OK) throw std::runtime_error(umbo_last_error_message());
    step();
    if (umbo_trace_stop(nullptr, nullptr) != UMBO_OK) throw std::runtime_error(umbo_last_error_message());
    std::ifstream in(file);
    std::string line;
    traffic found;
    while (std::getline(in, line, '}')) { // an event ends with its arguments
        const auto bytes = line.rfind("\"bytes\":");
        if (bytes == std::string::npos) continue;
        const double count = std::atof(line.c_str() + bytes + 8);
        if (line.find("copy to the GPU") != std::string::npos) found.up += count;
        if (line.find("copy from the GPU") != std::string::npos) found.down += count;
    }
    std::remove(file);
    return found;
}

constexpr double tolerance = 2e-3; // of losses after some steps of AdamW in float32, whose sums have other orders

// A row of the table; false if something is not as it has to be.
bool measured(const workload &work, const placement &where, const torch::Device &device) {
    const int compared = small ? 3 : 10, rounds = small ? 1 : 5, steps = small ? 1 : 20;
    const auto alone = work.alone(work.batch, device);
    const auto expected = losses_of(alone, compared);
    const bool repeats = losses_of(work.alone(work.batch, device), compared) == expected;
    const auto strategy = where.strategy();
    const auto umbos = work.under_umbo(work.batch, strategy);
    const auto found = losses_of(umbos, compared);
    const auto again = losses_of(work.under_umbo(work.batch, strategy), compared);
    std::vector<double> of_alone, of_umbo;
    for (int round = 0; round < rounds; ++round) {
        of_alone.push_back(seconds_of(alone, steps));
        of_umbo.push_back(seconds_of(umbos, steps));
    }
    const auto bus = bus_of(umbos);
    const double samples = static_cast<double>(work.examples()) * steps;
    const bool near = apart(found, expected) <= tolerance, repeated = !repeats || found == again;
    std::printf("| %s | %s | %.1e%s | %s | %.0f | %.0f | %.2f | %.2f | %.2f |\n", work.name, where.name().c_str(), apart(found, expected),
                near ? "" : " WRONG", !repeats ? "not by torch" : repeated ? "yes" : "WRONG", samples / median(of_umbo),
                samples / median(of_alone), median(of_alone) / median(of_umbo), bus.up / 1e6, bus.down / 1e6);
    std::fflush(stdout);
    return near && repeated;
}

std::vector<placement> placements(bool on_gpu) {
    if (!on_gpu) return {{{"CPU:0"}, "CPU:0"}, {{"CPU:0", "CPU:1"}, "CPU:0"}};
    if (umbo_device_set_logical_count(UMBO_DEVICE_GPU, 0, 2, nullptr) != UMBO_OK) throw std::runtime_error(umbo_last_error_message());
    return {{{"GPU:0"}, "GPU:0"}, {{"GPU:0"}, "CPU:0"}, {{"GPU:0", "GPU:1"}, "GPU:0"}, {{"GPU:0", "GPU:1"}, "CPU:0"}};
}

} // namespace

int main(int count, char **words) {
    small = count < 2 || std::string(words[1]) != "--whole";
    const bool on_gpu = torch::cuda::is_available();
    const torch::Device device = on_gpu ? torch::Device(torch::kCUDA, 0) : torch::Device(torch::kCPU);
    at::globalContext().setDeterministicCuDNN(true);
    at::globalContext().setAllowTF32CuDNN(false);
    std::printf("| network | devices | losses differ by | repeated | samples/s | torch alone | ratio | MB up in a step | MB down |\n"
                "|---|---|---|---|---:|---:|---:|---:|---:|\n");
    bool right = true;
    try {
        if (!on_gpu && umbo_device_set_logical_count(UMBO_DEVICE_CPU, 0, 2, nullptr) != UMBO_OK) {
            throw std::runtime_error(umbo_last_error_message());
        }
        const auto all = placements(on_gpu);
        for (const auto &work : {mnist(), dcgan(), transformer()}) {
            for (const auto &where : all) right = measured(work, where, device) && right;
        }
    } catch (const std::exception &error) {
        std::fprintf(stderr, "torch_card: %s\n", error.what());
        return 1;
    }
    return right ? 0 : 1;
}

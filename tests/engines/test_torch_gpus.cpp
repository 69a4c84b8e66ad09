// LibTorch's adapter on GPUs, without one: torch computes over the driver of the tests (torch_on_fake_cuda.hpp).
#include <umbo/adapters/torch.hpp>

#include "torch_on_fake_cuda.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <stdexcept>

#undef CHECK // of LibTorch's log
#include "../c/check.h"

namespace {

namespace F = torch::nn::functional;
using umbo::adapters::part;
using umbo::adapters::torch_model;
using umbo::adapters::torch_options;

constexpr std::int64_t inputs = 6, hidden = 8, classes = 3, examples = 24;

struct NetImpl : torch::nn::Module {
    explicit NetImpl(double drop = 0, bool normalises = false) {
        torch::manual_seed(7);
        first = register_module("first", torch::nn::Linear(inputs, hidden));
        if (normalises) norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
        dropout = register_module("dropout", umbo::adapters::keyed_dropout(drop, 5));
        second = register_module("second", torch::nn::Linear(hidden, classes));
        unused = register_parameter("unused", torch::ones({4}));
    }
    torch::Tensor forward(torch::Tensor x) {
        x = first(x);
        if (!norm.is_empty()) x = norm(x);
        return second(dropout(torch::relu(x)));
    }
    torch::nn::Linear first{nullptr}, second{nullptr};
    torch::nn::BatchNorm1d norm{nullptr};
    umbo::adapters::keyed_dropout dropout{nullptr};
    torch::Tensor unused;
};

struct data {
    torch::Tensor x, y;
    data() {
        torch::manual_seed(1);
        x = torch::randn({examples, inputs});
        y = torch::randint(classes, {examples}, torch::kLong);
    }
    umbo::value batch() const { return umbo::adapters::batch_of({{"x", x}, {"y", y}}); }
};

torch::Tensor loss_of(NetImpl &net, const part &of) {
    const auto type = net.first->weight.scalar_type();
    return F::cross_entropy(net.forward(of["x"].to(type)).to(torch::kFloat), of["y"]);
}

// A strategy by the names of its devices.
umbo::strategy strategy_of(const std::vector<std::string> &devices, const char *parameters) {
    umbo::strategy_options options;
    options.compute_devices = devices;
    options.parameter_device = parameters;
    return umbo::strategy::create(umbo::adapters::with_torch_threads(std::move(options)));
}

struct placement {
    std::vector<std::string> devices;
    const char *parameters;
};

// What is left of a training: the loss of each step, and the parameters and buffers.
struct result {
    std::vector<double> losses;
    std::vector<torch::Tensor> tensors;

    // Prints what differs first.
    bool operator==(const result &other) const {
        for (std::size_t step = 0; step < losses.size(); ++step) {
            if (losses[step] == other.losses[step]) continue;
            std::fprintf(stderr, "step %zu: a loss of %.9g instead of %.9g\n", step, losses[step], other.losses[step]);
            return false;
        }
        for (std::size_t index = 0; index < tensors.size(); ++index) {
            if (torch::equal(tensors[index], other.tensors[index])) continue;
            const double apart = (tensors[index] - other.tensors[index]).abs().max().item<double>();
            std::fprintf(stderr, "tensor %zu differs by up to %g\n", index, apart);
            return false;
        }
        return true;
    }
};

result left_of(torch_model<NetImpl> &model, std::vector<double> losses) {
    result left{std::move(losses), {}};
    const auto net = model.central();
    for (const auto &parameter : net->parameters()) left.tensors.push_back(parameter.detach().clone());
    for (const auto &buffer : net->buffers()) left.tensors.push_back(buffer.detach().clone());
    for (const auto &tensor : left.tensors) CHECK(tensor.device().is_cpu());
    return left;
}

result trained(const placement &where, double drop, bool normalises, const torch_options &options = {}) {
    const auto strategy = strategy_of(where.devices, where.parameters);
    torch_model<NetImpl> model(strategy, [=] { return std::make_shared<NetImpl>(drop, normalises); }, options);
    const auto adam = umbo::adapters::optimizer_of(model, torch::optim::AdamOptions(1e-2));
    const data all;
    const auto batch = strategy.split(all.batch());
    std::vector<double> losses;
    for (int step = 0; step < 4; ++step) {
        losses.push_back(model.train(batch, loss_of).item<double>());
        adam.apply(model.gradients());
    }
    return left_of(model, losses);
}

void no_mistakes(const char *where) {
    std::string found;
    if (fake_torch::ask("reports", &found) == 0) return;
    std::fprintf(stderr, "%s: the driver found\n%s\n", where, found.c_str());
    CHECK(!"the driver found mistakes");
    fake_torch::ask("forget");
}

// Every placement gives the bits of CPUs, in every order in which streams may run.
void placements_agree() {
    const std::vector<placement> of_one = {{{"GPU:0"}, "GPU:0"}, {{"GPU:1"}, "CPU:0"}};
    const std::vector<placement> of_two = {{{"GPU:0", "GPU:2"}, "CPU:0"}, {{"GPU:0", "GPU:1"}, "GPU:0"},
                                           {{"GPU:1", "CPU:0"}, "CPU:0"}, {{"CPU:0", "GPU:2"}, "GPU:2"},
                                           {{"CPU:0", "CPU:1"}, "GPU:0"}};
    torch_options narrow;
    narrow.dtype = umbo::dtype::bfloat16;
    for (const auto &[drop, normalises, options] :
         {std::make_tuple(0.5, false, torch_options{}), std::make_tuple(0.0, true, torch_options{}), std::make_tuple(0.25, false, narrow)}) {
        const auto one = trained({{"CPU:0"}, "CPU:0"}, drop, normalises, options);
        const auto two = trained({{"CPU:0", "CPU:1"}, "CPU:0"}, drop, normalises, options);
        CHECK(drop != 0 || (one.losses.back() < one.losses.front() && two.losses.back() < two.losses.front()));
        for (int seed = 0; seed < 5; ++seed) {
            fake_torch::ask("seed " + std::to_string(seed));
            for (const auto &where : of_one) CHECK(trained(where, drop, normalises, options) == one);
            for (const auto &where : of_two) CHECK(trained(where, drop, normalises, options) == two);
        }
        no_mistakes("placements_agree");
    }
}

// Torch works on the streams of the contexts alone, the loss is read once by a replica, as the last thing of its step, and
// nothing else comes to the host.
void streams_of_the_contexts() {
    const auto strategy = strategy_of({"GPU:0", "GPU:1", "GPU:2"}, "CPU:0");
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
    const auto adam = umbo::adapters::optimizer_of(model, torch::optim::AdamOptions(1e-2));
    const data all;
    const auto batch = strategy.split(all.batch());
    for (int step = 0; step < 2; ++step) {
        std::mutex together;
        std::map<void *, int> streams; // and their cards
        fake_torch::noted().take();
        model.train(batch, [&](NetImpl &net, const part &of) {
            const auto context = umbo::replica_context::current();
            const std::lock_guard<std::mutex> lock(together);
            streams[context.stream()] = context.device().back() == '0' ? 0 : 1;
            CHECK(of["x"].is_cuda() && of["x"].device().index() == streams[context.stream()]);
            CHECK(net.first->weight.device() == of["x"].device() && net.first->weight.is_leaf());
            return loss_of(net, of);
        });
        CHECK(streams.size() == 3 && streams.count(nullptr) == 0);
        std::map<void *, std::vector<std::string>> found;
        for (const auto &work : fake_torch::noted().take()) {
            CHECK(streams.count(work.stream) == 1 && streams[work.stream] == work.card);
            found[work.stream].push_back(work.what);
        }
        for (const auto &[stream, works] : found) {
            CHECK(works.size() > 10 && works.back() == "aten::_local_scalar_dense");
            CHECK(std::count(works.begin(), works.end(), works.back()) == 1);
            CHECK(std::count(works.begin(), works.end(), "to host") == 0 && std::count(works.begin(), works.end(), "to device") == 0);
            CHECK(std::count(works.begin(), works.end(), "within") == 0);
        }
        fake_torch::noted().take();
        adam.apply(model.gradients());
        CHECK(fake_torch::noted().take().empty());
    }
    no_mistakes("streams_of_the_contexts");
}

constexpr std::uint64_t gradient_bytes = 4 * (inputs * hidden + hidden + hidden * classes + classes);

// What a step and its update move besides torch's operations. Gradients are read where backward() has left them: on the GPU of
// the variables none moves, and for variables of the host those of each replica come down once, and the weights go up once.
void gradients_in_place() {
    using bytes = std::vector<std::uint64_t>; // within a GPU, between GPUs, to the host, to a GPU
    const auto moved_by_step = [](const placement &where) {
        const auto strategy = strategy_of(where.devices, where.parameters);
        torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
        const auto sgd = umbo::adapters::optimizer_of(model, torch::optim::SGDOptions(0.1));
        const data all;
        const auto batch = strategy.split(all.batch());
        const auto counted = [&] {
            strategy.synchronize();
            const auto &torchs = fake_torch::noted();
            return bytes{fake_torch::ask("moved within a device"), fake_torch::ask("moved between devices"),
                         fake_torch::ask("moved to host") - torchs.bytes_to_host,
                         fake_torch::ask("moved to device") - torchs.bytes_to_device};
        };
        bytes moved;
        for (int step = 0; step < 2; ++step) { // the first one takes all that stays
            const auto before = counted();
            model.train(batch, loss_of);
            sgd.apply(model.gradients());
            moved = counted();
            for (std::size_t index = 0; index < moved.size(); ++index) moved[index] -= before[index];
        }
        return moved;
    };
    // The driver's tables of an update are small.
    const auto alone = moved_by_step({{"GPU:0"}, "GPU:0"}), parts = moved_by_step({{"GPU:1", "GPU:2"}, "GPU:1"});
    CHECK(alone[0] == 0 && alone[1] == 0 && alone[2] <= 16);
    // The second logical GPU of the card has memory of its own: weights go there, and gradients come back.
    CHECK(parts[0] == 2 * gradient_bytes && parts[1] == 0 && parts[2] <= 16);
    CHECK(moved_by_step({{"GPU:0", "GPU:1"}, "CPU:0"}) == (bytes{0, 0, 2 * gradient_bytes, 2 * gradient_bytes}));
    no_mistakes("gradients_in_place");
}

// Nothing of a training is left on the GPUs.
void nothing_is_left() {
    const auto live = [] {
        fake_torch::finish_all();
        return fake_torch::ask("live memory");
    };
    const placement where{{"GPU:0", "GPU:1"}, "CPU:0"};
    trained(where, 0, true);
    CHECK(fake_torch::noted().live_blocks == 0);
    const auto before = live();
    trained(where, 0, true);
    CHECK(live() == before && fake_torch::noted().live_blocks == 0);
}

// The module that a program looks at lies in host memory, and takes what it is given back to the GPUs.
void modules_of_the_host() {
    const data all;
    const auto strategy = strategy_of({"GPU:0"}, "GPU:0");
    const auto make = [] { return std::make_shared<NetImpl>(0.0, true); };
    torch_model<NetImpl> model(strategy, make);
    const auto adam = umbo::adapters::optimizer_of(model, torch::optim::AdamOptions(1e-2));
    for (int step = 0; step < 3; ++step) {
        model.train(all.batch(), loss_of);
        adam.apply(model.gradients());
        CHECK(model->first->weight.device().is_cpu() && model->norm->running_mean.device().is_cpu());
        CHECK(model->norm->num_batches_tracked.item<std::int64_t>() == step + 1);
    }
    const auto measure = [](NetImpl &net, const part &of) {
        return F::cross_entropy(net.forward(of["x"]), of["y"], F::CrossEntropyFuncOptions().reduction(torch::kSum));
    };
    strategy.run(model.evaluation("loss", measure), strategy.split(all.batch()));
    const double on_gpu = strategy.metric_result("loss").mean;
    const double on_host = F::cross_entropy(model->forward(all.x), all.y).item<double>();
    CHECK(std::abs(on_gpu - on_host) < 1e-6);
    torch::save(model.central(), "gpus.pt");
    torch_model<NetImpl> other(strategy, make);
    CHECK(!torch::equal(other->first->weight, model->first->weight));
    other.load("gpus.pt");
    CHECK(torch::equal(other->first->weight, model->first->weight));
    CHECK(torch::equal(other->norm->running_mean, model->norm->running_mean));
    // A module on a GPU is as good a source, also as the initial one.
    const auto moved = make();
    moved->to(torch::Device(torch::kCUDA, 0));
    other.assign(moved);
    CHECK(torch::equal(other->first->weight, make()->first->weight));
    const torch_model<NetImpl> third(strategy, [&] {
        const auto made = make();
        made->to(torch::Device(torch::kCUDA, 1));
        return made;
    });
    CHECK(third.parameters().front().device() == umbo::device_canonical_name("GPU:0"));
    no_mistakes("modules_of_the_host");
}

// Batches of a dataset lie on the replica's GPU, and stay what they are for as long as somebody keeps them.
void batches_that_are_kept() {
    const data all;
    const auto strategy = strategy_of({"GPU:0", "GPU:2"}, "CPU:0");
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
    const auto sgd = umbo::adapters::optimizer_of(model, torch::optim::SGDOptions(0.1));
    std::mutex together;
    std::vector<torch::Tensor> kept;
    const auto rows = umbo::adapters::rows_of({{"x", all.x}, {"y", all.y}});
    const auto batches = strategy.distribute_dataset(rows.batch(8)).iterate();
    for (const umbo::value &batch : batches) {
        model.train(batch, [&](NetImpl &net, const part &of) {
            const std::lock_guard<std::mutex> lock(together);
            CHECK(of["x"].is_cuda());
            kept.push_back(of["x"]);
            return loss_of(net, of);
        });
        sgd.apply(model.gradients());
    }
    CHECK(kept.size() == 6);
    for (const auto &part_of : kept) {
        bool found = false;
        for (std::int64_t first = 0; first < examples; first += 4) {
            found = found || torch::equal(part_of.cpu(), all.x.slice(0, first, first + 4));
        }
        CHECK(found);
    }
    no_mistakes("batches_that_are_kept");
}

// Autocast computes with casts that torch keeps: they are those of the parameters as they are in the step.
void autocast_follows_the_updates() {
    const data all;
    const auto losses = [&](bool cached) {
        const auto strategy = strategy_of({"GPU:0", "GPU:1"}, "GPU:0");
        torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
        const auto sgd = umbo::adapters::optimizer_of(model, torch::optim::SGDOptions(0.5));
        std::vector<double> found;
        for (int step = 0; step < 4; ++step) {
            found.push_back(model.train(all.batch(), [&](NetImpl &net, const part &of) {
#if TORCH_VERSION_MAJOR < 2
                at::autocast::set_autocast_gpu_dtype(at::kBFloat16);
                at::autocast::set_enabled(true);
#else
                at::autocast::set_autocast_dtype(at::kCUDA, at::kBFloat16);
                at::autocast::set_autocast_enabled(at::kCUDA, true);
#endif
                at::autocast::set_autocast_cache_enabled(cached);
                const auto scores = net.forward(of["x"]);
                CHECK(scores.scalar_type() == at::kBFloat16);
#if TORCH_VERSION_MAJOR < 2
                at::autocast::set_enabled(false);
#else
                at::autocast::set_autocast_enabled(at::kCUDA, false);
#endif
                return F::cross_entropy(scores.to(torch::kFloat), of["y"]);
            }).template item<double>());
            sgd.apply(model.gradients());
        }
        return found;
    };
    const auto cached = losses(true);
    CHECK(cached == losses(false) && cached.back() < cached.front());
    no_mistakes("autocast_follows_the_updates");
}

// Another model of a step lies on the same device, and is not trained.
void two_models_in_a_step() {
    const data all;
    const auto weights = [&](const placement &where) {
        const auto strategy = strategy_of(where.devices, where.parameters);
        torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
        torch_model<NetImpl> teacher(strategy, [] { return std::make_shared<NetImpl>(0.0, true); });
        const auto sgd = umbo::adapters::optimizer_of(model, torch::optim::SGDOptions(0.1));
        for (int step = 0; step < 3; ++step) {
            model.train(all.batch(), [](NetImpl &net, const part &of, NetImpl &other) {
                return (net.forward(of["x"]) - other.forward(of["x"]) * 2).pow(2).mean();
            }, teacher);
            sgd.apply(model.gradients());
        }
        CHECK(teacher->norm->num_batches_tracked.item<std::int64_t>() == 3);
        return left_of(model, {});
    };
    CHECK(weights({{"GPU:0", "GPU:1"}, "CPU:0"}) == weights({{"CPU:0", "CPU:1"}, "CPU:0"}));
    no_mistakes("two_models_in_a_step");
}

// A call of CUDA that fails in torch, in a thread of a replica or of torch's, fails the step: the message has the replica, the
// device and the cause. Nothing has changed: the step is taken again.
void failures_of_torch() {
    const data all;
    const auto strategy = strategy_of({"GPU:0", "GPU:1"}, "CPU:0");
    const auto is_named = [](const std::string &text) {
        const auto has = [&](const char *words) { return text.find(words) != std::string::npos; };
        return has("CUDA error 2 of cuMemAllocAsync") && (has("on replica 0 of 2, on GPU:0, whose part of the batch has 12 of 24") ||
                                                         has("on replica 1 of 2, on GPU:1, whose part of the batch has 12 of 24"));
    };
    // The allocation of this number, counted from the first loss of step 1 on, fails.
    const auto trained_with = [&](int number) {
        torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
        const auto adam = umbo::adapters::optimizer_of(model, torch::optim::AdamOptions(1e-2));
        int failed = 0;
        for (int step = 0; step < 3; ++step) {
            std::once_flag armed;
            try {
                model.train(all.batch(), [&](NetImpl &net, const part &of) {
                    std::call_once(armed, [&] {
                        if (step == 1 && number > 0) fake_torch::ask("fault cuMemAllocAsync:" + std::to_string(number) + ":2");
                    });
                    return loss_of(net, of);
                });
            } catch (const c10::Error &error) {
                ++failed;
                if (!is_named(error.what())) std::fprintf(stderr, "%s\n", error.what());
                CHECK(is_named(error.what()));
                fake_torch::ask("fault ");
                model.train(all.batch(), loss_of);
            }
            adam.apply(model.gradients());
        }
        CHECK(failed == (number == 0 ? 0 : 1));
        return left_of(model, {});
    };
    const auto whole = trained_with(0);
    for (const int number : {1, 2, 7, 15, 25}) CHECK(trained_with(number) == whole);
    CHECK(fake_torch::noted().live_blocks == 0);
    no_mistakes("failures_of_torch");
}

// Where torch has CUDA, a strategy without further words is one of all GPUs. Cards that torch does not know, and tensors on GPUs,
// are refused.
void strategies_and_refusals() {
    std::vector<std::string> warnings;
    umbo::set_log_callback(umbo::log_level::warning, [&](umbo::log_level, const char *text) { warnings.push_back(text); });
    const auto strategy = umbo::adapters::torch_strategy();
    // Replicas on GPUs need no processor each.
    for (const auto &text : warnings) CHECK(text.find("take turns") == std::string::npos);
    umbo::adapters::torch_strategy(64);
    CHECK(!warnings.empty() && warnings.back().find("64 replicas") != std::string::npos);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, nullptr, nullptr, nullptr));
    CHECK(strategy.replica_count() == 3 && strategy.compute_device(2) == umbo::device_canonical_name("GPU:2"));
    CHECK(umbo::adapters::torch_strategy(2).compute_device(1) == umbo::device_canonical_name("CPU:1"));
    const auto refused = [](auto action, std::initializer_list<const char *> naming) {
        std::string message;
        try {
            action();
        } catch (const umbo::error &error) {
            CHECK(error.status() == umbo::status::unimplemented);
            message = error.what();
        }
        for (const char *words : naming) CHECK(message.find(words) != std::string::npos);
    };
    refused([] { umbo::adapters::batch_of({{"x", torch::ones({4}, torch::Device(torch::kCUDA, 1))}}); }, {"'x' is a tensor on cuda:1", "cpu()"});
    const auto make = [] { return std::make_shared<NetImpl>(); };
    fake_torch::shown_cards() = 1;
    torch_model<NetImpl>(strategy_of({"GPU:0"}, "CPU:0"), make);
    refused([&] { torch_model<NetImpl>(strategy_of({"GPU:0", "GPU:2"}, "CPU:0"), make); }, {"replica 1 computes on GPU:2", "card 1", "torch knows 1"});
    fake_torch::shown_cards() = 0;
    CHECK(umbo::adapters::torch_strategy().compute_device(0) == umbo::device_canonical_name("CPU:0"));
    refused([&] { torch_model<NetImpl>(strategy_of({"GPU:0"}, "CPU:0"), make); }, {"replica 0 computes on GPU:0", "libtorch_cuda"});
    fake_torch::shown_cards() = 2;
}

// A card that is lost in the middle of a step is named, with the driver's cause. The last test: the card stays lost.
void lost_card() {
    const data all;
    const auto strategy = strategy_of({"GPU:0", "GPU:1"}, "CPU:0");
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
    const auto sgd = umbo::adapters::optimizer_of(model, torch::optim::SGDOptions(0.1));
    model.train(all.batch(), loss_of);
    sgd.apply(model.gradients());
    const auto before = left_of(model, {});
    std::string message;
    try {
        model.train(all.batch(), [](NetImpl &net, const part &of) {
            const auto context = umbo::replica_context::current();
            if (context.replica_id() == 1) fake_torch::ask("fault cuStreamSynchronize:0:719");
            return loss_of(net, of);
        });
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::unavailable);
        message = error.what();
    }
    fake_torch::ask("fault ");
    CHECK(message.find("GPU:") != std::string::npos && message.find("replica") != std::string::npos);
    CHECK(message.find("a kernel failed (CUDA error 719)") != std::string::npos);
    CHECK(left_of(model, {}) == before);
}

} // namespace

int main() {
    CHECK(torch::cuda::is_available());
    CHECK_OK(umbo_device_set_logical_count(UMBO_DEVICE_GPU, 1, 2, nullptr)); // GPU:1 and GPU:2 are of one card
    CHECK_OK(umbo_device_set_logical_count(UMBO_DEVICE_CPU, 0, 2, nullptr));
    strategies_and_refusals();
    placements_agree();
    streams_of_the_contexts();
    gradients_in_place();
    nothing_is_left();
    modules_of_the_host();
    batches_that_are_kept();
    autocast_follows_the_updates();
    two_models_in_a_step();
    failures_of_torch();
    lost_card();
    return finish();
}

// The LibTorch adapter with a LibTorch that has CUDA, on any machine: without a card it computes on CPUs. What the adapter does
// without CUDA's headers is compared with what those say. `make test-torch-cuda` compiles it.
#include <umbo/adapters/torch.hpp>

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <memory>
#include <string>

#undef CHECK // of LibTorch's log
#include "../c/check.h"

namespace {

namespace F = torch::nn::functional;
using umbo::adapters::part;
using umbo::adapters::torch_model;

struct net_impl : torch::nn::Module {
    net_impl() {
        torch::manual_seed(7);
        first = register_module("first", torch::nn::Linear(6, 8));
        last = register_module("last", torch::nn::Linear(8, 3));
    }
    torch::Tensor forward(const torch::Tensor &x) { return last(torch::relu(first(x))); }
    torch::nn::Linear first{nullptr}, last{nullptr};
};

// A stream of the library's is for torch the one that torch's own function for CUDA makes of it. Where there is a card, torch
// says the same address.
void streams() {
    alignas(64) static char memory[256]; // as a driver's handle: an address that nobody reads
    for (const int card : {0, 1, 7}) {
        for (char *at = memory; at < memory + sizeof memory; at += 16) {
            const auto stream = reinterpret_cast<cudaStream_t>(at);
            const auto device = c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(card));
            const auto own = umbo::adapters::torch_detail::torch_stream(at, device);
            const auto theirs = c10::cuda::getStreamFromExternal(stream, device.index());
            CHECK(own == theirs.unwrap());
            CHECK(card >= c10::cuda::device_count() || c10::cuda::CUDAStream(own).stream() == stream);
        }
    }
}

void guards() {
    CHECK(c10::impl::hasDeviceGuardImpl(c10::DeviceType::CUDA));
    CHECK(c10::impl::getDeviceGuardImpl(c10::DeviceType::CUDA)->type() == c10::DeviceType::CUDA);
}

// Without a card a strategy without further words is one of CPUs.
void training() {
    const auto strategy = umbo::adapters::torch_strategy();
    const bool on_gpus = strategy.compute_device(0).find("GPU") != std::string::npos;
    CHECK(on_gpus == torch::cuda::is_available());
    torch_model<net_impl> model(strategy, [] { return std::make_shared<net_impl>(); });
    const auto sgd = umbo::adapters::optimizer_of(model, torch::optim::SGDOptions(0.5));
    torch::manual_seed(1);
    const auto x = torch::randn({24, 6}), y = torch::randint(3, {24}, torch::kLong);
    double before = 0, after = 0;
    for (int step = 0; step < 8; ++step) {
        after = model.train(umbo::adapters::batch_of({{"x", x}, {"y", y}}), [&](net_impl &net, const part &of) {
            CHECK(of["x"].is_cuda() == on_gpus && net.first->weight.is_cuda() == on_gpus);
            return F::cross_entropy(net.forward(of["x"]), of["y"]);
        }).template item<double>();
        if (step == 0) before = after;
        sgd.apply(model.gradients());
    }
    CHECK(after < before);
    std::printf("trained on %lld %s\n", static_cast<long long>(strategy.replica_count()), on_gpus ? "GPUs" : "CPUs");
}

} // namespace

int main() {
    streams();
    guards();
    training();
    return finish();
}

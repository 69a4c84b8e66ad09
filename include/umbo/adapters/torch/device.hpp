// The devices and streams of replicas, as torch has them.
#ifndef UMBO_ADAPTERS_TORCH_DEVICE_HPP
#define UMBO_ADAPTERS_TORCH_DEVICE_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <c10/core/StreamGuard.h>
#include <torch/cuda.h>
#include <torch/torch.h>

#include <umbo/umbo.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

// The short form of a canonical name, such as "GPU:0".
inline std::string short_name(const std::string &device) {
    const auto at = device.rfind("device:");
    return at == std::string::npos ? device : device.substr(at + 7);
}

// The number by which the CUDA driver, and torch, know the card of a logical GPU. Each thread asks once for each GPU: while a
// strategy uses a GPU its card stays the same.
inline c10::DeviceIndex card_of(std::int32_t gpu) {
    thread_local std::vector<std::int64_t> cards;
    const auto at = static_cast<std::size_t>(gpu);
    if (cards.size() <= at) cards.resize(at + 1, UMBO_NONE);
    if (cards[at] == UMBO_NONE) cards[at] = device_get_info("GPU:" + std::to_string(gpu)).physical_ordinal;
    return static_cast<c10::DeviceIndex>(cards[at]);
}

// The device of memory of Umbo's, for torch. All logical CPUs are torch's one CPU, and all logical GPUs of a card are that card.
inline c10::Device torch_device(const umbo_device &device) {
    if (device.type != UMBO_DEVICE_GPU) return c10::Device(c10::DeviceType::CPU);
    return c10::Device(c10::DeviceType::CUDA, card_of(device.ordinal));
}

// What torch has to have for a strategy's replicas: CUDA, and the cards of all that compute on GPUs.
inline void require_devices(const strategy &on) {
    const auto replicas = static_cast<std::int32_t>(on.local_replica_count());
    for (std::int32_t replica = 0; replica < replicas; ++replica) {
        const auto device = device_get_info(on.compute_device(replica));
        if (device.device.type == device_type::cpu) continue;
        const auto known = static_cast<std::int64_t>(torch::cuda::device_count());
        const std::string which = "torch_model: replica " + std::to_string(replica) + " computes on " + short_name(device.name);
        if (device.device.type != device_type::gpu || known == 0) {
            throw error(status::unimplemented,
                        which + ", and the LibTorch of this program has no CUDA device; link one with CUDA (libtorch_cuda and "
                                "libc10_cuda, with -Wl,--no-as-needed), or use a strategy of CPUs, such as torch_strategy(2)");
        }
        if (device.physical_ordinal >= known) {
            throw error(status::unimplemented, which + ", which is card " + std::to_string(device.physical_ordinal) +
                                                   "; torch knows " + std::to_string(known));
        }
    }
}

// A replica in its callback: its device as Umbo and as torch name it.
struct replica_place {
    umbo_device own;
    c10::Device device;

    explicit replica_place(const umbo_replica_context_info &here) : own{UMBO_DEVICE_CPU, 0}, device(c10::DeviceType::CPU) {
        if (here.stream == nullptr) return;
        own = umbo_device{UMBO_DEVICE_GPU, std::stoi(short_name(here.device).substr(4))};
        device = torch_device(own);
    }
};

// A CUstream, for torch, which numbers streams that are not its own by their addresses: as
// `c10::cuda::getStreamFromExternal` does, whose header needs CUDA's.
inline c10::Stream torch_stream(void *stream, const c10::Device &device) {
    return c10::Stream(c10::Stream::UNSAFE, device, static_cast<c10::StreamId>(reinterpret_cast<std::intptr_t>(stream)));
}

// While it lives, torch computes on this thread on the replica's device, in the replica's stream.
class on_replica {
public:
    on_replica(const umbo_replica_context_info &here, const replica_place &place) {
        if (here.stream != nullptr) guard_.reset_stream(torch_stream(here.stream, place.device));
    }
    on_replica(const on_replica &) = delete;
    on_replica &operator=(const on_replica &) = delete;

private:
    c10::OptionalStreamGuard guard_;
};

} // namespace torch_detail

} // namespace adapters
} // namespace umbo

#endif

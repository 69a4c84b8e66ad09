// CUDA for a LibTorch that has none, over the CUDA driver of the tests: memory of that driver, its streams and its events, and
// each of torch's operations as a copy to the host, the operation of the CPU, and a copy back, which runs late. Host code that
// touches memory of a device crashes; the driver reports what no stream orders. Included by one file of a program.
#ifndef UMBO_TESTS_TORCH_ON_FAKE_CUDA_HPP
#define UMBO_TESTS_TORCH_ON_FAKE_CUDA_HPP

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Allocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <dlfcn.h>

#include "../fake_cuda/include/fake_cuda.h"

namespace fake_torch {

#if TORCH_VERSION_MAJOR < 2
using c10::optional;
#else
using std::optional;
#endif

constexpr int most_cards = 8;

// A function of the driver, which throws as torch's own calls of CUDA do.
template <class... Arguments>
class driver_function {
public:
    explicit driver_function(const char *name) : name_(name) {
        static void *const driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
        TORCH_CHECK(driver != nullptr, "the tests' driver was not found: ", dlerror());
        call_ = reinterpret_cast<int (*)(Arguments...)>(dlsym(driver, name));
        TORCH_CHECK(call_ != nullptr, "the tests' driver has no ", name);
    }
    void operator()(Arguments... arguments) const {
        const int code = call_(arguments...);
        TORCH_CHECK(code == 0, "CUDA error ", code, " of ", name_);
    }

    // For destructors: a card may be lost.
    void whatever_comes(Arguments... arguments) const noexcept { static_cast<void>(call_(arguments...)); }

private:
    const char *name_;
    int (*call_)(Arguments...);
};

struct driver {
    driver_function<unsigned> init{"cuInit"};
    driver_function<int *> count{"cuDeviceGetCount"};
    driver_function<void **, int> retain{"cuDevicePrimaryCtxRetain"};
    driver_function<void *> set_context{"cuCtxSetCurrent"};
    driver_function<void **> get_context{"cuCtxGetCurrent"};
    driver_function<std::uint64_t *, std::size_t, void *> allocate{"cuMemAllocAsync"};
    driver_function<std::uint64_t, void *> release{"cuMemFreeAsync"};
    driver_function<std::uint64_t, const void *, std::size_t, void *> to_device{"cuMemcpyHtoDAsync_v2"};
    driver_function<void *, std::uint64_t, std::size_t, void *> to_host{"cuMemcpyDtoHAsync_v2"};
    driver_function<std::uint64_t, std::uint64_t, std::size_t, void *> within{"cuMemcpyDtoDAsync_v2"};
    driver_function<void *> wait_for_stream{"cuStreamSynchronize"};
    driver_function<void *, void *, unsigned> block{"cuStreamWaitEvent"};
    driver_function<void **, unsigned> make_event{"cuEventCreate"};
    driver_function<void *, void *> record{"cuEventRecord"};
    driver_function<void *> wait_for_event{"cuEventSynchronize"};
    driver_function<void *> end_event{"cuEventDestroy_v2"};
    driver_function<> wait_for_all{"cuCtxSynchronize"};

    int cards = 0;
    std::array<void *, most_cards> contexts{};

    driver() {
        init(0);
        count(&cards);
        TORCH_CHECK(cards <= most_cards, "more cards than a test has");
        for (int card = 0; card < cards; ++card) retain(&contexts[static_cast<std::size_t>(card)], card);
    }
};

inline const driver &cuda() {
    static const driver *const loaded = new driver; // never ends: torch's threads may use it at exit
    return *loaded;
}

// What an engine's thread computes on.
struct current {
    int card = 0;
    std::array<c10::StreamId, most_cards> streams{};
};

inline current &here() {
    thread_local current now;
    return now;
}

// Addresses have 48 bits, and torch packs streams so; handles of the tests' driver have a mark above them, by which no program
// can read there. It is taken off and put back.
constexpr c10::StreamId mark = c10::StreamId{0x0fac} << 48;

inline void *native(c10::StreamId id) { return reinterpret_cast<void *>(static_cast<std::intptr_t>(id == 0 ? 0 : id | mark)); }

inline void *native(const c10::Stream &stream) { return native(stream.id()); }

inline void *stream_of(int card) { return native(here().streams[static_cast<std::size_t>(card)]); }

// While it lives, the context of a card is the driver's current one on this thread.
class in_context {
public:
    explicit in_context(int card) {
        cuda().get_context(&before_);
        cuda().set_context(cuda().contexts[static_cast<std::size_t>(card)]);
    }
    ~in_context() { cuda().set_context.whatever_comes(before_); }
    in_context(const in_context &) = delete;
    in_context &operator=(const in_context &) = delete;

private:
    void *before_ = nullptr;
};

// What torch did: an operation, or a copy that is not a part of one.
struct work {
    std::string what;
    int card;
    void *stream;
};

class record {
public:
    void note(const std::string &what, int card) {
        const std::lock_guard<std::mutex> lock(mutex_);
        if (all_.size() < 100000) all_.push_back({what, card, stream_of(card)});
    }
    std::vector<work> take() {
        const std::lock_guard<std::mutex> lock(mutex_);
        return std::exchange(all_, {});
    }
    std::atomic<std::int64_t> live_blocks{0};
    // What torch's own copies have moved.
    std::atomic<std::uint64_t> bytes_to_host{0}, bytes_to_device{0};

private:
    std::mutex mutex_;
    std::vector<work> all_;
};

inline record &noted() {
    static auto *const all = new record;
    return *all;
}

struct guard_impl final : c10::impl::DeviceGuardImplInterface {
    static c10::Device device(int card) { return c10::Device(c10::DeviceType::CUDA, static_cast<c10::DeviceIndex>(card)); }
    c10::DeviceType type() const override { return c10::DeviceType::CUDA; }
    c10::Device exchangeDevice(c10::Device to) const override {
        const auto before = getDevice();
        setDevice(to);
        return before;
    }
    c10::Device getDevice() const override { return device(here().card); }
    void setDevice(c10::Device to) const override {
        TORCH_CHECK(to.index() >= 0 && to.index() < cuda().cards, "no such card: ", to);
        here().card = to.index();
        cuda().set_context(cuda().contexts[static_cast<std::size_t>(to.index())]);
    }
    void uncheckedSetDevice(c10::Device to) const noexcept override { setDevice(to); }
    c10::Stream getStream(c10::Device of) const noexcept override {
        return c10::Stream(c10::Stream::UNSAFE, of, here().streams[static_cast<std::size_t>(of.index())]);
    }
    c10::Stream getDefaultStream(c10::Device of) const override { return c10::Stream(c10::Stream::DEFAULT, of); }
    c10::Stream exchangeStream(c10::Stream to) const noexcept override {
        const auto before = getStream(to.device());
        here().streams[static_cast<std::size_t>(to.device_index())] = to.id() & ~mark;
        return before;
    }
    void destroyEvent(void *event, c10::DeviceIndex card) const noexcept override {
        if (event == nullptr) return;
        const in_context entered(card);
        cuda().end_event.whatever_comes(event);
    }
    void record(void **event, const c10::Stream &stream, c10::DeviceIndex, c10::EventFlag) const override {
        const in_context entered(stream.device_index());
        if (*event == nullptr) cuda().make_event(event, 2);
        cuda().record(*event, native(stream));
    }
    void block(void *event, const c10::Stream &stream) const override {
        const in_context entered(stream.device_index());
        cuda().block(native(stream), event, 0);
    }
    bool queryEvent(void *event) const override {
        cuda().wait_for_event(event);
        return true;
    }
    c10::DeviceIndex deviceCount() const noexcept override { return static_cast<c10::DeviceIndex>(cuda().cards); }
    void synchronizeStream(const c10::Stream &stream) const override {
        const in_context entered(stream.device_index());
        cuda().wait_for_stream(native(stream));
    }
};

C10_REGISTER_GUARD_IMPL(CUDA, guard_impl);

// Blocks are freed in the order of the stream that they were allocated for, when torch gives them up: so torch's own allocator
// hands a block out again at once.
struct block {
    std::uint64_t address;
    int card;
    void *stream;
};

struct allocator final : c10::Allocator {
    static c10::DataPtr make(std::size_t bytes) {
        const int card = here().card;
        auto *made = new block{0, card, stream_of(card)};
        if (bytes != 0) {
            const in_context entered(card);
            try {
                cuda().allocate(&made->address, bytes, made->stream);
            } catch (...) {
                delete made;
                throw;
            }
            ++noted().live_blocks;
        }
        return {reinterpret_cast<void *>(made->address), made, &end, guard_impl::device(card)};
    }
    static void end(void *context) {
        auto *given_up = static_cast<block *>(context);
        if (given_up->address != 0) {
            const in_context entered(given_up->card);
            cuda().release.whatever_comes(given_up->address, given_up->stream);
            --noted().live_blocks;
        }
        delete given_up;
    }
#if TORCH_VERSION_MAJOR < 2
    c10::DataPtr allocate(std::size_t bytes) const override { return make(bytes); }
#else
    c10::DataPtr allocate(std::size_t bytes) override { return make(bytes); }
    void copy_data(void *, const void *, std::size_t) const override { TORCH_CHECK(false, "not used"); }
#endif
};

inline allocator &memory() {
    static auto *const only = new allocator;
    return *only;
}

constexpr c10::DispatchKeySet keys(c10::DispatchKey::CUDA);

inline at::ScalarType type_or_default(optional<at::ScalarType> type) {
    return type ? *type : c10::typeMetaToScalarType(c10::get_default_dtype());
}

inline at::Tensor empty(at::IntArrayRef size, optional<at::ScalarType> type, optional<at::Layout>, optional<at::Device> device,
                        optional<bool>, optional<at::MemoryFormat> format) {
    const c10::DeviceGuard guard(device ? *device : guard_impl::device(here().card));
    return at::detail::empty_generic(size, &memory(), keys, type_or_default(type), format);
}

inline at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride, optional<at::ScalarType> type, optional<at::Layout>,
                                optional<at::Device> device, optional<bool>) {
    const c10::DeviceGuard guard(device ? *device : guard_impl::device(here().card));
    return at::detail::empty_strided_generic(size, stride, &memory(), keys, type_or_default(type));
}

// Whether this thread is inside of an operation, whose copies are its own.
inline int &depth() {
    thread_local int now = 0;
    return now;
}

// The bytes from the first element to the last one.
inline std::size_t extent(const at::Tensor &of) {
    if (of.numel() == 0) return 0;
    std::int64_t last = 0;
    for (std::int64_t axis = 0; axis < of.dim(); ++axis) last += (of.size(axis) - 1) * of.stride(axis);
    return static_cast<std::size_t>(last + 1) * of.element_size();
}

inline std::uint64_t address_of(const at::Tensor &of) { return reinterpret_cast<std::uint64_t>(of.data_ptr()); }

// The elements of a device's tensor on the host, with the same strides; the host waits for the stream.
inline at::Tensor mirrored(const at::Tensor &from) {
    const std::size_t bytes = extent(from);
    auto all = at::empty({static_cast<std::int64_t>(bytes / from.element_size())}, from.options().device(at::kCPU));
    const int card = from.device().index();
    const in_context entered(card);
    noted().bytes_to_host += bytes;
    if (bytes != 0) cuda().to_host(all.data_ptr(), address_of(from), bytes, stream_of(card));
    return all.as_strided(from.sizes(), from.strides());
}

// Gives a device's tensor the elements of one of the host, in the order of the stream.
inline void upload(const at::Tensor &to, const at::Tensor &from) {
    if (to.numel() == 0) return;
    const bool whole = extent(to) == static_cast<std::size_t>(to.numel()) * to.element_size();
    const auto layout = whole ? at::empty_strided(to.sizes(), to.strides(), to.options().device(at::kCPU)) : mirrored(to);
    layout.copy_(from);
    const int card = to.device().index();
    const in_context entered(card);
    noted().bytes_to_device += extent(to);
    cuda().to_device(address_of(to), layout.data_ptr(), extent(to), stream_of(card));
}

inline at::Tensor &copy(at::Tensor &to, const at::Tensor &from, bool) {
    const at::Tensor &on_card = to.is_cuda() ? to : from;
    const bool alike = to.is_cuda() && from.device() == to.device() && from.dtype() == to.dtype() && from.sizes() == to.sizes() &&
                       from.is_contiguous() && to.is_contiguous();
    if (depth() == 0) noted().note(!to.is_cuda() ? "to host" : from.is_cuda() ? "within" : "to device", on_card.device().index());
    if (alike) {
        const int card = to.device().index();
        const in_context entered(card);
        if (to.numel() != 0) cuda().within(address_of(to), address_of(from), to.nbytes(), stream_of(card));
        return to;
    }
    const auto elements = from.is_cuda() ? mirrored(from) : from;
    if (to.is_cuda()) {
        upload(to, elements);
    } else {
        to.copy_(elements);
    }
    return to;
}

struct inside {
    inside() { ++depth(); }
    ~inside() { --depth(); }
    inside(const inside &) = delete;
    inside &operator=(const inside &) = delete;
};

inline at::Tensor &filled(at::Tensor &to, const at::Scalar &with) {
    noted().note("aten::fill_", to.device().index());
    const inside operation;
    upload(to, at::full(to.sizes(), with, to.options().device(at::kCPU)));
    return to;
}

inline at::Tensor &zeroed(at::Tensor &to) { return filled(to, 0); }

// Torch's schema does not say that it changes the running statistics.
inline std::tuple<at::Tensor, at::Tensor, at::Tensor> normalised(
    const at::Tensor &input, const optional<at::Tensor> &weight, const optional<at::Tensor> &bias, const optional<at::Tensor> &mean,
    const optional<at::Tensor> &variance, bool training, double momentum, double epsilon) {
    noted().note("aten::native_batch_norm", input.device().index());
    const inside operation;
    const auto on_host = [](const optional<at::Tensor> &from) {
        return from && from->defined() ? optional<at::Tensor>(from->cpu()) : optional<at::Tensor>();
    };
    const auto means = on_host(mean), variances = on_host(variance);
    const auto found = at::native_batch_norm(input.cpu(), on_host(weight), on_host(bias), means, variances, training, momentum, epsilon);
    if (training && means) mean->copy_(*means);
    if (training && variances) variance->copy_(*variances);
    const auto back = [&](const at::Tensor &from) { return from.to(input.device()); };
    return {back(std::get<0>(found)), back(std::get<1>(found)), back(std::get<2>(found))};
}

inline bool is_written(const c10::Argument &argument) { return argument.alias_info() != nullptr && argument.alias_info()->isWrite(); }

// An argument of an operation on the host. What it will write alone is not read before.
inline c10::IValue on_host(const c10::Argument &argument, const c10::IValue &given) {
    const auto copied = [&](const at::Tensor &from) {
        if (!from.defined() || !from.is_cuda()) return from;
        if (!argument.is_out()) return mirrored(from);
        return at::empty_strided(from.sizes(), from.strides(), from.options().device(at::kCPU));
    };
    if (given.isDevice()) return c10::Device(c10::DeviceType::CPU);
    if (given.isTensor()) return copied(given.toTensor());
    if (given.isTensorList()) {
        c10::List<at::Tensor> all;
        for (const at::Tensor &each : given.toTensorVector()) all.push_back(copied(each));
        return all;
    }
    if (given.isOptionalTensorList()) {
        c10::List<optional<at::Tensor>> all;
        for (const optional<at::Tensor> each : given.toOptionalTensorList()) all.push_back(each ? optional<at::Tensor>(copied(*each)) : each);
        return all;
    }
    return given;
}

// Every other operation: the CPU's, on copies.
inline void any_other(const c10::OperatorHandle &operation, c10::Stack *stack) {
    const auto &schema = operation.schema();
    const auto given = torch::jit::pop(*stack, schema.arguments().size());
    int card = here().card;
    for (const auto &each : given) {
        if (each.isTensor() && each.toTensor().defined() && each.toTensor().is_cuda()) card = each.toTensor().device().index();
    }
    noted().note(schema.name(), card);
    const inside its_copies;
    std::vector<c10::IValue> copies;
    for (std::size_t index = 0; index < given.size(); ++index) copies.push_back(on_host(schema.arguments()[index], given[index]));
    stack->insert(stack->end(), copies.begin(), copies.end());
    operation.callBoxed(stack);
    for (std::size_t index = 0; index < given.size(); ++index) {
        if (!is_written(schema.arguments()[index])) continue;
        TORCH_CHECK(given[index].isTensor(), schema.name(), " changes a list of tensors");
        const at::Tensor to = given[index].toTensor(), from = copies[index].toTensor();
        TORCH_CHECK(to.sizes() == from.sizes(), schema.name(), " changes the size of its argument");
        upload(to, from);
    }
    auto found = torch::jit::pop(*stack, schema.returns().size());
    for (auto &each : found) {
        std::size_t same = 0;
        while (same < copies.size() && !(each.isTensor() && copies[same].isTensor() && each.toTensor().is_same(copies[same].toTensor()))) ++same;
        if (same < copies.size()) {
            each = given[same];
        } else if (each.isTensor() && each.toTensor().defined()) {
            each = each.toTensor().to(guard_impl::device(card));
        }
        stack->push_back(each);
    }
}

TORCH_LIBRARY_IMPL(_, CUDA, all) { all.fallback(torch::CppFunction::makeFromBoxedFunction<&any_other>()); }

TORCH_LIBRARY_IMPL(aten, CUDA, own) {
    own.impl("empty.memory_format", TORCH_FN(empty));
    own.impl("empty_strided", TORCH_FN(empty_strided));
    own.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
    own.impl("view", TORCH_FN(at::native::view));
    own.impl("copy_", TORCH_FN(copy));
    own.impl("fill_.Scalar", TORCH_FN(filled));
    own.impl("zero_", TORCH_FN(zeroed));
    own.impl("native_batch_norm", TORCH_FN(normalised));
    // Torch has kernels for all devices, which choose among those of CUDA.
    own.impl("convolution", torch::CppFunction::makeFromBoxedFunction<&any_other>());
    own.impl("convolution_backward", torch::CppFunction::makeFromBoxedFunction<&any_other>());
}

// How many cards torch says it has.
inline int &shown_cards() {
    static int shown = cuda().cards;
    return shown;
}

// What LibTorch asks of CUDA.
struct CUDAHooks final : at::CUDAHooksInterface {
    explicit CUDAHooks(at::CUDAHooksArgs) {}
    bool hasCUDA() const override { return true; }
    int getNumGPUs() const override { return shown_cards(); }
    static const at::Generator &generator() {
        static const auto *const only = new at::Generator(at::detail::createCPUGenerator());
        return *only;
    }
#if TORCH_VERSION_MAJOR < 2
    void initCUDA() const override {}
    bool hasPrimaryContext(std::int64_t) const override { return true; }
    const at::Generator &getDefaultCUDAGenerator(at::DeviceIndex) const override { return generator(); }
#else
    bool isBuilt() const override { return true; }
    bool isAvailable() const override { return true; }
    void init() const override {}
    bool hasPrimaryContext(at::DeviceIndex) const override { return true; }
    const at::Generator &getDefaultGenerator(at::DeviceIndex) const override { return generator(); }
    at::DeviceIndex deviceCount() const override { return static_cast<at::DeviceIndex>(shown_cards()); }
    at::DeviceIndex getCurrentDevice() const override { return static_cast<at::DeviceIndex>(here().card); }
#endif
};

} // namespace fake_torch

namespace at {
using fake_torch::CUDAHooks;
REGISTER_CUDA_HOOKS(CUDAHooks);
} // namespace at

namespace fake_torch {

// Waits for all that was put on any stream.
inline void finish_all() {
    for (int card = 0; card < cuda().cards; ++card) {
        const in_context entered(card);
        cuda().wait_for_all();
    }
}

// A question to the driver.
inline std::uint64_t ask(const std::string &question, std::string *text = nullptr) {
    static const auto asked = reinterpret_cast<std::uint64_t (*)(const char *, char *, std::size_t)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "fake_cuda_ask"));
    std::vector<char> room(text == nullptr ? 0 : 1 << 16);
    const auto answer = asked(question.c_str(), room.data(), room.size());
    if (text != nullptr) *text = room.data();
    return answer;
}

} // namespace fake_torch

#endif

// The library as a whole, and the devices it sees.
#ifndef UMBO_CPP_LIBRARY_HPP
#define UMBO_CPP_LIBRARY_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/result.hpp>
#include <umbo/cpp/view.hpp>

UMBO_DETAIL_BEGIN

inline std::string version() { return umbo_version(); }
inline std::uint32_t version_number() noexcept { return umbo_version_number(); }
inline std::string build_info() { return umbo_build_info(); }
inline std::string status_name(status which) { return umbo_status_name(to_c(which)); }
inline void clear_last_error() noexcept { umbo_clear_last_error(); }

inline returned<bool> build_has_feature(const std::string &name) {
    std::int32_t result = 0;
    UMBO_DETAIL_TRY(umbo_build_has_feature(name.c_str(), &result));
    return result != 0;
}

inline returned<void> set_worker_count(std::int64_t count) { return check(umbo_set_worker_count(count)); }
/// Ends the threads that no object needs; see umbo_shutdown().
inline returned<void> shutdown() { return check(umbo_shutdown()); }

// The processors that this process may use: its affinity, and the quota of its cgroup.
inline returned<std::int64_t> processor_count() {
    std::int64_t count = 0;
    UMBO_DETAIL_TRY(umbo_processor_count(&count));
    return count;
}

inline returned<std::int64_t> worker_count() {
    std::int64_t count = 0;
    UMBO_DETAIL_TRY(umbo_worker_count(&count));
    return count;
}

inline returned<std::int64_t> live_handles(handle_type type = handle_type::any) {
    std::int64_t count = 0;
    UMBO_DETAIL_TRY(umbo_live_handles(to_c(type), &count));
    return count;
}

namespace detail {

template <class Callable>
void destroy_callable(void *callable) noexcept {
    umbo_ignore(umbo_callback_keep_handles());
    delete static_cast<Callable *>(callable);
}

template <class Callable>
void log_trampoline(umbo_log_level level, const char *message, void *callable) noexcept {
    umbo_ignore(umbo_callback_keep_handles());
#if defined(UMBO_NO_EXCEPTIONS)
    static_cast<void>(call(*static_cast<Callable *>(callable), log_level{level}, message));
#else
    try {
        (*static_cast<Callable *>(callable))(log_level{level}, message);
    } catch (...) {
        // Whoever logs cannot be told; the message is lost and the work continues.
    }
#endif
}

} // namespace detail

// Messages go to `sink(level, message)`, from any thread; what it throws is dropped.
template <class Sink>
returned<void> set_log_callback(log_level most_verbose, Sink &&sink) {
    using callable = std::decay_t<Sink>;
    auto *kept = new callable(std::forward<Sink>(sink));
    return check(umbo_set_log_callback(to_c(most_verbose), &detail::log_trampoline<callable>, kept,
                                &detail::destroy_callable<callable>));
}

inline returned<void> device_set_logical_count(device_type type, std::int32_t physical_ordinal,
                                     std::int64_t count,
                                     span<const std::size_t> memory_limits = {}) {
    if (!memory_limits.empty() && memory_limits.size() != static_cast<std::size_t>(count)) {
        UMBO_DETAIL_FAIL(status::invalid_argument,
                         "memory_limits: one for each logical device, or none");
    }
    return check(umbo_device_set_logical_count(to_c(type), physical_ordinal, count,
                                               memory_limits.empty() ? nullptr : memory_limits.data()));
}

// Has a GPU that was not used yet work on a CUstream of the program's.
inline returned<void> device_set_stream(const std::string &device, void *stream) {
    return check(umbo_device_set_stream(device.c_str(), stream));
}

// Has the memory of a GPU that was not used yet come from a CUmemoryPool of the program's.
inline returned<void> device_set_memory_pool(const std::string &device, void *pool) {
    return check(umbo_device_set_memory_pool(device.c_str(), pool));
}

// The full name of a device; missing parts come from `defaults`.
inline returned<std::string> device_canonical_name(const std::string &name,
                                         const std::string &defaults = {}) {
    return detail::text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
        return umbo_device_canonical_name(name.c_str(), detail::optional_text(defaults), buffer,
                                          capacity, length);
    });
}

// How many replicas the next step is to have, and whether this number stays.
struct replica_choice {
    std::int64_t count = 1;
    bool is_chosen = false;
};

// By the times of the steps before, in seconds; see umbo_replica_choice_count().
inline returned<replica_choice> replica_choice_count(std::int64_t first_count, span<const double> seconds) {
    replica_choice next;
    std::int32_t is_chosen = 0;
    UMBO_DETAIL_TRY(umbo_replica_choice_count(first_count, detail::count_of(seconds.size()), seconds.data(), &next.count, &is_chosen));
    next.is_chosen = is_chosen != 0;
    return next;
}

inline returned<std::string> replica_choice_text(std::int64_t first_count, span<const double> seconds) {
    return detail::text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
        return umbo_replica_choice_text(first_count, detail::count_of(seconds.size()), seconds.data(), buffer, capacity, length);
    });
}

// What is known of a device, and how many of its type there are.
struct device_info {
    umbo::device device = {};
    std::string name = {}; // empty: the device does not exist
    std::int64_t physical_count = 0;
    std::int64_t logical_count = 0;
    std::size_t total_bytes = 0; // 0: not known
    std::size_t available_bytes = 0;
    std::int64_t physical_ordinal = UMBO_NONE; // the number of its physical device
};

inline returned<device_info> device_get_info(const std::string &device = {}) {
    umbo_device_info raw = UMBO_DEVICE_INFO_INIT;
    UMBO_DETAIL_TRY(umbo_device_get_info(detail::optional_text(device), &raw));
    return device_info{umbo::device{device_type{raw.device.type}, raw.device.ordinal},
                       raw.name == nullptr ? "" : raw.name,
                       raw.physical_count,
                       raw.logical_count,
                       raw.total_bytes,
                       raw.available_bytes,
                       raw.physical_ordinal};
}

UMBO_DETAIL_END

#endif

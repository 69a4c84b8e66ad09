// The library as a whole, and the devices it sees.
#ifndef UMBO_CPP_LIBRARY_HPP
#define UMBO_CPP_LIBRARY_HPP

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <umbo/cpp/error.hpp>

namespace umbo {

inline std::string version() { return umbo_version(); }
inline std::uint32_t version_number() noexcept { return umbo_version_number(); }
inline std::string build_info() { return umbo_build_info(); }
inline std::string status_name(status which) { return umbo_status_name(to_c(which)); }
inline void clear_last_error() noexcept { umbo_clear_last_error(); }

inline bool has_feature(const std::string &name) {
    std::int32_t result = 0;
    check(umbo_has_feature(name.c_str(), &result));
    return result != 0;
}

inline void set_worker_count(std::int64_t count) { check(umbo_set_worker_count(count)); }
/// Ends the threads that no object needs; see umbo_shutdown().
inline void shutdown() { check(umbo_shutdown()); }

inline std::int64_t worker_count() {
    std::int64_t count = 0;
    check(umbo_worker_count(&count));
    return count;
}

inline std::int64_t live_handles(handle_type type = handle_type::any) {
    std::int64_t count = 0;
    check(umbo_live_handles(to_c(type), &count));
    return count;
}

namespace detail {

template <class Callable>
void destroy_callable(void *callable) noexcept {
    delete static_cast<Callable *>(callable);
}

template <class Callable>
void log_trampoline(umbo_log_level level, const char *message, void *callable) noexcept {
    try {
        (*static_cast<Callable *>(callable))(log_level{level}, message);
    } catch (...) {
        // Whoever logs cannot be told; the message is lost and the work goes on.
    }
}

} // namespace detail

// Messages go to `sink(level, message)`, from any thread; what it throws is dropped.
template <class Sink>
void set_log_callback(log_level most_verbose, Sink &&sink) {
    using callable = std::decay_t<Sink>;
    auto *kept = new callable(std::forward<Sink>(sink));
    check(umbo_set_log_callback(to_c(most_verbose), &detail::log_trampoline<callable>, kept,
                                &detail::destroy_callable<callable>));
}

inline std::int64_t physical_device_count(device_type type) {
    std::int64_t count = 0;
    check(umbo_physical_device_count(to_c(type), &count));
    return count;
}

inline std::int64_t logical_device_count(device_type type) {
    std::int64_t count = 0;
    check(umbo_logical_device_count(to_c(type), &count));
    return count;
}

inline void set_logical_device_count(device_type type, std::int32_t physical_ordinal,
                                     std::int64_t count) {
    check(umbo_set_logical_device_count(to_c(type), physical_ordinal, count));
}

// The full name of a device; missing parts come from `defaults`.
inline std::string canonical_device_name(const std::string &name,
                                         const std::string &defaults = {}) {
    return detail::text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
        return umbo_device_canonical_name(name.c_str(), detail::optional_text(defaults), buffer,
                                          capacity, length);
    });
}

// A logical device of this process.
struct device {
    device_type type = device_type::cpu;
    std::int32_t ordinal = 0;
};

inline device parse_device(const std::string &name) {
    umbo_device out{};
    check(umbo_device_parse(name.c_str(), &out));
    return {device_type{out.type}, out.ordinal};
}

inline umbo_memory_info device_memory_info(const std::string &device) {
    auto info = detail::sized<umbo_memory_info>();
    check(umbo_device_memory_info(device.c_str(), &info));
    return info;
}

} // namespace umbo

#endif

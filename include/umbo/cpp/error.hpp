// Status codes as exceptions, and exceptions through the C border and back.
#ifndef UMBO_CPP_ERROR_HPP
#define UMBO_CPP_ERROR_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <stdexcept>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#if !defined(UMBO_NO_EXCEPTIONS) && !defined(__cpp_rtti) && defined(__GNUC__)
#include <cxxabi.h>
#endif

#include <umbo/cpp/enums.hpp>

UMBO_DETAIL_BEGIN

// What one replica (or the call itself: replica UMBO_NONE) has to say about a failure.
struct error_record {
    umbo::status status = umbo::status::ok;
    std::int32_t replica = UMBO_NONE;
    std::string device;
    std::string message;
    std::exception_ptr exception; // what a callable threw there, if it threw
};

// A call that failed. `what()` is the library's message, which lists every failed replica.
class error : public std::runtime_error {
public:
    error(umbo::status status, const std::string &message, std::vector<error_record> records = {})
        : std::runtime_error(message), status_(status), records_(std::move(records)) {}

    umbo::status status() const noexcept { return status_; }

    // One record for each replica that failed or was stopped, in replica order.
    const std::vector<error_record> &records() const noexcept { return records_; }

private:
    umbo::status status_;
    std::vector<error_record> records_;
};

namespace detail {

// Also the mark by which `check` knows that a payload is one of ours.
inline void destroy_exception(void *payload) noexcept {
    delete static_cast<std::exception_ptr *>(payload);
}

inline std::vector<error_record> last_error_records() {
    std::vector<error_record> records;
    const std::int64_t count = umbo_last_error_count();
    for (std::int64_t index = 0; index < count; ++index) {
        umbo_error_info info = UMBO_ERROR_INFO_INIT;
        if (umbo_last_error_at(index, &info) != UMBO_OK) break;
        error_record record;
        record.status = status{info.status};
        record.replica = info.replica;
        record.device = info.device == nullptr ? "" : info.device;
        record.message = info.message == nullptr ? "" : info.message;
        if (info.payload != nullptr && info.payload_destroy == &destroy_exception) {
            record.exception = *static_cast<const std::exception_ptr *>(info.payload);
        }
        records.push_back(std::move(record));
    }
    return records;
}

inline error last_error(umbo::status status) {
    return error(status, umbo_last_error_message(), last_error_records());
}

// What a callable returned as its failure goes to the library as status and message.
inline umbo_status report(const error &failed) noexcept {
    return umbo_set_last_error(to_c(failed.status()), failed.what(), nullptr, nullptr);
}

#if !defined(UMBO_NO_EXCEPTIONS)

[[noreturn]] inline void throw_last_error(umbo::status status) {
    error failed = last_error(status);
    // The status of a step is that of the first replica, in replica order, that failed by itself;
    // replicas that were only stopped have another one. So its exception is the first with it.
    for (const error_record &record : failed.records()) {
        if (record.status == status && record.exception) std::rethrow_exception(record.exception);
    }
    throw failed;
}

// Whether the exception being handled, which is an `error`, is of a class that is derived from it.
inline bool handles_derived_error(const error &caught) {
#if defined(__cpp_rtti)
    return typeid(caught) != typeid(error);
#elif defined(__GNUC__)
    // With -fno-rtti the types of exceptions are there all the same: that of an `error` is seen by throwing one.
    static_cast<void>(caught);
    const std::type_info *const type = abi::__cxa_current_exception_type();
    try {
        throw error(umbo::status::ok, "");
    } catch (const error &) {
        return *type != *abi::__cxa_current_exception_type();
    }
#else
    static_cast<void>(caught);
    return true;
#endif
}

// Reports the exception being handled to the library. What the library itself said inside of the
// callable goes back to it as status and message, so that it can add which replica it was; any
// other exception travels as itself.
inline umbo_status report_current_exception() noexcept {
    umbo_status status = UMBO_STATUS_UNKNOWN;
    try {
        std::string message = "a C++ exception that is not a std::exception";
        bool travels = true;
        try {
            throw;
        } catch (const error &caught) {
            status = to_c(caught.status());
            message = caught.what();
            travels = handles_derived_error(caught);
        } catch (const std::bad_alloc &caught) {
            status = UMBO_STATUS_RESOURCE_EXHAUSTED;
            message = caught.what();
        } catch (const std::exception &caught) {
            message = caught.what();
        } catch (...) {
        }
        if (!travels) return umbo_set_last_error(status, message.c_str(), nullptr, nullptr);
        auto *payload = new std::exception_ptr(std::current_exception());
        return umbo_set_last_error(status, message.c_str(), payload, &destroy_exception);
    } catch (...) {
        return umbo_set_last_error(UMBO_STATUS_RESOURCE_EXHAUSTED, "no memory to report an exception",
                                   nullptr, nullptr);
    }
}

#endif

// A number of things as the C API counts them.
inline std::int64_t count_of(std::size_t size) noexcept {
    return static_cast<std::int64_t>(size);
}

// A number of dimensions as the C functions count it; they say which are too large.
inline std::int32_t ndim_of(std::size_t dimensions) noexcept {
    return dimensions > 255 ? 255 : static_cast<std::int32_t>(dimensions);
}

// A C string that may be left out.
inline const char *optional_text(const std::string &text) noexcept {
    return text.empty() ? nullptr : text.c_str();
}

} // namespace detail

UMBO_DETAIL_END

#endif

// How failed calls are reported: by exceptions, or by results where there are none.
//
// In a program that is compiled without exceptions (-fno-exceptions), or with UMBO_NO_EXCEPTIONS
// defined, every function that would throw returns a `umbo::result` of what it returns otherwise,
// under the same name. What has no result to return (constructors, copies, conversions, operators)
// ends the process with the message. Callables may return a result too; one that has failed is their
// failure. There is no range-for over iterators, which could not say that it stopped early.
#ifndef UMBO_CPP_RESULT_HPP
#define UMBO_CPP_RESULT_HPP

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include <umbo/cpp/error.hpp>

UMBO_DETAIL_BEGIN

namespace detail {

// For failures without a result to put them into.
[[noreturn]] inline void raise(error failed) {
#if defined(UMBO_NO_EXCEPTIONS)
    std::fprintf(stderr, "umbo: %s: %s\n", umbo_status_name(to_c(failed.status())), failed.what());
    std::abort();
#else
    throw failed;
#endif
}

} // namespace detail

// What a call has made, or why it failed.
template <class T>
class [[nodiscard]] result {
public:
    using value_type = T;

    template <class U = T, std::enable_if_t<std::is_convertible_v<U &&, T> &&
                                                !std::is_same_v<std::decay_t<U>, result> &&
                                                !std::is_same_v<std::decay_t<U>, umbo::error>,
                                            int> = 0>
    result(U &&made) : state_(std::in_place_index<0>, std::forward<U>(made)) {}
    result(umbo::error failed) : state_(std::in_place_index<1>, std::move(failed)) {}

    explicit operator bool() const noexcept { return state_.index() == 0; }

    // OK, or what went wrong.
    umbo::status status() const noexcept { return *this ? umbo::status::ok : error().status(); }

    // Why it failed; only if it has.
    const umbo::error &error() const noexcept { return *std::get_if<1>(&state_); }

    // What was made. If there is none the process ends with the message.
    T &value() & {
        require();
        return *std::get_if<0>(&state_);
    }
    const T &value() const & {
        require();
        return *std::get_if<0>(&state_);
    }
    T value() && {
        require();
        return std::move(*std::get_if<0>(&state_));
    }

    T &operator*() & { return value(); }
    const T &operator*() const & { return value(); }
    T operator*() && { return std::move(*this).value(); }
    T *operator->() { return &value(); }
    const T *operator->() const { return &value(); }

private:
    void require() const {
        if (!*this) detail::raise(error());
    }

    std::variant<T, umbo::error> state_;
};

template <>
class [[nodiscard]] result<void> {
public:
    using value_type = void;

    result() noexcept = default;
    result(umbo::error failed) : failed_(std::move(failed)) {}

    explicit operator bool() const noexcept { return !failed_; }
    umbo::status status() const noexcept { return failed_ ? failed_->status() : umbo::status::ok; }
    const umbo::error &error() const noexcept { return *failed_; }

    void value() const {
        if (failed_) detail::raise(*failed_);
    }

private:
    std::optional<umbo::error> failed_;
};

#if defined(UMBO_NO_EXCEPTIONS)

// What functions return that can fail.
template <class T>
using returned = result<T>;

namespace detail {

inline result<void> done() noexcept { return {}; }

template <class T>
result<T> as_result(T made) {
    return result<T>(std::move(made));
}
template <class T>
result<T> as_result(result<T> made) {
    return made;
}

// What must have been made, where there is no result to say that it was not.
template <class T>
T granted(result<T> made) {
    return std::move(made).value();
}

} // namespace detail

// A failed result unless the call succeeded.
inline result<void> check(umbo_status status) {
    if (status == UMBO_OK) return {};
    return detail::last_error(umbo::status{status});
}

// Ends the function with the failure of a call, or with one of its own.
#define UMBO_DETAIL_TRY(...)                                                        \
    do {                                                                            \
        const umbo_status umbo_detail_status = (__VA_ARGS__);                       \
        if (umbo_detail_status != UMBO_OK) {                                        \
            return ::umbo::detail::last_error(::umbo::status{umbo_detail_status});  \
        }                                                                           \
    } while (0)
#define UMBO_DETAIL_FAIL(...) return ::umbo::error(__VA_ARGS__)

// Calls another function of this API that makes nothing.
#define UMBO_DETAIL_CALL(...)                                                                   \
    do {                                                                                        \
        if (const auto umbo_detail_call = __VA_ARGS__; !umbo_detail_call) return umbo_detail_call.error(); \
    } while (0)

// Names what another function of this API, or a callable, has made.
#define UMBO_DETAIL_LET(name, ...)                                             \
    auto umbo_detail_##name = ::umbo::detail::as_result(__VA_ARGS__);          \
    if (!umbo_detail_##name) return umbo_detail_##name.error();                \
    auto name = std::move(umbo_detail_##name).value()

#else

template <class T>
using returned = T;

namespace detail {

inline void done() noexcept {}

template <class T>
T granted(T made) {
    return made;
}

} // namespace detail

// Throws unless the call succeeded: what a callable threw, else `umbo::error`.
inline void check(umbo_status status) {
    if (status != UMBO_OK) detail::throw_last_error(umbo::status{status});
}

#define UMBO_DETAIL_TRY(...) ::umbo::check(__VA_ARGS__)
#define UMBO_DETAIL_FAIL(...) throw ::umbo::error(__VA_ARGS__)
#define UMBO_DETAIL_CALL(...) __VA_ARGS__
#define UMBO_DETAIL_LET(name, ...) auto name = __VA_ARGS__

#endif

namespace detail {

// As `check`, where there is no result to put a failure into.
inline void require(umbo_status status) {
#if defined(UMBO_NO_EXCEPTIONS)
    if (status != UMBO_OK) raise(last_error(umbo::status{status}));
#else
    check(status);
#endif
}

// A text that the C API copies out: asked for once, and once more if the first room was too small.
template <class Write>
returned<std::string> text_of(Write write) {
    std::string text(256, '\0');
    std::size_t length = 0;
    umbo_status status = write(&text[0], text.size(), &length);
    if (status == UMBO_STATUS_OUT_OF_RANGE && length >= text.size()) {
        text.resize(length + 1);
        status = write(&text[0], text.size(), &length);
    }
    UMBO_DETAIL_TRY(status);
    text.resize(length);
    return text;
}

template <class T>
struct is_result : std::false_type {};

template <class T>
struct is_result<result<T>> : std::true_type {};

// Calls a callable whose result, if it is none that can have failed, is of no interest.
template <class Callable, class... Arguments>
returned<void> call(Callable &callable, Arguments &&...arguments) {
    using made = std::invoke_result_t<Callable &, Arguments...>;
    if constexpr (is_result<made>::value) {
        const made finished = callable(std::forward<Arguments>(arguments)...);
        if (!finished) UMBO_DETAIL_FAIL(finished.error());
    } else {
        static_cast<void>(callable(std::forward<Arguments>(arguments)...));
    }
    return done();
}

} // namespace detail

UMBO_DETAIL_END

#endif

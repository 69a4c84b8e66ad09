// Callables as callbacks: nothing that they throw crosses the C border.
#ifndef UMBO_CPP_CALLBACK_HPP
#define UMBO_CPP_CALLBACK_HPP

#include <memory>
#include <type_traits>
#include <utility>

#include <umbo/cpp/library.hpp>
#include <umbo/cpp/nest.hpp>

UMBO_DETAIL_BEGIN
namespace detail {

// Calls and stores what comes back: something that becomes a value, or nothing.
template <class Callable, class... Arguments>
returned<void> call_for_value(Callable &callable, umbo_value **result, Arguments &&...arguments) {
    using made_type = std::invoke_result_t<Callable &, Arguments...>;
    if constexpr (std::is_void_v<made_type> || std::is_same_v<made_type, umbo::result<void>>) {
        return call(callable, std::forward<Arguments>(arguments)...);
    } else {
        UMBO_DETAIL_LET(made, callable(std::forward<Arguments>(arguments)...));
        *result = to_value(made).release();
        return done();
    }
}

// Runs `body` and turns its failure, or whatever it throws, into a status. Objects of C++ own the handles
// that it makes, and release them.
template <class Body>
umbo_status guarded(Body &&body) noexcept {
    umbo_ignore(umbo_callback_keep_handles());
#if defined(UMBO_NO_EXCEPTIONS)
    const result<void> finished = body();
    return finished ? UMBO_OK : report(finished.error());
#else
    try {
        body();
        return UMBO_OK;
    } catch (...) {
        return report_current_exception();
    }
#endif
}

// What stands for a callable behind a `void *`, which cannot point to a function: the callable
// itself, or a pointer to it if it is a function.
template <class Fn>
using callable_object =
    std::conditional_t<std::is_function_v<std::remove_reference_t<Fn>>, std::decay_t<Fn>,
                       std::remove_reference_t<Fn>>;

// A callable that the caller of a blocking function owns. It has to outlive the call.
template <class Callable>
class lent_callable {
    using object = callable_object<Callable>;

public:
    explicit lent_callable(Callable &callable) noexcept : object_(callable) {}

    // Points to a `callable_object`; usable as long as this is.
    void *user_data() noexcept {
        return const_cast<std::remove_const_t<object> *>(std::addressof(object_));
    }

private:
    std::conditional_t<std::is_function_v<Callable>, object, object &> object_;
};

// A callable for a function that may leave calls behind, as those with a deadline or a token do. Where it `waits` for all
// calls the callable is lent. Otherwise the library owns a copy of it, or, of a temporary, what was moved out of it.
template <class Fn>
class step_callable {
    using object = callable_object<Fn>;
    using referred = std::remove_reference_t<Fn>;

public:
    explicit step_callable(referred &callable) noexcept : callable_(callable), lent_(callable) {}

    // To be called just before the function of C, which takes over what is owned.
    returned<void> hand_over(bool waits, void *&user_data, umbo_destroy_fn &destroy) {
        user_data = lent_.user_data();
        if (waits) return done();
        if constexpr (std::is_constructible_v<object, Fn &&>) {
            user_data = const_cast<std::remove_const_t<object> *>(new object(std::forward<Fn>(callable_)));
            destroy = &destroy_callable<object>;
            return done();
        } else {
            UMBO_DETAIL_FAIL(status::invalid_argument,
                             "callable: with a deadline or a token it is kept until late calls are back, and it cannot be "
                             "copied; pass std::move(callable), or std::ref(callable) if it lives until "
                             "strategy::synchronize has returned");
        }
    }

private:
    referred &callable_;
    lent_callable<referred> lent_;
};

// Whether a run with these limits returns only when all callbacks have.
inline bool waits_for_all(double timeout_seconds, const handle<umbo_cancellation> &token) noexcept {
    return timeout_seconds < 0 && !token;
}

// The borrowed handles are `const` in C; the C++ owner offers only what `const` allows.
inline umbo_value *lent(const umbo_value *raw) noexcept { return const_cast<umbo_value *>(raw); }

} // namespace detail
UMBO_DETAIL_END

#endif

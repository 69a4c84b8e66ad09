// Callables as callbacks: nothing that they throw crosses the C border.
#ifndef UMBO_CPP_CALLBACK_HPP
#define UMBO_CPP_CALLBACK_HPP

#include <type_traits>
#include <utility>

#include <umbo/cpp/library.hpp>
#include <umbo/cpp/value.hpp>

namespace umbo {
namespace detail {

// Calls and stores what comes back: a value, something that becomes one, or nothing.
template <class Callable, class... Arguments>
void call_for_value(Callable &callable, umbo_value **result, Arguments &&...arguments) {
    using returned = std::invoke_result_t<Callable &, Arguments...>;
    if constexpr (std::is_void_v<returned>) {
        callable(std::forward<Arguments>(arguments)...);
    } else {
        static_assert(std::is_convertible_v<returned, value>,
                      "the callable returns nothing, a value, a tensor or a variable");
        value made = callable(std::forward<Arguments>(arguments)...);
        *result = made.release();
    }
}

// Runs `body` and turns whatever it throws into a status.
template <class Body>
umbo_status guarded(Body &&body) noexcept {
    try {
        body();
        return UMBO_OK;
    } catch (...) {
        return report_current_exception();
    }
}

// A callable that the caller of a blocking function owns, as `user_data`.
template <class Callable>
void *as_user_data(Callable &callable) noexcept {
    using plain = std::remove_const_t<Callable>;
    return const_cast<plain *>(std::addressof(callable));
}

// The borrowed handles are `const` in C; the C++ owner offers only what `const` allows.
inline umbo_value *lent(const umbo_value *raw) noexcept { return const_cast<umbo_value *>(raw); }

} // namespace detail
} // namespace umbo

#endif

// The type of callables in options.
#ifndef UMBO_CPP_SHARED_FUNCTION_HPP
#define UMBO_CPP_SHARED_FUNCTION_HPP

#include <cstddef>
#include <memory>
#include <type_traits>
#include <utility>

#include <umbo/cpp/result.hpp>

UMBO_DETAIL_BEGIN

template <class Signature>
class shared_function;

namespace detail {

template <class T, class = void>
struct has_bool_operator : std::false_type {};

template <class T>
struct has_bool_operator<T, std::void_t<decltype(std::declval<const T &>().operator bool())>> : std::true_type {};

// Whether there is something to call: not in a null pointer, nor in an empty `std::function` or the like.
template <class Callable>
bool can_be_called(const Callable &callable) {
    if constexpr (std::is_pointer_v<Callable> || has_bool_operator<Callable>::value) {
        return static_cast<bool>(callable);
    } else {
        static_cast<void>(callable);
        return true;
    }
}

} // namespace detail

// Holds a callable of any type, also one that can only be moved, or nothing. Copies share the one callable, which lives
// until the last of them is gone, and which the `const` call operator may change.
template <class Result, class... Arguments>
class shared_function<Result(Arguments...)> {
    static constexpr bool returns_nothing = std::is_same_v<Result, returned<void>>;

    template <class Callable>
    static constexpr bool takes =
        !std::is_same_v<Callable, shared_function> &&
        (returns_nothing ? std::is_invocable_v<Callable &, Arguments...>
                 : std::is_invocable_r_v<Result, Callable &, Arguments...>);

public:
    shared_function() noexcept = default;
    shared_function(std::nullptr_t) noexcept {}

    template <class Callable, std::enable_if_t<takes<std::decay_t<Callable>>, int> = 0>
    shared_function(Callable &&callable) {
        using object = std::decay_t<Callable>;
        if constexpr (!std::is_function_v<std::remove_reference_t<Callable>>) {
            if (!detail::can_be_called(callable)) return;
        }
        object_ = std::make_shared<object>(std::forward<Callable>(callable));
        call_ = [](void *kept, Arguments... arguments) -> Result {
            auto &function = *static_cast<object *>(kept);
            if constexpr (returns_nothing) {
                return detail::call(function, std::forward<Arguments>(arguments)...);
            } else {
                return function(std::forward<Arguments>(arguments)...);
            }
        };
    }

    // Whether it holds a callable.
    explicit operator bool() const noexcept { return call_ != nullptr; }

    // Calls the callable; only if there is one.
    Result operator()(Arguments... arguments) const {
        return call_(object_.get(), std::forward<Arguments>(arguments)...);
    }

private:
    std::shared_ptr<void> object_;
    Result (*call_)(void *, Arguments...) = nullptr;
};

UMBO_DETAIL_END

#endif

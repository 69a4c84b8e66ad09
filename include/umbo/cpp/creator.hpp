// Creators, which see and change the variables that are made in a scope.
#ifndef UMBO_CPP_CREATOR_HPP
#define UMBO_CPP_CREATOR_HPP

#include <string>
#include <type_traits>
#include <utility>

#include <umbo/cpp/strategy.hpp>

namespace umbo {

// A variable that is about to be made. Lent: usable until the creator returns.
class variable_request {
public:
    explicit variable_request(umbo_variable_request *raw) noexcept : raw_(raw) {}

    umbo_variable_request *get() const noexcept { return raw_; }

    // Makes the variable from the request as it now is; each call makes one.
    variable next() const {
        umbo_variable *out = nullptr;
        check(umbo_variable_request_next(raw_, &out));
        return variable(out);
    }

    std::string name() const {
        const char *out = nullptr;
        check(umbo_variable_request_name(raw_, &out));
        return out;
    }

    void set_name(const std::string &name) const {
        check(umbo_variable_request_set_name(raw_, name.c_str()));
    }

    // Not to be written.
    tensor initial_value() const {
        umbo_tensor *out = nullptr;
        check(umbo_variable_request_initial_value(raw_, &out));
        return tensor(out);
    }

    void set_initial_value(const tensor &to) const {
        check(umbo_variable_request_set_initial_value(raw_, to.get()));
    }

    umbo_trainable trainable() const {
        umbo_trainable out = 0;
        check(umbo_variable_request_trainable(raw_, &out));
        return out;
    }

    void set_trainable(umbo_trainable to) const {
        check(umbo_variable_request_set_trainable(raw_, to));
    }

    umbo_aggregation aggregation() const {
        umbo_aggregation out = 0;
        check(umbo_variable_request_aggregation(raw_, &out));
        return out;
    }

    void set_aggregation(umbo_aggregation to) const {
        check(umbo_variable_request_set_aggregation(raw_, to));
    }

    umbo_synchronization synchronization() const {
        umbo_synchronization out = 0;
        check(umbo_variable_request_synchronization(raw_, &out));
        return out;
    }

    void set_synchronization(umbo_synchronization to) const {
        check(umbo_variable_request_set_synchronization(raw_, to));
    }

    // Where the variable will lie; empty if the strategy has not chosen yet.
    std::string device() const {
        const char *out = nullptr;
        check(umbo_variable_request_device(raw_, &out));
        return out == nullptr ? "" : out;
    }

private:
    umbo_variable_request *raw_;
};

namespace detail {

template <class Callable>
umbo_status creator_trampoline(umbo_variable_request *raw, void *callable,
                               umbo_variable **made) noexcept {
    return guarded([&] {
        variable_request request(raw);
        auto &creator = *static_cast<Callable *>(callable);
        using returned = std::invoke_result_t<Callable &, variable_request &>;
        if constexpr (std::is_void_v<returned>) {
            creator(request);
        } else {
            static_assert(std::is_convertible_v<returned, variable>,
                          "the creator returns nothing or a variable");
            variable result = creator(request);
            *made = result.release();
        }
    });
}

} // namespace detail

// Calls `creator(variable_request &)` for each variable that this thread makes, until the returned
// scope is left. It returns the variable, or nothing to have it made from the request.
template <class Creator>
[[nodiscard]] scope enter_creator_scope(Creator &&creator) {
    using callable = std::decay_t<Creator>;
    umbo_scope *out = nullptr;
    auto *kept = new callable(std::forward<Creator>(creator));
    check(umbo_variable_creator_scope_enter(&detail::creator_trampoline<callable>, kept,
                                            &detail::destroy_callable<callable>, &out));
    return scope(out);
}

} // namespace umbo

#endif

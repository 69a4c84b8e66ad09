// Variable creators: callables that see each new variable before it is made.
#ifndef UMBO_CPP_VARIABLE_CREATOR_HPP
#define UMBO_CPP_VARIABLE_CREATOR_HPP

#include <string>
#include <type_traits>
#include <utility>

#include <umbo/cpp/strategy.hpp>
#include <umbo/tensorflow.h>

namespace umbo {
namespace tensorflow {

// A variable that is about to be made. Lent to the creator for the call.
class variable_request {
public:
    explicit variable_request(umbo_variable_request *raw) noexcept : raw_(raw) {}
    variable_request(const variable_request &) = delete;
    variable_request &operator=(const variable_request &) = delete;

    umbo_variable_request *get() const noexcept { return raw_; }

    // Goes on with the request as it now is; each call makes a variable.
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

    tensor initial_value() const {
        umbo_tensor *out = nullptr;
        check(umbo_variable_request_initial_value(raw_, &out));
        return tensor(out);
    }

    void set_initial_value(const tensor &value) const {
        check(umbo_variable_request_set_initial_value(raw_, value.get()));
    }

    // How the variable is to behave.
    variable_options options() const {
        umbo_trainable trainable{};
        umbo_synchronization synchronization{};
        umbo_aggregation aggregation{};
        check(umbo_variable_request_trainable(raw_, &trainable));
        check(umbo_variable_request_synchronization(raw_, &synchronization));
        check(umbo_variable_request_aggregation(raw_, &aggregation));
        return {umbo::trainable{trainable}, umbo::synchronization{synchronization},
                umbo::aggregation{aggregation}};
    }

    void set_options(const variable_options &how) const {
        check(umbo_variable_request_set_trainable(raw_, to_c(how.trainable)));
        check(umbo_variable_request_set_synchronization(raw_, to_c(how.synchronization)));
        check(umbo_variable_request_set_aggregation(raw_, to_c(how.aggregation)));
    }

    // The device that the strategy's own creator has chosen; "" before it has.
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
                               umbo_variable **result) noexcept {
    return umbo::detail::guarded([&] {
        variable_request request(raw);
        auto &creator = *static_cast<Callable *>(callable);
        using returned = std::invoke_result_t<Callable &, variable_request &>;
        if constexpr (std::is_void_v<returned>) {
            creator(request);
        } else {
            variable made = creator(request);
            *result = made.release();
        }
    });
}

} // namespace detail

// Has `creator(variable_request &)` called for each variable that this thread makes, until the
// returned scope is left. It returns the variable, or nothing to go on with the request. The
// callable is copied.
template <class Creator>
[[nodiscard]] scope variable_creator_scope(Creator &&creator) {
    using callable = std::decay_t<Creator>;
    auto *kept = new callable(std::forward<Creator>(creator));
    umbo_scope *out = nullptr;
    check(umbo_variable_creator_scope_enter(&detail::creator_trampoline<callable>, kept,
                                            &umbo::detail::destroy_callable<callable>, &out));
    return scope(out);
}

} // namespace tensorflow
} // namespace umbo

#endif

/* Generated from src/ffi; do not edit. */
// Variable creators: callables that see each new variable before it is made.
#ifndef UMBO_CPP_VARIABLE_CREATOR_HPP
#define UMBO_CPP_VARIABLE_CREATOR_HPP

#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>

#include <umbo/cpp/strategy.hpp>
#include <umbo/tensorflow.h>

UMBO_DETAIL_BEGIN
namespace tensorflow {

// When the copies of a variable are made the same.
enum class synchronization : std::int32_t {
    automatic = UMBO_SYNCHRONIZATION_AUTO,
    none = UMBO_SYNCHRONIZATION_NONE,
    on_write = UMBO_SYNCHRONIZATION_ON_WRITE,
    on_read = UMBO_SYNCHRONIZATION_ON_READ,
};

constexpr umbo_synchronization to_c(synchronization which) noexcept {
    return static_cast<umbo_synchronization>(which);
}

// A variable that is about to be made. Lent to the creator for the call.
class variable_request {
public:
    explicit variable_request(umbo_variable_request *raw) noexcept : raw_(raw) {}
    variable_request(const variable_request &) = delete;
    variable_request &operator=(const variable_request &) = delete;

    umbo_variable_request *get() const noexcept { return raw_; }

    // Goes on with the request as it now is; each call makes a variable.
    returned<variable> next() const {
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_request_next(raw_, &out));
        return variable(out);
    }

    returned<std::string> name() const {
        const char *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_request_name(raw_, &out));
        return out;
    }

    returned<void> set_name(const std::string &name) const {
        return check(umbo_variable_request_set_name(raw_, name.c_str()));
    }

    returned<tensor> initial_value() const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_request_initial_value(raw_, &out));
        return tensor(out);
    }

    returned<void> set_initial_value(const tensor &value) const {
        return check(umbo_variable_request_set_initial_value(raw_, value.get()));
    }

    // How the variable is to behave.
    returned<variable_options> options() const {
        std::int32_t trainable = 0;
        umbo_aggregation aggregation{};
        UMBO_DETAIL_TRY(umbo_variable_request_trainable(raw_, &trainable));
        UMBO_DETAIL_TRY(umbo_variable_request_aggregation(raw_, &aggregation));
        variable_options out;
        if (trainable != UMBO_AUTO) out.trainable = trainable != 0;
        out.aggregation = umbo::aggregation{aggregation};
        return out;
    }

    returned<void> set_options(const variable_options &how) const {
        const std::int32_t trainable = how.trainable ? std::int32_t{*how.trainable} : UMBO_AUTO;
        UMBO_DETAIL_TRY(umbo_variable_request_set_trainable(raw_, trainable));
        return check(umbo_variable_request_set_aggregation(raw_, to_c(how.aggregation)));
    }

    returned<tensorflow::synchronization> synchronization() const {
        umbo_synchronization out{};
        UMBO_DETAIL_TRY(umbo_variable_request_synchronization(raw_, &out));
        return tensorflow::synchronization{out};
    }

    returned<void> set_synchronization(tensorflow::synchronization to) const {
        return check(umbo_variable_request_set_synchronization(raw_, to_c(to)));
    }

    // The device that the strategy's own creator has chosen; "" before it has.
    returned<std::string> device() const {
        const char *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_request_device(raw_, &out));
        return out == nullptr ? "" : out;
    }

private:
    umbo_variable_request *raw_;
};

namespace detail {

template <class Callable>
umbo_status creator_trampoline(umbo_variable_request *raw, void *callable,
                               umbo_variable **result) noexcept {
    return umbo::detail::guarded([&]() -> returned<void> {
        variable_request request(raw);
        auto &creator = *static_cast<Callable *>(callable);
        using made_type = std::invoke_result_t<Callable &, variable_request &>;
        if constexpr (std::is_void_v<made_type> || std::is_same_v<made_type, umbo::result<void>>) {
            return umbo::detail::call(creator, request);
        } else {
            UMBO_DETAIL_LET(made, creator(request));
            *result = made.release();
            return umbo::detail::done();
        }
    });
}

} // namespace detail

// Has `creator(variable_request &)` called for each variable that this thread makes, until the
// returned scope is left. It returns the variable, or nothing to go on with the request. The
// callable is copied.
template <class Creator>
[[nodiscard]] returned<scope> variable_creator_scope(Creator &&creator) {
    using callable = std::decay_t<Creator>;
    auto *kept = new callable(std::forward<Creator>(creator));
    umbo_scope *out = nullptr;
    UMBO_DETAIL_TRY(umbo_variable_creator_scope_enter(
        &detail::creator_trampoline<callable>, kept, &umbo::detail::destroy_callable<callable>,
        &out));
    return scope(out);
}

} // namespace tensorflow
UMBO_DETAIL_END

#endif

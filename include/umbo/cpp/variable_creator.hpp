/* Generated from src; do not edit. */
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

// The moments at which the copies of a variable are made the same.
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

    // Continues with the request as it now is; each call makes a variable.
    returned<variable> next() const {
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_request_next(raw_, &out));
        return variable(out);
    }

    // All that the functions for one field get, in one call.
    returned<umbo_variable_request_info> info() const {
        umbo_variable_request_info out = UMBO_VARIABLE_REQUEST_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_variable_request_get_info(raw_, &out));
        return out;
    }

    returned<void> set_info(const umbo_variable_request_info &to) const {
        return check(umbo_variable_request_set_info(raw_, &to));
    }

    returned<std::string> name() const {
        UMBO_DETAIL_LET(found, info());
        return found.name;
    }

    returned<void> set_name(const std::string &name) const {
        UMBO_DETAIL_LET(changed, info());
        changed.name = name.c_str();
        return set_info(changed);
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
        UMBO_DETAIL_LET(found, info());
        variable_options out;
        if (found.trainable != UMBO_AUTO) out.trainable = found.trainable != 0;
        out.aggregation = umbo::aggregation{found.aggregation};
        return out;
    }

    returned<void> set_options(const variable_options &how) const {
        UMBO_DETAIL_LET(changed, info());
        changed.trainable = how.trainable ? std::int32_t{*how.trainable} : std::int32_t{UMBO_AUTO};
        changed.aggregation = to_c(how.aggregation);
        return set_info(changed);
    }

    returned<tensorflow::synchronization> synchronization() const {
        UMBO_DETAIL_LET(found, info());
        return tensorflow::synchronization{found.synchronization};
    }

    returned<void> set_synchronization(tensorflow::synchronization to) const {
        UMBO_DETAIL_LET(changed, info());
        changed.synchronization = to_c(to);
        return set_info(changed);
    }

    // The device that the strategy's own creator has chosen; "" before it has.
    returned<std::string> device() const {
        UMBO_DETAIL_LET(found, info());
        return found.device == nullptr ? "" : found.device;
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
// returned scope is left. It returns the variable, or nothing to continue with the request. The
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

// What only programs need that follow TensorFlow's strategy call by call.
#ifndef UMBO_CPP_TENSORFLOW_HPP
#define UMBO_CPP_TENSORFLOW_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <umbo/cpp/strategy.hpp>
#include <umbo/tensorflow.h>

UMBO_DETAIL_BEGIN
namespace tensorflow {

// The destination of the result of `reduce_to`: a device, or the devices of a value or variable.
class destination {
public:
    explicit destination(const char *device) noexcept { raw_.device = device; }
    explicit destination(const value &like) noexcept { raw_.like = like.get(); }
    explicit destination(const variable &beside) noexcept { raw_.variable = beside.get(); }

    const umbo_destination &raw() const noexcept { return raw_; }

private:
    umbo_destination raw_ = UMBO_DESTINATION_INIT;
};

// The one in force where no scope is entered.
inline returned<strategy> default_strategy() {
    umbo_strategy *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_default(&out));
    return strategy(out);
}

// Puts a strategy in force in this thread without a scope; an empty one clears it.
inline returned<void> set_strategy(const strategy &to) { return check(umbo_strategy_set_current(to.get())); }

inline returned<bool> has_strategy() {
    std::int32_t out = 0;
    UMBO_DETAIL_TRY(umbo_strategy_has_current(&out));
    return out != 0;
}

inline returned<bool> in_cross_replica_context() {
    std::int32_t out = 0;
    UMBO_DETAIL_TRY(umbo_in_cross_replica_context(&out));
    return out != 0;
}

inline returned<bool> created_variable(const strategy &by, const variable &made) {
    std::int32_t out = 0;
    UMBO_DETAIL_TRY(umbo_strategy_created_variable(by.get(), made.get(), &out));
    return out != 0;
}

// Another strategy with the same devices. (Copying the C++ object makes another reference.)
inline returned<strategy> copy(const strategy &of) {
    umbo_strategy *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_copy(of.get(), &out));
    return strategy(out);
}

// Another variable with the value that this one has now.
inline returned<variable> copy(const variable &of) {
    umbo_variable *out = nullptr;
    UMBO_DETAIL_TRY(umbo_variable_copy(of.get(), &out));
    return variable(out);
}

// `strategy::run` without options.
template <class Fn>
returned<value> call_for_each_replica(const strategy &on, Fn &&fn, const value &args = value()) {
    using callable = detail::callable_object<Fn>;
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_call_for_each_replica(on.get(), &detail::replica_trampoline<callable>,
                                                        args.get(), detail::lent_callable(fn).user_data(),
                                                        &out));
    return value(out);
}

// Not offered by this strategy.
template <class Fn>
returned<value> run_steps_on_iterator(const strategy &on, Fn &&fn, const iterator &input,
                            std::int64_t steps = 1) {
    using callable = detail::callable_object<Fn>;
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_run_steps_on_iterator(on.get(), &detail::replica_trampoline<callable>,
                                                        input.get(), steps,
                                                        detail::lent_callable(fn).user_data(), &out));
    return value(out);
}

inline returned<tensor> read_var(const strategy &on, const variable &of) {
    umbo_tensor *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_read_var(on.get(), of.get(), &out));
    return tensor(out);
}

inline returned<value> value_container(const strategy &on, const value &what) {
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_value_container(on.get(), what.get(), &out));
    return value(out);
}

inline returned<std::vector<std::string>> worker_devices(const strategy &of) {
    UMBO_DETAIL_LET(devices, of.compute_device_count());
    std::vector<const char *> names(static_cast<std::size_t>(devices));
    std::int64_t length = 0;
    UMBO_DETAIL_TRY(umbo_strategy_worker_devices(of.get(), names.data(), devices, &length));
    return std::vector<std::string>(names.begin(), names.end());
}

inline returned<std::vector<std::string>> parameter_devices(const strategy &of) {
    const char *name = nullptr;
    std::int64_t length = 0;
    UMBO_DETAIL_TRY(umbo_strategy_parameter_devices(of.get(), &name, 1, &length));
    return std::vector<std::string>{name};
}

// As `strategy::update`, for state that is kept where the variable is.
template <class Fn>
returned<value> update_non_slot(const strategy &on, const variable &beside, Fn &&fn,
                      const value &args = value()) {
    using callable = detail::callable_object<Fn>;
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_update_non_slot(on.get(), beside.get(),
                                                  &detail::update_trampoline<callable>,
                                                  args.get(), detail::lent_callable(fn).user_data(),
                                                  &out));
    return value(out);
}

// The variable, of these, whose name comes first.
inline returned<variable> non_slot_devices(const strategy &on, span<const variable> variables) {
    const auto raw = detail::raw_handles(variables);
    umbo_variable *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_non_slot_devices(on.get(), detail::count_of(raw.size()),
                                                   raw.data(), &out));
    return variable(out);
}

// Calls `body(strategy)`; what it makes lies where `beside` does.
template <class Body>
returned<void> colocate_vars_with(const strategy &on, const variable &beside, Body &&body) {
    using callable = detail::callable_object<Body>;
    return check(umbo_strategy_colocate_vars_with(on.get(), beside.get(),
                                           &detail::scope_trampoline<callable>,
                                           detail::lent_callable(body).user_data()));
}

inline returned<value> reduce_to(const strategy &on, const value &what, reduce_op op, const destination &where) {
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_reduce_to(on.get(), what.get(), to_c(op), &where.raw(), &out));
    return value(out);
}

// A tuple of the results of `reduce_to` for pairs of a value and its destination.
inline returned<value> batch_reduce_to(const strategy &on,
                             const std::vector<std::pair<value, destination>> &pairs, reduce_op op) {
    std::vector<umbo_value *> values;
    std::vector<const umbo_destination *> destinations;
    for (const auto &pair : pairs) {
        values.push_back(pair.first.get());
        destinations.push_back(&pair.second.raw());
    }
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_batch_reduce_to(on.get(), detail::count_of(pairs.size()), values.data(),
                                                  to_c(op), destinations.data(), &out));
    return value(out);
}

inline returned<value> broadcast_to(const strategy &on, const value &what, const destination &where) {
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_broadcast_to(on.get(), what.get(), &where.raw(), &out));
    return value(out);
}

// Annotations for replicas of several logical devices, which this strategy does not have.
inline returned<tensor> assign_to_logical_device(const strategy &on, const tensor &what, std::int32_t id) {
    umbo_tensor *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_assign_to_logical_device(on.get(), what.get(), id, &out));
    return tensor(out);
}

inline returned<tensor> replicate_to_logical_devices(const strategy &on, const tensor &what) {
    umbo_tensor *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_replicate_to_logical_devices(on.get(), what.get(), &out));
    return tensor(out);
}

inline returned<tensor> split_to_logical_devices(const strategy &on, const tensor &what,
                                       span<const std::int64_t> partitions) {
    umbo_tensor *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_split_to_logical_devices(
                  on.get(), what.get(), detail::count_of(partitions.size()),
                  partitions.data(), &out));
    return tensor(out);
}

// The next element; nothing at the end.
inline returned<std::optional<value>> next_as_optional(const iterator &of) {
    std::int32_t has_value = 0;
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_iterator_next_as_optional(of.get(), &has_value, &out));
    if (has_value == 0) return std::optional<value>();
    return std::optional<value>(value(out));
}

// A value that is used like a tuple, and does not have the same structure.
inline returned<value> create_list(span<const value> items) {
    const auto raw = detail::raw_handles(items);
    umbo_value *out = nullptr;
    UMBO_DETAIL_TRY(umbo_value_create_list(detail::count_of(raw.size()), raw.data(), &out));
    return value(out);
}

// The spec of such values.
inline returned<element_spec> create_list(span<const element_spec> items) {
    const auto raw = detail::raw_handles(items);
    umbo_element_spec *out = nullptr;
    UMBO_DETAIL_TRY(umbo_element_spec_create_list(detail::count_of(raw.size()), raw.data(), &out));
    return element_spec(out);
}

// The slices of copies of arrays.
inline returned<dataset> make_numpy_dataset(const strategy &on, const value &arrays) {
    umbo_dataset *out = nullptr;
    UMBO_DETAIL_TRY(umbo_strategy_make_numpy_dataset(on.get(), arrays.get(), &out));
    return dataset(out);
}

inline returned<std::int64_t> per_replica_batch_size(const input_context &of,
                                           std::int64_t global_batch_size) {
    umbo_input_context context = UMBO_INPUT_CONTEXT_INIT;
    context.pipeline_count = of.pipeline_count;
    context.pipeline_index = of.pipeline_index;
    context.replica_count = of.replica_count;
    std::int64_t out = 0;
    UMBO_DETAIL_TRY(umbo_input_context_per_replica_batch_size(&context, global_batch_size, &out));
    return out;
}

} // namespace tensorflow
UMBO_DETAIL_END

#endif

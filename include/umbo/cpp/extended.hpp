// What libraries on top of a strategy need beside its everyday functions.
#ifndef UMBO_CPP_EXTENDED_HPP
#define UMBO_CPP_EXTENDED_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/replica_context.hpp>
#include <umbo/cpp/strategy.hpp>

namespace umbo {

// The additional functions of a strategy, to which it keeps a reference.
class extended {
public:
    explicit extended(strategy of) noexcept : strategy_(std::move(of)) {}

    // Reduces each value onto its destination: a tuple.
    value batch_reduce_to(umbo_reduce_op op, const std::vector<value> &values,
                          const std::vector<destination> &destinations) const {
        if (values.size() != destinations.size()) {
            throw error(UMBO_INVALID_ARGUMENT, "destinations: one for each value");
        }
        const auto raw = detail::raw_handles(values);
        std::vector<umbo_destination> where;
        for (const destination &each : destinations) where.push_back(each.raw());
        umbo_value *out = nullptr;
        check(umbo_strategy_batch_reduce_to(strategy_.get(), op,
                                            detail::count_of(raw.size(), "values"), raw.data(),
                                            where.data(), &out));
        return value(out);
    }

    value broadcast_to(const value &what, const destination &where) const {
        umbo_value *out = nullptr;
        check(umbo_strategy_broadcast_to(strategy_.get(), what.get(), &where.raw(), &out));
        return value(out);
    }

    value value_container(const value &what) const {
        umbo_value *out = nullptr;
        check(umbo_strategy_value_container(strategy_.get(), what.get(), &out));
        return value(out);
    }

    // As `strategy::run`.
    template <class Fn>
    value call_for_each_replica(Fn &&fn, const value &args = value()) const {
        using callable = std::remove_reference_t<Fn>;
        umbo_value *out = nullptr;
        check(umbo_strategy_call_for_each_replica(strategy_.get(),
                                                  &detail::replica_trampoline<callable>,
                                                  detail::as_user_data(fn), args.get(), &out));
        return value(out);
    }

    // Not offered by this strategy: throws.
    template <class Fn>
    value run_steps_on_iterator(Fn &&fn, const iterator &over, std::int64_t steps) const {
        using callable = std::remove_reference_t<Fn>;
        umbo_value *out = nullptr;
        check(umbo_strategy_run_steps_on_iterator(strategy_.get(),
                                                  &detail::replica_trampoline<callable>,
                                                  detail::as_user_data(fn), over.get(), steps,
                                                  &out));
        return value(out);
    }

    tensor read_var(const variable &of) const {
        umbo_tensor *out = nullptr;
        check(umbo_strategy_read_var(strategy_.get(), of.get(), &out));
        return tensor(out);
    }

    // As `strategy::update`, for state that is kept beside a variable.
    template <class Fn>
    value update_non_slot(const variable &colocate_with, Fn &&fn, const value &args = value(),
                          umbo_update_grouping grouping = UMBO_UPDATE_GROUPED) const {
        using callable = std::remove_reference_t<Fn>;
        auto options = detail::sized<umbo_update_options>();
        options.grouping = grouping;
        umbo_value *out = nullptr;
        check(umbo_strategy_update_non_slot(strategy_.get(), colocate_with.get(),
                                            &detail::update_trampoline<callable>,
                                            detail::as_user_data(fn), args.get(), &options, &out));
        return value(out);
    }

    // The variable beside which state of all of them together is kept.
    variable non_slot_devices(const std::vector<variable> &variables) const {
        const auto raw = detail::raw_handles(variables);
        umbo_variable *out = nullptr;
        check(umbo_strategy_non_slot_devices(
            strategy_.get(), detail::count_of(raw.size(), "variables"), raw.data(), &out));
        return variable(out);
    }

    // Calls `body(strategy)`; the variables that it makes lie beside `beside`.
    template <class Body>
    void colocate_vars_with(const variable &beside, Body &&body) const {
        check(umbo_strategy_colocate_vars_with(
            strategy_.get(), beside.get(), &detail::scope_trampoline<std::remove_reference_t<Body>>,
            detail::as_user_data(body)));
    }

    // The compute devices, in replica order.
    std::vector<std::string> worker_devices() const {
        return names_of([this](std::int32_t capacity, const char **names, std::int32_t *count) {
            return umbo_strategy_worker_devices(strategy_.get(), capacity, names, count);
        });
    }

    // The devices that hold variables.
    std::vector<std::string> parameter_devices() const {
        return names_of([this](std::int32_t capacity, const char **names, std::int32_t *count) {
            return umbo_strategy_parameter_devices(strategy_.get(), capacity, names, count);
        });
    }

    // Annotations for strategies with several logical devices per replica; this one has one.
    tensor assign_to_logical_device(const tensor &what, std::int64_t logical_device_id) const {
        umbo_tensor *out = nullptr;
        check(umbo_strategy_assign_to_logical_device(strategy_.get(), what.get(),
                                                     logical_device_id, &out));
        return tensor(out);
    }

    tensor replicate_to_logical_devices(const tensor &what) const {
        umbo_tensor *out = nullptr;
        check(umbo_strategy_replicate_to_logical_devices(strategy_.get(), what.get(), &out));
        return tensor(out);
    }

    tensor split_to_logical_devices(const tensor &what, const dimensions &partitions) const {
        umbo_tensor *out = nullptr;
        check(umbo_strategy_split_to_logical_devices(
            strategy_.get(), what.get(), detail::count_of(partitions.size(), "partitions"),
            partitions.data(), &out));
        return tensor(out);
    }

private:
    template <class Write>
    static std::vector<std::string> names_of(Write write) {
        std::int32_t count = 0;
        check(write(0, nullptr, &count));
        std::vector<const char *> names(static_cast<std::size_t>(count));
        check(write(count, names.data(), &count));
        return {names.begin(), names.end()};
    }

    strategy strategy_;
};

} // namespace umbo

#endif

// Strategies: scope, run, reduce, gather, update.
#ifndef UMBO_CPP_STRATEGY_HPP
#define UMBO_CPP_STRATEGY_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/callback.hpp>
#include <umbo/cpp/dataset.hpp>
#include <umbo/cpp/observe.hpp>
#include <umbo/cpp/options.hpp>
#include <umbo/cpp/strategy_options.hpp>

UMBO_DETAIL_BEGIN

class equivalence;
class replica_context;
class strategy;

// An entered scope; left by the destructor, or by `exit`, which reports errors. Belongs to the
// thread that entered it, and scopes are left in reverse order.
class scope {
public:
    explicit scope(umbo_scope *raw) noexcept : raw_(raw) {}

    [[nodiscard]] static returned<scope> enter(const strategy &of);

    scope(scope &&other) noexcept : raw_(std::exchange(other.raw_, nullptr)) {}
    scope(const scope &) = delete;
    scope &operator=(const scope &) = delete;
    scope &operator=(scope &&) = delete;

    ~scope() {
        if (raw_ != nullptr) umbo_ignore(umbo_scope_exit(raw_));
    }

    returned<void> exit() {
        UMBO_DETAIL_TRY(umbo_scope_exit(raw_));
        raw_ = nullptr;
        return detail::done();
    }

    umbo_scope *get() const noexcept { return raw_; }
    [[nodiscard]] umbo_scope *release() noexcept { return std::exchange(raw_, nullptr); }

private:
    umbo_scope *raw_;
};

namespace detail {

template <class Initializer>
umbo_status initializer_trampoline(const umbo_view *memory, void *callable) noexcept {
    return guarded([&] { return call(*static_cast<Initializer *>(callable), *memory); });
}

template <class Callable>
umbo_status scope_trampoline(umbo_strategy *raw, void *callable) noexcept;

template <class Callable>
umbo_status replica_trampoline(umbo_replica_context *context, const umbo_value *args,
                               void *callable, umbo_value **result) noexcept;

template <class Callable>
umbo_status merge_trampoline(umbo_strategy *raw, const umbo_value *args, void *callable,
                             umbo_value **result) noexcept;

template <class Callable>
umbo_status value_trampoline(const umbo_value_context *context, void *callable,
                             umbo_value **result) noexcept {
    return guarded([&] {
        return call_for_value(*static_cast<Callable *>(callable), result, *context);
    });
}

template <class Callable>
umbo_status update_trampoline(umbo_variable *raw, const umbo_value *args, void *callable,
                              umbo_value **result) noexcept {
    return guarded([&] {
        borrowed<variable> lent_variable(raw);
        borrowed<value> lent_args(lent(args));
        return call_for_value(*static_cast<Callable *>(callable), result, *lent_variable, *lent_args);
    });
}

} // namespace detail

// A strategy. Copying the C++ object makes another reference.
class strategy : public handle<umbo_strategy> {
public:
    using handle::handle;

    // The one of this thread's scope or run, else the default one.
    static returned<strategy> current() {
        umbo_strategy *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_current(&out));
        return strategy(out);
    }

    static returned<strategy> create(const strategy_options &how = {}) {
        const auto devices = detail::raw_texts(how.compute_devices);
        auto options = detail::raw_options(how, devices);
        detail::replica_thread_functions::hand_over(how, options);
        umbo_strategy *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_create(&options, &out));
        return strategy(out);
    }

    // This many replicas on the processors; UMBO_AUTO: one for each.
    static returned<strategy> create_cpu(std::int64_t cpu_replicas) {
        umbo_strategy *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_create_cpu(cpu_replicas, &out));
        return strategy(out);
    }

    // All that the functions for one field get, in one call.
    returned<umbo_strategy_info> info() const {
        umbo_strategy_info out = UMBO_STRATEGY_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_strategy_get_info(get(), &out));
        return out;
    }

    returned<std::int64_t> replica_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.replica_count;
    }

    // No other strategy of this process has it; 0 is the default strategy.
    returned<std::uint64_t> id() const {
        UMBO_DETAIL_LET(found, info());
        return found.id;
    }

    returned<std::int64_t> rank() const {
        UMBO_DETAIL_LET(found, info());
        return found.rank;
    }

    returned<std::int64_t> rank_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.rank_count;
    }

    // Those of this process.
    returned<std::int64_t> local_replica_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.local_replica_count;
    }

    returned<std::int64_t> compute_device_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.compute_device_count;
    }

    // A hash of all variables.
    returned<std::uint64_t> fingerprint() const {
        std::uint64_t out = 0;
        UMBO_DETAIL_TRY(umbo_strategy_fingerprint(get(), &out));
        return out;
    }

    // Those that are in use, in the order in which they were made; to be added to a checkpoint, say. None of the
    // default strategy's. To be asked for while nobody makes or releases variables.
    returned<std::vector<variable>> variables() const {
        UMBO_DETAIL_LET(found, info());
        const auto count = found.variable_count;
        std::vector<variable> all;
        all.reserve(static_cast<std::size_t>(count));
        for (std::int64_t index = 0; index < count; ++index) {
            umbo_variable *out = nullptr;
            UMBO_DETAIL_TRY(umbo_strategy_variable(get(), index, &out));
            all.push_back(variable(out));
        }
        return all;
    }

    // Of a replica of this process.
    returned<std::string> compute_device(std::int32_t replica_id) const {
        const char *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_compute_device(get(), replica_id, &out));
        return out;
    }

    returned<std::string> parameter_device() const {
        UMBO_DETAIL_LET(found, info());
        return found.parameter_device;
    }

    returned<bool> bind_threads() const {
        UMBO_DETAIL_LET(found, info());
        return found.bind_threads != 0;
    }

    returned<std::size_t> thread_stack_bytes() const {
        UMBO_DETAIL_LET(found, info());
        return found.thread_stack_bytes;
    }

    returned<bool> strict() const {
        UMBO_DETAIL_LET(found, info());
        return found.strict != 0;
    }

    returned<void> synchronize() const { return check(umbo_strategy_synchronize(get())); }

    // More than 0: callables of a late step still run, and the strategy is draining.
    returned<std::int64_t> late_replica_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.late_replica_count;
    }

    // Whether both are the very same strategy.
    friend bool operator==(const strategy &a, const strategy &b) {
        umbo_strategy_info of_a = UMBO_STRATEGY_INFO_INIT, of_b = UMBO_STRATEGY_INFO_INIT;
        detail::require(umbo_strategy_get_info(a.get(), &of_a));
        detail::require(umbo_strategy_get_info(b.get(), &of_b));
        return of_a.id == of_b.id;
    }
    friend bool operator!=(const strategy &a, const strategy &b) { return !(a == b); }

    // Calls `body(strategy)` inside of the scope.
    template <class Body>
    returned<void> scope(Body &&body) const {
        using callable = detail::callable_object<Body>;
        return check(umbo_strategy_scope(get(), &detail::scope_trampoline<callable>,
                                  detail::lent_callable(body).user_data()));
    }

    // Calls `fn(replica_context &, const value &args)` once for each replica, concurrently. What
    // it returns (nothing, or what `to_value` takes) is merged over the replicas; an empty value comes
    // back if it returns nothing.
    template <class Fn>
    returned<value> run(Fn &&fn, const value &args = value()) const {
        using callable = detail::callable_object<Fn>;
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_run(get(), &detail::replica_trampoline<callable>,
                                          args.get(), detail::lent_callable(fn).user_data(), nullptr,
                                          &out));
        return value(out);
    }

    // As above, with a deadline or a token. When time is up this throws while late replicas still run. So with one of
    // the two the callable is copied, or moved if it is a temporary, and kept until the last of them has returned. What it
    // refers to has to live until `synchronize` has returned. `std::ref(fn)` is not copied; then the same holds for `fn`.
    template <class Fn>
    returned<value> run(Fn &&fn, const value &args, const run_options &how) const {
        auto options = detail::raw_options(how);
        detail::step_callable<Fn> callable(fn);
        void *user_data = nullptr;
        UMBO_DETAIL_CALL(callable.hand_over(detail::waits_for_all(how.timeout_seconds, how.cancellation),
                                            user_data, options.user_data_destroy));
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_run(get(), &detail::replica_trampoline<detail::callable_object<Fn>>,
                                          args.get(), user_data, &options, &out));
        return value(out);
    }

    // What the replicas added by replica_context::add_metric() in the last run, or in the last epoch.
    returned<umbo::metric_result> metric_result(const std::string &name) const {
        umbo_metric_result out = UMBO_METRIC_RESULT_INIT;
        UMBO_DETAIL_TRY(umbo_strategy_metric_result(get(), name.c_str(), &out));
        return detail::from_c(out);
    }

    returned<value> reduce(const value &what, reduce_op op, const reduce_options &how = {}) const {
        const auto options = detail::raw_options(how);
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_reduce(get(), what.get(), to_c(op), &options, &out));
        return value(out);
    }

    returned<value> gather(const value &what, std::int32_t axis, const reduce_options &how = {}) const {
        const auto options = detail::raw_options(how);
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_gather(get(), what.get(), axis, &options, &out));
        return value(out);
    }

    // A tuple of what the replicas hold.
    returned<value> local_results(const value &what) const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_local_results(get(), what.get(), &out));
        return value(out);
    }

    // Calls `fn(variable &, const value &args)` once, where the variable lies.
    template <class Fn>
    returned<value> update(const variable &of, Fn &&fn, const value &args = value()) const {
        using callable = detail::callable_object<Fn>;
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_update(get(), of.get(), &detail::update_trampoline<callable>,
                                             args.get(), detail::lent_callable(fn).user_data(), &out));
        return value(out);
    }

    // `fn(const umbo_value_context &)` makes the value of each replica.
    template <class Fn>
    returned<value> values_from_function(Fn &&fn) const {
        using callable = detail::callable_object<Fn>;
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_values_from_function(get(), &detail::value_trampoline<callable>,
                                                           detail::lent_callable(fn).user_data(), &out));
        return value(out);
    }

    returned<variable> create_variable(const std::string &name, const tensor &initial_value,
                             const variable_options &how = {}) const {
        const auto options = detail::raw_options(how);
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_create(get(), detail::optional_text(name), initial_value.get(),
                                             &options, &out));
        return variable(out);
    }

    // Its elements are drawn as the options say, which have its dtype and its shape.
    returned<variable> create_variable(const std::string &name, const variable_options &how) const {
        const auto options = detail::raw_options(how);
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_create(get(), detail::optional_text(name), nullptr, &options, &out));
        return variable(out);
    }

    // Its elements are drawn. `constant` needs the options above.
    returned<variable> create_variable(const std::string &name, umbo::dtype dtype, span<const std::int64_t> shape,
                                       umbo::initial initial, std::uint64_t seed = 0) const {
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_create_drawn(get(), detail::optional_text(name), to_c(dtype),
                                                   detail::ndim_of(shape.size()), shape.data(), to_c(initial), seed,
                                                   &out));
        return variable(out);
    }

    // Variables over memory of the program's, which `owner` keeps until the last of them is gone. The views
    // may be written through, and show the initial values.
    returned<std::vector<variable>> create_variables_in_memory(span<const std::string> names,
                                                               span<const umbo_view> views,
                                                               std::shared_ptr<void> owner,
                                                               const variable_options &how = {}) const {
        if (names.size() != views.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "names: one for each view");
        }
        using kept_type = std::shared_ptr<void>;
        const auto options = detail::raw_options(how);
        const auto texts = detail::raw_texts(names);
        std::vector<umbo_variable *> raw(views.size());
        std::vector<variable> out;
        out.reserve(raw.size()); // so that none of the handles is lost
        auto *kept = new kept_type(std::move(owner));
        UMBO_DETAIL_TRY(umbo_variable_create_in_memory(get(), detail::count_of(raw.size()), texts.data(),
                                                       views.data(), kept,
                                                       &detail::destroy_callable<kept_type>, &options,
                                                       raw.data()));
        for (umbo_variable *each : raw) out.emplace_back(each);
        return out;
    }

    // `initializer(const umbo_view &)` writes the whole of the new variable.
    template <class Initializer,
              class = std::enable_if_t<std::is_invocable_v<Initializer &, const umbo_view &>>>
    returned<variable> create_variable(const std::string &name, umbo::dtype dtype, span<const std::int64_t> shape,
                             Initializer &&initializer, const variable_options &how = {}) const {
        auto options = detail::raw_options(how);
        detail::lent_callable callable(initializer);
        options.initializer = &detail::initializer_trampoline<detail::callable_object<Initializer>>;
        options.initializer_user_data = callable.user_data();
        options.dtype = to_c(dtype);
        options.ndim = detail::ndim_of(shape.size());
        options.shape = shape.data();
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_create(get(), detail::optional_text(name), nullptr, &options, &out));
        return variable(out);
    }

    // Whether a step means the same on one replica and on all: calls `fn(replica_context &, const
    // value &args)`, as `run` does, several times on parts of a global batch that is not distributed
    // yet, and rolls each run back. What `fn` throws comes out only if it does so on the batch as it
    // is usually split. Without `written`, the gradients that it writes, only metrics are compared.
    template <class Fn>
    returned<equivalence> check_equivalence(Fn &&fn, const value &batch, const handle<umbo_gradients> &written = {},
                                            const equivalence_options &how = {}) const;

    // Has the steps measured from now on, or not any more.
    returned<void> measure_steps(bool measure = true) const {
        return check(umbo_strategy_measure_steps(get(), measure ? 1 : 0));
    }

    returned<umbo::step_report> step_report() const {
        umbo::step_report report;
        std::string text(4096, '\0');
        std::size_t length = 0;
        umbo_status found = UMBO_STATUS_OUT_OF_RANGE;
        // The text may become longer from call to call while steps are taken.
        for (int attempt = 0; attempt < 8 && found == UMBO_STATUS_OUT_OF_RANGE; ++attempt) {
            if (length >= text.size()) text.resize(2 * length);
            found = umbo_strategy_step_report(get(), &text[0], text.size(), &length, &report.causes);
        }
        UMBO_DETAIL_TRY(found);
        text.resize(length);
        report.text = std::move(text);
        return report;
    }

    // Of a replica of this process.
    returned<umbo_step_times> step_times(std::int32_t replica_id) const {
        umbo_step_times times = UMBO_STEP_TIMES_INIT;
        UMBO_DETAIL_TRY(umbo_strategy_step_times(get(), replica_id, &times));
        return times;
    }

    // A global batch, split over the replicas as an element of a distributed dataset is.
    returned<value> split(const value &batch) const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_split(get(), batch.get(), &out));
        return value(out);
    }

    // A batch in arrays, which are not copied: structs with these names or, without names, tuples; a single array without
    // a name is a tensor. Arrays that are filled again between two runs need to be split once, without GPUs.
    returned<value> split_arrays(span<const umbo_view> arrays, span<const std::string> names = {}) const {
        UMBO_DETAIL_CALL(detail::expect_names(arrays.size(), names));
        const auto texts = detail::raw_texts(names);
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_split_arrays(get(), detail::count_of(arrays.size()),
                                                   texts.empty() ? nullptr : texts.data(), arrays.data(), &out));
        return value(out);
    }

    // Splits each element over the replicas.
    returned<distributed_dataset> distribute_dataset(const dataset &source,
                                   const distribute_options &how = {}) const {
        const auto options = detail::raw_options(how);
        umbo_distributed_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_distribute_dataset(get(), source.get(), &options, &out));
        return distributed_dataset(out);
    }

    // Splits each element over the replicas, and begins a pass.
    returned<umbo::iterator> iterate(const dataset &source, const distribute_options &how = {}) const {
        const auto options = detail::raw_options(how);
        umbo_iterator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_iterate(get(), source.get(), &options, &out));
        return umbo::iterator(out);
    }

    // `fn(const input_context &)` is called once and returns a dataset, of which each replica gets
    // whole elements.
    template <class Fn>
    returned<distributed_dataset> distribute_datasets_from_function(Fn &&fn,
                                                 const distribute_options &how = {}) const {
        using callable = detail::callable_object<Fn>;
        const auto options = detail::raw_options(how);
        umbo_distributed_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_strategy_distribute_datasets_from_function(
                      get(), &detail::dataset_trampoline<callable>, detail::lent_callable(fn).user_data(),
                      &options, &out));
        return distributed_dataset(out);
    }
};

inline returned<scope> scope::enter(const strategy &of) {
    umbo_scope *out = nullptr;
    UMBO_DETAIL_TRY(umbo_scope_enter(of.get(), &out));
    return scope(out);
}

namespace detail {

template <class Callable>
umbo_status scope_trampoline(umbo_strategy *raw, void *callable) noexcept {
    return guarded([&] {
        borrowed<strategy> lent_strategy(raw);
        return call(*static_cast<Callable *>(callable), *lent_strategy);
    });
}

template <class Callable>
umbo_status merge_trampoline(umbo_strategy *raw, const umbo_value *args, void *callable,
                             umbo_value **result) noexcept {
    return guarded([&] {
        borrowed<strategy> lent_strategy(raw);
        borrowed<value> lent_args(lent(args));
        return call_for_value(*static_cast<Callable *>(callable), result, *lent_strategy, *lent_args);
    });
}

} // namespace detail
UMBO_DETAIL_END

#endif

// Functions of a strategy: runs, epochs, merge calls, scopes, updates, and what makes values and variables.
#pragma once

#include <umbo/tensorflow.hpp>

#include <utility>
#include <vector>

#include "world.hpp"

namespace callables {

using step_signature = value(umbo::replica_context &, const value &);

struct step_body {
    using signature = step_signature;
    static value call(umbo::replica_context &, const value &own) noexcept { return own; }
};

struct run : step_body {
    static constexpr const char *name = "strategy::run";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { on.strategy.run(std::forward<Fn>(fn)); }
};

struct run_with_options : step_body {
    static constexpr const char *name = "strategy::run, no limits";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { on.strategy.run(std::forward<Fn>(fn), {}, umbo::run_options()); }
};

struct run_with_deadline : step_body {
    static constexpr const char *name = "strategy::run, with a deadline";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::run_options how;
        how.timeout_seconds = 3600;
        on.strategy.run(std::forward<Fn>(fn), {}, how);
    }
};

struct run_with_token : step_body {
    static constexpr const char *name = "strategy::run, with a token";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::run_options how;
        how.cancellation = umbo::cancellation::create();
        on.strategy.run(std::forward<Fn>(fn), {}, how);
    }
};

struct train_epoch : step_body {
    static constexpr const char *name = "train_epoch";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::train_epoch(on.strategy, on.batches(), {}, {}, std::forward<Fn>(fn));
    }
};

struct train_epoch_with_deadline : step_body {
    static constexpr const char *name = "train_epoch, with a deadline";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::train_epoch_options how;
        how.timeout_seconds = 3600;
        umbo::train_epoch(on.strategy, on.batches(), {}, {}, std::forward<Fn>(fn), how);
    }
};

struct evaluate : step_body {
    static constexpr const char *name = "evaluate";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { umbo::evaluate(on.strategy, on.batches(), std::forward<Fn>(fn)); }
};

struct check_equivalence : step_body {
    static constexpr const char *name = "strategy::check_equivalence";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        on.strategy.check_equivalence(std::forward<Fn>(fn), umbo::tensor::from_vector(std::vector<float>{1, 2, 4}));
    }
};

struct call_for_each_replica : step_body {
    static constexpr const char *name = "tensorflow::call_for_each_replica";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::tensorflow::call_for_each_replica(on.strategy, std::forward<Fn>(fn));
    }
};

struct merge_call {
    using signature = value(umbo::strategy &, const value &);
    static value call(umbo::strategy &, const value &all) noexcept { return all; }
    static constexpr const char *name = "replica_context::merge_call";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        on.strategy.run([&](umbo::replica_context &context, const value &) { context.merge_call(fn); });
    }
};

struct scope_body {
    using signature = void(umbo::strategy &);
    static void call(umbo::strategy &) noexcept {}
};

struct scope : scope_body {
    static constexpr const char *name = "strategy::scope";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { on.strategy.scope(std::forward<Fn>(fn)); }
};

struct colocate : scope_body {
    static constexpr const char *name = "tensorflow::colocate_vars_with";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        on.strategy.scope([&](umbo::strategy &own) {
            umbo::tensorflow::colocate_vars_with(own, on.weight, std::forward<Fn>(fn));
        });
    }
};

struct update_body {
    using signature = void(umbo::variable &, const value &);
    static void call(umbo::variable &, const value &) noexcept {}
};

struct update : update_body {
    static constexpr const char *name = "strategy::update";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { on.strategy.update(on.weight, std::forward<Fn>(fn)); }
};

struct update_non_slot : update_body {
    static constexpr const char *name = "tensorflow::update_non_slot";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::tensorflow::update_non_slot(on.strategy, on.weight, std::forward<Fn>(fn));
    }
};

struct progress {
    using signature = void(const umbo::progress &);
    static void call(const umbo::progress &) noexcept {}
    static constexpr const char *name = "train_epoch_options::progress";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::train_epoch_options how;
        how.progress = std::forward<Fn>(fn);
        const auto copy = how;
        umbo::train_epoch(on.strategy, on.batches(), {}, {}, step_body::call, copy);
    }
};

struct values_from_function {
    using signature = value(const umbo_value_context &);
    static value call(const umbo_value_context &) noexcept { return value::scalar(1.0f); }
    static constexpr const char *name = "strategy::values_from_function";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { on.strategy.values_from_function(std::forward<Fn>(fn)); }
};

struct initializer {
    using signature = void(const umbo_view &);
    static void call(const umbo_view &) noexcept {}
    static constexpr const char *name = "strategy::create_variable";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        on.strategy.create_variable("made", umbo::dtype::float32, {2}, std::forward<Fn>(fn));
    }
};

struct creator {
    using signature = umbo::variable(umbo::tensorflow::variable_request &);
    static umbo::variable call(umbo::tensorflow::variable_request &request) { return request.next(); }
    static constexpr const char *name = "tensorflow::variable_creator_scope";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        const auto entered = umbo::tensorflow::variable_creator_scope(std::forward<Fn>(fn));
        on.strategy.create_variable("made", umbo::tensor::scalar(1.0f));
    }
};

struct thread_body {
    using signature = void(const umbo_replica_thread &);
    static void call(const umbo_replica_thread &) noexcept {}
};

template <class Set>
void run_on_new_threads(Set set) {
    umbo::strategy_options options;
    options.cpu_replicas = 2;
    set(options);
    umbo::strategy::create(options).run(step_body::call);
}

struct thread_start : thread_body {
    static constexpr const char *name = "strategy_options::replica_thread_start";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) {
        run_on_new_threads([&](umbo::strategy_options &how) { how.replica_thread_start = std::forward<Fn>(fn); });
    }
};

struct thread_stop : thread_body {
    static constexpr const char *name = "strategy_options::replica_thread_stop";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) {
        run_on_new_threads([&](umbo::strategy_options &how) { how.replica_thread_stop = std::forward<Fn>(fn); });
        umbo::shutdown(); // the threads have ended
    }
};

} // namespace callables

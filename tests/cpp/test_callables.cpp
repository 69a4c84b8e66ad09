// Every function that takes a callable takes each kind of callable, also those that can only be moved.
#include <umbo/tensorflow.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

using umbo::value;

// What the functions of the table work on.
struct world {
    umbo::strategy strategy;
    umbo::variable weight;
    umbo::gradients gradients;

    static world make() {
        const auto strategy = umbo::strategy::create_cpu(2);
        const auto weight = strategy.create_variable("w", umbo::tensor::scalar(3.0f));
        return {strategy, weight, umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum)};
    }

    umbo::iterator batches() const {
        return strategy.distribute_dataset(umbo::dataset::from_range(0, 4).batch(2)).iterate();
    }
};

// Which kinds a function cannot take: those of a rule are const and `noexcept`, and what is kept is not the caller's.
enum class takes { all_kinds, what_it_may_keep, rules };

std::atomic<int> calls{0};

// The table: a function's name, what it calls, and a call.
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

struct map {
    using signature = value(const value &);
    static value call(const value &element) noexcept { return element; }
    static constexpr const char *name = "dataset::map";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { umbo::dataset::from_range(0, 2).map(std::forward<Fn>(fn)).iterate().next(); }
};

struct filter {
    using signature = bool(const value &);
    static bool call(const value &) noexcept { return true; }
    static constexpr const char *name = "dataset::filter";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { umbo::dataset::from_range(0, 2).filter(std::forward<Fn>(fn)).iterate().next(); }
};

umbo::element_spec number_spec() { return umbo::element_spec::create_tensor(umbo::dtype::float32, {}); }

// What a pass of a generator may be, too.
struct only_movable_pass {
    std::unique_ptr<int> left = std::make_unique<int>(1);
    std::optional<value> operator()() {
        if ((*left)-- == 0) return std::nullopt;
        return value(umbo::tensor::scalar(1.0f));
    }
};

struct generator_begin {
    using signature = only_movable_pass();
    static only_movable_pass call() { return {}; }
    static constexpr const char *name = "dataset::from_generator";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) {
        const auto elements = umbo::dataset::from_generator(number_spec(), std::forward<Fn>(fn)).iterate();
        CHECK(elements.next() && !elements.next());
    }
};

template <class Fn>
void open_files(Fn &&fn) {
    umbo::files_options how;
    how.element_spec = umbo::element_spec::create_tensor(umbo::dtype::int64, {});
    umbo::dataset::from_files({"one"}, std::forward<Fn>(fn), how).iterate().next();
}

struct open_file {
    using signature = umbo::dataset(const std::string &);
    static umbo::dataset call(const std::string &) { return umbo::dataset::from_range(0, 2); }
    static constexpr const char *name = "dataset::from_files";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { open_files(std::forward<Fn>(fn)); }
};

struct open_numbered_file {
    using signature = umbo::dataset(const std::string &, std::int64_t);
    static umbo::dataset call(const std::string &, std::int64_t) { return umbo::dataset::from_range(0, 2); }
    static constexpr const char *name = "dataset::from_files, with the place in the list";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &, Fn &&fn) { open_files(std::forward<Fn>(fn)); }
};

struct from_function {
    using signature = umbo::dataset(const umbo::input_context &);
    static umbo::dataset call(const umbo::input_context &) { return umbo::dataset::from_range(0, 2); }
    static constexpr const char *name = "strategy::distribute_datasets_from_function";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) { on.strategy.distribute_datasets_from_function(std::forward<Fn>(fn)); }
};

void apply_once(const world &on, const umbo::optimizer &by) {
    on.strategy.run([&](umbo::replica_context &context, const value &) {
        context.gradient<float>(on.gradients, 0, umbo::gradient_mode::overwrite)() = 1;
        context.submit(on.gradients, 1);
    });
    by.apply(on.gradients);
}

struct rule_body {
    using signature = void(const umbo_update_tile &);
    static void call(const umbo_update_tile &) noexcept {}
};

struct rule : rule_body {
    static constexpr const char *name = "optimizer::custom";
    static constexpr takes kinds = takes::rules;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        apply_once(on, umbo::optimizer::custom(on.strategy, {}, std::forward<Fn>(fn)));
    }
};

struct rule_with_gpu : rule_body {
    static constexpr const char *name = "optimizer::custom, with kernels";
    static constexpr takes kinds = takes::rules;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        auto on_gpu = [own = std::make_unique<int>(1)](const umbo_gpu_update &) { CHECK(*own == 1); };
        apply_once(on, umbo::optimizer::custom(on.strategy, {}, std::forward<Fn>(fn), std::move(on_gpu)));
    }
};

struct with_average {
    using signature = void();
    static void call() noexcept {}
    static constexpr const char *name = "optimizer::with_average";
    static constexpr takes kinds = takes::all_kinds;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        const auto sgd = umbo::optimizer::sgd(on.strategy);
        umbo::optimizer_options how;
        how.average = umbo::average::mean;
        sgd.configure(how);
        sgd.with_average(std::forward<Fn>(fn));
    }
};

struct schedule {
    using signature = double(std::int64_t);
    static double call(std::int64_t) noexcept { return 0.5; }
    static constexpr const char *name = "optimizer::set_schedule";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        const auto sgd = umbo::optimizer::sgd(on.strategy);
        sgd.set_schedule(std::forward<Fn>(fn));
        apply_once(on, sgd);
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

struct map_name {
    using signature = std::string(const std::string &);
    static std::string call(const std::string &tensor) { return tensor; }
    static constexpr const char *name = "load_weights_options::map_name";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        const auto checkpoint = umbo::checkpoint::create(on.strategy);
        checkpoint.add(on.weight);
        umbo::load_weights_options how;
        how.map_name = std::forward<Fn>(fn);
        CHECK(checkpoint.load_weights_from_memory(checkpoint.save_weights_to_memory(), how).loaded.size() == 1);
    }
};

struct learn_body {
    using signature = double(const umbo::rows &);
    static constexpr takes kinds = takes::all_kinds;
    static double call(const umbo::rows &) noexcept { return 0; }

    template <class Use>
    static void with_trainer(Use use) {
        std::vector<float> weights(2);
        umbo::trainer_options how;
        how.replicas = 2;
        use(umbo::trainer::create({umbo::parameters(weights)}, how));
    }
};

struct learn_epoch : learn_body {
    static constexpr const char *name = "trainer::epoch";
    template <class Fn>
    static void use(const world &, Fn &&fn) {
        with_trainer([&](const umbo::trainer &by) { by.epoch(4, 2, std::forward<Fn>(fn)); });
    }
};

struct learn_step : learn_body {
    static constexpr const char *name = "trainer::step";
    template <class Fn>
    static void use(const world &, Fn &&fn) {
        with_trainer([&](const umbo::trainer &by) { by.step(0, 2, std::forward<Fn>(fn)); });
    }
};

struct learn_evaluate : learn_body {
    static constexpr const char *name = "trainer::evaluate";
    template <class Fn>
    static void use(const world &, Fn &&fn) {
        with_trainer([&](const umbo::trainer &by) { by.evaluate(4, 2, std::forward<Fn>(fn)); });
    }
};

struct log_sink {
    using signature = void(umbo::log_level, const char *);
    static void call(umbo::log_level, const char *) noexcept {}
    static constexpr const char *name = "set_log_callback";
    static constexpr takes kinds = takes::what_it_may_keep;
    template <class Fn>
    static void use(const world &on, Fn &&fn) {
        umbo::set_log_callback(umbo::log_level::error, std::forward<Fn>(fn));
        umbo_release(on.weight.get(), UMBO_HANDLE_TENSOR); // a mistake, which goes to the log
        CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, nullptr, nullptr, nullptr));
    }
};

// Passes each kind of callable to one function of the table, which must call it.
template <class Function, class Signature = typename Function::signature>
struct crossing;

template <class Function, class Result, class... Arguments>
struct crossing<Function, Result(Arguments...)> {
    static Result counted(Arguments... arguments) noexcept {
        ++calls;
        return Function::call(std::forward<Arguments>(arguments)...);
    }

    template <class Fn>
    static void pass(const char *kind, Fn &&fn) {
        const int before = calls;
        Function::use(*on, std::forward<Fn>(fn));
        if (calls > before) return;
        std::fprintf(stderr, "%s has not called %s\n", Function::name, kind);
        std::exit(1);
    }

    static auto only_movable() {
        return [own = std::make_unique<int>(7)](Arguments... arguments) noexcept -> Result {
            CHECK(*own == 7);
            return counted(std::forward<Arguments>(arguments)...);
        };
    }

    static void all(const world &given) {
        on = &given;
        const auto plain = [](Arguments... arguments) noexcept -> Result {
            return counted(std::forward<Arguments>(arguments)...);
        };
        pass("a function", counted);
        pass("a pointer to a function", &counted);
        pass("a lambda that is const", plain);
        pass("a temporary lambda", [plain](Arguments... arguments) noexcept -> Result {
            return plain(std::forward<Arguments>(arguments)...);
        });
        pass("a temporary that can only be moved", only_movable());
        auto named = only_movable();
        pass("one that was moved", std::move(named));
        auto owned = only_movable();
        if constexpr (Function::kinds != takes::rules) {
            pass("one that changes", [count = 0](Arguments... arguments) mutable noexcept -> Result {
                static_cast<void>(count);
                return counted(std::forward<Arguments>(arguments)...);
            });
            pass("a std::function", std::function<Result(Arguments...)>(plain));
            pass("a reference to one that can only be moved", std::ref(owned));
        }
        if constexpr (Function::kinds == takes::all_kinds) pass("one that can only be moved, where it is", owned);
    }

    static const world *on;
};

template <class Function, class Result, class... Arguments>
const world *crossing<Function, Result(Arguments...)>::on = nullptr;

template <class... Functions>
void cross(const world &on) {
    (crossing<Functions>::all(on), ...);
}

// What is kept and can only be moved is not taken out of a name unasked.
void needs_a_copy(const world &on) {
    auto step = [own = std::make_unique<int>(7)](umbo::replica_context &, const value &) { ++calls; };
    umbo::run_options of_run;
    of_run.timeout_seconds = 3600;
    umbo::train_epoch_options of_epoch;
    of_epoch.cancellation = umbo::cancellation::create();
    const auto batches = on.batches();
    const int before = calls;
    for (const bool epoch : {false, true}) {
        try {
            if (epoch) {
                umbo::train_epoch(on.strategy, batches, {}, {}, step, of_epoch);
            } else {
                on.strategy.run(step, {}, of_run);
            }
            CHECK(false);
        } catch (const umbo::error &error) {
            CHECK(error.status() == umbo::status::invalid_argument);
            CHECK(std::string(error.what()).find("std::move(callable)") != std::string::npos);
        }
    }
    CHECK(calls == before);
}

// An engine that can only be moved.
struct engine {
    std::unique_ptr<int> own = std::make_unique<int>(7);

    void all_to_all(const std::size_t *, const void *, const std::size_t *, void *) { CHECK(*own == 7); }
    void all_gather(const std::size_t *, const void *, void *) { ++calls; }
};

void engines() {
    const auto communicator = umbo::communicator::create({}, engine());
    const double sent = 0;
    double received = 0;
    const int before = calls;
    communicator.all_gather({sizeof(received)}, &sent, &received);
    CHECK(calls == before + 1);
}

// Nothing to call is no callable, in whatever form.
void nothing_to_call() {
    using function = umbo::shared_function<int(int)>;
    CHECK(!function() && !function(nullptr) && !function(std::function<int(int)>()));
    int (*const pointer)(int) = nullptr;
    CHECK(!function(pointer));
    function counts = [count = std::make_unique<int>(0)](int by) { return *count += by; };
    const function same = counts;
    CHECK(counts(2) == 2 && same(3) == 5);
    counts = nullptr;
    CHECK(!counts && same(1) == 6);
}

} // namespace

int main() {
    {
        const auto on = world::make();
        cross<run, run_with_options, run_with_deadline, run_with_token, train_epoch, train_epoch_with_deadline,
              evaluate, check_equivalence, call_for_each_replica>(on);
        cross<merge_call, scope, colocate, update, update_non_slot, values_from_function, initializer, creator>(on);
        cross<map, filter, generator_begin, open_file, open_numbered_file, from_function>(on);
        cross<rule, rule_with_gpu, schedule, with_average, progress, map_name, log_sink>(on);
        cross<learn_epoch, learn_step, learn_evaluate>(on);
        needs_a_copy(on);
        engines();
        nothing_to_call();
    }
    cross<thread_start, thread_stop>({}); // threads can be ended while there is no strategy
    umbo::clear_last_error();
    return finish();
}

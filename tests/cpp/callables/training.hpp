// Functions of optimizers, trainers and checkpoints, and the log.
#pragma once

#include <umbo/umbo.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "../../c/check.h"
#include "world.hpp"

namespace callables {

inline void apply_once(const world &on, const umbo::optimizer &by) {
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

} // namespace callables

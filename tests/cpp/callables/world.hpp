// A function that takes a callable is a row of a table: its name, the kinds of callables that it takes, the callable that it is
// given, and a call of it. Here is what all rows share.
#pragma once

#include <umbo/umbo.hpp>

#include <atomic>

namespace callables {

using umbo::value;

// The objects that the functions of the tables work on.
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

// The kinds that a function takes: those of a rule are const and `noexcept`, and what is kept is not the caller's.
enum class takes { all_kinds, what_it_may_keep, rules };

// The number of calls of all callables.
inline std::atomic<int> calls{0};

} // namespace callables

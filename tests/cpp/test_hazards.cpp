// Mistakes that compile, in C++: rows of the table in docs/errors.md, as in tests/c/test_hazards.c.
#include <umbo/umbo.hpp>

#include <optional>
#include <type_traits>
#include <vector>

#include "../c/check.h"

namespace {

void hazard(const char *) {}

template <class Op, class = void>
struct is_reduced_by : std::false_type {};
template <class Op>
struct is_reduced_by<Op, std::void_t<decltype(umbo_strategy_reduce(nullptr, nullptr, std::declval<Op>(), nullptr, nullptr))>>
    : std::true_type {};

void of_enums() {
    hazard("a constant of another enum, in C++");
    static_assert(is_reduced_by<umbo_reduce_op>::value, "the right one compiles");
    static_assert(!is_reduced_by<umbo_gradient_mode>::value, "another enum does not compile");
    static_assert(!is_reduced_by<int>::value, "a number does not compile");
}

void of_loops(const umbo::strategy &strategy) {
    hazard("a range-for over one iterator in each epoch, in C++");
    const auto rows = umbo::dataset::from_tensor_slices(umbo::tensor::from_vector(std::vector<float>{1, 2, 3, 4}));
    const auto iterator = strategy.distribute_dataset(rows.batch(2)).iterate();
    for (int epoch = 0; epoch < 3; ++epoch) {
        int batches = 0;
        for (const auto &batch : iterator) batches += static_cast<bool>(batch) ? 1 : 0;
        CHECK(batches == 2);
    }
}

void of_handles(const umbo::strategy &strategy) {
    hazard("an object that a callable of C++ makes, used after it has returned");
    std::optional<umbo::tensor> kept;
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        if (context.replica_id() == 0) kept = umbo::tensor::scalar(7.0f);
    });
    CHECK(kept->to_vector<float>() == std::vector<float>{7});
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create_cpu(2);
        of_enums();
        of_loops(strategy);
        of_handles(strategy);
    }
    return finish();
}

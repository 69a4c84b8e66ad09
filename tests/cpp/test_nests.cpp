// What callables return becomes a value: numbers, and containers of what becomes one.
#include <umbo/umbo.hpp>

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

void from_steps(const umbo::strategy &strategy) {
    const auto numbers = strategy.run(
        [](umbo::replica_context &context, const umbo::value &) { return 1.5 * context.replica_id(); });
    CHECK(numbers.item_count() == 2 && numbers.item(1).view_as<double>()() == 1.5);

    const auto named = strategy.run([](umbo::replica_context &context, const umbo::value &) {
        return std::map<std::string, float>{{"loss", 0.5f},
                                            {"hits", static_cast<float>(context.replica_id())}};
    });
    CHECK(named.kind() == umbo::value_kind::structure && named.field_name(0) == "hits");
    CHECK(named.field("hits").item(1).view_as<float>()() == 1);

    const auto pair = strategy.run([](umbo::replica_context &, const umbo::value &) {
        return std::pair(umbo::tensor::scalar(2), std::vector<std::int64_t>{3, 4, 5});
    });
    CHECK(pair.kind() == umbo::value_kind::tuple && pair.item_count() == 2);
    CHECK(pair.item(1).item_count() == 3 && pair.item(1).item(2).item(0).view_as<std::int64_t>()() == 5);

    const auto sum = strategy.run([](umbo::replica_context &context, const umbo::value &) {
        return context.all_reduce(umbo::to_value(context.replica_id() + 1), umbo::reduce_op::sum);
    });
    CHECK(strategy.local_results(sum).item(0).view_as<std::int32_t>()() == 3);

    const auto merged = strategy.run([](umbo::replica_context &context, const umbo::value &) {
        return context.merge_call([](umbo::strategy &, const umbo::value &) { return true; });
    });
    CHECK(strategy.local_results(merged).item(0).view_as<bool>()());
}

// The deepest nest that there may be, on the smallest stack, also through a merge call and a run in it.
void deepest() {
    umbo::strategy_options options;
    options.cpu_replicas = 2;
    options.thread_stack_bytes = 262144;
    const auto strategy = umbo::strategy::create(options);
    auto nest = umbo::to_value(umbo::tensor::create_zeros(umbo::dtype::float32, {1}));
    for (int depth = 0; depth < 64; ++depth) nest = umbo::value::create_tuple({nest});
    for (int round = 0; round < 20; ++round) {
        const auto result = strategy.run(
            [](umbo::replica_context &context, const umbo::value &argument) {
                const auto sum = context.merge_call(
                    [](const umbo::strategy &outer, const umbo::value &all) {
                        return outer.run(
                            [](umbo::replica_context &nested, const umbo::value &own) {
                                return nested.all_reduce(own, umbo::reduce_op::sum);
                            },
                            all);
                    },
                    argument);
                return context.all_gather(sum, 0);
            },
            nest);
        auto inner = strategy.gather(strategy.reduce(result, umbo::reduce_op::sum), 0);
        for (int depth = 0; depth < 64; ++depth) inner = inner.item(0);
        CHECK(inner.view_as<float>().shape(0) == 2);
    }
}

void from_maps() {
    std::int64_t sum = 0;
    for (const umbo::value &square :
         umbo::dataset::from_range(0, 4)
             .map(
                 [](const umbo::value &number) {
                     const auto n = number.view_as<std::int64_t>()();
                     return std::tuple(n, n * n);
                 },
                 {umbo::element_spec::create_tuple({umbo::element_spec::create_tensor(umbo::dtype::int64, {}),
                                             umbo::element_spec::create_tensor(umbo::dtype::int64, {})})})
             .iterate()) {
        sum += square.view_as<std::int64_t>("1")();
    }
    CHECK(sum == 14);
}

void shapes() {
    const auto fields = umbo::to_value(
        std::vector<std::pair<std::string, umbo::value>>{{"z", umbo::to_value(1)}, {"a", umbo::to_value(2)}});
    CHECK(fields.field_name(0) == "z"); // the order of the sequence
    CHECK(umbo::to_value(std::array<bool, 2>{true, false}).item_count() == 2);
    CHECK(umbo::to_value(std::vector<bool>{true, false}).item(0).view_as<bool>()());
    CHECK(umbo::to_value(7LL).view_as<std::int64_t>()() == 7);
    CHECK(umbo::to_value(7ULL).view_as<std::uint64_t>()() == 7);
    CHECK(static_cast<float>(umbo::to_value(umbo::float16(2.0f)).view_as<umbo::float16>()()) == 2);
    const auto nested = umbo::to_value(std::tuple(std::map<std::string, std::vector<double>>{{"a", {1, 2}}}, 3));
    CHECK(nested.view_as<double>("0.a.1")() == 2);
}

} // namespace

int main() {
    // Later its replicas might be served by threads with the larger stacks of other strategies.
    deepest();
    {
        const auto strategy = umbo::strategy::create({{}, 2});
        from_steps(strategy);
        from_maps();
        shapes();
    }
    return finish();
}

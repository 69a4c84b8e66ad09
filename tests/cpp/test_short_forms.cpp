// What every program writes, in one line each: it does the same as the long form.
#include <umbo/umbo.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

void strategies() {
    CHECK(umbo::strategy::create_cpu(3).replica_count() == 3);
    CHECK(umbo::strategy::create_cpu(UMBO_AUTO).replica_count() == umbo::processor_count());
    try {
        umbo::strategy::create_cpu(-2);
        CHECK(false);
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

// The first variable of a name has the same elements in each strategy.
template <class Make>
std::vector<float> drawn(Make make) {
    const auto variable = make(umbo::strategy::create_cpu(1));
    CHECK(variable.name() == "w" && variable.shape() == (umbo::dimensions{2, 3}));
    return variable.read().template to_vector<float>();
}

void variables() {
    const auto one_line = drawn([](const umbo::strategy &on) {
        return on.create_variable("w", umbo::dtype::float32, {2, 3}, umbo::initial::glorot_normal, 5);
    });
    umbo::variable_options how;
    how.dtype = umbo::dtype::float32;
    how.shape = {2, 3};
    how.initial = umbo::initial::glorot_normal;
    how.initial_seed = 5;
    const auto by_options = [&](const umbo::strategy &on) { return on.create_variable("w", how); };
    CHECK(one_line == drawn(by_options) && one_line[0] != one_line[1]);
    how.initial_seed = 6;
    CHECK(one_line != drawn(by_options));
    how.initial = umbo::initial::constant;
    how.initial_mean = 7;
    how.trainable = false;
    CHECK(drawn(by_options) == std::vector<float>(6, 7.0f));
    const auto strategy = umbo::strategy::create_cpu(1);
    CHECK(!strategy.create_variable("w", how).trainable());
    const auto scalar = strategy.create_variable("s", umbo::dtype::float64, {}, umbo::initial::zeros);
    CHECK(scalar.shape().empty() && scalar.read().to_vector<double>()[0] == 0);
    try {
        strategy.create_variable("n", umbo::variable_options());
        CHECK(false);
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

void passes() {
    const auto strategy = umbo::strategy::create_cpu(2);
    const auto rows = umbo::dataset::from_range(0, 10).batch(4);
    const auto batches = strategy.iterate(rows);
    umbo::distribute_options how;
    how.split = umbo::split::balanced;
    how.drop_partial_step = true; // the batch of one row
    const auto whole = strategy.iterate(umbo::dataset::from_range(0, 9).batch(4), how);
    for (int epoch = 0; epoch < 2; ++epoch) {
        std::int64_t examples = 0;
        for (const umbo::value &batch : batches) examples += batch.example_count();
        CHECK(examples == 10);
        examples = 0;
        for (const umbo::value &batch : whole) examples += batch.example_count();
        CHECK(examples == 8);
    }
    // A pass over what is made for it.
    std::int64_t steps = 0;
    for (const umbo::value &batch : strategy.iterate(rows)) steps += batch ? 1 : 0;
    CHECK(steps == 3);

    const auto step = [](umbo::replica_context &context, const umbo::value &own) {
        context.add_metric("rows", 0, static_cast<double>(own.view().shape[0]));
    };
    umbo::train_epoch_options two;
    two.max_steps = 2;
    for (int epoch = 0; epoch < 2; ++epoch) {
        CHECK(umbo::evaluate(strategy, batches, step).step_count == 3);
        CHECK(strategy.metric_result("rows").weight == 10);
    }
    const auto report = umbo::evaluate(strategy, batches, step, two);
    CHECK(report.step_count == 2 && report.update_count == 0 && !report.pass_ended);
}

template <class T>
void number(T from, umbo::dtype dtype) {
    const umbo::value made(from), converted = from;
    CHECK(made.dtype() == dtype && made.shape().empty() && umbo::to_value(from).dtype() == dtype);
    CHECK(umbo::value::scalar(from).text() == made.text() && converted.text() == made.text());
    static_assert(std::is_convertible_v<T, umbo::value>, "a number becomes a value by itself");
}

void numbers() {
    number(1.5f, umbo::dtype::float32);
    number(1.5, umbo::dtype::float64);
    number(true, umbo::dtype::boolean);
    number(std::int8_t{1}, umbo::dtype::int8);
    number(std::uint8_t{1}, umbo::dtype::uint8);
    number(std::int16_t{1}, umbo::dtype::int16);
    number(std::uint16_t{1}, umbo::dtype::uint16);
    number(1, umbo::dtype::int32);
    number(1u, umbo::dtype::uint32);
    number(1l, umbo::dtype::int64);
    number(1ul, umbo::dtype::uint64);
    number(1ll, umbo::dtype::int64);
    number(1ull, umbo::dtype::uint64);
    number(umbo::float16(1.5f), umbo::dtype::float16);
    number(umbo::bfloat16(1.5f), umbo::dtype::bfloat16);
    CHECK(umbo::value(2.5f).view_as<float>()() == 2.5f);
    // A pointer, a text and a null handle are not numbers.
    static_assert(!std::is_convertible_v<const char *, umbo::value> && !std::is_convertible_v<void *, umbo::value> &&
                      !std::is_convertible_v<std::nullptr_t, umbo::value> && !std::is_convertible_v<std::string, umbo::value>,
                  "only numbers, tensors and variables become values by themselves");

    const auto strategy = umbo::strategy::create_cpu(1);
    const auto total = strategy.create_variable("total", umbo::dtype::float32, {}, umbo::initial::zeros);
    total.assign_add(2.0f);
    total.assign(umbo::value(3.0f));
    CHECK(total.view_as<float>()() == 3);
    const auto nest = umbo::value::create_struct({{"a", 1.0f}, {"b", umbo::value::create_tuple({2, 3.0})}});
    CHECK(nest.view_as<double>("b.1")() == 3);
    const auto made = strategy.run(
        [](umbo::replica_context &, const umbo::value &given) {
            return std::map<std::string, umbo::value>{{"x", given}, {"y", 1}};
        },
        4.0f);
    CHECK(made.view_as<float>("x")() == 4 && made.view_as<std::int32_t>("y")() == 1);
    CHECK(umbo::to_value(std::tuple(1, std::pair(2.0f, total))).item_count() == 2);
}

} // namespace

int main() {
    strategies();
    variables();
    passes();
    numbers();
    umbo::clear_last_error();
    return finish();
}

// Plain functions as callables: everything that takes one takes a function too.
#include <umbo/tensorflow.hpp>

#include <optional>
#include <vector>

#include "../c/check.h"

namespace {

float number_of(const umbo::value &value) { return value.view_as<const float>()(); }

float number_of(const umbo::variable &variable) { return variable.read().to_vector<float>()[0]; }

umbo::value merge(umbo::strategy &merging, const umbo::value &all) {
    return merging.reduce(all, umbo::reduce_op::sum);
}

umbo::value step(umbo::replica_context &context, const umbo::value &own) {
    return context.merge_call(merge, own);
}

// `noexcept` is a part of the type.
void nothing(umbo::replica_context &, const umbo::value &) noexcept {}

umbo::tensor identity(const umbo_value_context &context) {
    return umbo::tensor::scalar(static_cast<float>(context.replica_id));
}

void steps(const umbo::strategy &strategy) {
    const auto ids = strategy.values_from_function(identity);
    CHECK(number_of(ids.item(2)) == 2);
    CHECK(number_of(strategy.run(step, ids)) == 3);
    CHECK(number_of(strategy.run(step, ids, umbo::run_options())) == 3);
    CHECK(number_of(umbo::tensorflow::call_for_each_replica(strategy, step, ids)) == 3);
    CHECK(!strategy.run(nothing));
    auto *const pointer = step;
    CHECK(number_of(strategy.run(pointer, ids)) == 3);

    const auto batch = umbo::tensor::from_vector(std::vector<float>{1, 2, 4});
    CHECK(strategy.check_equivalence(nothing, batch).info().holds);
    const auto elements = umbo::dataset::from_tensor_slices(umbo::value(batch)).iterate();
    umbo::status status = umbo::status::ok;
    try {
        umbo::tensorflow::run_steps_on_iterator(strategy, nothing, elements);
    } catch (const umbo::error &error) {
        status = error.status();
    }
    CHECK(status == umbo::status::unimplemented);
}

void enter(umbo::strategy &own) { CHECK(umbo::strategy::current() == own); }

void write_seven(const umbo_view &memory) { umbo::view_of<float>{memory}() = 7; }

umbo::tensor subtract(umbo::variable &from, const umbo::value &by) {
    from.assign_sub(by);
    return from.read();
}

umbo::variable create(umbo::tensorflow::variable_request &request) {
    request.set_name("renamed");
    return request.next();
}

void variables(const umbo::strategy &strategy) {
    strategy.scope(enter);
    const auto variable = strategy.create_variable("v", umbo::dtype::float32, {}, write_seven);
    CHECK(number_of(variable) == 7);
    const umbo::value two = umbo::tensor::scalar(2.0f);
    CHECK(number_of(strategy.update(variable, subtract, two)) == 5);
    CHECK(number_of(umbo::tensorflow::update_non_slot(strategy, variable, subtract, two)) == 3);
    strategy.scope([&](umbo::strategy &own) { umbo::tensorflow::colocate_vars_with(own, variable, enter); });
    const auto scope = umbo::tensorflow::variable_creator_scope(create);
    CHECK(strategy.create_variable("w", two.tensor()).name() == "renamed");
}

umbo::dataset pipeline(const umbo::input_context &context) {
    return umbo::dataset::from_range(0, 6).batch(umbo::tensorflow::per_replica_batch_size(context, 6));
}

umbo::value same(const umbo::value &element) { return element; }

std::optional<umbo::value> no_element() { return std::nullopt; }

auto begin_pass() { return no_element; }

void datasets(const umbo::strategy &strategy) {
    CHECK(strategy.distribute_datasets_from_function(pipeline).cardinality() == 1);
    CHECK(umbo::dataset::from_range(0, 6).map(same).cardinality() == 6);
    const auto spec = umbo::element_spec::create_tensor(umbo::dtype::int32, {1});
    CHECK(!umbo::dataset::from_generator(spec, begin_pass).iterate().next());
}

double rate(std::int64_t) { return 0.5; }

void ignore_message(umbo::log_level, const char *) {}

void settings(const umbo::strategy &strategy) {
    const auto weight = strategy.create_variable("w", umbo::tensor::scalar(3.0f));
    const auto gradients = umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum);
    const auto sgd = umbo::optimizer::sgd(strategy);
    sgd.set_schedule(rate);
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = 2;
        context.submit(gradients, 1);
    });
    CHECK(sgd.apply(gradients).learning_rate == 0.5 && number_of(weight) == 2);
    umbo::set_log_callback(umbo::log_level::error, ignore_message);
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create_cpu(3);
        steps(strategy);
        variables(strategy);
        datasets(strategy);
        settings(strategy);
    }
    return finish();
}

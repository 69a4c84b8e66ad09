// Callables that datasets and scopes keep, that make values, and the functions around them.
#include <umbo/umbo.hpp>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "../c/check.h"

namespace {

struct trouble : std::runtime_error {
    using std::runtime_error::runtime_error;
};

// `body` throws the very exception that a callable in it threw.
template <class Body>
void throws_trouble(Body body) {
    bool caught = false;
    try {
        body();
    } catch (const trouble &) {
        caught = true;
    }
    CHECK(caught);
    umbo::clear_last_error();
}

template <class Body>
void fails_with(umbo_status status, Body body) {
    bool caught = false;
    try {
        body();
    } catch (const umbo::error &error) {
        caught = error.status() == status;
    }
    CHECK(caught);
}

std::vector<std::int64_t> drain(const umbo::dataset &dataset) {
    std::vector<std::int64_t> numbers;
    const auto iterator = dataset.iterate();
    while (const auto element = iterator.next_as_optional()) {
        for (const std::int64_t number : element->view_as<const std::int64_t>()) {
            numbers.push_back(number);
        }
    }
    return numbers;
}

void mapping() {
    const auto witness = std::make_shared<int>(0);
    {
        umbo::map_options how;
        how.parallel_calls = 2;
        const auto squares = umbo::dataset::range(0, 4).map(
            [witness](const umbo::value &element) -> umbo::value {
                const auto number = element.view_as<const std::int64_t>()();
                return umbo::tensor::scalar(number * number);
            },
            how);
        CHECK(witness.use_count() == 2);
        CHECK((drain(squares) == std::vector<std::int64_t>{0, 1, 4, 9}));
    }
    CHECK(witness.use_count() == 1);
    throws_trouble([] {
        drain(umbo::dataset::range(0, 4).map(
            [](const umbo::value &) -> umbo::value { throw trouble("map"); }));
    });
}

void generators() {
    const auto witness = std::make_shared<int>(0);
    const auto spec = umbo::element_spec::tensor(UMBO_INT64, {});
    {
        const auto countdown = umbo::dataset::from_generator(spec, [witness] {
            return [left = std::int64_t{3}, witness]() mutable -> umbo::value {
                if (left == 0) return {};
                return umbo::tensor::scalar(left--);
            };
        });
        CHECK(countdown.cardinality() == -2);
        CHECK((drain(countdown.repeat(2)) == std::vector<std::int64_t>{3, 2, 1, 3, 2, 1}));
        CHECK(witness.use_count() == 2); // the passes are gone
    }
    CHECK(witness.use_count() == 1);
    throws_trouble([&] {
        drain(umbo::dataset::from_generator(
            spec, [] { return []() -> umbo::value { throw trouble("next"); }; }));
    });
    throws_trouble([&] {
        drain(umbo::dataset::from_generator(spec, []() -> umbo::value (*)() {
            throw trouble("begin");
        }));
    });
}

void transformations() {
    const auto numbers = umbo::dataset::range(0, 6);
    CHECK((drain(numbers.shard(3, 1)) == std::vector<std::int64_t>{1, 4}));
    CHECK(drain(numbers.cache().repeat(2)).size() == 12);
    CHECK(drain(umbo::dataset::concatenate({numbers, numbers})).size() == 12);
    CHECK(drain(numbers.batch(4).rebatch({3})).size() == 6);
    const auto one = umbo::tensor::from_vector(std::vector<std::int64_t>{1});
    const auto two = umbo::tensor::from_vector(std::vector<std::int64_t>{2, 3});
    CHECK((drain(umbo::dataset::elements({one, two}).padded_batch(2)) ==
           std::vector<std::int64_t>{1, 0, 2, 3}));
    CHECK(drain(umbo::dataset::from_tensors(two)).size() == 2);
    fails_with(UMBO_NOT_FOUND, [] { umbo::dataset::from_npy_file("absent.npy"); });
    fails_with(UMBO_NOT_FOUND, [] { umbo::dataset::from_npz_file("absent.npz", {"x"}); });

    const auto spec = umbo::element_spec::structure(
        {{"x", umbo::element_spec::tensor(UMBO_FLOAT32, {UMBO_UNKNOWN_SIZE, 2})},
         {"y", umbo::element_spec::tuple({numbers.element_spec()})}});
    CHECK(spec.kind() == UMBO_VALUE_STRUCT && spec.count() == 2 && spec.field_name(1) == "y");
    CHECK(spec.item(0).dtype() == UMBO_FLOAT32);
    CHECK((spec.item(0).shape() == umbo::dimensions{UMBO_UNKNOWN_SIZE, 2}));
    CHECK(spec.item(1).item(0).shape().empty());
}

void distribution(const umbo::strategy &strategy) {
    umbo::distribute_options how;
    how.drop_partial_step = true;
    const auto dealt = strategy.distribute_from_function(
        [](const umbo_input_context &context) {
            return umbo::dataset::range(0, 5).batch(umbo::per_replica_batch_size(context, 2));
        },
        how);
    CHECK(dealt.cardinality() == 2);
    CHECK(dealt.element_spec().kind() == UMBO_VALUE_PER_REPLICA);
    CHECK(dealt.iterate().element_spec().count() == 2);
    throws_trouble([&] {
        strategy.distribute_from_function(
            [](const umbo_input_context &) -> umbo::dataset { throw trouble("dataset"); });
    });
    how.split = UMBO_SPLIT_BALANCED;
    how.per_replica_buffer_size = -1;
    CHECK(strategy.distribute(umbo::dataset::range(0, 9).batch(3), how).iterate().next());
    const auto arrays = umbo::tensor::from_vector(std::vector<std::int64_t>{7, 8});
    CHECK((drain(strategy.make_numpy_dataset(arrays)) == std::vector<std::int64_t>{7, 8}));
}

void creators(const umbo::strategy &strategy) {
    const auto witness = std::make_shared<int>(0);
    const auto initial = umbo::tensor::scalar(1.0f);
    {
        const auto scope = umbo::enter_creator_scope([witness](umbo::variable_request &request) {
            CHECK(request.name() == "w" && !request.device().empty());
            CHECK(request.initial_value().to_vector<float>()[0] == 1);
            request.set_name(request.name() + "2");
            request.set_initial_value(umbo::tensor::scalar(2.0f));
            request.set_trainable(UMBO_TRAINABLE_NO);
            request.set_aggregation(UMBO_AGGREGATION_MEAN);
            request.set_synchronization(UMBO_SYNCHRONIZATION_ON_READ);
            CHECK(request.trainable() == UMBO_TRAINABLE_NO);
            CHECK(request.aggregation() == UMBO_AGGREGATION_MEAN);
            CHECK(request.synchronization() == UMBO_SYNCHRONIZATION_ON_READ);
            return request.next();
        });
        const auto variable = strategy.create_variable("w", initial);
        CHECK(variable.name() == "w2" && !variable.trainable());
        CHECK(variable.read().to_vector<float>()[0] == 2);
    }
    CHECK(witness.use_count() == 1);
    const auto scope = umbo::enter_creator_scope(
        [](umbo::variable_request &) { throw trouble("creator"); });
    throws_trouble([&] { strategy.create_variable("w", initial); });
}

void slices(const umbo::strategy &strategy) {
    const auto rows = umbo::tensor::from_data<float>({1, 2}, std::vector<float>{2, 4}.data());
    const auto numbers = umbo::tensor::from_vector(std::vector<std::int64_t>{1});
    const auto some = umbo::value::indexed_slices(rows, numbers, {3, 2});
    CHECK(some.slices_values().view().data == rows.view().data);
    CHECK(some.slices_indices().to_vector<std::int64_t>()[0] == 1);
    CHECK((some.slices_dense_shape() == umbo::dimensions{3, 2}));
    const auto variable =
        strategy.create_variable("m", umbo::tensor::zeros(UMBO_FLOAT32, {3, 2}));
    const auto now = [&] { return variable.read().to_vector<float>()[3]; };
    variable.scatter_update(some);
    CHECK(now() == 4);
    variable.scatter_add(some);
    CHECK(now() == 8);
    variable.scatter_mul(some);
    CHECK(now() == 32);
    variable.scatter_div(some);
    CHECK(now() == 8);
    variable.scatter_min(some);
    CHECK(now() == 4);
    variable.scatter_sub(some);
    CHECK(now() == 0);
    variable.scatter_max(some);
    CHECK(now() == 4);
}

void extended_functions(const umbo::strategy &strategy) {
    const umbo::extended more(strategy);
    const auto numbers = strategy.values_from_function([](const umbo_value_context &context) {
        return umbo::tensor::scalar(static_cast<float>(context.replica_id_in_sync_group + 1));
    });
    CHECK(numbers.kind() == UMBO_VALUE_PER_REPLICA && more.value_container(numbers).count() == 2);
    throws_trouble([&] {
        strategy.values_from_function(
            [](const umbo_value_context &) -> umbo::value { throw trouble("value"); });
    });
    const umbo::destination where("CPU:1");
    const auto sums = more.batch_reduce_to(UMBO_REDUCE_SUM, {numbers, numbers}, {where, where});
    CHECK(sums.count() == 2 && sums.item(1).view_as<const float>()() == 3);
    CHECK(more.broadcast_to(sums.item(0), umbo::destination(numbers)).count() == 2);
    CHECK(more.call_for_each_replica([](umbo::replica_context &, const umbo::value &args) {
                  return args;
              }, numbers).count() == 2);
    CHECK(more.worker_devices().size() == 2 && more.parameter_devices().size() == 1);

    const auto initial = umbo::tensor::scalar(5.0f);
    const auto variable = strategy.create_variable("b", initial);
    const auto beside = strategy.create_variable("a", initial);
    CHECK(more.read_var(variable).to_vector<float>()[0] == 5);
    CHECK(more.non_slot_devices({variable, beside}).name() == "a");
    const auto add = [](umbo::variable &of, const umbo::value &args) {
        of.assign_add(args);
        return args;
    };
    CHECK(strategy.update(variable, add, initial, UMBO_UPDATE_UNGROUPED).kind() ==
          UMBO_VALUE_TUPLE);
    CHECK(more.update_non_slot(variable, add, initial).kind() == UMBO_VALUE_TENSOR);
    CHECK(variable.read().to_vector<float>()[0] == 15);
    {
        const auto scope = strategy.enter();
        int calls = 0;
        more.colocate_vars_with(variable, [&](umbo::strategy &) { ++calls; });
        CHECK(calls == 1);
    }
    fails_with(UMBO_UNIMPLEMENTED, [&] { more.assign_to_logical_device(initial, 0); });
    fails_with(UMBO_UNIMPLEMENTED, [&] { more.replicate_to_logical_devices(initial); });
    fails_with(UMBO_UNIMPLEMENTED, [&] { more.split_to_logical_devices(initial, {}); });
    fails_with(UMBO_UNIMPLEMENTED, [&] {
        more.run_steps_on_iterator([](umbo::replica_context &, const umbo::value &) {},
                                   umbo::dataset::range(0, 1).iterate(), 1);
    });
}

void resolvers() {
    umbo::strategy_options options;
    options.cluster_resolver = umbo::cluster_resolver::from_tf_config(
        R"({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}})");
    const auto strategy = umbo::strategy::central_storage(options);
    const auto resolver = strategy.cluster_resolver();
    CHECK(resolver.jobs() == std::vector<std::string>{"worker"});
    CHECK(resolver.tasks("worker").at(1).address == "b:2");
    CHECK(resolver.tasks("worker").at(1).index == 1);
    CHECK(resolver.task_type() == "worker" && resolver.task_index() == 1);
    CHECK(umbo::cluster_resolver::from_tf_config("{}").task_type().empty());
    CHECK(!umbo::strategy::default_strategy().cluster_resolver());
}

} // namespace

int main() {
    mapping();
    generators();
    transformations();
    {
        umbo::strategy_options options;
        options.cpu_replicas = 2;
        const auto strategy = umbo::strategy::central_storage(options);
        distribution(strategy);
        creators(strategy);
        slices(strategy);
        extended_functions(strategy);
    }
    resolvers();
    umbo::clear_last_error();
    return finish();
}

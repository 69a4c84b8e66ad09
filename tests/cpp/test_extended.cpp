// Indexed slices, scatter updates, updates, values from functions, creators, cluster resolvers.
#include <umbo/tensorflow.hpp>

#include <string>
#include <vector>

#include "../c/check.h"

namespace {

umbo::strategy make(std::int32_t replicas) {
    return umbo::strategy::create_cpu(replicas);
}

template <class Fn>
umbo::status status_of(Fn &&fn) {
    try {
        fn();
    } catch (const umbo::error &error) {
        return error.status();
    }
    return umbo::status::ok;
}

umbo::value slices(const std::vector<float> &values, const std::vector<std::int64_t> &indices) {
    return umbo::value::create_indexed_slices(umbo::tensor::from_vector(values),
                                       umbo::tensor::from_vector(indices), {3});
}

void sparse() {
    const auto strategy = make(2);
    const auto both = umbo::value::create_per_replica({slices({1}, {1}), slices({2, 3}, {0, 2})});
    const auto sum = strategy.reduce(both, umbo::reduce_op::sum);
    const auto [rows, numbers] = sum.indexed_slices();
    CHECK(rows.to_vector<float>() == std::vector<float>({1, 2, 3}));
    CHECK(numbers.to_vector<std::int64_t>() == std::vector<std::int64_t>({1, 0, 2}));
    CHECK(sum.shape() == umbo::dimensions{3} && sum.dtype() == umbo::dtype::float32);
    CHECK(strategy.reduce(both, umbo::reduce_op::min).tensor().to_vector<float>() ==
          std::vector<float>({0, 0, 0}));
    CHECK(strategy.reduce(both, umbo::reduce_op::max).tensor().to_vector<float>() ==
          std::vector<float>({2, 1, 3}));
    const auto variable =
        strategy.create_variable("v", umbo::tensor::from_vector(std::vector<float>{8, 8, 8}));
    variable.scatter(slices({1}, {0}), umbo::scatter_op::add);
    variable.scatter(slices({1}, {1}), umbo::scatter_op::sub);
    variable.scatter(slices({2}, {2}), umbo::scatter_op::mul);
    variable.scatter(slices({4}, {2}), umbo::scatter_op::div);
    variable.scatter(slices({5}, {0}), umbo::scatter_op::min);
    variable.scatter(slices({9}, {1}), umbo::scatter_op::max);
    CHECK(variable.read().to_vector<float>() == std::vector<float>({5, 9, 4}));
    variable.scatter(slices({0, 1}, {0, 0}), umbo::scatter_op::update);
    CHECK(variable.read().to_vector<float>() == std::vector<float>({1, 9, 4}));
}

void extended() {
    const auto strategy = make(2);
    const auto variable = strategy.create_variable("v", umbo::tensor::scalar(1.0f));
    const auto one = strategy.update(
        variable, [](umbo::variable &of, const umbo::value &args) {
            of.assign(args);
            return args;
        },
        umbo::tensor::scalar(2.0f));
    CHECK(one.kind() == umbo::value_kind::tensor);
    umbo::tensorflow::update_non_slot(strategy, variable, [](umbo::variable &of, const umbo::value &) {
        CHECK(of.name() == "v");
    });
    CHECK(umbo::tensorflow::read_var(strategy, variable).to_vector<float>()[0] == 2);
    CHECK(umbo::tensorflow::non_slot_devices(strategy, {variable}).name() == "v");
    int inside = 0;
    strategy.scope([&](umbo::strategy &own) {
        umbo::tensorflow::colocate_vars_with(own, variable, [&](umbo::strategy &) { inside++; });
    });
    CHECK(inside == 1);
    const auto ids = strategy.values_from_function([](const umbo_value_context &context) {
        CHECK(context.struct_size == sizeof(context));
        return umbo::tensor::scalar(static_cast<float>(context.replica_id));
    });
    CHECK(ids.kind() == umbo::value_kind::per_replica && ids.item_count() == 2);
    const auto sums = umbo::tensorflow::batch_reduce_to(strategy, 
        {{ids, umbo::tensorflow::destination("CPU:1")}, {ids, umbo::tensorflow::destination(variable)}}, umbo::reduce_op::sum);
    CHECK(sums.item(0).view().device.ordinal == 1 && sums.item(1).view().device.ordinal == 0);
    CHECK(umbo::tensorflow::broadcast_to(strategy, umbo::tensor::scalar(1.0f), umbo::tensorflow::destination(ids)).item_count() == 2);
    CHECK(umbo::tensorflow::value_container(strategy, ids).item_count() == 2);
    const auto same = umbo::tensorflow::call_for_each_replica(strategy, 
        [](umbo::replica_context &, const umbo::value &args) { return args; }, ids);
    CHECK(same.item(1).view_as<const float>()() == 1);
    CHECK(umbo::tensorflow::worker_devices(strategy).size() == 2 && umbo::tensorflow::parameter_devices(strategy).size() == 1);
    const auto tensor = umbo::tensor::from_vector(std::vector<float>{1, 2});
    const auto elements = umbo::dataset::from_tensor_slices(umbo::value(tensor)).iterate();
    const auto step = [](umbo::replica_context &, const umbo::value &) {};
    CHECK(status_of([&] { umbo::tensorflow::run_steps_on_iterator(strategy, step, elements); }) == umbo::status::unimplemented);
    CHECK(status_of([&] { umbo::tensorflow::assign_to_logical_device(strategy, tensor, 0); }) == umbo::status::unimplemented);
    CHECK(status_of([&] { umbo::tensorflow::replicate_to_logical_devices(strategy, tensor); }) == umbo::status::unimplemented);
    CHECK(status_of([&] { umbo::tensorflow::split_to_logical_devices(strategy, tensor, {1}); }) == umbo::status::unimplemented);
}

void creators() {
    const auto strategy = make(2);
    std::vector<std::string> names;
    {
        const auto scope = umbo::tensorflow::variable_creator_scope([&](umbo::tensorflow::variable_request &request) {
            names.push_back(request.name());
            request.set_name("renamed");
            CHECK(!request.device().empty());
            auto options = request.options();
            CHECK(options.trainable == true); // the strategy's own creator has resolved it
            options.trainable = false;
            request.set_options(options);
            CHECK(request.options().trainable == false);
            CHECK(request.synchronization() == umbo::tensorflow::synchronization::automatic);
            request.set_synchronization(umbo::tensorflow::synchronization::on_read);
            CHECK(request.synchronization() == umbo::tensorflow::synchronization::on_read);
            request.set_initial_value(request.initial_value());
            return request.next();
        });
        const auto made = strategy.create_variable("v", umbo::tensor::scalar(1.0f));
        CHECK(made.name() == "renamed" && !made.trainable());
    }
    CHECK(names == std::vector<std::string>{"v"});
}

void resolvers() {
    const auto resolver = umbo::cluster_resolver::from_tf_config(
        R"({"cluster": {"worker": ["a:1", "b:2"]}, "task": {"type": "worker", "index": 1}})");
    CHECK(resolver.jobs().size() == 1 && resolver.jobs().at("worker") == 2);
    CHECK(resolver.tasks("worker").at(1) == "b:2");
    CHECK(resolver.task_type() == "worker" && resolver.task_index() == 1);
    CHECK(resolver.rank() == 1 && resolver.rank_count() == 2);
    CHECK(status_of([&] { resolver.tasks("chief"); }) == umbo::status::not_found);
    CHECK(umbo::cluster_resolver::from_tf_config().jobs().empty());
    CHECK(umbo::cluster_resolver::from_environment().jobs().empty());
    CHECK(status_of([] { umbo::cluster_resolver::from_tf_config("{"); }) == umbo::status::invalid_argument);
}

} // namespace

int main() {
    sparse();
    extended();
    creators();
    resolvers();
    return finish();
}

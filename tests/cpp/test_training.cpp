// A training step in C++: callables for run, merge and update; gradients; every optimizer.
#include <umbo/tensorflow.hpp>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "../c/check.h"

namespace {

float number_of(const umbo::value &value) { return value.view_as<const float>()(); }

float number_of(const umbo::variable &variable) { return variable.read().to_vector<float>()[0]; }

void callables(const umbo::strategy &strategy) {
    const auto ids = strategy.run([](umbo::replica_context &context, const umbo::value &args) {
        CHECK(!args && context.replica_count() == 3 && !context.is_cancelled());
        CHECK(context.stream() == nullptr && umbo::replica_context::current());
        float *scratch = context.scratch<float>(10).data();
        scratch[9] = static_cast<float>(context.replica_id());
        return umbo::tensor::scalar(scratch[9]);
    });
    CHECK(ids.item_count() == 3 && number_of(ids.item(2)) == 2);
    CHECK(number_of(strategy.reduce(ids, umbo::reduce_op::mean)) == 1);
    CHECK(number_of(umbo::tensorflow::reduce_to(strategy, ids, umbo::reduce_op::sum, umbo::tensorflow::destination("CPU:0"))) == 3);

    const auto merged = strategy.run(
        [](umbo::replica_context &context, const umbo::value &own) {
            CHECK(number_of(context.all_reduce(own, umbo::reduce_op::sum)) == 3);
            return context.merge_call(
                [](umbo::strategy &merging, const umbo::value &all) {
                    return merging.reduce(all, umbo::reduce_op::sum);
                },
                own);
        },
        ids);
    CHECK(merged.kind() == umbo::value_kind::tensor && number_of(merged) == 3);

    const umbo::value rows = umbo::value::create_per_replica(
        {umbo::tensor::from_vector(std::vector<float>{1}),
         umbo::tensor::from_vector(std::vector<float>{2, 3}),
         umbo::tensor::from_vector(std::vector<float>{4, 5, 6})});
    CHECK(strategy.gather(rows, 0).tensor().to_vector<float>()[5] == 6);
    umbo::reduce_options over_rows;
    over_rows.axes = std::vector<std::int32_t>{0};
    CHECK(number_of(strategy.reduce(rows, umbo::reduce_op::mean, over_rows)) == 3.5f);
    strategy.run(
        [](umbo::replica_context &context, const umbo::value &own) {
            CHECK(context.all_gather(own, 0).tensor().to_vector<float>().size() == 6);
        },
        rows);

    umbo::variable_options options;
    options.aggregation = umbo::aggregation::sum;
    const auto variable = strategy.create_variable("v", umbo::tensor::scalar(10.0f), options);
    CHECK(variable.name() == "v" && variable.trainable() && variable.dtype() == umbo::dtype::float32);
    CHECK(variable.aggregation() == umbo::aggregation::sum && umbo::tensorflow::created_variable(strategy, variable));
    strategy.run([&](umbo::replica_context &, const umbo::value &own) { variable.assign_add(own); },
                 ids);
    CHECK(number_of(variable) == 13);
    const auto updated = strategy.update(
        variable,
        [](umbo::variable &inner, const umbo::value &by) {
            inner.assign_sub(by);
            return inner.read();
        },
        umbo::tensor::scalar(3.0f));
    CHECK(number_of(updated) == 10 && number_of(variable) == 10);
    const auto copy = umbo::tensorflow::copy(variable);
    copy.assign(umbo::tensor::scalar(1.0f));
    CHECK(number_of(copy) == 1 && variable.view().ndim == 0);

    // 10 in bfloat16, in a run and outside.
    strategy.run(
        [&](umbo::replica_context &context, const umbo::value &) {
            const umbo_view low = context.view_as(variable, umbo::dtype::bfloat16);
            CHECK(*static_cast<const std::uint16_t *>(low.data) == 0x4120);
        },
        ids);
    CHECK(variable.view_as(umbo::dtype::float16).dtype == UMBO_DTYPE_FLOAT16);
}

// Clipping, a loss scale, a group, a schedule and accumulation; and a schedule that throws.
void settings(const umbo::strategy &strategy, const umbo::variable &weight) {
    const auto gradients = umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum, {2});
    umbo::ftrl_options of_ftrl;
    of_ftrl.l1 = 10000;
    const auto ftrl = umbo::optimizer::ftrl(strategy, of_ftrl);
    const auto sgd = umbo::optimizer::sgd(strategy);
    umbo::optimizer_options options;
    options.global_clip_norm = 2;
    options.loss_scaling = umbo::loss_scaling::fixed;
    options.loss_scale = 4;
    sgd.configure(options);
    umbo::group_options group;
    group.learning_rate_factor = 0.5;
    sgd.add_group({weight}, group);
    sgd.set_schedule([](std::int64_t step) { return step == 0 ? 0.25 : throw step; });
    const float before = number_of(weight);
    const auto step = [&] {
        strategy.run([&](umbo::replica_context &context, const umbo::value &) {
            const auto scale = static_cast<float>(sgd.info().loss_scale);
            context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = 3 * scale;
            context.submit(gradients, 1);
        });
    };
    step();
    CHECK(sgd.apply(gradients).accumulated_count == 1);
    step();
    const auto report = sgd.apply(gradients);
    CHECK(report.applied && report.clipped && report.gradient_norm == 3);
    CHECK(report.total_weight == 6 && report.loss_scale == 4 && report.learning_rate == 0.25);
    CHECK(sgd.last_report().gradient_norm == 3 && sgd.info().iterations == 1);
    CHECK(number_of(weight) == before - 0.25f);
    step();
    umbo::apply_options now;
    now.flush = true;
    bool thrown = false;
    try {
        sgd.apply(gradients, now);
    } catch (std::int64_t step) {
        thrown = step == 1;
    }
    CHECK(thrown && number_of(weight) == before - 0.25f && sgd.info().iterations == 1);
    CHECK(ftrl.apply(gradients, now).applied && number_of(weight) == 0);
}

// Rows that replicas add, filled through views or copied from indexed slices.
void rows(const umbo::strategy &strategy, const umbo::variable &weight) {
    const auto table = strategy.create_variable(
        "table", umbo::tensor::from_vector(std::vector<float>{0, 0, 0, 0}));
    const auto gradients =
        umbo::gradients::create(strategy, {weight, table}, umbo::loss_reduction::sum, {1, {false, true}});
    const auto slices = umbo::value::create_indexed_slices(
        umbo::tensor::from_vector(std::vector<float>{9}),
        umbo::tensor::from_vector(std::vector<std::int64_t>{2}), {4});
    umbo::sgd_options options;
    options.learning_rate = 1;
    const auto sgd = umbo::optimizer::sgd(strategy, options);
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        const auto added = context.add_rows<float>(gradients, 1, 2);
        added.indices[0] = added.indices[1] = 1;
        added.values[0] = 1;
        added.values[1] = 2;
        context.add_rows(gradients, 1, slices);
        context.submit(gradients, 1);
    });
    CHECK(sgd.apply(gradients).updated_count == 1);
    CHECK((table.read().to_vector<float>() == std::vector<float>{0, -3, -9, 0}));
    bool refused = false;
    try {
        umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum, {1, {false, true}});
    } catch (const umbo::error &wrong) {
        refused = wrong.status() == umbo::status::invalid_argument;
    }
    CHECK(refused);
}

// Gradients in a type that C++17 has no name for, of a whole variable and of rows.
void low_precision(const umbo::strategy &strategy) {
    const auto weight = strategy.create_variable("half", umbo::tensor::scalar(10.0f));
    const auto table = strategy.create_variable(
        "half_table", umbo::tensor::from_vector(std::vector<float>{0, 0, 0}));
    const auto gradients = umbo::gradients::create(strategy, {weight, table}, umbo::loss_reduction::sum, {1,
                                                   {false, true}, umbo::dtype::bfloat16});
    umbo::sgd_options options;
    options.learning_rate = 1;
    const auto sgd = umbo::optimizer::sgd(strategy, options);
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        const std::uint16_t one_and_a_half = 0x3fc0;
        const umbo_view gradient = context.gradient(gradients, 0, umbo::gradient_mode::overwrite);
        CHECK(gradient.dtype == UMBO_DTYPE_BFLOAT16);
        *static_cast<std::uint16_t *>(gradient.mutable_data) = one_and_a_half;
        const auto added = context.add_rows(gradients, 1, 1);
        CHECK(added.values.dtype == UMBO_DTYPE_BFLOAT16);
        added.indices[0] = 2;
        *static_cast<std::uint16_t *>(added.values.mutable_data) = one_and_a_half;
        context.submit(gradients, 1);
    });
    CHECK(sgd.apply(gradients).updated_count == 2 && number_of(weight) == 8.5f);
    CHECK((table.read().to_vector<float>() == std::vector<float>{0, 0, -1.5f}));
}

void training(const umbo::strategy &strategy) {
    const auto weight =
        strategy.create_variable("w", umbo::dtype::float32, {}, [](const umbo_view &memory) {
            umbo::view_of<float>{memory}() = 0;
        });
    const auto data = umbo::value::create_struct(
        {{"x", umbo::tensor::from_vector(std::vector<float>{1, 2, 3, 4, 5})}});
    const auto batches = umbo::dataset::from_tensor_slices(data).batch(4);
    const auto gradients = umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum);
    umbo::sgd_options options;
    options.learning_rate = 1;
    const auto sgd = umbo::optimizer::sgd(strategy, options);
    const auto iterator = strategy.distribute_dataset(batches).iterate();
    while (const auto element = iterator.next()) {
        strategy.run(
            [&](umbo::replica_context &context, const umbo::value &batch) {
                const auto x = batch.view_as<const float>("x");
                const float w = context.read<float>(weight)();
                auto gradient = context.gradient<float>(gradients, 0, umbo::gradient_mode::add);
                for (const float each : x) gradient() += w - each;
                CHECK(context.info().local_example_count == x.shape(0));
                context.add_metric("rows", static_cast<double>(x.size()), 1);
                context.submit(gradients);
            },
            element);
        CHECK(sgd.apply(gradients).applied);
    }
    CHECK(number_of(weight) == 5); // the mean of the last batch: rate 1 goes there at once
    CHECK(strategy.metric_result("rows").sum == 1 && sgd.info().iterations == 2 && sgd.info().learning_rate == 1);
    sgd.set_learning_rate(0.5);
    CHECK(sgd.info().learning_rate == 0.5);

    umbo::momentum_options with_momentum;
    with_momentum.nesterov = true;
    const auto momentum = umbo::optimizer::momentum(strategy, with_momentum);
    const auto adam = umbo::optimizer::adam(strategy);
    CHECK(adam.info().rule == "adam" && adam.setting("beta1") == 0.9 && momentum.setting("nesterov") == 1);
    CHECK(adam.setting("weight_decay") == 0 && adam.setting("non_finite") == static_cast<double>(UMBO_NON_FINITE_IGNORE));
    CHECK(adam.setting(weight, "learning_rate_factor") == 1 && adam.setting(weight, "frozen") == 0);
    const auto whole = gradients.info(), first = gradients.info(0);
    CHECK(whole.variable_count == 1 && gradients.variable(0).name() == weight.name());
    CHECK(whole.loss_reduction == umbo::loss_reduction::sum && whole.accumulation_steps == 1);
    CHECK(!first.row_sparse && first.dtype == umbo::dtype::float32 && whole.dtype == umbo::dtype::none);
    umbo::strategy_options strictly;
    strictly.strict = true;
    CHECK(!strategy.strict() && umbo::strategy::create(strictly).strict());
    CHECK(strategy.bind_threads() && strategy.thread_stack_bytes() >= (std::size_t{2} << 20));
    for (const auto &optimizer : {momentum, adam}) {
        strategy.run([&](umbo::replica_context &context, const umbo::value &) {
            context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = 1;
            context.submit(gradients, 1);
        });
        CHECK(optimizer.apply(gradients).total_weight == 3);
    }
    for (const auto &optimizer :
         {umbo::optimizer::adamw(strategy), umbo::optimizer::nadam(strategy),
          umbo::optimizer::radam(strategy), umbo::optimizer::lion(strategy),
          umbo::optimizer::lars(strategy),
          umbo::optimizer::lamb(strategy),
          umbo::optimizer::adafactor(strategy),
          umbo::optimizer::adagrad(strategy), umbo::optimizer::rmsprop(strategy)}) {
        strategy.run([&](umbo::replica_context &context, const umbo::value &) {
            context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = 1;
            context.submit(gradients, 1);
        });
        const float before = number_of(weight);
        CHECK(optimizer.apply(gradients).applied && number_of(weight) < before);
    }
    const std::vector<float> halves(4, 0.5f);
    const auto matrix = strategy.create_variable("matrix", umbo::tensor::from_data({2, 2}, halves));
    const auto of_matrix = umbo::gradients::create(strategy, {matrix}, umbo::loss_reduction::sum);
    const auto muon = umbo::optimizer::muon(strategy);
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        context.gradient<float>(of_matrix, 0, umbo::gradient_mode::add)(1, 0) = 1;
        context.submit(of_matrix, 1);
    });
    CHECK(muon.apply(of_matrix).applied && muon.info().rule == "muon");
    CHECK(matrix.read().to_vector<float>()[2] < 0.5f);
    umbo::custom_rule_options of_own;
    of_own.learning_rate = 0.5;
    of_own.state_names = {"seen"};
    const auto own = umbo::optimizer::custom(
        strategy, of_own, [](const umbo_update_tile &tile) noexcept {
            static_cast<float *>(tile.states[0])[0] += 1;
            static_cast<float *>(tile.weights)[0] -=
                static_cast<float>(tile.learning_rate) * static_cast<const float *>(tile.gradient)[0];
        });
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = 4;
        context.submit(gradients, 1);
    });
    const float reduced = number_of(gradients.reduced(0, own)), earlier = number_of(weight);
    CHECK(reduced == 4 && own.apply(gradients).applied);
    CHECK(number_of(weight) == earlier - 0.5f * reduced && own.info().rule == "custom");
    CHECK(own.read_state(weight, "seen").to_vector<float>()[0] == 1);
    // With what a GPU would do, if it held the variable.
    const auto on_both = umbo::optimizer::custom(
        strategy, of_own,
        [](const umbo_update_tile &tile) noexcept { static_cast<float *>(tile.weights)[0] -= 1; },
        [](const umbo_gpu_update &update) {
            throw std::runtime_error(update.stream ? "no kernel" : "no stream");
        });
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = 4;
        context.submit(gradients, 1);
    });
    const float last = number_of(weight);
    CHECK(on_both.apply(gradients).applied && number_of(weight) == last - 1);

    settings(strategy, weight);
    rows(strategy, weight);
    low_precision(strategy);
    CHECK(momentum.read_state(weight, "momentum").view().ndim == 0);
    CHECK(adam.read_state(weight, "m").view().ndim == 0);
    CHECK(number_of(weight) < 5);
    strategy.synchronize();
}

void nothing(umbo::replica_context &, const umbo::value &) {}

// An epoch with every kind of metric, and one that a callable's exception ends.
void an_epoch(const umbo::strategy &strategy) {
    const auto weight = strategy.create_variable("w", umbo::tensor::scalar(1.0f));
    const auto gradients = umbo::gradients::create(strategy, {weight}, umbo::loss_reduction::sum);
    const auto metrics = umbo::metrics::create(strategy);
    umbo::metric_options three;
    three.class_count = 3;
    metrics.define("loss", umbo::metric_kind::mean);
    metrics.define("matrix", umbo::metric_kind::confusion, three);
    metrics.define("auc", umbo::metric_kind::auc);
    CHECK(metrics.names() == (std::vector<std::string>{"loss", "matrix", "auc"}));
    CHECK(metrics.result("matrix").kind == umbo::metric_kind::confusion);

    const auto labels = umbo::dataset::from_tensor_slices(
        umbo::tensor::from_vector(std::vector<std::int64_t>{0, 1, 2, 1, 0, 2, 2}));
    const auto elements = strategy.distribute_dataset(labels.batch(4)).iterate();
    const auto zero = umbo::tensor::from_vector(std::vector<std::int64_t>{0});
    const auto one = umbo::tensor::from_vector(std::vector<std::int64_t>{1});
    const auto scores = umbo::tensor::from_vector(std::vector<float>{0.25f, 0.75f});
    const auto sides = umbo::tensor::from_vector(std::vector<std::int64_t>{0, 1});
    const auto step = [&](umbo::replica_context &context, const umbo::value &args) {
        const auto part = args.view();
        metrics.add(context, "loss", 2.0 * static_cast<double>(part.shape[0]),
                    static_cast<double>(part.shape[0]));
        metrics.add_labels(context, "matrix", part, part);
        metrics.add_labels(context, "matrix", zero.view(), one.view());
        metrics.add_labels(context, "auc", scores.view(), sides.view());
        context.add_metric("rows", static_cast<double>(part.shape[0]), 1);
        context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite)() = 1;
        context.submit(gradients);
    };
    umbo::train_epoch_options options;
    const auto optimizer = umbo::optimizer::sgd(strategy);
    options.metrics = metrics;
    int told = 0;
    options.progress = [&](const umbo::progress &progress) {
        CHECK(progress.step_count == ++told && progress.last_apply != nullptr && progress.last_apply->applied);
        CHECK(strategy.metric_result("rows").weight == 3); // of the last step
    };
    const auto report = umbo::train_epoch(strategy, elements, optimizer, gradients, step, options);
    CHECK(report.step_count == 2 && report.example_count == 7 && report.update_count == 2 && told == 2);
    CHECK(report.pass_ended && report.skipped_count == 0);
    CHECK(strategy.metric_result("rows").sum == 7 && strategy.metric_result("rows").weight == 6); // of the epoch
    CHECK(metrics.result("loss").mean == 2 && metrics.result("auc").mean == 1);
    // Three replicas in two steps each said 0 for 1.
    CHECK(metrics.class_result("matrix", 0).false_positives == 6);
    CHECK(metrics.cells("matrix") == (std::vector<double>{2, 0, 0, 6, 2, 0, 0, 0, 3}));

    const float before = number_of(weight);
    options.progress = [](const umbo::progress &) { throw 42; };
    bool caught = false;
    try {
        umbo::train_epoch(strategy, elements, optimizer, gradients, step, options);
    } catch (int thrown) {
        caught = thrown == 42;
    }
    CHECK(caught && number_of(weight) < before);
    elements.reset();

    CHECK(umbo::train_epoch(strategy, elements, {}, {}, nothing).step_count == 2);
    metrics.reset();
    CHECK(metrics.result("loss").weight == 0);
}

} // namespace

int main() {
    {
        umbo::strategy_options options;
        options.cpu_replicas = 3;
        options.parameter_device = "CPU:0";
        const auto strategy = umbo::strategy::create(options);
        CHECK(strategy.replica_count() == 3);
        CHECK(!strategy.compute_device(2).empty() && !strategy.parameter_device().empty());
        callables(strategy);
        training(strategy);
        an_epoch(strategy);
    }
    return finish();
}

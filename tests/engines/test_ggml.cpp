// ggml under Umbo: training there agrees with ggml_opt, and does not depend on replicas.
#include <umbo/adapters/ggml.hpp>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../c/check.h"
#include "compared.hpp"
#include "ggml_alone.hpp"
#include "ggml_rule.hpp"

namespace {

using ggml_alone::perceptron;
using ggml_alone::settings;
using umbo::adapters::ggml_loop;
using umbo::adapters::ggml_loop_options;
using umbo::adapters::ggml_model;
using umbo::adapters::ggml_options;
using umbo::adapters::ggml_result;

constexpr std::int64_t batch = 12, batches = 13;

ggml_opt_optimizer_params common_params() {
    ggml_opt_optimizer_params how{};
    how.adamw = {0.01f, 0.9f, 0.999f, 1e-8f, 0.05f};
    how.sgd = {0.05f, 0.01f};
    return how;
}

struct examples {
    settings how;
    std::int64_t rows;
    ggml_opt_dataset_t dataset;

    explicit examples(const settings &of = {}, std::int64_t count = batch * batches)
        : how(of), rows(count),
          dataset(ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, of.of.inputs, of.of.classes, count, 1)) {
        std::uint32_t state = 7;
        for (std::int64_t row = 0; row < rows; ++row) {
            float sum = 0;
            for (std::int64_t column = 0; column < how.of.inputs; ++column) {
                state = state * 1664525u + 1013904223u;
                const float number = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
                x(row)[column] = number;
                sum += number * static_cast<float>(column % 3);
            }
            for (std::int64_t label = 0; label < how.of.classes; ++label) y(row)[label] = 0;
            y(row)[static_cast<std::int64_t>(std::floor(std::fabs(sum) * 1.5f)) % how.of.classes] = 1;
        }
    }
    ~examples() { ggml_opt_dataset_free(dataset); }
    examples(const examples &) = delete;
    examples &operator=(const examples &) = delete;

    float *x(std::int64_t row) const { return ggml_get_data_f32(ggml_opt_dataset_data(dataset)) + row * how.of.inputs; }
    float *y(std::int64_t row) const { return ggml_get_data_f32(ggml_opt_dataset_labels(dataset)) + row * how.of.classes; }
    umbo::dataset of_umbo() const { return umbo::adapters::rows_of(dataset); }
};

ggml_options options_of(const settings &how) {
    ggml_options made;
    made.datapoint_size = how.of.inputs;
    made.loss_type = how.loss;
    return made;
}

std::unique_ptr<ggml_model<perceptron>> model_on(const umbo::strategy &strategy, const settings &how = {}) {
    return std::make_unique<ggml_model<perceptron>>(strategy, options_of(how), [of = how.of](ggml_context *ctx) { return perceptron(ctx, of); },
                                                    [=](perceptron &net) { net.draw(how.spread); });
}

std::vector<float> alone(const examples &all, std::int64_t epochs) {
    ggml_alone::training training(all.how);
    for (std::int64_t step = 0; step < epochs * batches; ++step) {
        const std::int64_t first = step % batches * batch;
        training.step(all.x(first), all.y(first));
    }
    return training.net.numbers();
}

std::vector<float> under_umbo(const umbo::strategy &strategy, const examples &all, std::int64_t epochs, std::int64_t batch_size = batch) {
    const auto model = model_on(strategy, all.how);
    settings how = all.how;
    ggml_loop_options with;
    with.batch_size = batch_size;
    with.shuffle = false;
    with.optimizer = how.optimizer;
    with.get_opt_pars = ggml_opt_get_constant_optimizer_params;
    with.get_opt_pars_ud = &how.params;
    ggml_loop<perceptron> loop(*model, all.of_umbo(), with);
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) CHECK(loop.epoch().first.ndata == all.rows);
    return model->central().numbers();
}

// With ggml's own formula one replica comes to the weights of ggml_opt, bit by bit: gradients are the same.
void bits_of_ggml() {
    settings how;
    how.params = common_params();
    const examples all(how);
    constexpr std::int64_t epochs = 36;
    const auto strategy = umbo::strategy::create_cpu(1);
    const auto model = model_on(strategy);
    const auto rule = ggml_rule::as_ggml_was_compiled(how.params).on(strategy);
    const auto pass = strategy.iterate(all.of_umbo().batch(batch));
    for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
        for (const umbo::value &each : pass) {
            model->train(each);
            rule.apply(model->gradients());
        }
    }
    CHECK(model->central().numbers() == alone(all, epochs));
}

void any_number_of_replicas() {
    settings how;
    how.params = common_params();
    for (const auto optimizer : {GGML_OPT_OPTIMIZER_TYPE_ADAMW, GGML_OPT_OPTIMIZER_TYPE_SGD}) {
        how.optimizer = optimizer;
        const examples all(how);
        const auto expected = alone(all, 6);
        for (const std::int64_t replicas : {1, 2, 3, 4, 5}) {
            CHECK(furthest(under_umbo(umbo::strategy::create_cpu(replicas), all, 6), expected) < 1e-4f);
        }
        // So many parts on any number of threads: the same bits.
        std::vector<float> of_one;
        for (const std::int64_t threads : {1, 2, 3, 4}) {
            umbo::strategy_options parts;
            parts.cpu_replicas = threads;
            parts.replicas_in_sync = 4;
            const auto found = under_umbo(umbo::strategy::create(parts), all, 6);
            if (of_one.empty()) of_one = found;
            CHECK(found == of_one && furthest(found, expected) < 1e-4f);
        }
    }
}

void losses_of_ggml() {
    for (const auto loss : {GGML_OPT_LOSS_TYPE_MEAN, GGML_OPT_LOSS_TYPE_SUM, GGML_OPT_LOSS_TYPE_CROSS_ENTROPY,
                            GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR}) {
        settings how;
        how.loss = loss;
        how.params = common_params();
        how.params.sgd.alpha = loss == GGML_OPT_LOSS_TYPE_SUM ? 1e-3f : 0.05f;
        how.optimizer = GGML_OPT_OPTIMIZER_TYPE_SGD;
        const examples all(how);
        const auto expected = alone(all, 2);
        for (const std::int64_t replicas : {1, 3}) {
            const float off = furthest(under_umbo(umbo::strategy::create_cpu(replicas), all, 2), expected);
            if (!(off < 1e-4f)) std::fprintf(stderr, "loss %d, %d replicas: %g\n", static_cast<int>(loss), static_cast<int>(replicas), static_cast<double>(off));
            CHECK(off < 1e-4f);
        }
    }
}

// Batches that do not divide: the last one is smaller than the number of replicas.
void uneven_and_empty_parts() {
    settings how;
    how.params = common_params();
    for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{13}}) {
        const examples few(how, rows);
        const auto expected = under_umbo(umbo::strategy::create_cpu(1), few, 3, 5);
        for (const std::int64_t replicas : {2, 4, 7}) {
            CHECK(furthest(under_umbo(umbo::strategy::create_cpu(replicas), few, 3, 5), expected) < 1e-4f);
        }
    }
    // More sizes of a part than graphs are kept of.
    const examples all(how);
    const auto strategy = umbo::strategy::create_cpu(1);
    const auto model = model_on(strategy);
    const auto sgd = umbo::optimizer::sgd(strategy);
    for (const std::int64_t rows : {1, 2, 3, 4, 5, 6, 1, 6}) {
        const auto x = umbo::value::from_data({rows, how.of.inputs}, all.x(0)), y = umbo::value::from_data({rows, how.of.classes}, all.y(0));
        CHECK(model->train(umbo::value::create_struct({{"data", x}, {"labels", y}})) > 0);
        CHECK(strategy.metric_result("loss").weight == static_cast<double>(rows));
        sgd.apply(model->gradients());
    }
}

// Losses, accuracies and metrics of the program are those of ggml_opt.
void evaluation_as_in_ggml() {
    settings how;
    how.params = common_params();
    const examples all(how);
    ggml_alone::training theirs(how);
    ggml_opt_result_t result = ggml_opt_result_init();
    for (std::int64_t first = 0; first < all.rows; first += batch) theirs.step(all.x(first), all.y(first), result, false);
    double loss = 0, accuracy = 0;
    ggml_opt_result_loss(result, &loss, nullptr);
    ggml_opt_result_accuracy(result, &accuracy, nullptr);
    ggml_opt_result_free(result);
    for (const std::int64_t replicas : {1, 2, 3}) {
        const auto strategy = umbo::strategy::create_cpu(replicas);
        const auto model = model_on(strategy);
        const auto before = model->central().numbers();
        ggml_loop_options with;
        with.idata_split = batch;
        with.batch_size = batch;
        with.get_opt_pars = ggml_opt_get_constant_optimizer_params;
        with.get_opt_pars_ud = &how.params;
        const auto pass = strategy.iterate(all.of_umbo().batch(all.rows));
        for (const umbo::value &whole : pass) {
            strategy.run(model->evaluation(), whole);
            CHECK(std::fabs(strategy.metric_result("loss").mean - loss) < 1e-5);
            CHECK(std::fabs(strategy.metric_result("accuracy").mean - accuracy) < 1e-9);
            strategy.run(model->evaluation("ones", [](const ggml_tensor *outputs, const ggml_tensor *labels) {
                float sum = 0;
                for (std::int64_t at = 0; at < ggml_nelements(labels); ++at) sum += ggml_get_data_f32(labels)[at];
                CHECK(ggml_are_same_shape(outputs, labels));
                return sum;
            }), whole);
            CHECK(strategy.metric_result("ones").mean == 1);
        }
        CHECK(model->central().numbers() == before);
        // An epoch trains on the first rows, and evaluates on the others.
        ggml_loop<perceptron> loop(*model, all.of_umbo(), with);
        int trained = 0, evaluated = 0;
        const auto found = loop.epoch([&](bool trains, const ggml_result &so_far, std::int64_t number, std::int64_t of, std::int64_t start) {
            int &count = trains ? trained : evaluated;
            CHECK(number == ++count && of == (trains ? 1 : batches - 1) && so_far.ndata == batch * count && start <= ggml_time_us());
        });
        CHECK(trained == 1 && evaluated == batches - 1);
        CHECK(found.first.ndata == batch && found.second.ndata == all.rows - batch);
        CHECK(found.second.loss > 0 && found.second.accuracy >= 0 && found.second.accuracy <= 1);
    }
}

// Each epoch has its own learning rate; only this may change.
ggml_opt_optimizer_params falling(void *epoch) {
    auto how = common_params();
    how.adamw.alpha = 0.01f / static_cast<float>(*static_cast<std::int64_t *>(epoch));
    return how;
}

void fits() {
    const examples all;
    std::vector<float> of_one;
    for (const std::int64_t replicas : {1, 2, 4}) {
        const auto strategy = umbo::strategy::create_cpu(replicas);
        const auto model = model_on(strategy);
        const auto first = umbo::adapters::ggml_fit(*model, all.dataset, GGML_OPT_OPTIMIZER_TYPE_ADAMW, falling, 1, 10, 0.25f, true);
        const auto last = umbo::adapters::ggml_fit(*model, all.dataset, GGML_OPT_OPTIMIZER_TYPE_ADAMW, falling, 20, 10, 0.25f, true);
        CHECK(first.first.ndata == 117 && first.second.ndata == 39);
        CHECK(last.first.loss < first.first.loss && last.first.accuracy > first.first.accuracy);
        const auto found = model->central().numbers();
        if (of_one.empty()) of_one = found;
        CHECK(furthest(found, of_one) < 1e-3f);
    }
    const auto model = model_on(umbo::strategy::create_cpu(1));
    std::int64_t epoch = 1;
    ggml_loop_options with;
    with.get_opt_pars = falling;
    with.get_opt_pars_ud = &epoch;
    ggml_loop<perceptron> loop(*model, all.of_umbo(), with);
    CHECK(std::fabs(loop.optimizer().info().learning_rate - 0.01) < 1e-6);
    epoch = 4;
    loop.epoch();
    CHECK(std::fabs(loop.optimizer().info().learning_rate - 0.0025) < 1e-6);
    settings how;
    how.params = common_params();
    with.get_opt_pars = ggml_opt_get_constant_optimizer_params;
    with.get_opt_pars_ud = &how.params;
    ggml_loop<perceptron> constant(*model, all.of_umbo(), with);
    how.params.adamw.wd = 0.5f;
    CHECK(is_refused(refusal_of([&] { constant.epoch(); }), umbo::status::unimplemented, "'adamw.wd' has changed"));
    CHECK(is_refused(refusal_of([&] { umbo::adapters::ggml_fit(*model, all.dataset, GGML_OPT_OPTIMIZER_TYPE_SGD, falling, 1, 8, 1.0f, true); }),
                     umbo::status::invalid_argument, "val_split"));
    CHECK(is_refused(refusal_of([&] { umbo::adapters::ggml_fit(*model, all.dataset, GGML_OPT_OPTIMIZER_TYPE_SGD, falling, 1, 0, 0, true); }),
                     umbo::status::invalid_argument, ""));
}

// The training goes its way while the number of replicas changes under it: within an epoch and at its end, with moments, orders,
// accumulated gradients, constants, an evaluation, and a restart.
void replicas_that_are_chosen() {
    settings how;
    how.params = common_params();
    const examples all(how);
    ggml_options options = options_of(how);
    options.accumulation_steps = 3;
    ggml_loop_options with;
    with.batch_size = batch;
    with.get_opt_pars = ggml_opt_get_constant_optimizer_params;
    with.get_opt_pars_ud = &how.params;
    const auto model_of = [&](std::int64_t replicas, std::int64_t in_sync) {
        return std::make_unique<ggml_model<perceptron>>(replicas, options, [of = how.of](ggml_context *ctx) { return perceptron(ctx, of); },
                                                        [=](perceptron &net) { net.draw(how.spread); }, in_sync);
    };
    const auto trained = [&](std::int64_t replicas, std::int64_t in_sync, bool restarts) {
        auto model = model_of(replicas, in_sync);
        auto loop = std::make_unique<ggml_loop<perceptron>>(*model, all.of_umbo(), with);
        double sum = 0;
        std::int64_t calls = 0;
        for (int epoch = 0; epoch < 20; ++epoch) {
            if (restarts && epoch == 9) {
                loop->save("ggml_chosen.umbo");
                loop.reset();
                model = model_of(replicas, in_sync);
                loop = std::make_unique<ggml_loop<perceptron>>(*model, all.of_umbo(), with);
                CHECK(loop->resume("ggml_chosen.umbo") == 9);
            }
            const auto results = loop->epoch([&](bool, const ggml_result &, std::int64_t, std::int64_t, std::int64_t) { ++calls; });
            CHECK(results.first.ndata == with.idata_split && results.second.ndata == all.rows - with.idata_split);
            sum += results.first.loss + results.second.loss;
        }
        const bool has_chosen = replicas == UMBO_AUTO && umbo::processor_count() > 1;
        CHECK((model->choice().find("a step takes") != std::string::npos) == has_chosen);
        CHECK(calls == 20 * ((with.idata_split + batch - 1) / batch + (all.rows - with.idata_split + batch - 1) / batch));
        CHECK(loop->checkpoint().integer("epochs") == 20);
        CHECK(loop->optimizer().variable_progress(model->parameters()[0]).update_count == 20 * with.idata_split / batch / 3);
        auto numbers = model->central().numbers();
        numbers.push_back(static_cast<float>(sum));
        return numbers;
    };
    for (const std::int64_t split : {batch * 8, batch * 9}) {
        with.idata_split = split;
        for (const bool restarts : {false, true}) {
            CHECK(furthest(trained(UMBO_AUTO, 0, restarts), trained(1, 0, false)) < 2e-4f);
            CHECK(trained(UMBO_AUTO, 4, restarts) == trained(1, 4, false));
        }
    }
    std::remove("ggml_chosen.umbo");
    // What is handed out stays, also for a second loop.
    for (const bool by_loop : {false, true}) {
        const auto model = model_of(UMBO_AUTO, 0);
        std::unique_ptr<ggml_loop<perceptron>> other;
        if (by_loop) other = std::make_unique<ggml_loop<perceptron>>(*model, all.of_umbo(), with);
        else CHECK(model->strategy().replica_count() == umbo::processor_count());
        ggml_loop<perceptron> loop(*model, all.of_umbo(), with);
        for (int epoch = 0; epoch < 8; ++epoch) loop.epoch();
        CHECK(model->choice().find("nothing was measured") != std::string::npos);
        CHECK(model->strategy().replica_count() == umbo::processor_count());
    }
    // A network that is another when it is made again cannot have another number of replicas, and trains with the one before.
    if (umbo::processor_count() == 1) return;
    std::int64_t made = 0;
    ggml_model<perceptron> unlike(UMBO_AUTO, options, [&made, of = how.of](ggml_context *ctx) {
        auto sizes = of;
        if (++made > umbo::processor_count()) sizes.inputs += 1;
        return perceptron(ctx, sizes);
    }, [=](perceptron &net) { net.draw(how.spread); });
    ggml_loop<perceptron> loop(unlike, all.of_umbo(), with);
    for (int epoch = 0; epoch < 8; ++epoch) CHECK(loop.epoch().first.ndata == with.idata_split);
    CHECK(unlike.choice().find("cannot be had: make: it gives other tensors") != std::string::npos);
    CHECK(unlike.strategy().replica_count() == umbo::processor_count());
}

// What is saved goes on as if it had not stopped.
void saved_and_restored() {
    settings how;
    how.params = common_params();
    const examples all(how);
    ggml_loop_options with;
    with.batch_size = 10;
    with.seed = 3;
    const auto strategy = umbo::strategy::create_cpu(2);
    const auto trained = [&](std::int64_t epochs, const char *path) {
        const auto model = model_on(strategy);
        ggml_loop<perceptron> loop(*model, all.of_umbo(), with);
        for (std::int64_t epoch = path == nullptr ? 0 : loop.resume(path); epoch < epochs; ++epoch) {
            loop.epoch();
            if (path != nullptr) loop.save(path);
        }
        return model->central().numbers();
    };
    std::remove("ggml.umbo");
    const auto straight = trained(4, nullptr);
    CHECK(trained(2, "ggml.umbo") != straight);
    CHECK(trained(4, "ggml.umbo") == straight);
    CHECK(trained(4, "ggml.umbo") == straight);

    // And in a file of ggml's.
    const auto model = model_on(strategy);
    umbo::adapters::ggml_fit(*model, all.dataset, GGML_OPT_OPTIMIZER_TYPE_ADAMW, ggml_opt_get_default_optimizer_params, 1, 10, 0, true);
    model->save("ggml.gguf");
    const auto other = model_on(umbo::strategy::create_cpu(3));
    CHECK(other->central().numbers() != model->central().numbers());
    other->load("ggml.gguf");
    CHECK(other->central().numbers() == model->central().numbers());
    settings wider;
    wider.of.hidden = 34;
    const auto unlike = model_on(strategy, wider);
    const auto before = unlike->central().numbers();
    CHECK(is_refused(refusal_of([&] { unlike->load("ggml.gguf"); }), umbo::status::invalid_argument, "'w1' with 20 x 33"));
    CHECK(is_refused(refusal_of([&] { unlike->load("nowhere.gguf"); }), umbo::status::not_found, "'nowhere.gguf'"));
    CHECK(is_refused(refusal_of([&] { unlike->save("no/such/folder.gguf"); }), umbo::status::unavailable, "'no/such/folder.gguf'"));
    CHECK(unlike->central().numbers() == before);
}

// A network with a constant, and a parameter that no loss uses.
struct unusual {
    ggml_tensor *scale, *w, *unused;
    explicit unusual(ggml_context *ctx)
        : scale(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 5)), w(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 20, 5)),
          unused(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 3)) {
        ggml_set_param(w);
        ggml_set_param(unused);
    }
    ggml_tensor *forward(ggml_context *ctx, ggml_tensor *inputs) const {
        return ggml_mul(ctx, ggml_mul_mat(ctx, ggml_reshape_2d(ctx, w, 20, 5), inputs), scale);
    }
};

void constants_and_unused_parameters() {
    const examples all;
    std::vector<float> of_one;
    for (const std::int64_t replicas : {1, 3}) {
        const auto strategy = umbo::strategy::create_cpu(replicas);
        ggml_options how;
        how.datapoint_size = 20;
        ggml_model<unusual> model(strategy, how, [](ggml_context *ctx) { return unusual(ctx); }, [](unusual &net) {
            for (int at = 0; at < 5; ++at) ggml_get_data_f32(net.scale)[at] = 1.0f + static_cast<float>(at);
            for (int at = 0; at < 3; ++at) ggml_get_data_f32(net.unused)[at] = 7;
        });
        CHECK(model.parameters().size() == 2 && model.parameters()[1].name().find("parameter1") == 0);
        CHECK((model.parameters()[0].shape() == umbo::dimensions{5, 20}));
        ggml_loop_options with;
        with.shuffle = false;
        with.get_opt_pars = [](void *) { return common_params(); };
        ggml_loop<unusual> loop(model, all.of_umbo(), with);
        const auto first = loop.epoch();
        CHECK(loop.epoch().first.loss < first.first.loss);
        for (int at = 0; at < 3; ++at) CHECK(ggml_get_data_f32(model.central().unused)[at] == 7.0f); // no decay either
        CHECK(ggml_get_data_f32(model.central().scale)[4] == 5.0f);
        const float *const w = ggml_get_data_f32(model.central().w);
        const std::vector<float> found(w, w + 100);
        if (of_one.empty()) of_one = found;
        CHECK(furthest(found, of_one) < 1e-4f);
    }
}

// Umbo's own check of a step agrees.
void checked() {
    const examples all;
    const auto strategy = umbo::strategy::create_cpu(3);
    const auto model = model_on(strategy);
    const auto pass = umbo::strategy::create_cpu(1).iterate(all.of_umbo().batch(all.rows));
    const auto x = umbo::value::from_data({all.rows, all.how.of.inputs}, all.x(0)), y = umbo::value::from_data({all.rows, all.how.of.classes}, all.y(0));
    const auto found = strategy.check_equivalence(model->step(), umbo::value::create_struct({{"data", x}, {"labels", y}}), model->gradients());
    if (!found.info().holds) std::fprintf(stderr, "%s\n", found.info().text.c_str());
    CHECK(found.info().holds);
}

#include "ggml_failures.hpp"

} // namespace

// The lines of docs/engines.md, around data that they do not say.
namespace page {

#include "ggml_network.inc"

static void draw(ggml_tensor *w) {
    for (std::int64_t at = 0; at < ggml_nelements(w); ++at) ggml_get_data_f32(w)[at] = static_cast<float>(at % 7 - 3) / 50;
}

static void fits() {
    settings wide;
    wide.of = {784, 1, 10};
    const examples all(wide, 70);
    const auto dataset = all.dataset;
#include "ggml_fit.inc"
    const float *const w = ggml_get_data_f32(model.central().w);
    CHECK(w[0] != -3.0f / 50 && std::isfinite(w[0]));
}

} // namespace page

// `gpus` as the first argument: the machine shows GPUs.
int main(int count, char **words) {
    if (count > 1 && std::string(words[1]) == "gpus") {
        gpus_are_refused();
        return finish();
    }
    page::fits();
    bits_of_ggml();
    any_number_of_replicas();
    losses_of_ggml();
    uneven_and_empty_parts();
    evaluation_as_in_ggml();
    fits();
    replicas_that_are_chosen();
    saved_and_restored();
    constants_and_unused_parameters();
    failing_callbacks();
    deadlines_stop_graphs();
    mistakes_are_named();
    checked();
    return finish();
}

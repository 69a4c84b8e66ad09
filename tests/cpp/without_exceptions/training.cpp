// A training program compiled without exceptions, with type information and without: every call that may
// fail returns a result.
#include <umbo/tensorflow.hpp>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "../../c/check.h"
#include "both.hpp"

#if defined(__cpp_exceptions)
#error "to be compiled with -fno-exceptions"
#endif

namespace {

template <class Result>
bool failed(const Result &call, umbo::status status, const char *words) {
    return !call && call.status() == status && call.error().status() == status &&
           std::string(call.error().what()).find(words) != std::string::npos;
}

// Fits w to the mean of the last batch; a function that fails hands its failure on.
umbo::result<float> train(const umbo::strategy &strategy) {
    const auto weight = strategy.create_variable("w", *umbo::tensor::scalar(0.0f));
    if (!weight) return weight.error();
    const auto gradients = umbo::gradients::create(strategy, {*weight}, umbo::loss_reduction::sum);
    if (!gradients) return gradients.error();
    const auto sgd = umbo::optimizer::sgd(strategy, {1.0});
    if (!sgd) return sgd.error();
    const auto data = umbo::value::create_struct(
        {{"x", *umbo::tensor::from_vector(std::vector<float>{1, 2, 3, 4, 5, 7})}});
    const auto batches = umbo::dataset::from_tensor_slices(*data)->batch(4);
    const auto iterator = strategy.distribute_dataset(*batches)->iterate();
    if (!iterator) return iterator.error();
    while (true) {
        const auto batch = iterator->next();
        if (!batch) return batch.error();
        if (!*batch) break;
        const auto step = strategy.run(
            [&](umbo::replica_context &context, const umbo::value &own) -> umbo::result<double> {
                const auto x = own.view_as<float>("x");
                if (!x) return x.error();
                const auto w = context.read<float>(*weight);
                const auto gradient = context.gradient<float>(*gradients, 0, umbo::gradient_mode::add);
                if (!w || !gradient) return (!w ? w.error() : gradient.error());
                double loss = 0;
                for (const float each : *x) {
                    (*gradient)() += (*w)() - each;
                    loss += 0.5 * ((*w)() - each) * ((*w)() - each);
                }
                const auto submitted = context.submit(*gradients);
                if (!submitted) return submitted.error();
                return loss;
            },
            *batch);
        if (!step) return step.error();
        const auto report = sgd->apply(*gradients);
        if (!report) return report.error();
    }
    const auto fitted = weight->read();
    if (!fitted) return fitted.error();
    const auto numbers = fitted->to_vector<float>();
    if (!numbers) return numbers.error();
    return numbers->front();
}

void failures(const umbo::strategy &strategy) {
    const auto number = *umbo::tensor::scalar(1.0f);
    CHECK(failed(number.view_as<double>(), umbo::status::invalid_argument, "float32"));
    CHECK(failed(number.reshape({2}), umbo::status::invalid_argument, "umbo_tensor_reshape"));
    CHECK(failed(umbo::dataset::zip({}, {"one"}), umbo::status::invalid_argument, "names"));
    // What a callable returns as its failure comes back with the replica that it is from.
    const auto step = strategy.run(
        [](umbo::replica_context &context, const umbo::value &) -> umbo::result<void> {
            if (*context.replica_id() != 1) return {};
            return umbo::error(umbo::status::data_loss, "no such file");
        });
    CHECK(failed(step, umbo::status::data_loss, "no such file"));
    CHECK(step.error().records().size() == 1 && step.error().records()[0].replica == 1);
    // A plain value, and nothing at all, are fine too.
    CHECK(*strategy
               .run([](umbo::replica_context &, const umbo::value &) { return std::tuple(1, 2.0); })
               ->kind() == umbo::value_kind::tuple);
    const umbo::value nothing = *strategy.run([](umbo::replica_context &, const umbo::value &) {});
    CHECK(!nothing);
    const auto scope = strategy.scope([](umbo::strategy &) -> umbo::result<void> {
        return umbo::error(umbo::status::aborted, "enough");
    });
    CHECK(failed(scope, umbo::status::aborted, "enough"));
}

void functions(const umbo::strategy &strategy) {
    const auto spec = *umbo::element_spec::create_tensor(umbo::dtype::int32, {});
    const auto generated = umbo::dataset::from_generator(spec, [] {
        return [next = 0]() mutable -> umbo::result<std::optional<umbo::value>> {
            if (next == 2) return umbo::error(umbo::status::unavailable, "gone");
            return std::optional<umbo::value>(umbo::to_value(next++));
        };
    });
    const auto doubled = generated->map([](const umbo::value &number) -> umbo::result<umbo::value> {
        const auto view = number.view_as<std::int32_t>();
        if (!view) return view.error();
        return umbo::to_value(2 * (*view)());
    });
    const auto iterator = *doubled->iterate();
    CHECK((*iterator.next()->view_as<std::int32_t>())() == 0);
    CHECK((*iterator.next()->view_as<std::int32_t>())() == 2);
    CHECK(failed(iterator.next(), umbo::status::unavailable, "gone"));
    const auto made = strategy.distribute_datasets_from_function(
        [](const umbo::input_context &) { return umbo::dataset::from_range(0, 4); });
    CHECK(made && *made->cardinality() == 2);
    const auto ready = strategy.create_variable(
        "v", umbo::dtype::float32, {2}, [](const umbo_view &memory) -> umbo::result<void> {
            auto view = umbo::view_of<float>::of(memory);
            if (!view) return view.error();
            for (float &each : *view) each = 3;
            return {};
        });
    CHECK(ready && ready->assign_add(*umbo::tensor::from_vector(std::vector<float>{1, 2})));
    CHECK((*ready->view_as<float>())[1] == 5);
    CHECK(ready->upload(std::vector<float>{7, 8}) && (*ready->view_as<float>())[1] == 8);
    CHECK(failed(ready->upload(std::vector<double>{7, 8}), umbo::status::invalid_argument, "float32"));
    CHECK(*(*umbo::value::scalar(1.0f)).item_count() == 1);
    CHECK(umbo::tensorflow::copy(*ready) && umbo::set_log_callback(umbo::log_level::error, [](umbo::log_level, const char *) {}));
}

// Callables that can only be moved, and failures of those in options.
void callables(const umbo::strategy &strategy) {
    auto step = [own = std::make_unique<int>(7)](umbo::replica_context &, const umbo::value &) { CHECK(*own == 7); };
    umbo::run_options limits;
    limits.timeout_seconds = 3600;
    CHECK(strategy.run(step));
    CHECK(failed(strategy.run(step, {}, limits), umbo::status::invalid_argument, "std::move(callable)"));
    const auto batches = *strategy.distribute_dataset(*umbo::dataset::from_range(0, 4)->batch(2))->iterate();
    umbo::train_epoch_options how;
    how.progress = [own = std::make_unique<int>(1)](const umbo::progress &progress) -> umbo::result<void> {
        if (progress.step_count > *own) return umbo::error(umbo::status::aborted, "enough");
        return {};
    };
    CHECK(failed(umbo::train_epoch(strategy, batches, {}, {}, step, how), umbo::status::aborted, "enough"));
    CHECK(strategy.run(std::move(step), {}, limits));

    const auto checkpoint = *umbo::checkpoint::create(strategy);
    CHECK(checkpoint.add(*strategy.create_variable("w", *umbo::tensor::scalar(0.0f))));
    umbo::load_weights_options names;
    names.map_name = [](const std::string &) -> umbo::result<std::string> {
        return umbo::error(umbo::status::data_loss, "no such name");
    };
    const auto saved = *checkpoint.save_weights_to_memory();
    CHECK(failed(checkpoint.load_weights_from_memory(saved, names), umbo::status::data_loss, "no such name"));
    names.map_name = [](const std::string &tensor) { return tensor; };
    CHECK(checkpoint.load_weights_from_memory(saved, names)->loaded.size() == 1);
}

// Arrays and short forms, which return results, too.
void arrays(const umbo::strategy &strategy) {
    const std::vector<float> three{1, 2, 3};
    const auto variable = *strategy.create_variable("a", umbo::dtype::float32, {3}, umbo::initial::zeros);
    CHECK(variable.upload(three) && variable.assign_add(umbo::value(*umbo::tensor::from_vector({1.0f, 1.0f, 1.0f}))));
    float out[3];
    CHECK(variable.download(out) && out[2] == 4);
    const auto half = *(*umbo::tensor::from_vector(three)).slice(0, 0, 3, 2);
    const auto strided = *half.view_as<float>();
    CHECK(failed(variable.upload(strided), umbo::status::failed_precondition, "not contiguous"));
    CHECK(failed(umbo::view_of_memory({2}, three), umbo::status::invalid_argument, "3 elements"));
    const auto rows = *umbo::dataset::from_arrays({umbo::view_of_memory(three)});
    const auto batches = *strategy.iterate(*rows.batch(2));
    const auto step = [](umbo::replica_context &, const umbo::value &) { return 1; };
    for (int epoch = 0; epoch < 2; ++epoch) CHECK(umbo::evaluate(strategy, batches, step)->step_count == 2);
    CHECK(failed(umbo::strategy::create_cpu(-2), umbo::status::invalid_argument, "cpu_replicas"));
    CHECK((*umbo::value(2.5f).view_as<float>())() == 2.5f && umbo::value::scalar(1ll));
    std::vector<float> weights(2);
    const auto trainer = *umbo::trainer::create({umbo::parameters(weights)});
    CHECK(*trainer.epoch(4, 2, [](const umbo::rows &rows) { return static_cast<double>(rows.size()); }) == 1);
    CHECK(failed(trainer.step(0, 2, [](const umbo::rows &) -> umbo::result<double> { return umbo::error(umbo::status::aborted, "enough"); }),
                 umbo::status::aborted, "enough"));
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create({{}, 2});
        CHECK(strategy && strategy.status() == umbo::status::ok);
        const auto fitted = train(*strategy);
        CHECK(fitted && *fitted == 6);
        failures(*strategy);
        functions(*strategy);
        callables(*strategy);
        arrays(*strategy);
        CHECK(sum_with_exceptions() == 3);
    }
    return finish();
}

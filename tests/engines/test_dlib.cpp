// dlib under Umbo: training there agrees with dlib::dnn_trainer, and does not depend on replicas.
#include <umbo/adapters/dlib.hpp>

#include <cmath>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../c/check.h"
#include "compared.hpp"

namespace {

using umbo::adapters::dlib_model;
using umbo::adapters::dlib_trainer;

using sample = dlib::matrix<float>;
using net_type = dlib::loss_multiclass_log<dlib::fc<4, dlib::relu<dlib::fc<16, dlib::input<sample>>>>>;

constexpr std::int64_t inputs = 9, batch = 10;

struct examples {
    std::vector<sample> x;
    std::vector<unsigned long> y;

    explicit examples(std::int64_t rows = 80) {
        std::uint32_t state = 11;
        for (std::int64_t row = 0; row < rows; ++row) {
            sample made(inputs, 1);
            float sum = 0;
            for (std::int64_t column = 0; column < inputs; ++column) {
                state = state * 1664525u + 1013904223u;
                made(column) = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
                sum += made(column) * static_cast<float>(column % 4);
            }
            x.push_back(made);
            y.push_back(static_cast<unsigned long>(std::floor(std::fabs(sum))) % 4);
        }
    }

    std::int64_t size() const { return static_cast<std::int64_t>(x.size()); }
    // The samples and labels of the batch of a step.
    std::pair<std::vector<sample>, std::vector<unsigned long>> of_step(std::int64_t step) const {
        const std::int64_t first = step * batch % size();
        return {{x.begin() + first, x.begin() + first + batch}, {y.begin() + first, y.begin() + first + batch}};
    }
};

// A net that is the same each time that it is made, with its parameters.
template <class Net>
Net made(const sample &first) {
    Net net;
    dlib::resizable_tensor seen;
    net.to_tensor(&first, &first + 1, seen);
    net.forward(seen);
    std::uint32_t state = 5;
    for (dlib::tensor *each : umbo::adapters::dlib_detail::parameters_of(net)) {
        if (each->size() == 0) continue;
        float *const numbers = each->host();
        for (std::size_t at = 0; at < each->size(); ++at) {
            state = state * 1664525u + 1013904223u;
            numbers[at] = static_cast<float>(state >> 8) / 16777216.0f - 0.5f;
        }
    }
    return net;
}

template <class Net>
std::vector<float> numbers_of(Net net) {
    std::vector<float> all;
    for (const dlib::tensor *each : umbo::adapters::dlib_detail::parameters_of(net)) {
        if (each->size() != 0) all.insert(all.end(), each->host(), each->host() + each->size());
    }
    return all;
}

// So many steps of dlib's own trainer.
template <class Net, class Solver>
std::vector<float> alone(Net net, const examples &all, const Solver &solver, double rate, std::int64_t steps) {
    dlib::dnn_trainer<Net, Solver> trainer(net, solver);
    trainer.set_learning_rate(rate);
    for (std::int64_t step = 0; step < steps; ++step) {
        const auto rows = all.of_step(step);
        trainer.train_one_step(rows.first, rows.second);
    }
    trainer.get_net();
    return numbers_of(net);
}

template <class Net, class Solver>
std::vector<float> under_umbo(const umbo::strategy &strategy, const Net &net, const examples &all, const Solver &solver, double rate,
                              std::int64_t steps) {
    dlib_trainer<Net> trainer(strategy, net, all.x.front(), solver);
    trainer.set_learning_rate(rate);
    for (std::int64_t step = 0; step < steps; ++step) {
        const auto rows = all.of_step(step);
        trainer.train_one_step(rows.first, rows.second);
    }
    CHECK(trainer.get_train_one_step_calls() == steps);
    return numbers_of(trainer.get_net());
}

template <class Solver>
void as_in_dlib(const Solver &solver, double rate) {
    const examples all;
    const auto net = made<net_type>(all.x.front());
    const auto expected = alone(net, all, solver, rate, 48);
    for (const std::int64_t replicas : {1, 2, 3, 4}) {
        CHECK(furthest(under_umbo(umbo::strategy::create_cpu(replicas), net, all, solver, rate, 48), expected) < 2e-5f);
    }
    // So many parts on any number of threads: the same bits.
    std::vector<float> of_one;
    for (const std::int64_t threads : {1, 2, 3, 4}) {
        umbo::strategy_options parts;
        parts.cpu_replicas = threads;
        parts.replicas_in_sync = 4;
        const auto found = under_umbo(umbo::strategy::create(parts), net, all, solver, rate, 48);
        if (of_one.empty()) of_one = found;
        CHECK(found == of_one && furthest(found, expected) < 2e-5f);
    }
}

// Layers of each kind that dlib's rules treat in a way of its own.
template <class Below>
using classified = dlib::loss_multiclass_log<dlib::fc<4, dlib::relu<dlib::fc_no_bias<6, dlib::relu<Below>>>>>;
template <class Below>
using convolved = dlib::cont<3, 2, 2, 1, 1, dlib::relu<dlib::con<2, 3, 3, 1, 1, Below>>>;
using convolutions = classified<convolved<dlib::input<sample>>>;
using normalised = classified<dlib::bn_con<convolved<dlib::input<sample>>>>;

// With multiples of the learning rate and of the decay; the first convolution, which comes last, is not trained.
template <class Net, class Solver>
void multiples_of_layers(const Solver &solver, double rate) {
    examples all;
    for (sample &each : all.x) each = dlib::reshape(each, 3, 3);
    auto net = made<Net>(all.x.front());
    dlib::layer<1>(net).layer_details().set_bias_learning_rate_multiplier(3);
    dlib::layer<1>(net).layer_details().set_bias_weight_decay_multiplier(0.5);
    dlib::layer<3>(net).layer_details().set_learning_rate_multiplier(2);
    dlib::layer<Net::num_layers - 2>(net).layer_details().set_learning_rate_multiplier(0);
    const auto before = numbers_of(net), expected = alone(net, all, solver, rate, 20);
    const auto found = under_umbo(umbo::strategy::create_cpu(1), net, all, solver, rate, 20);
    CHECK(furthest(found, expected) < 5e-5f);
    CHECK(std::vector<float>(found.end() - 20, found.end()) == std::vector<float>(before.end() - 20, before.end()));
    CHECK(furthest(found, before) > 1e-2f);
}

// Batches that do not divide: parts may be empty, and there may be one sample.
void uneven_and_empty_parts() {
    for (const std::int64_t rows : {1, 13}) {
        const examples few(rows);
        const auto net = made<net_type>(few.x.front());
        std::vector<float> of_one;
        for (const std::int64_t replicas : {1, 2, 4, 6}) {
            dlib_trainer<net_type> trainer(umbo::strategy::create_cpu(replicas), net, few.x.front());
            trainer.set_mini_batch_size(5);
            trainer.set_max_num_epochs(3);
            trainer.train(few.x, few.y);
            CHECK(trainer.get_train_one_step_calls() == (rows + 4) / 5 * 3);
            const auto found = numbers_of(trainer.get_net());
            if (of_one.empty()) of_one = found;
            CHECK(furthest(found, of_one) < 1e-5f);
        }
    }
}

// Rows in the order of a dataset, evaluation, and metrics of the program.
void rows_of_a_dataset() {
    const examples all;
    std::vector<float> of_one;
    for (const std::int64_t replicas : {1, 3}) {
        const auto strategy = umbo::strategy::create_cpu(replicas);
        dlib_model<net_type> model(strategy, made<net_type>(all.x.front()), all.x.front());
        const auto adam = model.optimizer_of(dlib::adam(), 0.01);
        const auto rows = strategy.iterate(umbo::dataset::from_range(0, all.size()).shuffle().batch(7));
        const auto whole = strategy.split(model.rows_of(0, all.size()));
        const auto loss_of_all = [&] {
            strategy.run(model.evaluation(all.x, all.y), whole);
            CHECK(strategy.metric_result("loss").weight == static_cast<double>(all.size()));
            return strategy.metric_result("loss").mean;
        };
        const double before = loss_of_all();
        for (int epoch = 0; epoch < 4; ++epoch) {
            for (const umbo::value &numbers : rows) {
                CHECK(model.train(all.x, all.y, numbers) > 0);
                adam.apply(model.gradients());
            }
        }
        CHECK(loss_of_all() < before);
        net_type net = model.net();
        CHECK(std::fabs(net.compute_loss(all.x.begin(), all.x.end(), all.y.begin()) - loss_of_all()) < 1e-5);
        const auto right = [](net_type &own, const std::vector<sample> &samples, const std::vector<unsigned long> &labels) {
            const auto found = own(samples);
            double sum = 0;
            for (std::size_t row = 0; row < found.size(); ++row) sum += found[row] == labels[row] ? 1 : 0;
            return sum;
        };
        strategy.run(model.evaluation("right", all.x, all.y, right), whole);
        CHECK(strategy.metric_result("right").sum == right(net, all.x, all.y));
        const auto found = numbers_of(net);
        if (of_one.empty()) of_one = found;
        CHECK(furthest(found, of_one) < 1e-5f);
    }
    const auto strategy = umbo::strategy::create_cpu(3);
    dlib_model<net_type> model(strategy, made<net_type>(all.x.front()), all.x.front());
    const auto checked = strategy.check_equivalence(model.step(all.x, all.y), model.rows_of(0, all.size()), model.gradients());
    if (!checked.info().holds) std::fprintf(stderr, "%s\n", checked.info().text.c_str());
    CHECK(checked.info().holds);
}

// The learning rate shrinks when the loss stops falling, and ends the training.
void rates_that_shrink() {
    examples noise;
    for (std::size_t row = 0; row < noise.y.size(); ++row) noise.y[row] = row / 2 % 4;
    dlib_trainer<net_type> trainer(umbo::strategy::create_cpu(2), made<net_type>(noise.x.front()), noise.x.front());
    trainer.set_iterations_without_progress_threshold(30);
    trainer.set_mini_batch_size(16);
    trainer.set_min_learning_rate(1e-4);
    trainer.train(noise.x, noise.y);
    CHECK(trainer.get_learning_rate() < 1e-4 && trainer.get_train_one_step_calls() >= 60);
    CHECK(std::fabs(trainer.optimizer().info().learning_rate - trainer.get_learning_rate()) < 1e-12);
    CHECK(trainer.get_average_loss() > 0);
    const auto ended = trainer.get_train_one_step_calls();
    trainer.train(noise.x, noise.y);
    CHECK(trainer.get_train_one_step_calls() == ended);
    trainer.set_learning_rate(0.01);
    CHECK(trainer.get_learning_rate() == 0.01 && trainer.test_one_step(noise.x, noise.y) > 0);
}

// What is saved resumes as if it had not stopped; nets are files of dlib's.
void saved_and_restored() {
    const examples all;
    const auto strategy = umbo::strategy::create_cpu(2);
    const auto trained = [&](std::int64_t epochs, const char *path) {
        dlib_trainer<net_type> trainer(strategy, made<net_type>(all.x.front()), all.x.front(), dlib::adam());
        trainer.set_mini_batch_size(batch);
        trainer.set_max_num_epochs(epochs);
        if (path != nullptr) trainer.set_synchronization_file(path, std::chrono::seconds(0));
        trainer.train(all.x, all.y);
        CHECK(trainer.get_train_one_step_calls() == epochs * all.size() / batch);
        return numbers_of(trainer.get_net());
    };
    std::remove("dlib.umbo");
    const auto straight = trained(4, nullptr);
    CHECK(trained(2, "dlib.umbo") != straight);
    CHECK(trained(4, "dlib.umbo") == straight);
    CHECK(trained(4, "dlib.umbo") == straight);
    // In the middle of an epoch.
    dlib_trainer<net_type> first(strategy, made<net_type>(all.x.front()), all.x.front(), dlib::adam());
    first.set_mini_batch_size(batch);
    first.set_max_num_epochs(4);
    const std::vector<sample> short_x(all.x.begin(), all.x.begin() + 35);
    CHECK(is_refused(refusal_of([&] { first.train(short_x, all.y); }), umbo::status::invalid_argument, "35 and 80 labels"));
    first.train(all.x, all.y);
    first.save("dlib.one");
    dlib_trainer<net_type> second(umbo::strategy::create_cpu(3), made<net_type>(all.x.front()), all.x.front(), dlib::adam());
    second.restore("dlib.one");
    CHECK(numbers_of(second.get_net()) == straight);

    dlib::serialize("dlib.net") << second.get_net();
    net_type net;
    dlib::deserialize("dlib.net") >> net;
    dlib_trainer<net_type> third(strategy, net, all.x.front());
    CHECK(numbers_of(third.get_net()) == straight);
}

// What dlib or the program throws in a step fails it and nothing else, and names the replica.
void failures() {
    using umbo::status;
    const examples all;
    const auto strategy = umbo::strategy::create_cpu(2);
    dlib_model<net_type> model(strategy, made<net_type>(all.x.front()), all.x.front());
    const auto before = numbers_of(model.net());
    const auto whole = strategy.split(model.rows_of(0, 8));
    const auto measured = [&](auto failing) {
        return refusal_of([&] { strategy.run(model.evaluation("none", all.x, all.y, failing), whole); });
    };
    CHECK(is_refused(measured([](net_type &, const auto &samples, const auto &) -> double {
        if (samples.size() == 4) throw dlib::error("as planned");
        return 0;
    }), status::unknown, "replica 0 (CPU:0): UNKNOWN: dlib: as planned"));
    bool thrown = false;
    try {
        strategy.run(model.evaluation("none", all.x, all.y, [](net_type &, const auto &, const auto &) -> double {
            throw std::runtime_error("enough");
        }), whole);
    } catch (const std::runtime_error &failed) {
        thrown = std::string(failed.what()) == "enough";
    }
    CHECK(thrown);
    const auto message = refusal_of([&] { model.train(all.x, all.y, model.rows_of(70, 20)); });
    CHECK(is_refused(message, status::invalid_argument, "no row 80 among 80 samples with 80 labels"));
    CHECK(is_refused(message, status::invalid_argument, "replica 1"));
    CHECK(is_refused(refusal_of([&] { model.train(all.x, all.y, umbo::value::from_data({2}, std::vector<float>(2))); }),
                     status::invalid_argument, "float32"));
    CHECK(numbers_of(model.net()) == before);
    CHECK(model.train(all.x, all.y, model.rows_of(0, 10)) > 0);
    model.optimizer_of(dlib::sgd(), 0.1).apply(model.gradients());
    CHECK(numbers_of(model.net()) != before);

    using empty_net = dlib::loss_multiclass_log<dlib::relu<dlib::input<sample>>>;
    CHECK(is_refused(refusal_of([&] { dlib_model<empty_net>(strategy, empty_net(), all.x.front()); }), status::invalid_argument,
                     "none of its layers has parameters"));
    dlib_trainer<net_type> trainer(strategy, made<net_type>(all.x.front()), all.x.front());
    const auto refused = [&](auto action, const char *naming) { return is_refused(refusal_of(action), status::invalid_argument, naming); };
    CHECK(refused([&] { trainer.train({}, {}); }, "0 and 0 labels"));
    CHECK(refused([&] { trainer.train_one_step(all.x, {1}); }, "80 and 1 labels"));
    CHECK(refused([&] { trainer.test_one_step({}, {}); }, "0 and 0 labels"));
    CHECK(refused([&] { trainer.set_mini_batch_size(0); }, "set_mini_batch_size"));
    CHECK(refused([&] { trainer.set_max_num_epochs(-1); }, "set_max_num_epochs"));
    CHECK(refused([&] { trainer.set_min_learning_rate(0); }, "set_min_learning_rate"));
    CHECK(refused([&] { trainer.set_learning_rate_shrink_factor(0); }, "set_learning_rate_shrink_factor"));
    CHECK(refused([&] { trainer.set_iterations_without_progress_threshold(0); }, "set_iterations_without_progress_threshold"));
    CHECK(refused([&] { trainer.set_learning_rate(-1); }, "learning_rate"));
}

// Replicas on GPUs are refused, where there are any: the tests' driver shows some.
void gpus_are_refused() {
    umbo::strategy_options options;
    options.compute_devices = {"CPU:0", "GPU:0"};
    const examples all(1);
    CHECK(is_refused(refusal_of([&] { dlib_model<net_type>(umbo::strategy::create(options), net_type(), all.x.front()); }),
                     umbo::status::unimplemented, "GPU:0"));
}

// Each replica has its share of a BLAS's threads.
void threads_of_replicas() {
    const auto blas_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
    int started = 0;
    umbo::strategy_options options;
    options.cpu_replicas = 1;
    options.replica_thread_start = [&](const umbo_replica_thread &) { ++started; };
    umbo::strategy::create(umbo::adapters::with_blas_threads(options)).run([](umbo::replica_context &, const umbo::value &) {});
    CHECK(started == 1);
    umbo::adapters::blas_strategy(64).run([&](umbo::replica_context &, const umbo::value &) {
        if (blas_threads) CHECK(blas_threads() == 1);
    });
}

// The training goes its way while the number of replicas changes under it, and may end with another trainer.
void replicas_that_are_chosen() {
    const examples all;
    const auto net = made<net_type>(all.x.front());
    const char *const path = "dlib_chosen.umbo";
    const auto trained = [&](std::int64_t replicas, std::int64_t in_sync, bool restarts) {
        dlib_trainer<net_type> trainer(replicas, net, all.x.front(), dlib::sgd(0.01f, 0.9f), in_sync);
        trainer.set_learning_rate(0.05);
        trainer.set_mini_batch_size(batch);
        trainer.set_max_num_epochs(16); // of 8 steps
        trainer.train(all.x, all.y);
        trainer.set_learning_rate(0.02);
        CHECK(trainer.get_train_one_step_calls() == 128);
        const bool has_chosen = replicas == UMBO_AUTO && umbo::processor_count() > 1;
        CHECK((trainer.choice().find("a step takes") != std::string::npos) == has_chosen);
        double loss = trainer.get_average_loss();
        if (!restarts) {
            for (int step = 0; step < 5; ++step) trainer.train_one_step(all.x, all.y);
            CHECK(trainer.optimizer().variable_progress(trainer.model().parameters()[0]).update_count == 133);
            loss += trainer.test_one_step(all.x, all.y);
            auto numbers = numbers_of(trainer.get_net());
            numbers.push_back(static_cast<float>(loss));
            return numbers;
        }
        trainer.save(path);
        dlib_trainer<net_type> other(UMBO_AUTO, net, all.x.front(), dlib::sgd(0.01f, 0.9f), in_sync);
        other.restore(path);
        CHECK(other.get_learning_rate() == 0.02 && other.get_train_one_step_calls() == 128);
        for (int step = 0; step < 5; ++step) other.train_one_step(all.x, all.y);
        loss += other.test_one_step(all.x, all.y);
        auto numbers = numbers_of(other.get_net());
        numbers.push_back(static_cast<float>(loss));
        return numbers;
    };
    for (const bool restarts : {false, true}) {
        CHECK(furthest(trained(UMBO_AUTO, 0, restarts), trained(1, 0, false)) < 1e-4f);
        CHECK(trained(UMBO_AUTO, 4, restarts) == trained(1, 4, false));
    }
    std::remove(path);
    // Normalisations keep their statistics, which are those of one replica if there is one.
    examples pictures;
    for (sample &each : pictures.x) each = dlib::reshape(each, 3, 3);
    dlib_trainer<normalised> statistics(UMBO_AUTO, made<normalised>(pictures.x.front()), pictures.x.front());
    for (int step = 0; step < 100; ++step) statistics.train_one_step(pictures.x, pictures.y);
    auto end = statistics.get_net();
    CHECK(std::isfinite(statistics.test_one_step(pictures.x, pictures.y)) && std::isfinite(end.compute_loss(pictures.x.begin(), pictures.x.end(), pictures.y.begin())));
    // What is handed out stays.
    dlib_trainer<net_type> settled(UMBO_AUTO, net, all.x.front());
    CHECK(settled.model().strategy().replica_count() == umbo::processor_count());
    for (int step = 0; step < 60; ++step) settled.train_one_step(all.x, all.y);
    CHECK(settled.choice().find("nothing was measured") != std::string::npos);
    CHECK(settled.model().strategy().replica_count() == umbo::processor_count());
}

} // namespace

// The lines of docs/engines.md, around data that they do not say.
namespace page {

static void trains() {
    const examples all;
    const auto &images = all.x;
    const auto &labels = all.y;
#include "dlib.inc"
    CHECK(trainer.get_train_one_step_calls() == 10);
}

} // namespace page

// `gpus` as the first argument: the machine shows GPUs.
int main(int count, char **words) {
    if (count > 1 && std::string(words[1]) == "gpus") {
        gpus_are_refused();
        return finish();
    }
    page::trains();
    threads_of_replicas();
    as_in_dlib(dlib::sgd(0.01f, 0.9f), 0.05);
    as_in_dlib(dlib::adam(0.01f, 0.9f, 0.99f), 0.01);
    multiples_of_layers<normalised>(dlib::sgd(0.05f, 0.9f), 0.02);
    multiples_of_layers<normalised>(dlib::sgd(0.05f, 0.0f), 0.02);
    multiples_of_layers<convolutions>(dlib::adam(0.05f, 0.9f, 0.99f), 0.01);
    uneven_and_empty_parts();
    rows_of_a_dataset();
    rates_that_shrink();
    replicas_that_are_chosen();
    saved_and_restored();
    failures();
    return finish();
}

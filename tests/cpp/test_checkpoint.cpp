// Checkpoints and managers in C++.
#include <umbo/umbo.hpp>

#include <cstdio>
#include <string>
#include <vector>

#include "../c/check.h"

namespace {

struct model {
    umbo::strategy strategy;
    umbo::variable weights;
    umbo::gradients gradients;
    umbo::optimizer optimizer;
    umbo::metrics metrics;
    umbo::tensor seen;
    umbo::dataset numbers;
    umbo::iterator pass;
    umbo::checkpoint checkpoint;

    static umbo::strategy two_replicas() {
        return umbo::strategy::create_cpu(2);
    }

    model()
        : strategy(two_replicas()),
          weights(strategy.create_variable("weights", umbo::tensor::from_vector(std::vector<float>{1, 2}))),
          gradients(umbo::gradients::create(strategy, {weights}, umbo::loss_reduction::sum, {1, {}})),
          optimizer(umbo::optimizer::adam(strategy)), metrics(umbo::metrics::create(strategy)),
          seen(umbo::tensor::from_vector(std::vector<float>{0, 0})), numbers(umbo::dataset::from_range(0, 5)),
          pass(numbers.iterate()), checkpoint(umbo::checkpoint::create(strategy)) {
        metrics.define("loss", umbo::metric_kind::mean);
        for (const auto &variable : strategy.variables()) checkpoint.add(variable); // here one
        checkpoint.add("optimizer", optimizer);
        checkpoint.add("gradients", gradients);
        checkpoint.add("metrics", metrics);
        checkpoint.add("seen", seen);
        checkpoint.add("pass", pass);
        checkpoint.set_integer("epoch", 0);
        checkpoint.set_number("best", 1.5);
        checkpoint.set_string("notes", "");
    }

    void step() const {
        strategy.run([this](umbo::replica_context &context, const umbo::value &) {
            const auto view = context.gradient<float>(gradients, 0, umbo::gradient_mode::overwrite);
            view(0) = 1;
            view(1) = 2;
            context.submit(gradients, 1);
        });
        optimizer.apply(gradients);
    }

    std::vector<float> values() const { return weights.read().to_vector<float>(); }
};

void saves_and_restores() {
    const std::string file = "test_checkpoint_cpp.safetensors";
    const model one;
    one.step();
    one.checkpoint.set_integer("epoch", 4);
    const std::string notes(5000, 'n');
    one.checkpoint.set_string("notes", notes);
    one.checkpoint.save(file);
    const model other;
    other.checkpoint.restore(file);
    CHECK(other.values() == one.values() && other.checkpoint.integer("epoch") == 4);
    CHECK(other.checkpoint.string("notes") == notes);
    CHECK(umbo::checkpoint::read_string(file, "notes") == notes);
    CHECK(other.checkpoint.number("best") == 1.5 && other.optimizer.info().iterations == 1);
    one.step();
    other.step();
    CHECK(other.values() == one.values());
    other.checkpoint.load_weights(file, {{"weights", "optimizer/weights/m"}});
    CHECK(other.values() != one.values() && other.values()[0] < 1);
    CHECK(other.checkpoint.load_weights(file).loaded.size() == 1);
    const std::vector<float> before = other.values();
    other.checkpoint.save_weights(file);
    other.step();
    other.checkpoint.load_weights(file);
    CHECK(other.values() == before);
    umbo::save_weights_options in_double;
    in_double.float_dtype = umbo::dtype::float64;
    umbo::load_weights_options converted;
    converted.convert_floats = true;
    other.checkpoint.save_weights(file, in_double);
    other.step();
    other.checkpoint.load_weights(file, converted);
    CHECK(other.values() == before);
    bool refused = false;
    try {
        other.checkpoint.restore(file);
    } catch (const umbo::error &error) {
        refused = std::string(error.what()).find("no optimizer 'optimizer'") != std::string::npos;
    }
    CHECK(refused && std::remove(file.c_str()) == 0);
}

void loads_from_memory() {
    const model one, other;
    one.step();
    other.checkpoint.restore_from_memory(one.checkpoint.save_to_memory());
    CHECK(other.values() == one.values() && other.optimizer.info().iterations == 1);
    one.step();
    other.checkpoint.restore_from_ranks(one.checkpoint.save_to_memory());
    CHECK(other.values() == one.values() && other.optimizer.info().iterations == 2);
    const std::vector<std::uint8_t> weights = one.checkpoint.save_weights_to_memory();
    other.step();
    umbo::load_weights_options options;
    options.allow_missing = true;
    options.map_name = [](const std::string &tensor) { return tensor == "weights" ? "w" : ""; };
    const umbo::loaded_weights none = other.checkpoint.load_weights_from_memory(weights, options);
    CHECK(none.loaded.empty() && none.missing == std::vector<std::string>{"weights"});
    CHECK(none.unused == std::vector<std::string>{"weights"} && other.values() != one.values());
    options.map_name = [](const std::string &tensor) { return std::string(tensor); };
    const umbo::loaded_weights all = other.checkpoint.load_weights_from_memory(weights, options);
    CHECK(all.loaded.size() == 1 && all.missing.empty() && all.unused.empty());
    CHECK(all.loaded[0].second == "weights" && other.values() == one.values());
    options.map_name = [](const std::string &) -> std::string { throw std::string("no name"); };
    bool refused = false;
    try {
        other.checkpoint.load_weights_from_memory(weights, options);
    } catch (...) {
        refused = true;
    }
    CHECK(refused);
}

void weights_are_one_array() {
    const model one;
    const auto more = one.strategy.create_variable("more", umbo::tensor::from_vector(std::vector<float>{3}));
    const std::vector<umbo::variable> all = {more, one.weights};
    CHECK(umbo::variable::element_count(all) == 3);
    CHECK((umbo::variable::download_flat<float>(all) == std::vector<float>{3, 1, 2}));
    umbo::variable::upload_flat(all, std::vector<float>{6, 5, 4});
    CHECK((one.values() == std::vector<float>{5, 4}));
    bool refused = false;
    try {
        umbo::variable::upload_flat(all, std::vector<double>{6, 5, 4});
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::invalid_argument;
    }
    CHECK(refused && umbo::variable::download_flat<float>(all)[0] == 6);
}

void sets_states() {
    const model one;
    one.optimizer.assign_state(one.weights, "m", umbo::tensor::from_vector(std::vector<float>{3, 4}));
    CHECK(one.optimizer.read_state(one.weights, "m").to_vector<float>()[1] == 4);
    umbo::variable_progress progress = one.optimizer.variable_progress(one.weights);
    progress.update_count = 7;
    one.optimizer.set_variable_progress(one.weights, progress);
    CHECK(one.optimizer.variable_progress(one.weights).update_count == 7);
    one.optimizer.set_iterations(8);
    one.optimizer.set_loss_scale(16);
    CHECK(one.optimizer.info().iterations == 8 && one.optimizer.info().loss_scale == 16);
}

void keeps_some() {
    const model one;
    umbo::checkpoint_manager_options options;
    options.max_to_keep = 1;
    options.max_best_to_keep = 1;
    options.every_steps = 2;
    const auto manager = umbo::checkpoint_manager::create(one.checkpoint, "test_checkpoint_cpp", options);
    CHECK(manager.restore_latest() == UMBO_NONE && manager.restore_best() == UMBO_NONE);
    CHECK(!manager.save(1) && manager.save(2) && manager.save(3, 0.5, true) && manager.save(5));
    manager.wait();
    CHECK(manager.latest() == 5 && manager.best() == 3 && manager.restore_best() == 3);
    const model other;
    options.start_fresh = true;
    const auto anew = umbo::checkpoint_manager::create(other.checkpoint, "test_checkpoint_cpp", options);
    CHECK(anew.latest() == UMBO_NONE);
    for (const std::int64_t step : {3, 5}) CHECK(std::remove(std::string(manager.path(step)).c_str()) == 0);
    CHECK(std::remove("test_checkpoint_cpp") == 0);
}

void tensors_in_files() {
    const std::string npy = "test_checkpoint_cpp.npy", npz = "test_checkpoint_cpp.npz";
    const auto one = umbo::tensor::from_vector(std::vector<float>{1, 2, 3});
    one.save(npy);
    CHECK(umbo::tensor(umbo::tensor::load(npy)).to_vector<float>()[2] == 3);
    umbo::tensor::save_all({{"a", one}, {"b", one}}, npz);
    CHECK(umbo::tensor(umbo::tensor::load(npz, "b")).to_vector<float>()[1] == 2);
    CHECK(umbo::dataset::from_npy_file(npy).cardinality() == 3);
    CHECK(umbo::dataset::from_npz_file(npz, {"a", "b"}).element_spec().field_name(1) == "b");
    CHECK(std::remove(npy.c_str()) == 0 && std::remove(npz.c_str()) == 0);
}

} // namespace

int main() {
    saves_and_restores();
    loads_from_memory();
    weights_are_one_array();
    sets_states();
    keeps_some();
    tensors_in_files();
    return finish();
}

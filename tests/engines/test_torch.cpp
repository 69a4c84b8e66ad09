// LibTorch under Umbo: what training means there does not depend on replicas, and agrees with torch alone.
#include <umbo/adapters/torch.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#undef CHECK // of LibTorch's log
#include "../c/check.h"
#include "../ranks/ranks.h"

namespace {

namespace F = torch::nn::functional;
using umbo::adapters::part;
using umbo::adapters::torch_model;
using umbo::adapters::torch_options;

constexpr std::int64_t inputs = 6, hidden = 8, classes = 3, examples = 24;

struct NetImpl : torch::nn::Module {
    explicit NetImpl(double drop = 0, bool normalises = false) {
        torch::manual_seed(7);
        first = register_module("first", torch::nn::Linear(inputs, hidden));
        if (normalises) norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
        dropout = register_module("dropout", umbo::adapters::keyed_dropout(drop, 5));
        second = register_module("second", torch::nn::Linear(hidden, classes));
        unused = register_parameter("unused", torch::ones({4}));
    }
    torch::Tensor forward(torch::Tensor x) {
        x = first(x);
        if (!norm.is_empty()) x = norm(x);
        return second(dropout(torch::relu(x)));
    }
    torch::nn::Linear first{nullptr}, second{nullptr};
    torch::nn::BatchNorm1d norm{nullptr};
    umbo::adapters::keyed_dropout dropout{nullptr};
    torch::Tensor unused;
};

struct table_impl : torch::nn::Module {
    explicit table_impl(bool sparse) {
        torch::manual_seed(3);
        rows = register_module("rows", torch::nn::Embedding(torch::nn::EmbeddingOptions(10, 4).sparse(sparse)));
        out = register_module("out", torch::nn::Linear(4, 1));
    }
    torch::Tensor forward(const torch::Tensor &numbers) { return out(rows(numbers)).squeeze(1); }
    torch::nn::Embedding rows{nullptr};
    torch::nn::Linear out{nullptr};
};

struct data {
    torch::Tensor x, y;
    data() {
        torch::manual_seed(1);
        x = torch::randn({examples, inputs});
        y = torch::randint(classes, {examples}, torch::kLong);
    }
    umbo::value batch() const {
        umbo::value::field_list fields;
        fields.emplace_back("x", umbo::value(umbo::adapters::share(x)));
        fields.emplace_back("y", umbo::value(umbo::adapters::share(y)));
        return umbo::value::create_struct(fields);
    }
};

template <class Module>
torch::Tensor loss_of(Module &net, const part &of) {
    return F::cross_entropy(net.forward(of["x"]), of["y"]);
}

bool is_near(const torch::Tensor &a, const torch::Tensor &b, double tolerance) {
    return (a - b).abs().max().item<double>() <= tolerance;
}

// The parameters after some steps of AdamW.
std::vector<torch::Tensor> trained_on(const umbo::strategy &strategy, double drop, const torch_options &options) {
    const data all;
    auto make = [own = std::make_unique<double>(drop)] { return std::make_shared<NetImpl>(*own); };
    torch_model<NetImpl> model(strategy, std::move(make), options);
    umbo::adamw_options decay;
    decay.learning_rate = 0.01;
    decay.weight_decay = 0.1;
    const auto adamw = umbo::optimizer::adamw(strategy, decay);
    const auto batch = strategy.split(all.batch());
    double before = 0, after = 0;
    for (int step = 0; step < 10; ++step) {
        model.train(batch, loss_of<NetImpl>);
        const auto loss = strategy.metric_result("loss");
        CHECK(loss.weight == examples);
        (step == 0 ? before : after) = loss.sum / loss.weight;
        adamw.apply(model.gradients());
    }
    CHECK(after < before);
    std::vector<torch::Tensor> parameters;
    for (const auto &parameter : model.central()->parameters()) parameters.push_back(parameter.detach().clone());
    return parameters;
}

std::vector<torch::Tensor> trained(std::int64_t replicas, double drop, const torch_options &options = {}) {
    return trained_on(umbo::adapters::torch_strategy(replicas), drop, options);
}

// What of the adapter has to come to the same over ranks.
enum class kind { dropout, sixteen_bits, normalisation, limits, rows };
constexpr kind kinds[] = {kind::dropout, kind::sixteen_bits, kind::normalisation, kind::limits, kind::rows};

torch::Tensor loss_of_any_width(NetImpl &net, const part &of) {
    return F::cross_entropy(net.forward(of["x"].to(net.first->weight.scalar_type())).to(torch::kFloat), of["y"]);
}

// A step for which the last replica takes too long: it fails on all ranks, and none has anything of it.
void run_late(const umbo::strategy &strategy, torch_model<NetImpl> &model, const umbo::value &batch) {
    const auto before = model.central()->first->weight.detach().clone();
    const auto own_step = model.step(loss_of_any_width);
    umbo::run_options limited;
    limited.timeout_seconds = 0.2;
    bool late = false;
    try {
        strategy.run([&](umbo::replica_context &context, const umbo::value &part) {
            own_step(context, part);
            if (context.replica_id() + 1 != strategy.replica_count()) return;
            std::this_thread::sleep_for(std::chrono::milliseconds(400));
        }, batch, limited);
    } catch (const umbo::error &error) {
        late = error.status() == umbo::status::deadline_exceeded;
    }
    CHECK(late);
    strategy.synchronize(); // the replica is back
    CHECK(torch::equal(model.central()->first->weight, before));
}

// Parameters and buffers after some steps.
std::vector<torch::Tensor> trained_as(kind what, const umbo::strategy &strategy) {
    torch_options options;
    if (what == kind::sixteen_bits) options.dtype = umbo::dtype::bfloat16;
    if (what == kind::rows) options.row_sparse = {"rows.weight"};
    umbo::adamw_options decay;
    decay.weight_decay = 0.1;
    const auto adamw = umbo::optimizer::adamw(strategy, decay);
    std::vector<torch::Tensor> found;
    const auto update = [&](const umbo::gradients &gradients) {
        CHECK(strategy.metric_result("loss").weight == examples); // of all ranks
        adamw.apply(gradients);
    };
    const auto keep = [&](const torch::nn::Module &module) {
        for (const auto &parameter : module.parameters()) found.push_back(parameter.detach().clone());
        for (const auto &buffer : module.buffers()) found.push_back(buffer.clone());
    };
    if (what == kind::rows) {
        const auto rows = umbo::adapters::batch_of(
            {{"n", torch::arange(examples) * 7 % 10}, {"t", torch::linspace(-1, 2, examples)}});
        torch_model<table_impl> model(strategy, [] { return std::make_shared<table_impl>(true); }, options);
        const auto batch = strategy.split(rows);
        for (int step = 0; step < 6; ++step) {
            model.train(batch, [](table_impl &net, const part &of) { return F::mse_loss(net.forward(of["n"]), of["t"]); });
            update(model.gradients());
        }
        keep(*model.central());
        return found;
    }
    const auto make = [=] { return std::make_shared<NetImpl>(0.3, what == kind::normalisation); };
    torch_model<NetImpl> model(strategy, make, options);
    const auto batch = strategy.split(data().batch());
    for (int step = 0; step < 6; ++step) {
        if (what == kind::limits && step == 3) run_late(strategy, model, batch);
        model.train(batch, loss_of_any_width);
        update(model.gradients());
    }
    keep(*model.central());
    return found;
}

constexpr int ranks = 2;
constexpr std::size_t room = 256; // of numbers

struct over_ranks_of {
    kind what;
    std::int64_t replicas; // of each rank
    float *numbers;        // of all ranks
};

// Writes down what a rank comes to.
int train_on_rank(umbo_communicator *lent, int rank, void *asked) {
    const auto &of = *static_cast<const over_ranks_of *>(asked);
    umbo::strategy_options options;
    options.cpu_replicas = of.replicas;
    umbo_communicator *own = nullptr;
    CHECK_OK(umbo_communicator_retain(lent, &own));
    options.communicator = umbo::communicator(own);
    // As many as a replica of the one process has: torch's sums depend on it.
    options.replica_thread_start = [](const umbo_replica_thread &) { at::set_num_threads(1); };
    const auto strategy = umbo::strategy::create(umbo::adapters::with_torch_threads(options));
    float *to = of.numbers + static_cast<std::size_t>(rank) * room;
    std::size_t count = 0;
    for (const auto &tensor : trained_as(of.what, strategy)) {
        const auto flat = tensor.flatten();
        for (std::int64_t at = 0; at < flat.numel() && count < room; ++at) to[count++] = flat[at].item<float>();
    }
    CHECK(count < room);
    return 0;
}

// Processes have the bits of one process with as many replicas. They are forks: no thread may run before the last.
void over_ranks() {
    std::vector<over_ranks_of> all;
    for (const kind what : kinds) {
        for (const std::int64_t replicas : {1, 2}) {
            auto *const numbers = static_cast<float *>(ranks_shared(ranks * room * sizeof(float)));
            CHECK(numbers != nullptr);
            all.push_back({what, replicas, numbers});
        }
    }
    ranks_options options{};
    options.size = ranks;
    for (over_ranks_of &of : all) {
        const ranks_outcome outcome = ranks_run(&options, train_on_rank, &of);
        for (int rank = 0; rank < ranks; ++rank) CHECK(outcome.code[rank] == 0);
    }
    for (const over_ranks_of &of : all) {
        const auto expected = trained_as(of.what, umbo::adapters::torch_strategy(ranks * of.replicas));
        for (int rank = 0; rank < ranks; ++rank) {
            const float *from = of.numbers + static_cast<std::size_t>(rank) * room;
            for (const auto &tensor : expected) {
                const auto flat = tensor.flatten();
                for (std::int64_t at = 0; at < flat.numel(); ++at) CHECK(*from++ == flat[at].item<float>());
            }
        }
    }
}

// Each of many replicas has one thread, also of the BLAS; a lower setting of the program's stays.
void threads_of_replicas() {
    const auto blas_threads = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
    const auto set_blas_threads = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
    if (set_blas_threads) set_blas_threads(4);
    const auto replicas = static_cast<std::int64_t>(std::thread::hardware_concurrency()) * 2;
    const auto many = umbo::adapters::torch_strategy(replicas);
    many.run([&](umbo::replica_context &, const umbo::value &) {
        CHECK(at::get_num_threads() == 1);
        if (blas_threads) CHECK(blas_threads() == 1);
    });
    const auto one = umbo::adapters::torch_strategy(1);
    one.run([&](umbo::replica_context &, const umbo::value &) {
        if (blas_threads) CHECK(blas_threads() == 1);
    });
    // And so does that of the environment.
    CHECK(setenv("OMP_NUM_THREADS", "1", 1) == 0);
    const auto limited = umbo::adapters::torch_strategy(1);
    limited.run([&](umbo::replica_context &context, const umbo::value &) {
        CHECK(context.info().replica_count == 1 && at::get_num_threads() == 1);
    });
    CHECK(unsetenv("OMP_NUM_THREADS") == 0);
}

void any_number_of_replicas() {
    for (const double drop : {0.0, 0.4}) {
        const auto one = trained(1, drop);
        // Nobody's loss uses it: no decay either.
        CHECK(torch::equal(one.front(), torch::ones({4})));
        for (const std::int64_t replicas : {2, 3}) {
            const auto several = trained(replicas, drop);
            for (std::size_t index = 0; index < one.size(); ++index) {
                CHECK(is_near(one[index], several[index], 1e-5));
            }
        }
    }
}

void beside_torch_alone() {
    const data all;
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
    NetImpl alone;
    torch::optim::SGD theirs(alone.parameters(), torch::optim::SGDOptions(0.1));
    umbo::sgd_options rate;
    rate.learning_rate = 0.1;
    const auto ours = umbo::optimizer::sgd(strategy, rate);
    const auto batch = strategy.split(all.batch());
    for (int step = 0; step < 10; ++step) {
        model.train(batch, loss_of<NetImpl>);
        ours.apply(model.gradients());
        theirs.zero_grad();
        F::cross_entropy(alone.forward(all.x), all.y).backward();
        theirs.step();
    }
    const auto mine = model.central()->parameters(), other = alone.parameters();
    for (std::size_t index = 0; index < mine.size(); ++index) CHECK(is_near(mine[index], other[index], 1e-5));
    // And what is right counts the same.
    const auto right = [](NetImpl &net, const part &of) { return (net.forward(of["x"]).argmax(1) == of["y"]).sum(); };
    strategy.run(model.evaluation("right", right), batch);
    const auto counted = strategy.metric_result("right");
    alone.eval();
    CHECK(counted.weight == examples);
    CHECK(counted.sum == (alone.forward(all.x).argmax(1) == all.y).sum().item<double>());
}

// Running statistics are those of all examples, on parts of unequal sizes. (Torch normalises two or more.)
void batch_normalisation() {
    for (const std::int64_t replicas : {1, 2, 5}) {
        const data all;
        const auto strategy = umbo::adapters::torch_strategy(replicas);
        torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(0.0, true); });
        umbo::sgd_options still; // so that the statistics are those of the same weights
        still.learning_rate = 0;
        const auto sgd = umbo::optimizer::sgd(strategy, still);
        NetImpl alone(0.0, true);
        CHECK(model.buffers().size() == 3);
        for (const std::int64_t rows : {examples, examples - 1, examples / 2}) {
            const auto batch = umbo::adapters::batch_of({{"x", all.x.slice(0, 0, rows)}, {"y", all.y.slice(0, 0, rows)}});
            model.train(strategy.split(batch), loss_of<NetImpl>);
            sgd.apply(model.gradients());
            alone.forward(all.x.slice(0, 0, rows));
        }
        const auto central = model.central();
        CHECK(is_near(central->norm->running_mean, alone.norm->running_mean, 1e-6));
        CHECK(central->norm->num_batches_tracked.item<std::int64_t>() == 3);
        if (replicas == 1) CHECK(is_near(central->norm->running_var, alone.norm->running_var, 1e-6));
        CHECK((central->norm->running_var > 0).all().item<bool>());
    }
}

void sparse_gradients() {
    const auto numbers = torch::tensor({1, 7, 7, 2, 1, 9}, torch::kLong);
    const auto wanted = torch::tensor({1.0f, 0.0f, 2.0f, 1.0f, -1.0f, 0.5f});
    umbo::value::field_list fields;
    fields.emplace_back("n", umbo::value(umbo::adapters::share(numbers)));
    fields.emplace_back("t", umbo::value(umbo::adapters::share(wanted)));
    const auto whole = umbo::value::create_struct(fields);
    const auto loss = [](table_impl &net, const part &of) { return F::mse_loss(net.forward(of["n"]), of["t"]); };
    std::vector<torch::Tensor> tables;
    for (const bool sparse : {false, true}) {
        const auto strategy = umbo::adapters::torch_strategy(2);
        torch_options how;
        if (sparse) how.row_sparse = {"rows.weight"};
        torch_model<table_impl> model(strategy, [=] { return std::make_shared<table_impl>(sparse); }, how);
        const auto sgd = umbo::optimizer::sgd(strategy, {});
        const auto batch = strategy.split(whole);
        for (int step = 0; step < 5; ++step) {
            model.train(batch, loss);
            sgd.apply(model.gradients());
        }
        tables.push_back(model.central()->rows->weight.detach().clone());
    }
    CHECK(is_near(tables[0], tables[1], 1e-6));
    // Gradients that are sparse have to be announced.
    const auto strategy = umbo::adapters::torch_strategy(1);
    torch_model<table_impl> model(strategy, [] { return std::make_shared<table_impl>(true); });
    bool refused = false;
    try {
        model.train(strategy.split(whole), loss);
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::failed_precondition;
    }
    CHECK(refused);
    torch_options typo;
    typo.row_sparse = {"row.weight"};
    refused = false;
    try {
        torch_model<table_impl> other(strategy, [] { return std::make_shared<table_impl>(true); }, typo);
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::not_found;
    }
    CHECK(refused);
}

// Replicas compute in 16 bits, and parameters stay as wide as they were.
void sixteen_bits() {
    const data all;
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_options how;
    how.dtype = umbo::dtype::bfloat16;
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); }, how);
    const auto adam = umbo::optimizer::adam(strategy, {});
    const auto batch = strategy.split(all.batch());
    const auto loss = [](NetImpl &net, const part &of) {
        CHECK(net.first->weight.scalar_type() == torch::kBFloat16);
        return F::cross_entropy(net.forward(of["x"].to(torch::kBFloat16)).to(torch::kFloat), of["y"]);
    };
    double first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
        model.train(batch, loss);
        (step == 0 ? first : last) = strategy.metric_result("loss").sum;
        adam.apply(model.gradients());
    }
    CHECK(last < first);
    const auto central = model.central();
    CHECK(central->first->weight.scalar_type() == torch::kFloat);
    CHECK(!torch::equal(central->first->weight, central->first->weight.to(torch::kBFloat16).to(torch::kFloat)));
}

void saved_and_loaded() {
    const data all;
    const std::string path = "test_torch.pt";
    const auto make = [] { return std::make_shared<NetImpl>(0.0, true); };
    const auto two = umbo::adapters::torch_strategy(2), one = umbo::adapters::torch_strategy(1);
    torch_model<NetImpl> model(two, make);
    const auto sgd = umbo::optimizer::sgd(two, {});
    model.train(two.split(all.batch()), loss_of<NetImpl>);
    sgd.apply(model.gradients());
    torch::save(model.central(), path);
    auto plain = make();
    torch::load(plain, path);
    torch_model<NetImpl> again(one, make);
    again.load(path);
    const auto expected = model.central(), loaded = again.central();
    for (const auto &named : expected->named_parameters()) {
        CHECK(torch::equal(named.value(), plain->named_parameters()[named.key()]));
        CHECK(torch::equal(named.value(), loaded->named_parameters()[named.key()]));
    }
    for (const auto &named : expected->named_buffers()) {
        CHECK(torch::equal(named.value(), loaded->named_buffers()[named.key()]));
    }
    bool refused = false;
    try {
        again.assign(std::make_shared<NetImpl>());
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::invalid_argument;
    }
    CHECK(refused);
    std::remove(path.c_str());
}

// Parameters that are frozen at first train once they are unfrozen, on all replicas.
void frozen_parameters() {
    const data all;
    std::vector<torch::Tensor> of_one;
    for (const std::int64_t replicas : {1, 2}) {
        const auto strategy = umbo::adapters::torch_strategy(replicas);
        torch_model<NetImpl> model(strategy, [] {
            auto net = std::make_shared<NetImpl>();
            for (auto &parameter : net->first->parameters()) parameter.requires_grad_(false);
            return net;
        });
        umbo::adamw_options decay;
        decay.weight_decay = 0.1;
        const auto adamw = umbo::optimizer::adamw(strategy, decay);
        const auto batch = strategy.split(all.batch());
        const auto steps = [&](int count) {
            for (int step = 0; step < count; ++step) {
                model.train(batch, loss_of<NetImpl>);
                adamw.apply(model.gradients());
            }
            return model.central()->first->weight.detach().clone();
        };
        const auto initial = model.central()->first->weight.detach().clone();
        CHECK(torch::equal(steps(2), initial));
        // Through the module that programs have at hand,
        model.central()->first->weight.requires_grad_(true);
        const auto unfrozen = steps(2);
        CHECK(!torch::equal(unfrozen, initial));
        // and through each replica's.
        model.for_each_replica([](NetImpl &net) { net.first->weight.requires_grad_(false); });
        CHECK(torch::equal(steps(2), unfrozen));
        std::vector<torch::Tensor> trained;
        for (const auto &parameter : model.central()->parameters()) trained.push_back(parameter.detach().clone());
        if (replicas == 1) of_one = trained;
        for (std::size_t index = 0; index < trained.size(); ++index) CHECK(is_near(trained[index], of_one[index], 1e-5));
    }
}

// A normalisation keeps float32 among 16-bit parameters.
void sixteen_bits_with_normalisation() {
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_options how;
    how.dtype = umbo::dtype::bfloat16;
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(0.0, true); }, how);
    const auto adam = umbo::optimizer::adam(strategy, {});
    const auto batch = strategy.split(data().batch());
    const auto initial = model.central()->norm->weight.detach().clone();
    double first = 0, last = 0;
    for (int step = 0; step < 30; ++step) {
        model.train(batch, [](NetImpl &net, const part &of) {
            CHECK(net.norm->weight.scalar_type() == torch::kFloat);
            return loss_of_any_width(net, of);
        });
        (step == 0 ? first : last) = strategy.metric_result("loss").sum;
        adam.apply(model.gradients());
    }
    CHECK(last < first);
    CHECK(!torch::equal(model.central()->norm->weight, initial));
    CHECK(model.central()->norm->running_mean.scalar_type() == torch::kFloat);
}

// What torch refuses on one replica names that replica and its part.
void failures_of_torch_name_the_replica() {
    const data all;
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(0.0, true); });
    umbo::value::field_list fields;
    fields.emplace_back("x", umbo::value(umbo::adapters::share(all.x.slice(0, 0, 3))));
    fields.emplace_back("y", umbo::value(umbo::adapters::share(all.y.slice(0, 0, 3))));
    std::string message;
    try {
        model.train(strategy.split(umbo::value::create_struct(fields)), loss_of<NetImpl>);
    } catch (const c10::Error &error) {
        message = error.what();
    }
    CHECK(message.find("on replica 1 of 2, on CPU:1, whose part of the batch has 1 of 3 examples") != std::string::npos);
}

// What is written to standard error meanwhile.
template <class Action>
std::string caught_errors(Action action) {
    std::fflush(stderr);
    std::FILE *const file = std::tmpfile();
    CHECK(file != nullptr);
    const int standard_error = dup(2);
    CHECK(standard_error >= 0 && dup2(fileno(file), 2) == 2);
    action();
    std::fflush(stderr);
    CHECK(dup2(standard_error, 2) == 2 && close(standard_error) == 0);
    std::rewind(file);
    std::string text;
    for (int next = std::fgetc(file); next != EOF; next = std::fgetc(file)) text += static_cast<char>(next);
    std::fclose(file);
    return text;
}

struct dropping : torch::nn::Module {
    explicit dropping(double p) {
        register_module("in", torch::nn::Linear(2, 2));
        register_module("out", torch::nn::Dropout(p));
    }
};

// A network that uses one layer of dropout twice.
struct twice : torch::nn::Module {
    twice() {
        torch::manual_seed(7);
        out = register_module("out", torch::nn::Linear(inputs, classes));
        dropout = register_module("dropout", umbo::adapters::keyed_dropout(0.5, 5));
    }
    torch::Tensor forward(const torch::Tensor &x) {
        const auto ones = torch::ones_like(x);
        const auto first = dropout(ones), second = dropout(ones);
        CHECK(first.numel() == 0 || !torch::equal(first, second));
        return out(x * first + x * second);
    }
    torch::nn::Linear out{nullptr};
    umbo::adapters::keyed_dropout dropout{nullptr};
};

// Each use drops other numbers, the same for every number of replicas and in each visit of a step.
void layers_that_are_used_twice() {
    const data all;
    const auto trained = [&](int replicas) {
        const auto strategy = umbo::adapters::torch_strategy(replicas);
        torch_model<twice> model(strategy, [] { return std::make_shared<twice>(); });
        const auto found = strategy.check_equivalence(model.step(loss_of<twice>), all.batch(), model.gradients());
        CHECK(found.info().holds);
        const auto sgd = umbo::optimizer::sgd(strategy, {});
        for (int step = 0; step < 3; ++step) {
            model.train(strategy.split(all.batch()), loss_of<twice>);
            sgd.apply(model.gradients());
        }
        return model.central()->out->weight.detach().clone();
    };
    const auto one = trained(1);
    CHECK(torch::allclose(one, trained(2), 1e-5, 1e-6) && torch::allclose(one, trained(3), 1e-5, 1e-6));
}

// Torch's own dropout on several replicas warns, once.
void dropout_of_torch_warns() {
    const auto make = [](const umbo::strategy &strategy, double p) {
        torch_model<dropping>(strategy, [=] { return std::make_shared<dropping>(p); });
    };
    const auto one = umbo::adapters::torch_strategy(1), two = umbo::adapters::torch_strategy(2);
    CHECK(caught_errors([&] {
        make(one, 0.5);
        make(two, 0);
        torch_model<NetImpl>(two, [] { return std::make_shared<NetImpl>(0.5); });
    }).find("keyed_dropout") == std::string::npos);
    CHECK(caught_errors([&] { make(two, 0.5); }).find("'out' drops out by torch's generator") != std::string::npos);
    CHECK(caught_errors([&] { make(two, 0.5); }).find("keyed_dropout") == std::string::npos);
}

// Replicas on GPUs are refused, where there are any: the tests' driver shows some.
void gpus_are_refused() {
    umbo::strategy_options options;
    options.compute_devices = {"CPU:0", "GPU:0"};
    const auto strategy = umbo::strategy::create(options);
    bool refused = false;
    try {
        torch_model<NetImpl>(strategy, [] { return std::make_shared<NetImpl>(); });
    } catch (const umbo::error &error) {
        refused = error.status() == umbo::status::unimplemented && std::string(error.what()).find("GPU:0") != std::string::npos;
    }
    CHECK(refused);
}

// Umbo's check of a step: dropout by torch's generator depends on which replica draws when.
void checked() {
    const data all;
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(0.5); });
    const auto keyed = strategy.check_equivalence(model.step(loss_of<NetImpl>), all.batch(), model.gradients());
    const auto found = keyed.info();
    if (!found.holds) std::fprintf(stderr, "%s\n", found.text.c_str());
    CHECK(found.holds);
    const auto drawn = strategy.check_equivalence(model.step([](NetImpl &net, const part &of) {
        return F::cross_entropy(net.forward(at::dropout(of["x"], 0.5, true)), of["y"]);
    }), all.batch(), model.gradients());
    CHECK(!drawn.info().holds);
}

// A loss that throws fails its step and nothing else; what it has kept of its batch stays as it was.
void failures_and_kept_batches() {
    const data all;
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
    const auto sgd = umbo::optimizer::sgd(strategy, {});
    const auto before = model.central()->first->weight.detach().clone();
    bool failed = false;
    try {
        model.train(strategy.split(all.batch()), [](NetImpl &net, const part &of) -> torch::Tensor {
            loss_of(net, of).backward();
            throw std::runtime_error("as planned");
        });
    } catch (const std::exception &error) {
        failed = std::string(error.what()).find("as planned") != std::string::npos;
    }
    CHECK(failed && torch::equal(model.central()->first->weight, before));
    std::vector<torch::Tensor> kept;
    const auto batches =
        strategy.distribute_dataset(umbo::adapters::rows_of({{"x", all.x}, {"y", all.y}}).batch(8)).iterate();
    for (const umbo::value &batch : batches) {
        model.train(batch, [&](NetImpl &net, const part &of) {
            if (of["x"].size(0) == 4 && net.is_training()) {
                static std::mutex together;
                const std::lock_guard<std::mutex> lock(together);
                kept.push_back(of["x"]);
            }
            return loss_of(net, of);
        });
        sgd.apply(model.gradients());
    }
    CHECK(kept.size() == 6);
    for (const auto &rows : kept) {
        bool found = false;
        for (std::int64_t first = 0; first < examples; first += 4) {
            found = found || torch::equal(rows, all.x.slice(0, first, first + 4));
        }
        CHECK(found);
    }
}

#include "torch_loops.hpp"

} // namespace

// The lines of README that put a module under Umbo, around a network and data that they do not say.
namespace readme {

struct NetImpl : torch::nn::Module {
    NetImpl() { layer = register_module("layer", torch::nn::Linear(8, 3)); }
    torch::Tensor forward(const torch::Tensor &given) { return layer(given); }
    torch::nn::Linear layer{nullptr};
};

static void ten_lines() {
    const auto x = torch::randn({630, 8}); // ten batches, the last one smaller
    const auto y = x.slice(1, 0, 3).argmax(1);
#include "ten_lines.inc"
    CHECK(strategy.replica_count() == 2 && adam.info().iterations == 10);
    CHECK(model.central()->forward(x).size(1) == 3);
}

} // namespace readme

// `gpus` as the first argument: the machine shows GPUs.
int main(int count, char **words) {
    if (count > 1 && std::string(words[1]) == "gpus") {
        gpus_are_refused();
        return finish();
    }
    over_ranks(); // forks, which comes before the first use
    readme::ten_lines();
    threads_of_replicas();
    any_number_of_replicas();
    beside_torch_alone();
    batch_normalisation();
    sparse_gradients();
    sixteen_bits();
    sixteen_bits_with_normalisation();
    frozen_parameters();
    failures_of_torch_name_the_replica();
    layers_that_are_used_twice();
    dropout_of_torch_warns();
    saved_and_loaded();
    checked();
    failures_and_kept_batches();
    loops_of_torch();
    return finish();
}

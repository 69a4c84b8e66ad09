// Loops in the form of LibTorch's tutorials, before and after the patches beside them, and what they have around their loops:
// schedulers, files of optimizers, dropout.
#include <umbo/adapters/torch.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <unistd.h>

#undef CHECK // of LibTorch's log
#include "../c/check.h"

static int replicas = 2; // of the patched programs

namespace mnist_before {
#include "mnist/before.cpp"
} // namespace mnist_before
namespace mnist_after {
#include "mnist/after.cpp"
} // namespace mnist_after
namespace dcgan_before {
#include "dcgan/before.cpp"
} // namespace dcgan_before
namespace dcgan_after {
#include "dcgan/after.cpp"
} // namespace dcgan_after

namespace {

namespace F = torch::nn::functional;
using umbo::adapters::part;
using umbo::adapters::torch_model;
using umbo::adapters::torch_optimizer;

// What an action writes to standard output.
std::string printed(void (*action)()) {
    std::fflush(stdout);
    std::FILE *const file = std::tmpfile();
    CHECK(file != nullptr);
    const int standard_output = dup(1);
    CHECK(standard_output >= 0 && dup2(fileno(file), 1) == 1);
    action();
    std::fflush(stdout);
    CHECK(dup2(standard_output, 1) == 1 && close(standard_output) == 0);
    std::rewind(file);
    std::string text;
    for (int next = std::fgetc(file); next != EOF; next = std::fgetc(file)) text += static_cast<char>(next);
    std::fclose(file);
    return text;
}

// The numbers of the last line.
std::vector<double> last_numbers(const std::string &text) {
    std::vector<double> found;
    const auto line = text.find_last_of('\n', text.size() - 2);
    const char *at = text.c_str() + (line == std::string::npos ? 0 : line);
    while (*at != 0) {
        char *end = nullptr;
        const double number = std::strtod(at, &end);
        if (end == at) {
            ++at;
            continue;
        }
        found.push_back(number);
        at = end;
    }
    return found;
}

bool are_near(const std::vector<double> &a, const std::vector<double> &b, double tolerance) {
    bool near = a.size() == b.size() && !a.empty();
    for (std::size_t at = 0; near && at < a.size(); ++at) near = std::fabs(a[at] - b[at]) <= tolerance;
    if (!near) {
        for (const auto &each : {a, b}) {
            for (const double number : each) std::fprintf(stderr, "%g ", number);
            std::fprintf(stderr, "\n");
        }
    }
    return near;
}

// The patched program drops other numbers than torch's generator does, the same for every number of replicas. Replicas round
// otherwise, since kernels differ with the rows of a call: the loss of the second epoch does not show it, later ones do.
void digits_of_mnist() {
    const auto before = last_numbers(printed(mnist_before::run));
    CHECK(before.size() == 4 && before[3] > 0.95);
    std::vector<double> loss_of_one;
    for (replicas = 1; replicas <= 3; ++replicas) {
        const std::string text = printed(mnist_after::run);
        const auto after = last_numbers(text), second = last_numbers(text.substr(0, text.find("epoch 3")));
        CHECK(after.size() == 4 && after[3] > 0.95 && std::fabs(after[1] - before[1]) < 0.1);
        CHECK(second.size() == 4);
        const std::vector<double> loss{second[1]};
        if (replicas == 1) loss_of_one = loss;
        CHECK(are_near(loss, loss_of_one, 3e-3));
    }
}

// One replica trains as torch alone; several normalise by their parts.
void pictures_of_dcgan() {
    const auto before = last_numbers(printed(dcgan_before::run));
    replicas = 1;
    CHECK(are_near(last_numbers(printed(dcgan_after::run)), before, 2e-3));
    replicas = 2;
    CHECK(are_near(last_numbers(printed(dcgan_after::run)), before, 0.2));
}

#include "torch_evaluation.hpp"

struct NetImpl : torch::nn::Module {
    NetImpl() {
        torch::manual_seed(7);
        first = register_module("first", torch::nn::Linear(6, 8));
        second = register_module("second", torch::nn::Linear(8, 3));
    }
    torch::Tensor forward(const torch::Tensor &x) { return second(torch::relu(first(x))); }
    torch::nn::Linear first{nullptr}, second{nullptr};
};

struct data {
    torch::Tensor x, y;
    data() {
        torch::manual_seed(1);
        x = torch::randn({24, 6});
        y = torch::randint(3, {24}, torch::kLong);
    }
    umbo::value batch() const { return umbo::adapters::batch_of({{"x", x}, {"y", y}}); }
};

torch::Tensor loss_of(NetImpl &net, const part &of) { return F::cross_entropy(net.forward(of["x"]), of["y"]); }

template <class Optimizer>
void train(torch_model<NetImpl> &model, Optimizer &rule, int steps) {
    const data all;
    for (int step = 0; step < steps; ++step) {
        model.train(all.batch(), loss_of);
        rule.step();
    }
}

template <class Rule>
void train_alone(NetImpl &net, Rule &rule, int steps) {
    const data all;
    for (int step = 0; step < steps; ++step) {
        rule.zero_grad();
        F::cross_entropy(net.forward(all.x), all.y).backward();
        rule.step();
    }
}

bool near_in(const std::vector<torch::Tensor> &a, const std::vector<torch::Tensor> &b, double tolerance) {
    for (std::size_t at = 0; at < a.size(); ++at) {
        if ((a[at] - b[at]).abs().max().item<double>() > tolerance) return false;
    }
    return a.size() == b.size();
}

// Steps of torch and of Umbo, with what either keeps handed to the other half of the way, in files.
template <class Rule, class Options>
void handed_over(const Options &options) {
    NetImpl alone;
    Rule theirs(alone.parameters(), options);
    train_alone(alone, theirs, 8);
    // From Umbo to torch,
    torch_model<NetImpl> model(umbo::adapters::torch_strategy(2), [] { return std::make_shared<NetImpl>(); });
    torch_optimizer ours(model, options);
    train(model, ours, 4);
    ours.save("rule.pt");
    NetImpl taken_over;
    {
        const torch::NoGradGuard no_grad;
        const auto from = model.central()->parameters(), to = taken_over.parameters();
        for (std::size_t at = 0; at < to.size(); ++at) to[at].copy_(from[at]);
    }
    Rule taking(taken_over.parameters(), options);
    torch::load(taking, "rule.pt");
    train_alone(taken_over, taking, 4);
    CHECK(near_in(taken_over.parameters(), alone.parameters(), 2e-5));
    // back,
    NetImpl half;
    Rule first(half.parameters(), options);
    train_alone(half, first, 4);
    torch::save(first, "rule.pt");
    torch_model<NetImpl> other(umbo::adapters::torch_strategy(3), [] { return std::make_shared<NetImpl>(); });
    auto module = std::make_shared<NetImpl>();
    {
        const torch::NoGradGuard no_grad;
        const auto from = half.parameters(), to = module->parameters();
        for (std::size_t at = 0; at < to.size(); ++at) to[at].copy_(from[at]);
    }
    other.assign(module);
    torch_optimizer second(other, options);
    second.load("rule.pt");
    train(other, second, 4);
    CHECK(near_in(other.central()->parameters(), alone.parameters(), 2e-5));
    // and from Umbo to Umbo, after other steps.
    ours.save("rule.pt");
    train(model, ours, 4);
    CHECK(near_in(model.central()->parameters(), alone.parameters(), 2e-5));
    second.load("rule.pt");
    const auto kept = [&](const umbo::adapters::torch_model<NetImpl> &of, const umbo::optimizer &rule) {
        return rule.variable_progress(of.parameters()[0]).update_count;
    };
    const bool counts = kept(model, ours.optimizer()) == 8 && options.lr() > 0;
    CHECK(counts);
}

void files_of_optimizers() {
    using namespace torch::optim;
    handed_over<SGD>(SGDOptions(0.05));
    handed_over<SGD>(SGDOptions(0.05).momentum(0.9).dampening(0.2).weight_decay(0.1));
    handed_over<Adam>(AdamOptions(0.01).betas({0.8, 0.95}));
    handed_over<AdamW>(AdamWOptions(0.01).amsgrad(true));
    handed_over<Adagrad>(AdagradOptions(0.05).lr_decay(0.1));
    handed_over<RMSprop>(RMSpropOptions(0.01).momentum(0.5).centered(true));

    torch_model<NetImpl> model(umbo::adapters::torch_strategy(2), [] { return std::make_shared<NetImpl>(); });
    torch_optimizer slow(model, AdamOptions(0.01)), quick(model, AdamOptions(0.02)), unlike(model, AdamOptions(0.01).eps(1e-3)),
        decaying(model, AdamOptions(0.01).weight_decay(0.1));
    slow.save("slow.pt");
    // Settings come along where torch itself loads them, which 1.13 does not.
    NetImpl net;
    Adam plain(net.parameters(), AdamOptions(0.02));
    torch::load(plain, "slow.pt");
    const double loaded = static_cast<const AdamOptions &>(plain.param_groups()[0].options()).lr();
    quick.load("slow.pt");
    CHECK(std::fabs(quick.optimizer().info().learning_rate - loaded) < 1e-12);
    const auto refused = [&](auto &rule, const char *naming) {
        try {
            rule.load("slow.pt");
        } catch (const umbo::error &failed) {
            return failed.status() == umbo::status::invalid_argument && std::string(failed.what()).find(naming) != std::string::npos;
        }
        return false;
    };
    if (loaded == 0.01) CHECK(refused(unlike, "another 'eps'") && refused(decaying, "another 'weight_decay'"));
    train(model, unlike, 1); // with the settings that it had
    bool missing = false;
    try {
        slow.load("nowhere.pt");
    } catch (const c10::Error &) {
        missing = true;
    }
    CHECK(missing);
}

// A rate that a scheduler of torch's sets, or the program in the parameter groups.
void schedulers() {
    using namespace torch::optim;
    const auto groups_of = [](NetImpl &net) {
        std::vector<OptimizerParamGroup> groups;
        groups.emplace_back(net.first->parameters());
        groups.emplace_back(net.second->parameters(), std::make_unique<SGDOptions>(SGDOptions(0.3).momentum(0.9)));
        return groups;
    };
    const auto options = SGDOptions(0.1).momentum(0.9);
    NetImpl alone;
    SGD theirs(groups_of(alone), options);
    StepLR their_schedule(theirs, 2, 0.5);
    torch_model<NetImpl> model(umbo::adapters::torch_strategy(2), [] { return std::make_shared<NetImpl>(); });
    torch_optimizer ours(model, options, groups_of(*model.central()));
    StepLR our_schedule(ours, 2, 0.5);
    for (int epoch = 0; epoch < 5; ++epoch) {
        train_alone(alone, theirs, 3);
        their_schedule.step();
        train(model, ours, 3);
        our_schedule.step();
    }
    CHECK(near_in(model.central()->parameters(), alone.parameters(), 2e-5));
    CHECK(std::fabs(ours.optimizer().info().learning_rate - 0.05) < 1e-12);
    static_cast<SGDOptions &>(ours.torch().param_groups()[1].options()).lr(7);
    bool refused = false;
    const data all;
    model.train(all.batch(), loss_of);
    try {
        ours.step();
    } catch (const umbo::error &failed) {
        refused = failed.status() == umbo::status::unimplemented && std::string(failed.what()).find("parameter group") != std::string::npos;
    }
    CHECK(refused);
}

// The function in the place of torch::dropout.
struct dropping : torch::nn::Module {
    dropping() {
        torch::manual_seed(7);
        layer = register_module("layer", umbo::adapters::keyed_dropout(torch::nn::DropoutOptions(0.25)));
        out = register_module("out", torch::nn::Linear(6, 3));
    }
    torch::Tensor forward(const torch::Tensor &x) {
        const auto ones = torch::ones_like(x);
        const auto first = umbo::adapters::dropout(ones, 0.5, is_training()), second = umbo::adapters::dropout(ones, 0.5, is_training());
        if (is_training()) {
            CHECK(torch::equal(first * (first - 2), torch::zeros_like(first)));
            CHECK(x.size(0) < 4 || !torch::equal(first, second));
        } else {
            CHECK(torch::equal(first, ones));
        }
        return out(layer(x * first + x * second));
    }
    umbo::adapters::keyed_dropout layer{nullptr};
    torch::nn::Linear out{nullptr};
};

void dropout_as_a_function() {
    const data all;
    const auto trained = [&](int count) {
        torch_model<dropping> model(umbo::adapters::torch_strategy(count), [] { return std::make_shared<dropping>(); });
        CHECK(std::fabs(model.central()->layer->p - 0.25) < 1e-12);
        torch_optimizer sgd(model, torch::optim::SGDOptions(0.1));
        for (int step = 0; step < 3; ++step) {
            model.train(all.batch(), [](dropping &net, const part &of) { return F::cross_entropy(net.forward(of["x"]), of["y"]); });
            sgd.step();
        }
        return model->out->weight.detach().clone();
    };
    const auto one = trained(1);
    CHECK(torch::allclose(one, trained(2), 1e-5, 1e-6) && torch::allclose(one, trained(3), 1e-5, 1e-6));
    for (const double p : {-0.1, 1.1}) {
        bool refused = false;
        try {
            umbo::adapters::dropout(all.x, p, true);
        } catch (const c10::Error &failed) {
            refused = std::string(failed.what()).find("from 0 to 1") != std::string::npos;
        }
        CHECK(refused);
    }
    bool outside = false;
    try {
        umbo::adapters::dropout(all.x, 0.5, true);
    } catch (const c10::Error &failed) {
        outside = std::string(failed.what()).find("steps of a torch_model") != std::string::npos;
    }
    CHECK(outside && torch::equal(umbo::adapters::dropout(all.x, 0.5, false), all.x));
}

// A module with a normalisation, made with arguments or without, that may be cloned.
struct normalImpl : torch::nn::Cloneable<normalImpl> {
    explicit normalImpl(std::int64_t hidden = 8) : width(hidden) { reset(); }
    void reset() override {
        first = register_module("first", torch::nn::Linear(6, width));
        norm = register_module("norm", torch::nn::BatchNorm1d(width));
        second = register_module("second", torch::nn::Linear(width, 3));
    }
    torch::Tensor forward(const torch::Tensor &x) { return second(torch::relu(norm(first(x)))); }
    std::int64_t width;
    torch::nn::Linear first{nullptr}, second{nullptr};
    torch::nn::BatchNorm1d norm{nullptr};
};
TORCH_MODULE(normal);

torch::Tensor cost_of(normalImpl &net, const part &of) { return F::cross_entropy(net.forward(of["x"]), of["y"]); }

// A module of the program's follows the training, keeps its modes, and torch's generator draws as without Umbo.
void modules_of_the_program() {
    const data all;
    torch::manual_seed(5);
    normal alone(12), net(12);
    {
        const torch::NoGradGuard no_grad;
        const auto from = net->parameters(), to = alone->parameters();
        for (std::size_t at = 0; at < to.size(); ++at) to[at].copy_(from[at]);
    }
    torch::manual_seed(6);
    const auto drawn = torch::rand({4});
    for (const int count : {1, 2}) {
        normal trained(12);
        {
            const torch::NoGradGuard no_grad;
            const auto from = net->parameters(), to = trained->parameters();
            for (std::size_t at = 0; at < to.size(); ++at) to[at].copy_(from[at]);
        }
        torch::manual_seed(6);
        torch_optimizer sgd(umbo::adapters::torch_strategy(count), trained, torch::optim::SGDOptions(0.1));
        CHECK(torch::equal(torch::rand({4}), drawn));
        trained->norm->eval(); // a submodule that is frozen in its statistics
        for (int step = 0; step < 3; ++step) {
            sgd.zero_grad();
            const auto loss = sgd.train(all.batch(), cost_of);
            loss.backward();
            sgd.step();
            CHECK(trained->is_training() && !trained->norm->is_training() && loss.item<double>() > 0);
        }
        CHECK(torch::equal(trained->norm->running_mean, torch::zeros({12})));
        trained->train();
        sgd.train(all.batch(), cost_of);
        sgd.step();
        CHECK(!torch::equal(trained->norm->running_mean, torch::zeros({12})));
        CHECK(near_in(trained->buffers(), sgd.model().central()->buffers(), 0) && !trained->is_training());
        // An evaluation leaves the modes as they are.
        trained->first->train();
        sgd.strategy().run(sgd.model().evaluation("sum", [](normalImpl &module, const part &of) {
            CHECK(!module.first->is_training());
            return module.forward(of["x"]).sum();
        }), sgd.strategy().split(all.batch()));
        CHECK(trained->first->is_training() && !trained->is_training());
        if (count == 2) continue;
        torch::optim::SGD rule(alone->parameters(), torch::optim::SGDOptions(0.1));
        for (int step = 0; step < 4; ++step) {
            if (step < 3) alone->norm->eval();
            else alone->train();
            rule.zero_grad();
            F::cross_entropy(alone->forward(all.x), all.y).backward();
            rule.step();
        }
        CHECK(near_in(trained->parameters(), alone->parameters(), 1e-5) && near_in(trained->buffers(), alone->buffers(), 1e-5));
    }
}

void modules_that_are_refused() {
    const auto refused = [](auto make, const char *naming) {
        try {
            make();
        } catch (const umbo::error &failed) {
            return failed.status() == umbo::status::invalid_argument && std::string(failed.what()).find(naming) != std::string::npos;
        }
        return false;
    };
    const auto strategy = umbo::adapters::torch_strategy(2);
    const auto sgd = torch::optim::SGDOptions(0.1);
    CHECK(refused([&] { torch_optimizer(strategy, std::shared_ptr<NetImpl>(), sgd); }, "module is null"));
    CHECK(refused([&] { torch_model<normalImpl>(strategy, std::make_shared<normalImpl>(12), [] { return std::make_shared<normalImpl>(8); }); },
                  "of other shapes"));
    const auto extended = std::make_shared<NetImpl>();
    extended->register_module("third", torch::nn::Linear(1, 1));
    CHECK(refused([&] { torch_optimizer(strategy, extended, sgd); }, "of other names"));
    // Steps without an update between them.
    torch_optimizer twice(strategy, std::make_shared<NetImpl>(), sgd);
    twice.train(data().batch(), loss_of);
    bool failed = false;
    try {
        twice.train(data().batch(), loss_of);
    } catch (const umbo::error &error) {
        failed = error.status() == umbo::status::failed_precondition;
    }
    CHECK(failed);
}

void a_number_that_cannot_be_had() {
    using umbo::adapters::common_detail::replica_choice;
    // Where the next number cannot be had, the one before stays, and the text says why.
    replica_choice refused(2);
    while (!refused.add(1.0)) {}
    refused.stay(2, "no memory");
    CHECK(!refused.is_open() && refused.replicas() == 2);
    CHECK(refused.text().find("1 replica cannot be had: no memory") != std::string::npos);
}

// The training goes its way while the number of replicas changes under it: losses, momenta, rates, statistics, dropout.
void replicas_that_are_chosen() {
    const data all;
    const auto trained = [&](auto replicas, std::int64_t in_sync, std::string *said) {
        torch::manual_seed(9);
        normal net(12);
        umbo::adapters::torch_options how;
        how.replicas_in_sync = in_sync;
        torch_optimizer sgd(replicas, net, torch::optim::SGDOptions(0.05).momentum(0.9),
                            std::vector<torch::optim::OptimizerParamGroup>(), how);
        torch::optim::StepLR scheduler(sgd, 20, 0.7);
        net->norm->eval();
        for (int step = 0; step < 120; ++step) {
            sgd.train(all.batch(), [](normalImpl &module, const part &of) {
                return F::cross_entropy(module.forward(umbo::adapters::dropout(of["x"], 0.2, true)), of["y"]);
            });
            sgd.step();
            scheduler.step();
        }
        if (said != nullptr) *said = sgd.choice();
        CHECK(sgd.optimizer().variable_progress(sgd.model().parameters()[0]).update_count == 120);
        std::vector<torch::Tensor> parameters;
        for (const auto &each : net->parameters()) parameters.push_back(each.detach().clone());
        return parameters;
    };
    std::string said;
    const auto chosen = trained(UMBO_AUTO, 0, &said), fixed = trained(1, 0, nullptr);
    CHECK(near_in(chosen, fixed, 1e-4));
    CHECK(near_in(trained(UMBO_AUTO, 4, nullptr), trained(1, 4, nullptr), 0)); // bit by bit
    const auto processors = umbo::adapters::torch_strategy().replica_count();
    CHECK(processors == 1 || said.find("a step takes") != std::string::npos);
    // What is handed out stays.
    torch_optimizer settled(UMBO_AUTO, std::make_shared<NetImpl>(), torch::optim::SGDOptions(0.1));
    CHECK(settled.strategy().replica_count() == processors && settled.choice().find("nothing was measured") != std::string::npos);
    for (int step = 0; step < 40; ++step) {
        settled.train(all.batch(), loss_of);
        settled.step();
    }
    CHECK(settled.strategy().replica_count() == processors);
}

} // namespace

int main() {
    a_number_that_cannot_be_had();
    replicas_that_are_chosen();
    modules_of_the_program();
    modules_that_are_refused();
    evaluations_over_loaders();
    schedulers();
    files_of_optimizers();
    dropout_as_a_function();
    pictures_of_dcgan();
    digits_of_mnist();
    return finish();
}

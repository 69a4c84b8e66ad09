// A test over a loader of torch's, as docs/engines.md has it, and loaders with threads of their own.
#pragma once

namespace evaluation {

// Dropout and a normalisation, which evaluation switches off, and a last batch that is smaller than the others.
struct Pictures : torch::data::datasets::Dataset<Pictures> {
    explicit Pictures(std::int64_t count) {
        torch::manual_seed(count);
        x = torch::randn({count, 6});
        y = torch::randint(3, {count}, torch::kLong);
    }
    torch::data::Example<> get(std::size_t index) override { return {x[static_cast<std::int64_t>(index)], y[static_cast<std::int64_t>(index)]}; }
    torch::optional<std::size_t> size() const override { return x.size(0); }
    torch::Tensor x, y;
};

struct Net : torch::nn::Module {
    Net() {
        torch::manual_seed(7);
        first = register_module("first", torch::nn::Linear(6, 8));
        norm = register_module("norm", torch::nn::BatchNorm1d(8));
        second = register_module("second", torch::nn::Linear(8, 3));
    }
    torch::Tensor forward(const torch::Tensor &x) {
        const auto hidden = umbo::adapters::dropout(torch::relu(norm(first(x))), 0.5, is_training());
        return torch::log_softmax(second(hidden), 1);
    }
    torch::nn::Linear first{nullptr}, second{nullptr};
    torch::nn::BatchNorm1d norm{nullptr};
};

inline int count = 1;

// The lines of docs/engines.md, around a network and data that they do not say; and the same by torch alone.
inline void run() {
    const auto net = std::make_shared<Net>();
    torch_optimizer optimizer(umbo::adapters::torch_strategy(count), net, torch::optim::SGDOptions(0.1));
    const auto options = torch::data::DataLoaderOptions(16).workers(2);
    auto train_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Pictures(48).map(torch::data::transforms::Stack<>()), options);
    auto test_loader = torch::data::make_data_loader<torch::data::samplers::SequentialSampler>(
        Pictures(37).map(torch::data::transforms::Stack<>()), options);
    for (auto &batch : *train_loader) {
        optimizer.train(batch, [](Net &each, const part &of) { return torch::nll_loss(each.forward(of["data"]), of["target"]); });
        optimizer.step();
    }
#include "torch_evaluation.inc"
    CHECK(net->is_training()); // as before
    net->eval();
    const Pictures all(37);
    const torch::NoGradGuard no_gradients;
    const auto output = net->forward(all.x);
    CHECK(std::fabs(tested[0] - torch::nll_loss(output, all.y).item<double>()) < 1e-6);
    CHECK(std::fabs(tested[1] - output.argmax(1).eq(all.y).to(torch::kDouble).mean().item<double>()) < 1e-12);
    // Over an iterator of Umbo's; and no number, over no batches.
    auto &model = optimizer.model();
    const auto batches = model.strategy().iterate(umbo::adapters::rows_of({{"data", all.x}, {"target", all.y}}).batch(10));
    const auto right = [](Net &each, const part &of) {
        return std::vector<torch::Tensor>{each.forward(of["data"]).argmax(1).eq(of["target"]).sum()};
    };
    const auto again = model.evaluate(batches, {"right"}, right);
    CHECK(again.size() == 1 && std::fabs(again[0] - tested[1]) < 1e-12);
    const auto none = model.evaluate(std::vector<umbo::value>(), {"right"}, right);
    CHECK(none.size() == 1 && std::isnan(none[0]));
}

// What torch::load puts into the program's module, at any time, is trained from then on: parameters, and what is tracked.
inline void load() {
    const Pictures all(24);
    const auto batch = umbo::adapters::batch_of({{"data", all.x}, {"target", all.y}});
    const auto loss = [](Net &each, const part &of) { return torch::nll_loss(each.forward(of["data"]), of["target"]); };
    const auto saved = std::make_shared<Net>();
    {
        const torch::NoGradGuard no_gradients;
        for (auto &parameter : saved->parameters()) parameter.mul_(1.5);
        saved->norm->running_mean.fill_(0.25);
    }
    torch::save(saved, "loaded.pt");
    std::vector<std::vector<torch::Tensor>> trained;
    for (int when = 0; when < 3; ++when) { // before the optimizer is made, before the first step, after one
        auto net = std::make_shared<Net>();
        if (when == 0) torch::load(net, "loaded.pt");
        torch_optimizer optimizer(umbo::adapters::torch_strategy(count), net, torch::optim::SGDOptions(0.1));
        if (when == 2) {
            optimizer.train(batch, loss);
            optimizer.step();
        }
        if (when > 0) torch::load(net, "loaded.pt");
        // The keys of random numbers follow from the number of the step.
        net->eval();
        optimizer.train(batch, loss);
        optimizer.step();
        trained.push_back(net->parameters());
        trained.back().push_back(net->norm->running_mean);
        for (auto &tensor : trained.back()) tensor = tensor.detach().clone();
        CHECK(trained.size() == 1 || std::equal(trained.front().begin(), trained.front().end(), trained.back().begin(),
                                                [](const auto &one, const auto &other) { return torch::equal(one, other); }));
    }
    CHECK(torch::allclose(trained.front().back(), torch::full({8}, 0.25)));
}

} // namespace evaluation

// The order of a loader with threads is that of its sampler: the weights of a run, and so what it prints, are the same each time.
inline void evaluations_over_loaders() {
    for (evaluation::count = 1; evaluation::count <= 3; ++evaluation::count) {
        const std::string first = printed(evaluation::run);
        CHECK(first.find("loss") == 0 && printed(evaluation::run) == first);
        evaluation::load();
    }
}

// Dropout, keyed and torch's own. Included by test_torch.cpp, in its namespace.

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

// What a GPU draws by operations of torch's is what the loop draws.
void factors_by_tensors() {
    using namespace umbo::adapters::torch_detail;
    for (const std::uint64_t key : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x8000000000000001u}, mixed(7)}) {
        for (const double p : {0.25, 0.5, 1.0}) {
            const auto limit = static_cast<std::uint64_t>(p * 4294967296.0);
            const draw_of all{key, 1000003, 9, 50, limit, p < 1 ? static_cast<float>(1 / (1 - p)) : 0.0f};
            const auto by_loop = drawn_by_loop(all);
            CHECK(torch::equal(drawn_by_tensors(all, torch::kCPU), by_loop));
            CHECK(std::abs((by_loop == 0).to(torch::kDouble).mean().item<double>() - p) < 0.1);
        }
        CHECK(drawn_by_tensors(draw_of{key, 0, 0, 3, 1, 1.0f}, torch::kCPU).sizes() == torch::IntArrayRef({0, 3}));
    }
}

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

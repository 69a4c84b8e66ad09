// Networks, data and losses that the tests of LibTorch share. Included by test_torch.cpp, in its namespace.

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

torch::Tensor loss_of_any_width(NetImpl &net, const part &of) {
    return F::cross_entropy(net.forward(of["x"].to(net.first->weight.scalar_type())).to(torch::kFloat), of["y"]);
}

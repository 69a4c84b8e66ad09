// Loops as torch's tutorials write them: loaders and rules of torch, two networks in a step. Included by test_torch.cpp, in
// whose namespace are its networks.

// Batches of a loader, with and without collation, and of tensors train alike, split in `train` or before.
inline void batches_of_loaders() {
    struct rows_impl : torch::data::datasets::Dataset<rows_impl> {
        data all;
        torch::data::Example<> get(std::size_t index) override {
            const auto row = static_cast<std::int64_t>(index);
            return {all.x[row], all.y[row]};
        }
        torch::optional<std::size_t> size() const override { return static_cast<std::size_t>(examples); }
    };
    constexpr std::size_t batch_size = 7; // the last batch is smaller
    const auto loss = [](NetImpl &net, const part &of) { return F::cross_entropy(net.forward(of["data"]), of["target"]); };
    const auto train_over = [&](std::int64_t replicas, auto &&batches, auto &&as_batch) {
        torch_model<NetImpl> model(umbo::adapters::torch_strategy(replicas), [] { return std::make_shared<NetImpl>(); });
        const auto adam = umbo::adapters::optimizer_of(model, torch::optim::AdamOptions(1e-2));
        for (auto &batch : batches) {
            const auto mean = model.train(as_batch(model, batch), loss);
            const torch::Tensor scalar = mean;
            CHECK(scalar.scalar_type() == torch::kDouble && scalar.item<double>() == mean.template item<double>() && mean.item() > 0);
            adam.apply(model.gradients());
        }
        return model->second->weight.detach().clone();
    };
    const auto as_it_is = [](auto &, auto &batch) -> auto & { return batch; };
    const auto split_before = [](auto &model, auto &batch) { return model.strategy().split(umbo::adapters::batch_of(batch)); };
    using sequential = torch::data::samplers::SequentialSampler;
    const auto stacked = [&] {
        return torch::data::make_data_loader<sequential>(rows_impl().map(torch::data::transforms::Stack<>()), batch_size);
    };
    const auto single = torch::data::make_data_loader<sequential>(rows_impl(), batch_size);
    std::vector<umbo::value> slices;
    const data all;
    for (std::int64_t first = 0; first < examples; first += batch_size) {
        const std::int64_t end = std::min<std::int64_t>(first + batch_size, examples);
        const auto x = all.x.slice(0, first, end), y = all.y.slice(0, first, end);
        slices.push_back(umbo::adapters::batch_of({{"data", x}, {"target", y}}));
    }
    const auto of_one = train_over(1, slices, as_it_is);
    CHECK(is_near(train_over(1, *stacked(), as_it_is), of_one, 1e-5));
    const auto of_two = train_over(2, slices, as_it_is);
    CHECK(is_near(of_two, of_one, 1e-5));
    CHECK(is_near(train_over(2, *stacked(), as_it_is), of_two, 1e-5));
    CHECK(is_near(train_over(2, *stacked(), split_before), of_two, 1e-5));
    CHECK(is_near(train_over(2, *single, as_it_is), of_two, 1e-5));
}

inline void batches_that_are_refused() {
    using umbo::adapters::batch_of;
    CHECK(is_refused(refusal_of([] { batch_of({{"data", torch::ones({2})}, {"target", torch::Tensor()}}); }),
                     umbo::status::invalid_argument, "'target'"));
    CHECK(is_refused(refusal_of([] { batch_of(std::vector<torch::data::Example<>>()); }), umbo::status::invalid_argument,
                     "examples: a batch needs one"));
    CHECK(is_refused(refusal_of([] { batch_of({{"x", torch::ones({4, inputs})}, {"y", torch::ones({3})}}); }),
                     umbo::status::invalid_argument, "'y' has 3 rows, and the first field 4"));
    CHECK(is_refused(refusal_of([] { batch_of({{"x", torch::ones({})}}); }), umbo::status::invalid_argument, "'x' is a scalar"));
}

// Torch's rule alone and Umbo's of the same options come to the same.
template <class Rule, class Options>
void rule_as_in_torch(const Options &options, bool grouped) {
    const data all;
    torch_model<NetImpl> model(umbo::adapters::torch_strategy(2), [] { return std::make_shared<NetImpl>(); });
    NetImpl alone;
    Options other = options;
    other.lr(options.lr() * 3);
    other.weight_decay(0);
    const auto groups_of = [&](NetImpl &net) {
        std::vector<torch::optim::OptimizerParamGroup> groups;
        groups.emplace_back(std::vector<torch::Tensor>{net.first->weight, net.second->weight});
        groups.emplace_back(std::vector<torch::Tensor>{net.first->bias}, std::make_unique<Options>(other));
        return groups; // without second->bias, which is not trained
    };
    std::unique_ptr<Rule> theirs = grouped ? std::make_unique<Rule>(groups_of(alone), options)
                                           : std::make_unique<Rule>(alone.parameters(), options);
    using umbo::adapters::optimizer_of;
    const auto ours = grouped ? optimizer_of(model, options, groups_of(*model.central())) : optimizer_of(model, options);
    for (int step = 0; step < 6; ++step) {
        model.train(all.batch(), loss_of<NetImpl>);
        ours.apply(model.gradients());
        alone.zero_grad();
        F::cross_entropy(alone.forward(all.x), all.y).backward();
        theirs->step();
    }
    const auto initial = std::make_shared<NetImpl>()->parameters();
    const auto mine = model.central()->parameters(), others = alone.parameters();
    for (std::size_t index = 0; index < mine.size(); ++index) CHECK(is_near(mine[index], others[index], 2e-5));
    CHECK(!torch::equal(mine[1], initial[1]));
    CHECK(torch::equal(mine.back(), initial.back()) == grouped);
}

inline void rules_of_torch() {
    using namespace torch::optim;
    for (const bool grouped : {false, true}) {
        rule_as_in_torch<SGD>(SGDOptions(0.05), grouped);
        rule_as_in_torch<SGD>(SGDOptions(0.05).momentum(0.9).dampening(0.2).weight_decay(0.1), grouped);
        rule_as_in_torch<SGD>(SGDOptions(0.05).momentum(0.9).nesterov(true), grouped);
        rule_as_in_torch<Adam>(AdamOptions(0.01).betas({0.8, 0.95}).eps(1e-6).weight_decay(0.1), grouped);
        rule_as_in_torch<Adam>(AdamOptions(0.01).amsgrad(true), grouped);
        rule_as_in_torch<AdamW>(AdamWOptions(0.01).weight_decay(0.2), grouped);
        rule_as_in_torch<Adagrad>(AdagradOptions(0.05).lr_decay(0.1).initial_accumulator_value(0.1).weight_decay(0.1), grouped);
        rule_as_in_torch<RMSprop>(RMSpropOptions(0.01).alpha(0.9).momentum(0.5).weight_decay(0.1), grouped);
        rule_as_in_torch<RMSprop>(RMSpropOptions(0.01).centered(true), grouped);
    }
}

inline void rules_that_are_refused() {
    using namespace torch::optim;
    using umbo::adapters::optimizer_of;
    torch_model<NetImpl> model(umbo::adapters::torch_strategy(1), [] { return std::make_shared<NetImpl>(); });
    const AdamOptions options(0.01);
    const auto with_group = [&](std::vector<torch::Tensor> tensors, const OptimizerOptions &own, double rate = 0.01) {
        std::vector<OptimizerParamGroup> groups;
        groups.emplace_back(std::move(tensors), own.clone());
        return refusal_of([&] { optimizer_of(model, AdamOptions(rate), groups); });
    };
    const auto weight = model->first->weight;
    CHECK(is_refused(with_group({weight}, AdamOptions(0.01).betas({0.5, 0.9})), umbo::status::unimplemented, "'betas'"));
    CHECK(is_refused(with_group({weight}, AdamOptions(0.01).amsgrad(true)), umbo::status::unimplemented, "'amsgrad'"));
    CHECK(is_refused(with_group({weight}, SGDOptions(0.01)), umbo::status::invalid_argument, "another rule"));
    CHECK(is_refused(with_group({weight}, options, 0), umbo::status::unimplemented, "'lr'"));
    CHECK(is_refused(with_group({weight, weight}, options), umbo::status::invalid_argument, "in a group already"));
    CHECK(is_refused(with_group({torch::ones({2})}, options), umbo::status::invalid_argument, "not a parameter"));
    CHECK(is_refused(refusal_of([&] { optimizer_of(model, SGDOptions(0.1).nesterov(true)); }), umbo::status::invalid_argument,
                     "nesterov"));
    CHECK(is_refused(refusal_of([&] { optimizer_of(model, AdamOptions(0.1).eps(0)); }), umbo::status::invalid_argument,
                     "epsilon"));
    CHECK(is_refused(refusal_of([&] { optimizer_of(model, SGDOptions(0.1).momentum(1.5)); }), umbo::status::invalid_argument,
                     "momentum"));
}

// A generator and a discriminator, whose running statistics are checked as well.
struct critic_impl : torch::nn::Module {
    critic_impl() {
        torch::manual_seed(11);
        first = register_module("first", torch::nn::Linear(2, hidden));
        last = register_module("last", torch::nn::Linear(hidden, 1));
    }
    torch::Tensor forward(const torch::Tensor &points) { return last(torch::leaky_relu(first(points), 0.2)).squeeze(1); }
    torch::nn::Linear first{nullptr}, last{nullptr};
};

struct maker_impl : torch::nn::Module {
    explicit maker_impl(bool normalises = false) {
        torch::manual_seed(12);
        first = register_module("first", torch::nn::Linear(3, hidden));
        if (normalises) norm = register_module("norm", torch::nn::BatchNorm1d(hidden));
        last = register_module("last", torch::nn::Linear(hidden, 2));
    }
    torch::Tensor forward(torch::Tensor noise) {
        noise = first(noise);
        if (!norm.is_empty()) noise = norm(noise);
        return last(torch::tanh(noise));
    }
    torch::nn::Linear first{nullptr}, last{nullptr};
    torch::nn::BatchNorm1d norm{nullptr};
};

inline torch::Tensor judged(critic_impl &critic, const torch::Tensor &points, double as) {
    return F::binary_cross_entropy_with_logits(critic.forward(points), torch::full({points.size(0)}, as));
}

// Steps of both networks alternately, as torch alone makes them.
inline void two_networks() {
    using namespace torch::optim;
    torch::manual_seed(5);
    const auto real = torch::randn({10, examples, 2}) / 4 + 1, noise = torch::randn({10, examples, 3});
    const auto how = AdamOptions(0.01).betas({0.5, 0.999});
    critic_impl critic_alone;
    maker_impl maker_alone;
    Adam of_critic(critic_alone.parameters(), how), of_maker(maker_alone.parameters(), how);
    const auto on_real_and_fake = [](critic_impl &critic, const torch::Tensor &points, const torch::Tensor &fake) {
        return judged(critic, points, 1) + judged(critic, fake.detach(), 0);
    };
    for (std::int64_t step = 0; step < real.size(0); ++step) {
        critic_alone.zero_grad();
        on_real_and_fake(critic_alone, real[step], maker_alone.forward(noise[step])).backward();
        of_critic.step();
        maker_alone.zero_grad();
        judged(critic_alone, maker_alone.forward(noise[step]), 1).backward();
        of_maker.step();
    }
    for (const std::int64_t replicas : {1, 2, 3}) {
        const auto strategy = umbo::adapters::torch_strategy(replicas);
        torch_model<critic_impl> critic(strategy, [] { return std::make_shared<critic_impl>(); });
        torch_model<maker_impl> maker(strategy, [] { return std::make_shared<maker_impl>(); });
        const auto critic_rule = umbo::adapters::optimizer_of(critic, how), maker_rule = umbo::adapters::optimizer_of(maker, how);
        for (std::int64_t step = 0; step < real.size(0); ++step) {
            const auto batch = umbo::adapters::batch_of({{"real", real[step]}, {"noise", noise[step]}});
            critic.train(batch, [&](critic_impl &net, const part &of, maker_impl &other) {
                CHECK(!other.first->weight.requires_grad() && net.first->weight.requires_grad());
                return on_real_and_fake(net, of["real"], other.forward(of["noise"]));
            }, maker);
            critic_rule.apply(critic.gradients());
            maker.train(batch, [](maker_impl &net, const part &of, critic_impl &other) {
                return judged(other, net.forward(of["noise"]), 1);
            }, critic);
            maker_rule.apply(maker.gradients());
        }
        const auto near = [](const std::vector<torch::Tensor> &ours, const std::vector<torch::Tensor> &theirs) {
            for (std::size_t index = 0; index < ours.size(); ++index) CHECK(is_near(ours[index], theirs[index], 1e-4));
        };
        near(critic->parameters(), critic_alone.parameters());
        near(maker->parameters(), maker_alone.parameters());
    }
}

// Another model of a step is as before, also after a loss that throws, except for what its normalisation tracks.
inline void others_of_a_step() {
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_model<critic_impl> critic(strategy, [] { return std::make_shared<critic_impl>(); });
    torch_model<maker_impl> maker(strategy, [] { return std::make_shared<maker_impl>(true); });
    const auto batch = umbo::adapters::batch_of({{"noise", torch::ones({examples, 3})}});
    const auto loss = [](critic_impl &net, const part &of, maker_impl &other) {
        return judged(net, other.forward(of["noise"]), 0);
    };
    const auto trains = [](auto &model) {
        int frozen = 0;
        model.for_each_replica([&](auto &net) {
            for (const auto &parameter : net.parameters()) frozen += parameter.requires_grad() ? 0 : 1;
        });
        return frozen == 0;
    };
    bool failed = false;
    try {
        critic.train(batch, [&](critic_impl &net, const part &of, maker_impl &other) -> torch::Tensor {
            loss(net, of, other).backward();
            throw std::runtime_error("as planned");
        }, maker);
    } catch (const std::runtime_error &) {
        failed = true;
    }
    CHECK(failed && trains(critic) && trains(maker));
    CHECK(maker->norm->num_batches_tracked.item<std::int64_t>() == 0);
    critic.train(batch, loss, maker);
    umbo::adapters::optimizer_of(critic, torch::optim::SGDOptions(0.1)).apply(critic.gradients());
    CHECK(trains(critic) && trains(maker));
    CHECK(maker->norm->num_batches_tracked.item<std::int64_t>() == 1);
    for (const auto &parameter : maker->parameters()) CHECK(!parameter.grad().defined());
    CHECK(is_refused(refusal_of([&] {
        critic.train(batch, [](critic_impl &net, const part &of, critic_impl &) {
            return net.forward(of["noise"]).sum();
        }, critic);
    }), umbo::status::invalid_argument, "in the step already"));
}

// Channels are dropped whole, the same for every number of replicas.
struct channels_impl : torch::nn::Module {
    channels_impl() {
        torch::manual_seed(7);
        dropout = register_module("dropout", umbo::adapters::keyed_dropout2d(0.5, 5));
        out = register_module("out", torch::nn::Linear(4, classes));
    }
    torch::Tensor forward(const torch::Tensor &x) {
        const auto kept = dropout(torch::ones({x.size(0), 4, 3, 2}));
        CHECK(!is_training() || torch::equal(kept, kept.amax({2, 3}, true).expand_as(kept)));
        CHECK(!is_training() || torch::equal(kept * (kept - 2), torch::zeros_like(kept)));
        return out(kept.mean({2, 3}) * x.slice(1, 0, 4));
    }
    umbo::adapters::keyed_dropout2d dropout{nullptr};
    torch::nn::Linear out{nullptr};
};

inline void channels_that_drop() {
    const data all;
    const auto trained = [&](int replicas) {
        const auto make = [] { return std::make_shared<channels_impl>(); };
        torch_model<channels_impl> model(umbo::adapters::torch_strategy(replicas), make);
        const auto sgd = umbo::adapters::optimizer_of(model, torch::optim::SGDOptions(0.1));
        for (int step = 0; step < 3; ++step) {
            model.train(all.batch(), loss_of<channels_impl>);
            sgd.apply(model.gradients());
        }
        return model->out->weight.detach().clone();
    };
    const auto one = trained(1);
    CHECK(is_near(one, trained(2), 1e-5) && is_near(one, trained(3), 1e-5));
}

inline void several_metrics() {
    const data all;
    const auto strategy = umbo::adapters::torch_strategy(2);
    torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
    const auto measure = [](NetImpl &net, const part &of) {
        const auto found = net.forward(of["x"]);
        return std::vector<torch::Tensor>{
            F::cross_entropy(found, of["y"], F::CrossEntropyFuncOptions().reduction(torch::kSum)),
            (found.argmax(1) == of["y"]).sum()};
    };
    const auto batch = strategy.split(all.batch());
    strategy.run(model.evaluation({"loss", "right"}, measure), batch);
    const auto found = model->forward(all.x);
    CHECK(std::abs(strategy.metric_result("loss").mean - F::cross_entropy(found, all.y).item<double>()) < 1e-6);
    CHECK(strategy.metric_result("right").sum == (found.argmax(1) == all.y).sum().item<double>());
    CHECK(is_refused(refusal_of([&] { strategy.run(model.evaluation({"loss", "right", "left"}, measure), batch); }),
                     umbo::status::invalid_argument, "2 sums for 3 metrics"));
}

inline void loops_of_torch() {
    batches_of_loaders();
    batches_that_are_refused();
    rules_of_torch();
    rules_that_are_refused();
    two_networks();
    others_of_a_step();
    channels_that_drop();
    several_metrics();
}

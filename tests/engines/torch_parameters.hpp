// Normalisations, sparse and narrow gradients, frozen parameters, files. Included by test_torch.cpp, in its namespace.

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

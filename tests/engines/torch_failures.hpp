// What is refused, and what a failure leaves. Included by test_torch.cpp, in its namespace.

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

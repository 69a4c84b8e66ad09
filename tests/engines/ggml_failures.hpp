// What is refused, and what a failure leaves. Included by test_ggml.cpp, in its namespace.

// What goes wrong in a step or between steps leaves the network as it was before, and the next epoch is a whole one.
struct troubled : perceptron {
    std::atomic<int> *trouble; // graphs that are still made without
    troubled(ggml_context *ctx, std::atomic<int> *when) : perceptron(ctx, settings().of), trouble(when) {}
    ggml_tensor *forward(ggml_context *ctx, ggml_tensor *inputs) const {
        if (--*trouble < 0) throw std::runtime_error("as planned");
        return perceptron::forward(ctx, inputs);
    }
};

void failing_callbacks() {
    const examples all;
    const auto strategy = umbo::strategy::create_cpu(2);
    std::atomic<int> trouble{1};
    ggml_model<troubled> model(strategy, options_of({}), [&](ggml_context *ctx) { return troubled(ctx, &trouble); },
                               [](troubled &net) { net.draw(0.3f); });
    ggml_loop<troubled> loop(model, all.of_umbo());
    const auto before = model.central().numbers();
    const auto message_of = [](auto action) {
        try {
            action();
        } catch (const std::runtime_error &failed) {
            return std::string(failed.what());
        }
        return std::string();
    };
    CHECK(message_of([&] { loop.epoch(); }).find("as planned") != std::string::npos);
    CHECK(model.central().numbers() == before);
    trouble = 100;
    CHECK(message_of([&] {
        loop.epoch([](bool, const ggml_result &, std::int64_t number, std::int64_t, std::int64_t) {
            if (number == 2) throw std::runtime_error("enough");
        });
    }) == "enough");
    CHECK(model.central().numbers() != before && loop.optimizer().info().iterations == 2);
    CHECK(loop.epoch().first.ndata == all.rows);
}

// An operation that takes a while, after which ggml sees that the time is up.
void sleep_in_graph(ggml_tensor *to, const ggml_tensor *from, int, int, void *) {
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    ggml_backend_tensor_get(from, to->data, 0, ggml_nbytes(from));
}

struct slow : perceptron {
    using perceptron::perceptron;
    ggml_tensor *forward(ggml_context *ctx, ggml_tensor *inputs) const {
        return perceptron::forward(ctx, ggml_map_custom1(ctx, inputs, sleep_in_graph, 1, nullptr));
    }
};

void deadlines_stop_graphs() {
    const settings how;
    const examples all(how);
    const auto strategy = umbo::strategy::create_cpu(2);
    ggml_model<slow> model(strategy, options_of(how), [&](ggml_context *ctx) { return slow(ctx, how.of); }, [](slow &net) { net.draw(0.3f); });
    const auto before = model.central().numbers();
    const auto step = model.step();
    umbo::run_options limited;
    limited.timeout_seconds = 0.1;
    const auto pass = strategy.iterate(all.of_umbo().batch(batch));
    CHECK(is_refused(refusal_of([&] { strategy.run(step, pass.next(), limited); }), umbo::status::deadline_exceeded, ""));
    strategy.synchronize(); // the replicas are back
    CHECK(model.central().numbers() == before);
    CHECK(model.train(pass.next()) > 0);
}

// Whatever ggml would end the process over is an error before, which names the replica.
void mistakes_are_named() {
    using umbo::status;
    const settings how;
    const examples all(how);
    const auto strategy = umbo::strategy::create_cpu(2);
    const auto make = [&](ggml_context *ctx) { return perceptron(ctx, how.of); };
    const auto nothing = [](perceptron &) {};
    const auto made_with = [&](const ggml_options &options) {
        return refusal_of([&] { ggml_model<perceptron>(strategy, options, make, nothing); });
    };
    CHECK(is_refused(made_with({}), status::invalid_argument, "datapoint_size"));
    auto options = options_of(how);
    options.threads = 0;
    CHECK(is_refused(made_with(options), status::invalid_argument, "threads"));
    options = options_of(how);
    options.graph_size = 0;
    CHECK(is_refused(made_with(options), status::invalid_argument, "graph_size"));
    options = options_of(how);
    CHECK(is_refused(refusal_of([&] {
        ggml_model<perceptron>(strategy, options, [&](ggml_context *ctx) {
            auto net = perceptron(ctx, how.of);
            for (ggml_tensor *each : {net.w1, net.b1, net.w2, net.b2}) each->flags = 0;
            return net;
        }, nothing);
    }), status::invalid_argument, "ggml_set_param"));
    int calls = 0;
    CHECK(is_refused(refusal_of([&] {
        ggml_model<perceptron>(strategy, options, [&](ggml_context *ctx) {
            auto of = how.of;
            of.hidden += calls++;
            return perceptron(ctx, of);
        }, nothing);
    }), status::invalid_argument, "other tensors"));
    struct halves {
        ggml_tensor *w;
        explicit halves(ggml_context *ctx) : w(ggml_new_tensor_1d(ctx, GGML_TYPE_F16, 4)) { ggml_set_param(ggml_set_name(w, "w")); }
        ggml_tensor *forward(ggml_context *, ggml_tensor *inputs) const { return inputs; }
    };
    CHECK(is_refused(refusal_of([&] {
        ggml_model<halves>(strategy, options, [](ggml_context *ctx) { return halves(ctx); }, [](halves &) {});
    }), status::unimplemented, "'w' is of type f16"));

    const auto model = model_on(strategy);
    const auto train = [&](std::int64_t width, const umbo::value &labels) {
        const std::vector<float> x(static_cast<std::size_t>(4 * width));
        return refusal_of([&] {
            model->train(umbo::value::create_struct({{"data", umbo::value::from_data({4, width}, x)}, {"labels", labels}}));
        });
    };
    const auto labels = umbo::value::from_data({4, 5}, std::vector<float>(20));
    CHECK(is_refused(train(19, labels), status::invalid_argument, "'data' has 38 elements of float32 for 2 examples; each needs 20"));
    CHECK(is_refused(train(19, labels), status::invalid_argument, "replica 1"));
    CHECK(is_refused(train(20, umbo::value::from_data({4, 5}, std::vector<double>(20))), status::invalid_argument, "of float64 for 2"));
    CHECK(is_refused(refusal_of([&] { model->train(umbo::value::create_struct({{"x", labels}})); }), status::not_found, "data"));
    struct turned : perceptron {
        using perceptron::perceptron;
        ggml_tensor *forward(ggml_context *ctx, ggml_tensor *inputs) const {
            return ggml_cont(ctx, ggml_transpose(ctx, perceptron::forward(ctx, inputs)));
        }
    };
    ggml_model<turned> sideways(strategy, options, [&](ggml_context *ctx) { return turned(ctx, how.of); }, [](turned &) {});
    ggml_loop<turned> loop(sideways, all.of_umbo());
    CHECK(is_refused(refusal_of([&] { loop.epoch(); }), status::invalid_argument, "outputs are 16 x 5 for 16 examples"));

    ggml_loop_options with;
    with.idata_split = 0;
    CHECK(is_refused(refusal_of([&] { ggml_loop<perceptron>(*model, all.of_umbo(), with); }), status::invalid_argument, "idata_split"));
    with.idata_split = all.rows + 1;
    CHECK(is_refused(refusal_of([&] { ggml_loop<perceptron>(*model, all.of_umbo(), with); }), status::invalid_argument, "idata_split"));
    auto params = common_params();
    params.adamw.eps = 0;
    CHECK(is_refused(refusal_of([&] { umbo::adapters::optimizer_of(strategy, GGML_OPT_OPTIMIZER_TYPE_ADAMW, params); }),
                     status::invalid_argument, "epsilon"));
    CHECK(is_refused(refusal_of([&] { umbo::adapters::optimizer_of(strategy, GGML_OPT_OPTIMIZER_TYPE_COUNT, params); }),
                     status::unimplemented, "ggml's optimizer"));
}

// Replicas on GPUs are refused, where there are any: the tests' driver shows some.
void gpus_are_refused() {
    umbo::strategy_options options;
    options.compute_devices = {"CPU:0", "GPU:0"};
    CHECK(is_refused(refusal_of([&] { model_on(umbo::strategy::create(options)); }), umbo::status::unimplemented, "GPU:0"));
}

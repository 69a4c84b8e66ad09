// Processes that train together come to what one process does. Included by test_torch.cpp, in its namespace.

// What of the adapter has to come to the same over ranks.
enum class kind { dropout, sixteen_bits, normalisation, limits, rows };
constexpr kind kinds[] = {kind::dropout, kind::sixteen_bits, kind::normalisation, kind::limits, kind::rows};

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

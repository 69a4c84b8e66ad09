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
#include "compared.hpp"

namespace {

namespace F = torch::nn::functional;
using umbo::adapters::part;
using umbo::adapters::torch_model;
using umbo::adapters::torch_options;

#include "torch_networks.hpp"
#include "torch_over_ranks.hpp"

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

#include "torch_failures.hpp"

#include "torch_dropout.hpp"
#include "torch_loops.hpp"
#include "torch_parameters.hpp"

} // namespace

// The lines of docs/engines.md that put a module under Umbo, around a network and data that they do not say.
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
    factors_by_tensors();
    dropout_of_torch_warns();
    saved_and_loaded();
    checked();
    failures_and_kept_batches();
    loops_of_torch();
    return finish();
}

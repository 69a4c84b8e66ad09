// LibTorch under Umbo: Umbo keeps a module's parameters and buffers, each replica has a module that lies on
// them, and backward() leaves gradients that updates read where they are; on GPUs, too, where LibTorch has CUDA.
// Not part of umbo.hpp; needs LibTorch (1.13 or newer), C++17 and exceptions.
//
//     #include <umbo/adapters/torch.hpp>
//
//     auto strategy = umbo::adapters::torch_strategy(2);
//     umbo::adapters::torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
//     auto adam = umbo::optimizer::adam(strategy);
//     auto batches = strategy.distribute_dataset(umbo::adapters::rows_of({{"x", x}, {"y", y}}).shuffle().batch(64)).iterate();
//     for (const umbo::value &batch : batches) {
//         model.train(batch, [](NetImpl &net, const umbo::adapters::part &of) {
//             return torch::nn::functional::cross_entropy(net.forward(of["x"]), of["y"]);
//         });
//         adam.apply(model.gradients());
//     }
//     torch::save(model.central(), "net.pt");
//
// A loop over a loader of torch's keeps it, and the options of its rule:
//
//     umbo::adapters::torch_model<NetImpl> net(umbo::adapters::torch_strategy(2), [] { return std::make_shared<NetImpl>(); });
//     auto sgd = umbo::adapters::optimizer_of(net, torch::optim::SGDOptions(0.01).momentum(0.5));
//     for (auto &batch : *loader) {
//         auto loss = net.train(batch, [](NetImpl &net, const umbo::adapters::part &of) {
//             return torch::nll_loss(net.forward(of["data"]), of["target"]);
//         });
//         sgd.apply(net.gradients());
//     }
//
// A test on all replicas, over a loader of torch's: the means of two metrics, whose sums the function gives.
//
//     auto tested = net.evaluate(*test_loader, {"loss", "right"}, measure);
//
// What a step means does not depend on the number of replicas: losses are means (or sums) over a replica's
// examples, the running statistics of a batch normalisation are the mean over the examples of the global
// batch, and `keyed_dropout` draws by the global position of an example. A batch normalisation itself
// normalises with the statistics of the replica's part, as it does in torch's DistributedDataParallel.
#ifndef UMBO_ADAPTERS_TORCH_HPP
#define UMBO_ADAPTERS_TORCH_HPP

#include <umbo/adapters/torch/batch.hpp>
#include <umbo/adapters/torch/device.hpp>
#include <umbo/adapters/torch/dropout.hpp>
#include <umbo/adapters/torch/model.hpp>
#include <umbo/adapters/torch/optimizer.hpp>
#include <umbo/adapters/torch/tensor.hpp>
#include <umbo/adapters/torch/threads.hpp>
#include <umbo/adapters/torch/torch_optimizer.hpp>

#endif

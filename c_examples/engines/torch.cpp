// LibTorch under Umbo: a network of two convolutions learns handwritten digits on two replicas. Teaches how a torch::nn::Module
// trains there: its parameters become the strategy's variables, a loss is a function of a part of the batch, and what torch
// offers around it (normalisation, saving) stays as it is.
//
//   torch FOLDER [REPLICAS]     a folder with files in the IDX format of MNIST, such as c_examples/data/digits
#include <umbo/adapters/torch.hpp>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace {

using umbo::adapters::part;

struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(1); // each replica's module is made alike
    const auto padded = [](int from, int to) { return torch::nn::Conv2dOptions(from, to, 3).padding(1); };
    first = register_module("first", torch::nn::Conv2d(padded(1, 8)));
    second = register_module("second", torch::nn::Conv2d(padded(8, 16)));
    classes = register_module("classes", torch::nn::Linear(16 * 4, 10));
  }
  // Pictures of 8 x 8 bytes, from 0 to 16.
  torch::Tensor forward(const torch::Tensor &pictures) {
    auto x = pictures.unsqueeze(1).to(torch::kFloat) / 16;
    x = torch::max_pool2d(torch::relu(first(x)), 2);
    x = torch::max_pool2d(torch::relu(second(x)), 2);
    return classes(x.flatten(1));
  }
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear classes{nullptr};
};

umbo::dataset pictures(const std::string &folder, const std::string &name) {
  return umbo::dataset::from_idx_files(
      {folder + "/" + name + "-images-idx3-ubyte", folder + "/" + name + "-labels-idx1-ubyte"}, {"x", "y"});
}

// The mean over a replica's part, which is never empty here: a replica without examples is not asked.
torch::Tensor loss(NetImpl &net, const part &of) {
  return torch::nn::functional::cross_entropy(net.forward(of["x"]), of["y"].to(torch::kLong));
}

torch::Tensor right(NetImpl &net, const part &of) { return (net.forward(of["x"]).argmax(1) == of["y"]).sum(); }

} // namespace

int main(int argc, char **argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [REPLICAS]\n", argv[0]);
    return 2;
  }
  const auto strategy = umbo::adapters::torch_strategy(argc > 2 ? std::atoi(argv[2]) : 2); // torch's threads are set
  umbo::adapters::torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
  umbo::adam_options rate;
  rate.learning_rate = 0.01;
  const auto adam = umbo::optimizer::adam(strategy, rate);
  umbo::shuffle_options order;
  order.seed = 1;
  const auto training = strategy.iterate(pictures(argv[1], "train").shuffle(order).batch(64));
  const auto test = strategy.iterate(pictures(argv[1], "t10k").batch(100));

  for (int epoch = 1; epoch <= 12; ++epoch) {
    for (const umbo::value &batch : training) {
      model.train(batch, loss);
      adam.apply(model.gradients());
    }
  }
  double correct = 0, examples = 0;
  for (const umbo::value &batch : test) {
    strategy.run(model.evaluation("right", right), batch);
    const auto counted = strategy.metric_result("right");
    correct += counted.sum;
    examples += counted.weight;
  }
  torch::save(model.central(), "digits.pt"); // for programs without Umbo
  std::printf("%d replicas: %.1f %% of %.0f pictures are right\n", static_cast<int>(strategy.replica_count()),
              100 * correct / examples, examples);
  return examples == 360 && correct / examples > 0.9 ? 0 : 1;
}

// A network learns to name pictures, in the form of the tutorials of LibTorch: a dataset, a loader, a rule, a loop. docs/loop.md
// has the patch that puts Umbo into it.
#include <torch/torch.h>

#include <cstdio>

// Ten patterns under noise.
struct Pictures : torch::data::datasets::Dataset<Pictures> {
  Pictures() {
    torch::manual_seed(2);
    targets = torch::randint(10, {2000}, torch::kLong);
    pictures = torch::randn({10, 1, 12, 12}).index_select(0, targets) + 2 * torch::randn({2000, 1, 12, 12});
  }
  torch::data::Example<> get(size_t index) override { return {pictures[index], targets[index]}; }
  torch::optional<size_t> size() const override { return 2000; }
  torch::Tensor pictures, targets;
};

struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(1);
    conv1 = register_module("conv1", torch::nn::Conv2d(1, 10, 3));
    conv2 = register_module("conv2", torch::nn::Conv2d(10, 20, 3));
    fc = register_module("fc", torch::nn::Linear(20 * 3 * 3, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1(x), 2));
    x = torch::relu(conv2(x));
    return torch::log_softmax(fc(x.flatten(1)), 1);
  }
  torch::nn::Conv2d conv1{nullptr}, conv2{nullptr};
  torch::nn::Linear fc{nullptr};
};

int main() {
  const Pictures all;
  auto loader = torch::data::make_data_loader(Pictures().map(torch::data::transforms::Stack<>()), 64);
  auto net = std::make_shared<NetImpl>();
  torch::optim::SGD sgd(net->parameters(), torch::optim::SGDOptions(0.01).momentum(0.5));
  double running = 0;
  for (int epoch = 1; epoch <= 3; ++epoch) {
    for (auto &batch : *loader) {
      sgd.zero_grad();
      auto loss = torch::nll_loss(net->forward(batch.data), batch.target);
      loss.backward();
      sgd.step();
      running = 0.9 * running + 0.1 * loss.item<double>();
    }
  }
  net->eval();
  torch::NoGradGuard no_gradients;
  auto test_loss = torch::nll_loss(net->forward(all.pictures), all.targets);
  std::printf("loss %.5f, while training %.4f\n", test_loss.item<double>(), running);
}

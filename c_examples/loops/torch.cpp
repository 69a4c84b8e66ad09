// A network learns with LibTorch, whose operations share the processors. docs/loop.md has the patch that puts Umbo into this
// loop.
#include <torch/torch.h>

#include <cstdio>

struct NetImpl : torch::nn::Module {
  NetImpl() {
    torch::manual_seed(1);
    hidden = register_module("hidden", torch::nn::Linear(20, 64));
    last = register_module("last", torch::nn::Linear(64, 1));
  }
  torch::Tensor forward(const torch::Tensor &x) { return last(torch::tanh(hidden(x))); }
  torch::nn::Linear hidden{nullptr}, last{nullptr};
};

int main() {
  torch::manual_seed(2);
  const auto x = torch::randn({4000, 20});
  const auto y = torch::tanh(x.sum(1, true) / 4) + torch::randn({4000, 1}) / 10;
  auto net = std::make_shared<NetImpl>();
  torch::optim::Adam adam(net->parameters(), 0.001);
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (int first = 0; first < 4000; first += 128) {
      const int end = std::min(first + 128, 4000);
      adam.zero_grad();
      auto loss = torch::mse_loss(net->forward(x.slice(0, first, end)), y.slice(0, first, end));
      loss.backward();
      adam.step();
    }
  }
  torch::NoGradGuard no_gradients;
  std::printf("loss %.5f\n", torch::mse_loss(net->forward(x), y).item<double>());
}

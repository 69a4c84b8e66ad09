// A network learns to read digits, in the form of the MNIST tutorial of LibTorch: convolutions, dropout, a loader that draws
// at random, momentum, a learning rate that falls, a test after each epoch. mnist.diff puts Umbo into it.
#include <torch/torch.h>

#include <cstdio>

// Ten patterns under noise, in the place of the files of MNIST.
struct Digits : torch::data::datasets::Dataset<Digits> {
  explicit Digits(int64_t count) : targets(torch::arange(count).remainder(10)) {
    torch::manual_seed(2);
    pictures = torch::randn({10, 1, 28, 28}).index_select(0, targets);
    torch::manual_seed(count);
    pictures += torch::randn({count, 1, 28, 28});
  }
  torch::data::Example<> get(size_t index) override { return {pictures[index], targets[index]}; }
  torch::optional<size_t> size() const override { return pictures.size(0); }
  torch::Tensor targets, pictures;
};

struct Net : torch::nn::Module {
  Net() : conv1(1, 10, 5), conv2(10, 20, 5), fc1(320, 50), fc2(50, 10) {
    register_module("conv1", conv1);
    register_module("conv2", conv2);
    register_module("fc1", fc1);
    register_module("fc2", fc2);
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(conv1->forward(x), 2));
    x = torch::relu(torch::max_pool2d(conv2->forward(x), 2));
    x = torch::relu(fc1->forward(x.view({-1, 320})));
    x = torch::dropout(x, 0.5, is_training());
    return torch::log_softmax(fc2->forward(x), 1);
  }
  torch::nn::Conv2d conv1, conv2;
  torch::nn::Linear fc1, fc2;
};

int main() {
  torch::manual_seed(1);
  auto train_loader = torch::data::make_data_loader(Digits(1000).map(torch::data::transforms::Stack<>()), 64);
  auto test_loader = torch::data::make_data_loader(Digits(500).map(torch::data::transforms::Stack<>()), 250);
  auto net = std::make_shared<Net>();
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.5));
  torch::optim::StepLR scheduler(optimizer, 1, 0.7);
  torch::manual_seed(3); // of the order of the rows

  for (int epoch = 1; epoch <= 4; ++epoch) {
    net->train();
    double running = 0;
    for (auto &batch : *train_loader) {
      optimizer.zero_grad();
      auto loss = torch::nll_loss(net->forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
      running += loss.item<double>() * static_cast<double>(batch.data.size(0));
    }
    scheduler.step();

    net->eval();
    torch::NoGradGuard no_gradients;
    double test_loss = 0;
    int64_t correct = 0;
    for (const auto &batch : *test_loader) {
      auto output = net->forward(batch.data);
      test_loss += torch::nll_loss(output, batch.target, {}, at::Reduction::Sum).item<double>();
      correct += output.argmax(1).eq(batch.target).sum().item<int64_t>();
    }
    std::printf("epoch %d: loss %.4f, tested %.4f, right %.3f\n", epoch, running / 1000, test_loss / 500, correct / 500.0);
  }
}

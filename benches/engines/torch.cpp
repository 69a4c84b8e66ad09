// LibTorch alone and under Umbo, on the same networks, examples and rule.
//
//   torch_engine alone|umbo PROCESSORS
//
// Alone, torch's operations use so many threads; under Umbo there are so many replicas with one thread each.
#include "training.hpp"

#include <umbo/adapters/torch.hpp>

#include <cstdlib>
#include <cstring>
#include <string>

namespace {

namespace F = torch::nn::functional;
using umbo::adapters::part;

constexpr std::int64_t examples = 4096, batch = 256, side = 28, classes = 10;
constexpr double rate = 1e-3;

struct mlpImpl : torch::nn::Module {
  mlpImpl() {
    torch::manual_seed(7);
    first = register_module("first", torch::nn::Linear(side * side, 500));
    second = register_module("second", torch::nn::Linear(500, classes));
  }
  torch::Tensor forward(const torch::Tensor &x) { return second(torch::relu(first(x))); }
  torch::nn::Linear first{nullptr}, second{nullptr};
};

struct cnnImpl : torch::nn::Module {
  cnnImpl() {
    torch::manual_seed(7);
    first = register_module("first", torch::nn::Conv2d(1, 16, 5));
    second = register_module("second", torch::nn::Conv2d(16, 32, 5));
    third = register_module("third", torch::nn::Linear(32 * 4 * 4, classes));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::relu(torch::max_pool2d(first(x.view({-1, 1, side, side})), 2));
    x = torch::relu(torch::max_pool2d(second(x), 2));
    return third(x.flatten(1));
  }
  torch::nn::Conv2d first{nullptr}, second{nullptr};
  torch::nn::Linear third{nullptr};
};

struct data {
  torch::Tensor x, y;
  data() {
    torch::manual_seed(1);
    x = torch::randn({examples, side * side});
    y = x.matmul(torch::randn({side * side, classes})).argmax(1);
  }
};

template <class Module>
class alone final : public training {
public:
  explicit alone(int threads) : adam_(net_.parameters(), torch::optim::AdamOptions(rate)) {
    at::set_num_threads(threads);
  }

  double pass() override {
    double sum = 0;
    for (std::int64_t first = 0; first < examples; first += batch) {
      adam_.zero_grad();
      const auto x = all_.x.narrow(0, first, batch), y = all_.y.narrow(0, first, batch);
      const auto loss = F::cross_entropy(net_.forward(x), y);
      loss.backward();
      adam_.step();
      sum += loss.template item<double>();
    }
    return sum / (examples / batch);
  }

private:
  data all_;
  Module net_;
  torch::optim::Adam adam_;
};

umbo::adam_options with_rate() {
  umbo::adam_options options;
  options.learning_rate = rate;
  options.epsilon = 1e-8; // torch's
  return options;
}

template <class Module>
class under_umbo final : public training {
public:
  explicit under_umbo(int replicas)
      : strategy_(umbo::adapters::torch_strategy(replicas)),
        model_(strategy_, [] { return std::make_shared<Module>(); }),
        adam_(umbo::optimizer::adam(strategy_, with_rate())),
        batches_(strategy_.distribute_dataset(umbo::adapters::rows_of({{"x", all_.x}, {"y", all_.y}}).batch(batch)).iterate()) {}

  double pass() override {
    double sum = 0;
    for (const umbo::value &element : batches_) {
      model_.train(element, [](Module &net, const part &of) { return F::cross_entropy(net.forward(of["x"]), of["y"]); });
      adam_.apply(model_.gradients());
      sum += strategy_.metric_result("loss").sum;
    }
    batches_.reset();
    return sum / examples;
  }

private:
  data all_;
  umbo::strategy strategy_;
  umbo::adapters::torch_model<Module> model_;
  umbo::optimizer adam_;
  umbo::iterator batches_;
};

template <template <class> class How, class Module>
std::unique_ptr<training> make(int processors) {
  return std::make_unique<How<Module>>(processors);
}

template <template <class> class How>
void take(int processors) {
  passes mlp(make<How, mlpImpl>, processors), cnn(make<How, cnnImpl>, processors);
  const workload all[] = {passes::timed("mlp", examples, mlp), passes::timed("cnn", examples, cnn)};
  take_turns("LibTorch " TORCH_VERSION, all, 2);
}

} // namespace

int main(int count, char **arguments) {
  const int processors = count == 3 ? std::atoi(arguments[2]) : 0;
  if (processors < 1) give_up("usage: torch_engine alone|umbo PROCESSORS");
  if (std::strcmp(arguments[1], "alone") == 0) take<alone>(processors);
  else if (std::strcmp(arguments[1], "umbo") == 0) take<under_umbo>(processors);
  else give_up("'%s' is neither alone nor umbo", arguments[1]);
}

// The lines of README that put a module of torch under Umbo, in a program whose network and data are its own.
#include <umbo/adapters/torch.hpp>

struct NetImpl : torch::nn::Module {
  NetImpl() { layer = register_module("layer", torch::nn::Linear(8, 3)); }
  torch::Tensor forward(const torch::Tensor &x) { return layer(x); }
  torch::nn::Linear layer{nullptr};
};

int main() {
  const auto x = torch::randn({630, 8}); // ten batches, the last one smaller
  const auto y = x.slice(1, 0, 3).argmax(1);
#include "ten_lines.inc"
  return strategy.replica_count() == 2 && adam.info().iterations == 10 && model.central()->forward(x).size(1) == 3 ? 0 : 1;
}

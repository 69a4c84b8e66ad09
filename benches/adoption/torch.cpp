// The programs of c_examples/loops with LibTorch, before and after their patches, as benches/adoption/run.py has prepared them:
//
//   torch_programs mnist|dcgan before|after|in_sync AMOUNT THREADS WEIGHTS
//
// With so many epochs or steps, and threads of torch's or replicas. Prints what the program prints, then the seconds that it took;
// writes the weights to a file.
#include <umbo/adapters/torch.hpp>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

static int amount, threads;
static const char *weights_path;

// In place of torch_strategy(2).
static umbo::strategy of_replicas() { return umbo::adapters::torch_strategy(threads); }

// The same with eight parts of each batch, on any number of replicas.
static umbo::strategy in_sync_strategy() {
  umbo::strategy_options options;
  options.cpu_replicas = threads;
  options.replicas_in_sync = 8;
  return umbo::strategy::create(umbo::adapters::with_torch_threads(options));
}

// At the end of a program.
static void keep(const std::vector<torch::Tensor> &weights) {
  std::FILE *const file = std::fopen(weights_path, "ab");
  bool written = file != nullptr;
  for (const auto &each : weights) {
    const auto whole = each.detach().contiguous();
    written = written && std::fwrite(whole.data_ptr(), 1, whole.nbytes(), file) == whole.nbytes();
  }
  if (!written || std::fclose(file) != 0) {
    std::perror(weights_path);
    std::exit(1);
  }
}

namespace mnist_before {
#include "mnist_before.inc"
} // namespace mnist_before
namespace mnist_after {
#include "mnist_after.inc"
} // namespace mnist_after
namespace mnist_in_sync {
#include "mnist_in_sync.inc"
} // namespace mnist_in_sync
namespace dcgan_before {
#include "dcgan_before.inc"
} // namespace dcgan_before
namespace dcgan_after {
#include "dcgan_after.inc"
} // namespace dcgan_after
namespace dcgan_in_sync {
#include "dcgan_in_sync.inc"
} // namespace dcgan_in_sync

struct program {
  const char *name, *when;
  void (*run)();
};

static const program programs[] = {
    {"mnist", "before", mnist_before::run}, {"mnist", "after", mnist_after::run}, {"mnist", "in_sync", mnist_in_sync::run},
    {"dcgan", "before", dcgan_before::run}, {"dcgan", "after", dcgan_after::run}, {"dcgan", "in_sync", dcgan_in_sync::run},
};

int main(int count, char **arguments) {
  for (const auto &each : programs) {
    if (count != 6 || std::strcmp(each.name, arguments[1]) != 0 || std::strcmp(each.when, arguments[2]) != 0) continue;
    amount = std::atoi(arguments[3]);
    threads = std::atoi(arguments[4]);
    weights_path = arguments[5];
    std::remove(weights_path);
    if (std::strcmp(each.when, "before") == 0) at::set_num_threads(threads);
    const auto begin = std::chrono::steady_clock::now();
    each.run();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - begin;
    std::printf("seconds %.6f\n", taken.count());
    return 0;
  }
  std::fprintf(stderr, "usage: torch_programs mnist|dcgan before|after|in_sync AMOUNT THREADS WEIGHTS\n");
  return 2;
}

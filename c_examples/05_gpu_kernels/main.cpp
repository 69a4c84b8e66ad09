// Own kernels on GPUs, in C++: main.c is the same in C and says more.
//
//   05_gpu_kernels_cpp FOLDER [DEVICE...]
//
// The kernels of network.cu are queued on the stream of the replica; on a CPU the same functions run in loops.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <umbo/umbo.hpp>
#include <vector>

#include "kernels.h" // network.cu, compiled: the text `network_ptx`
#include "network.h"

namespace {

// What is needed of the driver, as cuda.h declares it.
class driver {
public:
  using module = struct CUmod_st *;
  using function = struct CUfunc_st *;

  driver() {
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    if (library == nullptr) throw std::runtime_error("there is no driver");
    find(load_, library, "cuModuleLoadData");
    find(find_, library, "cuModuleGetFunction");
    find(launch_, library, "cuLaunchKernel");
  }

  // In a step the context of the replica's GPU is current: what is loaded there belongs to it.
  module load(const char *ptx) const {
    module loaded = nullptr;
    check(load_(&loaded, ptx), "the driver does not take the kernels");
    return loaded;
  }

  // A thread for each element, on the stream.
  void queue(module from, const char *kernel, int threads, layers arrays, work w, void *stream) const {
    if (threads == 0) return;
    function found = nullptr;
    check(find_(&found, from, kernel), kernel);
    void *arguments[] = {&arrays, &w};
    check(launch_(found, static_cast<unsigned>(threads + 63) / 64, 1, 1, 64, 1, 1, 0, stream, arguments, nullptr), kernel);
  }

private:
  template <class Function> static void find(Function &function, void *library, const char *name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    if (function == nullptr) throw std::runtime_error(name);
  }

  // What a step throws comes out of the run.
  static void check(int failed, const char *what) {
    if (failed != 0) throw std::runtime_error(what);
  }

  int (*load_)(module *, const void *);
  int (*find_)(function *, module, const char *);
  int (*launch_)(function, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **);
};

void on_gpu(const driver &gpus, driver::module kernels, const layers &net, const layers &gradient, const work &w, void *stream) {
  gpus.queue(kernels, "hidden", w.examples * HIDDEN, net, w, stream);
  gpus.queue(kernels, "errors", w.examples, net, w, stream);
  gpus.queue(kernels, "gradient2", CLASSES * (HIDDEN + 1), gradient, w, stream);
  gpus.queue(kernels, "back", w.examples * HIDDEN, net, w, stream);
  gpus.queue(kernels, "gradient1", HIDDEN * (PIXELS + 1), gradient, w, stream);
}

void on_cpu(const layers &net, const layers &gradient, const work &w) {
  for (int i = 0; i < w.examples; ++i) {
    for (int j = 0; j < HIDDEN; ++j) compute_hidden(&net, &w, i, j);
    compute_errors(&net, &w, i);
  }
  for (int i = 0; i < CLASSES; ++i)
    for (int j = 0; j <= HIDDEN; ++j) compute_gradient2(&gradient, &w, i, j);
  for (int i = 0; i < w.examples; ++i)
    for (int j = 0; j < HIDDEN; ++j) compute_back(&net, &w, i, j);
  for (int i = 0; i < HIDDEN; ++i)
    for (int j = 0; j <= PIXELS; ++j) compute_gradient1(&gradient, &w, i, j);
}

// The functions of network.h read and write through one type of pointer.
float *start_of(const umbo_view &view) {
  return static_cast<float *>(view.mutable_data != nullptr ? view.mutable_data : const_cast<void *>(view.data));
}

work work_on(const umbo::value &batch, std::int64_t examples, float *memory) {
  work w{};
  w.examples = static_cast<int>(examples);
  w.pixels = static_cast<const unsigned char *>(batch.view("images").data);
  w.labels = static_cast<const unsigned char *>(batch.view("labels").data);
  w.hidden = memory;
  w.outputs = w.hidden + w.examples * HIDDEN;
  w.losses = w.outputs + w.examples * CLASSES;
  return w;
}

umbo::dataset digits(const std::string &folder, const std::string &set) {
  const std::string start = folder + "/" + set;
  return umbo::dataset::from_idx_files({start + "-images-idx3-ubyte", start + "-labels-idx1-ubyte"}, {"images", "labels"})
      .take(320)
      .batch(64);
}

// How often the largest output is the right one.
double accuracy(std::vector<std::vector<float>> weights, const umbo::dataset &unseen) {
  const layers net{weights[0].data(), weights[1].data(), weights[2].data(), weights[3].data()};
  std::int64_t right = 0, all = 0;
  for (const umbo::value &batch : unseen.iterate()) {
    const std::int64_t examples = batch.view("images").shape[0];
    std::vector<float> memory(static_cast<std::size_t>(examples) * (HIDDEN + CLASSES + 1));
    const work w = work_on(batch, examples, memory.data());
    for (int example = 0; example < w.examples; ++example, ++all) {
      for (int unit = 0; unit < HIDDEN; ++unit) compute_hidden(&net, &w, example, unit);
      compute_errors(&net, &w, example);
      float *outputs = w.outputs + example * CLASSES;
      outputs[w.labels[example]] += 1; // the outputs themselves
      right += std::max_element(outputs, outputs + CLASSES) - outputs == w.labels[example];
    }
  }
  return static_cast<double>(right) / static_cast<double>(all);
}

} // namespace

int main(int count, char **words) {
  if (count < 2) {
    std::fprintf(stderr, "usage: %s FOLDER [DEVICE...]\n", words[0]);
    return 2;
  }
  umbo::strategy_options options;
  options.compute_devices.assign(words + 2, words + count);
  const auto strategy = umbo::strategy::create(options);
  const auto replicas = static_cast<std::size_t>(strategy.replica_count());

  const auto make = [&](const char *name, std::int64_t rows, std::int64_t columns) {
    const auto drawn = columns == 1 ? umbo::initial::zeros : umbo::initial::glorot_uniform;
    return strategy.create_variable(name, umbo::dtype::float32, {rows, columns}, drawn, 1);
  };
  const std::vector<umbo::variable> variables = {make("weights1", HIDDEN, PIXELS), make("biases1", HIDDEN, 1),
                                                 make("weights2", CLASSES, HIDDEN), make("biases2", CLASSES, 1)};
  umbo::adam_options adam;
  adam.learning_rate = 0.02;
  const auto gradients = umbo::gradients::create(strategy, variables, umbo::loss_reduction::sum);
  const auto optimizer = umbo::optimizer::adam(strategy, adam);

  std::vector<driver::module> kernels(replicas); // of each replica that is on a GPU, once it has loaded them
  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    umbo_view of[4];
    context.views(variables, of);
    std::array<float *, 4> into{};
    for (std::size_t i = 0; i < into.size(); ++i)
      into[i] = start_of(context.gradient(gradients, static_cast<std::int64_t>(i), umbo::gradient_mode::overwrite));
    const layers net{start_of(of[0]), start_of(of[1]), start_of(of[2]), start_of(of[3])};
    const layers gradient{into[0], into[1], into[2], into[3]};
    const std::int64_t examples = batch.view("images").shape[0];
    const work w = work_on(batch, examples, context.scratch<float>(static_cast<std::size_t>(examples) * (HIDDEN + CLASSES + 1)).data());
    if (void *stream = context.stream()) {
      static const driver gpus;
      auto &own = kernels[static_cast<std::size_t>(context.replica_id())];
      if (own == nullptr) own = gpus.load(network_ptx);
      on_gpu(gpus, own, net, gradient, w, stream);
    } else {
      on_cpu(net, gradient, w);
    }
    context.submit(gradients);
  };

  const auto batches = strategy.iterate(digits(words[1], "train"));
  for (int epoch = 0; epoch < 25; ++epoch) umbo::train_epoch(strategy, batches, optimizer, gradients, step);

  std::vector<std::vector<float>> weights;
  for (const auto &variable : variables) weights.push_back(variable.read().to_vector<float>());
  const auto gpus = kernels.size() - static_cast<std::size_t>(std::count(kernels.begin(), kernels.end(), nullptr));
  std::printf("%zu replicas, %zu on GPUs: %.4f of the digits read\n", replicas, gpus,
              accuracy(weights, digits(words[1], "t10k")));
}

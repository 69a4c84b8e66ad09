// A perceptron of ggml's whose weights lie in one block of memory, and a graph over it for each replica.
#ifndef UMBO_EXAMPLES_GGML_MODEL_HPP
#define UMBO_EXAMPLES_GGML_MODEL_HPP

#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml-opt.h>
#include <ggml.h>

#include <umbo/umbo.hpp>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#define DEMAND(condition) \
  do { \
    if (!(condition)) { \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      std::exit(1); \
    } \
  } while (0)

const std::vector<std::string> weight_names = {"w1", "b1", "w2", "b2"};

struct layers {
  std::int64_t inputs, hidden, classes;
};

// All weights, each at a multiple of 64 bytes, as ggml asks for.
struct block {
  struct shape {
    std::int64_t ne0, ne1; // ne0 is what lies next to each other
    std::int64_t count() const { return ne0 * ne1; }
  };

  static constexpr std::size_t alignment = 64;
  layers of_layers;
  shape shapes[4];
  std::size_t offsets[4], bytes = 0;
  float *data;

  explicit block(layers of)
      : of_layers(of), shapes{{of.inputs, of.hidden}, {of.hidden, 1}, {of.hidden, of.classes}, {of.classes, 1}} {
    for (int index = 0; index < 4; ++index) {
      offsets[index] = bytes;
      bytes += static_cast<std::size_t>(shapes[index].count()) * sizeof(float);
      bytes = (bytes + alignment - 1) / alignment * alignment;
    }
    data = static_cast<float *>(std::aligned_alloc(alignment, bytes));
    DEMAND(data != nullptr);
    std::memset(data, 0, bytes);
  }
  ~block() { std::free(data); }
  block(const block &) = delete;
  block &operator=(const block &) = delete;

  // Uniform numbers from -spread to spread; biases stay 0.
  void draw(float spread) {
    std::uint32_t state = 1;
    for (const int index : {0, 2}) {
      for (std::int64_t at = 0; at < shapes[index].count(); ++at) {
        state = state * 1664525u + 1013904223u;
        of(index)[at] = (static_cast<float>(state >> 8) / 16777216.0f - 0.5f) * 2 * spread;
      }
    }
  }

  float *of(int index) const { return data + offsets[index] / sizeof(float); }
  std::vector<float> copy() const { return std::vector<float>(data, data + bytes / sizeof(float)); }
};

// A context for weights and inputs, which lie where we say, and one for the rest.
struct model {
  ggml_context *fixed, *rest;
  ggml_tensor *weights[4], *x, *logits;
  ggml_backend_buffer_t memory = nullptr, of_x = nullptr;

  model(const block &at, std::int64_t rows) {
    const ggml_init_params few = {ggml_tensor_overhead() * 16, nullptr, true};
    const ggml_init_params many = {ggml_tensor_overhead() * 512 + 2 * ggml_graph_overhead_custom(GGML_DEFAULT_GRAPH_SIZE, true), nullptr,
                                   true};
    fixed = ggml_init(few);
    rest = ggml_init(many);
    memory = ggml_backend_cpu_buffer_from_ptr(at.data, at.bytes);
    for (int index = 0; index < 4; ++index) {
      const block::shape of = at.shapes[index];
      weights[index] = of.ne1 == 1 ? ggml_new_tensor_1d(fixed, GGML_TYPE_F32, of.ne0)
                                   : ggml_new_tensor_2d(fixed, GGML_TYPE_F32, of.ne0, of.ne1);
      ggml_set_param(weights[index]);
      DEMAND(ggml_backend_tensor_alloc(memory, weights[index], at.of(index)) == GGML_STATUS_SUCCESS);
    }
    x = ggml_new_tensor_2d(fixed, GGML_TYPE_F32, at.of_layers.inputs, rows);
    ggml_set_input(x);
    of_x = ggml_backend_alloc_ctx_tensors_from_buft(fixed, ggml_backend_cpu_buffer_type());
    ggml_tensor *const first = ggml_relu(rest, ggml_add(rest, ggml_mul_mat(rest, weights[0], x), weights[1]));
    logits = ggml_add(rest, ggml_mul_mat(rest, weights[2], first), weights[3]);
    ggml_set_output(logits);
  }
  ~model() {
    ggml_free(rest);
    ggml_free(fixed);
    ggml_backend_buffer_free(of_x);
    ggml_backend_buffer_free(memory);
  }
  model(const model &) = delete;
  model &operator=(const model &) = delete;
};

// ggml's own training of a model.
struct own_training {
  model net;
  ggml_backend_t cpu = ggml_backend_cpu_init();
  ggml_backend_sched_t schedule;
  ggml_opt_context_t training;

  own_training(const block &weights, std::int64_t rows, int threads, ggml_opt_get_optimizer_params settings)
      : net(weights, rows) {
    ggml_backend_cpu_set_n_threads(cpu, threads);
    schedule = ggml_backend_sched_new(&cpu, nullptr, 1, 512, false, false);
    ggml_opt_params how = ggml_opt_default_params(schedule, GGML_OPT_LOSS_TYPE_CROSS_ENTROPY);
    how.ctx_compute = net.rest;
    how.inputs = net.x;
    how.outputs = net.logits;
    how.get_opt_pars = settings;
    how.optimizer = GGML_OPT_OPTIMIZER_TYPE_ADAMW;
    training = ggml_opt_init(how);
  }
  ~own_training() {
    ggml_opt_free(training);
    ggml_backend_sched_free(schedule);
    ggml_backend_free(cpu);
  }
  own_training(const own_training &) = delete;
  own_training &operator=(const own_training &) = delete;

  // A step on rows of inputs, and of labels as one number for each class. `result` takes in its loss.
  void step(const float *x, const float *y, ggml_opt_result_t result = nullptr) {
    ggml_opt_alloc(training, true);
    ggml_backend_tensor_set(net.x, x, 0, ggml_nbytes(net.x));
    ggml_tensor *const labels = ggml_opt_labels(training);
    ggml_backend_tensor_set(labels, y, 0, ggml_nbytes(labels));
    ggml_opt_eval(training, result);
  }
};

// What a replica computes with: a graph with gradients, allocated once.
struct replica {
  model net;
  ggml_tensor *labels, *loss;
  ggml_cgraph *graph;
  ggml_backend_t cpu = ggml_backend_cpu_init();
  ggml_backend_buffer_t memory;

  replica(const block &weights, std::int64_t rows) : net(weights, rows) {
    ggml_backend_cpu_set_n_threads(cpu, 1); // the replicas are the threads
    labels = ggml_new_tensor_2d(net.rest, GGML_TYPE_F32, weights.of_layers.classes, rows);
    ggml_set_input(labels);
    loss = ggml_cross_entropy_loss(net.rest, net.logits, labels);
    ggml_set_loss(loss);
    graph = ggml_new_graph_custom(net.rest, GGML_DEFAULT_GRAPH_SIZE, true);
    ggml_build_forward_expand(graph, loss);
    ggml_build_backward_expand(net.rest, graph, nullptr);
    memory = ggml_backend_alloc_ctx_tensors(net.rest, cpu);
    DEMAND(memory != nullptr);
  }
  ~replica() {
    ggml_backend_buffer_free(memory);
    ggml_backend_free(cpu);
  }
  replica(const replica &) = delete;
  replica &operator=(const replica &) = delete;

  // Computes the loss of its rows and the gradients, and lends these where ggml leaves them: it writes there
  // again in the next step.
  void contribute(umbo::replica_context &context, const umbo::gradients &gradients, const float *x, const float *y);
};

inline umbo_view view_of(const ggml_tensor *tensor) {
  const std::int64_t sizes[2] = {tensor->ne[1], tensor->ne[0]};
  const bool is_vector = tensor->ne[1] == 1;
  return umbo_view_of_mutable_memory(UMBO_DTYPE_FLOAT32, is_vector ? 1 : 2, is_vector ? sizes + 1 : sizes,
                                     tensor->data);
}

inline void replica::contribute(umbo::replica_context &context, const umbo::gradients &gradients, const float *x_rows,
                                const float *y_rows) {
  std::memcpy(net.x->data, x_rows, ggml_nbytes(net.x));
  std::memcpy(labels->data, y_rows, ggml_nbytes(labels));
  ggml_graph_reset(graph); // the gradient of the loss is 1, all others are 0
  DEMAND(ggml_backend_graph_compute(cpu, graph) == GGML_STATUS_SUCCESS);
  for (int index = 0; index < 4; ++index) {
    const ggml_tensor *const gradient = ggml_graph_get_grad(graph, net.weights[index]);
    DEMAND(gradient != nullptr && ggml_is_contiguous(gradient));
    context.attach(gradients, index, view_of(gradient));
  }
  const auto rows = static_cast<double>(net.x->ne[1]);
  context.add_metric("loss", static_cast<double>(*static_cast<float *>(loss->data)) * rows, rows);
  context.submit(gradients);
}

#endif

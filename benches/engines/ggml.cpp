// ggml alone and under Umbo, on the same network, examples and rule.
//
//   ggml_engine alone|umbo PROCESSORS
//
// Alone, ggml's graph uses so many threads; under Umbo there are so many replicas with one thread each.
#include "training.hpp"

#include "../../tests/engines/ggml_alone.hpp"

#include <algorithm>
#include <cstring>

namespace {

using ggml_alone::perceptron;

constexpr ggml_alone::sizes sizes = {784, 500, 10};
constexpr std::int64_t examples = 4096, batch = 256;
constexpr float spread = 0.05f;

struct data {
  ggml_opt_dataset_t dataset = ggml_opt_dataset_init(GGML_TYPE_F32, GGML_TYPE_F32, sizes.inputs, sizes.classes, examples, 1);
  float *x = ggml_get_data_f32(ggml_opt_dataset_data(dataset)), *y = ggml_get_data_f32(ggml_opt_dataset_labels(dataset));

  data() {
    std::fill(y, y + examples * sizes.classes, 0.0f);
    std::uint32_t state = 7;
    for (std::int64_t row = 0; row < examples; ++row) {
      float sum = 0;
      for (std::int64_t column = 0; column < sizes.inputs; ++column) {
        state = state * 1664525u + 1013904223u;
        const float number = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
        x[row * sizes.inputs + column] = number;
        sum += column % 2 == 0 ? number : -number;
      }
      const auto label = std::min<std::int64_t>(9, std::max<std::int64_t>(0, static_cast<std::int64_t>(sum / 6 + 5)));
      y[row * sizes.classes + label] = 1.0f;
    }
  }
  ~data() { ggml_opt_dataset_free(dataset); }
  data(const data &) = delete;
  data &operator=(const data &) = delete;
};

class alone final : public training {
public:
  explicit alone(int threads) : training_(with(threads)) {}

  double pass() override {
    ggml_opt_result_t result = ggml_opt_result_init();
    for (std::int64_t first = 0; first < examples; first += batch) {
      training_.step(all_.x + first * sizes.inputs, all_.y + first * sizes.classes, result);
    }
    double loss = 0;
    ggml_opt_result_loss(result, &loss, nullptr);
    ggml_opt_result_free(result);
    return loss;
  }

private:
  static ggml_alone::settings with(int threads) {
    ggml_alone::settings how;
    how.of = sizes;
    how.rows = batch;
    how.threads = threads;
    how.spread = spread;
    how.params = ggml_opt_get_default_optimizer_params(nullptr);
    return how;
  }

  data all_;
  ggml_alone::training training_;
};

class under_umbo final : public training {
public:
  explicit under_umbo(int count)
      : model_(umbo::strategy::create_cpu(count), options(), [](ggml_context *ctx) { return perceptron(ctx, sizes); },
               [](perceptron &net) { net.draw(spread); }),
        loop_(model_, umbo::adapters::rows_of(all_.dataset), loop_options()) {}

  double pass() override { return loop_.epoch().first.loss; }

private:
  static umbo::adapters::ggml_options options() {
    umbo::adapters::ggml_options how;
    how.datapoint_size = sizes.inputs;
    return how;
  }

  static umbo::adapters::ggml_loop_options loop_options() {
    umbo::adapters::ggml_loop_options how;
    how.batch_size = batch;
    how.shuffle = false;
    return how;
  }

  data all_;
  umbo::adapters::ggml_model<perceptron> model_;
  umbo::adapters::ggml_loop<perceptron> loop_;
};

template <class How>
void take(int processors) {
  passes mlp([](int of) -> std::unique_ptr<training> { return std::make_unique<How>(of); }, processors);
  const workload all[] = {passes::timed("mlp", examples, mlp)};
  take_turns("ggml", all, 1);
}

} // namespace

int main(int count, char **arguments) {
  const int processors = count == 3 ? std::atoi(arguments[2]) : 0;
  if (processors < 1) give_up("usage: ggml_engine alone|umbo PROCESSORS");
  if (std::strcmp(arguments[1], "alone") == 0) take<alone>(processors);
  else if (std::strcmp(arguments[1], "umbo") == 0) take<under_umbo>(processors);
  else give_up("'%s' is neither alone nor umbo", arguments[1]);
}

// ggml alone and under Umbo, on the same network, examples and rule.
//
//   ggml_engine alone|umbo PROCESSORS
//
// Alone, ggml's graph uses so many threads; under Umbo there are so many replicas with one thread each.
#include "training.hpp"

#include "../../c_examples/engines/ggml_model.hpp"

#include <algorithm>

namespace {

constexpr layers sizes = {784, 500, 10};
constexpr std::int64_t examples = 4096, batch = 256;
constexpr float rate = 1e-3f;

struct data {
  std::vector<float> x = std::vector<float>(examples * sizes.inputs);
  std::vector<float> y = std::vector<float>(examples * sizes.classes, 0.0f);

  data() {
    std::uint32_t state = 7;
    for (std::int64_t row = 0; row < examples; ++row) {
      float sum = 0;
      for (std::int64_t column = 0; column < sizes.inputs; ++column) {
        state = state * 1664525u + 1013904223u;
        const float number = static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
        x[static_cast<std::size_t>(row * sizes.inputs + column)] = number;
        sum += column % 2 == 0 ? number : -number;
      }
      const auto label = std::min<std::int64_t>(9, std::max<std::int64_t>(0, static_cast<std::int64_t>(sum / 6 + 5)));
      y[static_cast<std::size_t>(row * sizes.classes + label)] = 1.0f;
    }
  }
};

ggml_opt_optimizer_params settings(void *) {
  ggml_opt_optimizer_params how{};
  how.adamw = {rate, 0.9f, 0.999f, 1e-8f, 0.0f};
  how.sgd = {rate, 0.0f};
  return how;
}

class alone final : public training {
public:
  explicit alone(int threads) : weights_(drawn()), training_(*weights_, batch, threads, settings) {}

  double pass() override {
    ggml_opt_result_t result = ggml_opt_result_init();
    for (std::int64_t first = 0; first < examples; first += batch) {
      training_.step(&all_.x[static_cast<std::size_t>(first * sizes.inputs)],
                     &all_.y[static_cast<std::size_t>(first * sizes.classes)], result);
    }
    double loss = 0;
    ggml_opt_result_loss(result, &loss, nullptr);
    ggml_opt_result_free(result);
    return loss;
  }

  static std::shared_ptr<block> drawn() {
    auto made = std::make_shared<block>(sizes);
    made->draw(0.05f);
    return made;
  }

private:
  data all_;
  std::shared_ptr<block> weights_;
  own_training training_;
};

class under_umbo final : public training {
public:
  explicit under_umbo(int count) : weights_(alone::drawn()), strategy_(of(count)) {
    if (batch % count != 0) give_up("%d replicas cannot share batches of %d evenly", count, static_cast<int>(batch));
    for (int index = 0; index < count; ++index) replicas_.push_back(std::make_unique<replica>(*weights_, batch / count));
    std::vector<umbo_view> views;
    for (const ggml_tensor *each : replicas_[0]->net.weights) views.push_back(view_of(each));
    gradients_ = umbo::gradients::create(
        strategy_, strategy_.create_variables_in_memory(weight_names, views, weights_), umbo::loss_reduction::mean);
    umbo::adamw_options how;
    how.learning_rate = static_cast<double>(rate);
    how.epsilon = 1e-8;
    how.weight_decay = 0;
    adamw_ = umbo::optimizer::adamw(strategy_, how);
    umbo::value::field_list fields;
    fields.emplace_back("x", umbo::value::from_data({examples, sizes.inputs}, all_.x.data()));
    fields.emplace_back("y", umbo::value::from_data({examples, sizes.classes}, all_.y.data()));
    const auto rows = umbo::dataset::from_tensor_slices(umbo::value::create_struct(fields)).batch(batch);
    batches_ = strategy_.distribute_dataset(rows).iterate();
  }

  double pass() override {
    double sum = 0;
    for (const umbo::value &element : batches_) {
      strategy_.run([this](umbo::replica_context &context, const umbo::value &rows) {
        const auto x = rows.view_as<float>("x"), y = rows.view_as<float>("y");
        replicas_[static_cast<std::size_t>(context.replica_id())]->contribute(context, gradients_, x.data(), y.data());
      }, element);
      adamw_.apply(gradients_);
      sum += strategy_.metric_result("loss").sum;
    }
    batches_.reset();
    return sum / examples;
  }

private:
  static umbo::strategy of(int count) {
    umbo::strategy_options options;
    options.cpu_replicas = count;
    return umbo::strategy::create(options);
  }

  data all_;
  std::shared_ptr<block> weights_;
  umbo::strategy strategy_;
  std::vector<std::unique_ptr<replica>> replicas_;
  umbo::gradients gradients_;
  umbo::optimizer adamw_;
  umbo::iterator batches_;
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

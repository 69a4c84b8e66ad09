// An update rule of the program's own: each weight goes one step against the sign of a running mean of its gradient. Teaches
// that a rule is one function over a tile of weights, called while they are in the cache; everything around it (the sum over
// the replicas, clipping, schedules, checkpoints of its state) is there for it as for the rules of the library.
#include <cmath>
#include <cstdio>
#include <umbo/umbo.hpp>
#include <vector>

int main() {
  const auto strategy = umbo::strategy::create_cpu(2);
  const auto line = strategy.create_variable("line", umbo::dtype::float32, {2}, umbo::initial::zeros); // {w, b}
  const auto gradients = umbo::gradients::create(strategy, {line}, umbo::loss_reduction::sum);

  umbo::custom_rule_options rule;
  rule.name = "sign";
  rule.state_names = {"mean"}; // kept for each weight, zero at first
  const float keep = 0.5f;
  // Called by several threads at once, on tiles that have nothing in common.
  const auto optimizer = umbo::optimizer::custom(strategy, rule, [keep](const umbo_update_tile &tile) noexcept {
    auto *const weights = static_cast<float *>(tile.weights), *const mean = static_cast<float *>(tile.states[0]);
    const auto *const gradient = static_cast<const float *>(tile.gradient);
    const auto rate = static_cast<float>(tile.learning_rate);
    for (std::int64_t i = 0; i < tile.count; ++i) {
      mean[i] = keep * mean[i] + (1 - keep) * gradient[i];
      weights[i] -= rate * static_cast<float>((mean[i] > 0) - (mean[i] < 0));
    }
  });
  // Ever smaller steps.
  optimizer.set_schedule([](std::int64_t iteration) { return 0.1 / (1.0 + 0.05 * static_cast<double>(iteration)); });

  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    const auto row = batch.view_as<float>();
    const auto w = context.read<float>(line);
    const auto g = context.gradient<float>(gradients, 0, umbo::gradient_mode::add);
    for (std::int64_t i = 0; i < row.shape(0); ++i) {
      const float error = w[0] * row(i, 0) + w[1] - row(i, 1);
      g[0] += error * row(i, 0);
      g[1] += error;
    }
    context.submit(gradients);
  };
  std::vector<float> table;
  for (int i = 0; i < 100; ++i) {
    table.push_back(0.02f * static_cast<float>(i) - 1.0f);
    table.push_back(3.0f * table.back() - 1.0f);
  }
  const auto rows = umbo::dataset::from_tensor_slices(umbo::tensor::from_data({100, 2}, table)).shuffle();
  const auto batches = strategy.iterate(rows.batch(16));
  for (int epoch = 0; epoch < 50; ++epoch) umbo::train_epoch(strategy, batches, optimizer, gradients, step);

  const auto found = line.read().to_vector<float>();
  std::printf("y = %.2f x %+.2f\n", static_cast<double>(found[0]), static_cast<double>(found[1]));
  return std::fabs(found[0] - 3) < 0.05f && std::fabs(found[1] + 1) < 0.05f ? 0 : 1;
}

// Fits y = w x + b on two replicas: a whole training loop, with a dataset, gradients, an optimizer and a metric.
//
// The 10 examples come in batches of 4, so that the last batch has two: one for each replica. The result is the one
// that a single replica finds, since every gradient is weighted by the examples it was computed from.
#include <cmath>
#include <cstdio>
#include <umbo/umbo.hpp>
#include <vector>

int main() {
  umbo::strategy_options options;
  options.cpu_replicas = 2;
  const auto strategy = umbo::strategy::create(options);
  const auto line = strategy.create_variable("line", umbo::tensor::create_zeros(umbo::dtype::float32, {2})); // {w, b}
  // The step adds up over its rows; the library divides by all rows.
  const auto gradients = umbo::gradients::create(strategy, {line}, umbo::loss_reduction::sum);

  // The training step of one replica: reads the line and its part of the batch, writes its gradient.
  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    const auto x = batch.view_as<float>("x"), y = batch.view_as<float>("y"); // this replica's rows; there may be none
    const auto p = context.read<float>(line);
    const auto g = context.gradient<float>(gradients, 0, umbo::gradient_mode::add); // this replica's own buffer, zeroed
    double sum = 0.0;
    for (std::size_t row = 0; row < x.size(); ++row) {
      const float error = p[0] * x[row] + p[1] - y[row];
      sum += 0.5 * static_cast<double>(error * error);
      g[0] += error * x[row];
      g[1] += error;
    }
    context.add_metric("loss", sum, static_cast<double>(x.size()));
    context.submit(gradients);
  };

  std::vector<float> x, y; // on the line y = 3 x - 1
  for (int i = 0; i < 10; ++i) {
    x.push_back(0.2f * static_cast<float>(i) - 1.0f);
    y.push_back(3.0f * x.back() - 1.0f);
  }
  const auto columns = umbo::value::create_struct({{"x", umbo::tensor::from_vector(x)}, {"y", umbo::tensor::from_vector(y)}});
  const auto examples = umbo::dataset::from_tensor_slices(columns).shuffle().batch(4);
  const auto batches = strategy.distribute_dataset(examples).iterate();

  umbo::sgd_options rate;
  rate.learning_rate = 0.5;
  const auto optimizer = umbo::optimizer::sgd(strategy, rate);
  for (int epoch = 1; epoch <= 20; ++epoch) {
    umbo::train_epoch(strategy, batches, optimizer, gradients, step);
    const auto loss = strategy.metric_result("loss"); // of the whole epoch
    if (epoch % 5 == 0) std::printf("epoch %2d: loss %.6f over %.0f examples\n", epoch, loss.mean, loss.weight);
  }

  const auto fitted = line.read().to_vector<float>();
  std::printf("y = %.3f x %+.3f\n", static_cast<double>(fitted[0]), static_cast<double>(fitted[1]));
  return std::fabs(fitted[0] - 3.0f) < 0.01f && std::fabs(fitted[1] + 1.0f) < 0.01f ? 0 : 1;
}

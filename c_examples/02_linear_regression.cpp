// Fits y = w x + b on two replicas: a whole training loop, with a dataset, gradients, an optimizer and a metric.
#include <cstdio>
#include <umbo/umbo.hpp>

int main() {
  const auto strategy = umbo::strategy::create_cpu(2); // UMBO_AUTO: a replica for each processor
  const auto line = strategy.create_variable("line", umbo::dtype::float32, {2}, umbo::initial::zeros); // {w, b}
  const auto gradients = umbo::gradients::create(strategy, {line}, umbo::loss_reduction::sum); // divided by all rows
  const auto sgd = umbo::optimizer::sgd(strategy, {0.5}); // C++20: {.learning_rate = 0.5}

  const float table[] = {-1, -4, -0.5f, -2.5f, 0, -1, 0.5f, 0.5f, 1, 2, 0.75f, 1.25f}; // x, y = 3 x - 1, ...
  const auto rows = umbo::dataset::from_tensor_slices(umbo::tensor::from_data({6, 2}, table));
  // The last batch has two rows: one for each replica.
  const auto batches = strategy.iterate(rows.batch(4));

  // The step of one replica: reads the line and its rows {x, y} of the batch (there may be none), adds its gradient.
  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    const auto row = batch.view_as<float>();
    const auto p = context.read<float>(line);
    const auto g = context.gradient<float>(gradients, 0, umbo::gradient_mode::add); // its own buffer, zeroed
    double loss = 0.0;
    for (std::int64_t i = 0; i < row.shape(0); ++i) {
      const float error = p[0] * row(i, 0) + p[1] - row(i, 1);
      loss += 0.5 * static_cast<double>(error * error);
      g[0] += error * row(i, 0);
      g[1] += error;
    }
    context.add_metric("loss", loss, static_cast<double>(row.shape(0)));
    context.submit(gradients);
  };
  for (int i = 0; i < 20; ++i) umbo::train_epoch(strategy, batches, sgd, gradients, step);

  const auto fitted = line.read().to_vector<float>();
  std::printf("y = %.3f x %+.3f, loss %.6f\n", static_cast<double>(fitted[0]), static_cast<double>(fitted[1]),
              strategy.metric_result("loss").mean); // of the last epoch
}

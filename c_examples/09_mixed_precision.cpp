// Trains with 16-bit floats where they are enough: replicas read float16 copies of the variables and write float16
// gradients, while the variables and all sums stay float32 and float64. Teaches low-precision copies, a dynamic loss scale,
// which keeps small gradients from becoming zero, and accumulation: three batches make one update, and the rest of an epoch
// counts too.
#include <cmath>
#include <cstdio>
#include <umbo/umbo.hpp>
#include <vector>

int main() {
  const auto strategy = umbo::strategy::create_cpu(2);
  const auto line = strategy.create_variable("line", umbo::dtype::float32, {2}, umbo::initial::zeros); // {w, b}
  umbo::gradients_options sums;
  sums.dtype = umbo::dtype::float16;
  sums.accumulation_steps = 3;
  umbo::sgd_options rate;
  rate.learning_rate = 0.5;
  const auto gradients = umbo::gradients::create(strategy, {line}, umbo::loss_reduction::sum, sums);
  const auto optimizer = umbo::optimizer::sgd(strategy, rate);
  umbo::optimizer_options scaling;
  scaling.loss_scaling = umbo::loss_scaling::dynamic; // begins with 65536, which is too much here, and finds what fits
  optimizer.configure(scaling);

  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    const auto row = batch.view_as<float>();
    const auto p = context.read<umbo::float16>(line); // kept in step by the updates
    const auto g = context.gradient<umbo::float16>(gradients, 0, umbo::gradient_mode::overwrite);
    const auto scale = static_cast<float>(optimizer.info().loss_scale);
    float sum[2] = {0, 0};
    for (std::int64_t i = 0; i < row.shape(0); ++i) {
      const float error = static_cast<float>(p[0]) * row(i, 0) + static_cast<float>(p[1]) - row(i, 1);
      sum[0] += scale * error * row(i, 0);
      sum[1] += scale * error;
    }
    for (std::size_t i = 0; i < 2; ++i) g[i] = umbo::float16(sum[i]); // may overflow: that update is skipped
    context.submit(gradients);
  };

  std::vector<float> table;
  for (int i = 0; i < 100; ++i) {
    table.push_back(0.02f * static_cast<float>(i) - 1.0f);
    table.push_back(3.0f * table.back() - 1.0f);
  }
  const auto rows = umbo::dataset::from_tensor_slices(umbo::tensor::from_data({100, 2}, table)).shuffle();
  const auto batches = strategy.iterate(rows.batch(10)); // three updates of three, and one of the last
  std::int64_t updates = 0, skipped = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    const auto report = umbo::train_epoch(strategy, batches, optimizer, gradients, step);
    updates += report.update_count;
    skipped += report.skipped_count;
  }
  const auto found = line.read().to_vector<float>();
  std::printf("y = %.2f x %+.2f after %d updates; %d were skipped until the loss scale was %.0f\n",
              static_cast<double>(found[0]), static_cast<double>(found[1]), static_cast<int>(updates),
              static_cast<int>(skipped), optimizer.info().loss_scale);
  return std::fabs(found[0] - 3) < 0.02f && std::fabs(found[1] + 1) < 0.02f && updates + skipped == 80 ? 0 : 1;
}

// Finds the centres of three clouds of points: k-means, which needs no gradients. Teaches merge calls: the replicas wait
// for each other in the middle of a step, one function runs once with what all of them bring, and it changes a variable.
#include <cmath>
#include <cstdio>
#include <umbo/umbo.hpp>
#include <vector>

int main() {
  constexpr std::int64_t points = 999, k = 3;
  const float middles[k][2] = {{0, 0}, {10, 0}, {0, 10}};
  std::vector<float> table;
  for (int i = 0; i < points; ++i) {
    table.push_back(middles[i % k][0] + std::sin(static_cast<float>(i)));
    table.push_back(middles[i % k][1] + std::cos(static_cast<float>(i) * 1.7f));
  }
  const auto strategy = umbo::strategy::create_cpu(2);
  // The first centres are the first points.
  const auto centres = strategy.create_variable("centres", umbo::tensor::from_data({k, 2}, table.data()));
  const auto all = umbo::dataset::from_tensor_slices(umbo::tensor::from_data({points, 2}, table));
  const auto batches = strategy.iterate(all.batch(points)); // all of them in each step

  // Moves each centre to the middle of the points that are nearest to it. Runs once; it gets the sums of each replica.
  const auto move_centres = [&](umbo::strategy &on, const umbo::value &sums) {
    const auto total = on.reduce(sums, umbo::reduce_op::sum);
    const auto sum = total.view_as<float>(); // x, y, points
    auto moved = centres.read().to_vector<float>();
    for (std::int64_t c = 0; c < k; ++c) {
      if (sum(c, 2) == 0) continue; // nobody's nearest: it stays where it is
      for (std::int64_t d = 0; d < 2; ++d) moved[static_cast<std::size_t>(2 * c + d)] = sum(c, d) / sum(c, 2);
    }
    centres.upload(moved);
  };

  // One replica: adds up its points by the centre that is nearest.
  const auto step = [&](umbo::replica_context &context, const umbo::value &batch) {
    const auto point = batch.view_as<float>();
    const auto centre = context.read<float>(centres);
    auto own = umbo::tensor::create_zeros(umbo::dtype::float32, {k, 3});
    const auto sums = own.view_as<float>();
    for (std::int64_t i = 0; i < point.shape(0); ++i) {
      std::int64_t nearest = 0;
      float least = INFINITY;
      for (std::int64_t c = 0; c < k; ++c) {
        const float distance = std::hypot(point(i, 0) - centre(c, 0), point(i, 1) - centre(c, 1));
        if (distance < least) {
          least = distance;
          nearest = c;
        }
      }
      sums(nearest, 0) += point(i, 0);
      sums(nearest, 1) += point(i, 1);
      sums(nearest, 2) += 1;
    }
    context.merge_call(move_centres, own);
  };
  for (int pass = 0; pass < 10; ++pass) umbo::evaluate(strategy, batches, step); // no gradients, no update

  const auto found = centres.read().to_vector<float>();
  float furthest = 0;
  for (std::size_t c = 0; c < k; ++c) {
    std::printf("centre %d: (%.2f, %.2f)\n", static_cast<int>(c), static_cast<double>(found[2 * c]),
                static_cast<double>(found[2 * c + 1]));
    furthest = std::fmax(furthest, std::hypot(found[2 * c] - middles[c][0], found[2 * c + 1] - middles[c][1]));
  }
  return furthest < 0.1f ? 0 : 1;
}

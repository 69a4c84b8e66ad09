// A network whose weights are one vector of floats learns on all processors with a trainer: the lambda that learns from rows
// is all that a program has to have. It resumes from a file if there is one, and Ctrl-C saves.
//
// Points inside of a ring are told from those outside of it.

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <umbo/umbo.hpp>
#include <vector>

namespace {

constexpr int hidden = 16;
constexpr std::size_t weight_count = 4 * hidden + 1;

struct point {
  float x, y, is_inside;
};

float next_random() { // from -1 to 1
  static unsigned state = 1;
  state = state * 1664525u + 1013904223u;
  return static_cast<float>(state >> 8) / 8388608.0f - 1.0f;
}

// Adds the gradient of a point to `g`, if there is one, and returns its loss. Each hidden unit has four weights: of x, of y,
// its bias, and of its output.
double learn_point(const point &p, const float *w, float *g) {
  std::array<float, hidden> unit;
  float sum = w[weight_count - 1];
  for (std::size_t k = 0; k < hidden; ++k) {
    const float *u = w + 4 * k;
    unit[k] = std::tanh(u[0] * p.x + u[1] * p.y + u[2]);
    sum += u[3] * unit[k];
  }
  const float probability = 1 / (1 + std::exp(-sum)), error = probability - p.is_inside;
  for (std::size_t k = 0; g != nullptr && k < hidden; ++k) {
    const float back = error * w[4 * k + 3] * (1 - unit[k] * unit[k]);
    g[4 * k] += back * p.x;
    g[4 * k + 1] += back * p.y;
    g[4 * k + 2] += back;
    g[4 * k + 3] += error * unit[k];
  }
  if (g != nullptr) g[weight_count - 1] += error;
  return -std::log(std::fmax(p.is_inside > 0 ? static_cast<double>(probability) : 1 - static_cast<double>(probability), 1e-7));
}

} // namespace

int main(int argc, char **argv) {
  std::vector<point> points(4000);
  for (point &p : points) {
    p.x = 2 * next_random();
    p.y = 2 * next_random();
    const float radius = std::hypot(p.x, p.y);
    p.is_inside = radius > 0.7f && radius < 1.6f ? 1.0f : 0.0f;
  }
  std::vector<float> weights(weight_count);
  for (float &weight : weights) weight = next_random();
  const auto count = static_cast<std::int64_t>(points.size());
  const std::string path = argc > 1 ? argv[1] : "12_trainer_cpp.umbo";

  umbo::trainer_options options; // C++20: {.rule = "adam", .learning_rate = 0.02, .interrupt_path = path}
  options.rule = "adam";
  options.learning_rate = 0.02;
  options.interrupt_path = path;
  const auto trainer = umbo::trainer::create({weights}, options);

  // Runs on all replicas at the same time, on each with its rows of the batch.
  const auto learn = [&](const umbo::rows &rows) {
    double loss = 0;
    for (const std::int64_t row : rows) loss += learn_point(points[static_cast<std::size_t>(row)], rows.weights(), rows.gradient());
    return loss;
  };
  for (std::int64_t epoch = trainer.resume(path); epoch < 20; ++epoch) { // from 0 if there is no such file
    const double loss = trainer.epoch(count, 64, learn); // each in another order
    if (epoch % 5 == 4) std::printf("epoch %2d: loss %.4f\n", static_cast<int>(epoch) + 1, loss);
  }
  trainer.save(path);
  const double loss = trainer.evaluate(count, 1024, learn);
  std::printf("in the end %.4f, in %s\n", loss, path.c_str());
  return loss < 0.2 ? 0 : 1;
}

#include "mlp.h"

#include "matrix.h"

#include <math.h>

int64_t mlp_parameter_count(const mlp_shape *shape) {
  int64_t count = 0;
  for (int layer = 0; layer < shape->layers; ++layer) {
    count += (shape->sizes[layer] + 1) * shape->sizes[layer + 1];
  }
  return count;
}

/* SplitMix64 (Steele, Lea and Flood, 2014). */
static uint64_t next_random(uint64_t *state) {
  uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return z ^ (z >> 31);
}

void mlp_initialize_weights(const mlp_shape *shape, int layer, uint64_t seed, float *weights) {
  const int64_t count = shape->sizes[layer] * shape->sizes[layer + 1];
  const double limit = sqrt(6.0 / (double)shape->sizes[layer]);
  uint64_t state = seed;
  state = next_random(&state) + (uint64_t)layer;
  for (int64_t i = 0; i < count; ++i) {
    const double unit = (double)(next_random(&state) >> 11) * 0x1p-53;
    weights[i] = (float)(limit * (2.0 * unit - 1.0));
  }
}

/* The workspace holds the activations of every layer, then two gradients of the widest one. */
static int64_t widest_layer(const mlp_shape *shape) {
  int64_t widest = 0;
  for (int layer = 1; layer <= shape->layers; ++layer) {
    if (shape->sizes[layer] > widest) widest = shape->sizes[layer];
  }
  return widest;
}

size_t mlp_workspace_bytes(const mlp_shape *shape, int64_t rows) {
  int64_t values = 2 * widest_layer(shape);
  for (int layer = 1; layer <= shape->layers; ++layer) values += shape->sizes[layer];
  return (size_t)(values * rows) * sizeof(float);
}

static void add_bias(int64_t rows, int64_t columns, const float *bias, float *values) {
  for (int64_t row = 0; row < rows; ++row, values += columns) {
    for (int64_t j = 0; j < columns; ++j) values[j] += bias[j];
  }
}

static void add_bias_and_rectify(int64_t rows, int64_t columns, const float *bias, float *values) {
  for (int64_t row = 0; row < rows; ++row, values += columns) {
    for (int64_t j = 0; j < columns; ++j) {
      const float value = values[j] + bias[j];
      values[j] = value > 0.0f ? value : 0.0f;
    }
  }
}

/* The derivative of ReLU: a gradient passes where the activation is positive. */
static void mask(int64_t count, const float *activations, float *gradient) {
  for (int64_t i = 0; i < count; ++i) gradient[i] = activations[i] > 0.0f ? gradient[i] : 0.0f;
}

static void sum_rows(int64_t rows, int64_t columns, const float *values, float *sums) {
  for (int64_t j = 0; j < columns; ++j) sums[j] = 0.0f;
  for (int64_t row = 0; row < rows; ++row, values += columns) {
    for (int64_t j = 0; j < columns; ++j) sums[j] += values[j];
  }
}

/* Softmax cross-entropy of logits [rows, classes]; where gradient is given: softmax(logits) - one_hot(labels). */
static mlp_score softmax_cross_entropy(int64_t rows, int64_t classes, const float *logits, const uint8_t *labels,
                                       float *gradient) {
  mlp_score score = {0.0, 0};
  for (int64_t row = 0; row < rows; ++row, logits += classes) {
    int64_t best = 0;
    for (int64_t j = 1; j < classes; ++j) {
      if (logits[j] > logits[best]) best = j;
    }
    /* Shifted by the largest logit, so that exp cannot overflow. */
    float total = 0.0f;
    for (int64_t j = 0; j < classes; ++j) total += expf(logits[j] - logits[best]);
    score.loss += (double)(logf(total) + logits[best] - logits[labels[row]]);
    score.correct += best == labels[row];
    if (gradient != NULL) {
      for (int64_t j = 0; j < classes; ++j) gradient[j] = expf(logits[j] - logits[best]) / total;
      gradient[labels[row]] -= 1.0f;
      gradient += classes;
    }
  }
  return score;
}

/* Fills activations[1..layers], which lie one after another in the workspace; returns the memory behind them. */
static float *forward(const mlp_shape *shape, const mlp_parameters *parameters, int64_t rows, const float *inputs,
                      void *workspace, const float *activations[MLP_MOST_LAYERS + 1]) {
  float *memory = workspace;
  activations[0] = inputs;
  for (int layer = 0; layer < shape->layers; ++layer) {
    const int64_t in = shape->sizes[layer], out = shape->sizes[layer + 1];
    matrix_multiply(rows, out, in, activations[layer], parameters->weights[layer], memory);
    if (layer + 1 < shape->layers) {
      add_bias_and_rectify(rows, out, parameters->biases[layer], memory);
    } else {
      add_bias(rows, out, parameters->biases[layer], memory);
    }
    activations[layer + 1] = memory;
    memory += rows * out;
  }
  return memory;
}

mlp_score mlp_evaluate(const mlp_shape *shape, const mlp_parameters *parameters, int64_t rows, const float *inputs,
                       const uint8_t *labels, void *workspace) {
  const float *activations[MLP_MOST_LAYERS + 1];
  forward(shape, parameters, rows, inputs, workspace, activations);
  return softmax_cross_entropy(rows, shape->sizes[shape->layers], activations[shape->layers], labels, NULL);
}

mlp_score mlp_differentiate(const mlp_shape *shape, const mlp_parameters *parameters, int64_t rows, const float *inputs,
                            const uint8_t *labels, void *workspace, const mlp_gradients *gradients) {
  const float *activations[MLP_MOST_LAYERS + 1];
  float *gradient = forward(shape, parameters, rows, inputs, workspace, activations);
  float *gradient_below = gradient + rows * widest_layer(shape);
  const mlp_score score =
      softmax_cross_entropy(rows, shape->sizes[shape->layers], activations[shape->layers], labels, gradient);
  for (int layer = shape->layers - 1; layer >= 0; --layer) {
    const int64_t in = shape->sizes[layer], out = shape->sizes[layer + 1];
    matrix_multiply_transposed_a(in, out, rows, activations[layer], gradient, gradients->weights[layer]);
    sum_rows(rows, out, gradient, gradients->biases[layer]);
    if (layer > 0) { /* nobody asks for the gradient of the inputs */
      matrix_multiply_transposed_b(rows, in, out, gradient, parameters->weights[layer], gradient_below);
      mask(rows * in, activations[layer], gradient_below);
      float *swap = gradient;
      gradient = gradient_below;
      gradient_below = swap;
    }
  }
  return score;
}

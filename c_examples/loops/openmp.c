/* A linear model learns with OpenMP: threads share the rows of a batch, and their gradients are added up. docs/loop.md has
 * the patch that puts Umbo into this loop. */
#include <stdio.h>

enum { ROWS = 4000, FEATURES = 20, BATCH = 128, EPOCHS = 20 };
static const float RATE = 0.1f;

static float table[ROWS][FEATURES + 1]; /* each row: the features, and what to predict */
static float weights[FEATURES];

static float next_random(void) { /* from -1 to 1 */
  static unsigned state = 1;
  state = state * 1664525u + 1013904223u;
  return (float)(state >> 8) / 8388608.0f - 1.0f;
}

static void make_table(void) {
  for (int i = 0; i < ROWS; ++i) {
    table[i][FEATURES] = next_random() / 4; /* noise */
    for (int k = 0; k < FEATURES; ++k) {
      table[i][k] = next_random();
      table[i][FEATURES] += table[i][k] * (float)(k + 1);
    }
  }
}

/* Adds a row's gradient to `sum`, and gives its loss. */
static double learn_row(const float *x, const float *w, float *sum) {
  float error = -x[FEATURES];
  for (int k = 0; k < FEATURES; ++k) error += w[k] * x[k];
  for (int k = 0; k < FEATURES; ++k) sum[k] += error * x[k];
  return (double)(error * error) / 2;
}

int main(void) {
  double loss = 0;
  make_table();
  for (int epoch = 0; epoch < EPOCHS; ++epoch) {
    loss = 0;
    for (int first = 0; first < ROWS; first += BATCH) {
      const int count = ROWS - first < BATCH ? ROWS - first : BATCH;
      float sum[FEATURES] = {0};
#pragma omp parallel for reduction(+ : sum[:FEATURES], loss)
      for (int i = first; i < first + count; ++i) loss += learn_row(table[i], weights, sum);
      for (int k = 0; k < FEATURES; ++k) weights[k] -= RATE * sum[k] / (float)count;
    }
    loss /= ROWS;
  }
  printf("loss %.6f, first weight %.4f\n", loss, (double)weights[0]);
  return 0;
}

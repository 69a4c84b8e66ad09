/* A linear model learns with OpenMP: threads share the rows of a batch, and their gradients are added up. openmp.diff puts Umbo
 * into this loop, and docs/loop.md explains it.
 *
 *   openmp [EPOCHS [THREADS [BATCH [FILE]]]]
 *
 * FILE gets the weights at the end. */
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>

enum { ROWS = 4000, FEATURES = 20 };
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

int main(int argc, char **argv) {
  const int epochs = argc > 1 ? atoi(argv[1]) : 20, threads = argc > 2 ? atoi(argv[2]) : 2, batch = argc > 3 ? atoi(argv[3]) : 128;
  double loss = 0, start, seconds;
  make_table();
  start = omp_get_wtime();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    loss = 0;
    for (int first = 0; first < ROWS; first += batch) {
      const int count = ROWS - first < batch ? ROWS - first : batch;
      float sum[FEATURES] = {0};
#pragma omp parallel for num_threads(threads) reduction(+ : sum[:FEATURES], loss)
      for (int i = first; i < first + count; ++i) loss += learn_row(table[i], weights, sum);
      for (int k = 0; k < FEATURES; ++k) weights[k] -= RATE * sum[k] / (float)count;
    }
    loss /= ROWS;
  }
  seconds = omp_get_wtime() - start;
  printf("loss %.6f, %.0f rows/s\n", loss, (double)epochs * ROWS / seconds);
  if (argc > 4) {
    FILE *file = fopen(argv[4], "wb");
    if (file == NULL || fwrite(weights, sizeof weights, 1, file) != 1 || fclose(file) != 0) return 1;
  }
  return 0;
}

/* A linear model learns with MPI: each process takes its part of the rows of a batch, and an all-reduce adds the gradients up.
 * mpi.diff puts Umbo into this loop, and docs/from-elsewhere.md explains it.
 *
 *   mpirun -n 2 mpi [EPOCHS [BATCH [FILE]]]
 *
 * FILE gets the weights at the end. */
#include <mpi.h>
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
  const int epochs = argc > 1 ? atoi(argv[1]) : 20, batch = argc > 2 ? atoi(argv[2]) : 128;
  int rank, ranks;
  double loss = 0, start, seconds;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  make_table();
  start = MPI_Wtime();
  for (int epoch = 0; epoch < epochs; ++epoch) {
    loss = 0;
    for (int first = 0; first < ROWS; first += batch) {
      const int count = ROWS - first < batch ? ROWS - first : batch;
      const int mine = first + count * rank / ranks, end = first + count * (rank + 1) / ranks;
      float sum[FEATURES] = {0};
      double part = 0;
      for (int i = mine; i < end; ++i) part += learn_row(table[i], weights, sum);
      MPI_Allreduce(MPI_IN_PLACE, sum, FEATURES, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
      MPI_Allreduce(MPI_IN_PLACE, &part, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
      for (int k = 0; k < FEATURES; ++k) weights[k] -= RATE * sum[k] / (float)count;
      loss += part;
    }
    loss /= ROWS;
  }
  seconds = MPI_Wtime() - start;
  if (rank == 0) {
    printf("loss %.6f, %.0f rows/s\n", loss, (double)epochs * ROWS / seconds);
    if (argc > 3) {
      FILE *file = fopen(argv[3], "wb");
      if (file == NULL || fwrite(weights, sizeof weights, 1, file) != 1 || fclose(file) != 0) MPI_Abort(MPI_COMM_WORLD, 1);
    }
  }
  MPI_Finalize();
  return 0;
}

#include "compare.h"

#include "matrix.h"
#include "progress.h"
#include "trainer.h"

#include <stdlib.h>
#include <time.h>

enum { ROUNDS = 15, UNTIMED_STEPS = 3, MOST_CONTESTANTS = 3 };

typedef struct {
  trainer trainer;
  int blas_threads;
  double rates[ROUNDS]; /* samples per second */
} contestant;

/* A step that does not mind the end of a pass. */
static void step(contestant *c, double learning_rate, tally *total) {
  if (!trainer_step(&c->trainer, learning_rate, total)) trainer_step(&c->trainer, learning_rate, total);
}

static double measure(contestant *c, int64_t steps, double learning_rate) {
  tally warm = {0.0, 0.0, 0.0}, timed = {0.0, 0.0, 0.0};
  matrix_set_threads(c->blas_threads);
  for (int i = 0; i < UNTIMED_STEPS; ++i) step(c, learning_rate, &warm);
  const double start = progress_clock();
  for (int64_t i = 0; i < steps; ++i) step(c, learning_rate, &timed);
  return timed.examples / (progress_clock() - start);
}

/* BLAS threads spin for a while after their last product; they must not take time from whoever is next. */
static void let_blas_threads_sleep(void) {
  const struct timespec pause = {.tv_sec = 0, .tv_nsec = 100000000};
  nanosleep(&pause, NULL);
}

static int by_value(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median_rate(contestant *c) {
  qsort(c->rates, ROUNDS, sizeof(c->rates[0]), by_value);
  return c->rates[ROUNDS / 2];
}

static int create_contestants(contestant contestants[MOST_CONTESTANTS], const picture_data *data,
                              const options *choices) {
  const workers alone = {NULL, 0, 1, 1};
  const int all_threads = matrix_most_threads();
  int count = 0;
  contestants[count].blas_threads = 1;
  trainer_create(&contestants[count++].trainer, data, choices, &alone, choices->replicas, 0);
  contestants[count].blas_threads = 1;
  trainer_create(&contestants[count++].trainer, data, choices, &alone, 1, 1);
  if (all_threads > 1) {
    contestants[count].blas_threads = all_threads;
    trainer_create(&contestants[count++].trainer, data, choices, &alone, 1, 1);
  }
  return count;
}

comparison compare_with_one_replica(const picture_data *data, const options *choices) {
  contestant contestants[MOST_CONTESTANTS];
  const int count = create_contestants(contestants, data, choices);
  const int64_t steps = 1 + data->training_examples / choices->batch_size / ROUNDS;
  for (int round = 0; round < ROUNDS; ++round) {
    for (int turn = 0; turn < count; ++turn) {
      contestant *c = &contestants[(round + turn) % count]; /* nobody is always first */
      c->rates[round] = measure(c, steps, choices->learning_rate);
      if (c->blas_threads > 1) let_blas_threads_sleep();
    }
  }

  comparison result = {median_rate(&contestants[0]), 1, 0.0};
  for (int i = 1; i < count; ++i) {
    const double rate = median_rate(&contestants[i]);
    if (rate > result.baseline_samples_per_second) {
      result.baseline_blas_threads = contestants[i].blas_threads;
      result.baseline_samples_per_second = rate;
    }
  }
  for (int i = 0; i < count; ++i) trainer_destroy(&contestants[i].trainer);
  return result;
}

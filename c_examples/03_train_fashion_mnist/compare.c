#include "compare.h"

#include "matrix.h"
#include "progress.h"
#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <umbo/diagnose.h>

enum { ROUNDS = 15, UNTIMED_STEPS = 3 };

/* Half of the turns this far apart, as a share: something else was running, here or on the host of this machine. */
static const double RESTLESS = 0.3;

typedef struct {
  trainer trainer;
  int replicas, blas_threads;
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

/* What is at this share of the numbers, from the least one to the greatest. */
static double quantile(const double numbers[ROUNDS], double share) {
  double sorted[ROUNDS];
  memcpy(sorted, numbers, sizeof(sorted));
  qsort(sorted, ROUNDS, sizeof(sorted[0]), by_value);
  return sorted[(int)(share * (ROUNDS - 1))];
}

static contestant_result result_of(const contestant *c, const contestant *replicas) {
  double ratios[ROUNDS];
  for (int round = 0; round < ROUNDS; ++round) ratios[round] = replicas->rates[round] / c->rates[round];
  return (contestant_result){c->replicas,           c->blas_threads,        quantile(c->rates, 0.5),
                             quantile(ratios, 0.5), quantile(ratios, 0.25), quantile(ratios, 0.75)};
}

static void enter(contestant *c, const picture_data *data, const options *choices, int replicas, int blas_threads) {
  const workers alone = {NULL, 0, 1, 1};
  c->replicas = replicas;
  c->blas_threads = blas_threads;
  trainer_create(&c->trainer, data, choices, &alone, replicas, replicas == 1);
  UMBO_CHECK(umbo_strategy_measure_steps(c->trainer.strategy, 1)); /* at most 1 % of the time */
}

/* Whether other programs kept processors from the replicas since they are measured. */
static int was_busy(const contestant *c) {
  int32_t causes = 0;
  size_t length = 0;
  /* The text does not matter here, and there is no room for it. */
  const umbo_status found = umbo_strategy_step_report(c->trainer.strategy, NULL, 0, &length, &causes);
  return found == UMBO_STATUS_OUT_OF_RANGE && (causes & UMBO_STEP_CAUSE_BUSY_MACHINE) != 0;
}

comparison compare_with_one_replica(const picture_data *data, const options *choices) {
  contestant contestants[MOST_CONTESTANTS];
  const int all_threads = matrix_most_threads();
  const int count = all_threads > 1 ? 3 : 2;
  enter(&contestants[0], data, choices, choices->replicas, 1);
  enter(&contestants[1], data, choices, 1, 1);
  if (all_threads > 1) enter(&contestants[2], data, choices, 1, all_threads);
  const int64_t steps = 1 + data->training_examples / choices->batch_size / ROUNDS;
  for (int round = 0; round < ROUNDS; ++round) {
    for (int turn = 0; turn < count; ++turn) {
      contestant *c = &contestants[(round + turn) % count]; /* nobody is always first */
      c->rates[round] = measure(c, steps, choices->learning_rate);
      if (c->blas_threads > 1) let_blas_threads_sleep();
    }
  }

  comparison result = {.count = count, .baseline = 1};
  for (int i = 0; i < count; ++i) {
    result.of[i] = result_of(&contestants[i], &contestants[0]);
    if (i > 1 && result.of[i].samples_per_second > result.of[1].samples_per_second) result.baseline = i;
    if (was_busy(&contestants[i])) result.busy = 1;
    trainer_destroy(&contestants[i].trainer);
  }
  return result;
}

static const char *plural(int count) { return count == 1 ? "" : "s"; }

void comparison_print(const comparison *compared) {
  const int replicas = compared->of[0].replicas;
  double apart = 0.0;
  for (int i = 0; i < compared->count; ++i) {
    const contestant_result *c = &compared->of[i];
    printf("  %d replica%s, %d BLAS thread%s%s: %.0f samples/s", c->replicas, plural(c->replicas), c->blas_threads,
           plural(c->blas_threads), c->replicas == 1 ? "" : " each", c->samples_per_second);
    if (i > 0) {
      printf(" (%d replica%s: %.2f times as fast; %.2f to %.2f in half of the turns)", replicas, plural(replicas), c->ratio,
             c->ratio_low, c->ratio_high);
      const double distance = (c->ratio_high - c->ratio_low) / c->ratio;
      if (distance > apart) apart = distance;
    }
    putchar('\n');
  }
  if (compared->busy) {
    puts("  The machine was busy: other programs used processors that the replicas needed, so these figures say little.\n"
         "  Measure again when it is quiet; 'umbo doctor' says whether it is.");
  } else if (apart > RESTLESS) {
    printf("  The turns differ by %.0f %%, as where something else keeps the machine or its host busy: these figures are rough.\n",
           100.0 * apart);
  }
}

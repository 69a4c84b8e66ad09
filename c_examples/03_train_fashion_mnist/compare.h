/* Is it worth it? The replicas against one replica, which may use BLAS threads instead. */
#ifndef COMPARE_H
#define COMPARE_H

#include "data.h"
#include "options.h"

enum { MOST_CONTESTANTS = 3 };

typedef struct {
  int replicas, blas_threads;
  double samples_per_second;           /* the median of all turns */
  double ratio, ratio_low, ratio_high; /* how many times as fast the replicas were in the same turn: median, quartiles */
} contestant_result;

typedef struct {
  int count;
  contestant_result of[MOST_CONTESTANTS]; /* the replicas, one replica with one BLAS thread, and with all of them */
  int baseline;                           /* the faster of those with one replica */
  int busy;                               /* whether other programs used processors that the replicas needed */
} comparison;

/* Trains about one epoch with each, alternating after a few steps, so that what else the machine does hits all alike. */
comparison compare_with_one_replica(const picture_data *data, const options *choices);

/* The same in words. */
void comparison_print(const comparison *compared);

#endif

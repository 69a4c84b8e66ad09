/* Is it worth it? The replicas against one replica, which may use BLAS threads instead. */
#ifndef COMPARE_H
#define COMPARE_H

#include "data.h"
#include "options.h"

typedef struct {
  double samples_per_second; /* of the replicas, measured beside the baseline */
  int baseline_blas_threads;
  double baseline_samples_per_second; /* the better of one BLAS thread and all of them */
} comparison;

/* Trains about one epoch with each, in turns of a few steps, so that what else the machine does hits all alike. */
comparison compare_with_one_replica(const picture_data *data, const options *choices);

#endif

/* The perceptron under a strategy whose replicas are on GPUs, on CPUs, or on both. */
#ifndef LEARNER_H
#define LEARNER_H

#include "data.h"
#include "gpu.h"
#include "mlp.h"

#include <umbo/umbo.h>

enum { LEARNER_MOST_REPLICAS = 64 };

/* Sums over examples. */
typedef struct {
  double loss;
  double right;
  double examples;
} tally;

typedef struct {
  mlp_shape shape;
  float scale, shift; /* from a pixel to an input */
  int tf32;
  umbo_strategy *strategy;
  int replicas;
  int on_gpus; /* how many of them */
  gpu gpus[LEARNER_MOST_REPLICAS];
  umbo_tensor *totals[LEARNER_MOST_REPLICAS]; /* a tally on each replica's device, which only grows */
  double *totals_at[LEARNER_MOST_REPLICAS];
  tally before; /* what the totals were together when they were last read */
  umbo_variable *variables[2 * MLP_MOST_LAYERS]; /* the weights and then the biases of each layer */
  umbo_gradients *gradients;
  umbo_optimizer *optimizer;
  umbo_iterator *training_batches, *test_batches;
} learner;

/* A replica on each of the devices. GPUs need what gpu_find() finds. */
void learner_create(learner *l, const picture_data *data, int64_t device_count, const char *const *devices,
                    int64_t batch_size, uint64_t seed, int tf32);
void learner_destroy(learner *l);

/* The device of a replica, such as "GPU:0". */
const char *learner_device(const learner *l, int replica);

/* One pass over the training set; each score is that of its step. */
tally learner_train(learner *l, double learning_rate);

/* One pass over the test set. */
tally learner_evaluate(learner *l);

#endif

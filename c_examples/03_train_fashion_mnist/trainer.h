/* The perceptron under a strategy: where the network of mlp.h meets Umbo. */
#ifndef TRAINER_H
#define TRAINER_H

#include "data.h"
#include "mlp.h"
#include "options.h"
#include "workers.h"

#include <umbo/umbo.h>

/* Sums over examples. */
typedef struct {
  double loss;
  double correct;
  double examples;
} tally;

typedef struct {
  mlp_shape shape;
  uint64_t seed;
  float mean, deviation; /* of a pixel */
  int rounds_weights;    /* they are in bfloat16, and biases in float32 */
  umbo_strategy *strategy;
  umbo_variable *variables[2 * MLP_MOST_LAYERS]; /* the weights and then the biases of each layer */
  umbo_gradients *gradients;
  umbo_optimizer *optimizer;
  umbo_iterator *training_batches;
  umbo_iterator *test_batches;
  double *own_examples; /* that each of this process's replicas has trained on */
} trainer;

/* together: the processes that train as one. leave_threads: the threads may run on any processor (for a replica whose
 * BLAS has threads of its own). */
void trainer_create(trainer *t, const picture_data *data, const options *choices, const workers *together, int replicas,
                    int leave_threads);
void trainer_destroy(trainer *t);

/* How many examples this process has trained on. */
double trainer_own_examples(const trainer *t);

/* A hash of all weights, the same for the same bits. */
uint64_t trainer_fingerprint(const trainer *t);

/* One batch: run, then apply. Adds to total; returns 0, and begins the next pass, when this one has no more. */
int trainer_step(trainer *t, double learning_rate, tally *total);

/* The loss and the accuracy over the whole test set. */
tally trainer_evaluate(trainer *t);

#endif

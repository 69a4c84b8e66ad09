/* A biased matrix factorisation under a strategy:
 *
 *   rating of item i by user u  =  mean + user_bias[u] + item_bias[i] + user_factors[u] . item_factors[i]
 *
 * The tables live in one place and the replicas contribute the rows that their ratings name. */
#ifndef RECOMMENDER_H
#define RECOMMENDER_H

#include "ratings.h"

#include <umbo/umbo.h>

typedef struct {
  int replicas;
  int rank; /* of the factorisation */
  int epochs;
  int64_t batch_size; /* over all replicas */
  uint64_t seed;
  double learning_rate;  /* of the first step; it falls to 0 along a line */
  double regularisation; /* of what a rating names, in each of its examples */
} settings;

/* The variables, in the order in which the gradients list them. */
enum { USER_FACTORS, ITEM_FACTORS, USER_BIASES, ITEM_BIASES, TABLES };

typedef struct {
  settings chosen;
  double mean, lowest, highest; /* rating */
  umbo_strategy *strategy;
  umbo_variable *tables[TABLES];
  umbo_gradients *gradients;
  umbo_optimizer *optimizer;
  umbo_iterator *training_batches;
  umbo_iterator *test_batches;
} recommender;

/* Sums over examples. */
typedef struct {
  double squared_errors;
  double examples;
} tally;

void recommender_create(recommender *r, const rating_data *data, const settings *chosen);
void recommender_destroy(recommender *r);

/* One batch: run, then apply. Adds to total; returns 0, and begins the next pass, when this one has no more. */
int recommender_step(recommender *r, double learning_rate, tally *total);

/* The errors over the whole test set. */
tally recommender_evaluate(recommender *r);

#endif

/* Ratings of items by users: read from a file, or generated. */
#ifndef RATINGS_H
#define RATINGS_H

#include <stdint.h>
#include <umbo/umbo.h>

typedef struct {
  umbo_dataset *training; /* structs {user: i64 [], item: i64 [], rating: f32 []} */
  umbo_dataset *test;
  int64_t training_examples, test_examples;
  int64_t users, items;   /* numbers of users and items are less */
  double lowest, highest; /* rating */
  double mean;            /* of the training set */
  double rmse_of_mean;    /* the error on the test set of whoever predicts the mean */
  const char *name;
  int is_generated;
} rating_data;

/* Reads lines of user, item and rating (both numbers from 0 on), with a tab after each; what follows is ignored, and so
 * is a first line of names, as the "inter" files of recommender libraries have it. A fifth of the ratings, which the
 * seed draws, is the test set. Ends the program with a message when the file does not say this. */
rating_data ratings_read(const char *path, uint64_t seed);

/* Ratings that users and items with hidden properties would give, and noise. */
rating_data ratings_generate(uint64_t seed);

void ratings_close(rating_data *data);

/* Batches of the training set, in another order each pass, split over the replicas. */
umbo_iterator *ratings_training_batches(const rating_data *data, umbo_strategy *strategy, int64_t batch_size,
                                        uint64_t seed);

/* The test set, split over the replicas. */
umbo_iterator *ratings_test_batches(const rating_data *data, umbo_strategy *strategy);

/* Numbers that look random and are the same on every machine: the next one, in [0, 1). */
double random_number(uint64_t *state);

#endif

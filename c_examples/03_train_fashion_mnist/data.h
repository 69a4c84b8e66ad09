/* Labelled pictures in IDX files, under the names of the MNIST family. */
#ifndef DATA_H
#define DATA_H

#include <stdint.h>
#include <umbo/umbo.h>

typedef struct {
  umbo_dataset *training; /* structs {x: u8 [height, width], y: u8 []} */
  umbo_dataset *test;
  int64_t training_examples;
  int64_t pixels; /* of one picture */
  int64_t classes;
  float mean, deviation; /* of the training set's pixels */
  const char *name;      /* the last part of the folder's path, name_length characters of it */
  int name_length;
} picture_data;

/* Ends the program with a message when files are missing or do not fit together. The folder's path is borrowed. */
picture_data data_open(const char *folder);
void data_close(picture_data *data);

/* Batches of a training set in an order that the seed decides, fetched ahead and split over the replicas. */
umbo_iterator *data_training_batches(const picture_data *data, umbo_strategy *strategy, int64_t batch_size,
                                     uint64_t seed);

/* The test set in its order, split over the replicas. */
umbo_iterator *data_test_batches(const picture_data *data, umbo_strategy *strategy);

#endif

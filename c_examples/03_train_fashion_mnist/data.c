#include "data.h"


#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umbo/io.h>

enum { TEST_BATCH = 1000, BATCHES_AHEAD = 4, PATH_CAPACITY = 4096 };

/* Opens a file of the folder as it is, else its gzip-compressed form. */
static umbo_dataset *open_file(const char *folder, const char *name) {
  static const char *const endings[] = {"", ".gz"};
  char path[PATH_CAPACITY];
  for (int i = 0; i < 2; ++i) {
    const int length = snprintf(path, sizeof(path), "%s/%s%s", folder, name, endings[i]);
    if (length < 0 || length >= PATH_CAPACITY) break;
    FILE *file = fopen(path, "rb");
    if (file == NULL) continue;
    fclose(file);
    const char *const paths[1] = {path};
    umbo_dataset *dataset = NULL;
    UMBO_CHECK(umbo_dataset_from_idx_files(1, NULL, paths, &dataset));
    return dataset;
  }
  fprintf(stderr,
          "There is no %s or %s.gz in %s.\n"
          "Debian and Ubuntu have Fashion-MNIST as the package dataset-fashion-mnist; --data names another folder.\n",
          name, name, folder);
  exit(EXIT_FAILURE);
}

/* Zips pictures and labels to structs {x, y} and counts them. */
static umbo_dataset *open_set(const char *folder, const char *images_name, const char *labels_name, int64_t *examples) {
  umbo_dataset *images = open_file(folder, images_name), *labels = open_file(folder, labels_name), *set = NULL;
  int64_t label_count = 0;
  UMBO_CHECK(umbo_dataset_cardinality(images, examples));
  UMBO_CHECK(umbo_dataset_cardinality(labels, &label_count));
  if (*examples != label_count || *examples < 1) {
    fprintf(stderr, "%s: %s has %lld pictures, %s has %lld labels; there must be as many, and one at least.\n", folder,
            images_name, (long long)*examples, labels_name, (long long)label_count);
    exit(EXIT_FAILURE);
  }
  umbo_dataset *const parts[] = {images, labels};
  const char *const names[] = {"x", "y"};
  UMBO_CHECK(umbo_dataset_zip(2, names, parts, &set));
  umbo_dataset_release(labels);
  umbo_dataset_release(images);
  return set;
}

static umbo_dataset *batched(const umbo_dataset *set, int64_t size) {
  umbo_dataset *batches = NULL;
  UMBO_CHECK(umbo_dataset_retain(set, &batches));
  UMBO_CHECK(umbo_dataset_batch(&batches, size, 0));
  return batches;
}

static void check_views(const umbo_view *x, const umbo_view *y) {
  if (x->dtype != UMBO_DTYPE_UINT8 || x->ndim != 3 || y->dtype != UMBO_DTYPE_UINT8 || y->ndim != 1) {
    fputs("The pictures must be unsigned bytes [examples, height, width], the labels unsigned bytes [examples].\n",
          stderr);
    exit(EXIT_FAILURE);
  }
}

/* One pass over a set: the sizes, the highest label, and the mean and deviation of its pixels. */
static void measure(picture_data *data, const umbo_dataset *set) {
  umbo_dataset *batches = batched(set, TEST_BATCH);
  umbo_iterator *iterator = NULL;
  UMBO_CHECK(umbo_iterator_from_dataset(batches, &iterator));
  double pixels = 0.0, sum = 0.0, squares = 0.0;
  for (;;) {
    umbo_value *batch = NULL;
    umbo_view x, y;
    UMBO_CHECK(umbo_iterator_next(iterator, &batch));
    if (batch == NULL) break;
    UMBO_CHECK(umbo_value_view(batch, "x", UMBO_DTYPE_NONE, &x));
    UMBO_CHECK(umbo_value_view(batch, "y", UMBO_DTYPE_NONE, &y));
    check_views(&x, &y);
    data->pixels = x.shape[1] * x.shape[2];
    const uint8_t *values = x.data, *labels = y.data;
    uint64_t batch_sum = 0, batch_squares = 0;
    for (int64_t i = 0; i < x.shape[0] * data->pixels; ++i) {
      batch_sum += values[i];
      batch_squares += (uint32_t)values[i] * values[i];
    }
    for (int64_t i = 0; i < y.shape[0]; ++i) {
      if (labels[i] >= data->classes) data->classes = labels[i] + 1;
    }
    pixels += (double)(x.shape[0] * data->pixels);
    sum += (double)batch_sum;
    squares += (double)batch_squares;
    umbo_value_release(batch);
  }
  const double mean = sum / pixels, variance = squares / pixels - mean * mean;
  data->mean = (float)mean;
  data->deviation = variance > 0.0 ? (float)sqrt(variance) : 1.0f;
  umbo_iterator_release(iterator);
  umbo_dataset_release(batches);
}

/* The last part of a path, whether or not a slash ends it. */
static void name_after(picture_data *data, const char *folder) {
  size_t end = strlen(folder);
  while (end > 1 && folder[end - 1] == '/') --end;
  size_t start = end;
  while (start > 0 && folder[start - 1] != '/') --start;
  data->name = folder + start;
  data->name_length = (int)(end - start);
}

picture_data data_open(const char *folder) {
  picture_data data = {0};
  int64_t test_examples = 0;
  data.training = open_set(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", &data.training_examples);
  data.test = open_set(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", &test_examples);
  picture_data test = {0};
  measure(&data, data.training);
  measure(&test, data.test);
  if (test.pixels != data.pixels || test.classes > data.classes) {
    fprintf(stderr, "%s: the pictures or labels of the test set are not those of the training set.\n", folder);
    exit(EXIT_FAILURE);
  }
  name_after(&data, folder);
  return data;
}

void data_close(picture_data *data) {
  umbo_dataset_release(data->test);
  umbo_dataset_release(data->training);
}

/* Takes the batches over. The iterator holds all it is made from, so the handles on the way to it can go. */
static umbo_iterator *distribute(umbo_strategy *strategy, umbo_dataset *batches) {
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *iterator = NULL;
  UMBO_CHECK(umbo_dataset_prefetch(&batches, BATCHES_AHEAD));
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, batches, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(batches);
  return iterator;
}

umbo_iterator *data_training_batches(const picture_data *data, umbo_strategy *strategy, int64_t batch_size,
                                     uint64_t seed) {
  umbo_dataset *shuffled = NULL;
  UMBO_CHECK(umbo_dataset_retain(data->training, &shuffled));
  UMBO_CHECK(umbo_dataset_shuffle(&shuffled, &UMBO_OPTIONS(umbo_shuffle, .seed = seed)));
  UMBO_CHECK(umbo_dataset_batch(&shuffled, batch_size, 0));
  return distribute(strategy, shuffled);
}

umbo_iterator *data_test_batches(const picture_data *data, umbo_strategy *strategy) {
  return distribute(strategy, batched(data->test, TEST_BATCH));
}

#include "ratings.h"


#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_BATCH = 5000, BATCHES_AHEAD = 4, LINE_CAPACITY = 1024 };
enum { GENERATED_USERS = 500, GENERATED_ITEMS = 300, GENERATED_RATINGS = 40000, GENERATED_RANK = 3 };

/* A table of users and items is as long as its largest number says. */
static const long long MOST_IDENTIFIERS = 100000000;

typedef struct {
  int64_t count, capacity;
  int64_t *users, *items;
  float *ratings;
} rating_list;

/* splitmix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014). */
double random_number(uint64_t *state) {
  uint64_t bits = *state += 0x9e3779b97f4a7c15u;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
  bits ^= bits >> 31;
  return (double)(bits >> 11) / 9007199254740992.0;
}

static void *resized(void *memory, int64_t count, size_t size) {
  void *larger = realloc(memory, (size_t)count * size);
  if (larger == NULL) {
    fputs("There is no memory for the ratings.\n", stderr);
    exit(EXIT_FAILURE);
  }
  return larger;
}

static void add_rating(rating_list *list, int64_t user, int64_t item, float rating) {
  if (list->count == list->capacity) {
    list->capacity = list->capacity == 0 ? 4096 : 2 * list->capacity;
    list->users = resized(list->users, list->capacity, sizeof(int64_t));
    list->items = resized(list->items, list->capacity, sizeof(int64_t));
    list->ratings = resized(list->ratings, list->capacity, sizeof(float));
  }
  list->users[list->count] = user;
  list->items[list->count] = item;
  list->ratings[list->count++] = rating;
}

static void free_list(rating_list *list) {
  free(list->ratings);
  free(list->items);
  free(list->users);
}

/* A number from 0 on and a tab; moves text behind them. */
static int parse_identifier(char **text, int64_t *identifier) {
  char *end = NULL;
  errno = 0;
  const long long value = strtoll(*text, &end, 10);
  if (end == *text || *end != '\t' || errno != 0 || value < 0 || value >= MOST_IDENTIFIERS) return 0;
  *text = end + 1;
  *identifier = value;
  return 1;
}

static int parse_line(char *line, rating_list *list) {
  int64_t user = 0, item = 0;
  char *end = NULL;
  if (!parse_identifier(&line, &user) || !parse_identifier(&line, &item)) return 0;
  const float rating = strtof(line, &end);
  if (end == line || (*end != '\t' && *end != '\n' && *end != '\0') || !isfinite(rating)) return 0;
  add_rating(list, user, item, rating);
  return 1;
}

static void refuse(const char *path, long long line, const char *problem) {
  if (line > 0) {
    fprintf(stderr, "%s, line %lld: %s\n", path, line, problem);
  } else {
    fprintf(stderr, "%s: %s\n", path, problem);
  }
  exit(EXIT_FAILURE);
}

static rating_list read_list(const char *path) {
  rating_list list = {0, 0, NULL, NULL, NULL};
  char line[LINE_CAPACITY];
  FILE *file = fopen(path, "r");
  if (file == NULL) refuse(path, 0, strerror(errno));
  for (long long number = 1; fgets(line, sizeof(line), file) != NULL; ++number) {
    const int is_whole = strchr(line, '\n') != NULL || feof(file);
    const int is_names = number == 1 && (line[0] < '0' || line[0] > '9');
    if (!is_whole || (!is_names && !parse_line(line, &list))) {
      refuse(path, number, "the numbers of a user and an item and a rating are expected, with tabs between them.");
    }
  }
  if (ferror(file)) refuse(path, 0, "cannot be read.");
  fclose(file);
  if (list.count < 10) refuse(path, 0, "has fewer than 10 ratings.");
  return list;
}

/* A draw whose distribution is bell-shaped, of mean 0 and deviation 1. */
static double random_normal(uint64_t *state) {
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += random_number(state);
  return sum;
}

static rating_list generate_list(uint64_t seed) {
  static double users[GENERATED_USERS][GENERATED_RANK + 1], items[GENERATED_ITEMS][GENERATED_RANK + 1];
  rating_list list = {0, 0, NULL, NULL, NULL};
  for (int f = 0; f <= GENERATED_RANK; ++f) {
    for (int u = 0; u < GENERATED_USERS; ++u) users[u][f] = 0.7 * random_normal(&seed);
    for (int i = 0; i < GENERATED_ITEMS; ++i) items[i][f] = 0.7 * random_normal(&seed);
  }
  for (int n = 0; n < GENERATED_RATINGS; ++n) {
    /* Squares: some users and items are much more frequent than others. */
    const double user_draw = random_number(&seed), item_draw = random_number(&seed);
    const int u = (int)(user_draw * user_draw * GENERATED_USERS), i = (int)(item_draw * item_draw * GENERATED_ITEMS);
    double rating = 3.5 + 0.6 * (users[u][0] + items[i][0]) + 0.5 * random_normal(&seed);
    for (int f = 1; f <= GENERATED_RANK; ++f) rating += users[u][f] * items[i][f];
    rating = floor(rating + 0.5);
    add_rating(&list, u, i, (float)(rating < 1.0 ? 1.0 : rating > 5.0 ? 5.0 : rating));
  }
  return list;
}

/* Brings the ratings into an order that the seed draws. */
static void shuffle(rating_list *list, uint64_t seed) {
  for (int64_t i = list->count - 1; i > 0; --i) {
    const int64_t j = (int64_t)(random_number(&seed) * (double)(i + 1));
    const int64_t user = list->users[i], item = list->items[i];
    const float rating = list->ratings[i];
    list->users[i] = list->users[j];
    list->items[i] = list->items[j];
    list->ratings[i] = list->ratings[j];
    list->users[j] = user;
    list->items[j] = item;
    list->ratings[j] = rating;
  }
}

/* Ratings from first to before end, as a dataset. */
static umbo_dataset *part_of(const rating_list *list, int64_t first, int64_t end) {
  static const char *const names[] = {"user", "item", "rating"};
  const umbo_dtype dtypes[] = {UMBO_DTYPE_INT64, UMBO_DTYPE_INT64, UMBO_DTYPE_FLOAT32};
  const void *columns[] = {list->users + first, list->items + first, list->ratings + first};
  const int64_t count = end - first;
  umbo_value *fields[3], *structure = NULL;
  umbo_dataset *dataset = NULL;
  for (int i = 0; i < 3; ++i) {
    umbo_tensor *tensor = NULL;
    UMBO_CHECK(umbo_tensor_from_data(dtypes[i], 1, &count, columns[i], NULL, &tensor));
    UMBO_CHECK(umbo_value_from_tensor(tensor, &fields[i]));
    umbo_tensor_release(tensor);
  }
  UMBO_CHECK(umbo_value_create_struct(3, names, fields, &structure));
  UMBO_CHECK(umbo_dataset_from_tensor_slices(structure, &dataset));
  umbo_value_release(structure);
  for (int i = 0; i < 3; ++i) umbo_value_release(fields[i]);
  return dataset;
}

static rating_data split(rating_list *list, uint64_t seed) {
  rating_data data = {0};
  shuffle(list, seed);
  data.test_examples = list->count / 5;
  data.training_examples = list->count - data.test_examples;
  data.lowest = data.highest = list->ratings[0];
  for (int64_t i = 0; i < list->count; ++i) {
    if (list->users[i] >= data.users) data.users = list->users[i] + 1;
    if (list->items[i] >= data.items) data.items = list->items[i] + 1;
    if (list->ratings[i] < data.lowest) data.lowest = list->ratings[i];
    if (list->ratings[i] > data.highest) data.highest = list->ratings[i];
  }
  for (int64_t i = 0; i < data.training_examples; ++i) data.mean += list->ratings[i];
  data.mean /= (double)data.training_examples;
  for (int64_t i = data.training_examples; i < list->count; ++i) {
    const double error = list->ratings[i] - data.mean;
    data.rmse_of_mean += error * error;
  }
  data.rmse_of_mean = sqrt(data.rmse_of_mean / (double)data.test_examples);
  data.training = part_of(list, 0, data.training_examples);
  data.test = part_of(list, data.training_examples, list->count);
  free_list(list);
  return data;
}

rating_data ratings_read(const char *path, uint64_t seed) {
  rating_list list = read_list(path);
  rating_data data = split(&list, seed);
  const char *last = strrchr(path, '/');
  data.name = last == NULL ? path : last + 1;
  return data;
}

rating_data ratings_generate(uint64_t seed) {
  rating_list list = generate_list(seed);
  rating_data data = split(&list, seed);
  data.name = "generated";
  data.is_generated = 1;
  return data;
}

void ratings_close(rating_data *data) {
  umbo_dataset_release(data->test);
  umbo_dataset_release(data->training);
}

/* Takes the set over. The iterator holds all it is made from, so the handles on the way to it can go. */
static umbo_iterator *distribute(umbo_strategy *strategy, umbo_dataset *set, int64_t batch_size) {
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *iterator = NULL;
  UMBO_CHECK(umbo_dataset_batch(&set, batch_size, 0));
  UMBO_CHECK(umbo_dataset_prefetch(&set, BATCHES_AHEAD));
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, set, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(set);
  return iterator;
}

umbo_iterator *ratings_training_batches(const rating_data *data, umbo_strategy *strategy, int64_t batch_size,
                                        uint64_t seed) {
  umbo_dataset *shuffled = NULL;
  UMBO_CHECK(umbo_dataset_retain(data->training, &shuffled));
  UMBO_CHECK(umbo_dataset_shuffle(&shuffled, &UMBO_OPTIONS(umbo_shuffle, .seed = seed)));
  return distribute(strategy, shuffled, batch_size);
}

umbo_iterator *ratings_test_batches(const rating_data *data, umbo_strategy *strategy) {
  umbo_dataset *test = NULL;
  UMBO_CHECK(umbo_dataset_retain(data->test, &test));
  return distribute(strategy, test, TEST_BATCH);
}

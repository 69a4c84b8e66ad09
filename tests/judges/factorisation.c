/* Factorises ratings as LIBMF does: rating = user's factors . item's factors, with an L2 penalty on what a rating names,
 * and the learning rate of Adagrad.
 *
 * factorisation FOLDER USERS ITEMS RANK EPOCHS BATCH REPLICAS RATE PENALTY START
 *
 * FOLDER has training.npz (user, item: int64; rating: float32), and gets users.npy and items.npy, the factors. They begin
 * between 0 and START. Prints the seconds of the epochs, and those of the processors. */
#include <umbo/all.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { USERS, ITEMS, TABLES };

typedef struct {
  int rank;
  float penalty, start;
  umbo_variable *tables[TABLES];
  umbo_gradients *gradients;
} model;

/* `restrict`, since a compiler that has to ask whether gradients lie in factors takes as long to ask as to compute. */
static void learn(const float *restrict user, const float *restrict item, float rating, float penalty, int rank,
                  float *restrict of_user, float *restrict of_item) {
  float error = -rating;
  for (int f = 0; f < rank; ++f) error += user[f] * item[f];
  for (int f = 0; f < rank; ++f) {
    of_user[f] = error * item[f] + penalty * user[f];
    of_item[f] = error * user[f] + penalty * item[f];
  }
}

static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  static const char *const names[TABLES] = {"user", "item"};
  const model *m = user_data;
  umbo_view named[TABLES], weights, indices, rows, ratings;
  const float *of[TABLES];
  float *gradients[TABLES];
  (void)result;
  UMBO_TRY(umbo_value_view(batch, "rating", UMBO_DTYPE_FLOAT32, &ratings));
  for (int table = 0; table < TABLES; ++table) {
    UMBO_TRY(umbo_value_view(batch, names[table], UMBO_DTYPE_INT64, &named[table]));
    UMBO_TRY(umbo_variable_view(m->tables[table], ctx, UMBO_DTYPE_FLOAT32, &weights));
    of[table] = weights.data;
    UMBO_TRY(umbo_gradients_add_rows(m->gradients, ctx, table, ratings.shape[0], &indices, &rows));
    memcpy(indices.mutable_data, named[table].data, (size_t)ratings.shape[0] * sizeof(int64_t));
    gradients[table] = rows.mutable_data;
  }
  for (int64_t n = 0; n < ratings.shape[0]; ++n) {
    learn(of[USERS] + ((const int64_t *)named[USERS].data)[n] * m->rank,
          of[ITEMS] + ((const int64_t *)named[ITEMS].data)[n] * m->rank, ((const float *)ratings.data)[n], m->penalty,
          m->rank, gradients[USERS] + n * m->rank, gradients[ITEMS] + n * m->rank);
  }
  return umbo_gradients_submit(m->gradients, ctx);
}

static umbo_status initialize(const umbo_view *memory, void *user_data) {
  static uint32_t state = 1;
  float *values = memory->mutable_data;
  for (int64_t i = 0; i < memory->shape[0] * memory->shape[1]; ++i) {
    state = state * 1664525u + 1013904223u;
    values[i] = ((const model *)user_data)->start * (float)(state >> 8) / 16777216.0f;
  }
  return UMBO_OK;
}

static double seconds(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

int main(int argc, char **argv) {
  if (argc != 11) return 2;
  const int64_t rows[TABLES] = {atoll(argv[2]), atoll(argv[3])};
  static const char *const names[TABLES] = {"users", "items"};
  static const int32_t row_sparse[TABLES] = {1, 1};
  const int epochs = atoi(argv[5]);
  const long long batch = atoll(argv[6]);
  model m = {.rank = atoi(argv[4]), .penalty = strtof(argv[9], NULL), .start = strtof(argv[10], NULL)};
  char path[4096];

  umbo_strategy *strategy = NULL;
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  options.cpu_replicas = atoi(argv[7]);
  UMBO_CHECK(umbo_strategy_create(&options, &strategy));
  for (int table = 0; table < TABLES; ++table) {
    const int64_t shape[2] = {rows[table], m.rank};
    umbo_variable_options how = UMBO_VARIABLE_OPTIONS_INIT;
    how.dtype = UMBO_DTYPE_FLOAT32;
    how.ndim = 2;
    how.shape = shape;
    how.initializer = initialize;
    how.initializer_user_data = &m;
    UMBO_CHECK(umbo_variable_create(strategy, names[table], NULL, &how, &m.tables[table]));
  }
  umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
  how.row_sparse = row_sparse;
  UMBO_CHECK(umbo_gradients_create(strategy, TABLES, m.tables, UMBO_LOSS_SUM, &how, &m.gradients));
  umbo_optimizer *optimizer = NULL;
  umbo_adagrad_options adagrad = UMBO_ADAGRAD_OPTIONS_INIT;
  adagrad.learning_rate = atof(argv[8]);
  UMBO_CHECK(umbo_optimizer_create_adagrad(strategy, &adagrad, &optimizer));

  umbo_dataset *ratings = NULL;
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *batches = NULL;
  umbo_shuffle_options shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
  shuffle.seed = 1;
  snprintf(path, sizeof(path), "%s/training.npz", argv[1]);
  UMBO_CHECK(umbo_dataset_from_npz_file(path, 0, NULL, &ratings));
  UMBO_CHECK(umbo_dataset_shuffle(&ratings, &shuffle));
  UMBO_CHECK(umbo_dataset_batch(&ratings, batch, 0));
  UMBO_CHECK(umbo_dataset_prefetch(&ratings, 4));
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, ratings, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &batches));
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(ratings);

  const double start = seconds(CLOCK_MONOTONIC), processors = seconds(CLOCK_PROCESS_CPUTIME_ID);
  for (int epoch = 0; epoch < epochs; ++epoch) {
    /* LIBMF's steps are of one rating; those of a batch need a rate that falls to come as close. */
    UMBO_CHECK(umbo_optimizer_set_learning_rate(optimizer, adagrad.learning_rate * (1.0 - (double)epoch / epochs)));
    UMBO_CHECK(umbo_train_epoch(strategy, batches, optimizer, m.gradients, step, &m, NULL, NULL));
  }
  printf("%.3f %.3f\n", seconds(CLOCK_MONOTONIC) - start, seconds(CLOCK_PROCESS_CPUTIME_ID) - processors);
  for (int table = 0; table < TABLES; ++table) {
    umbo_tensor *factors = NULL;
    snprintf(path, sizeof(path), "%s/%s.npy", argv[1], names[table]);
    UMBO_CHECK(umbo_variable_read(m.tables[table], &factors));
    UMBO_CHECK(umbo_tensor_save(factors, path));
    umbo_tensor_release(factors);
    umbo_variable_release(m.tables[table]);
  }
  umbo_iterator_release(batches);
  umbo_optimizer_release(optimizer);
  umbo_gradients_release(m.gradients);
  umbo_strategy_release(strategy);
  return EXIT_SUCCESS;
}

#include "recommender.h"


#include <math.h>
#include <string.h>

/* This replica's part of a batch. */
typedef struct {
  int64_t count;
  const int64_t *users, *items;
  const float *ratings;
} part;

/* The tables as this replica reads them. */
typedef struct {
  const float *of[TABLES];
} weights;

static umbo_status view_part(const umbo_value *batch, part *result) {
  umbo_view users, items, ratings;
  UMBO_TRY(umbo_value_view(batch, "user", UMBO_DTYPE_INT64, &users));
  UMBO_TRY(umbo_value_view(batch, "item", UMBO_DTYPE_INT64, &items));
  UMBO_TRY(umbo_value_view(batch, "rating", UMBO_DTYPE_FLOAT32, &ratings));
  *result = (part){users.shape[0], users.data, items.data, ratings.data};
  return UMBO_OK;
}

static umbo_status view_weights(const umbo_replica_context *ctx, const recommender *r, weights *result) {
  umbo_view view;
  for (int table = 0; table < TABLES; ++table) {
    UMBO_TRY(umbo_variable_view(r->tables[table], ctx, UMBO_DTYPE_FLOAT32, &view));
    result->of[table] = view.data;
  }
  return UMBO_OK;
}

static double predict(const recommender *r, const weights *w, int64_t user, int64_t item) {
  const int rank = r->chosen.rank;
  const float *p = w->of[USER_FACTORS] + user * rank, *q = w->of[ITEM_FACTORS] + item * rank;
  float product = 0.0f;
  for (int f = 0; f < rank; ++f) product += p[f] * q[f];
  return r->mean + w->of[USER_BIASES][user] + w->of[ITEM_BIASES][item] + product;
}

static double clamped(const recommender *r, double rating) {
  return rating < r->lowest ? r->lowest : rating > r->highest ? r->highest : rating;
}

/* Room for one row of each table for each rating of the part: a user or an item that comes several times has several
 * rows, which the library adds up. */
static umbo_status add_rows(umbo_replica_context *ctx, const recommender *r, const part *p, float *gradients[TABLES]) {
  for (int table = 0; table < TABLES; ++table) {
    const int is_user = table == USER_FACTORS || table == USER_BIASES;
    umbo_view indices, values;
    UMBO_TRY(umbo_gradients_add_rows(r->gradients, ctx, table, p->count, &indices, &values));
    memcpy(indices.mutable_data, is_user ? p->users : p->items, (size_t)p->count * sizeof(int64_t));
    gradients[table] = values.mutable_data;
  }
  return UMBO_OK;
}

/* The training step of one replica: the gradients of half the squared error of each rating, and of its L2 penalty. */
static umbo_status train(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const recommender *r = user_data;
  const int rank = r->chosen.rank;
  const float penalty = (float)r->chosen.regularisation;
  double squared_errors = 0.0;
  part p;
  weights w;
  float *gradients[TABLES];
  UMBO_TRY(view_part(batch, &p));
  UMBO_TRY(view_weights(ctx, r, &w));
  UMBO_TRY(add_rows(ctx, r, &p, gradients));
  for (int64_t n = 0; n < p.count; ++n) {
    const int64_t user = p.users[n], item = p.items[n];
    const float error = (float)(predict(r, &w, user, item) - (double)p.ratings[n]);
    const float *of_user = w.of[USER_FACTORS] + user * rank, *of_item = w.of[ITEM_FACTORS] + item * rank;
    float *user_gradient = gradients[USER_FACTORS] + n * rank, *item_gradient = gradients[ITEM_FACTORS] + n * rank;
    for (int f = 0; f < rank; ++f) {
      user_gradient[f] = error * of_item[f] + penalty * of_user[f];
      item_gradient[f] = error * of_user[f] + penalty * of_item[f];
    }
    gradients[USER_BIASES][n] = error + penalty * w.of[USER_BIASES][user];
    gradients[ITEM_BIASES][n] = error + penalty * w.of[ITEM_BIASES][item];
    squared_errors += (double)error * error;
  }
  UMBO_TRY(umbo_replica_context_add_metric(ctx, "squared_error", squared_errors, (double)p.count));
  return umbo_gradients_submit(r->gradients, ctx);
}

static umbo_status evaluate(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const recommender *r = user_data;
  double squared_errors = 0.0;
  part p;
  weights w;
  UMBO_TRY(view_part(batch, &p));
  UMBO_TRY(view_weights(ctx, r, &w));
  for (int64_t n = 0; n < p.count; ++n) {
    const double error = clamped(r, predict(r, &w, p.users[n], p.items[n])) - (double)p.ratings[n];
    squared_errors += error * error;
  }
  return umbo_replica_context_add_metric(ctx, "squared_error", squared_errors, (double)p.count);
}

/* Small numbers around 0: with zeros, the gradients of the factors would stay zero. */
static umbo_status initialize_factors(const umbo_view *memory, void *user_data) {
  uint64_t *state = user_data;
  float *values = memory->mutable_data;
  const double scale = 0.2 / sqrt((double)memory->shape[1]);
  for (int64_t i = 0; i < memory->shape[0] * memory->shape[1]; ++i) {
    values[i] = (float)(scale * (2.0 * random_number(state) - 1.0));
  }
  return UMBO_OK;
}

static umbo_status initialize_biases(const umbo_view *memory, void *user_data) {
  (void)user_data;
  memset(memory->mutable_data, 0, (size_t)memory->shape[0] * sizeof(float));
  return UMBO_OK;
}

static void create_tables(recommender *r, const rating_data *data) {
  static const char *const names[TABLES] = {"user_factors", "item_factors", "user_biases", "item_biases"};
  uint64_t state = r->chosen.seed;
  for (int table = 0; table < TABLES; ++table) {
    const int is_user = table == USER_FACTORS || table == USER_BIASES;
    const int is_factors = table == USER_FACTORS || table == ITEM_FACTORS;
    const int64_t shape[2] = {is_user ? data->users : data->items, r->chosen.rank};
    UMBO_CHECK(umbo_variable_create(
        r->strategy, names[table], NULL,
        &UMBO_OPTIONS(umbo_variable, .dtype = UMBO_DTYPE_FLOAT32, .ndim = is_factors ? 2 : 1, .shape = shape,
                      .initializer = is_factors ? initialize_factors : initialize_biases,
                      .initializer_user_data = &state),
        &r->tables[table]));
  }
}

static umbo_gradients *create_gradients(const recommender *r) {
  static const int32_t row_sparse[TABLES] = {1, 1, 1, 1};
  umbo_gradients *gradients = NULL;
  /* The library divides by all ratings of the batch. */
  UMBO_CHECK(umbo_gradients_create(r->strategy, TABLES, r->tables, UMBO_LOSS_SUM,
                                   &UMBO_OPTIONS(umbo_gradients, .row_sparse = row_sparse), &gradients));
  return gradients;
}

void recommender_create(recommender *r, const rating_data *data, const settings *chosen) {
  *r = (recommender){.chosen = *chosen, .mean = data->mean, .lowest = data->lowest, .highest = data->highest};
  UMBO_CHECK(umbo_strategy_create_cpu(chosen->replicas, &r->strategy));
  create_tables(r, data);
  r->gradients = create_gradients(r);
  UMBO_CHECK(umbo_optimizer_create_adagrad(
      r->strategy, &UMBO_OPTIONS(umbo_adagrad, .learning_rate = chosen->learning_rate), &r->optimizer));
  r->training_batches = ratings_training_batches(data, r->strategy, chosen->batch_size, chosen->seed);
  r->test_batches = ratings_test_batches(data, r->strategy);
}

void recommender_destroy(recommender *r) {
  umbo_iterator_release(r->test_batches);
  umbo_iterator_release(r->training_batches);
  umbo_optimizer_release(r->optimizer);
  umbo_gradients_release(r->gradients);
  for (int table = 0; table < TABLES; ++table) umbo_variable_release(r->tables[table]);
  umbo_strategy_release(r->strategy);
}

/* Takes what the replicas of the last run, or of the last epoch, reported. */
static void add_metric(const recommender *r, tally *total) {
  umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
  UMBO_CHECK(umbo_strategy_metric_result(r->strategy, "squared_error", &metric));
  total->squared_errors += metric.sum;
  total->examples += metric.weight;
}

int recommender_step(recommender *r, double learning_rate, tally *total) {
  umbo_value *batch = NULL;
  UMBO_CHECK(umbo_iterator_next(r->training_batches, &batch));
  if (batch == NULL) {
    UMBO_CHECK(umbo_iterator_reset(r->training_batches));
    return 0;
  }
  UMBO_CHECK(umbo_optimizer_set_learning_rate(r->optimizer, learning_rate));
  UMBO_CHECK(umbo_strategy_run(r->strategy, train, batch, r, NULL, NULL));
  UMBO_CHECK(umbo_optimizer_apply(r->optimizer, r->gradients, NULL, NULL));
  add_metric(r, total);
  umbo_value_release(batch);
  return 1;
}

tally recommender_evaluate(recommender *r) {
  tally total = {0.0, 0.0};
  UMBO_CHECK(umbo_train_epoch(r->strategy, r->test_batches, NULL, NULL, evaluate, r, NULL, NULL));
  add_metric(r, &total);
  return total;
}

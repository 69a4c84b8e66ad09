/* Fits y = w x + b on two replicas: the whole of a training loop, as small as it gets.
 *
 * The 10 examples come in batches of 4, so that the last batch has two: one for each replica. The result is the one
 * that a single replica finds, since every gradient is weighted by the examples it was computed from. */

#include <math.h>
#include <stdio.h>
#include <umbo/umbo.h>

typedef struct {
  umbo_variable *weight_and_bias; /* [2] */
  umbo_gradients *gradients;
  umbo_metrics *metrics; /* of them one: the loss */
} model;

/* The training step of one replica: reads the weights and its part of the batch, writes its gradient. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const model *m = user_data;
  umbo_view x, y, parameters, gradient;
  UMBO_TRY(umbo_value_view(batch, "x", &x)); /* this replica's rows; there may be none */
  UMBO_TRY(umbo_value_view(batch, "y", &y));
  UMBO_TRY(umbo_variable_view(m->weight_and_bias, ctx, &parameters));
  UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient)); /* this replica's own buffer, zeroed */

  const float *inputs = x.data, *targets = y.data, *p = parameters.data;
  float *g = gradient.mutable_data;
  double loss = 0.0;
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const float error = p[0] * inputs[row] + p[1] - targets[row];
    loss += 0.5 * error * error;
    g[0] += error * inputs[row];
    g[1] += error;
  }
  UMBO_TRY(umbo_metrics_add(m->metrics, ctx, 0, loss, (double)x.shape[0]));
  return umbo_gradients_submit(m->gradients, ctx);
}

/* A dataset of ten structs {x, y} on the line y = 3 x - 1, shuffled and batched. */
static umbo_dataset *make_dataset(void) {
  float x[10], y[10];
  for (int i = 0; i < 10; ++i) {
    x[i] = 0.2f * (float)i - 1.0f;
    y[i] = 3.0f * x[i] - 1.0f;
  }
  const int64_t shape[] = {10};
  umbo_tensor *x_tensor = NULL, *y_tensor = NULL;
  UMBO_CHECK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shape, x, NULL, &x_tensor));
  UMBO_CHECK(umbo_tensor_from_data(UMBO_DTYPE_FLOAT32, 1, shape, y, NULL, &y_tensor));

  umbo_value *items[2] = {NULL, NULL}, *columns = NULL;
  UMBO_CHECK(umbo_value_from_tensor(x_tensor, &items[0]));
  UMBO_CHECK(umbo_value_from_tensor(y_tensor, &items[1]));
  const char *const names[] = {"x", "y"};
  const umbo_value *const fields[] = {items[0], items[1]};
  UMBO_CHECK(umbo_value_create_struct(2, names, fields, &columns));

  umbo_dataset *dataset = NULL;
  umbo_shuffle_options shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
  shuffle.seed = 1;
  UMBO_CHECK(umbo_dataset_from_tensor_slices(columns, &dataset));
  UMBO_CHECK(umbo_dataset_shuffle(&dataset, &shuffle));
  UMBO_CHECK(umbo_dataset_batch(&dataset, 4, 0));

  umbo_value_release(columns);
  umbo_value_release(items[1]);
  umbo_value_release(items[0]);
  umbo_tensor_release(y_tensor);
  umbo_tensor_release(x_tensor);
  return dataset;
}

/* Runs within the strategy's scope: variables made here live on its parameter device. */
static umbo_status make_variables(umbo_strategy *strategy, void *user_data) {
  (void)strategy;
  model *m = user_data;
  const int64_t shape[] = {2};
  umbo_tensor *zeros = NULL;
  UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, shape, NULL, &zeros));
  const umbo_status status = umbo_variable_create(NULL, "weight_and_bias", zeros, NULL, &m->weight_and_bias);
  umbo_tensor_release(zeros);
  return status;
}

int main(void) {
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  options.cpu_replicas = 2;
  umbo_strategy *strategy = NULL;
  UMBO_CHECK(umbo_strategy_create(&options, &strategy));

  model m = {NULL, NULL, NULL};
  UMBO_CHECK(umbo_strategy_scope(strategy, make_variables, &m));
  umbo_gradients_options sums = UMBO_GRADIENTS_OPTIONS_INIT;
  sums.loss_reduction = UMBO_LOSS_SUM; /* step adds up over its rows; the library divides by all rows */
  umbo_variable *const variables[] = {m.weight_and_bias};
  UMBO_CHECK(umbo_gradients_create(strategy, 1, variables, &sums, &m.gradients));
  umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
  sgd.learning_rate = 0.5;
  umbo_optimizer *optimizer = NULL;
  UMBO_CHECK(umbo_optimizer_create_sgd(strategy, &sgd, &optimizer));

  umbo_dataset *dataset = make_dataset();
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *batches = NULL;
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &batches));

  UMBO_CHECK(umbo_metrics_create(strategy, &m.metrics));
  UMBO_CHECK(umbo_metrics_define(m.metrics, "loss", UMBO_METRIC_MEAN, NULL, NULL));
  umbo_train_epoch_options epoch_options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
  epoch_options.metrics = m.metrics; /* of each epoch alone */
  for (int epoch = 1; epoch <= 20; ++epoch) {
    umbo_metric loss = UMBO_METRIC_INIT;
    UMBO_CHECK(umbo_train_epoch(strategy, batches, optimizer, m.gradients, step, &m, &epoch_options, NULL));
    UMBO_CHECK(umbo_metrics_result(m.metrics, 0, &loss));
    if (epoch % 5 == 0) printf("epoch %2d: loss %.6f over %.0f examples\n", epoch, loss.mean, loss.weight);
  }

  float fitted[2];
  umbo_tensor *value = NULL;
  UMBO_CHECK(umbo_variable_read(m.weight_and_bias, &value));
  UMBO_CHECK(umbo_tensor_copy_to_host(value, fitted, sizeof(fitted)));
  printf("y = %.3f x %+.3f\n", fitted[0], fitted[1]);

  umbo_tensor_release(value);
  umbo_iterator_release(batches);
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(dataset);
  umbo_optimizer_release(optimizer);
  umbo_metrics_release(m.metrics);
  umbo_gradients_release(m.gradients);
  umbo_variable_release(m.weight_and_bias);
  umbo_strategy_release(strategy);
  return fabsf(fitted[0] - 3.0f) < 0.01f && fabsf(fitted[1] + 1.0f) < 0.01f ? EXIT_SUCCESS : EXIT_FAILURE;
}

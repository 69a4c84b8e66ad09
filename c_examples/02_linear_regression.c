/* Fits y = w x + b on two replicas: a whole training loop, with a dataset, gradients, an optimizer and a metric. */
#include <stdio.h>
#include <umbo/umbo.h>

static umbo_variable *line; /* {w, b} */
static umbo_gradients *gradients;

/* The step of one replica: reads the line and its rows {x, y} of the batch (there may be none), adds its gradient. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)user_data, (void)result;
  umbo_view rows, weights, gradient;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
  UMBO_TRY(umbo_variable_view(line, ctx, UMBO_DTYPE_FLOAT32, &weights));
  UMBO_TRY(umbo_gradients_view(gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient)); /* its own buffer, zeroed */
  const float *row = rows.data, *p = weights.data;
  float *g = gradient.mutable_data;
  double loss = 0.0;
  for (int64_t i = 0; i < rows.shape[0]; ++i, row += rows.strides[0]) {
    const float error = p[0] * row[0] + p[1] - row[1];
    loss += 0.5 * error * error;
    g[0] += error * row[0];
    g[1] += error;
  }
  UMBO_TRY(umbo_replica_context_add_metric(ctx, "loss", loss, (double)rows.shape[0]));
  return umbo_gradients_submit(gradients, ctx);
}

int main(void) {
  static const float table[] = {-1, -4, -0.5f, -2.5f, 0, -1, 0.5f, 0.5f, 1, 2, 0.75f, 1.25f}; /* x, y = 3 x - 1, ... */
  const umbo_view rows = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, (int64_t[]){6, 2}, table);
  umbo_strategy *strategy;
  umbo_optimizer *sgd;
  umbo_dataset *dataset;
  umbo_iterator *batches;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy)); /* UMBO_AUTO: a replica for each processor */
  UMBO_CHECK(umbo_variable_create_drawn(strategy, "line", UMBO_DTYPE_FLOAT32, 1, (int64_t[]){2}, UMBO_INITIAL_ZEROS, 0,
                                        &line));
  UMBO_CHECK(umbo_gradients_create(strategy, 1, &line, UMBO_LOSS_SUM, NULL, &gradients)); /* divided by all rows */
  UMBO_CHECK(umbo_optimizer_create_sgd(strategy, &UMBO_OPTIONS(umbo_sgd, .learning_rate = 0.5), &sgd));
  UMBO_CHECK(umbo_dataset_from_arrays(1, NULL, &rows, &dataset));
  UMBO_CHECK(umbo_dataset_batch(&dataset, 4, 0)); /* the last batch has two rows: one for each replica */
  UMBO_CHECK(umbo_strategy_iterate(strategy, dataset, NULL, &batches));
  for (int i = 0; i < 20; ++i) UMBO_CHECK(umbo_train_epoch(strategy, batches, sgd, gradients, step, NULL, NULL, NULL));
  umbo_metric_result loss = UMBO_METRIC_RESULT_INIT;
  UMBO_CHECK(umbo_strategy_metric_result(strategy, "loss", &loss)); /* of the last epoch */
  float p[2];
  UMBO_CHECK(umbo_variable_download(line, p, sizeof(p)));
  printf("y = %.3f x %+.3f, loss %.6f\n", p[0], p[1], loss.mean);
  return 0; /* The process ends: nothing has to be released. */
}

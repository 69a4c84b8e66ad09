/* Fits y = w x + b on two replicas: a whole training loop, with a dataset, gradients, an optimizer and a metric.
 *
 * The 10 examples come in batches of 4, so that the last batch has two: one for each replica. The result is the one
 * that a single replica finds, since every gradient is weighted by the examples it was computed from. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <umbo/umbo.h>

typedef struct {
  umbo_variable *line; /* {w, b} */
  umbo_gradients *gradients;
} model;

/* The training step of one replica: reads the line and its part of the batch, writes its gradient. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const model *m = user_data;
  umbo_view x, y, line, gradient;
  UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_FLOAT32, &x)); /* this replica's rows; there may be none */
  UMBO_TRY(umbo_value_view(batch, "y", UMBO_DTYPE_FLOAT32, &y));
  UMBO_TRY(umbo_variable_view(m->line, ctx, UMBO_DTYPE_FLOAT32, &line));
  UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient)); /* its own buffer, zeroed */

  const float *inputs = x.data, *targets = y.data, *p = line.data;
  float *g = gradient.mutable_data;
  double loss = 0.0;
  for (int64_t row = 0; row < x.shape[0]; ++row) {
    const float error = p[0] * inputs[row] + p[1] - targets[row];
    loss += 0.5 * error * error;
    g[0] += error * inputs[row];
    g[1] += error;
  }
  UMBO_TRY(umbo_replica_context_add_metric(ctx, "loss", loss, (double)x.shape[0]));
  return umbo_gradients_submit(m->gradients, ctx);
}

int main(void) {
  umbo_strategy *strategy = NULL;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy)); /* UMBO_AUTO: a replica for each processor */

  model m = {NULL, NULL};
  const int64_t two[] = {2};
  UMBO_CHECK(umbo_variable_create_drawn(strategy, "line", UMBO_DTYPE_FLOAT32, 1, two, UMBO_INITIAL_ZEROS, 0, &m.line));
  /* The step adds up over its rows; the library divides by all rows. */
  UMBO_CHECK(umbo_gradients_create(strategy, 1, &m.line, UMBO_LOSS_SUM, NULL, &m.gradients));
  umbo_optimizer *optimizer = NULL;
  UMBO_CHECK(umbo_optimizer_create_sgd(strategy, &UMBO_OPTIONS(umbo_sgd, .learning_rate = 0.5), &optimizer));

  float x[10], y[10]; /* on the line y = 3 x - 1 */
  for (int i = 0; i < 10; ++i) {
    x[i] = 0.2f * (float)i - 1.0f;
    y[i] = 3.0f * x[i] - 1.0f;
  }
  const char *const names[] = {"x", "y"};
  const int64_t shape[] = {10};
  const umbo_view columns[] = {umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, shape, x),
                               umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, shape, y)};
  umbo_dataset *dataset = NULL;
  umbo_iterator *batches = NULL;
  UMBO_CHECK(umbo_dataset_from_arrays(2, names, columns, &dataset));
  UMBO_CHECK(umbo_dataset_shuffle(&dataset, &UMBO_OPTIONS(umbo_shuffle, .seed = 1)));
  UMBO_CHECK(umbo_dataset_batch(&dataset, 4, 0));
  UMBO_CHECK(umbo_strategy_iterate(strategy, dataset, NULL, &batches));

  for (int epoch = 1; epoch <= 20; ++epoch) {
    umbo_metric_result loss = UMBO_METRIC_RESULT_INIT;
    UMBO_CHECK(umbo_train_epoch(strategy, batches, optimizer, m.gradients, step, &m, NULL, NULL));
    UMBO_CHECK(umbo_strategy_metric_result(strategy, "loss", &loss)); /* of the whole epoch */
    if (epoch % 5 == 0) printf("epoch %2d: loss %.6f over %.0f examples\n", epoch, loss.mean, loss.weight);
  }

  float line[2];
  UMBO_CHECK(umbo_variable_download(m.line, line, sizeof(line)));
  printf("y = %.3f x %+.3f\n", line[0], line[1]);

  umbo_iterator_release(batches);
  umbo_dataset_release(dataset);
  umbo_optimizer_release(optimizer);
  umbo_gradients_release(m.gradients);
  umbo_variable_release(m.line);
  umbo_strategy_release(strategy);
  return fabsf(line[0] - 3.0f) < 0.01f && fabsf(line[1] + 1.0f) < 0.01f ? EXIT_SUCCESS : EXIT_FAILURE;
}

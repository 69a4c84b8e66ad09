/* Takes the next steps of docs/start.md in one program; readme.next_steps compares every line of the table with this text. */
#define main first_main
#define model model_of_first
#include "first.c"
#undef main
#undef model
#include "evaluate.c" /* of docs/recipes.md, with a model of its own, which is the same */
#include "own_loop.c" /* of docs/loop.md */

#include <umbo/cluster.h>
#include <umbo/io.h>

#include <string.h>

#undef NDEBUG
#include <assert.h>

/* The first program's step, with x and y in arrays of their own. */
static umbo_status step_of_two(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  const model *m = (const model *)user_data;
  umbo_view x, y, weights, gradient;
  (void)result;
  UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_FLOAT32, &x));
  UMBO_TRY(umbo_value_view(batch, "y", UMBO_DTYPE_FLOAT32, &y));
  UMBO_TRY(umbo_variable_view(m->weights, ctx, UMBO_DTYPE_FLOAT32, &weights));
  UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient));
  const float *w = (const float *)weights.data;
  float *sum = (float *)gradient.mutable_data;
  for (int64_t i = 0; i < x.shape[0]; ++i) {
    const float at = ((const float *)x.data)[i * x.strides[0]];
    const float error = w[0] * at + w[1] - ((const float *)y.data)[i * y.strides[0]];
    sum[0] += error * at;
    sum[1] += error;
  }
  return umbo_gradients_submit(m->gradients, ctx);
}

int main(void) {
  const char *const names[] = {"x", "y"};
  const float x[] = {-3, -2, -1, 0, 1, 2, 3}, y[] = {-5, -3, -1, 1, 3, 5, 7}, table[] = {-4, -7, 4, 9};
  const umbo_view arrays[] = {umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, (int64_t[]){7}, x),
                              umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, (int64_t[]){7}, y)};
  const umbo_view rows = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, (int64_t[]){2, 2}, table);
  umbo_metric_result loss = UMBO_METRIC_RESULT_INIT;
  umbo_communicator *together = NULL; /* this process is alone */
  umbo_strategy *strategy;
  umbo_optimizer *adam;
  umbo_dataset *dataset;
  umbo_checkpoint *checkpoint;
  umbo_checkpoint_manager *manager;
  int64_t epoch, latest;
  model m;
  UMBO_CHECK(umbo_strategy_create_cpu(UMBO_AUTO, &strategy));
  umbo_strategy_release(strategy);
  UMBO_CHECK(umbo_strategy_create_cpu(4, &strategy));
  umbo_strategy_release(strategy);
  UMBO_CHECK(umbo_strategy_create(&UMBO_OPTIONS(umbo_strategy, .cpu_replicas = 4, .communicator = together),
                                  &strategy));
  UMBO_CHECK(umbo_variable_create_drawn(strategy, "weights", UMBO_DTYPE_FLOAT32, 1, (int64_t[]){2}, UMBO_INITIAL_ZEROS,
                                        0, &m.weights));
  UMBO_CHECK(umbo_gradients_create(strategy, 1, &m.weights, UMBO_LOSS_SUM, NULL, &m.gradients));

  UMBO_CHECK(umbo_dataset_from_arrays(1, NULL, &rows, &dataset));
  UMBO_CHECK(umbo_dataset_batch(&dataset, 2, 0));
  umbo_iterator *test, *batches;
  UMBO_CHECK(umbo_strategy_iterate(strategy, dataset, NULL, &test));
  UMBO_CHECK(umbo_dataset_from_arrays(2, names, arrays, &dataset));
  UMBO_CHECK(umbo_dataset_shuffle(&dataset, NULL));
  UMBO_CHECK(umbo_dataset_batch(&dataset, 4, 0));
  UMBO_CHECK(umbo_dataset_prefetch(&dataset, 2));
  UMBO_CHECK(umbo_strategy_iterate(strategy, dataset, NULL, &batches));

  UMBO_CHECK(umbo_checkpoint_create(strategy, &checkpoint));
  UMBO_CHECK(umbo_checkpoint_add_variable(checkpoint, "weights", m.weights));
  UMBO_CHECK(umbo_checkpoint_manager_create(checkpoint, "next_steps", NULL, &manager));
  UMBO_CHECK(umbo_optimizer_create_adam(strategy, NULL, &adam));
  UMBO_CHECK(umbo_evaluate(strategy, test, evaluate_step, &m, NULL, NULL));
  UMBO_CHECK(umbo_strategy_metric_result(strategy, "loss", &loss));
  assert(loss.mean == (49 + 81) / 4.0);
  UMBO_CHECK(umbo_train_epoch(strategy, batches, adam, m.gradients, step_of_two, &m, NULL, NULL));
  umbo_optimizer_release(adam);
  UMBO_CHECK(umbo_optimizer_create_adam(strategy, &UMBO_OPTIONS(umbo_adam, .learning_rate = 0.1), &adam));
  for (epoch = 1; epoch <= 300; ++epoch) {
    UMBO_CHECK(train(strategy, batches, adam, m.gradients, step_of_two, &m));
  }
  UMBO_CHECK(umbo_checkpoint_manager_save(manager, epoch, NULL, 1, NULL));
  UMBO_CHECK(umbo_checkpoint_manager_latest(manager, &latest));
  assert(latest == epoch);
  UMBO_CHECK(umbo_evaluate(strategy, test, evaluate_step, &m, NULL, NULL));
  UMBO_CHECK(umbo_strategy_metric_result(strategy, "loss", &loss));
  assert(loss.mean < 0.01);
  umbo_checkpoint_manager_release(manager);
  return 0;
}

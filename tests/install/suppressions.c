/* Trains on two replicas, gives everything back and ends. With an argument its step has a race of its own. */
#include <stdio.h>
#include <umbo/umbo.h>

typedef struct model {
  umbo_gradients *gradients;
  int has_race;
  int shared;
} model;

static umbo_status step(umbo_replica_context *context, const umbo_value *batch, void *user_data, umbo_value **result) {
  model *m = user_data;
  umbo_view rows, sum;
  (void)result;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
  UMBO_TRY(umbo_gradients_view(m->gradients, context, 0, UMBO_GRADIENT_ADD, &sum));
  for (int64_t row = 0; row < rows.shape[0]; ++row) {
    ((float *)sum.mutable_data)[0] += ((const float *)rows.data)[row];
    if (m->has_race) ++*(volatile int *)&m->shared;
  }
  return umbo_gradients_submit(m->gradients, context);
}

int main(int count, char **words) {
  model m = {NULL, count > 1, 0};
  (void)words;
  umbo_strategy *strategy;
  umbo_variable *weight;
  umbo_optimizer *sgd;
  umbo_value *whole, *parts;
  float first = 0, numbers[1000] = {1, 2, 3};
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  const umbo_view place = umbo_view_of_mutable_memory(UMBO_DTYPE_FLOAT32, 1, (int64_t[]){1}, &first);
  UMBO_CHECK(umbo_variable_create_in_memory(strategy, 1, NULL, &place, NULL, NULL, NULL, &weight));
  UMBO_CHECK(umbo_gradients_create(strategy, 1, &weight, UMBO_LOSS_SUM, NULL, &m.gradients));
  UMBO_CHECK(umbo_optimizer_create_sgd(strategy, NULL, &sgd));
  UMBO_CHECK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 1, (int64_t[]){1000}, numbers, NULL, &whole));
  UMBO_CHECK(umbo_strategy_split(strategy, whole, &parts));
  for (int number = 0; number < 50; ++number) {
    UMBO_CHECK(umbo_strategy_run(strategy, step, parts, &m, NULL, NULL));
    UMBO_CHECK(umbo_optimizer_apply(sgd, m.gradients, NULL, NULL));
  }
  umbo_value_release(parts);
  umbo_value_release(whole);
  umbo_optimizer_release(sgd);
  umbo_gradients_release(m.gradients);
  umbo_variable_release(weight);
  umbo_strategy_release(strategy);
  UMBO_CHECK(umbo_shutdown());
  return 0;
}

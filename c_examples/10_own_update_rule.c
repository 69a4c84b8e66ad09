/* An update rule of the program's own: each weight goes one step against the sign of a running mean of its gradient. Teaches
 * that a rule is one function over a tile of weights, called while they are in the cache; everything around it (the sum over
 * the replicas, clipping, schedules, checkpoints of its state) is there for it as for the rules of the library. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <umbo/expert.h>
#include <umbo/umbo.h>

static umbo_variable *line; /* {w, b} */
static umbo_gradients *gradients;

/* Called by several threads at once, on tiles that have nothing in common. */
static void follow_the_sign(const umbo_update_tile *tile, void *user_data) {
  const float keep = *(const float *)user_data;
  float *weights = tile->weights, *mean = tile->states[0];
  const float *gradient = tile->gradient, rate = (float)tile->learning_rate;
  for (int64_t i = 0; i < tile->count; ++i) {
    mean[i] = keep * mean[i] + (1 - keep) * gradient[i];
    weights[i] -= rate * (float)((mean[i] > 0) - (mean[i] < 0));
  }
}

static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)user_data;
  (void)result;
  umbo_view rows, p, gradient;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
  UMBO_TRY(umbo_variable_view(line, ctx, UMBO_DTYPE_FLOAT32, &p));
  UMBO_TRY(umbo_gradients_view(gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient));
  const float *row = rows.data, *w = p.data;
  float *g = gradient.mutable_data;
  for (int64_t i = 0; i < rows.shape[0]; ++i, row += 2) {
    const float error = w[0] * row[0] + w[1] - row[1];
    g[0] += error * row[0];
    g[1] += error;
  }
  return umbo_gradients_submit(gradients, ctx);
}

/* Ever smaller steps. */
static umbo_status rate_of(int64_t iteration, void *user_data, double *rate) {
  (void)user_data;
  *rate = 0.1 / (1.0 + 0.05 * (double)iteration);
  return UMBO_OK;
}

int main(void) {
  umbo_strategy *strategy = NULL;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  UMBO_CHECK(umbo_variable_create_drawn(strategy, "line", UMBO_DTYPE_FLOAT32, 1, (const int64_t[]){2},
                                        UMBO_INITIAL_ZEROS, 0, &line));
  UMBO_CHECK(umbo_gradients_create(strategy, 1, &line, UMBO_LOSS_SUM, NULL, &gradients));

  float keep = 0.5f;
  const char *const states[] = {"mean"};
  umbo_optimizer *optimizer = NULL;
  /* A state is kept for each weight, zero at first. */
  UMBO_CHECK(umbo_optimizer_create_custom(
      strategy, follow_the_sign, &keep, NULL,
      &UMBO_OPTIONS(umbo_custom_rule, .name = "sign", .state_count = 1, .state_names = states), &optimizer));
  UMBO_CHECK(umbo_optimizer_set_schedule(optimizer, rate_of, NULL, NULL));

  float table[100][2];
  for (int i = 0; i < 100; ++i) {
    table[i][0] = 0.02f * (float)i - 1.0f;
    table[i][1] = 3.0f * table[i][0] - 1.0f;
  }
  const umbo_view rows = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, (const int64_t[]){100, 2}, table);
  umbo_dataset *dataset = NULL;
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *batches = NULL;
  UMBO_CHECK(umbo_dataset_from_arrays(1, NULL, &rows, &dataset));
  UMBO_CHECK(umbo_dataset_shuffle(&dataset, NULL));
  UMBO_CHECK(umbo_dataset_batch(&dataset, 16, 0));
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &batches));
  for (int epoch = 0; epoch < 50; ++epoch) {
    UMBO_CHECK(umbo_train_epoch(strategy, batches, optimizer, gradients, step, NULL, NULL, NULL));
  }
  float found[2];
  UMBO_CHECK(umbo_variable_download(line, found, sizeof(found)));
  printf("y = %.2f x %+.2f\n", found[0], found[1]);

  umbo_iterator_release(batches);
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(dataset);
  umbo_optimizer_release(optimizer);
  umbo_gradients_release(gradients);
  umbo_variable_release(line);
  umbo_strategy_release(strategy);
  return fabsf(found[0] - 3) < 0.05f && fabsf(found[1] + 1) < 0.05f ? EXIT_SUCCESS : EXIT_FAILURE;
}

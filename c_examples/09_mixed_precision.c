/* Trains with 16-bit floats where they are enough: replicas read float16 copies of the variables and write float16 gradients,
 * while the variables and all sums stay float32 and float64. Teaches low-precision copies, a dynamic loss scale, which keeps
 * small gradients from becoming zero, and accumulation: three batches make one update, and the rest of an epoch counts too. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <umbo/expert.h>
#include <umbo/umbo.h>

typedef struct {
  umbo_variable *line; /* {w, b} */
  umbo_gradients *gradients;
  umbo_optimizer *optimizer;
} model;

static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const model *m = user_data;
  umbo_view rows, line, gradient;
  umbo_optimizer_info state = UMBO_OPTIMIZER_INFO_INIT;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
  UMBO_TRY(umbo_variable_view(m->line, ctx, UMBO_DTYPE_FLOAT16, &line)); /* kept in step by the updates */
  UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
  UMBO_TRY(umbo_optimizer_get_info(m->optimizer, &state));

  /* A kernel would compute in 16 bits; here they are converted. */
  float p[2], sum[2] = {0, 0};
  UMBO_TRY(umbo_dtype_convert_to_float(UMBO_DTYPE_FLOAT16, 2, line.data, p));
  const float *row = rows.data; /* x, y */
  for (int64_t i = 0; i < rows.shape[0]; ++i, row += 2) {
    const float error = p[0] * row[0] + p[1] - row[1];
    sum[0] += (float)state.loss_scale * error * row[0];
    sum[1] += (float)state.loss_scale * error;
  }
  /* It may overflow: that update is skipped. */
  UMBO_TRY(umbo_dtype_convert_from_float(UMBO_DTYPE_FLOAT16, 2, sum, gradient.mutable_data));
  return umbo_gradients_submit(m->gradients, ctx);
}

int main(void) {
  umbo_strategy *strategy = NULL;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  model m = {NULL, NULL, NULL};
  UMBO_CHECK(umbo_variable_create_drawn(strategy, "line", UMBO_DTYPE_FLOAT32, 1, (const int64_t[]){2},
                                        UMBO_INITIAL_ZEROS, 0, &m.line));
  UMBO_CHECK(umbo_gradients_create(
      strategy, 1, &m.line, UMBO_LOSS_SUM,
      &UMBO_OPTIONS(umbo_gradients, .dtype = UMBO_DTYPE_FLOAT16, .accumulation_steps = 3), &m.gradients));
  UMBO_CHECK(umbo_optimizer_create_sgd(strategy, &UMBO_OPTIONS(umbo_sgd, .learning_rate = 0.5), &m.optimizer));
  /* The scale begins with 65536, which is too much here, and finds what fits. */
  UMBO_CHECK(umbo_optimizer_configure(m.optimizer,
                                      &UMBO_OPTIONS(umbo_optimizer, .loss_scaling = UMBO_LOSS_SCALING_DYNAMIC)));

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
  UMBO_CHECK(umbo_dataset_batch(&dataset, 10, 0)); /* 10 batches: three updates of three, and one of the last */
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &batches));
  int64_t updates = 0, skipped = 0;
  for (int epoch = 0; epoch < 20; ++epoch) {
    umbo_train_epoch_report report = UMBO_TRAIN_EPOCH_REPORT_INIT;
    UMBO_CHECK(umbo_train_epoch(strategy, batches, m.optimizer, m.gradients, step, &m, NULL, &report));
    updates += report.update_count;
    skipped += report.skipped_count;
  }
  umbo_optimizer_info state = UMBO_OPTIMIZER_INFO_INIT;
  float line[2];
  UMBO_CHECK(umbo_optimizer_get_info(m.optimizer, &state));
  UMBO_CHECK(umbo_variable_download(m.line, line, sizeof(line)));
  printf("y = %.2f x %+.2f after %d updates; %d were skipped until the loss scale was %.0f\n", line[0], line[1],
         (int)updates, (int)skipped, state.loss_scale);

  umbo_iterator_release(batches);
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(dataset);
  umbo_optimizer_release(m.optimizer);
  umbo_gradients_release(m.gradients);
  umbo_variable_release(m.line);
  umbo_strategy_release(strategy);
  return fabsf(line[0] - 3) < 0.02f && fabsf(line[1] + 1) < 0.02f && updates + skipped == 80 ? EXIT_SUCCESS : EXIT_FAILURE;
}

/* Trains for ten epochs, once in one go, and once with a break in the middle, from which a checkpoint leads on. Teaches what
 * has to be in a checkpoint, and shows that both trainings end bit-identically. (03_train_fashion_mnist does it with a
 * manager, which keeps the newest checkpoints in a folder and finds them again.) */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umbo/io.h>
#include <umbo/umbo.h>

typedef struct {
  umbo_variable *line; /* {w, b} */
  umbo_gradients *gradients;
} model;

static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const model *m = user_data;
  umbo_view rows, line, gradient;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
  UMBO_TRY(umbo_variable_view(m->line, ctx, UMBO_DTYPE_FLOAT32, &line));
  UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient));
  const float *row = rows.data, *p = line.data;
  float *g = gradient.mutable_data;
  for (int64_t i = 0; i < rows.shape[0]; ++i, row += 2) {
    const float error = p[0] * row[0] + p[1] - row[1];
    g[0] += error * row[0];
    g[1] += error;
  }
  return umbo_gradients_submit(m->gradients, ctx);
}

/* A process: it makes everything anew, resumes from the file if there is one, trains up to an epoch, and saves. */
static void train(const char *path, int64_t last_epoch, float line[2]) {
  umbo_strategy *strategy = NULL;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  model m = {NULL, NULL};
  UMBO_CHECK(umbo_variable_create_drawn(strategy, "line", UMBO_DTYPE_FLOAT32, 1, (const int64_t[]){2},
                                        UMBO_INITIAL_NORMAL, 0, &m.line));
  UMBO_CHECK(umbo_gradients_create(strategy, 1, &m.line, UMBO_LOSS_SUM, NULL, &m.gradients));
  umbo_optimizer *adam = NULL; /* it has a state: without that, the rest would go another way */
  UMBO_CHECK(umbo_optimizer_create_adam(strategy, &UMBO_OPTIONS(umbo_adam, .learning_rate = 0.1), &adam));

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
  UMBO_CHECK(umbo_dataset_shuffle(&dataset, NULL)); /* each pass in another order, which the iterator knows */
  UMBO_CHECK(umbo_dataset_batch(&dataset, 8, 0));
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &batches));

  /* What the rest depends on: the variables, the optimizer's state, the place in the data, and how far it is. */
  umbo_checkpoint *checkpoint = NULL;
  UMBO_CHECK(umbo_checkpoint_create(strategy, &checkpoint));
  UMBO_CHECK(umbo_checkpoint_add_variable(checkpoint, NULL, m.line));
  UMBO_CHECK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", adam));
  UMBO_CHECK(umbo_checkpoint_add_iterator(checkpoint, "batches", batches));
  UMBO_CHECK(umbo_checkpoint_set_integer(checkpoint, "epochs", 0));
  const umbo_status restored = umbo_checkpoint_restore(checkpoint, path);
  if (restored != UMBO_STATUS_NOT_FOUND) UMBO_CHECK(restored);
  int64_t epochs = 0;
  UMBO_CHECK(umbo_checkpoint_integer(checkpoint, "epochs", &epochs));
  printf("%s: from epoch %d to %d\n", path, (int)epochs + 1, (int)last_epoch);
  for (; epochs < last_epoch; ++epochs) {
    UMBO_CHECK(umbo_train_epoch(strategy, batches, adam, m.gradients, step, &m, NULL, NULL));
  }
  UMBO_CHECK(umbo_checkpoint_set_integer(checkpoint, "epochs", epochs));
  UMBO_CHECK(umbo_checkpoint_save(checkpoint, path));
  UMBO_CHECK(umbo_variable_download(m.line, line, 2 * sizeof(float)));

  umbo_checkpoint_release(checkpoint);
  umbo_iterator_release(batches);
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(dataset);
  umbo_optimizer_release(adam);
  umbo_gradients_release(m.gradients);
  umbo_variable_release(m.line);
  umbo_strategy_release(strategy);
}

int main(void) {
  float in_one_go[2], with_a_break[2];
  remove("07_in_one_go.safetensors");
  remove("07_with_a_break.safetensors");
  train("07_in_one_go.safetensors", 10, in_one_go);
  train("07_with_a_break.safetensors", 4, with_a_break);
  train("07_with_a_break.safetensors", 10, with_a_break);
  const int same = memcmp(in_one_go, with_a_break, sizeof(in_one_go)) == 0;
  printf("y = %.3f x %+.3f, %s bits\n", with_a_break[0], with_a_break[1], same ? "the same" : "OTHER");
  return same ? EXIT_SUCCESS : EXIT_FAILURE;
}

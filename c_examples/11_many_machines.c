/* Trains with all processes that were started together, on one machine or on many:
 *
 *   11_many_machines                        alone
 *   mpirun -n 2 11_many_machines mpi        two processes, which train as one
 *
 * Teaches what of a program is about that: a communicator in the strategy's options, and that one process speaks for
 * all. With replicas_in_sync the weights are bit-identical however many processes there are. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umbo/cluster.h>
#include <umbo/expert.h>
#include <umbo/io.h>
#include <umbo/umbo.h>

enum { IN_SYNC = 12, EXAMPLES = 100, EPOCHS = 60 };

typedef struct {
  umbo_variable *line; /* {slope, offset} */
  umbo_gradients *gradients;
} model;

/* One replica, on whatever machine: its part of the global batch, which may be empty. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  const model *m = user_data;
  umbo_view rows, line, gradient;
  (void)result;
  UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
  UMBO_TRY(umbo_variable_view(m->line, ctx, UMBO_DTYPE_FLOAT32, &line));
  UMBO_TRY(umbo_gradients_view(m->gradients, ctx, 0, UMBO_GRADIENT_ADD, &gradient));
  const float *row = rows.data, *p = line.data;
  float *g = gradient.mutable_data;
  for (int64_t i = 0; i < rows.shape[0]; ++i, row += rows.strides[0]) {
    const float error = p[0] * row[0] + p[1] - row[1];
    g[0] += error * row[0];
    g[1] += error;
  }
  return umbo_gradients_submit(m->gradients, ctx);
}

int main(int argc, char **argv) {
  /* MPI is found now, and not when this is compiled. Any other engine can be brought: umbo/cluster.h. */
  umbo_communicator *together = NULL;
  if (argc > 1 && strcmp(argv[1], "mpi") == 0) UMBO_CHECK(umbo_communicator_create_mpi(NULL, NULL, &together));

  umbo_strategy *strategy = NULL;
  /* The communicator is NULL where this process is alone. It has one device; all processes together have IN_SYNC. */
  UMBO_CHECK(umbo_strategy_create(
      &UMBO_OPTIONS(umbo_strategy, .communicator = together, .cpu_replicas = 1, .replicas_in_sync = IN_SYNC),
      &strategy));
  umbo_communicator_release(together); /* the strategy keeps it */
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  UMBO_CHECK(umbo_strategy_get_info(strategy, &info));
  if (info.rank == 0) {
    printf("%d replicas in sync, %d of them here; processes: %d\n", IN_SYNC, (int)info.local_replica_count,
           (int)info.rank_count);
  }

  /* From here on every process does the same. What rank 0 gives a variable counts. */
  model m = {NULL, NULL};
  UMBO_CHECK(umbo_variable_create_drawn(strategy, "line", UMBO_DTYPE_FLOAT32, 1, (const int64_t[]){2},
                                        UMBO_INITIAL_ZEROS, 0, &m.line));
  UMBO_CHECK(umbo_gradients_create(strategy, 1, &m.line, UMBO_LOSS_SUM, NULL, &m.gradients));
  umbo_optimizer *optimizer = NULL;
  UMBO_CHECK(umbo_optimizer_create_momentum(strategy, &UMBO_OPTIONS(umbo_momentum, .learning_rate = 0.1), &optimizer));

  float table[EXAMPLES][2]; /* on the line y = 3 x - 1 */
  for (int i = 0; i < EXAMPLES; ++i) {
    table[i][0] = 0.02f * (float)i - 1.0f;
    table[i][1] = 3.0f * table[i][0] - 1.0f;
  }
  const umbo_view examples = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, (const int64_t[]){EXAMPLES, 2}, table);
  umbo_dataset *dataset = NULL;
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *batches = NULL;
  UMBO_CHECK(umbo_dataset_from_arrays(1, NULL, &examples, &dataset));
  /* The order is the same on all ranks, each of which takes its own rows of each batch. */
  UMBO_CHECK(umbo_dataset_shuffle(&dataset, &UMBO_OPTIONS(umbo_shuffle, .seed = 1)));
  UMBO_CHECK(umbo_dataset_batch(&dataset, 15, 0)); /* of all processes together; the last one has 10 rows */
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &batches));
  for (int epoch = 0; epoch < EPOCHS; ++epoch) {
    UMBO_CHECK(umbo_train_epoch(strategy, batches, optimizer, m.gradients, step, &m, NULL, NULL));
  }

  /* All have the same weights. They save together, since each keeps a part of what an optimizer remembers. */
  float found[2];
  uint64_t fingerprint = 0;
  UMBO_CHECK(umbo_variable_download(m.line, found, sizeof(found)));
  UMBO_CHECK(umbo_strategy_fingerprint(strategy, &fingerprint));
  umbo_checkpoint *checkpoint = NULL;
  UMBO_CHECK(umbo_checkpoint_create(strategy, &checkpoint));
  UMBO_CHECK(umbo_checkpoint_add_variable(checkpoint, "line", m.line));
  UMBO_CHECK(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", optimizer));
  UMBO_CHECK(umbo_checkpoint_save(checkpoint, "11_many_machines.safetensors"));
  umbo_checkpoint_release(checkpoint);
  if (info.rank == 0) {
    printf("y = %.3f x %+.3f, weights %016llx\n", (double)found[0], (double)found[1], (unsigned long long)fingerprint);
  }

  umbo_iterator_release(batches);
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(dataset);
  umbo_optimizer_release(optimizer);
  umbo_gradients_release(m.gradients);
  umbo_variable_release(m.line);
  umbo_strategy_release(strategy); /* the last that needs MPI, which ends with it */
  return fabsf(found[0] - 3) < 0.01f && fabsf(found[1] + 1) < 0.01f ? EXIT_SUCCESS : EXIT_FAILURE;
}

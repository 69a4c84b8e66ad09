#include "learner.h"

#include "gpu_mlp.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what each replica does ---- */

/* A last batch can be too small for all replicas: then rows is 0, and the rest of a part is not there. */
static umbo_status prepare(umbo_replica_context *ctx, const learner *l, const umbo_value *batch,
                           umbo_replica_context_info *here, gpu_part *part) {
  umbo_view x, y;
  UMBO_TRY(umbo_replica_context_get_info(ctx, here));
  UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_UINT8, &x));
  UMBO_TRY(umbo_value_view(batch, "y", UMBO_DTYPE_UINT8, &y));
  *part = (gpu_part){.rows = x.shape[0],
                     .pixels = x.data,
                     .labels = y.data,
                     .scale = l->scale,
                     .shift = l->shift,
                     .totals = l->totals_at[here->local_replica_id]};
  if (part->rows == 0) return UMBO_OK;
  const size_t bytes = here->stream != NULL
                           ? gpu_mlp_workspace_bytes(&l->shape, part->rows)
                           : (size_t)(part->rows * l->shape.sizes[0]) * sizeof(float) +
                                 mlp_workspace_bytes(&l->shape, part->rows);
  return umbo_replica_context_scratch(ctx, bytes, &part->workspace);
}

static umbo_status view_parameters(const umbo_replica_context *ctx, const learner *l, mlp_parameters *parameters) {
  umbo_view views[2 * MLP_MOST_LAYERS];
  UMBO_TRY(umbo_variable_views(2 * l->shape.layers, l->variables, ctx, views));
  for (int layer = 0; layer < l->shape.layers; ++layer) {
    parameters->weights[layer] = views[2 * layer].data;
    parameters->biases[layer] = views[2 * layer + 1].data;
  }
  return UMBO_OK;
}

static umbo_status view_gradients(umbo_replica_context *ctx, const learner *l, mlp_gradients *gradients) {
  umbo_view views[2 * MLP_MOST_LAYERS];
  UMBO_TRY(umbo_gradients_views(l->gradients, ctx, UMBO_GRADIENT_OVERWRITE, 2 * l->shape.layers, views));
  for (int layer = 0; layer < l->shape.layers; ++layer) {
    gradients->weights[layer] = views[2 * layer].mutable_data;
    gradients->biases[layer] = views[2 * layer + 1].mutable_data;
  }
  return UMBO_OK;
}

/* The network of mlp.c; its result is there when this returns. */
static void compute_on_cpu(const learner *l, const mlp_parameters *parameters, const gpu_part *part,
                           const mlp_gradients *gradients) {
  const int64_t count = part->rows * l->shape.sizes[0];
  float *const inputs = part->workspace;
  for (int64_t i = 0; i < count; ++i) inputs[i] = (float)part->pixels[i] * part->scale + part->shift;
  const mlp_score score =
      gradients == NULL
          ? mlp_evaluate(&l->shape, parameters, part->rows, inputs, part->labels, inputs + count)
          : mlp_differentiate(&l->shape, parameters, part->rows, inputs, part->labels, inputs + count, gradients);
  part->totals[0] += score.loss;
  part->totals[1] += (double)score.correct;
  part->totals[2] += (double)part->rows;
}

static umbo_status compute(const learner *l, const umbo_replica_context_info *here, const mlp_parameters *parameters,
                           const gpu_part *part, const mlp_gradients *gradients) {
  if (here->stream != NULL) {
    return gpu_mlp_queue(&l->gpus[here->local_replica_id], &l->shape, parameters, part, gradients);
  }
  compute_on_cpu(l, parameters, part, gradients);
  return UMBO_OK;
}

static umbo_status train(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const learner *l = user_data;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  gpu_part part;
  mlp_parameters parameters;
  mlp_gradients gradients;
  UMBO_TRY(prepare(ctx, l, batch, &here, &part));
  if (part.rows > 0) { /* a part without rows weighs nothing, so nobody reads its gradients */
    UMBO_TRY(view_parameters(ctx, l, &parameters));
    UMBO_TRY(view_gradients(ctx, l, &gradients));
    UMBO_TRY(compute(l, &here, &parameters, &part, &gradients));
  }
  return umbo_gradients_submit(l->gradients, ctx);
}

static umbo_status evaluate(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const learner *l = user_data;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  gpu_part part;
  mlp_parameters parameters;
  UMBO_TRY(prepare(ctx, l, batch, &here, &part));
  if (part.rows == 0) return UMBO_OK;
  UMBO_TRY(view_parameters(ctx, l, &parameters));
  return compute(l, &here, &parameters, &part, NULL);
}

static umbo_status open_gpu(umbo_replica_context *ctx, const umbo_value *arguments, void *user_data,
                            umbo_value **result) {
  (void)arguments;
  (void)result;
  learner *l = user_data;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  return here.stream == NULL ? UMBO_OK : gpu_open(&l->gpus[here.local_replica_id], here.stream, l->tf32);
}

static umbo_status close_gpu(umbo_replica_context *ctx, const umbo_value *arguments, void *user_data,
                             umbo_value **result) {
  (void)arguments;
  (void)result;
  learner *l = user_data;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  return gpu_close(&l->gpus[here.local_replica_id]);
}

/* ---- what the program does with all of them ---- */

const char *learner_device(const learner *l, int replica) {
  static const char before[] = "/device:"; /* of a canonical name, which also has the process */
  const char *device = NULL;
  UMBO_CHECK(umbo_strategy_compute_device(l->strategy, replica, &device));
  const char *const found = strstr(device, before);
  return found == NULL ? device : found + sizeof(before) - 1;
}

static void create_strategy(learner *l, int64_t device_count, const char *const *devices) {
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  UMBO_CHECK(umbo_strategy_create(
      &UMBO_OPTIONS(umbo_strategy, .compute_devices = devices, .compute_device_count = device_count), &l->strategy));
  UMBO_CHECK(umbo_strategy_get_info(l->strategy, &info));
  if (info.local_replica_count > LEARNER_MOST_REPLICAS) {
    fprintf(stderr, "13_gpu_fashion_mnist: more than %d replicas\n", (int)LEARNER_MOST_REPLICAS);
    exit(2);
  }
  l->replicas = (int)info.local_replica_count;
  for (int i = 0; i < l->replicas; ++i) {
    static const int64_t sums[1] = {3};
    const char *device = NULL;
    umbo_view view;
    UMBO_CHECK(umbo_strategy_compute_device(l->strategy, i, &device));
    UMBO_CHECK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT64, 1, sums, device, &l->totals[i]));
    UMBO_CHECK(umbo_tensor_mutable_view(l->totals[i], &view));
    l->totals_at[i] = view.mutable_data;
  }
}

static void create_variables(learner *l, uint64_t seed) {
  for (int layer = 0; layer < l->shape.layers; ++layer) {
    char name[32];
    const int64_t *const shape = &l->shape.sizes[layer]; /* [sizes[layer], sizes[layer + 1]] */
    snprintf(name, sizeof(name), "layer%d/weights", layer);
    UMBO_CHECK(umbo_variable_create_drawn(l->strategy, name, UMBO_DTYPE_FLOAT32, 2, shape, UMBO_INITIAL_HE_UNIFORM,
                                          seed, &l->variables[2 * layer]));
    snprintf(name, sizeof(name), "layer%d/biases", layer);
    UMBO_CHECK(umbo_variable_create_drawn(l->strategy, name, UMBO_DTYPE_FLOAT32, 1, shape + 1, UMBO_INITIAL_ZEROS, seed,
                                          &l->variables[2 * layer + 1]));
  }
}

void learner_create(learner *l, const picture_data *data, int64_t device_count, const char *const *devices,
                    int64_t batch_size, uint64_t seed, int tf32) {
  *l = (learner){.shape = {.layers = 4, .sizes = {data->pixels, 256, 128, 64, data->classes}},
                 .scale = 1.0f / data->deviation,
                 .shift = -data->mean / data->deviation,
                 .tf32 = tf32};
  create_strategy(l, device_count, devices);
  UMBO_CHECK(umbo_strategy_run(l->strategy, open_gpu, NULL, l, NULL, NULL));
  for (int i = 0; i < l->replicas; ++i) l->on_gpus += l->gpus[i].blas != NULL;
  create_variables(l, seed);
  /* The network adds up over its rows; the library divides by all rows. */
  UMBO_CHECK(umbo_gradients_create(l->strategy, 2 * l->shape.layers, l->variables, UMBO_LOSS_SUM, NULL, &l->gradients));
  UMBO_CHECK(umbo_optimizer_create_adam(l->strategy, &UMBO_OPTIONS(umbo_adam, .learning_rate = 0.001), &l->optimizer));
  /* Parts of batches are copied to the replicas' devices two steps ahead. */
  l->training_batches = data_training_batches(data, l->strategy, batch_size, seed);
  l->test_batches = data_test_batches(data, l->strategy);
}

void learner_destroy(learner *l) {
  umbo_iterator_release(l->test_batches);
  umbo_iterator_release(l->training_batches);
  umbo_optimizer_release(l->optimizer);
  umbo_gradients_release(l->gradients);
  for (int i = 0; i < 2 * l->shape.layers; ++i) umbo_variable_release(l->variables[i]);
  UMBO_CHECK(umbo_strategy_run(l->strategy, close_gpu, NULL, l, NULL, NULL));
  for (int i = 0; i < l->replicas; ++i) umbo_tensor_release(l->totals[i]);
  umbo_strategy_release(l->strategy);
}

/* What the totals have grown by since the last call. Only here the program waits for numbers of a GPU. */
static tally read_totals(learner *l) {
  tally now = {0.0, 0.0, 0.0}, grown;
  for (int i = 0; i < l->replicas; ++i) {
    double sums[3];
    UMBO_CHECK(umbo_tensor_download(l->totals[i], sums, sizeof(sums)));
    now.loss += sums[0];
    now.right += sums[1];
    now.examples += sums[2];
  }
  grown = (tally){now.loss - l->before.loss, now.right - l->before.right, now.examples - l->before.examples};
  l->before = now;
  return grown;
}

tally learner_train(learner *l, double learning_rate) {
  UMBO_CHECK(umbo_optimizer_set_learning_rate(l->optimizer, learning_rate));
  UMBO_CHECK(umbo_train_epoch(l->strategy, l->training_batches, l->optimizer, l->gradients, train, l, NULL, NULL));
  return read_totals(l);
}

tally learner_evaluate(learner *l) {
  UMBO_CHECK(umbo_evaluate(l->strategy, l->test_batches, evaluate, l, NULL, NULL));
  return read_totals(l);
}

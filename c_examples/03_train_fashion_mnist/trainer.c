#include "trainer.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umbo/expert.h>


/* This replica's part of a batch, with its pixels as floats of mean 0 and deviation 1. */
typedef struct {
  int64_t rows;
  const float *inputs;
  const uint8_t *labels;
  void *workspace;
} part;

static umbo_status prepare(umbo_replica_context *ctx, const trainer *t, const umbo_value *batch, part *result) {
  umbo_view x, y;
  UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_UINT8, &x));
  UMBO_TRY(umbo_value_view(batch, "y", UMBO_DTYPE_UINT8, &y));
  const int64_t rows = x.shape[0], count = rows * t->shape.sizes[0];
  if (rows == 0) { /* a last batch can be too small for all replicas */
    *result = (part){0, NULL, NULL, NULL};
    return UMBO_OK;
  }
  void *memory = NULL, *workspace = NULL;
  UMBO_TRY(umbo_replica_context_scratch(ctx, (size_t)count * sizeof(float), &memory));
  UMBO_TRY(umbo_replica_context_scratch(ctx, mlp_workspace_bytes(&t->shape, rows), &workspace));

  const uint8_t *pixels = x.data;
  float *inputs = memory;
  const float scale = 1.0f / t->deviation, shift = -t->mean / t->deviation;
  for (int64_t i = 0; i < count; ++i) inputs[i] = (float)pixels[i] * scale + shift;
  *result = (part){rows, inputs, y.data, workspace};
  return UMBO_OK;
}

/* The weights of a layer, which lie in memory as bfloat16, as floats. */
static umbo_status view_widened(umbo_replica_context *ctx, const trainer *t, int layer, const float **weights) {
  const int64_t count = t->shape.sizes[layer] * t->shape.sizes[layer + 1];
  umbo_view view;
  void *memory = NULL;
  UMBO_TRY(umbo_variable_view(t->variables[2 * layer], ctx, UMBO_DTYPE_BFLOAT16, &view));
  UMBO_TRY(umbo_replica_context_scratch(ctx, (size_t)count * sizeof(float), &memory));
  const uint16_t *from = view.data;
  uint32_t *to = memory; /* the bits of floats */
  for (int64_t i = 0; i < count; ++i) to[i] = (uint32_t)from[i] << 16;
  *weights = memory;
  return UMBO_OK;
}

static umbo_status view_parameters(umbo_replica_context *ctx, const trainer *t, mlp_parameters *parameters) {
  umbo_view view;
  for (int layer = 0; layer < t->shape.layers; ++layer) {
    if (t->rounds_weights) {
      UMBO_TRY(view_widened(ctx, t, layer, &parameters->weights[layer]));
    } else {
      UMBO_TRY(umbo_variable_view(t->variables[2 * layer], ctx, UMBO_DTYPE_FLOAT32, &view));
      parameters->weights[layer] = view.data;
    }
    UMBO_TRY(umbo_variable_view(t->variables[2 * layer + 1], ctx, UMBO_DTYPE_FLOAT32, &view));
    parameters->biases[layer] = view.data;
  }
  return UMBO_OK;
}

/* The buffers are this replica's own and are written whole, so nobody needs to clear them first. */
static umbo_status view_gradients(umbo_replica_context *ctx, const trainer *t, mlp_gradients *gradients) {
  umbo_view view;
  for (int layer = 0; layer < t->shape.layers; ++layer) {
    UMBO_TRY(umbo_gradients_view(t->gradients, ctx, 2 * layer, UMBO_GRADIENT_OVERWRITE, &view));
    gradients->weights[layer] = view.mutable_data;
    UMBO_TRY(umbo_gradients_view(t->gradients, ctx, 2 * layer + 1, UMBO_GRADIENT_OVERWRITE, &view));
    gradients->biases[layer] = view.mutable_data;
  }
  return UMBO_OK;
}

static umbo_status report(umbo_replica_context *ctx, mlp_score score, int64_t rows) {
  UMBO_TRY(umbo_replica_context_add_metric(ctx, "loss", score.loss, (double)rows));
  return umbo_replica_context_add_metric(ctx, "accuracy", (double)score.correct, (double)rows);
}

/* The training step of one replica. */
static umbo_status train(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const trainer *t = user_data;
  part p;
  mlp_parameters parameters;
  mlp_gradients gradients;
  mlp_score score = {0.0, 0};
  UMBO_TRY(prepare(ctx, t, batch, &p));
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  t->own_examples[here.local_replica_id] += (double)p.rows;
  if (p.rows > 0) { /* a part without rows weighs nothing, so nobody reads its gradients */
    UMBO_TRY(view_parameters(ctx, t, &parameters));
    UMBO_TRY(view_gradients(ctx, t, &gradients));
    score = mlp_differentiate(&t->shape, &parameters, p.rows, p.inputs, p.labels, p.workspace, &gradients);
  }
  UMBO_TRY(report(ctx, score, p.rows));
  return umbo_gradients_submit(t->gradients, ctx);
}

static umbo_status evaluate(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const trainer *t = user_data;
  part p;
  mlp_parameters parameters;
  mlp_score score = {0.0, 0};
  UMBO_TRY(prepare(ctx, t, batch, &p));
  if (p.rows > 0) {
    UMBO_TRY(view_parameters(ctx, t, &parameters));
    score = mlp_evaluate(&t->shape, &parameters, p.rows, p.inputs, p.labels, p.workspace);
  }
  return report(ctx, score, p.rows);
}

typedef struct {
  const trainer *trainer;
  int layer;
} layer_of;

static umbo_status initialize_weights(const umbo_view *memory, void *user_data) {
  const layer_of *which = user_data;
  const trainer *t = which->trainer;
  if (!t->rounds_weights) {
    mlp_initialize_weights(&t->shape, which->layer, t->seed, memory->mutable_data);
    return UMBO_OK;
  }
  const int64_t count = memory->shape[0] * memory->shape[1];
  float *exact = malloc((size_t)count * sizeof(float));
  if (exact == NULL) abort();
  mlp_initialize_weights(&t->shape, which->layer, t->seed, exact);
  uint16_t *to = memory->mutable_data;
  for (int64_t i = 0; i < count; ++i) { /* to the nearest */
    uint32_t bits;
    memcpy(&bits, exact + i, sizeof(bits));
    to[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
  }
  free(exact);
  return UMBO_OK;
}

static umbo_status initialize_biases(const umbo_view *memory, void *user_data) {
  (void)user_data;
  float *biases = memory->mutable_data;
  for (int64_t i = 0; i < memory->shape[0]; ++i) biases[i] = 0.0f;
  return UMBO_OK;
}

static void create_variables(trainer *t) {
  const umbo_dtype dtype = t->rounds_weights ? UMBO_DTYPE_BFLOAT16 : UMBO_DTYPE_FLOAT32;
  for (int layer = 0; layer < t->shape.layers; ++layer) {
    char name[32];
    layer_of which = {t, layer};
    const int64_t *const shape = &t->shape.sizes[layer]; /* [sizes[layer], sizes[layer + 1]] */

    snprintf(name, sizeof(name), "layer%d/weights", layer);
    UMBO_CHECK(umbo_variable_create(
        t->strategy, name, NULL,
        &UMBO_OPTIONS(umbo_variable, .dtype = dtype, .ndim = 2, .shape = shape,
                      .initializer = initialize_weights, .initializer_user_data = &which),
        &t->variables[2 * layer]));

    snprintf(name, sizeof(name), "layer%d/biases", layer);
    UMBO_CHECK(umbo_variable_create(
        t->strategy, name, NULL,
        &UMBO_OPTIONS(umbo_variable, .dtype = UMBO_DTYPE_FLOAT32, .ndim = 1, .shape = shape + 1,
                      .initializer = initialize_biases, .initializer_user_data = &which),
        &t->variables[2 * layer + 1]));
  }
}

static umbo_gradients *create_gradients(const trainer *t) {
  umbo_variable *variables[2 * MLP_MOST_LAYERS];
  for (int i = 0; i < 2 * t->shape.layers; ++i) variables[i] = t->variables[i];
  umbo_gradients *gradients = NULL;
  /* The network adds up over its rows; the library divides by all rows. */
  UMBO_CHECK(umbo_gradients_create(t->strategy, 2 * t->shape.layers, variables, UMBO_LOSS_SUM,
                                   &UMBO_OPTIONS(umbo_gradients, .dtype = UMBO_DTYPE_FLOAT32), &gradients));
  return gradients;
}

static umbo_optimizer *create_optimizer(umbo_strategy *strategy, const options *choices) {
  umbo_optimizer *optimizer = NULL;
  if (choices->rule == RULE_ADAM) {
    UMBO_CHECK(umbo_optimizer_create_adam(
        strategy, &UMBO_OPTIONS(umbo_adam, .learning_rate = choices->learning_rate), &optimizer));
  } else {
    UMBO_CHECK(umbo_optimizer_create_momentum(
        strategy, &UMBO_OPTIONS(umbo_momentum, .learning_rate = choices->learning_rate), &optimizer));
  }
  UMBO_CHECK(umbo_optimizer_configure(
      optimizer, &UMBO_OPTIONS(umbo_optimizer, .state_bits = choices->state_bits,
                               .stochastic_rounding = choices->rounds_weights, .rounding_seed = choices->seed)));
  return optimizer;
}

void trainer_create(trainer *t, const picture_data *data, const options *choices, const workers *together, int replicas,
                    int leave_threads) {
  *t = (trainer){
      .shape = {.layers = 4, .sizes = {data->pixels, 256, 128, 64, data->classes}},
      .seed = choices->seed,
      .mean = data->mean,
      .deviation = data->deviation,
      .rounds_weights = choices->rounds_weights,
  };
  /* The communicator is all that several processes need. */
  UMBO_CHECK(umbo_strategy_create(
      &UMBO_OPTIONS(umbo_strategy, .cpu_replicas = replicas, .replicas_in_sync = choices->replicas_in_sync,
                    .communicator = together->communicator, .bind_threads = !leave_threads),
      &t->strategy));
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  UMBO_CHECK(umbo_strategy_get_info(t->strategy, &info));
  /* With --replicas-in-sync they may be more than compute at a time. */
  t->own_examples = calloc((size_t)info.local_replica_count, sizeof(double));
  if (t->own_examples == NULL) abort();
  create_variables(t);
  t->gradients = create_gradients(t);
  t->optimizer = create_optimizer(t->strategy, choices);
  t->training_batches = data_training_batches(data, t->strategy, choices->batch_size, choices->seed);
  t->test_batches = data_test_batches(data, t->strategy);
}

void trainer_destroy(trainer *t) {
  umbo_iterator_release(t->test_batches);
  umbo_iterator_release(t->training_batches);
  umbo_optimizer_release(t->optimizer);
  umbo_gradients_release(t->gradients);
  for (int i = 0; i < 2 * t->shape.layers; ++i) umbo_variable_release(t->variables[i]);
  umbo_strategy_release(t->strategy);
  free(t->own_examples);
}

double trainer_own_examples(const trainer *t) {
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  double sum = 0.0;
  UMBO_CHECK(umbo_strategy_get_info(t->strategy, &info));
  for (int64_t i = 0; i < info.local_replica_count; ++i) sum += t->own_examples[i];
  return sum;
}

uint64_t trainer_fingerprint(const trainer *t) {
  uint64_t fingerprint;
  UMBO_CHECK(umbo_strategy_fingerprint(t->strategy, &fingerprint));
  return fingerprint;
}

/* Takes what the replicas of the last run, or of the last epoch, reported. */
static void add_metrics(const trainer *t, tally *total) {
  umbo_metric_result loss = UMBO_METRIC_RESULT_INIT, accuracy = UMBO_METRIC_RESULT_INIT;
  UMBO_CHECK(umbo_strategy_metric_result(t->strategy, "loss", &loss));
  UMBO_CHECK(umbo_strategy_metric_result(t->strategy, "accuracy", &accuracy));
  total->loss += loss.sum;
  total->correct += accuracy.sum;
  total->examples += loss.weight;
}

int trainer_step(trainer *t, double learning_rate, tally *total) {
  umbo_value *batch = NULL;
  UMBO_CHECK(umbo_iterator_next(t->training_batches, &batch));
  if (batch == NULL) {
    UMBO_CHECK(umbo_iterator_reset(t->training_batches));
    return 0;
  }
  UMBO_CHECK(umbo_optimizer_set_learning_rate(t->optimizer, learning_rate));
  UMBO_CHECK(umbo_strategy_run(t->strategy, train, batch, t, NULL, NULL));
  UMBO_CHECK(umbo_optimizer_apply(t->optimizer, t->gradients, NULL, NULL));
  add_metrics(t, total);
  umbo_value_release(batch);
  return 1;
}

tally trainer_evaluate(trainer *t) {
  tally total = {0.0, 0.0, 0.0};
  UMBO_CHECK(umbo_train_epoch(t->strategy, t->test_batches, NULL, NULL, evaluate, t, NULL, NULL));
  add_metrics(t, &total);
  return total;
}

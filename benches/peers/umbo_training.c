/* Training from end to end: a perceptron of 784, 500 and 10 on made-up pictures, 2 replicas. The network itself is the
 * example's, with matrix products by OpenBLAS where it is installed. */
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <umbo/expert.h>
#include <umbo/umbo.h>

#include "../../c_examples/03_train_fashion_mnist/matrix.h"
#include "../../c_examples/03_train_fashion_mnist/mlp.h"
#include "numbers.h"
#include "umbo_workloads.h"

enum { REPLICAS = 2, PIXELS = 784, HIDDEN = 500, CLASSES = 10, SAMPLES = 16384, VARIABLES = 4, PROTOTYPES_SEED = 1000 };

static const mlp_shape shape = {.layers = 2, .sizes = {PIXELS, HIDDEN, CLASSES}};

typedef struct {
  int adam; /* 0: SGD */
  int64_t batch;  /* examples of one replica in a step */
  umbo_strategy *strategy;
  umbo_variable *variables[VARIABLES]; /* weights and biases of a layer, then of the next */
  umbo_gradients *gradients;
  umbo_optimizer *optimizer;
  umbo_iterator *batches;
  double loss; /* mean of the last pass */
} training;

/* The prototype of a class with noise on it; labels go round. */
static void make_pictures(float *pictures, uint8_t *labels) {
  static float prototypes[CLASSES * PIXELS];
  fill_random(prototypes, CLASSES * PIXELS, PROTOTYPES_SEED);
  fill_random(pictures, (int64_t)SAMPLES * PIXELS, PROTOTYPES_SEED + 1);
  for (int64_t i = 0; i < SAMPLES; ++i) {
    labels[i] = (uint8_t)(i % CLASSES);
    for (int64_t j = 0; j < PIXELS; ++j) {
      float *pixel = &pictures[i * PIXELS + j];
      *pixel = *pixel + prototypes[labels[i] * PIXELS + j] - 2.0f;
    }
  }
}

static umbo_value *picture_value(void) {
  const int64_t picture_shape[2] = {SAMPLES, PIXELS}, label_shape[1] = {SAMPLES};
  umbo_tensor *pictures = NULL, *labels = NULL;
  umbo_view x, y;
  UMBO_CHECK(umbo_tensor_create_uninitialized(UMBO_DTYPE_FLOAT32, 2, picture_shape, NULL, &pictures));
  UMBO_CHECK(umbo_tensor_create_uninitialized(UMBO_DTYPE_UINT8, 1, label_shape, NULL, &labels));
  UMBO_CHECK(umbo_tensor_mutable_view(pictures, &x));
  UMBO_CHECK(umbo_tensor_mutable_view(labels, &y));
  make_pictures(x.mutable_data, y.mutable_data);
  umbo_value *parts[2] = {NULL, NULL}, *value = NULL;
  UMBO_CHECK(umbo_value_from_tensor(pictures, &parts[0]));
  UMBO_CHECK(umbo_value_from_tensor(labels, &parts[1]));
  const char *const names[] = {"x", "y"};
  umbo_value *const fields[] = {parts[0], parts[1]};
  UMBO_CHECK(umbo_value_create_struct(2, names, fields, &value));
  umbo_value_release(parts[1]);
  umbo_value_release(parts[0]);
  umbo_tensor_release(labels);
  umbo_tensor_release(pictures);
  return value;
}

static umbo_iterator *batches_of(umbo_strategy *strategy, int64_t size) {
  umbo_value *pictures = picture_value();
  umbo_shuffle_options shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
  umbo_dataset *dataset = NULL;
  umbo_distributed_dataset *distributed = NULL;
  umbo_iterator *iterator = NULL;
  shuffle.seed = 1;
  UMBO_CHECK(umbo_dataset_from_tensor_slices(pictures, &dataset));
  UMBO_CHECK(umbo_dataset_shuffle(&dataset, &shuffle));
  UMBO_CHECK(umbo_dataset_batch(&dataset, size, 0));
  UMBO_CHECK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &distributed));
  UMBO_CHECK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
  umbo_distributed_dataset_release(distributed);
  umbo_dataset_release(dataset);
  umbo_value_release(pictures);
  return iterator;
}

static umbo_status initialize(const umbo_view *memory, void *user_data) {
  const int *index = user_data;
  float *values = memory->mutable_data;
  if (*index % 2 == 0) {
    mlp_initialize_weights(&shape, *index / 2, 1, values);
  } else {
    for (int64_t i = 0; i < memory->shape[0]; ++i) values[i] = 0.0f;
  }
  return UMBO_OK;
}

static void create_variables(training *t) {
  for (int index = 0; index < VARIABLES; ++index) {
    static const char *const names[VARIABLES] = {"weights1", "biases1", "weights2", "biases2"};
    umbo_variable_options choices = UMBO_VARIABLE_OPTIONS_INIT;
    choices.dtype = UMBO_DTYPE_FLOAT32;
    choices.ndim = index % 2 == 0 ? 2 : 1;
    choices.shape = &shape.sizes[(index + 1) / 2];
    choices.initializer = initialize;
    choices.initializer_user_data = &index;
    UMBO_CHECK(umbo_variable_create(t->strategy, names[index], NULL, &choices, &t->variables[index]));
  }
}

static void prepare(void *data) {
  training *t = data;
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  matrix_set_threads(1); /* each replica has one processor */
  options.cpu_replicas = REPLICAS;
  UMBO_CHECK(umbo_strategy_create(&options, &t->strategy));
  create_variables(t);
  umbo_variable *variables[VARIABLES];
  for (int i = 0; i < VARIABLES; ++i) variables[i] = t->variables[i];
  /* The network adds up over its rows. */
  UMBO_CHECK(umbo_gradients_create(t->strategy, VARIABLES, variables, UMBO_LOSS_SUM, NULL, &t->gradients));
  if (t->adam) {
    umbo_adam_options adam = UMBO_ADAM_OPTIONS_INIT;
    UMBO_CHECK(umbo_optimizer_create_adam(t->strategy, &adam, &t->optimizer));
  } else {
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    UMBO_CHECK(umbo_optimizer_create_sgd(t->strategy, &sgd, &t->optimizer));
  }
  t->batches = batches_of(t->strategy, REPLICAS * t->batch);
}

/* The step of one replica. */
static umbo_status train(umbo_replica_context *ctx, const umbo_value *batch, void *user_data, umbo_value **result) {
  (void)result;
  const training *t = user_data;
  umbo_view x, y, view;
  mlp_parameters parameters;
  mlp_gradients gradients;
  void *workspace = NULL;
  UMBO_TRY(umbo_value_view(batch, "x", UMBO_DTYPE_NONE, &x));
  UMBO_TRY(umbo_value_view(batch, "y", UMBO_DTYPE_NONE, &y));
  const int64_t rows = x.shape[0];
  UMBO_TRY(umbo_replica_context_scratch(ctx, mlp_workspace_bytes(&shape, rows), &workspace));
  for (int layer = 0; layer < shape.layers; ++layer) {
    UMBO_TRY(umbo_variable_view(t->variables[2 * layer], ctx, UMBO_DTYPE_FLOAT32, &view));
    parameters.weights[layer] = view.data;
    UMBO_TRY(umbo_variable_view(t->variables[2 * layer + 1], ctx, UMBO_DTYPE_FLOAT32, &view));
    parameters.biases[layer] = view.data;
    UMBO_TRY(umbo_gradients_view(t->gradients, ctx, 2 * layer, UMBO_GRADIENT_OVERWRITE, &view));
    gradients.weights[layer] = view.mutable_data;
    UMBO_TRY(umbo_gradients_view(t->gradients, ctx, 2 * layer + 1, UMBO_GRADIENT_OVERWRITE, &view));
    gradients.biases[layer] = view.mutable_data;
  }
  const mlp_score score = mlp_differentiate(&shape, &parameters, rows, x.data, y.data, workspace, &gradients);
  UMBO_TRY(umbo_replica_context_add_metric(ctx, "loss", score.loss, (double)rows));
  return umbo_gradients_submit(t->gradients, ctx);
}

/* One pass over the pictures. */
static void pass(void *data) {
  training *t = data;
  double loss = 0.0;
  for (;;) {
    umbo_value *batch = NULL;
    umbo_metric_result metric = UMBO_METRIC_RESULT_INIT;
    UMBO_CHECK(umbo_iterator_next(t->batches, &batch));
    if (batch == NULL) break;
    UMBO_CHECK(umbo_strategy_run(t->strategy, train, batch, t, NULL, NULL));
    UMBO_CHECK(umbo_optimizer_apply(t->optimizer, t->gradients, NULL, NULL));
    UMBO_CHECK(umbo_strategy_metric_result(t->strategy, "loss", &metric));
    loss += metric.sum;
    umbo_value_release(batch);
  }
  UMBO_CHECK(umbo_iterator_reset(t->batches));
  t->loss = loss / SAMPLES;
}

/* A network that learns nothing has a loss of log(10). */
static void check(void *data) {
  training *t = data;
  const double first = t->loss;
  pass(t);
  if (!(t->loss < first && t->loss < 0.8 * log(CLASSES))) give_up("the loss went from %g to %g", first, t->loss);
}

/* The probe: the network's forward and backward passes alone, on threads that have nothing else to do. */
typedef struct {
  int64_t rows, steps;
  float *inputs, *weights[2], *biases[2], *weight_gradients[2], *bias_gradients[2];
  uint8_t *labels;
  void *workspace;
  pthread_t thread;
} network;

typedef struct {
  int64_t batch;
  network networks[REPLICAS];
} probe;

static void prepare_probe(void *data) {
  probe *p = data;
  matrix_set_threads(1);
  for (int replica = 0; replica < REPLICAS; ++replica) {
    network *n = &p->networks[replica];
    n->rows = p->batch;
    n->steps = SAMPLES / REPLICAS / p->batch;
    n->inputs = floats(n->rows * PIXELS);
    n->labels = calloc((size_t)n->rows, 1);
    n->workspace = floats((int64_t)(mlp_workspace_bytes(&shape, n->rows) / sizeof(float)));
    if (n->labels == NULL) give_up("no memory");
    fill_random(n->inputs, n->rows * PIXELS, (uint64_t)replica);
    for (int layer = 0; layer < shape.layers; ++layer) {
      const int64_t out = shape.sizes[layer + 1], count = shape.sizes[layer] * out;
      n->weights[layer] = floats(count);
      n->biases[layer] = floats(out);
      n->weight_gradients[layer] = floats(count);
      n->bias_gradients[layer] = floats(out);
      mlp_initialize_weights(&shape, layer, 1, n->weights[layer]);
      fill_random(n->biases[layer], out, 1);
    }
  }
}

static void *differentiate(void *data) {
  const network *n = data;
  const mlp_parameters parameters = {{n->weights[0], n->weights[1]}, {n->biases[0], n->biases[1]}};
  const mlp_gradients gradients = {{n->weight_gradients[0], n->weight_gradients[1]},
                                   {n->bias_gradients[0], n->bias_gradients[1]}};
  for (int64_t step = 0; step < n->steps; ++step) {
    mlp_differentiate(&shape, &parameters, n->rows, n->inputs, n->labels, n->workspace, &gradients);
  }
  return NULL;
}

static void run_probe(void *data) {
  probe *p = data;
  for (int i = 1; i < REPLICAS; ++i) {
    if (pthread_create(&p->networks[i].thread, NULL, differentiate, &p->networks[i]) != 0) give_up("no thread");
  }
  differentiate(&p->networks[0]);
  for (int i = 1; i < REPLICAS; ++i) pthread_join(p->networks[i].thread, NULL);
}

static void check_probe(void *data) { (void)data; /* what it makes is not used */ }

int add_training_workloads(workload *workloads) {
  static training all[] = {{.adam = 0, .batch = 64}, {.adam = 0, .batch = 256}, {.adam = 1, .batch = 64},
                           {.adam = 1, .batch = 256}};
  static const char *const names[] = {"train, sgd, 64", "train, sgd, 256", "train, adam, 64", "train, adam, 256"};
  static probe probes[] = {{.batch = 64}, {.batch = 256}};
  static const char *const probe_names[] = {"train probe, 64", "train probe, 256"};
  for (int i = 0; i < 4; ++i) {
    workloads[i] = (workload){.name = names[i], .calls = 1, .samples = SAMPLES, .data = &all[i], .prepare = prepare,
                              .check = check, .call = pass};
  }
  for (int i = 0; i < 2; ++i) {
    workloads[4 + i] = (workload){.name = probe_names[i], .calls = 1, .samples = SAMPLES, .data = &probes[i],
                                  .prepare = prepare_probe, .check = check_probe, .call = run_probe};
  }
  return 6;
}

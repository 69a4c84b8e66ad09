/* What memory bounds: reductions, and updates from the gradients of all replicas. */
#include <stddef.h>
#include <umbo/expert.h>
#include <umbo/umbo.h>

#include "numbers.h"
#include "umbo_workloads.h"

enum { REPLICAS = 4, WEIGHTS_SEED = 100 };

/* One tensor for each replica, and their sum. */
typedef struct {
  int replicas;
  int fresh; /* each call makes its result, instead of writing into `output` */
  umbo_strategy *strategy;
  float *parts[REPLICAS];
  umbo_value *value;
  umbo_tensor *output;
  umbo_value *result;
} reduction;

static umbo_strategy *strategy_of(int replicas) {
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  umbo_strategy *strategy = NULL;
  options.cpu_replicas = replicas;
  UMBO_CHECK(umbo_strategy_create(&options, &strategy));
  return strategy;
}

static void prepare_reduce(void *data) {
  reduction *r = data;
  const int64_t count = element_count();
  umbo_value *parts[REPLICAS];
  umbo_value *part = NULL;
  r->strategy = strategy_of(r->replicas);
  for (int replica = 0; replica < r->replicas; ++replica) {
    umbo_tensor *tensor = NULL;
    umbo_view view;
    UMBO_CHECK(umbo_tensor_create_uninitialized(UMBO_DTYPE_FLOAT32, 1, &count, NULL, &tensor));
    UMBO_CHECK(umbo_tensor_mutable_view(tensor, &view));
    fill_random(view.mutable_data, count, (uint64_t)replica);
    r->parts[replica] = view.mutable_data;
    UMBO_CHECK(umbo_value_from_tensor(tensor, &part));
    parts[replica] = part;
    umbo_tensor_release(tensor);
  }
  UMBO_CHECK(umbo_value_create_per_replica(r->replicas, parts, &r->value));
  for (int replica = 0; replica < r->replicas; ++replica) umbo_value_release(parts[replica]);
  if (!r->fresh) UMBO_CHECK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &count, NULL, &r->output));
}

static void reduce(void *data) {
  reduction *r = data;
  umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
  options.output = r->fresh ? NULL : r->output;
  UMBO_CHECK(umbo_strategy_reduce(r->strategy, r->value, UMBO_REDUCE_SUM, &options, &r->result));
}

static void check_reduce(void *data) {
  const reduction *r = data;
  umbo_view view;
  UMBO_CHECK(umbo_value_view(r->result, NULL, UMBO_DTYPE_FLOAT32, &view));
  check_sum(element_count(), r->replicas, r->parts, view.data);
}

static void release_result(void *data) {
  reduction *r = data;
  umbo_value_release(r->result);
  r->result = NULL;
}

/* One variable, and an optimizer that updates it from the gradients of all replicas. */
typedef struct {
  double weight_decay; /* 0: Adam, else AdamW */
  umbo_strategy *strategy;
  umbo_variable *variable;
  umbo_gradients *gradients;
  umbo_optimizer *optimizer;
  float *parts[REPLICAS]; /* where the replicas' gradients are */
} training;

static umbo_status initialize(const umbo_view *memory, void *user_data) {
  (void)user_data;
  fill_random(memory->mutable_data, memory->shape[0], WEIGHTS_SEED);
  return UMBO_OK;
}

/* What a replica does in a step. Its buffer holds the gradient from the first one on. */
static umbo_status submit(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  (void)args, (void)result;
  training *t = user_data;
  umbo_view view;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  const int32_t replica = here.replica_id;
  UMBO_TRY(umbo_gradients_view(t->gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &view));
  if (t->parts[replica] == NULL) {
    t->parts[replica] = view.mutable_data;
    fill_random(view.mutable_data, view.shape[0], (uint64_t)replica);
  }
  return umbo_gradients_submit_weighted(t->gradients, ctx, 1.0);
}

static umbo_optimizer *optimizer_of(umbo_strategy *strategy, double weight_decay) {
  umbo_optimizer *optimizer = NULL;
  if (weight_decay > 0.0) {
    umbo_adamw_options options = UMBO_ADAMW_OPTIONS_INIT;
    options.learning_rate = LEARNING_RATE;
    options.beta1 = BETA1;
    options.beta2 = BETA2;
    options.epsilon = EPSILON;
    options.weight_decay = weight_decay;
    UMBO_CHECK(umbo_optimizer_create_adamw(strategy, &options, &optimizer));
  } else {
    umbo_adam_options options = UMBO_ADAM_OPTIONS_INIT;
    options.learning_rate = LEARNING_RATE;
    options.beta1 = BETA1;
    options.beta2 = BETA2;
    options.epsilon = EPSILON;
    UMBO_CHECK(umbo_optimizer_create_adam(strategy, &options, &optimizer));
  }
  return optimizer;
}

static void create_variable(training *t) {
  const int64_t count = element_count();
  umbo_variable_options choices = UMBO_VARIABLE_OPTIONS_INIT;
  choices.dtype = UMBO_DTYPE_FLOAT32;
  choices.ndim = 1;
  choices.shape = &count;
  choices.initializer = initialize;
  UMBO_CHECK(umbo_variable_create(t->strategy, "weights", NULL, &choices, &t->variable));
}

static void prepare_step(void *data) {
  training *t = data;
  t->strategy = strategy_of(REPLICAS);
  create_variable(t);
  umbo_variable *variables[1] = {t->variable};
  /* The gradients are added up, as the peers' are. */
  UMBO_CHECK(umbo_gradients_create(t->strategy, 1, variables, UMBO_LOSS_GLOBAL_MEAN, NULL, &t->gradients));
  t->optimizer = optimizer_of(t->strategy, t->weight_decay);
}

static void step(void *data) {
  training *t = data;
  UMBO_CHECK(umbo_strategy_run(t->strategy, submit, NULL, t, NULL, NULL));
  UMBO_CHECK(umbo_optimizer_apply(t->optimizer, t->gradients, NULL, NULL));
}

static void check_step(void *data) {
  const training *t = data;
  umbo_tensor *weights = NULL;
  umbo_view view;
  UMBO_CHECK(umbo_variable_read(t->variable, &weights));
  UMBO_CHECK(umbo_tensor_view(weights, &view));
  check_first_step(element_count(), REPLICAS, t->parts, WEIGHTS_SEED, t->weight_decay, view.data);
  umbo_tensor_release(weights);
}

static workload reduce_workload(const char *name, reduction *r) {
  return (workload){.name = name, .calls = 3, .data = r, .prepare = prepare_reduce, .check = check_reduce,
                    .call = reduce, .after_call = release_result};
}

static workload step_workload(const char *name, training *t) {
  return (workload){.name = name, .calls = 3, .data = t, .prepare = prepare_step, .check = check_step, .call = step};
}

int add_memory_workloads(workload *workloads) {
  static reduction of_2 = {.replicas = 2}, of_4 = {.replicas = 4}, into_new = {.replicas = 4, .fresh = 1};
  static training adam, adamw = {.weight_decay = WEIGHT_DECAY};
  int count = 0;
  workloads[count++] = reduce_workload("reduce of 2", &of_2);
  workloads[count++] = reduce_workload("reduce of 4", &of_4);
  workloads[count++] = reduce_workload("reduce of 4, new tensor", &into_new);
  workloads[count++] = step_workload("adam", &adam);
  workloads[count++] = step_workload("adamw", &adamw);
  return count;
}

/* Runs each hot loop over some elements, and then over twice as many, for count.py: under valgrind's callgrind, which
 * counts the instructions of each. What the second takes more than the first is the loop's alone. Small steps, likewise,
 * run some times, and then twice as often. */
#include <stdio.h>
#include <stdlib.h>
#include <umbo/expert.h>
#include <umbo/trainer.h>
#include <umbo/umbo.h>
#include <valgrind/callgrind.h>

enum { ELEMENTS = 1 << 18, MOST_REPLICAS = 8, STEPS = 1 << 10, WEIGHTS = 20, ROWS = 128 };

typedef umbo_status create_rule(umbo_strategy *strategy, umbo_optimizer **optimizer);

typedef struct {
  const char *name;
  create_rule *create;
  int replicas;
  umbo_dtype gradient;
  int clips;
  int accumulates; /* two runs make an update */
} loop;

static void check(umbo_status status) {
  if (status == UMBO_OK) return;
  fprintf(stderr, "hot_loops: %s\n", umbo_last_error_message());
  exit(EXIT_FAILURE);
}

#define RULE(name) \
  static umbo_status name(umbo_strategy *strategy, umbo_optimizer **optimizer) { \
    return umbo_optimizer_create_##name(strategy, NULL, optimizer); \
  }
RULE(sgd)
RULE(momentum)
RULE(adam)
RULE(adamw)
RULE(nadam)
RULE(radam)
RULE(lion)
RULE(lamb)
RULE(lars)
RULE(adagrad)
RULE(rmsprop)
RULE(ftrl)

static umbo_status nesterov(umbo_strategy *strategy, umbo_optimizer **optimizer) {
  umbo_momentum_options options = UMBO_MOMENTUM_OPTIONS_INIT;
  options.nesterov = 1;
  return umbo_optimizer_create_momentum(strategy, &options, optimizer);
}

static umbo_variable *variable;
static umbo_gradients *gradients;

static umbo_status initialize(const umbo_view *memory, void *user_data) {
  (void)user_data;
  for (int64_t i = 0; i < memory->shape[0]; ++i) ((float *)memory->mutable_data)[i] = 0.5f;
  return UMBO_OK;
}

static umbo_status create_variable(umbo_strategy *strategy, const int64_t *elements) {
  umbo_variable_options choices = UMBO_VARIABLE_OPTIONS_INIT;
  choices.dtype = UMBO_DTYPE_FLOAT32;
  choices.ndim = 1;
  choices.shape = elements;
  choices.initializer = initialize;
  return umbo_variable_create(strategy, "weights", NULL, &choices, &variable);
}

static umbo_status submit(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  (void)args, (void)result;
  umbo_view view;
  UMBO_TRY(umbo_gradients_view(gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &view));
  return umbo_gradients_submit_weighted(gradients, ctx, *(const double *)user_data);
}

/* What this thread does from here on is counted, and nothing that others do, such as waiting. */
static void count(void) {
  CALLGRIND_ZERO_STATS;
  CALLGRIND_TOGGLE_COLLECT;
}

static void stop_counting(void) {
  CALLGRIND_TOGGLE_COLLECT;
}

static umbo_strategy *strategy_of(int replicas) {
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  umbo_strategy *strategy = NULL;
  options.cpu_replicas = replicas;
  check(umbo_strategy_create(&options, &strategy));
  return strategy;
}

static void update(const loop *it, int64_t elements, const char *what) {
  umbo_strategy *strategy = strategy_of(it->replicas);
  umbo_gradients_options sums = UMBO_GRADIENTS_OPTIONS_INIT;
  umbo_optimizer *optimizer = NULL;
  double share = 1.0 / it->replicas;
  check(create_variable(strategy, &elements));
  sums.dtype = it->gradient;
  sums.accumulation_steps = it->accumulates ? 2 : 1;
  umbo_variable *variables[1] = {variable};
  check(umbo_gradients_create(strategy, 1, variables, UMBO_LOSS_GLOBAL_MEAN, &sums, &gradients));
  check(it->create(strategy, &optimizer));
  if (it->clips) {
    umbo_optimizer_options settings = UMBO_OPTIMIZER_OPTIONS_INIT;
    settings.global_clip_norm = 1.0;
    check(umbo_optimizer_configure(optimizer, &settings));
  }
  /* The first update makes the state. */
  for (int round = 0; round < 2; ++round) {
    for (int run = 0; run < (it->accumulates ? 2 : 1); ++run) {
      check(umbo_strategy_run(strategy, submit, NULL, &share, NULL, NULL));
      count();
      check(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
      stop_counting();
    }
  }
  CALLGRIND_DUMP_STATS_AT(what);
  umbo_optimizer_release(optimizer);
  umbo_gradients_release(gradients);
  umbo_variable_release(variable);
  umbo_strategy_release(strategy);
}

static void reduce(int replicas, umbo_dtype dtype, int64_t elements, const char *what) {
  umbo_strategy *strategy = strategy_of(replicas);
  umbo_value *parts[MOST_REPLICAS];
  umbo_value *part = NULL, *value = NULL, *result = NULL;
  umbo_reduce_options options = UMBO_REDUCE_OPTIONS_INIT;
  for (int replica = 0; replica < replicas; ++replica) {
    umbo_tensor *tensor = NULL;
    check(umbo_tensor_create_zeros(dtype, 1, &elements, NULL, &tensor));
    check(umbo_value_from_tensor(tensor, &part));
    parts[replica] = part;
    umbo_tensor_release(tensor);
  }
  check(umbo_value_create_per_replica(replicas, parts, &value));
  check(umbo_tensor_create_zeros(dtype, 1, &elements, NULL, &options.output));
  count();
  check(umbo_strategy_reduce(strategy, value, UMBO_REDUCE_SUM, &options, &result));
  stop_counting();
  CALLGRIND_DUMP_STATS_AT(what);
  umbo_value_release(result);
  umbo_tensor_release(options.output);
  umbo_value_release(value);
  for (int replica = 0; replica < replicas; ++replica) umbo_value_release(parts[replica]);
  umbo_strategy_release(strategy);
}

static umbo_value *number;

static umbo_status do_nothing(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  (void)ctx, (void)args, (void)user_data, (void)result;
  return UMBO_OK;
}

static umbo_status sum_number(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  umbo_value *sum = NULL;
  (void)args, (void)user_data, (void)result;
  UMBO_TRY(umbo_replica_context_all_reduce(ctx, number, UMBO_REDUCE_SUM, &sum));
  umbo_value_release(sum);
  return UMBO_OK;
}

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
  (void)weights, (void)user_data;
  gradient[0] += 1;
  *loss += (double)rows->count;
  return UMBO_OK;
}

/* Runs on one replica, which waits for nobody. */
static void run(umbo_replica_fn function, int times, const char *what) {
  umbo_strategy *strategy = strategy_of(1);
  const float one = 1;
  check(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &one, NULL, &number));
  for (int i = 0; i < times * STEPS; ++i) {
    if (i == STEPS / 2) count();
    check(umbo_strategy_run(strategy, function, NULL, NULL, NULL, NULL));
  }
  stop_counting();
  CALLGRIND_DUMP_STATS_AT(what);
  umbo_value_release(number);
  umbo_strategy_release(strategy);
}

static void train(int times, const char *what) {
  static float weights[WEIGHTS];
  umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
  umbo_trainer *trainer = NULL;
  options.rule = "sgd";
  options.replicas = 1;
  check(umbo_trainer_create(weights, WEIGHTS, &options, &trainer));
  for (int i = 0; i < times * STEPS; ++i) {
    if (i == STEPS / 2) count();
    check(umbo_trainer_step(trainer, i % 8 * ROWS, ROWS, learn, NULL, NULL));
  }
  stop_counting();
  CALLGRIND_DUMP_STATS_AT(what);
  umbo_trainer_release(trainer);
}

int main(void) {
  const umbo_dtype float32 = UMBO_DTYPE_FLOAT32, float16 = UMBO_DTYPE_FLOAT16, bfloat16 = UMBO_DTYPE_BFLOAT16;
  const loop loops[] = {
      {"sgd", sgd, 2, float32, 0, 0},
      {"momentum", momentum, 2, float32, 0, 0},
      {"nesterov", nesterov, 2, float32, 0, 0},
      {"adagrad", adagrad, 2, float32, 0, 0},
      {"rmsprop", rmsprop, 2, float32, 0, 0},
      {"adam", adam, 2, float32, 0, 0},
      {"adamw", adamw, 2, float32, 0, 0},
      {"nadam", nadam, 2, float32, 0, 0},
      {"radam", radam, 2, float32, 0, 0},
      {"lion", lion, 2, float32, 0, 0},
      {"lamb", lamb, 2, float32, 0, 0},
      {"lars", lars, 2, float32, 0, 0},
      {"ftrl", ftrl, 2, float32, 0, 0},
      {"adamw of 1", adamw, 1, float32, 0, 0},
      {"adamw of 3", adamw, 3, float32, 0, 0},
      {"adamw of 4", adamw, 4, float32, 0, 0},
      {"adamw of 8", adamw, 8, float32, 0, 0},
      {"adamw, float16 gradients", adamw, 2, float16, 0, 0},
      {"adamw, bfloat16 gradients", adamw, 2, bfloat16, 0, 0},
      {"adamw, bfloat16 gradients of 8", adamw, 8, bfloat16, 0, 0},
      {"adamw, clipped", adamw, 2, float32, 1, 0},
      {"adamw of 8, clipped", adamw, 8, float32, 1, 0},
      {"adamw, accumulated", adamw, 2, float32, 0, 1},
      {"momentum of 8", momentum, 8, float32, 0, 0},
  };
  const struct {
    const char *name;
    int replicas;
    umbo_dtype dtype;
  } reductions[] = {
      {"reduce of 2", 2, float32},
      {"reduce of 4", 4, float32},
      {"reduce of 8", 8, float32},
      {"reduce of 2, bfloat16", 2, bfloat16},
      {"reduce of 2, float16", 2, float16},
  };
  check(umbo_set_worker_count(1));
  for (int times = 1; times <= 2; ++times) {
    char what[64];
    for (size_t i = 0; i < sizeof(loops) / sizeof(*loops); ++i) {
      snprintf(what, sizeof(what), "%d|%s", times, loops[i].name);
      update(&loops[i], (int64_t)times * ELEMENTS, what);
    }
    for (size_t i = 0; i < sizeof(reductions) / sizeof(*reductions); ++i) {
      snprintf(what, sizeof(what), "%d|%s", times, reductions[i].name);
      reduce(reductions[i].replicas, reductions[i].dtype, (int64_t)times * ELEMENTS, what);
    }
    snprintf(what, sizeof(what), "%d|step: empty run", times);
    run(do_nothing, times, what);
    snprintf(what, sizeof(what), "%d|step: all-reduce of a number", times);
    run(sum_number, times, what);
    snprintf(what, sizeof(what), "%d|step: trainer, sgd", times);
    train(times, what);
  }
  return 0;
}

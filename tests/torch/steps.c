/* Takes the steps of one optimizer: steps RULE [NAME=NUMBER]...
 *
 * In: doubles. The initial weights of both variables, then for each run the gradients of both variables from each
 * replica. Out: after each apply, the weights of both variables. Names are those of the options below. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <umbo/umbo.h>

enum { REPLICAS = 2, VARIABLES = 2, MOST = 64 };

/* A matrix and a vector, so that a norm is one of several variables. */
static const int64_t shapes[VARIABLES][2] = {{5, 3}, {7, 1}};
static const int32_t ranks[VARIABLES] = {2, 1};

typedef struct {
  umbo_variable *variables[VARIABLES];
  umbo_gradients *gradients;
  double values[REPLICAS][VARIABLES][MOST];
} state;

static void check(umbo_status status, const char *call) {
  if (status == UMBO_OK) return;
  fprintf(stderr, "%s: %s\n", call, umbo_last_error_message());
  exit(EXIT_FAILURE);
}

#define CHECK(call) check((call), #call)

static size_t elements(int variable) { return (size_t)(shapes[variable][0] * shapes[variable][1]); }

/* Whether there was more to read. */
static int read_values(double values[VARIABLES][MOST]) {
  for (int i = 0; i < VARIABLES; ++i) {
    if (fread(values[i], sizeof(double), elements(i), stdin) != elements(i)) return 0;
  }
  return 1;
}

/* Changes an option that the arguments name; what they do not name stays as it is. */
static void set(int argc, char **argv, const char *name, double *option) {
  const size_t length = strlen(name);
  for (int i = 2; i < argc; ++i) {
    if (strncmp(argv[i], name, length) == 0 && argv[i][length] == '=') *option = atof(argv[i] + length + 1);
  }
}

static void set_integer(int argc, char **argv, const char *name, int32_t *option) {
  double value = *option;
  set(argc, argv, name, &value);
  *option = (int32_t)value;
}

static umbo_optimizer *make(umbo_strategy *strategy, int argc, char **argv) {
  const char *rule = argv[1];
  umbo_optimizer *optimizer = NULL;
  if (strcmp(rule, "sgd") == 0) {
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    set(argc, argv, "learning_rate", &sgd.learning_rate);
    CHECK(umbo_optimizer_create_sgd(strategy, &sgd, &optimizer));
  } else if (strcmp(rule, "momentum") == 0) {
    umbo_momentum_options momentum = UMBO_MOMENTUM_OPTIONS_INIT;
    set(argc, argv, "learning_rate", &momentum.learning_rate);
    set(argc, argv, "momentum", &momentum.momentum);
    set_integer(argc, argv, "nesterov", &momentum.nesterov);
    CHECK(umbo_optimizer_create_momentum(strategy, &momentum, &optimizer));
  } else if (strcmp(rule, "adagrad") == 0) {
    umbo_adagrad_options adagrad = UMBO_ADAGRAD_OPTIONS_INIT;
    set(argc, argv, "learning_rate", &adagrad.learning_rate);
    set(argc, argv, "initial_accumulator", &adagrad.initial_accumulator);
    CHECK(umbo_optimizer_create_adagrad(strategy, &adagrad, &optimizer));
  } else if (strcmp(rule, "rmsprop") == 0) {
    umbo_rmsprop_options rmsprop = UMBO_RMSPROP_OPTIONS_INIT;
    set(argc, argv, "learning_rate", &rmsprop.learning_rate);
    set(argc, argv, "decay", &rmsprop.rho);
    set(argc, argv, "momentum", &rmsprop.momentum);
    set_integer(argc, argv, "centered", &rmsprop.centered);
    CHECK(umbo_optimizer_create_rmsprop(strategy, &rmsprop, &optimizer));
  } else if (strcmp(rule, "adam") == 0) {
    umbo_adam_options adam = UMBO_ADAM_OPTIONS_INIT;
    set(argc, argv, "learning_rate", &adam.learning_rate);
    set(argc, argv, "beta1", &adam.beta1);
    set(argc, argv, "beta2", &adam.beta2);
    CHECK(umbo_optimizer_create_adam(strategy, &adam, &optimizer));
  } else if (strcmp(rule, "adamw") == 0) {
    umbo_adamw_options adamw = UMBO_ADAMW_OPTIONS_INIT;
    set(argc, argv, "learning_rate", &adamw.learning_rate);
    CHECK(umbo_optimizer_create_adamw(strategy, &adamw, &optimizer));
  } else {
    fprintf(stderr, "no rule %s\n", rule);
    exit(EXIT_FAILURE);
  }
  umbo_optimizer_options around = UMBO_OPTIMIZER_OPTIONS_INIT;
  set(argc, argv, "weight_decay", &around.weight_decay);
  set(argc, argv, "global_clip_norm", &around.global_clip_norm);
  CHECK(umbo_optimizer_configure(optimizer, &around));
  return optimizer;
}

/* Runs within the strategy's scope. */
static umbo_status make_variables(umbo_strategy *strategy, void *user_data) {
  state *s = user_data;
  double initial[VARIABLES][MOST];
  (void)strategy;
  if (!read_values(initial)) return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "no initial weights", NULL, NULL);
  for (int i = 0; i < VARIABLES; ++i) {
    umbo_tensor *tensor = NULL;
    UMBO_TRY(umbo_tensor_from_data(UMBO_DTYPE_FLOAT64, ranks[i], shapes[i], initial[i], NULL, &tensor));
    const umbo_status made = umbo_variable_create(NULL, "weights", tensor, NULL, &s->variables[i]);
    umbo_tensor_release(tensor);
    UMBO_TRY(made);
  }
  return UMBO_OK;
}

static umbo_status submit(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  state *s = user_data;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  (void)args, (void)result;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  for (int i = 0; i < VARIABLES; ++i) {
    umbo_view view;
    UMBO_TRY(umbo_gradients_view(s->gradients, ctx, i, UMBO_GRADIENT_OVERWRITE, &view));
    memcpy(view.mutable_data, s->values[here.replica_id][i], elements(i) * sizeof(double));
  }
  return umbo_gradients_submit_weighted(s->gradients, ctx, 1.0);
}

static void write_weights(const state *s) {
  for (int i = 0; i < VARIABLES; ++i) {
    umbo_tensor *weights = NULL;
    umbo_view view;
    CHECK(umbo_variable_read(s->variables[i], &weights));
    CHECK(umbo_tensor_view(weights, &view));
    fwrite(view.data, sizeof(double), elements(i), stdout);
    umbo_tensor_release(weights);
  }
}

int main(int argc, char **argv) {
  static state s;
  umbo_strategy_options replicas = UMBO_STRATEGY_OPTIONS_INIT;
  umbo_gradients_options sums = UMBO_GRADIENTS_OPTIONS_INIT;
  umbo_strategy *strategy = NULL;
  if (argc < 2) {
    fprintf(stderr, "steps RULE [NAME=NUMBER]...\n");
    return EXIT_FAILURE;
  }
  replicas.cpu_replicas = REPLICAS;
  CHECK(umbo_strategy_create(&replicas, &strategy));
  CHECK(umbo_strategy_scope(strategy, make_variables, &s));
  sums.loss_reduction = UMBO_LOSS_GLOBAL_MEAN; /* what is submitted is added up */
  double accumulated = (double)sums.accumulation_steps;
  set(argc, argv, "accumulation_steps", &accumulated);
  sums.accumulation_steps = (int64_t)accumulated;
  umbo_variable *const variables[VARIABLES] = {s.variables[0], s.variables[1]};
  CHECK(umbo_gradients_create(strategy, VARIABLES, variables, &sums, &s.gradients));
  umbo_optimizer *optimizer = make(strategy, argc, argv);
  while (read_values(s.values[0]) && read_values(s.values[1])) {
    CHECK(umbo_strategy_run(strategy, submit, &s, NULL, NULL, NULL));
    CHECK(umbo_optimizer_apply(optimizer, s.gradients, NULL, NULL));
    write_weights(&s);
  }
  umbo_optimizer_release(optimizer);
  umbo_gradients_release(s.gradients);
  for (int i = 0; i < VARIABLES; ++i) umbo_variable_release(s.variables[i]);
  umbo_strategy_release(strategy);
  return EXIT_SUCCESS;
}

/* The update beside the loop that an expert writes by hand (hand_written.h), in one process and alternately, for loops.py.
 *
 *   loops RULE ELEMENTS REPLICAS float32|bfloat16 clip|free BEST ROUNDS
 *
 * BEST is 1 where the loop by hand uses what the processor has, 0 where it is plain C. Prints for each round the
 * microseconds of one update, ours and theirs, as a line of JSON. Both work on as much memory of their own, and each
 * turn is some updates one right after the other, of which the median is taken. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <umbo/umbo.h>

#include "hand_written.h"
#include "numbers.h"
#include "turns.h"

enum { MOST_REPLICAS = 16, WEIGHTS_SEED = 100, CALLS = 5, PAUSE = 3000000 /* nanoseconds */ };
#define MOMENTUM 0.9
#define CLIP_NORM 1.0

static struct {
  int rule;
  int64_t count;
  int replicas;
  int are_bfloat16, clips, instructions;
} asked;

/* Ours. */

static umbo_strategy *strategy;
static umbo_variable *variable;
static umbo_gradients *gradients;
static umbo_optimizer *optimizer;
static int is_filled[MOST_REPLICAS];

static void fill_gradient(void *to, uint64_t seed) {
  if (!asked.are_bfloat16) {
    fill_random(to, asked.count, seed);
    return;
  }
  float *values = floats(asked.count);
  fill_random(values, asked.count, seed);
  for (int64_t i = 0; i < asked.count; ++i) {
    uint32_t bits;
    memcpy(&bits, &values[i], sizeof(bits));
    ((uint16_t *)to)[i] = (uint16_t)(bits >> 16);
  }
  free(values);
}

static umbo_status initialize(const umbo_view *memory, void *user_data) {
  (void)user_data;
  fill_random(memory->mutable_data, memory->shape[0], WEIGHTS_SEED);
  return UMBO_OK;
}

static void create_variable(void) {
  umbo_variable_options choices = UMBO_VARIABLE_OPTIONS_INIT;
  choices.dtype = UMBO_DTYPE_FLOAT32;
  choices.ndim = 1;
  choices.shape = &asked.count;
  choices.initializer = initialize;
  UMBO_CHECK(umbo_variable_create(strategy, "weights", NULL, &choices, &variable));
}

static umbo_status submit(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  (void)args, (void)user_data, (void)result;
  umbo_view view;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  const int32_t replica = here.replica_id;
  UMBO_TRY(umbo_gradients_view(gradients, ctx, 0, UMBO_GRADIENT_OVERWRITE, &view));
  if (!is_filled[replica]) fill_gradient(view.mutable_data, (uint64_t)replica);
  is_filled[replica] = 1;
  return umbo_gradients_submit_weighted(gradients, ctx, 1.0); /* all count the same in the mean */
}

static void create_optimizer(void) {
  if (asked.rule == HAND_SGD) {
    umbo_sgd_options options = UMBO_SGD_OPTIONS_INIT;
    options.learning_rate = LEARNING_RATE;
    UMBO_CHECK(umbo_optimizer_create_sgd(strategy, &options, &optimizer));
  } else if (asked.rule == HAND_MOMENTUM) {
    umbo_momentum_options options = UMBO_MOMENTUM_OPTIONS_INIT;
    options.learning_rate = LEARNING_RATE;
    options.momentum = MOMENTUM;
    UMBO_CHECK(umbo_optimizer_create_momentum(strategy, &options, &optimizer));
  } else {
    umbo_adamw_options options = UMBO_ADAMW_OPTIONS_INIT;
    options.learning_rate = LEARNING_RATE;
    options.beta1 = BETA1;
    options.beta2 = BETA2;
    options.epsilon = EPSILON;
    options.weight_decay = WEIGHT_DECAY;
    UMBO_CHECK(umbo_optimizer_create_adamw(strategy, &options, &optimizer));
  }
  if (asked.clips) {
    umbo_optimizer_options settings = UMBO_OPTIMIZER_OPTIONS_INIT;
    settings.global_clip_norm = CLIP_NORM;
    UMBO_CHECK(umbo_optimizer_configure(optimizer, &settings));
  }
}

static void prepare_ours(void) {
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  umbo_gradients_options sums = UMBO_GRADIENTS_OPTIONS_INIT;
  options.cpu_replicas = asked.replicas;
  UMBO_CHECK(umbo_strategy_create(&options, &strategy));
  create_variable();
  if (asked.are_bfloat16) sums.dtype = UMBO_DTYPE_BFLOAT16;
  umbo_variable *variables[1] = {variable};
  UMBO_CHECK(umbo_gradients_create(strategy, 1, variables, UMBO_LOSS_MEAN, &sums, &gradients));
  create_optimizer();
}

/* By hand. */

static hand_update hand;
static const void *hand_gradients[MOST_REPLICAS];
static double power1 = 1.0, power2 = 1.0;

static void prepare_by_hand(void) {
  for (int replica = 0; replica < asked.replicas; ++replica) {
    float *gradient = floats(asked.count);
    fill_gradient(gradient, (uint64_t)replica);
    hand_gradients[replica] = gradient;
  }
  hand.rule = asked.rule;
  hand.weights = floats(asked.count);
  fill_random(hand.weights, asked.count, WEIGHTS_SEED);
  for (int slot = 0; slot < 2; ++slot) {
    hand.state[slot] = floats(asked.count);
    memset(hand.state[slot], 0, (size_t)asked.count * sizeof(float));
  }
  hand.gradients = hand_gradients;
  hand.replicas = asked.replicas;
  hand.are_bfloat16 = asked.are_bfloat16;
  hand.momentum = (float)MOMENTUM;
  hand.beta1 = (float)BETA1;
  hand.beta2 = (float)BETA2;
  hand.epsilon = (float)EPSILON;
  hand.kept = (float)(1.0 - LEARNING_RATE * WEIGHT_DECAY);
}

static void update_by_hand(void) {
  enum { BLOCK = 4096 };
  const int64_t blocks = asked.count / BLOCK;
  power1 *= BETA1;
  power2 *= BETA2;
  hand.rate = (float)(asked.rule == HAND_ADAMW ? LEARNING_RATE / (1.0 - power1) : LEARNING_RATE);
  hand.correction = (float)(1.0 / sqrt(1.0 - power2));
  hand.scale = 1.0f / (float)asked.replicas;
  if (asked.clips) {
    double squares = 0.0;
#pragma omp parallel for schedule(static) reduction(+ : squares)
    for (int64_t i = 0; i < blocks; ++i) {
      squares += hand_squares(asked.instructions, &hand, (size_t)i * BLOCK, (size_t)(i + 1) * BLOCK);
    }
    const double norm = sqrt(squares);
    if (norm > CLIP_NORM) hand.scale *= (float)(CLIP_NORM / norm);
  }
#pragma omp parallel for schedule(static)
  for (int64_t i = 0; i < blocks; ++i) {
    hand_step(asked.instructions, &hand, (size_t)i * BLOCK, (size_t)(i + 1) * BLOCK);
  }
}

/* Alternately. */

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static double one_call(int ours) {
  if (ours) UMBO_CHECK(umbo_strategy_run(strategy, submit, NULL, NULL, NULL, NULL));
  const double start = now();
  if (ours) {
    UMBO_CHECK(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
  } else {
    update_by_hand();
  }
  return now() - start;
}

/* The threads of the side before have come to rest when a turn begins. */
static double turn(int ours) {
  const struct timespec pause = {0, PAUSE};
  double seconds[CALLS];
  nanosleep(&pause, NULL);
  one_call(ours);
  for (int i = 0; i < CALLS; ++i) seconds[i] = one_call(ours);
  qsort(seconds, CALLS, sizeof(double), by_size);
  return seconds[CALLS / 2] * 1e6;
}

/* Both have done the same. */
static void compare(void) {
  umbo_tensor *weights = NULL;
  umbo_view view;
  UMBO_CHECK(umbo_variable_read(variable, &weights));
  UMBO_CHECK(umbo_tensor_view(weights, &view));
  const float *ours = view.data;
  for (int64_t i = 0; i < asked.count; ++i) {
    if (!(fabsf(ours[i] - hand.weights[i]) <= 1e-4f)) {
      give_up("weight %lld is %.9g, by hand %.9g", (long long)i, (double)ours[i], (double)hand.weights[i]);
    }
  }
  umbo_tensor_release(weights);
}

int main(int argc, char **argv) {
  static const char *const rules[] = {"sgd", "momentum", "adamw"};
  if (argc != 8) give_up("usage: loops RULE ELEMENTS REPLICAS float32|bfloat16 clip|free BEST ROUNDS");
  while (asked.rule < 3 && strcmp(rules[asked.rule], argv[1]) != 0) ++asked.rule;
  asked.count = atoll(argv[2]);
  asked.replicas = atoi(argv[3]);
  asked.are_bfloat16 = strcmp(argv[4], "bfloat16") == 0;
  asked.clips = strcmp(argv[5], "clip") == 0;
  asked.instructions = atoi(argv[6]) ? hand_best() : HAND_PLAIN;
  const int rounds = atoi(argv[7]);
  if (asked.rule == 3 || asked.count < 4096 || asked.count % 4096 != 0 || asked.replicas < 1 ||
      asked.replicas > MOST_REPLICAS) {
    give_up("no such rule, elements that are not a multiple of 4096, or more than 16 replicas");
  }
  prepare_ours();
  prepare_by_hand();
  for (int round = 0; round < rounds; ++round) {
    double us[2];
    for (int side = 0; side < 2; ++side) {
      const int ours = (round + side) % 2;
      us[ours] = turn(ours);
    }
    if (round == 0) compare();
    printf("{\"ours\": %.3f, \"theirs\": %.3f}\n", us[1], us[0]);
  }
  umbo_optimizer_release(optimizer);
  umbo_gradients_release(gradients);
  umbo_variable_release(variable);
  umbo_strategy_release(strategy);
  return 0;
}

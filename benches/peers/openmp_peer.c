/* What an engineer writes without a library: one loop over all elements, shared among the processors by OpenMP. */
#include <math.h>
#include <stdio.h>

#include "numbers.h"
#include "turns.h"

enum { REPLICAS = 4, WEIGHTS_SEED = 100 };

static int64_t count;
static float *gradients[REPLICAS];
static float *sum;
static float *weights, *moments1, *moments2;
static double power1 = 1.0, power2 = 1.0;

static void prepare_gradients(void) {
  if (count > 0) return;
  count = element_count();
  for (int replica = 0; replica < REPLICAS; ++replica) {
    gradients[replica] = floats(count);
    fill_random(gradients[replica], count, (uint64_t)replica);
  }
}

static void prepare_sum(void *data) {
  (void)data;
  prepare_gradients();
  sum = floats(count);
}

static void add_up(void *data) {
  (void)data;
  const float *restrict a = gradients[0], *restrict b = gradients[1];
  const float *restrict c = gradients[2], *restrict d = gradients[3];
  float *restrict to = sum;
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) to[i] = ((a[i] + b[i]) + c[i]) + d[i];
}

static void check_sums(void *data) {
  (void)data;
  check_sum(count, REPLICAS, gradients, sum);
}

static void prepare_weights(void *data) {
  (void)data;
  prepare_gradients();
  weights = floats(count);
  moments1 = floats(count);
  moments2 = floats(count);
  fill_random(weights, count, WEIGHTS_SEED);
  for (int64_t i = 0; i < count; ++i) moments1[i] = moments2[i] = 0.0f;
}

static void step(void *data) {
  (void)data;
  power1 *= BETA1;
  power2 *= BETA2;
  const float rate = (float)(LEARNING_RATE / (1.0 - power1)), correction = (float)(1.0 / sqrt(1.0 - power2));
  const float keep = (float)(1.0 - LEARNING_RATE * WEIGHT_DECAY), epsilon = (float)EPSILON;
  const float beta1 = (float)BETA1, rest1 = (float)(1.0 - BETA1), beta2 = (float)BETA2, rest2 = (float)(1.0 - BETA2);
  const float *restrict a = gradients[0], *restrict b = gradients[1];
  const float *restrict c = gradients[2], *restrict d = gradients[3];
  float *restrict w = weights, *restrict m = moments1, *restrict v = moments2;
#pragma omp parallel for simd schedule(static)
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = ((a[i] + b[i]) + c[i]) + d[i];
    m[i] = beta1 * m[i] + rest1 * gradient;
    v[i] = beta2 * v[i] + rest2 * gradient * gradient;
    w[i] = keep * w[i] - rate * m[i] / (sqrtf(v[i]) * correction + epsilon);
  }
}

static void check_weights(void *data) {
  (void)data;
  check_first_step(count, REPLICAS, gradients, WEIGHTS_SEED, WEIGHT_DECAY, weights);
}

int main(void) {
  const workload workloads[] = {
      {.name = "reduce", .calls = 3, .prepare = prepare_sum, .call = add_up, .check = check_sums},
      {.name = "adamw", .calls = 3, .prepare = prepare_weights, .call = step, .check = check_weights},
  };
  char version[64];
  snprintf(version, sizeof(version), "OpenMP %d by gcc %d.%d", _OPENMP, __GNUC__, __GNUC_MINOR__);
  take_turns(version, workloads, 2);
  return 0;
}

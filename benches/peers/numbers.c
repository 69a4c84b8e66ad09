#define _DEFAULT_SOURCE

#include "numbers.h"

#include <math.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "turns.h"

enum { LARGE_PAGE = 2 << 20 };

int64_t element_count(void) {
  const char *text = getenv("PEER_ELEMENTS");
  const long long count = text == NULL ? 0 : atoll(text);
  if (count <= 0) give_up("PEER_ELEMENTS is not set");
  return count;
}

float *floats(int64_t count) {
  const size_t pages = ((size_t)count * sizeof(float) + LARGE_PAGE - 1) / LARGE_PAGE;
  void *memory = aligned_alloc(LARGE_PAGE, pages * LARGE_PAGE);
  if (memory == NULL) give_up("no memory");
  madvise(memory, pages * LARGE_PAGE, MADV_HUGEPAGE); /* a hint */
  return memory;
}

/* SplitMix64 (Steele, Lea and Flood, 2014), the number with a given index. */
static float random_number(uint64_t seed, int64_t index) {
  uint64_t z = seed * UINT64_C(0xd1342543de82ef95) + (uint64_t)(index + 1) * UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
  return 0.5f + (float)((z ^ (z >> 31)) >> 40) * 0x1p-24f;
}

void fill_random(float *values, int64_t count, uint64_t seed) {
  for (int64_t i = 0; i < count; ++i) values[i] = random_number(seed, i);
}

static double sum_of(int replicas, float *const *gradients, int64_t index) {
  double sum = 0.0;
  for (int replica = 0; replica < replicas; ++replica) sum += gradients[replica][index];
  return sum;
}

void check_sum(int64_t count, int replicas, float *const *gradients, const float *sum) {
  for (int64_t i = 0; i < count; ++i) {
    const double right = sum_of(replicas, gradients, i);
    if (!(fabs(sum[i] - right) <= 4e-7 * right)) give_up("element %lld is %.9g, not %.9g", (long long)i, sum[i], right);
  }
}

void check_first_step(int64_t count, int replicas, float *const *gradients, uint64_t seed, double weight_decay,
                      const float *weights) {
  for (int64_t i = 0; i < count; ++i) {
    /* In the first step the corrected moments are the gradient and its square. */
    const double gradient = sum_of(replicas, gradients, i);
    const double decayed = random_number(seed, i) * (1.0 - LEARNING_RATE * weight_decay);
    const double right = decayed - LEARNING_RATE * gradient / (fabs(gradient) + EPSILON);
    if (!(fabs(weights[i] - right) <= 5e-7)) give_up("weight %lld is %.9g, not %.9g", (long long)i, weights[i], right);
  }
}

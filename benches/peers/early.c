/* What an update gains that begins while the backward pass still runs, for early.py: a layer is updated as soon as both
 * replicas have its gradient, which lies in the cache then.
 *
 *   early MEBI KIBI ROWS ROUNDS
 *
 * MEBI: 2^20 weights, in layers of KIBI times 2^10. ROWS: examples of a replica; a pass over a layer does the arithmetic
 * that they need in a linear layer, in registers. Prints for each round the microseconds of a step with its update as a
 * line of JSON: with AdamW's update `after` the backward pass, `early` in place, and `kept`, early into new arrays, so that
 * a step that fails has changed nothing. */
#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "numbers.h"
#include "turns.h"

#ifdef __AVX__
#include <immintrin.h>
#endif

enum {
  REPLICAS = 2,
  ARRAYS = 3,  /* weights and two moments */
  PIECE = 256, /* floats that an update computes at a time */
  BLOCK = 64   /* floats that a pass computes at a time: enough chains of additions to keep all units busy */
};
typedef enum { AFTER, EARLY, KEPT, WAYS } way;

static struct {
  size_t count, layer;
  int rows;
} asked;

static float *state[ARRAYS], *fresh[ARRAYS], *gradients[REPLICAS];
static atomic_int arrived, passed;

/* Both replicas have come here. */
static void meet(void) {
  const int before = atomic_load(&passed);
  if (atomic_fetch_add(&arrived, 1) + 1 == REPLICAS) {
    atomic_store(&arrived, 0);
    atomic_fetch_add(&passed, 1);
    return;
  }
  while (atomic_load(&passed) == before) {
#ifdef __AVX__
    _mm_pause();
#endif
  }
}

/* What is written and not read soon goes past the caches. */
static void store_past(float *to, const float *values, size_t count) {
#ifdef __AVX__
  for (size_t i = 0; i < count; i += 8) _mm256_stream_ps(to + i, _mm256_loadu_ps(values + i));
#else
  memcpy(to, values, count * sizeof(float));
#endif
}

/* AdamW's step for a piece, into arrays that lie in the nearest cache. */
static void piece(const float *restrict w, const float *restrict m, const float *restrict v, const float *restrict g0,
                  const float *restrict g1, float moved[ARRAYS][PIECE]) {
  for (size_t k = 0; k < PIECE; ++k) {
    const float g = 0.5f * (g0[k] + g1[k]), first = 0.9f * m[k] + 0.1f * g, second = 0.999f * v[k] + 0.001f * g * g;
    moved[0][k] = 0.99999f * w[k] - 1e-3f * first / (sqrtf(second) + 1e-8f);
    moved[1][k] = first;
    moved[2][k] = second;
  }
}

static void adamw(size_t from, size_t to, float *const *into, int past) {
  for (size_t i = from; i < to; i += PIECE) {
    float moved[ARRAYS][PIECE];
    piece(state[0] + i, state[1] + i, state[2] + i, gradients[0] + i, gradients[1] + i, moved);
    for (int array = 0; array < ARRAYS; ++array) {
      if (past) {
        store_past(into[array] + i, moved[array], PIECE);
      } else {
        memcpy(into[array] + i, moved[array], sizeof(moved[array]));
      }
    }
  }
}

/* A replica updates its half of a layer. */
static void update(way chosen, size_t begin, int replica) {
  const size_t half = asked.layer / 2, from = begin + (size_t)replica * half;
  adamw(from, from + half, chosen == KEPT ? fresh : state, chosen == KEPT);
}

/* The arithmetic of `products` multiplications with each weight: its value, so that none is left out. */
static void pass(const float *weights, float *to, int products) {
  float at[BLOCK];
  memcpy(at, weights, sizeof(at));
  for (int product = 0; product < products; ++product) {
    for (size_t k = 0; k < BLOCK; ++k) at[k] = at[k] * 0.999f + 1e-4f;
  }
  memcpy(to, at, sizeof(at));
}

typedef struct {
  way chosen;
  int replica;
  float seen;
} replica_step;

static void *step(void *data) {
  replica_step *own = data;
  const float *weights = state[0];
  float *gradient = gradients[own->replica];
  for (size_t i = 0; i < asked.count; i += BLOCK) {
    float out[BLOCK];
    pass(weights + i, out, asked.rows);
    own->seen += out[0];
  }
  for (size_t begin = asked.count; begin > 0;) {
    begin -= asked.layer;
    for (size_t i = begin; i < begin + asked.layer; i += BLOCK) pass(weights + i, gradient + i, 2 * asked.rows);
    if (own->chosen == AFTER) continue;
    meet();
    update(own->chosen, begin, own->replica);
  }
  meet();
  for (size_t begin = 0; own->chosen == AFTER && begin < asked.count; begin += asked.layer) {
    update(AFTER, begin, own->replica);
  }
  return NULL;
}

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec * 1e-3;
}

static double timed(way chosen) {
  replica_step steps[REPLICAS] = {{chosen, 0, 0.0f}, {chosen, 1, 0.0f}};
  pthread_t other;
  const double start = now();
  if (pthread_create(&other, NULL, step, &steps[1]) != 0) give_up("no thread could be started");
  step(&steps[0]);
  pthread_join(other, NULL);
  for (int array = 0; chosen == KEPT && array < ARRAYS; ++array) {
    float *const old = state[array];
    state[array] = fresh[array];
    fresh[array] = old;
  }
  return now() - start;
}

/* The three ways lead to the same weights. */
static void compare(void) {
  float *const first = floats((int64_t)asked.count);
  for (way chosen = AFTER; chosen < WAYS; ++chosen) {
    for (int array = 0; array < ARRAYS; ++array) {
      fill_random(state[array], (int64_t)asked.count, (uint64_t)array);
      memset(fresh[array], 0, asked.count * sizeof(float));
    }
    timed(chosen);
    if (chosen == AFTER) memcpy(first, state[0], asked.count * sizeof(float));
    if (memcmp(first, state[0], asked.count * sizeof(float)) != 0) give_up("way %d leads to other weights", chosen);
  }
}

int main(int argc, char **argv) {
  if (argc != 5) give_up("usage: early MEBI KIBI ROWS ROUNDS");
  asked.count = (size_t)atoll(argv[1]) << 20;
  asked.layer = (size_t)atoll(argv[2]) << 10;
  asked.rows = atoi(argv[3]);
  if (asked.layer == 0 || asked.count % asked.layer != 0 || asked.rows < 1) give_up("layers must fill the weights");
  for (int array = 0; array < ARRAYS; ++array) {
    state[array] = floats((int64_t)asked.count);
    fresh[array] = floats((int64_t)asked.count);
  }
  for (int replica = 0; replica < REPLICAS; ++replica) {
    gradients[replica] = floats((int64_t)asked.count);
    memset(gradients[replica], 0, asked.count * sizeof(float));
  }
  compare();
  for (int round = 0; round < atoi(argv[4]); ++round) {
    double us[WAYS];
    for (int turn = 0; turn < WAYS; ++turn) {
      const way chosen = (way)((round + turn) % WAYS);
      us[chosen] = timed(chosen);
    }
    printf("{\"after\": %.1f, \"early\": %.1f, \"kept\": %.1f}\n", us[AFTER], us[EARLY], us[KEPT]);
  }
  return 0;
}

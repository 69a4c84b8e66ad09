#include "hand_written.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__)
#define HAS_VECTORS 1
#include <immintrin.h>
#else
#define HAS_VECTORS 0
#endif

static float widened(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof(value));
  return value;
}

static float plain_gradient(const hand_update *u, size_t i) {
  float sum = 0.0f;
  for (int r = 0; r < u->replicas; ++r) {
    sum += u->are_bfloat16 ? widened(((const uint16_t *)u->gradients[r])[i]) : ((const float *)u->gradients[r])[i];
  }
  return sum * u->scale;
}

static void plain_step(const hand_update *u, size_t begin, size_t end) {
  float *w = u->weights, *a = u->state[0], *b = u->state[1];
  for (size_t i = begin; i < end; ++i) {
    const float g = plain_gradient(u, i);
    if (u->rule == HAND_SGD) {
      w[i] -= u->rate * g;
    } else if (u->rule == HAND_MOMENTUM) {
      a[i] = u->momentum * a[i] + g;
      w[i] -= u->rate * a[i];
    } else {
      a[i] = u->beta1 * a[i] + (1.0f - u->beta1) * g;
      b[i] = u->beta2 * b[i] + (1.0f - u->beta2) * g * g;
      w[i] = u->kept * w[i] - u->rate * a[i] / (sqrtf(b[i]) * u->correction + u->epsilon);
    }
  }
}

static double plain_squares(const hand_update *u, size_t begin, size_t end) {
  double sum = 0.0;
  for (size_t i = begin; i < end; ++i) {
    const float g = plain_gradient(u, i);
    sum += (double)g * g;
  }
  return sum;
}

#if HAS_VECTORS
/* The same loops for two widths: V(load) is the intrinsic, AT the number of floats. */
#define LOOPS(NAME, TARGET, VECTOR, AT, V, BFLOAT16)                                                                   \
  __attribute__((target(TARGET))) static inline VECTOR NAME##_gradient(const hand_update *u, size_t i) {               \
    VECTOR sum;                                                                                                        \
    if (u->are_bfloat16) {                                                                                             \
      const uint16_t *const *from = (const uint16_t *const *)u->gradients;                                             \
      sum = BFLOAT16(from[0] + i);                                                                                     \
      for (int r = 1; r < u->replicas; ++r) sum = V(add_ps)(sum, BFLOAT16(from[r] + i));                               \
    } else {                                                                                                           \
      const float *const *from = (const float *const *)u->gradients;                                                   \
      sum = V(load_ps)(from[0] + i);                                                                                   \
      for (int r = 1; r < u->replicas; ++r) sum = V(add_ps)(sum, V(load_ps)(from[r] + i));                             \
    }                                                                                                                  \
    return V(mul_ps)(sum, V(set1_ps)(u->scale));                                                                       \
  }                                                                                                                    \
  __attribute__((target(TARGET))) static void NAME##_step(const hand_update *u, size_t begin, size_t end) {            \
    float *w = u->weights, *a = u->state[0], *b = u->state[1];                                                         \
    const VECTOR rate = V(set1_ps)(u->rate), momentum = V(set1_ps)(u->momentum), kept = V(set1_ps)(u->kept);           \
    const VECTOR beta1 = V(set1_ps)(u->beta1), rest1 = V(set1_ps)(1.0f - u->beta1);                                    \
    const VECTOR beta2 = V(set1_ps)(u->beta2), rest2 = V(set1_ps)(1.0f - u->beta2);                                    \
    const VECTOR correction = V(set1_ps)(u->correction), epsilon = V(set1_ps)(u->epsilon);                             \
    if (u->rule == HAND_SGD) {                                                                                         \
      for (size_t i = begin; i < end; i += AT) {                                                                       \
        V(store_ps)(w + i, V(fnmadd_ps)(rate, NAME##_gradient(u, i), V(load_ps)(w + i)));                              \
      }                                                                                                                \
    } else if (u->rule == HAND_MOMENTUM) {                                                                             \
      for (size_t i = begin; i < end; i += AT) {                                                                       \
        const VECTOR sum = V(fmadd_ps)(momentum, V(load_ps)(a + i), NAME##_gradient(u, i));                            \
        V(store_ps)(a + i, sum);                                                                                       \
        V(store_ps)(w + i, V(fnmadd_ps)(rate, sum, V(load_ps)(w + i)));                                                \
      }                                                                                                                \
    } else {                                                                                                           \
      for (size_t i = begin; i < end; i += AT) {                                                                       \
        const VECTOR g = NAME##_gradient(u, i);                                                                        \
        const VECTOR m = V(fmadd_ps)(beta1, V(load_ps)(a + i), V(mul_ps)(rest1, g));                                   \
        const VECTOR v = V(fmadd_ps)(beta2, V(load_ps)(b + i), V(mul_ps)(rest2, V(mul_ps)(g, g)));                     \
        const VECTOR root = V(fmadd_ps)(V(sqrt_ps)(v), correction, epsilon);                                           \
        const VECTOR step = V(div_ps)(V(mul_ps)(rate, m), root);                                                       \
        V(store_ps)(a + i, m);                                                                                         \
        V(store_ps)(b + i, v);                                                                                         \
        V(store_ps)(w + i, V(fmsub_ps)(kept, V(load_ps)(w + i), step));                                                \
      }                                                                                                                \
    }                                                                                                                  \
  }                                                                                                                    \
  __attribute__((target(TARGET))) static double NAME##_squares(const hand_update *u, size_t begin, size_t end) {       \
    double total = 0.0;                                                                                                \
    /* Float32 holds the squares of so many elements well enough. */                                                   \
    for (size_t i = begin; i < end;) {                                                                                 \
      const size_t stop = end - i < 4096 ? end : i + 4096;                                                             \
      VECTOR sum = V(setzero_ps)();                                                                                    \
      for (; i < stop; i += AT) {                                                                                      \
        const VECTOR g = NAME##_gradient(u, i);                                                                        \
        sum = V(fmadd_ps)(g, g, sum);                                                                                  \
      }                                                                                                                \
      float lanes[AT];                                                                                                 \
      V(storeu_ps)(lanes, sum);                                                                                        \
      for (int lane = 0; lane < AT; ++lane) total += (double)lanes[lane];                                              \
    }                                                                                                                  \
    return total;                                                                                                      \
  }

#define OF_512(operation) _mm512_##operation
#define BFLOAT16_512(from) \
  _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm256_load_si256((const __m256i *)(from))), 16))
LOOPS(avx512, "avx512f,avx512dq,avx512bw,avx512vl", __m512, 16, OF_512, BFLOAT16_512)
#define OF_256(operation) _mm256_##operation
#define BFLOAT16_256(from) \
  _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_load_si128((const __m128i *)(from))), 16))
LOOPS(avx2, "avx2,fma", __m256, 8, OF_256, BFLOAT16_256)
#endif

int hand_best(void) {
#if HAS_VECTORS
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl")) {
    return HAND_AVX512;
  }
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return HAND_AVX2;
#endif
  return HAND_PLAIN;
}

void hand_step(int instructions, const hand_update *update, size_t begin, size_t end) {
#if HAS_VECTORS
  if (instructions == HAND_AVX512) {
    avx512_step(update, begin, end);
    return;
  }
  if (instructions == HAND_AVX2) {
    avx2_step(update, begin, end);
    return;
  }
#endif
  (void)instructions;
  plain_step(update, begin, end);
}

double hand_squares(int instructions, const hand_update *update, size_t begin, size_t end) {
#if HAS_VECTORS
  if (instructions == HAND_AVX512) return avx512_squares(update, begin, end);
  if (instructions == HAND_AVX2) return avx2_squares(update, begin, end);
#endif
  (void)instructions;
  return plain_squares(update, begin, end);
}

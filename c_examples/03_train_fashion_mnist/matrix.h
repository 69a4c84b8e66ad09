/* Single-precision matrix products, row-major and contiguous: OpenBLAS where the build found it, plain C otherwise. */
#ifndef MATRIX_H
#define MATRIX_H

#include <stdint.h>

/* c[m, n] = a[m, k] b[k, n] */
void matrix_multiply(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);

/* c[m, n] = transpose(a[k, m]) b[k, n] */
void matrix_multiply_transposed_a(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);

/* c[m, n] = a[m, k] transpose(b[n, k]) */
void matrix_multiply_transposed_b(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c);

/* "OpenBLAS's Haswell kernels", or what they are, or "plain C". Not for several threads at a time. */
const char *matrix_library(void);

/* How many threads one product may use; returns the number in force, which is always 1 in plain C. */
int matrix_set_threads(int count);

/* The most threads that are of use: the processors of this machine, or 1 in plain C. */
int matrix_most_threads(void);

#endif

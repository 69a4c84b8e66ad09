#include "matrix.h"

#ifdef EXAMPLES_USE_OPENBLAS

#include <cblas.h>
#include <stdio.h>

static void multiply(CBLAS_TRANSPOSE transpose_a, CBLAS_TRANSPOSE transpose_b, int64_t m, int64_t n, int64_t k,
                     const float *a, const float *b, float *c) {
  const int64_t a_columns = transpose_a == CblasTrans ? m : k;
  const int64_t b_columns = transpose_b == CblasTrans ? k : n;
  cblas_sgemm(CblasRowMajor, transpose_a, transpose_b, (blasint)m, (blasint)n, (blasint)k, 1.0f, a, (blasint)a_columns,
              b, (blasint)b_columns, 0.0f, c, (blasint)n);
}

void matrix_multiply(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  multiply(CblasNoTrans, CblasNoTrans, m, n, k, a, b, c);
}

void matrix_multiply_transposed_a(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  multiply(CblasTrans, CblasNoTrans, m, n, k, a, b, c);
}

void matrix_multiply_transposed_b(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  multiply(CblasNoTrans, CblasTrans, m, n, k, a, b, c);
}

const char *matrix_library(void) {
  static char text[80];
  snprintf(text, sizeof(text), "OpenBLAS's %.40s kernels", openblas_get_corename());
  return text;
}

int matrix_set_threads(int count) {
  openblas_set_num_threads(count);
  return openblas_get_num_threads();
}

int matrix_most_threads(void) { return openblas_get_num_procs(); }

#else

/* A tile of the product that the compiler keeps in vector registers, and how deep a packed panel of b is. */
enum { TILE_ROWS = 4, TILE_COLUMNS = 32, PANEL_DEPTH = 256 };

/* A matrix that is read with a step between rows and a step between columns: a transpose only swaps the two. */
typedef struct {
  const float *data;
  int64_t row_step;
  int64_t column_step;
} strided;

static int64_t at_most(int64_t value, int64_t limit) { return value < limit ? value : limit; }

/* Copies depth rows of TILE_COLUMNS columns of b next to each other; columns past the edge become zeros. */
static void pack(float panel[PANEL_DEPTH][TILE_COLUMNS], strided b, int64_t depth, int64_t columns) {
  for (int64_t p = 0; p < depth; ++p) {
    const float *row = b.data + p * b.row_step;
    for (int64_t j = 0; j < columns; ++j) panel[p][j] = row[j * b.column_step];
    for (int64_t j = columns; j < TILE_COLUMNS; ++j) panel[p][j] = 0.0f;
  }
}

/* Adds a full tile's products over the depth of the panel to sum. */
static void multiply_tile(float sum[TILE_ROWS][TILE_COLUMNS], strided a, const float panel[PANEL_DEPTH][TILE_COLUMNS],
                          int64_t depth) {
  for (int64_t p = 0; p < depth; ++p) {
    const float *column = a.data + p * a.column_step;
    for (int i = 0; i < TILE_ROWS; ++i) {
      const float factor = column[i * a.row_step];
      for (int j = 0; j < TILE_COLUMNS; ++j) sum[i][j] += factor * panel[p][j];
    }
  }
}

/* The same for the last rows of a matrix, one at a time. */
static void multiply_row(float sum[TILE_COLUMNS], const float *row, int64_t column_step,
                         const float panel[PANEL_DEPTH][TILE_COLUMNS], int64_t depth) {
  for (int64_t p = 0; p < depth; ++p) {
    const float factor = row[p * column_step];
    for (int j = 0; j < TILE_COLUMNS; ++j) sum[j] += factor * panel[p][j];
  }
}

static void store(float *c, const float sum[TILE_COLUMNS], int64_t columns, int first) {
  for (int64_t j = 0; j < columns; ++j) c[j] = first ? sum[j] : c[j] + sum[j];
}

static void multiply(int64_t m, int64_t n, int64_t k, strided a, strided b, float *c) {
  float panel[PANEL_DEPTH][TILE_COLUMNS];
  for (int64_t j = 0; j < n; j += TILE_COLUMNS) {
    const int64_t columns = at_most(n - j, TILE_COLUMNS);
    for (int64_t p = 0; p < k; p += PANEL_DEPTH) {
      const int64_t depth = at_most(k - p, PANEL_DEPTH);
      pack(panel, (strided){b.data + p * b.row_step + j * b.column_step, b.row_step, b.column_step}, depth, columns);
      int64_t i = 0;
      for (; i + TILE_ROWS <= m; i += TILE_ROWS) {
        float sum[TILE_ROWS][TILE_COLUMNS] = {{0.0f}};
        multiply_tile(sum, (strided){a.data + i * a.row_step + p * a.column_step, a.row_step, a.column_step},
                      (const float(*)[TILE_COLUMNS])panel, depth);
        for (int row = 0; row < TILE_ROWS; ++row) store(c + (i + row) * n + j, sum[row], columns, p == 0);
      }
      for (; i < m; ++i) {
        float sum[TILE_COLUMNS] = {0.0f};
        multiply_row(sum, a.data + i * a.row_step + p * a.column_step, a.column_step,
                     (const float(*)[TILE_COLUMNS])panel, depth);
        store(c + i * n + j, sum, columns, p == 0);
      }
    }
  }
}

void matrix_multiply(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  multiply(m, n, k, (strided){a, k, 1}, (strided){b, n, 1}, c);
}

void matrix_multiply_transposed_a(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  multiply(m, n, k, (strided){a, 1, m}, (strided){b, n, 1}, c);
}

void matrix_multiply_transposed_b(int64_t m, int64_t n, int64_t k, const float *a, const float *b, float *c) {
  multiply(m, n, k, (strided){a, k, 1}, (strided){b, 1, k}, c);
}

const char *matrix_library(void) { return "plain C"; }

int matrix_set_threads(int count) {
  (void)count;
  return 1;
}

int matrix_most_threads(void) { return 1; }

#endif

/* The network of mlp.h on a GPU: the same layers and the same order of work, queued. */
#ifndef GPU_MLP_H
#define GPU_MLP_H

#include "gpu.h"
#include "mlp.h"

/* This replica's part of a batch. Everything is on the GPU. */
typedef struct {
  int64_t rows;
  const uint8_t *pixels; /* rows x sizes[0] */
  const uint8_t *labels;
  float scale, shift; /* an input is its pixel * scale + shift */
  void *workspace;
  double *totals; /* {loss, right ones, examples}: those of these rows are added */
} gpu_part;

/* How much memory the functions below need for so many rows. */
size_t gpu_mlp_workspace_bytes(const mlp_shape *shape, int64_t rows);

/* Queues a forward pass, and, where gradients is not NULL, a backward pass: every gradient is overwritten with the sum over
 * the rows. Returns before any of it is done. */
umbo_status gpu_mlp_queue(const gpu *g, const mlp_shape *shape, const mlp_parameters *parameters, const gpu_part *part,
                          const mlp_gradients *gradients);

#endif

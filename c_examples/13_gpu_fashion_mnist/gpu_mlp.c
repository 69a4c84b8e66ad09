#include "gpu_mlp.h"

enum {
  SCORES = 3,    /* of a row: its loss, whether it is right, 1 */
  ALIGNMENT = 64 /* floats: where a matrix may begin, so that cuBLAS can load several numbers at once */
};

/* Where things lie in the workspace. */
typedef struct {
  float *activations[MLP_MOST_LAYERS + 1]; /* the inputs first */
  float *gradient, *gradient_below;        /* of the widest layer */
  float *scores, *ones, *sums;
} layout;

static float *take(float *memory, int64_t *used, int64_t count) {
  float *const here = memory == NULL ? NULL : memory + *used;
  *used += (count + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  return here;
}

/* Returns how many floats are used; without memory that is all it does. */
static int64_t lay_out(const mlp_shape *shape, int64_t rows, float *memory, layout *at) {
  int64_t used = 0, widest = 0;
  for (int layer = 0; layer <= shape->layers; ++layer) {
    at->activations[layer] = take(memory, &used, rows * shape->sizes[layer]);
    if (layer > 0 && shape->sizes[layer] > widest) widest = shape->sizes[layer];
  }
  at->gradient = take(memory, &used, rows * widest);
  at->gradient_below = take(memory, &used, rows * widest);
  at->scores = take(memory, &used, rows * SCORES);
  at->ones = take(memory, &used, rows);
  at->sums = take(memory, &used, SCORES);
  return used;
}

size_t gpu_mlp_workspace_bytes(const mlp_shape *shape, int64_t rows) {
  layout nowhere;
  return (size_t)lay_out(shape, rows, NULL, &nowhere) * sizeof(float);
}

static umbo_status normalize(const gpu *g, const mlp_shape *shape, const gpu_part *part, float *inputs) {
  long long count = part->rows * shape->sizes[0];
  const uint8_t *pixels = part->pixels;
  float scale = part->scale, shift = part->shift;
  void *arguments[] = {&pixels, &scale, &shift, &count, &inputs};
  return gpu_launch(g, GPU_NORMALIZE, count, arguments);
}

static umbo_status forward(const gpu *g, const mlp_shape *shape, const mlp_parameters *parameters, int64_t rows,
                           float *const *activations) {
  for (int layer = 0; layer < shape->layers; ++layer) {
    const int64_t in = shape->sizes[layer], out = shape->sizes[layer + 1];
    const int kernel = layer + 1 < shape->layers ? GPU_ADD_BIAS_AND_RECTIFY : GPU_ADD_BIAS;
    const float *bias = parameters->biases[layer];
    float *values = activations[layer + 1];
    long long columns = out, count = rows * out;
    void *arguments[] = {&bias, &columns, &count, &values};
    UMBO_TRY(gpu_multiply(g, rows, out, in, activations[layer], parameters->weights[layer], values));
    UMBO_TRY(gpu_launch(g, kernel, count, arguments));
  }
  return UMBO_OK;
}

/* The loss and what is right, added up on the GPU, so that no step waits for them. Sums over rows are products with ones:
 * cuBLAS adds them up by many threads. */
static umbo_status score(const gpu *g, const mlp_shape *shape, const gpu_part *part, const layout *at, float *gradient) {
  const float *logits = at->activations[shape->layers];
  const uint8_t *labels = part->labels;
  float *scores = at->scores, *ones = at->ones, *sums = at->sums;
  double *totals = part->totals;
  long long rows = part->rows, classes = shape->sizes[shape->layers], count = SCORES;
  void *of_rows[] = {&logits, &labels, &rows, &classes, &scores, &ones, &gradient};
  void *of_sums[] = {&sums, &count, &totals};
  UMBO_TRY(gpu_launch(g, GPU_SOFTMAX_CROSS_ENTROPY, rows, of_rows));
  UMBO_TRY(gpu_multiply(g, 1, SCORES, rows, ones, scores, sums));
  return gpu_launch(g, GPU_ACCUMULATE, count, of_sums);
}

static umbo_status backward(const gpu *g, const mlp_shape *shape, const mlp_parameters *parameters, int64_t rows,
                            const layout *at, const mlp_gradients *gradients) {
  float *gradient = at->gradient, *gradient_below = at->gradient_below;
  for (int layer = shape->layers - 1; layer >= 0; --layer) {
    const int64_t in = shape->sizes[layer], out = shape->sizes[layer + 1];
    const float *activations = at->activations[layer];
    UMBO_TRY(gpu_multiply_transposed_a(g, in, out, rows, activations, gradient, gradients->weights[layer]));
    UMBO_TRY(gpu_multiply(g, 1, out, rows, at->ones, gradient, gradients->biases[layer]));
    if (layer > 0) { /* nobody asks for the gradient of the inputs */
      long long count = rows * in;
      void *arguments[] = {&activations, &count, &gradient_below};
      UMBO_TRY(gpu_multiply_transposed_b(g, rows, in, out, gradient, parameters->weights[layer], gradient_below));
      UMBO_TRY(gpu_launch(g, GPU_MASK, count, arguments));
      float *const swap = gradient;
      gradient = gradient_below;
      gradient_below = swap;
    }
  }
  return UMBO_OK;
}

umbo_status gpu_mlp_queue(const gpu *g, const mlp_shape *shape, const mlp_parameters *parameters, const gpu_part *part,
                          const mlp_gradients *gradients) {
  layout at;
  lay_out(shape, part->rows, part->workspace, &at);
  UMBO_TRY(normalize(g, shape, part, at.activations[0]));
  UMBO_TRY(forward(g, shape, parameters, part->rows, at.activations));
  UMBO_TRY(score(g, shape, part, &at, gradients != NULL ? at.gradient : NULL));
  return gradients == NULL ? UMBO_OK : backward(g, shape, parameters, part->rows, &at, gradients);
}

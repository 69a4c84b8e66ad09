/* A multilayer perceptron with ReLU between its layers and softmax cross-entropy at its end.
 * It knows nothing of replicas: it is the training step a program has before it meets Umbo. */
#ifndef MLP_H
#define MLP_H

#include <stddef.h>
#include <stdint.h>

enum { MLP_MOST_LAYERS = 8 };

/* Layer i maps sizes[i] values to sizes[i + 1] values. */
typedef struct {
  int layers;
  int64_t sizes[MLP_MOST_LAYERS + 1];
} mlp_shape;

/* weights[i] is [sizes[i], sizes[i + 1]], biases[i] is [sizes[i + 1]], row-major. */
typedef struct {
  const float *weights[MLP_MOST_LAYERS];
  const float *biases[MLP_MOST_LAYERS];
} mlp_parameters;

typedef struct {
  float *weights[MLP_MOST_LAYERS];
  float *biases[MLP_MOST_LAYERS];
} mlp_gradients;

/* Sums over the rows, so that the parts of a batch can be added up. */
typedef struct {
  double loss;
  int64_t correct;
} mlp_score;

/* How many parameters the network has. */
int64_t mlp_parameter_count(const mlp_shape *shape);

/* He initialisation: uniform values with the variance 2 / sizes[layer]; the same seed gives the same weights. */
void mlp_initialize_weights(const mlp_shape *shape, int layer, uint64_t seed, float *weights);

/* How much memory mlp_evaluate and mlp_differentiate need for so many rows. */
size_t mlp_workspace_bytes(const mlp_shape *shape, int64_t rows);

/* Forward pass over inputs [rows, sizes[0]] and labels [rows]. */
mlp_score mlp_evaluate(const mlp_shape *shape, const mlp_parameters *parameters, int64_t rows, const float *inputs,
                       const uint8_t *labels, void *workspace);

/* Forward and backward pass; every gradient is overwritten with the sum over the rows. */
mlp_score mlp_differentiate(const mlp_shape *shape, const mlp_parameters *parameters, int64_t rows, const float *inputs,
                            const uint8_t *labels, void *workspace, const mlp_gradients *gradients);

#endif

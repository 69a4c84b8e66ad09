/* The update that an expert writes by hand for one processor: the gradients of all replicas are added in float32, and
 * weights and state are updated in the same loop, with fused multiply-adds. It promises no bits: the sums are those of
 * float32, and another processor gives others. */
#ifndef HAND_WRITTEN_H
#define HAND_WRITTEN_H

#include <stddef.h>

enum { HAND_SGD, HAND_MOMENTUM, HAND_ADAMW };
/* Vectors of 16 and of 8 floats, and what a compiler makes of plain C. */
enum { HAND_AVX512, HAND_AVX2, HAND_PLAIN };

typedef struct {
  int rule;
  float *weights;
  float *state[2]; /* of momentum one, of AdamW both */
  const void *const *gradients;
  int replicas;
  int are_bfloat16; /* the gradients; float otherwise */
  float scale;      /* of their sum */
  float rate;       /* of AdamW with the correction of the first moment */
  float momentum;
  float beta1, beta2, correction, epsilon, kept;
} hand_update;

/* The best that this processor has. */
int hand_best(void);

/* Updates the elements from `begin` to `end`, multiples of 16, of arrays that begin at multiples of 64 bytes. */
void hand_step(int instructions, const hand_update *update, size_t begin, size_t end);

/* The sum of the squares of the same elements of the gradient: the first pass of clipping by a norm, whose factor then
 * goes into the scale of the second. */
double hand_squares(int instructions, const hand_update *update, size_t begin, size_t end);

#endif

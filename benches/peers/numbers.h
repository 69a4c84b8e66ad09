/* The numbers that the programs in C work on, and whether what they make of them is right. */
#ifndef NUMBERS_H
#define NUMBERS_H

#include <stdint.h>

/* What all programs give to AdamW; to Adam all but the decay. */
#define LEARNING_RATE 1e-3
#define BETA1 0.9
#define BETA2 0.999
#define EPSILON 1e-8
#define WEIGHT_DECAY 0.01

/* The elements of one gradient: PEER_ELEMENTS of the environment. */
int64_t element_count(void);

/* Memory for as many floats, in large pages where the system has them. It lives as long as the program. */
float *floats(int64_t count);

/* Random numbers from 0.5 to 1.5, other ones for each seed. No gradient is near 0, where Adam's step depends on where
 * an implementation adds its epsilon. */
void fill_random(float *values, int64_t count, uint64_t seed);

/* Gives up where `sum` is not the sum of the gradients, worked out in double. */
void check_sum(int64_t count, int replicas, float *const *gradients, const float *sum);

/* Gives up where `weights` are not what one step of AdamW (of Adam, with a decay of 0) makes of random numbers of
 * `seed` and the sum of the gradients, worked out in double. */
void check_first_step(int64_t count, int replicas, float *const *gradients, uint64_t seed, double weight_decay,
                      const float *weights);

#endif

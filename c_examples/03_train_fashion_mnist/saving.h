/* The files from which a training is resumed. */
#ifndef SAVING_H
#define SAVING_H

#include "options.h"
#include "trainer.h"

/* How far the training is. */
typedef struct {
  int64_t steps;
  int64_t epoch;   /* counted from 1 */
  double examples; /* of the epochs before */
  tally total;     /* of this epoch */
} place;

typedef struct {
  umbo_checkpoint *checkpoint;
  umbo_checkpoint_manager *manager; /* NULL: nothing is saved */
} saving;

/* Names all that is saved. With --resume the trainer and the place become those of the newest checkpoint, if there is
 * one; several processes find the same, in a folder that they share. */
saving saving_begin(const trainer *t, const options *choices, const workers *together, place *where);

/* Saves if enough steps have passed, or if it must. Several processes do it together. */
void saving_step(const saving *s, const place *where, int must);

void saving_end(const saving *s);

#endif

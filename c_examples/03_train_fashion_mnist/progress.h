/* What the user sees while the program trains: a bar on a terminal, one line for each epoch elsewhere. */
#ifndef PROGRESS_H
#define PROGRESS_H

#include "trainer.h"

typedef struct {
  int silent;
  int on_terminal;
  int epochs;
  double examples_per_epoch;
  double last_drawn; /* in seconds of training */
} progress;

/* Seconds from some fixed point in time; never goes back. */
double progress_clock(void);

progress progress_begin(int silent, int epochs, int64_t examples_per_epoch);

/* Redraws the bar, ten times a second at most. seconds: spent on training so far, over all epochs. */
void progress_step(progress *p, int epoch, const tally *so_far, double seconds);

/* Replaces the bar by the result of the epoch. seconds: spent on training in this epoch. */
void progress_epoch(progress *p, int epoch, const tally *training, const tally *test, double seconds);

#endif

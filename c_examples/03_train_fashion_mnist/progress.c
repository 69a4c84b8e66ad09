#include "progress.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

enum { BAR_WIDTH = 16 };

double progress_clock(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

progress progress_begin(int silent, int epochs, int64_t examples_per_epoch) {
  return (progress){silent, isatty(STDOUT_FILENO), epochs, (double)examples_per_epoch, -1.0};
}

void progress_step(progress *p, int epoch, const tally *so_far, double seconds) {
  if (p->silent || !p->on_terminal || seconds - p->last_drawn < 0.1) return;
  p->last_drawn = seconds;
  const double done = (epoch - 1) * p->examples_per_epoch + so_far->examples;
  const double rate = done / seconds;
  const int left = (int)((p->epochs * p->examples_per_epoch - done) / rate + 0.5);
  const int filled = (int)(BAR_WIDTH * so_far->examples / p->examples_per_epoch);
  char bar[BAR_WIDTH + 1];
  for (int i = 0; i < BAR_WIDTH; ++i) bar[i] = i < filled ? '#' : '-';
  bar[BAR_WIDTH] = '\0';
  printf("\r\033[K%d/%d [%s] loss %.4f accuracy %.3f %.0f samples/s %d:%02d left", epoch, p->epochs, bar,
         so_far->loss / so_far->examples, so_far->correct / so_far->examples, rate, left / 60, left % 60);
  fflush(stdout);
}

void progress_epoch(progress *p, int epoch, const tally *training, const tally *test, double seconds) {
  if (p->silent) return;
  printf("%sepoch %d/%d: loss %.4f, accuracy %.4f, test accuracy %.4f, %.0f samples/s\n",
         p->on_terminal ? "\r\033[K" : "", epoch, p->epochs, training->loss / training->examples,
         training->correct / training->examples, test->correct / test->examples, training->examples / seconds);
  fflush(stdout);
}

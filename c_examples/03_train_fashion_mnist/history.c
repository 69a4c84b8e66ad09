#include "history.h"

#include <stdlib.h>

FILE *history_open(const char *name, int goes_on) {
  if (name == NULL) return NULL;
  FILE *history = fopen(name, goes_on ? "a" : "w");
  if (history == NULL) {
    perror(name);
    exit(EXIT_FAILURE);
  }
  if (fseek(history, 0, SEEK_END) == 0 && ftell(history) == 0) {
    fputs("epoch,loss,accuracy,test_loss,test_accuracy,seconds,samples_per_second\n", history);
  }
  return history;
}

void history_epoch(FILE *history, int epoch, const tally *training, const tally *test, double seconds) {
  if (history == NULL) return;
  fprintf(history, "%d,%.6f,%.6f,%.6f,%.6f,%.3f,%.1f\n", epoch, training->loss / training->examples,
          training->correct / training->examples, test->loss / test->examples, test->correct / test->examples, seconds,
          training->examples / seconds);
  fflush(history); /* so that it can be looked at while the training runs */
}

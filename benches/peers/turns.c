#include "turns.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST_WORKLOADS = 16, MOST_CALLS = 101 };

void give_up(const char *format, ...) {
  va_list arguments;
  printf("{\"error\": \"");
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\"}\n");
  fflush(stdout);
  exit(EXIT_FAILURE);
}

static double seconds_of_call(const workload *work) {
  struct timespec start, end;
  if (work->before_call != NULL) work->before_call(work->data);
  clock_gettime(CLOCK_MONOTONIC, &start);
  work->call(work->data);
  clock_gettime(CLOCK_MONOTONIC, &end);
  if (work->after_call != NULL) work->after_call(work->data);
  return (double)(end.tv_sec - start.tv_sec) + (double)(end.tv_nsec - start.tv_nsec) * 1e-9;
}

static int by_size(const void *a, const void *b) {
  const double left = *(const double *)a, right = *(const double *)b;
  return (left > right) - (left < right);
}

static void take_turn(const workload *work) {
  double seconds[MOST_CALLS];
  const int calls = work->calls < MOST_CALLS ? work->calls : MOST_CALLS;
  seconds_of_call(work);
  for (int i = 0; i < calls; ++i) seconds[i] = seconds_of_call(work);
  qsort(seconds, (size_t)calls, sizeof(double), by_size);
  const double median = seconds[calls / 2];
  if (work->samples > 0.0) {
    printf("{\"samples_per_second\": %.1f}\n", work->samples / median);
  } else {
    printf("{\"us\": %.3f}\n", median * 1e6);
  }
  fflush(stdout);
}

static void prepare(const workload *work) {
  work->prepare(work->data);
  if (work->before_call != NULL) work->before_call(work->data);
  work->call(work->data);
  work->check(work->data);
  if (work->after_call != NULL) work->after_call(work->data);
}

void take_turns(const char *version, const workload *workloads, int count) {
  char line[128];
  int prepared[MOST_WORKLOADS] = {0};
  printf("{\"version\": \"%s\"}\n", version);
  fflush(stdout);
  while (fgets(line, sizeof(line), stdin) != NULL) {
    int found = 0;
    line[strcspn(line, "\n")] = '\0';
    while (found < count && strcmp(workloads[found].name, line) != 0) ++found;
    if (found >= count || found >= MOST_WORKLOADS) give_up("no workload %s", line);
    if (!prepared[found]) prepare(&workloads[found]);
    prepared[found] = 1;
    take_turn(&workloads[found]);
  }
}

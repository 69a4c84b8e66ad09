/* The processes that train together, where there are several. */
#ifndef WORKERS_H
#define WORKERS_H

#include "options.h"

#include <umbo/umbo.h>

typedef struct {
  umbo_communicator *communicator; /* NULL: this process is alone */
  int64_t rank, size;
  int64_t on_this_machine; /* how many of them */
} workers;

/* With --workers mpi all processes that were started together; else this one alone. Only the first of several prints. */
workers workers_join(options *choices);
void workers_leave(const workers *w);

/* The number of each process, in their order; `all` has room for `size`. */
void workers_gather(const workers *w, double own, double *all);

/* Ends the program unless all have the same number. */
void workers_must_agree(const workers *w, int64_t number, const char *what);

#endif

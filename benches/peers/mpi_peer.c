/* MPI's reductions of one gradient of each of two processes. Rank 0 takes the turns; rank 1 does as it is told. */
#include <mpi.h>
#include <stdio.h>
#include <time.h>

#include "numbers.h"
#include "turns.h"

enum { REDUCE, ALL_REDUCE, END, RANKS = 2 };

static int rank;
static int64_t count;
/* Of this rank, and for the check also of the other. */
static float *gradients[RANKS];
static float *result;

static void prepare(void *data) {
  (void)data;
  if (count > 0) return;
  count = element_count();
  for (int i = 0; i < RANKS; ++i) {
    gradients[i] = floats(count);
    fill_random(gradients[i], count, (uint64_t)i);
  }
  result = floats(count);
}

static void reduce(void *data) {
  (void)data;
  MPI_Reduce(gradients[rank], result, (int)count, MPI_FLOAT, MPI_SUM, 0, MPI_COMM_WORLD);
}

static void all_reduce(void *data) {
  (void)data;
  MPI_Allreduce(gradients[rank], result, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

static void tell(int what) {
  MPI_Send(&what, 1, MPI_INT, 1, 0, MPI_COMM_WORLD);
  if (what != END) MPI_Barrier(MPI_COMM_WORLD);
}

static void tell_reduce(void *data) {
  (void)data;
  tell(REDUCE);
}

static void tell_all_reduce(void *data) {
  (void)data;
  tell(ALL_REDUCE);
}

static void check(void *data) {
  (void)data;
  check_sum(count, RANKS, gradients, result);
}

/* Waits without spinning, which would take a processor from the others who are measured. */
static int told(void) {
  const struct timespec pause = {.tv_nsec = 1000000};
  int there = 0, what = END;
  for (;;) {
    MPI_Iprobe(0, 0, MPI_COMM_WORLD, &there, MPI_STATUS_IGNORE);
    if (there) break;
    nanosleep(&pause, NULL);
  }
  MPI_Recv(&what, 1, MPI_INT, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  return what;
}

static void serve(void) {
  prepare(NULL);
  for (int what = told(); what != END; what = told()) {
    MPI_Barrier(MPI_COMM_WORLD);
    if (what == REDUCE) reduce(NULL);
    if (what == ALL_REDUCE) all_reduce(NULL);
  }
}

int main(int argc, char **argv) {
  const workload workloads[] = {
      {.name = "reduce", .calls = 3, .prepare = prepare, .before_call = tell_reduce, .call = reduce, .check = check},
      {.name = "all-reduce", .calls = 3, .prepare = prepare, .before_call = tell_all_reduce, .call = all_reduce,
       .check = check},
  };
  int ranks = 0, length = 0;
  char library[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != RANKS) give_up("%d processes, not %d", ranks, RANKS);
  MPI_Get_library_version(library, &length);
  for (char *end = library; *end != '\0'; ++end) {
    if (*end == ',') *end = '\0'; /* what follows is about the package */
  }
  if (rank == 0) {
    take_turns(library, workloads, 2);
    tell(END);
  } else {
    serve();
  }
  MPI_Finalize();
  return 0;
}

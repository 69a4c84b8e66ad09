#include "workers.h"

#include <stdio.h>
#include <stdlib.h>
#include <umbo/cluster.h>

workers workers_join(options *choices) {
  workers w = {NULL, 0, 1, 1};
  if (!choices->workers) return w;
  UMBO_CHECK(umbo_communicator_create_mpi(NULL, &UMBO_OPTIONS(umbo_mpi, .timeout_seconds = 120), &w.communicator));
  umbo_communicator_info here = UMBO_COMMUNICATOR_INFO_INIT;
  UMBO_CHECK(umbo_communicator_get_info(w.communicator, &here));
  w.rank = here.rank;
  w.size = here.rank_count;
  w.on_this_machine = here.node_rank_count;
  if (w.rank > 0) choices->json_only = 1;
  return w;
}

void workers_leave(const workers *w) { umbo_communicator_release(w->communicator); }

void workers_gather(const workers *w, double own, double *all) {
  if (w->communicator == NULL) {
    all[0] = own;
    return;
  }
  size_t *bytes = malloc((size_t)w->size * sizeof(*bytes));
  if (bytes == NULL) abort();
  for (int64_t rank = 0; rank < w->size; ++rank) bytes[rank] = sizeof(own);
  UMBO_CHECK(umbo_communicator_all_gather(w->communicator, bytes, &own, all));
  free(bytes);
}

void workers_must_agree(const workers *w, int64_t number, const char *what) {
  int64_t least, greatest;
  if (w->communicator == NULL) return;
  UMBO_CHECK(umbo_communicator_vote(w->communicator, number, &least, &greatest));
  if (least == greatest) return;
  fprintf(stderr, "03_train_fashion_mnist: the processes have different numbers for %s: %lld to %lld\n", what,
          (long long)least, (long long)greatest);
  exit(1);
}

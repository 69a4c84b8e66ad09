/* Preloaded into a training program (LD_PRELOAD), counts what its steady steps allocate, on all
 * threads: from the run numbered FIRST to the run numbered LAST. Prints the count at exit and
 * fails the program if it is not 0 or if there were not so many runs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>

#include <umbo/umbo.h>

#include "counting_allocator.h"

enum { FIRST = 60, LAST = 300 };

static atomic_long runs;

typedef umbo_status (*run_function)(umbo_strategy *, umbo_replica_fn, const umbo_value *, void *,
                                    const umbo_run_options *, umbo_value **);

/* Stands before the library's function and counts the steps. */
umbo_status umbo_strategy_run(umbo_strategy *strategy, umbo_replica_fn function, const umbo_value *args,
                              void *user_data, const umbo_run_options *options, umbo_value **result) {
    static run_function next;
    const long number = atomic_fetch_add(&runs, 1) + 1;
    if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "umbo_strategy_run");
    if (number == FIRST) atomic_store(&counting, 1);
    if (number == LAST) atomic_store(&counting, 0);
    return next(strategy, function, args, user_data, options, result);
}

__attribute__((destructor)) static void report(void) {
    const long counted = atomic_load(&allocations);
    atomic_store(&counting, 0);
    if (atomic_load(&runs) == 0) return; /* a helper process that the program started */
    fprintf(stderr, "steps %d to %d: %ld allocations\n", FIRST, LAST, counted);
    if (counted != 0 || atomic_load(&runs) < LAST) _exit(1);
}

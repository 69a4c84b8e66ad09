/* Preloaded into a training program (LD_PRELOAD), counts what its steady steps allocate, on all
 * threads: from the run numbered FIRST to the run numbered LAST. Prints the count at exit and
 * fails the program if it is not 0 or if there were not so many runs. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <umbo/umbo.h>

enum { FIRST = 60, LAST = 300 };

/* glibc's own names: what an interposed allocator may call without looking anything up. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long runs, allocations;
static atomic_int counting;

static void count(void) {
    if (atomic_load_explicit(&counting, memory_order_relaxed)) atomic_fetch_add(&allocations, 1);
}

void *malloc(size_t bytes) {
    count();
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    count();
    return __libc_calloc(number, bytes);
}

void *realloc(void *memory, size_t bytes) {
    count();
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

void *memalign(size_t alignment, size_t bytes) {
    count();
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *block;
    count();
    block = __libc_memalign(alignment, bytes);
    if (block == NULL) return ENOMEM;
    *memory = block;
    return 0;
}

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

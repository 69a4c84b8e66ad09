/* An allocator that stands before the system's, and counts the allocations of all threads while `counting` is set. */
#ifndef UMBO_TESTS_COUNTING_ALLOCATOR_H
#define UMBO_TESTS_COUNTING_ALLOCATOR_H

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>

/* glibc's own names: what an interposed allocator may call without looking anything up. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static atomic_long allocations;
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

#endif

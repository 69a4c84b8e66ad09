/* Preloaded into a program (LD_PRELOAD), refuses what the library asks the system for: memory and
 * mappings of DATA bytes or more, and threads. Only requests that come from the library's own code count, which the address
 * that a call returns to tells; the C library's and the program's own always succeed.
 *
 * With UMBO_FAULTS_SHOW set, the places of refused requests are printed. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT, dl_iterate_phdr */
#endif
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* glibc's own names: what an interposed allocator may call without looking anything up. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *memory, size_t bytes);
extern void *__libc_memalign(size_t alignment, size_t bytes);

static uintptr_t library_start, library_end;
static atomic_long seen, first, count, refused;
static int show;
static void *(*next_mmap)(void *, size_t, int, int, int, off_t);
static int (*next_create)(pthread_t *, const pthread_attr_t *, void *(*)(void *), void *);

static int find_library(struct dl_phdr_info *info, size_t size, void *unused) {
    int at;
    (void)size;
    (void)unused;
    if (strstr(info->dlpi_name, "libumbo.so") == NULL) return 0;
    for (at = 0; at < info->dlpi_phnum; at++) {
        const ElfW(Phdr) *header = &info->dlpi_phdr[at];
        if (header->p_type == PT_LOAD && (header->p_flags & PF_X) != 0) {
            library_start = info->dlpi_addr + header->p_vaddr;
            library_end = library_start + header->p_memsz;
        }
    }
    return 1;
}

__attribute__((constructor)) static void prepare(void) {
    void *frames[4];
    *(void **)&next_mmap = dlsym(RTLD_NEXT, "mmap");
    *(void **)&next_create = dlsym(RTLD_NEXT, "pthread_create");
    dl_iterate_phdr(find_library, NULL);
    show = getenv("UMBO_FAULTS_SHOW") != NULL;
    if (show) (void)backtrace(frames, 4); /* its first call allocates */
}

/* Requests for less are the library's own records. If one of these is refused the process ends. */
enum { DATA = 16 << 10 };

/* Refuses `number` requests from the `start`-th on, counted from 1. */
void umbo_faults_arm(long start, long number) {
    atomic_store(&seen, 0);
    atomic_store(&refused, 0);
    atomic_store(&count, number);
    atomic_store(&first, start);
}

/* Refuses nothing any more. Returns how many requests there were since the arming. */
long umbo_faults_off(void) {
    atomic_store(&first, 0);
    return atomic_load(&seen);
}

/* How many requests were refused since the arming. */
long umbo_faults_refused(void) {
    return atomic_load(&refused);
}

static int refuses(const void *caller, size_t bytes) {
    const uintptr_t from = (uintptr_t)caller;
    const long start = atomic_load(&first);
    long number;
    if (start == 0 || from < library_start || from >= library_end) return 0;
    if (bytes < DATA) return 0;
    number = atomic_fetch_add(&seen, 1) + 1;
    if (number < start || number - start >= atomic_load(&count)) return 0;
    atomic_fetch_add(&refused, 1);
    if (show) {
        void *frames[40];
        backtrace_symbols_fd(frames, backtrace(frames, 40), 2);
        (void)!write(2, "\n", 1);
    }
    return 1;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t bytes) {
    if (refuses(CALLER, bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_malloc(bytes);
}

void *calloc(size_t number, size_t bytes) {
    if (refuses(CALLER, number * bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_calloc(number, bytes);
}

void *realloc(void *memory, size_t bytes) {
    if (refuses(CALLER, bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_realloc(memory, bytes);
}

void *aligned_alloc(size_t alignment, size_t bytes) {
    if (refuses(CALLER, bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return __libc_memalign(alignment, bytes);
}

int posix_memalign(void **memory, size_t alignment, size_t bytes) {
    void *block;
    if (refuses(CALLER, bytes)) return ENOMEM;
    block = __libc_memalign(alignment, bytes);
    if (block == NULL) return ENOMEM;
    *memory = block;
    return 0;
}

void *mmap(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (refuses(CALLER, bytes)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next_mmap(address, bytes, protection, flags, file, offset);
}

void *mmap64(void *address, size_t bytes, int protection, int flags, int file, off_t offset) {
    if (refuses(CALLER, bytes)) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    return next_mmap(address, bytes, protection, flags, file, offset);
}

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*start)(void *),
                   void *argument) {
    if (refuses(CALLER, SIZE_MAX)) return EAGAIN;
    return next_create(thread, attributes, start, argument);
}

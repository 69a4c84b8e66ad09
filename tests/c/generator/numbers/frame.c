/* Written by tests/c/generator from umbo.h: numbers that no memory holds, for every integer
 * argument of every function, every integer field of every struct that goes in, and every array of
 * sizes.
 *
 *   numbers [--function NAME] [--patience SECONDS] [--list]
 *
 * Each call has to come back: with UMBO_OK, where the number is harmless, or with INVALID_ARGUMENT,
 * OUT_OF_RANGE or RESOURCE_EXHAUSTED and a message that names the argument. What a call with
 * UMBO_OK has made is used, and that has to come back, too. The program has little address space
 * left, so that memory of such a size is refused at once; arrays that are as long as the number
 * says, of zeros, it has before. A child makes the calls; if it dies or hangs, that is noted, and
 * another one continues after it. */
#define _GNU_SOURCE
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef __GLIBC__
#include <malloc.h>
#endif

#include "check.h"
#include "gpu_memory.h"

#include <umbo/dlpack.h>
#include <umbo/all.h>

#define REPLICAS 1


/* Written by tests/c/generator from umbo.h: every public function, called in every context in which
 * the library calls back. Each call has to come back with an answer other than INTERNAL, whatever
 * the answer is, and afterwards the objects still work and no handle is left. The program rounds in a way other than
 * usual, takes denormal numbers for zero, and has traps: no call may compute in this mode, and each leaves it as it is.
 *
 *   matrix [--context NAME] [--function NAME] [--patience SECONDS] [--jobs N] [--list]
 *          [--devices N] [--gpus SEED] [--contexts N] [--together N]
 *
 * A context is entered anew for a few functions that are called one after another, with new objects, in a child
 * process that goes from function to function: --together 1 has it entered for each, which takes longer. A function
 * that gives up an object is alone. A child that dies or hangs is noted, and another one continues
 * behind the functions. With --gpus two GPUs compute, and one of them holds the variables if the seed is
 * odd; --contexts has the seed choose as many of them. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"
#include "floating_point.h"
#include "gpu_memory.h"

#include <umbo/dlpack.h>
#include <umbo/all.h>

#define REPLICAS 2
#define MOST_FUNCTIONS 1024
#define MOST_CONTEXTS 128
#define MOST_FAILURES 4096


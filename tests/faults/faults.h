/* What the programs of faults.c share: the handles that they make, and the judge of their calls. */
#ifndef UMBO_TESTS_FAULTS_H
#define UMBO_TESTS_FAULTS_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <umbo/all.h>

/* Of fail_requests.c. */
void umbo_faults_arm(long start, long number);
long umbo_faults_off(void);
long umbo_faults_refused(void);

enum {
    REPLICAS = 2,
    LARGE = 300000, /* float32: more than the size from which memory is mapped */
    WIDTH = 4200,   /* float32: more than the size from which requests are refused */
    OPTIMIZERS = 14,
    MOST_CALLS = 4000,
    MOST_VARIABLES = 8,
    MOST_HANDLES = 160,
    MOST_ITERATORS = 32
};

/* ---- handles, all of which are released at the end or when a call fails */

typedef struct {
    umbo_strategy *strategy;
    umbo_scope *scope;
    umbo_tensor *tensors[MOST_HANDLES];
    umbo_value *values[MOST_HANDLES];
    umbo_variable *variables[MOST_VARIABLES];
    umbo_dataset *datasets[MOST_HANDLES];
    umbo_distributed_dataset *distributed[4];
    umbo_iterator *iterators[MOST_ITERATORS];
    umbo_gradients *gradients[4];
    umbo_optimizer *optimizers[OPTIMIZERS + 4];
    umbo_element_spec *specs[4];
    umbo_equivalence *equivalence;
    umbo_cancellation *cancellation;
    umbo_checkpoint *checkpoint;
    umbo_trainer *trainer;
} handles;

extern handles all;

void release_all(void);

/* How many user data the library holds; 0 when all handles are released. */
extern _Atomic int held;

/* The library takes one more user data, which `destroy` says that it has let go of. */
void hold(void);
void destroy(void *user_data);

/* What tensors are made of. */
extern float numbers[LARGE];

/* A .npy file of a column of numbers. */
extern char array_file[64];

/* A vector, matrix or scalar of `numbers`, as a tensor and as a value. */
void make_tensor(int place, int32_t rank, int64_t rows, int64_t columns);

/* ---- the passes of generators, which count what they have made */

static inline umbo_status begin(void *user_data, void **pass) {
    (void)user_data;
    *pass = calloc(1, sizeof(int));
    return *pass == NULL ? UMBO_STATUS_RESOURCE_EXHAUSTED : UMBO_OK;
}

static inline void end(void *pass, void *user_data) {
    (void)user_data;
    free(pass);
}

/* ---- judging calls */

/* A number for the bits of all variables. */
uint64_t weights(void);

/* Whether the call is to be made again. */
int judge(umbo_status status, const char *call, int repeatable);

#define CALL(call) \
    while (judge((call), #call, 1)) {}
/* A call that continues after what failed, so that repeating it is something else. */
#define CALL_ONCE(call) (void)judge((call), #call, 0)

/* ---- the programs */

void make_strategy(void);
/* Trains with all optimizers, and reduces, gathers and updates. */
void training(void);
/* Input pipelines over elements of several tensors. */
void pipelines(void);
/* A trainer, and what it needs. */
void trainer(void);

#endif

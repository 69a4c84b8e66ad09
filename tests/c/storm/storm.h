/* What the parts of the storm share: its threads, the model of their state, and plans of runs.
 *
 *   storm.c      the program
 *   state.c      variables and gradients of each thread, and what a model says that they are
 *   plans.c      what a run is to do, drawn from the seed
 *   callbacks.c  doing it
 *   weather.c    what threads do one after the other */
#ifndef UMBO_TESTS_STORM_H
#define UMBO_TESTS_STORM_H

#include <pthread.h>
#include <stdint.h>

#include "check.h"
#include "gpu_memory.h"

#define MOST_THREADS 16
#define STRATEGIES 3
#define TOKENS 6
#define MOST_ACTIONS 6
#define ALIVE 0x5ca1ab1eu
/* A thread that makes no progress for so long hangs. */
#define PATIENCE 120

extern const int32_t replicas_of[STRATEGIES];

enum action {
    ADD,           /* assign_add by all replicas */
    ASSIGN_NARROW, /* assign to a variable of 16 bits */
    ADD_GRID,      /* assign_add of a strided view */
    ALL_REDUCE,    /* and its result */
    REDUCE_NARROW, /* the same in 16 bits */
    REDUCE_GRID,   /* the same of a strided view */
    VIEWS,         /* of weights, in their own dtype and in 16 bits */
    MERGE_ADD,     /* assign_add in a merge function */
    MERGE_RUN,     /* a nested run in a merge function */
    MERGE_UPDATE,  /* an update in a merge function that fails and is tolerated */
    UPDATE,        /* an update by all replicas */
    APPLY,         /* gradients and a deferred apply */
    STALL,         /* one replica takes its time */
    METRIC,
    ACTIONS
};

/* ---- what threads have */

enum { NARROWS = 2, GRID_ROWS = 2, GRID_COLUMNS = 3, WIDTH = 8 };

/* The gradients that there are: of a double, of floats in float16 and in bfloat16, and of the rows of
 * tables in float32 and in bfloat16. */
enum trainer { DOUBLE, HALF, BRAIN, TABLE, BRAIN_TABLE, TRAINERS };

/* What a thread has of one strategy. */
struct objects {
    umbo_variable *sum, *narrow[NARROWS], *grid, *weights[TRAINERS];
    umbo_gradients *gradients[TRAINERS];
    umbo_optimizer *optimizers[TRAINERS];
};

/* What its variables hold: a number, a number in float16 and one in bfloat16, a multiple of 1 to 6, and
 * for each of the trainers its elements or rows. */
struct state {
    int64_t sum, narrow[NARROWS], grid, weights[TRAINERS][WIDTH];
};

/* What a run changes if it succeeds. */
struct effect {
    int64_t adds, grid_adds;
    int64_t narrow[NARROWS]; /* what is assigned; 0 for nothing */
    int trainer;             /* that applies; -1 for none */
    int64_t amount;
};

struct thread {
    pthread_t thread;
    int index;
    uint64_t state;
    struct objects objects[STRATEGIES];
    struct state expected[STRATEGIES];
    /* Plans that were handed over and destroyed: of the strategies, then of their copies. */
    int64_t given[2 * STRATEGIES], destroyed[2 * STRATEGIES];
    umbo_cancellation *last_token;
    int64_t runs, nested, ended[17], applied[TRAINERS];
    /* The last run of which a callback has cancelled the token. */
    int64_t cancelled_run;
    int64_t assignments, applies, synchronisations, strategies, cancelled;
    const char *doing;
};

extern umbo_strategy *strategies[STRATEGIES];
extern struct thread threads[MOST_THREADS];
/* Which devices compute and which hold the variables; CPUs if it is negative. */
extern int64_t gpu_seed;
extern int thread_count;
extern int64_t runs_wanted, runs_begun, late_callbacks, overtaken_most, started[STRATEGIES];
extern double seconds_wanted, began;
extern int failures;

/* ---- storm.c */

double now(void);
void wrong(const struct thread *thread, const char *format, ...);
uint64_t draw(struct thread *thread);
int below(struct thread *thread, int count);
int one_in(struct thread *thread, int count);

/* ---- state.c */

void make_objects(void);
void release_objects(void);
/* Whether all variables of a thread are what the model says. */
void check_state(struct thread *thread, int strategy, const char *after);
void take_effect(struct state *state, const struct effect *effect);
/* A number in one of the two types of 16 bits, and in one element of them. */
umbo_value *narrow_value(int which, int64_t number);
uint16_t narrow_bits(umbo_dtype dtype, int64_t number);
double narrow_number(umbo_dtype dtype, uint16_t bits);
/* A strided view: `number` times 1 to 6. */
umbo_value *grid_value(int64_t number);
int is_grid(const umbo_value *value, double number);
umbo_value *double_value(double number);
double double_of(const umbo_value *value);
/* The tensor of a value, and a view of it; a copy where a GPU has the elements. */
umbo_tensor *look_at(const umbo_value *value, umbo_view *view);

/* ---- plans.c */

#define MAY(status) (1u << (status))

/* What one run is to do. Read only while the run lasts, except for the counters. */
struct plan {
    uint32_t alive;
    struct thread *thread;
    int strategy, limited, is_nested;
    int count;
    enum action actions[MOST_ACTIONS];
    int64_t amounts[MOST_ACTIONS];
    /* The replica that fails before this action; no such action if none does. */
    int failing_action, failing_replica;
    int stalling_replica, stall_microseconds, cancels;
    /* A function of the merge call fails. */
    int merge_fails;
    umbo_cancellation *token;
    /* The last token of the thread when the run began: a late callback cancels it while the thread
     * is at later runs. */
    umbo_cancellation *last_token;
    /* The number of a run that has a token, which its nested run knows, too. */
    int64_t run;
    struct plan *nested;
    double nested_deadline;
    /* The statuses that the run may end with, as bits. */
    uint32_t may_end;
    struct effect effect;
    /* What the weights are until the run is committed. */
    int64_t before[TRAINERS];
    int inside;
    /* Told when the plan is destroyed; of runs that wait for that. */
    int *gone;
};

struct plan *new_plan(struct thread *thread, int strategy);
struct plan *draw_plan(struct thread *thread, int strategy, int limited, int is_nested);
void destroy_plan(void *user_data);
/* Around a callback that uses a plan. */
void enter(struct plan *plan);
umbo_status leave(struct plan *plan, umbo_status status);

/* ---- callbacks.c */

umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *args, void *user_data,
                         umbo_value **result);
umbo_status assign_add(umbo_variable *variable, int64_t amount);

/* ---- weather.c */

void make_tokens(void);
void release_tokens(void);
void *weather(void *user_data);

#endif

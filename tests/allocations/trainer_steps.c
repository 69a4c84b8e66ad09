/* A steady step of a trainer allocates what one of umbo_train_epoch() does, the record of its update, and nothing else:
 * counted by an allocator that stands before the system's, on all threads, in the steps of one epoch. Dense gradients, and
 * rows of a table. An epoch in a new order does not allocate for each row. */
#include <stdio.h>

#include <umbo/trainer.h>

#include "counting_allocator.h"

enum { FIRST = 100, LAST = 400, BATCH = 8, WORDS = 500, LENGTH = 6, WEIGHTS = 3000 };

static atomic_long steps;

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                         double *loss) {
    (void)user_data;
    if (rows->replica_id == 0) {
        const long number = atomic_fetch_add(&steps, 1);
        if (number == FIRST) atomic_store(&counting, 1);
        if (number == LAST) atomic_store(&counting, 0);
    }
    for (int64_t i = 0; i < rows->count; ++i) {
        float *word = NULL;
        gradient[rows->indices[i] % WEIGHTS] += weights[0] + 1;
        for (int k = 0; k < 5; ++k) {
            UMBO_TRY(umbo_rows_gradient_row(rows, 1, (rows->indices[i] * 31 + k * 7) % WORDS, &word));
            word[k] += 1;
        }
        *loss += 1;
    }
    return UMBO_OK;
}

static umbo_status learn_nothing(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                                 double *loss) {
    (void)rows, (void)weights, (void)gradient, (void)user_data, (void)loss;
    return UMBO_OK;
}

/* The allocations of an epoch of few steps over many rows. */
static long of_an_epoch(long rows) {
    static float weight;
    umbo_trainer *trainer = NULL;
    const long before = atomic_load(&allocations);
    UMBO_CHECK(umbo_trainer_create(&weight, 1, &UMBO_OPTIONS(umbo_trainer, .replicas = 2), &trainer));
    atomic_store(&counting, 1);
    UMBO_CHECK(umbo_trainer_epoch(trainer, rows, rows / 4, learn_nothing, NULL, NULL));
    atomic_store(&counting, 0);
    umbo_trainer_release(trainer);
    return atomic_load(&allocations) - before;
}

int main(void) {
    static float weights[WEIGHTS], table[WORDS * LENGTH];
    umbo_trainer *trainer = NULL;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[2] = {{.weights = weights, .count = WEIGHTS},
                                     {.weights = table, .count = WORDS * LENGTH, .row_length = LENGTH}};
    options.rule = "adam";
    options.replicas = 2;
    options.shuffle = 0;
    UMBO_CHECK(umbo_trainer_create_with_arrays(2, parameters, &options, &trainer));
    UMBO_CHECK(umbo_trainer_epoch(trainer, (LAST + 10) * BATCH, BATCH, learn, NULL, NULL));
    umbo_trainer_release(trainer);
    const long in_steps = atomic_load(&allocations), in_epoch = of_an_epoch(40000);
    printf("%ld allocations in %d steps, %ld in an epoch of 4 steps\n", in_steps, LAST - FIRST, in_epoch);
    /* None at all would say that the allocator counts nothing. */
    return in_steps < 1 || in_steps > LAST - FIRST || atomic_load(&steps) <= LAST || in_epoch < 1 || in_epoch > 4000;
}

/* A child of a fork, while other threads run: it reads what this thread has, is refused what needs the
 * parent's threads, and begins anew. */
#define _GNU_SOURCE
#include "storm.h"

#include "child.h"

static umbo_status add_in_child(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    (void)context;
    (void)args;
    (void)result;
    return assign_add((umbo_variable *)user_data, 3);
}

typedef struct {
    struct thread *thread;
    int strategy;
} parent;

#define REFUSED(call)                                 \
    do {                                              \
        CHECK_STATUS(call, UMBO_STATUS_FAILED_PRECONDITION); \
        CHECK_MESSAGE("forked");                      \
    } while (0)

static void as_child(void *argument) {
    const parent *self = (const parent *)argument;
    const struct objects *objects = &self->thread->objects[self->strategy];
    umbo_strategy *old = strategies[self->strategy], *fresh = make_strategy(2);
    umbo_variable *variable = NULL;
    umbo_tensor *zero = NULL;
    const double nothing = 0;
    int trainer;
    const int before = failures;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    check_state(self->thread, self->strategy, "a fork");
    CHECK(failures == before);
    REFUSED(umbo_strategy_run(old, add_in_child, objects->sum, NULL, NULL, NULL));
    REFUSED(assign_add(objects->sum, 1));
    REFUSED(umbo_strategy_synchronize(old));
    for (trainer = 0; trainer < TRAINERS; trainer++)
        REFUSED(umbo_optimizer_apply(objects->optimizers[trainer], objects->gradients[trainer], NULL,
                                     NULL));
    options.aggregation = UMBO_AGGREGATION_MEAN;
    zero = make_tensor(UMBO_DTYPE_FLOAT64, 0, NULL, &nothing);
    CHECK_OK(umbo_variable_create(fresh, "v", zero, &options, &variable));
    CHECK_OK(umbo_strategy_run(fresh, add_in_child, variable, NULL, NULL, NULL));
    CHECK_OK(umbo_strategy_run(fresh, add_in_child, variable, NULL, NULL, NULL));
    umbo_tensor_release(zero);
    CHECK_OK(umbo_variable_read(variable, &zero));
    umbo_tensor_release(zero);
    umbo_variable_release(variable);
    umbo_strategy_release(fresh);
    for (trainer = 0; trainer < TRAINERS; trainer++)
        umbo_gradients_release(objects->gradients[trainer]);
}

void fork_between(struct thread *thread, int strategy) {
    parent self;
    self.thread = thread;
    self.strategy = strategy;
    in_child(as_child, &self);
}

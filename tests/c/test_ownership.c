/* What a run is given is released once, after the last callback that may use it, however the run ends;
 * what callbacks look at stays as long as they look. */
#include <pthread.h>
#include <sched.h>
#include <stddef.h>

#include "check.h"

#include <umbo/all.h>

typedef struct {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    int open;      /* late callbacks may return */
    int inside;    /* callbacks that use what they were given */
    int destroyed; /* how often that was released */
} shared;

static void shared_init(shared *self) {
    memset(self, 0, sizeof(*self));
    CHECK(pthread_mutex_init(&self->mutex, NULL) == 0);
    CHECK(pthread_cond_init(&self->changed, NULL) == 0);
}

static void set_open(shared *self) {
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    self->open = 1;
    CHECK(pthread_cond_broadcast(&self->changed) == 0);
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
}

static void enter_and_wait(shared *self) {
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    ++self->inside;
    while (!self->open) CHECK(pthread_cond_wait(&self->changed, &self->mutex) == 0);
    --self->inside;
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
}

static int is_inside(shared *self) {
    int count;
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    count = self->inside;
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
    return count > 0;
}

static void shared_destroy(void *user_data) {
    shared *self = (shared *)user_data;
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    CHECK(self->inside == 0);
    ++self->destroyed;
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
}

static int destroyed(shared *self) {
    int count;
    CHECK(pthread_mutex_lock(&self->mutex) == 0);
    count = self->destroyed;
    CHECK(pthread_mutex_unlock(&self->mutex) == 0);
    return count;
}

/* ---- options that are refused */

static void test_refused_options(void) {
    umbo_strategy *strategy = make_strategy(2);
    shared user_data;
    int number;
    for (number = 0; number < 7; number++) {
        umbo_strategy *of = strategy;
        umbo_replica_fn function = nothing;
        struct {
            umbo_run_options options;
            uint64_t newer;
        } given;
        shared_init(&user_data);
        memset(&given, 0, sizeof(given));
        given.options.struct_size = UMBO_STRUCT_SIZE(umbo_run_options);
        given.options.timeout_seconds = UMBO_INFINITE;
        given.options.user_data_destroy = shared_destroy;
        switch (number) {
            case 0: given.options.timeout_seconds = -2; break;
            case 1: given.options.timeout_seconds = 0.0 - 1e-9; break;
            case 2: given.options.struct_size = UMBO_STRUCT_SIZE(given), given.newer = 1; break;
            case 3: given.options.cancellation = (const umbo_cancellation *)(const void *)strategy; break;
            case 4: of = NULL; break;
            case 5: function = NULL; break;
            default: break; /* nothing is wrong */
        }
        CHECK_STATUS(umbo_strategy_run(of, function, NULL, &user_data, &given.options, NULL),
                     number == 6 ? UMBO_OK : UMBO_STATUS_INVALID_ARGUMENT);
        CHECK(destroyed(&user_data) == 1);
    }
    /* A struct that ends before the function does not name one. */
    {
        umbo_run_options options;
        shared_init(&user_data);
        memset(&options, 0, sizeof(options));
        options.timeout_seconds = UMBO_INFINITE;
        options.struct_size = UMBO_STRUCT_MARK + offsetof(umbo_run_options, user_data_destroy);
        options.user_data_destroy = shared_destroy;
        CHECK_OK(umbo_strategy_run(strategy, nothing, NULL, &user_data, &options, NULL));
        CHECK(destroyed(&user_data) == 0);
    }
    umbo_strategy_release(strategy);
}

/* ---- a run inside of a merge call of a run with limits */

typedef struct {
    shared own;
    umbo_cancellation *token;
    umbo_status nested;
} nesting;

static umbo_status late_inside(umbo_replica_context *context, const umbo_value *args,
                               void *user_data, umbo_value **result) {
    nesting *self = (nesting *)user_data;
    (void)args;
    (void)result;
    if (replica_id(context) == 1) {
        if (self->token != NULL) CHECK_OK(umbo_cancellation_cancel(self->token));
        enter_and_wait(&self->own);
    }
    return UMBO_OK;
}

static void nesting_destroy(void *user_data) { shared_destroy(&((nesting *)user_data)->own); }

static umbo_status run_inside(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    nesting *self = (nesting *)user_data;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    (void)args;
    (void)result;
    options.user_data_destroy = nesting_destroy;
    self->nested = umbo_strategy_run(strategy, late_inside, NULL, self, &options, NULL);
    return self->nested;
}

static umbo_status merging(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)args;
    (void)result;
    return umbo_replica_context_merge_call(context, run_inside, NULL, user_data, NULL);
}

/* With a token, or with a deadline after so many seconds: 0 if that came before the inner callback
 * that is to be late. */
static int runs_nested(umbo_strategy *strategy, int with_token, double seconds) {
    const umbo_status expected = with_token ? UMBO_STATUS_CANCELLED : UMBO_STATUS_DEADLINE_EXCEEDED;
    nesting self;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    int was_late;
    shared_init(&self.own);
    self.token = NULL;
    self.nested = UMBO_OK;
    if (with_token) {
        CHECK_OK(umbo_cancellation_create(&self.token));
        options.cancellation = self.token;
    } else {
        options.timeout_seconds = seconds;
    }
    CHECK_STATUS(umbo_strategy_run(strategy, merging, NULL, &self, &options, NULL), expected);
    was_late = is_inside(&self.own);
    if (was_late) {
        CHECK(self.nested == expected);
        CHECK(destroyed(&self.own) == 0);
    }
    set_open(&self.own);
    CHECK_OK(umbo_strategy_synchronize(strategy));
    CHECK(destroyed(&self.own) == 1 || !was_late);
    umbo_cancellation_release(self.token);
    return was_late;
}

static void test_nested_run(int with_token) {
    umbo_strategy *strategy = make_strategy(2);
    double seconds = 0.25;
    while (!runs_nested(strategy, with_token, seconds)) seconds *= 2;
    CHECK_OK(umbo_strategy_run(strategy, nothing, NULL, NULL, NULL, NULL));
    umbo_strategy_release(strategy);
}

/* ---- variables of other strategies that are released while a callback has a view of them */

typedef struct {
    umbo_variable *variables[3]; /* of this strategy, of another one, of the default one */
} viewing;

static umbo_status look(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    viewing *self = (viewing *)user_data;
    umbo_view views[3], narrow[3];
    int index, round;
    (void)args;
    (void)result;
    for (index = 0; index < 3; index++) {
        CHECK_OK(umbo_variable_view(self->variables[index], context, UMBO_DTYPE_NONE, &views[index]));
        CHECK_OK(umbo_variable_view(self->variables[index], context, UMBO_DTYPE_BFLOAT16,
                                       &narrow[index]));
    }
    for (round = 0; round < 2; round++) {
        for (index = 0; index < 3; index++) {
            const uint16_t bfloat16[] = {0x3f80, 0x4000, 0x4040};
            CHECK(*(const float *)views[index].data == (float)(index + 1));
            CHECK(*(const uint16_t *)narrow[index].data == bfloat16[index]);
            if (round == 0) umbo_variable_release(self->variables[index]);
        }
    }
    return UMBO_OK;
}

static void test_views(void) {
    umbo_strategy *strategy = make_strategy(1), *other = make_strategy(2), *none = NULL;
    viewing self;
    int index;
    CHECK_OK(umbo_strategy_default(&none));
    self.variables[0] = make_variable(strategy, 1, UMBO_AGGREGATION_MEAN);
    self.variables[1] = make_variable(other, 2, UMBO_AGGREGATION_MEAN);
    self.variables[2] = make_variable(none, 3, UMBO_AGGREGATION_MEAN);
    CHECK_OK(umbo_strategy_run(strategy, look, NULL, &self, NULL, NULL));
    for (index = 0; index < 3; index++) self.variables[index] = NULL;
    CHECK(live(UMBO_HANDLE_VARIABLE) == 0);
    umbo_strategy_release(none);
    umbo_strategy_release(other);
    umbo_strategy_release(strategy);
}

/* ---- a release that calls back */

typedef struct {
    shared own;
    umbo_strategy *strategy;
    umbo_variable *variable;
    umbo_value *batch;
    umbo_cancellation *token;
    int answers;
} calling;

static void call_back(void *user_data) {
    calling *self = (calling *)user_data;
    umbo_value *one = float_value(1);
    umbo_equivalence *equivalence = NULL;
    CHECK(info_of(self->strategy).late_replica_count == 1);
    CHECK_STATUS(umbo_strategy_run(self->strategy, nothing, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("draining");
    CHECK_STATUS(umbo_strategy_call_for_each_replica(self->strategy, nothing, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_strategy_check_equivalence(self->strategy, NULL, nothing, self->batch, NULL,
                                                 NULL, &equivalence),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_strategy_synchronize(self->strategy), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_variable_assign(self->variable, one), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK(float_of_variable(self->variable) == 2);
    umbo_value_release(one);
    self->answers = 1;
    shared_destroy(&self->own);
}

static umbo_status wait_for_it(umbo_replica_context *context, const umbo_value *args,
                               void *user_data, umbo_value **result) {
    calling *self = (calling *)user_data;
    (void)args;
    (void)result;
    if (replica_id(context) == 1) {
        CHECK_OK(umbo_cancellation_cancel(self->token));
        enter_and_wait(&self->own);
    }
    return UMBO_OK;
}

static void test_release_that_calls_back(void) {
    const float rows[] = {1, 2, 3, 4};
    calling self;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    memset(&self, 0, sizeof(self));
    shared_init(&self.own);
    self.strategy = make_strategy(2);
    self.variable = make_variable(self.strategy, 2, UMBO_AGGREGATION_MEAN);
    self.batch = floats_value(4, rows);
    CHECK_OK(umbo_cancellation_create(&self.token));
    options.cancellation = self.token;
    options.user_data_destroy = call_back;
    CHECK_STATUS(umbo_strategy_run(self.strategy, wait_for_it, NULL, &self, &options, NULL),
                 UMBO_STATUS_CANCELLED);
    set_open(&self.own);
    CHECK_OK(umbo_strategy_synchronize(self.strategy));
    CHECK(self.answers == 1 && destroyed(&self.own) == 1);
    CHECK_OK(umbo_strategy_run(self.strategy, nothing, NULL, NULL, NULL, NULL));
    umbo_cancellation_release(self.token);
    umbo_value_release(self.batch);
    umbo_variable_release(self.variable);
    umbo_strategy_release(self.strategy);
}

int main(void) {
    test_refused_options();
    test_nested_run(0);
    test_nested_run(1);
    test_views();
    test_release_that_calls_back();
    return finish();
}

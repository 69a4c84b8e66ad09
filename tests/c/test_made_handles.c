/* Tensors and values that a callback makes are released when it returns, on each way out, in each kind of callback. What
 * it has retained stays, and so does what it makes for longer than a callback. */
#include "check.h"

#include <pthread.h>

#define REPLICAS 2

static const float one[1] = {1};

/* How a callback ends. */
typedef enum { RETURNS, FAILS, STOPS_IN_TRY, RELEASES_BY_HAND, GIVES_A_RESULT, RETAINS, KEEPS_ALL, WAYS } way;

typedef struct {
    way how;
    umbo_tensor *kept[REPLICAS][2];
    umbo_tensor *lost[REPLICAS]; /* handles of callbacks that have returned */
    int64_t live_inside;
} scene;

/* Makes a tensor and a value, and ends in this way. A callback that gives a result stores the value. */
static umbo_status leave(scene *self, int32_t id, umbo_value **result) {
    umbo_tensor *tensor = NULL, *item = NULL;
    umbo_value *value = NULL;
    const int64_t size = 1;
    if (self->how == KEEPS_ALL) {
        UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &self->kept[id][0]));
        UMBO_TRY(umbo_callback_keep_handles());
        return umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &self->kept[id][1]);
    }
    UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
    UMBO_TRY(umbo_value_from_tensor(tensor, &value));
    UMBO_TRY(umbo_value_tensor(value, &item));
    self->lost[id] = tensor;
    switch (self->how) {
        case FAILS: return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", NULL, NULL);
        case STOPS_IN_TRY: UMBO_TRY(umbo_value_item(value, 5, &value)); return UMBO_OK;
        case RELEASES_BY_HAND:
            umbo_tensor_release(tensor);
            umbo_value_release(value);
            umbo_tensor_release(item);
            return UMBO_OK;
        case GIVES_A_RESULT:
            if (result != NULL) *result = value;
            return UMBO_OK;
        case RETAINS: return umbo_tensor_retain(tensor, &self->kept[id][0]);
        default: return UMBO_OK;
    }
}

static umbo_status in_a_run(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    (void)args;
    return leave((scene *)user_data, replica_id(context), result);
}

static umbo_status merged(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                          umbo_value **result) {
    (void)strategy, (void)args;
    return leave((scene *)user_data, 0, result);
}

static umbo_status in_a_merge_call(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                   umbo_value **result) {
    (void)args, (void)result;
    return umbo_replica_context_merge_call(context, merged, NULL, user_data, NULL);
}

/* The other replica waits in a merge call, holds handles there, and is told to stop. */
static umbo_status beside_a_waiting_replica(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                            umbo_value **result) {
    umbo_tensor *tensor = NULL;
    const int64_t size = 1;
    (void)args;
    if (replica_id(context) == 0) return leave((scene *)user_data, 0, result);
    UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
    UMBO_TRY(umbo_replica_context_merge_call(context, merged, NULL, user_data, NULL));
    return UMBO_OK;
}

/* A run inside of a merge call: the tensor of the function around it outlives it. */
static umbo_status merged_by_a_run(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                                   umbo_value **result) {
    umbo_tensor *outer = NULL;
    umbo_value *value = NULL;
    umbo_view view;
    const int64_t size = 1;
    (void)args, (void)result;
    UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &outer));
    UMBO_TRY(umbo_strategy_run(strategy, in_a_run, NULL, user_data, NULL, &value));
    return umbo_tensor_view(outer, &view);
}

static umbo_status in_a_nested_run(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                   umbo_value **result) {
    (void)args, (void)result;
    return umbo_replica_context_merge_call(context, merged_by_a_run, NULL, user_data, NULL);
}

static umbo_status in_a_scope(umbo_strategy *strategy, void *user_data) {
    (void)strategy;
    return leave((scene *)user_data, 0, NULL);
}

static umbo_status in_an_update(umbo_variable *variable, const umbo_value *args, void *user_data,
                                umbo_value **result) {
    (void)variable, (void)args;
    return leave((scene *)user_data, 0, result);
}

static umbo_status in_a_map(const umbo_value *element, void *user_data, umbo_value **result) {
    umbo_status status;
    (void)element;
    status = leave((scene *)user_data, 0, result);
    if (status == UMBO_OK && *result == NULL) {
        umbo_tensor *tensor = NULL;
        const int64_t size = 1;
        UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
        status = umbo_value_from_tensor(tensor, result);
        umbo_tensor_release(tensor);
    }
    return status;
}

static umbo_status in_a_filter(const umbo_value *element, void *user_data, int32_t *keep) {
    (void)element;
    *keep = 1;
    return leave((scene *)user_data, 0, NULL);
}

/* ---- the callers */

static umbo_status run_with(umbo_replica_fn function, scene *self) {
    umbo_strategy *strategy = make_strategy(REPLICAS);
    umbo_value *result = NULL;
    const umbo_status status = umbo_strategy_run(strategy, function, NULL, self, NULL, &result);
    umbo_value_release(result);
    umbo_strategy_release(strategy);
    return status;
}

static umbo_status a_run(scene *self) { return run_with(in_a_run, self); }
static umbo_status a_merge_call(scene *self) { return run_with(in_a_merge_call, self); }
static umbo_status a_nested_run(scene *self) { return run_with(in_a_nested_run, self); }

static umbo_status a_scope(scene *self) {
    umbo_strategy *strategy = make_strategy(1);
    const umbo_status status = umbo_strategy_scope(strategy, in_a_scope, self);
    umbo_strategy_release(strategy);
    return status;
}

static umbo_status an_update(scene *self) {
    umbo_strategy *strategy = make_strategy(1);
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    umbo_value *result = NULL;
    const umbo_status status = umbo_strategy_update(strategy, variable, in_an_update, NULL, self, &result);
    umbo_value_release(result);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
    return status;
}

static umbo_status make_numbers(umbo_dataset **dataset) {
    umbo_value *numbers = into_value(make_floats(1, one));
    const umbo_status status = umbo_dataset_from_tensors(numbers, dataset);
    umbo_value_release(numbers);
    return status;
}

/* The first element of a dataset. */
static umbo_status first_of(umbo_dataset *dataset) {
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    umbo_status status;
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    umbo_dataset_release(dataset);
    status = umbo_iterator_next(iterator, &element);
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    return status;
}

static umbo_status a_map(scene *self) {
    umbo_dataset *dataset = NULL;
    CHECK_OK(make_numbers(&dataset));
    CHECK_OK(umbo_dataset_map(&dataset, in_a_map, self, NULL, NULL));
    return first_of(dataset);
}

static umbo_status a_filter(scene *self) {
    umbo_dataset *dataset = NULL;
    CHECK_OK(make_numbers(&dataset));
    CHECK_OK(umbo_dataset_filter(&dataset, in_a_filter, self, NULL));
    return first_of(dataset);
}

static void release_kept(scene *self) {
    int32_t id, at;
    umbo_view view;
    for (id = 0; id < REPLICAS; id++)
        for (at = 0; at < 2; at++) {
            if (self->kept[id][at] == NULL) continue;
            CHECK_OK(umbo_tensor_view(self->kept[id][at], &view));
            umbo_tensor_release(self->kept[id][at]);
        }
}

static void each_way_out(void) {
    static umbo_status (*const calls[])(scene *) = {a_run, a_merge_call, a_nested_run, a_scope, an_update, a_map, a_filter};
    const int64_t before = live(UMBO_HANDLE_ANY);
    int32_t at;
    for (at = 0; at < COUNT_OF(calls); at++) {
        int how;
        for (how = RETURNS; how < WAYS; how++) {
            scene self;
            umbo_view view;
            umbo_status status;
            memset(&self, 0, sizeof(self));
            self.how = (way)how;
            status = calls[at](&self);
            if (how == FAILS) CHECK(status == UMBO_STATUS_DATA_LOSS);
            else if (how == STOPS_IN_TRY) CHECK(status != UMBO_OK);
            else CHECK_OK(status);
            CHECK((self.kept[0][0] != NULL) == (how == RETAINS || how == KEEPS_ALL));
            if (self.lost[0] != NULL) {
                CHECK_STATUS(umbo_tensor_view(self.lost[0], &view), UMBO_STATUS_INVALID_ARGUMENT);
                CHECK_MESSAGE("belonged to a callback that has returned; keep a reference of your own");
            }
            release_kept(&self);
            CHECK(live(UMBO_HANDLE_ANY) == before);
        }
    }
}

/* One replica ends in its way, the other one waits for it and is cancelled. */
static void a_waiting_replica(void) {
    int how;
    for (how = RETURNS; how < WAYS; how++) {
        scene self;
        memset(&self, 0, sizeof(self));
        self.how = (way)how;
        CHECK(run_with(beside_a_waiting_replica, &self) != UMBO_OK);
        release_kept(&self);
        CHECK(live(UMBO_HANDLE_ANY) == 0);
    }
}

/* ---- many handles in one callback, released by hand or left */

static umbo_status makes_many(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    scene *self = (scene *)user_data;
    umbo_tensor *first = NULL;
    umbo_view view;
    int32_t turn;
    const int64_t size = 1;
    (void)context, (void)args, (void)result;
    UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &first));
    for (turn = 0; turn < 20000; turn++) {
        umbo_tensor *tensor = NULL;
        UMBO_TRY(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
        if (self->how == RELEASES_BY_HAND || turn % 3 == 0) umbo_tensor_release(tensor);
    }
    self->live_inside = live(UMBO_HANDLE_TENSOR);
    return umbo_tensor_view(first, &view);
}

static void many_handles(void) {
    umbo_strategy *strategy = make_strategy(1);
    scene self;
    memset(&self, 0, sizeof(self));
    self.how = RELEASES_BY_HAND;
    CHECK_OK(umbo_strategy_run(strategy, makes_many, NULL, &self, NULL, NULL));
    CHECK(self.live_inside == 1 && live(UMBO_HANDLE_TENSOR) == 0);
    self.how = RETURNS;
    CHECK_OK(umbo_strategy_run(strategy, makes_many, NULL, &self, NULL, NULL));
    CHECK(self.live_inside == 1 + 20000 - 6667 && live(UMBO_HANDLE_TENSOR) == 0);
    umbo_strategy_release(strategy);
}

/* ---- what is made for longer */

typedef struct {
    umbo_variable *variable;
    umbo_dataset *dataset;
} model;

static umbo_status makes_a_model(umbo_strategy *strategy, void *user_data) {
    model *self = (model *)user_data;
    umbo_tensor *start = make_float(2);
    umbo_value *rows = into_value(make_floats(1, one));
    (void)strategy;
    UMBO_TRY(umbo_variable_create(NULL, "v", start, NULL, &self->variable));
    return umbo_dataset_from_tensor_slices(rows, &self->dataset);
}

static void objects_stay(void) {
    umbo_strategy *strategy = make_strategy(1);
    model self = {NULL, NULL};
    CHECK_OK(umbo_strategy_scope(strategy, makes_a_model, &self));
    CHECK(live(UMBO_HANDLE_TENSOR) == 0 && live(UMBO_HANDLE_VALUE) == 0);
    CHECK(live(UMBO_HANDLE_VARIABLE) == 1 && live(UMBO_HANDLE_DATASET) == 1);
    CHECK_OK(first_of(self.dataset));
    umbo_variable_release(self.variable);
    umbo_strategy_release(strategy);
}

/* ---- callbacks that return nothing: what they make is released, too, on whatever thread they are */

static int64_t makers; /* how many calls have made a tensor */

static void make_one(void) {
    umbo_tensor *tensor = NULL;
    const int64_t size = 1;
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &tensor));
    __atomic_fetch_add(&makers, 1, __ATOMIC_SEQ_CST);
}

static void in_a_destroy(void *user_data) {
    (void)user_data;
    make_one();
}

static void in_the_log(umbo_log_level level, const char *message, void *user_data) {
    (void)level, (void)message, (void)user_data;
    make_one();
}

static void on_a_thread(const umbo_replica_thread *thread, void *user_data) {
    (void)thread, (void)user_data;
    make_one();
}

static umbo_status next_in_a_pass(void *pass, void *user_data, umbo_value **element) {
    static int64_t count;
    (void)pass, (void)user_data;
    make_one();
    if (count++ % 3 == 2) return UMBO_OK;
    return umbo_value_from_data(UMBO_DTYPE_INT64, 0, NULL, &count, NULL, element);
}

static umbo_status begin_a_pass(void *user_data, void **pass) {
    (void)user_data;
    *pass = &makers;
    make_one();
    return UMBO_OK;
}

static void end_a_pass(void *pass, void *user_data) {
    CHECK(pass == &makers);
    in_a_destroy(user_data);
}

static umbo_status keep_an_error(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    (void)context, (void)args, (void)user_data, (void)result;
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", &makers, in_a_destroy);
}

/* The end of a thread that still has an error with a payload, whose destroy function makes a tensor. */
static void *leaves_an_error(void *strategy) {
    CHECK_STATUS(umbo_strategy_run((umbo_strategy *)strategy, keep_an_error, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_DATA_LOSS);
    return NULL;
}

static void callbacks_without_a_result(void) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_generator functions = UMBO_GENERATOR_INIT;
    umbo_element_spec *spec = NULL;
    umbo_strategy *strategy = NULL;
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    scene self;
    memset(&self, 0, sizeof(self));
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, in_the_log, NULL, in_a_destroy));
    options.cpu_replicas = REPLICAS;
    options.replica_thread_start = options.replica_thread_stop = on_a_thread;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_strategy_run(strategy, in_a_run, NULL, &self, NULL, NULL));
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, leaves_an_error, strategy) == 0 && pthread_join(thread, NULL) == 0);
    umbo_strategy_release(strategy);
    functions.begin = begin_a_pass, functions.next = next_in_a_pass, functions.end = end_a_pass;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_INT64, 0, NULL, &spec));
    CHECK_OK(umbo_dataset_from_generator(spec, &functions, NULL, in_a_destroy, &dataset));
    umbo_element_spec_release(spec);
    CHECK_OK(umbo_dataset_prefetch(&dataset, 2)); /* on another thread */
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, NULL, NULL, NULL));
    CHECK(__atomic_load_n(&makers, __ATOMIC_SEQ_CST) > 8);
}

/* Outside of callbacks nothing is released, and keeping means nothing. */
static void outside(void) {
    umbo_tensor *tensor;
    CHECK_OK(umbo_callback_keep_handles());
    tensor = make_float(1);
    CHECK(live(UMBO_HANDLE_TENSOR) == 1);
    umbo_tensor_release(tensor);
}

int main(void) {
    each_way_out();
    a_waiting_replica();
    many_handles();
    objects_stay();
    callbacks_without_a_result();
    outside();
    return finish();
}

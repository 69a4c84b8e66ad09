/* Batches in arrays of the program, drawn so that every two of their properties and of the ways in which they are used
 * meet: each replica sees its rows, and no others, also once the arrays were filled again, and after runs that failed. */
#ifndef UMBO_TESTS_SPLIT_PAIRS_H
#define UMBO_TESTS_SPLIT_PAIRS_H

#include "check.h"
#include "pairs.h"

enum { SPLIT_ARRAYS = 3, SPLIT_ROWS = 9, SPLIT_INNER = 6, SPLIT_BYTES = 8 * 4 * SPLIT_ROWS * (SPLIT_INNER + 3) };

enum { DTYPE, NDIM, STRIDES, ROWS, COUNT, NAMED, REPLICAS, PLACE, ENDING, REFILLED, SPLIT_FACTORS };

static const int split_levels[SPLIT_FACTORS] = {8, 3, 4, 4, 3, 2, 4, 4, 4, 2};

enum { IN_A_RUN, WITH_A_DEADLINE, NESTED, ON_THREADS };          /* PLACE */
enum { WELL, ONE_FAILS, IS_CANCELLED, MERGES };                  /* ENDING */

static const int64_t split_rows[] = {0, 1, 4, SPLIT_ROWS};
static const int64_t split_replicas[] = {1, 2, 3, 5};
static const umbo_dtype split_dtypes[] = {UMBO_DTYPE_FLOAT32, UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16, UMBO_DTYPE_FLOAT64,
                                          UMBO_DTYPE_INT32, UMBO_DTYPE_INT64, UMBO_DTYPE_UINT8, UMBO_DTYPE_BOOL};
static const size_t split_sizes[] = {4, 2, 2, 8, 4, 8, 1, 1};
static const char *const split_names[SPLIT_ARRAYS] = {"x", "y", "z"};

typedef struct {
    const int *p;
    umbo_strategy *strategy;
    umbo_value *batch;
    umbo_cancellation *token;
    int64_t replicas;
    int64_t fails_on;   /* a replica of all ranks; -1: none */
    int filled;         /* which time */
    int64_t calls, rows; /* of this process */
    unsigned char memory[SPLIT_ARRAYS][SPLIT_BYTES];
    umbo_view views[SPLIT_ARRAYS];
} split_scene;

/* The byte of which an element consists. */
static unsigned char byte_of(const split_scene *self, int array, int64_t row, int64_t inner) {
    const int64_t number = row * 31 + array * 7 + inner * 3 + self->filled * 11;
    return (unsigned char)(number % (split_dtypes[self->p[DTYPE]] == UMBO_DTYPE_BOOL ? 2 : 100));
}

/* Calls for each element of a view, with its row and its place in the row. */
static void each_element(const umbo_view *view, void (*each)(void *, int64_t, int64_t, unsigned char *), void *user_data,
                         size_t size) {
    for (int64_t row = 0; row < view->shape[0]; ++row) {
        const int64_t middle = view->ndim > 1 ? view->shape[1] : 1, last = view->ndim > 2 ? view->shape[2] : 1;
        for (int64_t j = 0; j < middle; ++j)
            for (int64_t k = 0; k < last; ++k) {
                int64_t at = row * view->strides[0];
                if (view->ndim > 1) at += j * view->strides[1];
                if (view->ndim > 2) at += k * view->strides[2];
                each(user_data, row, j * last + k, (unsigned char *)(uintptr_t)view->data + at * (int64_t)size);
            }
    }
}

typedef struct {
    split_scene *scene;
    int array;
    int64_t first;
} place_of_rows;

static void fill_element(void *user_data, int64_t row, int64_t inner, unsigned char *element) {
    const place_of_rows *const in = (const place_of_rows *)user_data;
    memset(element, byte_of(in->scene, in->array, row, inner), split_sizes[in->scene->p[DTYPE]]);
}

static void check_element(void *user_data, int64_t row, int64_t inner, unsigned char *element) {
    const place_of_rows *const in = (const place_of_rows *)user_data;
    const unsigned char expected = byte_of(in->scene, in->array, in->first + row, inner);
    for (size_t at = 0; at < split_sizes[in->scene->p[DTYPE]]; ++at) CHECK(element[at] == expected);
}

static void fill(split_scene *self) {
    for (int array = 0; array <= self->p[COUNT]; ++array) {
        place_of_rows in;
        in.scene = self, in.array = array, in.first = 0;
        each_element(&self->views[array], fill_element, &in, split_sizes[self->p[DTYPE]]);
    }
}

/* The view of an array: contiguous, with room between rows, by columns, or of every second row. */
static umbo_view view_of(split_scene *self, int array) {
    const int *const p = self->p;
    const int64_t rows = split_rows[p[ROWS]];
    const int64_t shape[3] = {rows, p[NDIM] == 2 ? 2 : SPLIT_INNER, 3};
    umbo_view view = umbo_view_of_memory(split_dtypes[p[DTYPE]], p[NDIM] + 1, shape, self->memory[array]);
    if (p[STRIDES] == 1) view.strides[0] += 3;
    if (p[STRIDES] == 2) {
        view.strides[0] = 1;
        if (view.ndim > 1) view.strides[1] = rows;
        if (view.ndim > 2) view.strides[2] = rows * shape[1];
    }
    if (p[STRIDES] == 3) view.strides[0] *= 2;
    return view;
}

static umbo_status merge_nothing(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result) {
    (void)strategy, (void)args, (void)user_data, (void)result;
    return UMBO_OK;
}

static umbo_status see_part(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    split_scene *const self = (split_scene *)user_data;
    const int64_t rows = split_rows[self->p[ROWS]], share = (rows + self->replicas - 1) / self->replicas;
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    (void)result;
    UMBO_TRY(umbo_replica_context_get_info(context, &here));
    const int64_t planned = share * here.replica_id < rows ? share * here.replica_id : rows;
    /* A check of steps splits a batch in other ways, too. */
    const int64_t first = steps_are_checked() ? here.first_example : planned;
    const int64_t left = rows - first < share ? rows - first : share;
    const int64_t count = steps_are_checked() ? here.local_example_count : left;
    CHECK(here.first_example == first && here.local_example_count == count);
    CHECK(here.global_example_count == rows || steps_are_checked());
    for (int array = 0; array <= self->p[COUNT]; ++array) {
        place_of_rows in;
        umbo_value *item = NULL;
        umbo_view view;
        in.scene = self, in.array = array, in.first = first;
        if (self->p[NAMED]) UMBO_TRY(umbo_value_view(args, split_names[array], split_dtypes[self->p[DTYPE]], &view));
        else if (self->p[COUNT] == 0) UMBO_TRY(umbo_value_view(args, NULL, split_dtypes[self->p[DTYPE]], &view));
        else {
            UMBO_TRY(umbo_value_item(args, array, &item)); /* released with the callback */
            UMBO_TRY(umbo_value_view(item, NULL, split_dtypes[self->p[DTYPE]], &view));
        }
        CHECK(view.mutable_data == NULL && view.ndim == self->p[NDIM] + 1 && view.shape[0] == count);
        each_element(&view, check_element, &in, split_sizes[self->p[DTYPE]]);
    }
    __atomic_fetch_add(&self->calls, 1, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&self->rows, count, __ATOMIC_SEQ_CST);
    if (self->p[ENDING] == MERGES) UMBO_TRY(umbo_replica_context_merge_call(context, merge_nothing, NULL, NULL, NULL));
    if (here.replica_id != self->fails_on) return UMBO_OK;
    if (self->p[ENDING] == IS_CANCELLED) {
        int32_t cancelled = 0;
        CHECK_OK(umbo_cancellation_cancel(self->token));
        while (!cancelled) CHECK_OK(umbo_replica_context_is_cancelled(context, &cancelled));
        return UMBO_STATUS_CANCELLED;
    }
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "as planned", NULL, NULL);
}

static umbo_status run_inside(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result) {
    split_scene *const self = (split_scene *)user_data;
    (void)args, (void)result;
    return umbo_strategy_run(strategy, see_part, self->batch, self, NULL, NULL);
}

static umbo_status merge_a_run(umbo_replica_context *context, const umbo_value *args, void *user_data,
                               umbo_value **result) {
    (void)args, (void)result;
    return umbo_replica_context_merge_call(context, run_inside, NULL, user_data, NULL);
}

static umbo_status run_once(split_scene *self, int is_disturbed) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    if (self->p[PLACE] == WITH_A_DEADLINE) options.timeout_seconds = 300;
    if (is_disturbed) options.cancellation = self->token;
    if (self->p[PLACE] == NESTED) return umbo_strategy_run(self->strategy, merge_a_run, NULL, self, &options, NULL);
    return umbo_strategy_run(self->strategy, see_part, self->batch, self, &options, NULL);
}

/* A run that is to succeed: all replicas of this process see all of their rows. */
static void *run_well(void *user_data) {
    CHECK_OK(run_once((split_scene *)user_data, 0));
    return NULL;
}

/* Runs on the batch as the plan says; the threads of a test are its own. */
static CHECK_MAYBE_UNUSED void split_and_run(split_scene *self, umbo_communicator *communicator, int64_t ranks,
                                             void (*on_threads)(split_scene *)) {
    const int *const p = self->p;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
    const char *const *const names = p[NAMED] ? split_names : NULL;
    const int fails = p[ENDING] == ONE_FAILS || p[ENDING] == IS_CANCELLED;
    options.cpu_replicas = split_replicas[p[REPLICAS]];
    options.communicator = communicator;
    options.bind_threads = 0;
    CHECK_OK(umbo_strategy_create(&options, &self->strategy));
    CHECK_OK(umbo_strategy_get_info(self->strategy, &info));
    self->replicas = split_replicas[p[REPLICAS]] * ranks;
    self->fails_on = -1;
    self->token = NULL;
    for (int array = 0; array <= p[COUNT]; ++array) self->views[array] = view_of(self, array);
    fill(self);
    CHECK_OK(umbo_strategy_split_arrays(self->strategy, p[COUNT] + 1, names, self->views, &self->batch));
    for (self->filled = 0; self->filled <= p[REFILLED]; ++self->filled) {
        fill(self);
        if (fails) {
            self->fails_on = self->replicas - 1;
            if (p[ENDING] == IS_CANCELLED) CHECK_OK(umbo_cancellation_create(&self->token));
            const umbo_status ended = run_once(self, 1);
            CHECK(ended == (p[ENDING] == ONE_FAILS ? UMBO_STATUS_DATA_LOSS : UMBO_STATUS_CANCELLED));
            CHECK_OK(umbo_strategy_synchronize(self->strategy));
            umbo_cancellation_release(self->token);
            self->token = NULL;
            self->fails_on = -1;
        }
        self->calls = self->rows = 0;
        if (p[PLACE] == ON_THREADS && on_threads != NULL) {
            on_threads(self);
            CHECK(is_count(self->calls, 3 * info.local_replica_count));
        } else {
            run_well(self);
            CHECK(is_count(self->calls, info.local_replica_count));
        }
    }
    if (ranks == 1) CHECK(is_count(self->rows, split_rows[p[ROWS]] * (p[PLACE] == ON_THREADS ? 3 : 1)));
    umbo_value_release(self->batch);
    umbo_strategy_release(self->strategy);
}

#endif

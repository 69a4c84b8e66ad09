/* Merge calls: once, on the calling thread, in cross-replica context; all_reduce, all_gather. */
#include <pthread.h>

#include "check.h"

#include <umbo/all.h>

typedef struct {
    pthread_t caller;
    int merges;
} merge_record;

static umbo_status nested(umbo_replica_context *context, const umbo_value *args, void *user_data,
                          umbo_value **result) {
    (void)args;
    (void)user_data;
    return return_float(100.0f + (float)replica_id(context), result);
}

static umbo_status merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                         umbo_value **result) {
    merge_record *record = (merge_record *)user_data;
    umbo_scope *scope = NULL;
    umbo_value *of_run = NULL;
    int32_t cross = 0;
    CHECK(pthread_equal(pthread_self(), record->caller));
    CHECK_OK(umbo_in_cross_replica_context(&cross));
    CHECK(cross == 1);
    CHECK(kind_of(args) == UMBO_VALUE_PER_REPLICA && count_of(args) == 3);
    CHECK(float_at(args, 0) == 1 && float_at(args, 1) == 2 && float_at(args, 2) == 3);
    record->merges++;
    CHECK_OK(umbo_scope_enter(strategy, &scope)); /* the same strategy's scope is fine */
    CHECK_OK(umbo_scope_exit(scope));
    /* A run inside of a merge function is served by the waiting replicas. */
    CHECK_OK(umbo_strategy_run(strategy, nested, NULL, NULL, NULL, &of_run));
    CHECK(float_at(of_run, 0) == 100 && float_at(of_run, 2) == 102);
    umbo_value_release(of_run);
    return umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, args, NULL, result);
}

static umbo_status merging(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    umbo_value *own = float_value((float)(replica_id(context) + 1)), *merged = NULL;
    umbo_status status = umbo_replica_context_merge_call(context, merge, user_data, own, &merged);
    (void)args;
    umbo_value_release(own);
    if (status != UMBO_OK) return status;
    CHECK(float_of(merged) == 6);
    *result = merged;
    return UMBO_OK;
}

static umbo_status split(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                         umbo_value **result) {
    (void)strategy;
    (void)user_data;
    return args == NULL ? UMBO_OK : umbo_value_retain(args, result);
}

/* What goes in per replica comes back per replica. */
static umbo_status splitting(umbo_replica_context *context, const umbo_value *args,
                             void *user_data, umbo_value **result) {
    umbo_value *own = float_value((float)replica_id(context)), *back = NULL;
    (void)args;
    (void)user_data;
    (void)result;
    CHECK_OK(umbo_replica_context_merge_call(context, split, NULL, own, &back));
    CHECK(kind_of(back) == UMBO_VALUE_TENSOR && float_of(back) == (float)replica_id(context));
    umbo_value_release(back);
    umbo_value_release(own);
    back = NULL;
    CHECK_OK(umbo_replica_context_merge_call(context, split, NULL, NULL, NULL));
    return UMBO_OK;
}

static umbo_status reducing(umbo_replica_context *context, const umbo_value *args,
                            void *user_data, umbo_value **result) {
    const int64_t rows = replica_id(context) + 1;
    const float data[3] = {1, 2, 3};
    umbo_value *own = float_value((float)rows), *ragged = floats_value(rows, data), *all = NULL;
    umbo_view view;
    (void)args;
    (void)user_data;
    (void)result;
    CHECK_OK(umbo_replica_context_all_reduce(context, UMBO_REDUCE_SUM, own, &all));
    CHECK(float_of(all) == 6);
    umbo_value_release(all);
    CHECK_OK(umbo_replica_context_all_reduce(context, UMBO_REDUCE_MEAN, own, &all));
    CHECK(float_of(all) == 2);
    umbo_value_release(all);
    CHECK_OK(umbo_replica_context_all_gather(context, ragged, -1, &all));
    CHECK_OK(umbo_value_view(all, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.ndim == 1 && view.shape[0] == 6);
    CHECK(((const float *)view.data)[1] == 1 && ((const float *)view.data)[5] == 3);
    umbo_value_release(all);
    umbo_value_release(ragged);
    umbo_value_release(own);
    return UMBO_OK;
}

static umbo_status shapes_differ(umbo_replica_context *context, const umbo_value *args,
                                 void *user_data, umbo_value **result) {
    const float data[3] = {1, 2, 3};
    umbo_value *ragged = floats_value(replica_id(context) + 1, data), *all = NULL;
    umbo_status status =
        umbo_replica_context_all_reduce(context, UMBO_REDUCE_SUM, ragged, &all);
    (void)args;
    (void)user_data;
    (void)result;
    CHECK(all == NULL);
    umbo_value_release(ragged);
    return status;
}

static umbo_status structures_differ(umbo_replica_context *context, const umbo_value *args,
                                     void *user_data, umbo_value **result) {
    const umbo_value *items[2];
    umbo_value *own = float_value(1), *tuple = NULL, *back = NULL;
    umbo_status status;
    (void)args;
    (void)user_data;
    (void)result;
    items[0] = own;
    items[1] = own;
    CHECK_OK(umbo_value_create_tuple(replica_id(context) == 2 ? 2 : 1, items, &tuple));
    status = umbo_replica_context_merge_call(context, split, NULL, tuple, &back);
    umbo_value_release(tuple);
    umbo_value_release(own);
    return status;
}

int main(void) {
    umbo_strategy *strategy = make_strategy(3), *one = make_strategy(1);
    umbo_value *result = NULL;
    merge_record record;
    int step;
    record.caller = pthread_self();
    record.merges = 0;
    for (step = 1; step <= 3; step++) {
        CHECK_OK(umbo_strategy_run(strategy, merging, &record, NULL, NULL, &result));
        CHECK(record.merges == step);
        umbo_value_release(result);
    }
    CHECK_OK(umbo_strategy_run(strategy, splitting, NULL, NULL, NULL, NULL));
    CHECK_OK(umbo_strategy_run(strategy, reducing, NULL, NULL, NULL, NULL));
    CHECK_STATUS(umbo_strategy_run(strategy, shapes_differ, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("[1]"); /* the shapes of all replicas */
    CHECK_MESSAGE("[2]");
    CHECK_MESSAGE("[3]");
    CHECK_STATUS(umbo_strategy_run(strategy, structures_differ, NULL, NULL, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("replica 2");
    CHECK_OK(umbo_strategy_run(strategy, reducing, NULL, NULL, NULL, NULL)); /* still usable */
    CHECK_OK(umbo_strategy_run(one, splitting, NULL, NULL, NULL, NULL));
    umbo_strategy_release(one);
    umbo_strategy_release(strategy);
    return finish();
}

/* run: metrics, scratch memory, places in the global batch, user data. */
#include "check.h"

static umbo_status look_around(umbo_replica_context *context, const umbo_value *args,
                               void *user_data, umbo_value **result) {
    const char *expected = NULL;
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    const umbo_strategy *strategy = (const umbo_strategy *)user_data;
    int32_t cancelled = -1;
    CHECK(args == NULL && *result == NULL);
    here.stream = &here;
    CHECK_OK(umbo_replica_context_get_info(context, &here));
    CHECK(here.replica_count == 3 && here.replica_id >= 0 && here.replica_id < 3);
    CHECK(here.local_replica_id == here.replica_id);
    CHECK_OK(umbo_strategy_compute_device(strategy, here.local_replica_id, &expected));
    CHECK(strcmp(here.device, expected) == 0);
    CHECK(here.stream == NULL); /* a CPU has none */
    CHECK_OK(umbo_replica_context_is_cancelled(context, &cancelled));
    CHECK(cancelled == 0);
    return UMBO_OK; /* no result at all */
}

static void no_arguments_no_result(umbo_strategy *strategy) {
    umbo_value *result = NULL;
    CHECK_OK(umbo_strategy_run(strategy, look_around, NULL, strategy, NULL, &result));
    CHECK(result == NULL);
    CHECK_OK(umbo_strategy_run(strategy, look_around, NULL, strategy, NULL, NULL));
    CHECK(info_of(strategy).late_replica_count == 0);
}

static umbo_status measure(umbo_replica_context *context, const umbo_value *args,
                           void *user_data, umbo_value **result) {
    const int32_t id = replica_id(context);
    (void)args;
    (void)result;
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", 1 + id, 2));
    UMBO_TRY(umbo_replica_context_add_metric(context, "loss", 1, 1)); /* adds up */
    if (user_data != NULL) return umbo_set_last_error(UMBO_STATUS_ABORTED, "not this time", NULL, NULL);
    return UMBO_OK;
}

static void metrics(umbo_strategy *strategy) {
    int fail = 1;
    ZEROED(umbo_metric_result, metric);
    CHECK_OK(umbo_strategy_run(strategy, measure, NULL, NULL, NULL, NULL));
    CHECK_OK(umbo_strategy_metric_result(strategy, "loss", &metric));
    CHECK(metric.sum == 1 + 2 + 3 + 3 && metric.weight == 9 && metric.mean == 1);
    CHECK_STATUS(umbo_strategy_metric_result(strategy, "accuracy", &metric), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("accuracy");
    /* A failed step has no metrics: those of the last committed one stay. */
    CHECK_STATUS(umbo_strategy_run(strategy, measure, NULL, &fail, NULL, NULL), UMBO_STATUS_ABORTED);
    CHECK_OK(umbo_strategy_metric_result(strategy, "loss", &metric));
    CHECK(metric.sum == 9 && metric.weight == 9);
}

typedef struct {
    void *first[3];
} scratch_addresses;

static umbo_status use_scratch(umbo_replica_context *context, const umbo_value *args,
                               void *user_data, umbo_value **result) {
    scratch_addresses *addresses = (scratch_addresses *)user_data;
    void *a = NULL, *b = NULL;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_replica_context_scratch(context, 1000, &a));
    UMBO_TRY(umbo_replica_context_scratch(context, 100000, &b));
    CHECK((uintptr_t)a % 64 == 0 && (uintptr_t)b % 64 == 0);
    CHECK((char *)b >= (char *)a + 1000 || (char *)a >= (char *)b + 100000);
    memset(a, 1, 1000);
    memset(b, 2, 100000);
    CHECK(((char *)a)[999] == 1);
    CHECK_STATUS(umbo_replica_context_scratch(context, SIZE_MAX, &b), UMBO_STATUS_RESOURCE_EXHAUSTED);
    addresses->first[replica_id(context)] = a;
    return UMBO_OK;
}

static void scratch(umbo_strategy *strategy) {
    scratch_addresses first, second;
    CHECK_OK(umbo_strategy_run(strategy, use_scratch, NULL, &first, NULL, NULL));
    CHECK(first.first[0] != first.first[1] && first.first[1] != first.first[2]);
    CHECK_OK(umbo_strategy_run(strategy, use_scratch, NULL, &first, NULL, NULL));
    CHECK_OK(umbo_strategy_run(strategy, use_scratch, NULL, &second, NULL, NULL));
    CHECK(memcmp(&first, &second, sizeof(first)) == 0); /* reused from step to step */
}

typedef struct {
    umbo_replica_context_info position[3];
    int64_t rows[3];
} places;

static umbo_status note_place(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    places *noted = (places *)user_data;
    umbo_view view;
    ZEROED(umbo_replica_context_info, position);
    (void)result;
    UMBO_TRY(umbo_replica_context_get_info(context, &position));
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &view));
    noted->position[replica_id(context)] = position;
    noted->rows[replica_id(context)] = view.shape[0];
    return UMBO_OK;
}

/* A batch of 4 over 3 replicas is 2, 2, 0; the empty replica runs too. */
static void batch_position_and_empty_replicas(umbo_strategy *strategy) {
    const float data[4] = {0, 1, 2, 3};
    umbo_value *components = floats_value(4, data), *element = NULL;
    umbo_dataset *slices = NULL, *batches = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    places noted;
    int64_t examples = -1, step;
    int replica;
    CHECK_OK(umbo_dataset_from_tensor_slices(components, &slices));
    CHECK_OK(umbo_dataset_retain(slices, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 4, 0));
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, batches, NULL, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_example_count(element, UMBO_ALL, &examples));
    CHECK(examples == 4);
    CHECK_OK(umbo_value_example_count(element, 2, &examples));
    CHECK(examples == 0);

    memset(&noted, -1, sizeof(noted));
    CHECK_OK(umbo_strategy_run(strategy, note_place, element, &noted, NULL, NULL));
    for (replica = 0; replica < 3; replica++) {
        const int64_t rows = replica < 2 ? 2 : 0;
        CHECK(noted.rows[replica] == rows);
        CHECK(noted.position[replica].local_example_count == rows);
        CHECK(noted.position[replica].first_example == 2 * replica);
        CHECK(noted.position[replica].global_example_count == 4);
        CHECK(noted.position[replica].step == noted.position[0].step);
    }
    step = noted.position[0].step;
    CHECK_OK(umbo_strategy_run(strategy, note_place, element, &noted, NULL, NULL));
    CHECK(noted.position[0].step == step + 1);
    /* A tensor that is the same for all replicas does not tell it. */
    CHECK_OK(umbo_strategy_run(strategy, note_place, components, &noted, NULL, NULL));
    CHECK(noted.position[2].first_example == 0);
    CHECK(noted.position[2].local_example_count == UMBO_NONE && noted.position[2].global_example_count == UMBO_NONE);

    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(distributed);
    umbo_dataset_release(batches);
    umbo_dataset_release(slices);
    umbo_value_release(components);
}

static void count_destroyed(void *user_data) { ++*(int *)user_data; }

/* user_data_destroy runs exactly once, also when the run is refused. */
static void destroy_once(umbo_strategy *strategy) {
    int destroyed = 0;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.user_data_destroy = count_destroyed;
    CHECK_OK(umbo_strategy_run(strategy, nothing, NULL, &destroyed, &options, NULL));
    CHECK(destroyed == 1);
    options.timeout_seconds = -2;
    CHECK_STATUS(umbo_strategy_run(strategy, nothing, NULL, &destroyed, &options, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("timeout_seconds");
    CHECK(destroyed == 2);
    options.timeout_seconds = 0; /* no time at all */
    CHECK_STATUS(umbo_strategy_run(strategy, nothing, NULL, &destroyed, &options, NULL),
                 UMBO_STATUS_DEADLINE_EXCEEDED);
    CHECK_OK(umbo_strategy_synchronize(strategy));
    CHECK(destroyed == 3);
}

/* ---- runs in merge calls in runs */

static umbo_status go_deeper(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result);

static umbo_status merge_deeper(umbo_replica_context *context, const umbo_value *args, void *user_data, umbo_value **result) {
    (void)args, (void)result;
    return umbo_replica_context_merge_call(context, go_deeper, NULL, user_data, NULL);
}

static umbo_status go_deeper(umbo_strategy *strategy, const umbo_value *args, void *user_data, umbo_value **result) {
    (void)args, (void)result;
    ++*(int *)user_data;
    return umbo_strategy_run(strategy, merge_deeper, NULL, user_data, NULL, NULL);
}

/* A callback that calls itself ends with a message, and not with the thread's stack. */
static void nesting_has_an_end(void) {
    umbo_strategy *strategy = make_strategy(2);
    int depth = 0;
    CHECK_STATUS(umbo_strategy_run(strategy, merge_deeper, NULL, &depth, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("64 runs, merge calls and updates, and no more can be nested");
    CHECK(depth == 32);
    CHECK_OK(umbo_strategy_run(strategy, nothing, NULL, NULL, NULL, NULL));
    umbo_strategy_release(strategy);
}

int main(void) {
    nesting_has_an_end();
    umbo_strategy *strategy = make_strategy(3);
    no_arguments_no_result(strategy);
    metrics(strategy);
    scratch(strategy);
    batch_position_and_empty_replicas(strategy);
    destroy_once(strategy);
    umbo_strategy_release(strategy);
    return finish();
}

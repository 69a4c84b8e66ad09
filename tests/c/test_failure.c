/* Callbacks that fail: each replica's error, with what it carries; and callbacks that return nonsense. */
#include "check.h"

#define REPLICAS 4

typedef struct {
    unsigned failing; /* one bit for each replica */
    int destroyed;
} plan;

static void destroy_payload(void *payload) { ++*(int *)payload; }

static umbo_status fail(plan *self, int32_t id) {
    char message[64];
    snprintf(message, sizeof(message), "trouble number %d", (int)id);
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, message, &self->destroyed, destroy_payload);
}

static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    plan *self = (plan *)user_data;
    const int32_t id = replica_id(context);
    (void)args;
    if ((self->failing >> id) & 1) return fail(self, id);
    return return_float((float)id, result);
}

static void failing_replicas(umbo_strategy *strategy, unsigned failing) {
    const int64_t handles = live(UMBO_HANDLE_ANY);
    umbo_value *result = NULL;
    int64_t index, count;
    unsigned reported = 0;
    int expected_destroyed = 0;
    int32_t previous = -1, id;
    plan self = {0, 0};
    self.failing = failing;
    CHECK_STATUS(umbo_strategy_run(strategy, step, NULL, &self, NULL, &result), UMBO_STATUS_DATA_LOSS);
    CHECK(result == NULL);
    count = umbo_last_error_count();
    CHECK(count >= 1 && count <= REPLICAS);
    for (index = 0; index < count; index++) {
        ZEROED(umbo_error_info, info);
        char words[64];
        CHECK_OK(umbo_last_error_at(index, &info));
        CHECK(info.replica > previous && info.replica < REPLICAS); /* in replica order */
        previous = info.replica;
        CHECK(strstr(info.device, "/device:CPU:") != NULL && info.status == UMBO_STATUS_DATA_LOSS);
        snprintf(words, sizeof(words), "trouble number %d", (int)info.replica);
        CHECK(strstr(info.message, words) != NULL);
        CHECK(strstr(umbo_last_error_message(), words) != NULL);
        CHECK(info.payload == &self.destroyed && info.payload_destroy == destroy_payload);
        reported |= 1u << info.replica;
    }
    CHECK(reported == failing); /* all of them, not only the first */
    CHECK(self.destroyed == 0);
    for (id = 0; id < REPLICAS; id++) expected_destroyed += (int)((failing >> id) & 1);
    umbo_clear_last_error();
    CHECK(umbo_last_error_count() == 0 && umbo_last_error_message()[0] == '\0');
    CHECK(self.destroyed == expected_destroyed); /* each payload once */
    CHECK(live(UMBO_HANDLE_ANY) == handles);
}

static umbo_status unknown_status(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    return replica_id(context) == 1 ? (umbo_status)12345 : UMBO_OK;
}

static umbo_status silent_failure(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    return replica_id(context) == 1 ? UMBO_STATUS_ABORTED : UMBO_OK;
}

static umbo_status foreign_result(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)args;
    if (replica_id(context) == 1) {
        *result = (umbo_value *)user_data; /* no handle of ours */
        return UMBO_OK;
    }
    return return_float(1, result);
}

/* Callbacks that return nonsense. */
static void nonsense(umbo_strategy *strategy) {
    umbo_value *result = NULL;
    int no_handle = 0;
    CHECK(umbo_strategy_run(strategy, unknown_status, NULL, NULL, NULL, NULL) != UMBO_OK);
    CHECK_MESSAGE("12345");
    CHECK_MESSAGE("replica 1");
    CHECK_STATUS(umbo_strategy_run(strategy, silent_failure, NULL, NULL, NULL, NULL), UMBO_STATUS_ABORTED);
    CHECK_MESSAGE("replica 1");
    CHECK_STATUS(umbo_strategy_run(strategy, foreign_result, NULL, &no_handle, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("replica 1");
    CHECK(result == NULL);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(REPLICAS);
    failing_replicas(strategy, 1u << 2);
    failing_replicas(strategy, (1u << 1) | (1u << 3));
    failing_replicas(strategy, 15u);
    nonsense(strategy);
    umbo_strategy_release(strategy);
    return finish();
}

/* Callbacks that fail, in every place; and that nothing of a failed step stays. */
#include "check.h"

#define REPLICAS 4

typedef enum { BEFORE, IN_MERGE, AFTER, NOWHERE } place;

typedef struct {
    umbo_variable *variable;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    unsigned failing; /* one bit for each replica */
    place where;
    unsigned absent_from_merge; /* one bit for each replica */
    int merges;
    int destroyed;
} plan;

static void destroy_payload(void *payload) { ++*(int *)payload; }

static umbo_status fail(plan *self, int32_t id) {
    char message[64];
    snprintf(message, sizeof(message), "trouble number %d", (int)id);
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, message, &self->destroyed, destroy_payload);
}

static umbo_status merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                         umbo_value **result) {
    plan *self = (plan *)user_data;
    (void)strategy;
    (void)args;
    (void)result;
    self->merges++;
    if (self->where == IN_MERGE) {
        return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, "trouble in the merge", NULL, NULL);
    }
    return UMBO_OK;
}

static umbo_status other_merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                               umbo_value **result) {
    return merge(strategy, args, user_data, result);
}

/* Changes everything that a step can change, and fails where the plan says. */
static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    plan *self = (plan *)user_data;
    const int32_t id = replica_id(context);
    const int fails = (self->failing >> id) & 1;
    umbo_view gradient;
    umbo_value *own;
    umbo_status status;
    (void)args;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    *(float *)gradient.mutable_data = 1;
    UMBO_TRY(umbo_gradients_submit_weighted(self->gradients, context, 1));
    UMBO_TRY(umbo_replica_context_add_metric(context, "steps", 1, 1));
    own = float_value(1);
    status = umbo_variable_assign_add(self->variable, own);
    umbo_value_release(own);
    if (status != UMBO_OK) return status;
    if (fails && self->where == BEFORE) return fail(self, id);
    UMBO_TRY(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL));
    if (!((self->absent_from_merge >> id) & 1)) {
        UMBO_TRY(umbo_replica_context_merge_call(context, merge, self, NULL, NULL));
    }
    if (fails && self->where == AFTER) return fail(self, id);
    return return_float((float)id, result);
}

/* FNV-1a over everything that can be read of the central state. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t count) {
    const unsigned char *byte = (const unsigned char *)bytes;
    size_t index;
    for (index = 0; index < count; index++) hash = (hash ^ byte[index]) * 1099511628211u;
    return hash;
}

static uint64_t hash_state(umbo_strategy *strategy, const plan *self) {
    uint64_t hash = 14695981039346656037u;
    const float value = float_of_variable(self->variable);
    int64_t iterations = -1;
    umbo_tensor *momentum = NULL;
    float number = 0;
    ZEROED(umbo_metric, metric);
    iterations = optimizer_info_of(self->optimizer).iterations;
    CHECK_OK(umbo_optimizer_state(self->optimizer, self->variable, "momentum", &momentum));
    CHECK_OK(umbo_tensor_copy_to_host(momentum, &number, sizeof(number)));
    umbo_tensor_release(momentum);
    CHECK_OK(umbo_strategy_metric(strategy, "steps", &metric));
    hash = hash_bytes(hash, &value, sizeof(value));
    hash = hash_bytes(hash, &iterations, sizeof(iterations));
    hash = hash_bytes(hash, &number, sizeof(number));
    hash = hash_bytes(hash, &metric.sum, sizeof(metric.sum));
    return hash_bytes(hash, &metric.weight, sizeof(metric.weight));
}

static void succeed(umbo_strategy *strategy, plan *self) {
    umbo_value *result = NULL;
    const int64_t handles = live(UMBO_HANDLE_ANY);
    self->failing = 0;
    self->where = NOWHERE;
    self->absent_from_merge = 0;
    CHECK_OK(umbo_strategy_run(strategy, step, self, NULL, NULL, &result));
    CHECK(count_of(result) == REPLICAS);
    umbo_value_release(result);
    CHECK(live(UMBO_HANDLE_ANY) == handles);
}

static void failing_replicas(umbo_strategy *strategy, plan *self, unsigned failing, place where) {
    const uint64_t before = hash_state(strategy, self);
    const int64_t handles = live(UMBO_HANDLE_ANY);
    umbo_value *result = NULL;
    int64_t index, count;
    unsigned reported = 0;
    int expected_destroyed = 0;
    int32_t previous = -1, id;
    self->failing = failing;
    self->where = where;
    self->destroyed = 0;
    CHECK_STATUS(umbo_strategy_run(strategy, step, self, NULL, NULL, &result), UMBO_STATUS_DATA_LOSS);
    CHECK(result == NULL);
    count = umbo_last_error_count();
    CHECK(count >= 1 && count <= REPLICAS);
    for (index = 0; index < count; index++) {
        ZEROED(umbo_error_info, info);
        CHECK_OK(umbo_last_error_at(index, &info));
        CHECK(info.replica > previous && info.replica < REPLICAS); /* in replica order */
        previous = info.replica;
        CHECK(strstr(info.device, "/device:CPU:") != NULL);
        if (info.status == UMBO_STATUS_DATA_LOSS) {
            char words[64];
            snprintf(words, sizeof(words), "trouble number %d", (int)info.replica);
            CHECK(strstr(info.message, words) != NULL);
            CHECK(strstr(umbo_last_error_message(), words) != NULL);
            CHECK(info.payload == &self->destroyed && info.payload_destroy == destroy_payload);
            reported |= 1u << info.replica;
        } else {
            CHECK(info.status == UMBO_STATUS_CANCELLED); /* stopped because of the others */
        }
    }
    CHECK(reported == failing); /* all of them, not only the first */
    CHECK(self->destroyed == 0);
    for (id = 0; id < REPLICAS; id++) expected_destroyed += (int)((failing >> id) & 1);
    umbo_clear_last_error();
    CHECK(umbo_last_error_count() == 0 && umbo_last_error_message()[0] == '\0');
    CHECK(self->destroyed == expected_destroyed); /* each payload once */
    CHECK(hash_state(strategy, self) == before);
    CHECK(live(UMBO_HANDLE_ANY) == handles);
    succeed(strategy, self);
}

static void failing_merge(umbo_strategy *strategy, plan *self) {
    const uint64_t before = hash_state(strategy, self);
    self->failing = 0;
    self->where = IN_MERGE;
    self->merges = 0;
    CHECK_STATUS(umbo_strategy_run(strategy, step, self, NULL, NULL, NULL), UMBO_STATUS_UNAVAILABLE);
    CHECK_MESSAGE("trouble in the merge");
    CHECK(self->merges == 1);
    CHECK(hash_state(strategy, self) == before);
    succeed(strategy, self);
}

static umbo_status different_functions(umbo_replica_context *context, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    (void)args;
    (void)result;
    return umbo_replica_context_merge_call(context, replica_id(context) == 2 ? other_merge : merge,
                                           user_data, NULL, NULL);
}

static umbo_status different_operations(umbo_replica_context *context, const umbo_value *args,
                                        void *user_data, umbo_value **result) {
    umbo_value *own = float_value(1), *all = NULL;
    umbo_status status = umbo_replica_context_all_reduce(
        context, replica_id(context) == 1 ? UMBO_REDUCE_MEAN : UMBO_REDUCE_SUM, own, &all);
    (void)args;
    (void)user_data;
    (void)result;
    umbo_value_release(own);
    umbo_value_release(all);
    return status;
}

static void disagreement(umbo_strategy *strategy, plan *self) {
    static const unsigned absent[3] = {1u << 0, 1u << 3, 7u};
    int index;
    for (index = 0; index < 3; index++) {
        const uint64_t before = hash_state(strategy, self);
        self->failing = 0;
        self->where = NOWHERE;
        self->absent_from_merge = absent[index];
        self->merges = 0;
        CHECK_STATUS(umbo_strategy_run(strategy, step, self, NULL, NULL, NULL),
                     UMBO_STATUS_FAILED_PRECONDITION);
        CHECK_MESSAGE("merge");
        CHECK_MESSAGE("replica");
        CHECK(self->merges == 0);
        CHECK(hash_state(strategy, self) == before);
        succeed(strategy, self);
    }
    self->merges = 0;
    CHECK_STATUS(umbo_strategy_run(strategy, different_functions, self, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("replica 2");
    CHECK(self->merges == 0);
    CHECK_STATUS(umbo_strategy_run(strategy, different_operations, self, NULL, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("replica 1");
    succeed(strategy, self);
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
    CHECK_STATUS(umbo_strategy_run(strategy, foreign_result, &no_handle, NULL, NULL, &result),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("replica 1");
    CHECK(result == NULL);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(REPLICAS);
    plan self;
    umbo_gradients_options gradients_options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_momentum_options momentum_options = UMBO_MOMENTUM_OPTIONS_INIT;
    memset(&self, 0, sizeof(self));
    self.where = NOWHERE;
    self.variable = make_variable(strategy, 10, UMBO_AGGREGATION_SUM);
    gradients_options.loss_reduction = UMBO_LOSS_SUM;
    CHECK_OK(umbo_gradients_create(strategy, 1, &self.variable,
                                   &gradients_options, &self.gradients));
    CHECK_OK(umbo_optimizer_create_momentum(strategy, &momentum_options, &self.optimizer));
    succeed(strategy, &self);

    failing_replicas(strategy, &self, 1u << 2, BEFORE);
    failing_replicas(strategy, &self, 1u << 0, BEFORE);
    failing_replicas(strategy, &self, (1u << 1) | (1u << 3), BEFORE);
    failing_replicas(strategy, &self, 15u, BEFORE);
    failing_merge(strategy, &self);
    failing_replicas(strategy, &self, 1u << 2, AFTER);
    failing_replicas(strategy, &self, (1u << 0) | (1u << 3), AFTER);
    failing_replicas(strategy, &self, 15u, AFTER);
    disagreement(strategy, &self);
    nonsense(strategy);

    umbo_optimizer_release(self.optimizer);
    umbo_gradients_release(self.gradients);
    umbo_variable_release(self.variable);
    umbo_strategy_release(strategy);
    return finish();
}

/* Variables: creation, assignment in every context by every aggregation, commit and rollback. */
#include "check.h"

#include <umbo/all.h>

typedef enum { ASSIGN, ASSIGN_ADD, ASSIGN_SUB } assignment;

static umbo_status assign(assignment how, umbo_variable *variable, const umbo_value *value) {
    if (how == ASSIGN) return umbo_variable_assign(variable, value);
    if (how == ASSIGN_ADD) return umbo_variable_assign_add(variable, value);
    return umbo_variable_assign_sub(variable, value);
}

typedef struct {
    umbo_variable *variable;
    umbo_value *same; /* the same object on all replicas, or NULL: replica id + 1 */
    assignment how;
    float expected; /* what the replicas read afterwards */
    int fail_afterwards;
} assigning;

static umbo_status assign_in_replica(umbo_replica_context *context, const umbo_value *args,
                                     void *user_data, umbo_value **result) {
    const assigning *self = (const assigning *)user_data;
    umbo_view view;
    (void)args;
    (void)result;
    if (self->same != NULL) {
        UMBO_TRY(assign(self->how, self->variable, self->same));
    } else {
        umbo_value *own = float_value((float)(replica_id(context) + 1));
        umbo_status status = assign(self->how, self->variable, own);
        umbo_value_release(own);
        if (status != UMBO_OK) return status;
    }
    UMBO_TRY(umbo_variable_view(self->variable, context, UMBO_DTYPE_NONE, &view));
    CHECK(*(const float *)view.data == self->expected); /* later reads in the step see it */
    if (self->fail_afterwards && replica_id(context) == 1) {
        return umbo_set_last_error(UMBO_STATUS_ABORTED, "changed my mind", NULL, NULL);
    }
    return UMBO_OK;
}

/* Variable 10, values 1 and 2 on two replicas. */
static void table_of_aggregations(umbo_strategy *strategy) {
    static const umbo_aggregation modes[3] = {UMBO_AGGREGATION_SUM, UMBO_AGGREGATION_MEAN,
                                              UMBO_AGGREGATION_ONLY_FIRST_REPLICA};
    static const float expected[3][3] = {{3, 13, 7}, {1.5f, 11.5f, 8.5f}, {1, 11, 9}};
    int mode, how;
    for (mode = 0; mode < 3; mode++) {
        for (how = ASSIGN; how <= ASSIGN_SUB; how++) {
            assigning self = {NULL, NULL, ASSIGN, 0, 0};
            self.variable = make_variable(strategy, 10, modes[mode]);
            self.how = (assignment)how;
            self.expected = expected[mode][how];
            CHECK_OK(umbo_strategy_run(strategy, assign_in_replica, &self, NULL, NULL, NULL));
            CHECK(float_of_variable(self.variable) == self.expected);
            umbo_variable_release(self.variable);
        }
    }
}

/* The very same tensor on all replicas. */
static void same_object(umbo_strategy *strategy) {
    umbo_value *four = float_value(4);
    umbo_aggregation mode;
    for (mode = UMBO_AGGREGATION_SUM; mode <= UMBO_AGGREGATION_ONLY_FIRST_REPLICA;
         mode = (umbo_aggregation)(mode + 1)) {
        assigning self = {NULL, NULL, ASSIGN_ADD, 14, 0};
        self.variable = make_variable(strategy, 10, mode);
        self.same = four;
        if (mode == UMBO_AGGREGATION_SUM) {
            CHECK_STATUS(umbo_strategy_run(strategy, assign_in_replica, &self, NULL, NULL, NULL),
                         UMBO_STATUS_INVALID_ARGUMENT);
            CHECK(float_of_variable(self.variable) == 10);
        } else {
            CHECK_OK(umbo_strategy_run(strategy, assign_in_replica, &self, NULL, NULL, NULL));
            CHECK(float_of_variable(self.variable) == 14);
        }
        umbo_variable_release(self.variable);
    }
    umbo_value_release(four);
}

/* Cross-replica context: once, with the value given, whatever the aggregation. */
static void cross_replica(umbo_strategy *strategy) {
    umbo_value *two = float_value(2);
    umbo_aggregation mode;
    for (mode = UMBO_AGGREGATION_NONE; mode <= UMBO_AGGREGATION_ONLY_FIRST_REPLICA;
         mode = (umbo_aggregation)(mode + 1)) {
        umbo_variable *variable = make_variable(strategy, 10, mode);
        CHECK_OK(umbo_variable_assign_add(variable, two));
        CHECK(float_of_variable(variable) == 12);
        CHECK_OK(umbo_variable_assign_sub(variable, two));
        CHECK(float_of_variable(variable) == 10);
        CHECK_OK(umbo_variable_assign(variable, two));
        CHECK(float_of_variable(variable) == 2);
        umbo_variable_release(variable);
    }
    umbo_value_release(two);
}

static void refused(umbo_strategy *strategy) {
    const int32_t number = 10;
    const float pair[2] = {1, 2};
    assigning self = {NULL, NULL, ASSIGN, 1, 0};
    umbo_value *wrong = floats_value(2, pair), *wrong_dtype;
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_INT32, 0, NULL, &number);

    self.variable = make_variable(strategy, 10, UMBO_AGGREGATION_NONE);
    CHECK_STATUS(umbo_strategy_run(strategy, assign_in_replica, &self, NULL, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("aggregation");
    CHECK_MESSAGE("replica 0");
    CHECK(float_of_variable(self.variable) == 10);
    CHECK_STATUS(umbo_variable_assign(self.variable, wrong), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("shape");
    CHECK_OK(umbo_value_from_tensor(initial, &wrong_dtype));
    CHECK_STATUS(umbo_variable_assign(self.variable, wrong_dtype), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(float_of_variable(self.variable) == 10);
    umbo_value_release(wrong_dtype);
    umbo_value_release(wrong);
    umbo_variable_release(self.variable);

    umbo_tensor_release(initial);
}

static umbo_status assign_integer(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    int32_t number = replica_id(context);
    umbo_value *value = into_value(make_tensor(UMBO_DTYPE_INT32, 0, NULL, &number));
    umbo_status status = umbo_variable_assign((umbo_variable *)user_data, value);
    (void)args;
    (void)result;
    umbo_value_release(value);
    return status;
}

/* A mean of integers is no integer. */
static void mean_of_integers(umbo_strategy *strategy) {
    const int32_t ten = 10;
    int32_t now = 0;
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_INT32, 0, NULL, &ten), *read = NULL;
    umbo_variable *variable = NULL;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.aggregation = UMBO_AGGREGATION_MEAN;
    CHECK_OK(umbo_variable_create(strategy, "counter", initial, &options, &variable));
    CHECK_STATUS(umbo_strategy_run(strategy, assign_integer, variable, NULL, NULL, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("MEAN");
    CHECK_OK(umbo_variable_read(variable, &read));
    CHECK_OK(umbo_tensor_copy_to_host(read, &now, sizeof(now)));
    CHECK(now == 10);
    umbo_tensor_release(read);
    umbo_variable_release(variable);
    umbo_tensor_release(initial);
}

/* With one replica assignments act directly, for every mode. */
static void one_replica(void) {
    umbo_strategy *strategy = make_strategy(1);
    umbo_aggregation mode;
    for (mode = UMBO_AGGREGATION_NONE; mode <= UMBO_AGGREGATION_ONLY_FIRST_REPLICA;
         mode = (umbo_aggregation)(mode + 1)) {
        assigning self = {NULL, NULL, ASSIGN_ADD, 11, 0};
        self.variable = make_variable(strategy, 10, mode);
        CHECK_OK(umbo_strategy_run(strategy, assign_in_replica, &self, NULL, NULL, NULL));
        CHECK(float_of_variable(self.variable) == 11);
        umbo_variable_release(self.variable);
    }
    umbo_strategy_release(strategy);
}

/* Nothing of a failed step stays. */
static void rolled_back(umbo_strategy *strategy) {
    assigning self = {NULL, NULL, ASSIGN_ADD, 13, 1};
    self.variable = make_variable(strategy, 10, UMBO_AGGREGATION_SUM);
    CHECK_STATUS(umbo_strategy_run(strategy, assign_in_replica, &self, NULL, NULL, NULL),
                 UMBO_STATUS_ABORTED);
    CHECK_MESSAGE("replica 1");
    CHECK(float_of_variable(self.variable) == 10);
    self.fail_afterwards = 0;
    CHECK_OK(umbo_strategy_run(strategy, assign_in_replica, &self, NULL, NULL, NULL));
    CHECK(float_of_variable(self.variable) == 13);
    umbo_variable_release(self.variable);
}

static umbo_status add_to_plain(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    umbo_value *own = float_value((float)(replica_id(context) + 1));
    umbo_status status = umbo_variable_assign_add((umbo_variable *)user_data, own);
    (void)args;
    (void)result;
    umbo_value_release(own);
    return status;
}

/* Made outside of the strategy: each replica's call acts on it, 10 + 1 + 2. */
static void plain_variable_from_outside(umbo_strategy *strategy) {
    umbo_strategy *outside = NULL;
    umbo_variable *variable = NULL;
    umbo_tensor *initial = make_float(10);
    int32_t created = -1;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    CHECK_OK(umbo_default_strategy(&outside));
    CHECK_OK(umbo_variable_create(NULL, NULL, initial, &options, &variable));
    CHECK_OK(umbo_strategy_created_variable(strategy, variable, &created));
    CHECK(created == 0);
    CHECK_OK(umbo_strategy_run(strategy, add_to_plain, variable, NULL, NULL, NULL));
    CHECK(float_of_variable(variable) == 13);
    umbo_variable_release(variable);
    umbo_tensor_release(initial);
    umbo_strategy_release(outside);
}

static umbo_status fill_with_seven(const umbo_view *memory, void *user_data) {
    int64_t index;
    for (index = 0; index < memory->shape[0]; index++) ((float *)memory->mutable_data)[index] = 7;
    *(int *)user_data += 1;
    return UMBO_OK;
}

static umbo_status refuse_to_fill(const umbo_view *memory, void *user_data) {
    (void)memory;
    (void)user_data;
    return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, "no seed today", NULL, NULL);
}

static void creation_and_questions(umbo_strategy *strategy) {
    const int64_t shape[1] = {3};
    int calls = 0;
    int32_t answer = -1;
    umbo_variable_info info;
    umbo_strategy *copy_of_strategy = NULL;
    umbo_variable *variable = NULL, *copy = NULL, *refused_variable = NULL;
    umbo_value *value = NULL;
    umbo_scope *scope = NULL;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.initializer = fill_with_seven;
    options.initializer_user_data = &calls;
    options.dtype = UMBO_DTYPE_FLOAT32;
    options.ndim = 1;
    options.shape = shape;
    options.trainable = 0;
    options.aggregation = UMBO_AGGREGATION_MEAN;
    CHECK_OK(umbo_scope_enter(strategy, &scope));
    CHECK_OK(umbo_variable_create(NULL, NULL, NULL, &options, &variable)); /* the current one */
    CHECK_OK(umbo_scope_exit(scope));
    CHECK(calls == 1 && float_of_variable(variable) == 7);
    info = facts_of(variable);
    CHECK(strncmp(info.name, "Variable", 8) == 0);
    CHECK(info.dtype == UMBO_DTYPE_FLOAT32 && info.ndim == 1 && info.shape[0] == shape[0] && info.shape[1] == 0);
    CHECK(info.trainable == 0 && info.aggregation == UMBO_AGGREGATION_MEAN);
    CHECK(strcmp(info.device, "/job:localhost/replica:0/task:0/device:CPU:0") == 0);
    CHECK_OK(umbo_strategy_created_variable(strategy, variable, &answer));
    CHECK(answer == 1);
    CHECK_OK(umbo_strategy_copy(strategy, &copy_of_strategy));
    CHECK_OK(umbo_strategy_created_variable(copy_of_strategy, variable, &answer));
    CHECK(answer == 0);
    umbo_strategy_release(copy_of_strategy);

    CHECK_OK(umbo_variable_copy(variable, &copy)); /* another variable */
    CHECK_OK(umbo_value_from_variable(variable, &value));
    umbo_value_release(value);
    {
        const float ones[3] = {1, 1, 1};
        value = floats_value(3, ones);
    }
    CHECK_OK(umbo_variable_assign(copy, value));
    CHECK(float_of_variable(copy) == 1 && float_of_variable(variable) == 7);
    umbo_value_release(value);
    umbo_variable_release(copy);
    umbo_variable_release(variable);

    options.initializer = refuse_to_fill;
    CHECK_STATUS(umbo_variable_create(strategy, "w", NULL, &options, &refused_variable),
                 UMBO_STATUS_UNAVAILABLE);
    CHECK_MESSAGE("no seed today");
    options.initializer = NULL;
    CHECK_STATUS(umbo_variable_create(strategy, "w", NULL, &options, &refused_variable),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("initial");
    CHECK(refused_variable == NULL);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    creation_and_questions(strategy);
    cross_replica(strategy);
    table_of_aggregations(strategy);
    same_object(strategy);
    refused(strategy);
    mean_of_integers(strategy);
    one_replica();
    rolled_back(strategy);
    plain_variable_from_outside(strategy);
    umbo_strategy_release(strategy);
    return finish();
}

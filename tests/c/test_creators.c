/* Variable creators: what they see, what they change, in which order, where. */
#include "check.h"

#include <umbo/all.h>

static umbo_variable *create(umbo_strategy *strategy, const char *name) {
    umbo_variable *variable = NULL;
    umbo_tensor *initial = make_float(1);
    CHECK_OK(umbo_variable_create(strategy, name, initial, NULL, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static int has_name(const umbo_variable *variable, const char *expected) {
    return strcmp(facts_of(variable).name, expected) == 0;
}

/* Changes all there is to change. */
static umbo_status change(umbo_variable_request *request, void *user_data,
                          umbo_variable **variable) {
    const float numbers[2] = {7, 8};
    umbo_tensor *initial = NULL, *other = make_floats(2, numbers);
    umbo_view view;
    umbo_variable_request_info info = UMBO_VARIABLE_REQUEST_INFO_INIT, wrong;
    *(int *)user_data += 1;
    CHECK(*variable == NULL);
    CHECK_OK(umbo_variable_request_get_info(request, &info));
    CHECK(strcmp(info.name, "w") == 0);
    CHECK_OK(umbo_variable_request_initial_value(request, &initial));
    CHECK_OK(umbo_tensor_view(initial, &view));
    CHECK(view.ndim == 0 && *(const float *)view.data == 1);
    umbo_tensor_release(initial);
    /* The strategy's own creator has run before and has resolved the default. */
    CHECK(info.trainable == 1 && info.aggregation == UMBO_AGGREGATION_NONE);
    CHECK(info.synchronization == UMBO_SYNCHRONIZATION_AUTO);
    CHECK_OK(umbo_variable_request_set_info(request, &info)); /* as it is */

    CHECK_OK(umbo_variable_request_set_initial_value(request, other));
    CHECK_OK(umbo_variable_request_get_info(request, &info));
    info.name = "renamed";
    info.trainable = 0;
    info.aggregation = UMBO_AGGREGATION_SUM;
    info.synchronization = UMBO_SYNCHRONIZATION_ON_WRITE;
    CHECK_OK(umbo_variable_request_set_info(request, &info));
    CHECK_OK(umbo_variable_request_get_info(request, &info));
    CHECK(strcmp(info.name, "renamed") == 0 && info.trainable == 0);
    wrong = info;
    wrong.aggregation = (umbo_aggregation)9;
    CHECK_STATUS(umbo_variable_request_set_info(request, &wrong), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("info.aggregation");
    wrong = info;
    wrong.trainable = 9;
    CHECK_STATUS(umbo_variable_request_set_info(request, &wrong), UMBO_STATUS_INVALID_ARGUMENT);
    wrong = info;
    wrong.synchronization = (umbo_synchronization)9;
    CHECK_STATUS(umbo_variable_request_set_info(request, &wrong), UMBO_STATUS_INVALID_ARGUMENT);
    wrong = info;
    wrong.name = NULL;
    CHECK_STATUS(umbo_variable_request_set_info(request, &wrong), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("info.name");
    umbo_tensor_release(other);
    return UMBO_OK; /* made from the request as it now is */
}

static void count_destroyed(void *user_data) { *(int *)user_data += 100; }

static void changing(umbo_strategy *strategy) {
    umbo_scope *scope = NULL;
    umbo_variable *variable;
    umbo_variable_info info;
    umbo_tensor *value = NULL;
    umbo_view view;
    int calls = 0;
    CHECK_OK(umbo_variable_creator_scope_enter(change, &calls, count_destroyed, &scope));
    variable = create(strategy, "w");
    CHECK(calls == 1);
    CHECK_OK(umbo_scope_exit(scope));
    CHECK(calls == 101); /* exactly once */
    CHECK(has_name(variable, "renamed"));
    info = facts_of(variable);
    CHECK(info.trainable == 0 && info.aggregation == UMBO_AGGREGATION_SUM);
    CHECK_OK(umbo_variable_read(variable, &value));
    CHECK_OK(umbo_tensor_view(value, &view));
    CHECK(view.ndim == 1 && view.shape[0] == 2 && ((const float *)view.data)[1] == 8);
    umbo_tensor_release(value);
    umbo_variable_release(variable);
    umbo_variable_release(create(strategy, "w")); /* the scope is left: nobody is asked */
    CHECK(calls == 101);
}

/* Makes the variable one that is synchronised on reading; user data: whether optimizers change it. */
static umbo_status on_read(umbo_variable_request *request, void *user_data, umbo_variable **variable) {
    umbo_variable_request_info info = UMBO_VARIABLE_REQUEST_INFO_INIT;
    (void)variable;
    CHECK_OK(umbo_variable_request_get_info(request, &info));
    CHECK(info.trainable == UMBO_AUTO); /* the strategy's own creator comes later */
    info.synchronization = UMBO_SYNCHRONIZATION_ON_READ;
    info.trainable = *(const int32_t *)user_data;
    CHECK_OK(umbo_variable_request_set_info(request, &info));
    return UMBO_OK;
}

/* Optimizers leave such a variable alone, unless it is said that they change it. */
static void synchronised_on_reading(umbo_strategy *strategy) {
    int32_t trainable;
    for (trainable = UMBO_AUTO; trainable <= 1; trainable++) {
        umbo_scope *scope = NULL, *creators = NULL;
        umbo_variable *variable;
        CHECK_OK(umbo_scope_enter(strategy, &scope));
        CHECK_OK(umbo_variable_creator_scope_enter(on_read, &trainable, NULL, &creators));
        variable = create(strategy, "r");
        CHECK(facts_of(variable).trainable == (trainable == 1));
        umbo_variable_release(variable);
        CHECK_OK(umbo_scope_exit(creators));
        CHECK_OK(umbo_scope_exit(scope));
    }
}

/* Appends a letter to the name, before the rest of the creators. */
typedef struct {
    const char *letter;
    int sees_device;
} appender;

static umbo_status append(umbo_variable_request *request, void *user_data,
                          umbo_variable **variable) {
    const appender *self = (const appender *)user_data;
    umbo_variable_request_info info = UMBO_VARIABLE_REQUEST_INFO_INIT;
    char longer[32];
    CHECK_OK(umbo_variable_request_get_info(request, &info));
    CHECK((info.device != NULL) == self->sees_device);
    CHECK(strlen(info.name) + 2 <= sizeof(longer));
    strcpy(longer, info.name);
    strcat(longer, self->letter);
    info.name = longer;
    CHECK_OK(umbo_variable_request_set_info(request, &info));
    return umbo_variable_request_next(request, variable);
}

/* From the innermost outwards; the strategy's own stands where its scope was entered. */
static void order(umbo_strategy *strategy) {
    appender around = {"a", 1}, outer = {"b", 0}, inner = {"c", 0};
    umbo_scope *scopes[4];
    umbo_variable *variable;
    int index;
    CHECK_OK(umbo_variable_creator_scope_enter(append, &around, NULL, &scopes[0]));
    CHECK_OK(umbo_scope_enter(strategy, &scopes[1]));
    CHECK_OK(umbo_variable_creator_scope_enter(append, &outer, NULL, &scopes[2]));
    CHECK_OK(umbo_variable_creator_scope_enter(append, &inner, NULL, &scopes[3]));
    variable = create(NULL, "v");
    CHECK(has_name(variable, "vcba"));
    CHECK(strstr(facts_of(variable).device, "CPU:0") != NULL);
    CHECK_STATUS(umbo_scope_exit(scopes[2]), UMBO_STATUS_FAILED_PRECONDITION); /* not the innermost */
    for (index = 3; index >= 0; index--) CHECK_OK(umbo_scope_exit(scopes[index]));
    umbo_variable_release(variable);
}

static umbo_status substitute(umbo_variable_request *request, void *user_data,
                              umbo_variable **variable) {
    umbo_variable *other = (umbo_variable *)user_data;
    (void)request;
    CHECK_OK(umbo_variable_retain(other, variable));
    return UMBO_OK;
}

static umbo_status twice(umbo_variable_request *request, void *user_data,
                         umbo_variable **variable) {
    umbo_variable_request_info info = UMBO_VARIABLE_REQUEST_INFO_INIT;
    CHECK_OK(umbo_variable_request_next(request, (umbo_variable **)user_data));
    CHECK_OK(umbo_variable_request_get_info(request, &info));
    info.name = "second";
    CHECK_OK(umbo_variable_request_set_info(request, &info));
    return umbo_variable_request_next(request, variable);
}

static umbo_status refuse(umbo_variable_request *request, void *user_data,
                          umbo_variable **variable) {
    *(umbo_variable_request **)user_data = request;
    (void)variable;
    return umbo_set_last_error(UMBO_STATUS_PERMISSION_DENIED, "no more variables", NULL, NULL);
}

static void other_results(umbo_strategy *strategy) {
    umbo_scope *scope = NULL;
    umbo_variable *existing = create(strategy, "existing"), *made, *first = NULL;
    umbo_variable_request *stale = NULL;
    umbo_tensor *initial = make_float(1);
    umbo_variable_request_info info = UMBO_VARIABLE_REQUEST_INFO_INIT;
    CHECK_OK(umbo_variable_creator_scope_enter(substitute, existing, NULL, &scope));
    made = create(strategy, "new");
    CHECK(has_name(made, "existing"));
    umbo_variable_release(made);
    CHECK_OK(umbo_scope_exit(scope));

    CHECK_OK(umbo_variable_creator_scope_enter(twice, &first, NULL, &scope));
    made = create(strategy, "first");
    CHECK(has_name(first, "first") && has_name(made, "second"));
    umbo_variable_release(made);
    umbo_variable_release(first);
    CHECK_OK(umbo_scope_exit(scope));

    made = NULL;
    CHECK_OK(umbo_variable_creator_scope_enter(refuse, &stale, NULL, &scope));
    CHECK_STATUS(umbo_variable_create(strategy, "x", initial, NULL, &made),
                 UMBO_STATUS_PERMISSION_DENIED);
    CHECK_MESSAGE("no more variables");
    CHECK(made == NULL);
    CHECK_STATUS(umbo_variable_request_get_info(stale, &info), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_scope_exit(scope));
    umbo_tensor_release(initial);
    umbo_variable_release(existing);
}

typedef struct {
    int calls;
    int32_t replica;
} observed;

static umbo_status observe(umbo_variable_request *request, void *user_data,
                           umbo_variable **variable) {
    observed *self = (observed *)user_data;
    umbo_replica_context *context = NULL;
    (void)request;
    (void)variable;
    self->calls++;
    CHECK_OK(umbo_current_replica_context(&context));
    self->replica = context == NULL ? -1 : replica_id(context);
    return UMBO_OK;
}

static umbo_status create_on_replicas(umbo_replica_context *context, const umbo_value *args,
                                      void *user_data, umbo_value **result) {
    umbo_variable *variable = create(NULL, "shared");
    (void)context;
    (void)args;
    (void)user_data;
    CHECK_OK(umbo_value_from_variable(variable, result));
    umbo_variable_release(variable);
    return UMBO_OK;
}

/* With several replicas one of them makes the variable, and the creator is asked there only. */
static void in_a_run(umbo_strategy *strategy) {
    observed seen = {0, -5};
    umbo_scope *scope = NULL;
    umbo_value *result = NULL;
    CHECK_OK(umbo_variable_creator_scope_enter(observe, &seen, NULL, &scope));
    CHECK_OK(umbo_strategy_run(strategy, create_on_replicas, NULL, NULL, NULL, &result));
    CHECK(seen.calls == 1 && seen.replica == 0);
    CHECK(kind_of(result) == UMBO_VALUE_VARIABLE); /* the same for all */
    umbo_value_release(result);
    CHECK_OK(umbo_scope_exit(scope));
}

/* A creator's user data, whose release looks at the scope and leaves it once more. */
typedef struct {
    umbo_strategy *strategy;
    umbo_scope *scope;
    int calls, destroyed;
} leaving;

static umbo_status count_calls(umbo_variable_request *request, void *user_data,
                               umbo_variable **variable) {
    (void)request;
    (void)variable;
    ((leaving *)user_data)->calls++;
    return UMBO_OK;
}

static void leave_again(void *user_data) {
    leaving *self = (leaving *)user_data;
    umbo_scope *own = NULL;
    self->destroyed++;
    /* The scope is left: its handle is stale, its creator is not asked, and another can be entered. */
    CHECK_STATUS(umbo_scope_exit(self->scope), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("released");
    CHECK(live(UMBO_HANDLE_SCOPE) == 0);
    umbo_variable_release(create(self->strategy, "w"));
    CHECK(self->calls == 1);
    CHECK_OK(umbo_scope_enter(self->strategy, &own));
    CHECK_OK(umbo_scope_exit(own));
}

/* Leaving a scope succeeds also if what it releases tries to leave it. */
static void left_while_leaving(umbo_strategy *strategy) {
    leaving self = {NULL, NULL, 0, 0};
    self.strategy = strategy;
    CHECK_OK(umbo_variable_creator_scope_enter(count_calls, &self, leave_again, &self.scope));
    umbo_variable_release(create(strategy, "w"));
    CHECK(self.calls == 1);
    CHECK_OK(umbo_scope_exit(self.scope));
    CHECK(self.destroyed == 1);
    CHECK_STATUS(umbo_scope_exit(self.scope), UMBO_STATUS_INVALID_ARGUMENT);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_scope *scope = NULL;
    int calls = 0;
    changing(strategy);
    synchronised_on_reading(strategy);
    order(strategy);
    other_results(strategy);
    in_a_run(strategy);
    left_while_leaving(strategy);
    CHECK_STATUS(umbo_variable_creator_scope_enter(NULL, &calls, count_destroyed, &scope),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("creator");
    CHECK(calls == 100 && scope == NULL); /* destroyed also by a call that fails */
    umbo_strategy_release(strategy);
    return finish();
}

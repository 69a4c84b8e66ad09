/* Variable creators: what they see, what they change, and who releases their data. */
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
    wrong.aggregation = (umbo_aggregation)999;
    CHECK_STATUS(umbo_variable_request_set_info(request, &wrong), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("info.aggregation");
    wrong = info;
    wrong.trainable = 9;
    CHECK_STATUS(umbo_variable_request_set_info(request, &wrong), UMBO_STATUS_INVALID_ARGUMENT);
    wrong = info;
    wrong.synchronization = (umbo_synchronization)999;
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
    left_while_leaving(strategy);
    CHECK_STATUS(umbo_variable_creator_scope_enter(NULL, &calls, count_destroyed, &scope),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("creator");
    CHECK(calls == 100 && scope == NULL); /* destroyed also by a call that fails */
    umbo_strategy_release(strategy);
    return finish();
}

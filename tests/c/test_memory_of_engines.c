/* Variables over memory of the program's, packed in one block; where views of variables and gradients
 * are over a thousand steps. */
#include "check.h"

#define STEPS 1000
#define ELEMENTS 5

static int released;

static void count_release(void *user_data) {
    (void)user_data;
    released++;
}

typedef struct {
    umbo_variable *updated, *assigned;
    umbo_gradients *gradients;
    int assigns;
    const void *updated_at, *gradient_at[2];
    const void *assigned_at[3]; /* the places that were seen, at most two */
} trained;

static umbo_view memory(int32_t rank, const int64_t *shape, float *data) {
    return umbo_view_of_mutable_memory(UMBO_DTYPE_FLOAT32, rank, shape, data);
}

static void see(const void **places, int capacity, const void *place) {
    int index;
    for (index = 0; index < capacity && places[index] != NULL; index++)
        if (places[index] == place) return;
    CHECK(index < capacity);
    places[index] = place;
}

static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    trained *plan = (trained *)user_data;
    const int id = replica_id(context);
    umbo_view view;
    int element;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_variable_view(plan->updated, context, UMBO_DTYPE_NONE, &view));
    CHECK(view.data == plan->updated_at);
    UMBO_TRY(umbo_gradients_view(plan->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    if (plan->gradient_at[id] == NULL) plan->gradient_at[id] = view.data;
    CHECK(view.data == plan->gradient_at[id]);
    for (element = 0; element < ELEMENTS; element++) ((float *)view.mutable_data)[element] = 1;
    UMBO_TRY(umbo_gradients_submit_weighted(plan->gradients, context, 1));
    if (plan->assigns) {
        const float one = 1;
        umbo_value *value = float_value(one);
        UMBO_TRY(umbo_variable_assign_add(plan->assigned, value));
        umbo_value_release(value);
    }
    return UMBO_OK;
}

/* The promise about addresses: what optimizers update stays, gradients stay, what runs assign moves between
 * two places, and what is in the program's memory comes back to it. */
static void a_thousand_steps(int in_memory) {
    umbo_strategy *strategy = make_strategy(2);
    float block[2 * ELEMENTS + 1] = {0};
    umbo_optimizer *sgd = NULL;
    trained plan;
    umbo_view views[2], view;
    umbo_sgd_options rate = UMBO_SGD_OPTIONS_INIT;
    /* valgrind takes its time for each. */
    const int steps = getenv("UMBO_TEST_UNDER_VALGRIND") != NULL ? 100 : STEPS;
    int round;
    memset(&plan, 0, sizeof(plan));
    released = 0;
    if (in_memory) {
        const int64_t size = ELEMENTS;
        const char *names[2] = {"updated", "assigned"};
        umbo_variable *both[2];
        umbo_variable_options sum = UMBO_VARIABLE_OPTIONS_INIT;
        sum.aggregation = UMBO_AGGREGATION_SUM;
        views[0] = memory(1, &size, block + 1);
        views[1] = memory(0, NULL, block + 1 + ELEMENTS);
        CHECK_OK(umbo_variable_create_in_memory(strategy, 2, names, views, NULL, count_release, &sum,
                                                both));
        plan.updated = both[0];
        plan.assigned = both[1];
        CHECK(strcmp(facts_of(both[1]).name, "assigned") == 0);
    } else {
        umbo_tensor *initial = make_floats(ELEMENTS, block);
        CHECK_OK(umbo_variable_create(strategy, "updated", initial, NULL, &plan.updated));
        umbo_tensor_release(initial);
        plan.assigned = make_variable(strategy, 0, UMBO_AGGREGATION_SUM);
    }
    CHECK_OK(umbo_variable_view(plan.updated, NULL, UMBO_DTYPE_NONE, &view));
    plan.updated_at = view.data;
    CHECK(!in_memory || view.data == block + 1);
    rate.learning_rate = 1;
    CHECK_OK(umbo_gradients_create(strategy, 1, &plan.updated, UMBO_LOSS_MEAN, NULL, &plan.gradients));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &rate, &sgd));
    for (round = 0; round < steps; round++) {
        plan.assigns = round % 3 != 0;
        CHECK_OK(umbo_strategy_run(strategy, step, NULL, &plan, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(sgd, plan.gradients, NULL, NULL));
        CHECK_OK(umbo_variable_view(plan.updated, NULL, UMBO_DTYPE_NONE, &view));
        CHECK(view.data == plan.updated_at);
        CHECK_OK(umbo_variable_view(plan.assigned, NULL, UMBO_DTYPE_NONE, &view));
        see(plan.assigned_at, in_memory ? 1 : 2, view.data);
        if (round == steps / 2) { /* outside of runs an assignment is in place, too */
            const float half = 500;
            CHECK_OK(umbo_variable_upload(plan.assigned, &half, sizeof(half)));
            CHECK_OK(umbo_variable_view(plan.assigned, NULL, UMBO_DTYPE_NONE, &view));
            see(plan.assigned_at, in_memory ? 1 : 2, view.data);
        }
    }
    if (in_memory) {
        CHECK(plan.assigned_at[0] == block + 1 + ELEMENTS);
        /* The engine finds its weights where it put them, and nothing beside them was written. */
        CHECK(block[0] == 0 && block[1] == (float)-steps && block[ELEMENTS] == (float)-steps);
        CHECK(block[ELEMENTS + 1] == float_of_variable(plan.assigned) && block[2 * ELEMENTS] == 0);
    } else {
        CHECK(plan.assigned_at[1] != NULL);
    }
    CHECK(float_of_variable(plan.assigned) > 500);
    umbo_gradients_release(plan.gradients);
    umbo_optimizer_release(sgd);
    umbo_variable_release(plan.updated);
    CHECK(released == 0);
    umbo_variable_release(plan.assigned);
    CHECK(released == in_memory);
    umbo_strategy_release(strategy);
}

static void what_is_refused(void) {
    umbo_strategy *strategy = make_strategy(2);
    static float block[8];
    const int64_t four = 4, square[2] = {2, 2};
    const char *const names[2] = {"a", NULL};
    umbo_variable *made[2] = {NULL, NULL};
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    umbo_view views[2];
    int expected = 0;
    released = 0;
#define REFUSED(wrong, given_names, status, words)                                               \
    do {                                                                                         \
        views[0] = memory(1, &four, block);                     \
        views[1] = memory(1, &four, block + 4);                 \
        wrong;                                                                                   \
        CHECK_STATUS(umbo_variable_create_in_memory(strategy, 2, given_names, views, NULL,       \
                                                    count_release, &options, made), status);     \
        CHECK_MESSAGE(words);                                                                    \
        CHECK(released == ++expected && made[0] == NULL);                                        \
    } while (0)
    REFUSED(views[1] = memory(1, &four, block + 3), NULL, UMBO_STATUS_INVALID_ARGUMENT,
            "in common");
    REFUSED(views[1] = memory(1, &four, block), NULL, UMBO_STATUS_INVALID_ARGUMENT,
            "in common");
    REFUSED(views[0].mutable_data = NULL, NULL, UMBO_STATUS_INVALID_ARGUMENT, "read");
    REFUSED(views[0].data = NULL, NULL, UMBO_STATUS_INVALID_ARGUMENT, "views");
    REFUSED(views[0] = memory(2, square, block);
            views[0].strides[0] = 1; views[0].strides[1] = 2, NULL, UMBO_STATUS_INVALID_ARGUMENT,
            "row-major");
    REFUSED((void)0, names, UMBO_STATUS_INVALID_ARGUMENT, "names");
    options.initial = UMBO_INITIAL_ZEROS;
    REFUSED((void)0, NULL, UMBO_STATUS_INVALID_ARGUMENT, "initial");
    options.initial = UMBO_INITIAL_NONE;
    CHECK_STATUS(umbo_variable_create_in_memory(strategy, 0, NULL, views, NULL, count_release, NULL,
                                                made),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(released == ++expected);
    CHECK_STATUS(umbo_variable_create_in_memory(NULL, 1, NULL, views, NULL, count_release, NULL, made),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(released == ++expected);
#undef REFUSED
    umbo_strategy_release(strategy);
}

int main(void) {
    a_thousand_steps(0);
    a_thousand_steps(1);
    what_is_refused();
    return finish();
}

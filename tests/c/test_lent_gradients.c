/* Gradients that stay in the program's memory: what counts, what is refused, and that the memory is
 * released exactly once however its step ends. */
#include <math.h>

#include "check.h"

#define ELEMENTS 3
#define MOST_REPLICAS 3

/* What a replica does with its gradient of the first variable. */
typedef enum { VIEW, ATTACH, ATTACH_AND_WITHDRAW, WITHDRAW_AND_ATTACH, VIEW_AND_WITHDRAW, MANNERS } manner;

/* How the step ends. */
typedef enum {
    APPLIED,
    APPLIED_IN_THE_STEP,
    FAILED_BY_THE_LAST,
    FAILED_AFTER_ITSELF,
    NEVER_APPLIED,
    REFUSED_AND_REPLACED,
    OF_NO_WEIGHT,
    ENDINGS
} ending;

typedef struct {
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    manner how;
    ending end;
    int replicas;
    float numbers[MOST_REPLICAS][ELEMENTS];
    int attached, destroyed;
} lending;

static void give_back(void *user_data) {
    int64_t count = 0;
    lending *plan = (lending *)user_data;
    __atomic_add_fetch(&plan->destroyed, 1, __ATOMIC_SEQ_CST);
    /* The library may be used here. */
    CHECK_OK(umbo_live_handles(UMBO_HANDLE_ANY, &count));
    CHECK(count > 0);
}

static umbo_view view_of_numbers(const float *numbers) {
    umbo_view view;
    memset(&view, 0, sizeof(view));
    view.data = numbers;
    view.dtype = UMBO_DTYPE_FLOAT32;
    view.ndim = 1;
    view.device.type = UMBO_DEVICE_CPU;
    view.element_bytes = sizeof(float);
    view.shape[0] = ELEMENTS;
    view.strides[0] = 1;
    return view;
}

static umbo_status attach(lending *plan, umbo_replica_context *context) {
    const umbo_view view = view_of_numbers(plan->numbers[replica_id(context)]);
    __atomic_add_fetch(&plan->attached, 1, __ATOMIC_SEQ_CST);
    return umbo_gradients_attach(plan->gradients, context, 0, &view, plan, give_back);
}

static umbo_status view_and_write(const lending *plan, umbo_replica_context *context) {
    umbo_view view;
    UMBO_TRY(umbo_gradients_view(plan->gradients, context, 0, UMBO_GRADIENT_ADD, &view));
    memcpy(view.mutable_data, plan->numbers[replica_id(context)], ELEMENTS * sizeof(float));
    return UMBO_OK;
}

static umbo_status lend(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    lending *plan = (lending *)user_data;
    const int id = replica_id(context);
    const double weight = plan->end == OF_NO_WEIGHT ? 0 : 1 + id;
    (void)args;
    (void)result;
    switch (plan->how) {
    case VIEW: UMBO_TRY(view_and_write(plan, context)); break;
    case WITHDRAW_AND_ATTACH:
        UMBO_TRY(umbo_gradients_discard(plan->gradients, context, 0));
        UMBO_TRY(attach(plan, context));
        break;
    case ATTACH_AND_WITHDRAW:
        UMBO_TRY(attach(plan, context));
        UMBO_TRY(umbo_gradients_discard(plan->gradients, context, 0));
        break;
    case VIEW_AND_WITHDRAW:
        UMBO_TRY(view_and_write(plan, context));
        UMBO_TRY(umbo_gradients_discard(plan->gradients, context, 0));
        break;
    default: UMBO_TRY(attach(plan, context)); break;
    }
    if (plan->end == FAILED_BY_THE_LAST && id == plan->replicas - 1)
        return umbo_set_last_error(UMBO_STATUS_ABORTED, "as planned", NULL, NULL);
    UMBO_TRY(umbo_gradients_submit_weighted(plan->gradients, context, weight));
    if (plan->end == FAILED_AFTER_ITSELF)
        return umbo_set_last_error(UMBO_STATUS_ABORTED, "as planned", NULL, NULL);
    if (plan->end == APPLIED_IN_THE_STEP)
        return umbo_optimizer_apply(plan->optimizer, plan->gradients, NULL, NULL);
    return UMBO_OK;
}

static umbo_gradients *make_gradients(umbo_strategy *strategy, umbo_variable *variable,
                                      int64_t accumulation_steps) {
    umbo_gradients *gradients = NULL;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    options.accumulation_steps = accumulation_steps;
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, UMBO_LOSS_MEAN, &options, &gradients));
    return gradients;
}

/* Weights of 1, and AdamW, whose decay would be seen. */
static umbo_variable *make_weights(umbo_strategy *strategy) {
    static const float ones[ELEMENTS] = {1, 1, 1};
    umbo_tensor *initial = make_floats(ELEMENTS, ones);
    umbo_variable *variable = NULL;
    CHECK_OK(umbo_variable_create(strategy, "w", initial, NULL, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static void weights_of(const umbo_variable *variable, float *weights) {
    CHECK_OK(umbo_variable_download(variable, weights, ELEMENTS * sizeof(float)));
}

static int contributes(manner how) { return how != ATTACH_AND_WITHDRAW && how != VIEW_AND_WITHDRAW; }

/* Two steps of one manner that end alike; the weights afterwards. */
static void steps(int replicas, manner how, ending end, int64_t accumulation_steps, float *weights) {
    umbo_strategy *strategy = make_strategy(replicas);
    umbo_variable *variable = make_weights(strategy);
    umbo_gradients *gradients = make_gradients(strategy, variable, accumulation_steps);
    umbo_optimizer *optimizer = NULL;
    lending plan;
    int step, replica, element;
    memset(&plan, 0, sizeof(plan));
    plan.gradients = gradients;
    plan.how = how;
    plan.end = end;
    plan.replicas = replicas;
    CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &optimizer));
    plan.optimizer = optimizer;
    for (step = 0; step < 2; step++) {
        const int before = plan.attached;
        umbo_status status;
        for (replica = 0; replica < replicas; replica++)
            for (element = 0; element < ELEMENTS; element++)
                plan.numbers[replica][element] = (float)((step + 1) * (replica + 1) - element);
        if (end == REFUSED_AND_REPLACED) plan.numbers[0][0] = NAN;
        status = umbo_strategy_run(strategy, lend, NULL, &plan, NULL, NULL);
        if (end == FAILED_BY_THE_LAST || end == FAILED_AFTER_ITSELF) {
            CHECK(status == UMBO_STATUS_ABORTED && plan.destroyed == plan.attached);
            continue;
        }
        CHECK_OK(status);
        if (end == APPLIED_IN_THE_STEP) {
            CHECK(plan.destroyed == plan.attached);
            continue;
        }
        if (!contributes(how)) CHECK(plan.destroyed == plan.attached);
        else CHECK(plan.destroyed == before);
        if (end == NEVER_APPLIED) break;
        if (end == REFUSED_AND_REPLACED) {
            umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
            options.non_finite = UMBO_NON_FINITE_FAIL;
            CHECK_OK(umbo_optimizer_configure(optimizer, &options));
            status = umbo_optimizer_apply(optimizer, gradients, NULL, NULL);
            CHECK((status == UMBO_OK) == !contributes(how));
            continue;
        }
        CHECK_OK(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
        CHECK(plan.destroyed == plan.attached);
    }
    weights_of(variable, weights);
    umbo_gradients_release(gradients);
    CHECK(plan.destroyed == plan.attached);
    umbo_optimizer_release(optimizer);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

/* However a gradient comes, the same bits come out, and memory is released once. */
static void manners_and_endings(void) {
    static const int replicas[] = {1, 2, 3};
    size_t index;
    int how, end;
    int64_t accumulated;
    for (index = 0; index < sizeof(replicas) / sizeof(replicas[0]); index++) {
        for (accumulated = 1; accumulated <= 2; accumulated++) {
            for (end = 0; end < ENDINGS; end++) {
                float viewed[ELEMENTS];
                steps(replicas[index], VIEW, (ending)end, accumulated, viewed);
                for (how = ATTACH; how < MANNERS; how++) {
                    static const float ones[ELEMENTS] = {1, 1, 1};
                    float weights[ELEMENTS];
                    steps(replicas[index], (manner)how, (ending)end, accumulated, weights);
                    CHECK(memcmp(weights, contributes((manner)how) ? viewed : ones,
                                 sizeof(weights)) == 0);
                }
            }
        }
    }
}

/* What is refused says what would be right, and is released all the same. */
static umbo_status refusals(umbo_replica_context *context, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    lending *plan = (lending *)user_data;
    umbo_gradients *gradients = plan->gradients;
    const float *numbers = plan->numbers[0];
    umbo_view view = view_of_numbers(numbers), buffer;
    (void)args;
    (void)result;
    if (replica_id(context) != 0) return umbo_gradients_submit_weighted(gradients, context, 0);
#define REFUSED(wrong, status, words)                                                            \
    do {                                                                                         \
        view = view_of_numbers(numbers);                                                         \
        wrong;                                                                                   \
        plan->attached++;                                                                        \
        CHECK_STATUS(umbo_gradients_attach(gradients, context, 0, &view, plan, give_back), status); \
        CHECK_MESSAGE(words);                                                                    \
        CHECK(plan->destroyed == plan->attached);                                                \
    } while (0)
    REFUSED(view.dtype = UMBO_DTYPE_INT32, UMBO_STATUS_INVALID_ARGUMENT, "float32");
    REFUSED(view.shape[0] = 2, UMBO_STATUS_INVALID_ARGUMENT, "[3]");
    REFUSED(view.strides[0] = 0, UMBO_STATUS_INVALID_ARGUMENT, "contiguous");
    REFUSED(view.data = (const char *)numbers + 1, UMBO_STATUS_INVALID_ARGUMENT, "multiple");
    REFUSED(view.data = NULL, UMBO_STATUS_INVALID_ARGUMENT, "view");
    REFUSED(view.device.type = UMBO_DEVICE_GPU; view.device.ordinal = 99, UMBO_STATUS_NOT_FOUND, "GPU");
    view = view_of_numbers(numbers);
    plan->attached += 3;
    CHECK_STATUS(umbo_gradients_attach(gradients, context, 1, &view, plan, give_back),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_gradients_attach(gradients, NULL, 0, &view, plan, give_back),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_gradients_attach(NULL, context, 0, &view, plan, give_back),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(plan->destroyed == plan->attached);
    CHECK_STATUS(umbo_gradients_discard(gradients, context, 1), UMBO_STATUS_OUT_OF_RANGE);
    /* One of each: a view, or memory. */
    CHECK_OK(umbo_gradients_attach(gradients, context, 0, &view, NULL, NULL));
    CHECK_STATUS(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_ADD, &buffer),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("discard");
    REFUSED((void)0, UMBO_STATUS_FAILED_PRECONDITION, "discard");
    CHECK_OK(umbo_gradients_discard(gradients, context, 0));
    CHECK_OK(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_ADD, &buffer));
    REFUSED((void)0, UMBO_STATUS_FAILED_PRECONDITION, "discard");
    CHECK_OK(umbo_gradients_submit_weighted(gradients, context, 1));
    REFUSED((void)0, UMBO_STATUS_FAILED_PRECONDITION, "submitted");
    CHECK_STATUS(umbo_gradients_discard(gradients, context, 0), UMBO_STATUS_FAILED_PRECONDITION);
#undef REFUSED
    return UMBO_OK;
}

static void what_is_refused(void) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_variable *variable = make_weights(strategy);
    lending plan;
    umbo_view view;
    memset(&plan, 0, sizeof(plan));
    plan.gradients = make_gradients(strategy, variable, 1);
    CHECK_OK(umbo_strategy_run(strategy, refusals, NULL, &plan, NULL, NULL));
    view = view_of_numbers(plan.numbers[0]);
    plan.attached++;
    CHECK(umbo_gradients_attach(plan.gradients, NULL, 0, &view, &plan, give_back) != UMBO_OK);
    umbo_gradients_release(plan.gradients);
    CHECK(plan.destroyed == plan.attached);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

/* A trial would replace what waits for an apply: it is refused and leaves that as it was. */
static void a_trial_while_memory_is_lent(void) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_variable *variable = make_weights(strategy);
    umbo_equivalence *equivalence = NULL;
    umbo_value *batch = NULL;
    const float examples[4] = {0, 0, 0, 0};
    float weights[ELEMENTS], expected[ELEMENTS];
    lending plan;
    int element;
    memset(&plan, 0, sizeof(plan));
    plan.gradients = make_gradients(strategy, variable, 1);
    plan.how = ATTACH;
    plan.replicas = 2;
    for (element = 0; element < ELEMENTS; element++)
        plan.numbers[0][element] = plan.numbers[1][element] = (float)element - 1;
    CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &plan.optimizer));
    CHECK_OK(umbo_strategy_run(strategy, lend, NULL, &plan, NULL, NULL));
    CHECK(plan.attached == 2 && plan.destroyed == 0);
    batch = floats_value(4, examples);
    CHECK_STATUS(umbo_strategy_check_equivalence(strategy, plan.gradients, lend, batch, &plan, NULL,
                                                 &equivalence),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("has not been applied");
    CHECK(plan.destroyed == plan.attached - 2);
    CHECK_OK(umbo_optimizer_apply(plan.optimizer, plan.gradients, NULL, NULL));
    CHECK(plan.destroyed == plan.attached);
    weights_of(variable, weights);
    CHECK_OK(umbo_strategy_check_equivalence(strategy, plan.gradients, lend, batch, &plan, NULL,
                                             &equivalence));
    umbo_equivalence_release(equivalence);
    CHECK(plan.attached > 2 && plan.destroyed == plan.attached);
    /* As without the trial. */
    {
        umbo_variable *again = make_weights(strategy);
        lending other = plan;
        other.gradients = make_gradients(strategy, again, 1);
        CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &other.optimizer));
        CHECK_OK(umbo_strategy_run(strategy, lend, NULL, &other, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(other.optimizer, other.gradients, NULL, NULL));
        weights_of(again, expected);
        umbo_optimizer_release(other.optimizer);
        umbo_gradients_release(other.gradients);
        umbo_variable_release(again);
    }
    CHECK(memcmp(weights, expected, sizeof(weights)) == 0);
    umbo_value_release(batch);
    umbo_optimizer_release(plan.optimizer);
    umbo_gradients_release(plan.gradients);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

static umbo_status make_as_usual(umbo_variable_request *request, void *user_data, umbo_variable **variable) {
    (void)user_data;
    return umbo_variable_request_next(request, variable);
}

/* Opens and closes a scope, and releases the handle that the call uses which calls this. */
static void exchange_handles(void *user_data) {
    umbo_scope *scope = NULL;
    umbo_gradients *same = NULL;
    lending *plan = (lending *)user_data;
    plan->destroyed++;
    CHECK_OK(umbo_variable_creator_scope_enter(make_as_usual, NULL, NULL, &scope));
    CHECK_OK(umbo_scope_exit(scope));
    CHECK_OK(umbo_gradients_retain(plan->gradients, &same));
    umbo_gradients_release(plan->gradients);
    plan->gradients = same;
}

static umbo_status attach_or_view(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                  umbo_value **result) {
    lending *plan = (lending *)user_data;
    const umbo_view numbers = view_of_numbers(plan->numbers[0]);
    umbo_view view;
    (void)args;
    (void)result;
    if (plan->attached > 0) {
        UMBO_TRY(umbo_gradients_view(plan->gradients, context, 0, UMBO_GRADIENT_ADD, &view));
        CHECK(plan->destroyed == 2);
        return umbo_gradients_submit_weighted(plan->gradients, context, 1.0);
    }
    for (; plan->attached < 2; plan->attached++) {
        UMBO_TRY(umbo_gradients_discard(plan->gradients, context, 0));
        CHECK(plan->destroyed == plan->attached);
        UMBO_TRY(umbo_gradients_attach(plan->gradients, context, 0, &numbers, plan, exchange_handles));
    }
    return umbo_gradients_submit_weighted(plan->gradients, context, 1.0);
}

/* A destroy function may do so in the call of a replica that takes memory back, and in one that replaces it. */
static void what_destroy_may_do(void) {
    umbo_strategy *strategy = make_strategy(1);
    umbo_variable *variable = make_weights(strategy);
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_optimizer *optimizer = NULL;
    lending plan;
    memset(&plan, 0, sizeof(plan));
    plan.gradients = make_gradients(strategy, variable, 1);
    plan.numbers[0][0] = NAN;
    options.non_finite = UMBO_NON_FINITE_FAIL;
    CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &optimizer));
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    CHECK_OK(umbo_strategy_run(strategy, attach_or_view, NULL, &plan, NULL, NULL));
    CHECK(umbo_optimizer_apply(optimizer, plan.gradients, NULL, NULL) != UMBO_OK);
    CHECK_OK(umbo_strategy_run(strategy, attach_or_view, NULL, &plan, NULL, NULL));
    CHECK(plan.attached == 2 && plan.destroyed == 2);
    umbo_gradients_release(plan.gradients);
    umbo_optimizer_release(optimizer);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

int main(void) {
    manners_and_endings();
    what_destroy_may_do();
    what_is_refused();
    a_trial_while_memory_is_lent();
    return finish();
}

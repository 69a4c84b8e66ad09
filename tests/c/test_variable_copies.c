/* Low-precision copies of variables: what replicas read in 16 bits is the variable, rounded, after
 * whatever wrote it. */
#include "check.h"

#define ELEMENTS 5

static const float start[ELEMENTS] = {1.00390625f, -3.1415927f, 1e-3f, 1000.7f, 0};

typedef struct {
    umbo_variable *variable;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    int assigns; /* in the step */
    int fails;   /* replica 1, at the end */
} model;

/* To nearest, ties to even. */
static uint16_t to_bfloat16(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof(bits));
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/* Whether the copy is the variable, for the replica or outside of runs, and stays where it is. */
static void is_in_step(umbo_replica_context *context, umbo_variable *variable) {
    umbo_view whole, copy, again;
    int64_t index;
    CHECK_OK(umbo_variable_view(variable, context, UMBO_DTYPE_NONE, &whole));
    CHECK_OK(umbo_variable_view(variable, context, UMBO_DTYPE_BFLOAT16, &copy));
    CHECK(copy.dtype == UMBO_DTYPE_BFLOAT16 && copy.ndim == 1 && copy.shape[0] == ELEMENTS);
    CHECK(copy.strides[0] == 1 && copy.data != whole.data);
    for (index = 0; index < ELEMENTS; index++) {
        CHECK(((const uint16_t *)copy.data)[index] ==
              to_bfloat16(((const float *)whole.data)[index]));
    }
    CHECK_OK(umbo_variable_view(variable, context, UMBO_DTYPE_BFLOAT16, &again));
    CHECK(again.data == copy.data);
    CHECK_OK(umbo_variable_view(variable, context, UMBO_DTYPE_FLOAT16, &again));
    CHECK(again.dtype == UMBO_DTYPE_FLOAT16 && again.data != copy.data);
    CHECK_OK(umbo_variable_view(variable, context, UMBO_DTYPE_FLOAT32, &again));
    CHECK(again.dtype == UMBO_DTYPE_FLOAT32 && again.data == whole.data);
}

static umbo_status step(umbo_replica_context *context, const umbo_value *args, void *user_data,
                        umbo_value **result) {
    const model *self = (const model *)user_data;
    umbo_view weights, gradient;
    int64_t index;
    (void)args;
    (void)result;
    is_in_step(context, self->variable);
    if (self->assigns) {
        const float own[ELEMENTS] = {0.1f, 0.2f, 0.3f, 0.4f, 0.5f};
        umbo_value *value = floats_value(ELEMENTS, own);
        umbo_status status = umbo_variable_assign_add(self->variable, value);
        umbo_value_release(value);
        if (status != UMBO_OK) return status;
        is_in_step(context, self->variable);
    }
    UMBO_TRY(umbo_variable_view(self->variable, context, UMBO_DTYPE_BFLOAT16, &weights));
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    CHECK(gradient.dtype == UMBO_DTYPE_BFLOAT16);
    for (index = 0; index < ELEMENTS; index++) {
        ((uint16_t *)gradient.mutable_data)[index] = ((const uint16_t *)weights.data)[index];
    }
    UMBO_TRY(umbo_gradients_submit_weighted(self->gradients, context, 1));
    if (self->fails && replica_id(context) == 1) {
        return umbo_set_last_error(UMBO_STATUS_ABORTED, "changed my mind", NULL, NULL);
    }
    return UMBO_OK;
}

static umbo_status step_and_apply(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    const model *self = (const model *)user_data;
    UMBO_TRY(step(context, args, user_data, result));
    return umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL);
}

/* Steps that assign, apply at the commit point or after the run, and fail, in all combinations. */
static void training(umbo_strategy *strategy, model *self) {
    int round;
    for (round = 0; round < 8; round++) {
        const int applies_inside = (round & 4) != 0;
        umbo_status expected;
        self->assigns = round & 1;
        self->fails = (round & 2) != 0;
        expected = self->fails ? UMBO_STATUS_ABORTED : UMBO_OK;
        CHECK_STATUS(umbo_strategy_run(strategy, applies_inside ? step_and_apply : step, self, NULL,
                                       NULL, NULL),
                     expected);
        is_in_step(NULL, self->variable);
        if (!self->fails && !applies_inside) {
            CHECK_OK(umbo_optimizer_apply(self->optimizer, self->gradients, NULL, NULL));
            is_in_step(NULL, self->variable);
        }
    }
}

static void assignments(model *self) {
    const float other[ELEMENTS] = {5, 4.002f, 3, 2, 1};
    umbo_value *value = floats_value(ELEMENTS, other);
    CHECK_OK(umbo_variable_assign(self->variable, value));
    is_in_step(NULL, self->variable);
    CHECK_OK(umbo_variable_assign_sub(self->variable, value));
    is_in_step(NULL, self->variable);
    umbo_value_release(value);
}

static void refused(umbo_strategy *strategy, const model *self) {
    const double number = 1;
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT64, 0, NULL, &number);
    umbo_variable *variable = NULL;
    umbo_view view;
    CHECK_OK(umbo_variable_create(strategy, "wide", initial, NULL, &variable));
    CHECK_STATUS(umbo_variable_view(variable, NULL, UMBO_DTYPE_BFLOAT16, &view),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("'wide'");
    CHECK_STATUS(umbo_variable_view(variable, NULL, UMBO_DTYPE_FLOAT32, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_variable_view(variable, NULL, UMBO_DTYPE_FLOAT64, &view));
    CHECK(*(const double *)view.data == 1);
    CHECK_STATUS(umbo_variable_view(self->variable, NULL, UMBO_DTYPE_FLOAT64, &view),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dtype");
    CHECK_STATUS(umbo_variable_view(self->variable, NULL, (umbo_dtype)99, &view),
                 UMBO_STATUS_INVALID_ARGUMENT);
    umbo_variable_release(variable);
    umbo_tensor_release(initial);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    umbo_tensor *initial = make_floats(ELEMENTS, start);
    umbo_variable *variables[1];
    model self;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    umbo_gradients_options gradients_options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_adam_options adam_options = UMBO_ADAM_OPTIONS_INIT;
    memset(&self, 0, sizeof(self));
    options.aggregation = UMBO_AGGREGATION_SUM;
    CHECK_OK(umbo_variable_create(strategy, "v", initial, &options, &self.variable));
    variables[0] = self.variable;
    gradients_options.loss_reduction = UMBO_LOSS_SUM;
    gradients_options.dtype = UMBO_DTYPE_BFLOAT16;
    CHECK_OK(umbo_gradients_create(strategy, 1, variables, &gradients_options, &self.gradients));
    adam_options.learning_rate = 0.1;
    CHECK_OK(umbo_optimizer_create_adam(strategy, &adam_options, &self.optimizer));
    refused(strategy, &self);
    assignments(&self);
    training(strategy, &self);
    umbo_optimizer_release(self.optimizer);
    umbo_gradients_release(self.gradients);
    umbo_variable_release(self.variable);
    umbo_tensor_release(initial);
    umbo_strategy_release(strategy);
    return finish();
}

/* Gradients of 16-bit floats for float32 variables. */
#include "check.h"

enum { ELEMENTS = 19 };

static umbo_status contribute(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    umbo_gradients *gradients = (umbo_gradients *)user_data;
    umbo_view view;
    int32_t element;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_ADD, &view));
    CHECK(view.dtype == UMBO_DTYPE_BFLOAT16 || view.dtype == UMBO_DTYPE_FLOAT16);
    CHECK(view.ndim == 1 && view.shape[0] == ELEMENTS);
    for (element = 0; element < ELEMENTS; element++) {
        uint16_t *number = (uint16_t *)view.mutable_data + element;
        CHECK(*number == 0);
        /* 1.5, and on the second replica 2^-14 more of it than either type holds as one number. */
        if (view.dtype == UMBO_DTYPE_BFLOAT16) {
            *number = replica_id(context) == 0 ? 0x3fc0 : 0x3880;
        } else {
            *number = replica_id(context) == 0 ? 0x3e00 : 0x0400;
        }
    }
    return umbo_gradients_submit_weighted(gradients, context, 1);
}

static umbo_variable *make_vector(umbo_strategy *strategy, umbo_dtype dtype) {
    static const double zeros[ELEMENTS] = {0};
    const int64_t shape[1] = {ELEMENTS};
    umbo_tensor *initial = make_tensor(dtype, 1, shape, zeros);
    umbo_variable *variable = NULL;
    CHECK_OK(umbo_variable_create(strategy, "w", initial, NULL, &variable));
    umbo_tensor_release(initial);
    return variable;
}

static void sums_are_wider_than_what_is_added(umbo_strategy *strategy, umbo_dtype dtype) {
    umbo_variable *variable = make_vector(strategy, UMBO_DTYPE_FLOAT32);
    umbo_variable *variables[1];
    umbo_gradients *gradients = NULL;
    umbo_optimizer *optimizer = NULL;
    umbo_tensor *tensor = NULL;
    umbo_value *value;
    float expected[ELEMENTS];
    int32_t element;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    variables[0] = variable;
    options.loss_reduction = UMBO_LOSS_GLOBAL_MEAN;
    options.dtype = dtype;
    CHECK_OK(umbo_gradients_create(strategy, 1, variables, &options, &gradients));
    sgd.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd, &optimizer));
    CHECK_OK(umbo_strategy_run(strategy, contribute, gradients, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
    for (element = 0; element < ELEMENTS; element++) {
        expected[element] = -1.5f - 1.0f / 16384;
    }
    CHECK_OK(umbo_variable_read(variable, &tensor));
    value = into_value(tensor);
    CHECK(has_floats(value, ELEMENTS, expected));
    umbo_value_release(value);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
}

typedef struct {
    umbo_gradients *gradients;
    uint16_t number;
} added;

static umbo_status add_number(umbo_replica_context *context, const umbo_value *args,
                              void *user_data, umbo_value **result) {
    const added *self = (const added *)user_data;
    umbo_view view;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(self->gradients, context, 0, UMBO_GRADIENT_ADD, &view));
    *(uint16_t *)view.mutable_data = self->number;
    return umbo_gradients_submit_weighted(self->gradients, context, 1);
}

/* 2048 and three times 1: in float16 each 1 would be lost. */
static void sums_over_runs_are_wide(void) {
    static const uint16_t numbers[4] = {0x6800, 0x3c00, 0x3c00, 0x3c00};
    umbo_strategy *strategy = make_strategy(1);
    umbo_variable *variable = make_vector(strategy, UMBO_DTYPE_FLOAT32);
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    umbo_optimizer *optimizer = NULL;
    added self = {NULL, 0};
    int run;
    options.loss_reduction = UMBO_LOSS_GLOBAL_MEAN;
    options.dtype = UMBO_DTYPE_FLOAT16;
    options.accumulation_steps = 4;
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, &options, &self.gradients));
    sgd.learning_rate = 1;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd, &optimizer));
    for (run = 0; run < 4; run++) {
        self.number = numbers[run];
        CHECK_OK(umbo_strategy_run(strategy, add_number, &self, NULL, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(optimizer, self.gradients, NULL, NULL));
    }
    CHECK(float_of_variable(variable) == -2051);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(self.gradients);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

static void types_that_do_not_fit_are_refused(umbo_strategy *strategy) {
    umbo_variable *single = make_vector(strategy, UMBO_DTYPE_FLOAT32);
    umbo_variable *twice = make_vector(strategy, UMBO_DTYPE_FLOAT64);
    umbo_variable *variables[2];
    umbo_gradients *gradients = NULL;
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    variables[0] = single;
    variables[1] = twice;
    options.loss_reduction = UMBO_LOSS_SUM;
    options.dtype = UMBO_DTYPE_FLOAT16;
    CHECK_STATUS(umbo_gradients_create(strategy, 2, variables, &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("variables[1]");
    options.dtype = UMBO_DTYPE_INT32;
    CHECK_STATUS(umbo_gradients_create(strategy, 1, variables, &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dtype");
    options.dtype = (umbo_dtype)99;
    CHECK_STATUS(umbo_gradients_create(strategy, 1, variables, &options, &gradients),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("dtype");
    CHECK(gradients == NULL);
    umbo_variable_release(twice);
    umbo_variable_release(single);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    sums_are_wider_than_what_is_added(strategy, UMBO_DTYPE_BFLOAT16);
    sums_are_wider_than_what_is_added(strategy, UMBO_DTYPE_FLOAT16);
    sums_over_runs_are_wide();
    types_that_do_not_fit_are_refused(strategy);
    umbo_strategy_release(strategy);
    return finish();
}

/* Written by tests/c/generator from umbo.h: UMBO_OPTIONS with each field of each struct of options. It is C alone, as
 * that macro is. */
#include "check.h"

#include <umbo/all.h>

/* What pointers that are given lead to. */
static char somewhere;
static void *const place = &somewhere;

static void some_function(void) {
}

/* CASES */

/* The ways in which an expression is used: within the macros that take a call, in a condition, in another one. */
static umbo_status in_a_try(umbo_strategy *strategy, umbo_optimizer **optimizer) {
    UMBO_TRY(umbo_optimizer_create_adamw(
        strategy, &UMBO_OPTIONS(umbo_adamw, .learning_rate = 0.5, .beta1 = 0.25), optimizer));
    return umbo_optimizer_configure(*optimizer, &UMBO_OPTIONS(umbo_optimizer, .maximize = 1));
}

static void uses(void) {
    umbo_strategy *strategy = NULL;
    umbo_optimizer *optimizer = NULL, *other = NULL;
    umbo_value *value = float_value(3), *sum = NULL;
    const umbo_reduce_options *const over_an_axis =
        &UMBO_OPTIONS(umbo_reduce, .axis_count = 1, .axes = (int32_t[]){-1});
    umbo_reduce_options copy = UMBO_OPTIONS(umbo_reduce, .axis_count = 2);
    double number = 0;
    UMBO_CHECK(umbo_strategy_create(&UMBO_OPTIONS(umbo_strategy, .cpu_replicas = 2), &strategy));
    CHECK(info_of(strategy).replica_count == 2);
    CHECK_OK(in_a_try(strategy, &optimizer));
    CHECK_OK(umbo_optimizer_setting(optimizer, NULL, "beta1", &number));
    CHECK(number == 0.25);
    CHECK_OK(umbo_optimizer_setting(optimizer, NULL, "weight_decay", &number));
    CHECK(number == 0.01);
    if (umbo_optimizer_create_sgd(strategy, &UMBO_OPTIONS(umbo_sgd, .learning_rate = -1), &other) == UMBO_OK)
        CHECK(0);
    CHECK_MESSAGE("learning_rate");
    /* The array lives as long as the expression. */
    CHECK_STATUS(umbo_strategy_reduce(strategy, value, UMBO_REDUCE_SUM, over_an_axis, &sum),
                 UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("-1 is not in [-0, 0), the axes of shape []");
    CHECK(copy.axis_count == 2 && copy.axes == NULL);
    umbo_optimizer_release(optimizer);
    umbo_value_release(value);
    umbo_strategy_release(strategy);
}

int main(void) {
    /* CALLS */
    uses();
    return finish();
}

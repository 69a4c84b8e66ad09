/* Options in one expression, wherever an expression can stand. */
#include <umbo/umbo.h>

umbo_status make(umbo_strategy *strategy, umbo_optimizer **optimizer);
umbo_status reduce(umbo_strategy *strategy, const umbo_value *value, umbo_value **sum);

umbo_status make(umbo_strategy *strategy, umbo_optimizer **optimizer) {
    umbo_status status = UMBO_OK;
    const umbo_adamw_options copy = UMBO_OPTIONS(umbo_adamw, .beta1 = 0.8, .beta2 = 0.9);
    UMBO_TRY(umbo_optimizer_create_adamw(strategy, &UMBO_OPTIONS(umbo_adamw, .learning_rate = 1e-3), optimizer));
    UMBO_CHECK(umbo_optimizer_configure(
        *optimizer, &UMBO_OPTIONS(umbo_optimizer, .global_clip_norm = 1.0,
                                  .loss_scaling = UMBO_LOSS_SCALING_DYNAMIC)));
    if (umbo_optimizer_create_adamw(strategy, &copy, optimizer) != UMBO_OK) goto done;
    if (umbo_optimizer_create_sgd(strategy, &UMBO_OPTIONS(umbo_sgd, .learning_rate = 1), optimizer) != UMBO_OK)
        return umbo_optimizer_create_sgd(strategy, &UMBO_OPTIONS(umbo_sgd, .learning_rate = 2), optimizer);
    UMBO_TRY_ELSE(status,
                  umbo_optimizer_configure(*optimizer, &UMBO_OPTIONS(umbo_optimizer, .maximize = 1)), done);
done:
    return status;
}

/* One within another, and arrays. */
umbo_status reduce(umbo_strategy *strategy, const umbo_value *value, umbo_value **sum) {
    const umbo_reduce_options *const of_axes =
        &UMBO_OPTIONS(umbo_reduce, .axes = (int32_t[]){0, 1}, .axis_count = 2);
    umbo_reduce_options of_one;
    of_one = UMBO_OPTIONS(umbo_reduce, .axis_count = UMBO_OPTIONS(umbo_reduce, .axis_count = 1).axis_count,
                          .axes = of_axes->axes);
    UMBO_TRY(umbo_strategy_reduce(strategy, value, UMBO_REDUCE_SUM, &of_one, sum));
    return umbo_strategy_reduce(strategy, value, UMBO_REDUCE_SUM, of_axes, sum);
}

/* A step's user data in the place of the run's arguments. A compound literal is one argument: no function is a macro.
 * languages: c99 c11 c2x
 * refused: incompatible[- ]pointer[- ]type */
#include <umbo/umbo.h>

typedef struct {
    umbo_variable *weights;
    umbo_gradients *gradients;
} model;

umbo_status train(umbo_strategy *strategy, umbo_replica_fn step, const umbo_value *batch, model *m);

umbo_status train(umbo_strategy *strategy, umbo_replica_fn step, const umbo_value *batch, model *m) {
    UMBO_TRY(umbo_strategy_run(strategy, step, batch, &(model){m->weights, m->gradients}, NULL, NULL));
#ifdef WRONG
    return umbo_strategy_run(strategy, step, m, (void *)m, NULL, NULL);
#else
    return umbo_strategy_run(strategy, step, NULL, m, NULL, NULL);
#endif
}

/* A run's batch in the place of its user data.
 * languages: c11 c2x
 * refused: incompatible type */
#include <umbo/umbo.h>

typedef umbo_status (*run_fn)(umbo_strategy *, umbo_replica_fn, void *, const umbo_value *,
                              const umbo_run_options *, umbo_value **);

umbo_status train(umbo_strategy *strategy, umbo_replica_fn step, const umbo_value *batch);

umbo_status train(umbo_strategy *strategy, umbo_replica_fn step, const umbo_value *batch) {
    const run_fn pointer = &umbo_strategy_run;
    int counts[2] = {0, 0};
    UMBO_TRY(pointer(strategy, step, counts, batch, NULL, NULL));
    UMBO_TRY((umbo_strategy_run)(strategy, step, NULL, batch, NULL, NULL));
    UMBO_TRY(umbo_strategy_run(strategy, step, counts, batch, NULL, NULL));
    UMBO_TRY(umbo_strategy_run(strategy, step, 0, batch, NULL, NULL));
#ifdef WRONG
    return umbo_strategy_run(strategy, step, batch, NULL, NULL, NULL);
#else
    return umbo_strategy_run(strategy, step, NULL, batch, NULL, NULL);
#endif
}

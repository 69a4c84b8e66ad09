/* A status that is thrown away.
 * languages: c99 c11 c2x c++11 c++17
 * refused: unused-result */
#include <umbo/umbo.h>

void finish_steps(umbo_strategy *strategy);

void finish_steps(umbo_strategy *strategy) {
#ifdef WRONG
    umbo_strategy_synchronize(strategy);
#else
    umbo_ignore(umbo_strategy_synchronize(strategy));
    umbo_set_last_error(UMBO_STATUS_ABORTED, "x", NULL, NULL);
#endif
}

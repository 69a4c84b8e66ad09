/* Functions of tensorflow.h without that header.
 * languages: c99 c11 c2x c++11 c++17
 * refused: (implicit-function-declaration|not declared|undeclared) */
#ifdef WRONG
#include <umbo/umbo.h>
#else
#include <umbo/tensorflow.h>
#endif

umbo_status copy(const umbo_strategy *strategy, umbo_strategy **out);

umbo_status copy(const umbo_strategy *strategy, umbo_strategy **out) {
    return umbo_strategy_copy(strategy, out);
}

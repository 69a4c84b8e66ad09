/* The options of gradients one after the other.
 * refused: (cannot convert|could not convert|no matching function|no matching member|too many arguments|could not bind) */
#include <umbo/umbo.hpp>

umbo::gradients make_gradients(const umbo::strategy &of, const umbo::variable &weight);

umbo::gradients make_gradients(const umbo::strategy &of, const umbo::variable &weight) {
#ifdef WRONG
    return umbo::gradients::create(of, {weight}, umbo::loss_reduction::sum, 2);
#else
    return umbo::gradients::create(of, {weight}, umbo::loss_reduction::sum, {2});
#endif
}

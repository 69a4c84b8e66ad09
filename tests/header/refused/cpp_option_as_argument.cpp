/* An option that is not named.
 * refused: (cannot convert|could not convert|no matching function|no matching member|could not bind) */
#include <umbo/umbo.hpp>

umbo::dataset make_dataset(const umbo::dataset &from);

umbo::dataset make_dataset(const umbo::dataset &from) {
#ifdef WRONG
    return from.batch(2, true);
#else
    return from.batch(2, {true});
#endif
}

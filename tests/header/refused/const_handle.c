/* Changing what was given to be looked at.
 * languages: c99 c11 c2x c++11 c++17
 * refused: (discarded-qualifiers|discards-qualifiers|invalid conversion|no matching function|discards qualifiers) */
#include <umbo/umbo.h>

umbo_status next(const umbo_iterator *borrowed, umbo_iterator *own, umbo_value **element);

umbo_status next(const umbo_iterator *borrowed, umbo_iterator *own, umbo_value **element) {
    (void)borrowed;
    (void)own;
#ifdef WRONG
    return umbo_iterator_next(borrowed, element);
#else
    return umbo_iterator_next(own, element);
#endif
}

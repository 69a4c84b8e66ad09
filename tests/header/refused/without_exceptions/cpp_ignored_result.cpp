/* A failure that nobody looks at.
 * refused: (nodiscard|unused-result) */
#include <umbo/umbo.hpp>

umbo::status stop(const umbo::cancellation &token);

umbo::status stop(const umbo::cancellation &token) {
#ifdef WRONG
    token.cancel();
    return umbo::status::ok;
#else
    return token.cancel().status();
#endif
}

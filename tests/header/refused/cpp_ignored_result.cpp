/* A failure that nobody looks at.
 * languages: c++17 c++2b
 * refused: (nodiscard|unused-result) */
#define UMBO_NO_EXCEPTIONS
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

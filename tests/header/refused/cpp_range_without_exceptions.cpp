/* A loop over an iterator, which could not say that it stopped because of a failure.
 * languages: c++17 c++2b
 * refused: begin */
#ifdef WRONG
#define UMBO_NO_EXCEPTIONS
#endif
#include <umbo/umbo.hpp>

int count(const umbo::iterator &elements);

int count(const umbo::iterator &elements) {
    int seen = 0;
    for (const umbo::value &element : elements) seen += element ? 1 : 0;
    return seen;
}

/* A loop over an iterator, which could not say that it stopped because of a failure.
 * refused: begin */
#include <umbo/umbo.hpp>

int count(const umbo::iterator &elements);

int count(const umbo::iterator &elements) {
    int seen = 0;
#ifdef WRONG
    for (const umbo::value &element : elements) seen += element ? 1 : 0;
#else
    for (auto element = elements.next(); element && *element; element = elements.next()) ++seen;
#endif
    return seen;
}

/* Writing through a variable; `assign` and optimizers write it.
 * languages: c++17 c++2b
 * refused: (assignment of read-only location|cannot assign to return value|read-only) */
#include <umbo/umbo.hpp>

void write(umbo::variable &given);

void write(umbo::variable &given) {
#ifdef WRONG
    given.view_as<float>()[0] = 1;
#else
    given.assign(umbo::tensor::scalar(given.view_as<float>()[0]));
#endif
}

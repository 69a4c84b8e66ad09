/* Writing through a variable; `assign` and optimizers write it.
 * refused: (assignment of read-only location|cannot assign to return value|read-only) */
#include <umbo/umbo.hpp>

void write_variable(umbo::variable &given);

void write_variable(umbo::variable &given) {
#ifdef WRONG
    given.view_as<float>()[0] = 1;
#else
    given.assign(umbo::tensor::scalar(given.view_as<float>()[0]));
#endif
}

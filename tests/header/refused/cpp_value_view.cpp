/* Writing through a value.
 * refused: (assignment of read-only location|cannot assign to return value|read-only) */
#include <umbo/umbo.hpp>

void write_value(umbo::value &given);

void write_value(umbo::value &given) {
#ifdef WRONG
    given.view_as<float>()[0] = 1;
#else
    umbo::tensor own = given.tensor();
    own.view_as<float>()[0] = 1;
#endif
}

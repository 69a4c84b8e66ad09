/* Writing through a value.
 * languages: c++17 c++2b
 * refused: (assignment of read-only location|cannot assign to return value|read-only) */
#include <umbo/umbo.hpp>

void write(umbo::value &given);

void write(umbo::value &given) {
#ifdef WRONG
    given.view_as<float>()[0] = 1;
#else
    umbo::tensor own = given.tensor();
    own.view_as<float>()[0] = 1;
#endif
}

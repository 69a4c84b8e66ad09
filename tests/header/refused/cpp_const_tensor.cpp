/* Writing through a const tensor.
 * refused: (assignment of read-only location|cannot assign to return value|read-only) */
#include <umbo/umbo.hpp>

void write_const_tensor(umbo::tensor &open, const umbo::tensor &closed);

void write_const_tensor(umbo::tensor &open, const umbo::tensor &closed) {
    static_cast<void>(closed);
#ifdef WRONG
    closed.view_as<float>()[0] = 1;
#else
    open.view_as<float>()[0] = 1;
#endif
}

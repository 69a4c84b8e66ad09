/* A C constant where C++ has an enum of its own.
 * refused: (cannot convert|could not convert|no matching function|cannot initialize a parameter) */
#include <umbo/umbo.hpp>

umbo::tensor make_by_constant();

umbo::tensor make_by_constant() {
#ifdef WRONG
    return umbo::tensor::create_zeros(UMBO_DTYPE_FLOAT32, {2});
#else
    return umbo::tensor::create_zeros(umbo::dtype::float32, {2});
#endif
}

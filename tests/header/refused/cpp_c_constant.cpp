/* A C constant where C++ has an enum of its own.
 * languages: c++17 c++2b
 * refused: (cannot convert|could not convert|no matching function|cannot initialize a parameter) */
#include <umbo/umbo.hpp>

umbo::tensor make();

umbo::tensor make() {
#ifdef WRONG
    return umbo::tensor::create_zeros(UMBO_DTYPE_FLOAT32, {2});
#else
    return umbo::tensor::create_zeros(umbo::dtype::float32, {2});
#endif
}

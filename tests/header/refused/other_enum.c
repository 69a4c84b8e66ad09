/* A constant of another enum.
 * languages: c99 c11 c++11 c++17 c23
 * refused: (cannot convert|invalid conversion|no matching function|enum-conversion|enum-enum-cast) */
#include <umbo/umbo.h>

umbo_status make(umbo_tensor **tensor);

umbo_status make(umbo_tensor **tensor) {
#ifdef WRONG
    return umbo_tensor_create_zeros(UMBO_VALUE_TUPLE, 0, NULL, NULL, tensor);
#else
    return umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 0, NULL, NULL, tensor);
#endif
}

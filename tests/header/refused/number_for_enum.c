/* A number in the place of an enum.
 * languages: c++11 c++17
 * refused: (cannot convert|invalid conversion|no matching function) */
#include <umbo/umbo.h>

umbo_status make(umbo_tensor **tensor);

umbo_status make(umbo_tensor **tensor) {
#ifdef WRONG
    return umbo_tensor_create_zeros(3, 0, NULL, NULL, tensor);
#else
    return umbo_tensor_create_zeros(UMBO_ENUM_VALUE(umbo_dtype, 3), 0, NULL, NULL, tensor);
#endif
}

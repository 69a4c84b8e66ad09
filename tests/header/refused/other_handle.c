/* A handle of another type.
 * languages: c99 c11 c2x c++11 c++17
 * refused: (incompatible-pointer-types|cannot convert|no matching function) */
#include <umbo/umbo.h>

umbo_status look(const umbo_value *value, const umbo_tensor *tensor, umbo_view *view);

umbo_status look(const umbo_value *value, const umbo_tensor *tensor, umbo_view *view) {
    (void)value;
    (void)tensor;
#ifdef WRONG
    return umbo_tensor_view(value, view);
#else
    return umbo_tensor_view(tensor, view);
#endif
}

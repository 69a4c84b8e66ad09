/* Copying what a handle stands for.
 * languages: c99 c11 c2x c++11 c++17
 * refused: (incomplete|invalid use) */
#include <umbo/umbo.h>

size_t size_of(const umbo_tensor *tensor);

size_t size_of(const umbo_tensor *tensor) {
    (void)tensor;
#ifdef WRONG
    return sizeof(*tensor);
#else
    return sizeof(tensor);
#endif
}

/* Writing through a pointer to what is only shown.
 * languages: c99 c11 c2x c++11 c++17
 * refused: (read-only|const-qualified) */
#include <umbo/umbo.h>

umbo_status begin(const umbo_view *memory, void *user_data);

umbo_status begin(const umbo_view *memory, void *user_data) {
    (void)user_data;
#ifdef WRONG
    memory->ndim = 1;
#else
    *(float *)memory->mutable_data = 1;
#endif
    return UMBO_OK;
}

umbo_initializer_fn initializer_of(void);

umbo_initializer_fn initializer_of(void) { return begin; }

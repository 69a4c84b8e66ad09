/* Stands for a C library's where clang reads the headers for a system whose C library is not here. */
#include <stddef.h>
#ifdef __cplusplus
extern "C" {
#endif
void *memcpy(void *to, const void *from, size_t bytes);
void *memset(void *to, int byte, size_t bytes);
int strcmp(const char *a, const char *b);
#ifdef __cplusplus
}
#endif

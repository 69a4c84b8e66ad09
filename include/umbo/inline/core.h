/* Generated from src; do not edit. The bodies of inline functions of core.h. */
#ifndef UMBO_INLINE_CORE_H
#define UMBO_INLINE_CORE_H

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

static inline void umbo_ignore(umbo_status status) {
  /* Enums have 32 bits, as in the library. */
  char compile_without_fshort_enums[sizeof(status) == 4 ? 1 : -1];
  (void)compile_without_fshort_enums;
  (void)status;
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

/* Compiles with the newer headers alone, which have a field more. */
#include <stddef.h>
#include <umbo/umbo.h>

extern const char added_later_is_last[offsetof(umbo_strategy_options, added_later) + sizeof(int64_t) ==
                                              sizeof(umbo_strategy_options)
                                          ? 1
                                          : -1];

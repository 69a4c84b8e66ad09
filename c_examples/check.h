/* CHECK(call): ends the program, saying where and why, when a call of the library fails.
 * For the main thread of a program; a callback returns its status instead (UMBO_TRY). */
#ifndef CHECK_H
#define CHECK_H

#include <stdio.h>
#include <stdlib.h>
#include <umbo/umbo.h>

#define CHECK(call) check_status((call), #call, __FILE__, __LINE__)

static inline void check_status(umbo_status status, const char *call, const char *file, int line) {
  if (status == UMBO_OK) return;
  fflush(stdout);
  fprintf(stderr, "%s:%d: %s\n  %s: %s\n", file, line, call, umbo_status_name(status), umbo_last_error_message());
  exit(EXIT_FAILURE);
}

#endif

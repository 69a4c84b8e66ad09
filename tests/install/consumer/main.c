#include <stdio.h>
#include <string.h>
#include <umbo/umbo.h>

/* Finds the library, calls it, and checks that header and library are one version. */
int main(void) {
  if (strcmp(umbo_version(), EXPECTED_VERSION) != 0) {
    fprintf(stderr, "the library is %s, its package says %s\n", umbo_version(), EXPECTED_VERSION);
    return 1;
  }
  return 0;
}

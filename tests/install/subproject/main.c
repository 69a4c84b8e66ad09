#include <umbo/umbo.h>

int main(void) { return umbo_version()[0] == '\0'; }

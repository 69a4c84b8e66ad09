#include <stdio.h>
#include <umbo/umbo.h>

int main(void) {
  umbo_strategy *strategy = NULL;
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  UMBO_CHECK(umbo_strategy_get_info(strategy, &info));
  printf("umbo %s, %d replicas\n", umbo_version(), (int)info.replica_count);
  umbo_strategy_release(strategy);
  return info.replica_count == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#include <stdio.h>
#include <umbo/umbo.h>

int main(void) {
  umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
  umbo_strategy *strategy = NULL;
  int64_t replicas = 0;
  options.cpu_replicas = 2;
  UMBO_CHECK(umbo_strategy_create(&options, &strategy));
  UMBO_CHECK(umbo_strategy_num_replicas_in_sync(strategy, &replicas));
  printf("umbo %s, %d replicas\n", umbo_version(), (int)replicas);
  umbo_strategy_release(strategy);
  return replicas == 2 ? EXIT_SUCCESS : EXIT_FAILURE;
}

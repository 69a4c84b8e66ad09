/* The library says hello: its version, the devices of this machine, and one function run on two replicas. */
#include <stdio.h>
#include <umbo/umbo.h>

/* Runs once on every replica, at the same time. What it stores in *result comes back as a per-replica value. */
static umbo_status greet(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  (void)args;
  (void)user_data;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));

  const int32_t answer = 10 * (here.replica_id + 1);
  umbo_tensor *tensor = NULL;
  UMBO_TRY(umbo_tensor_from_data(UMBO_DTYPE_INT32, 0, NULL, &answer, NULL, &tensor));
  return umbo_value_from_tensor(tensor, result); /* the tensor is released when the callback returns */
}

int main(void) {
  printf("umbo %s\n", umbo_version());

  umbo_device_info cpu = UMBO_DEVICE_INFO_INIT, gpu = UMBO_DEVICE_INFO_INIT;
  UMBO_CHECK(umbo_device_get_info("CPU:0", &cpu));
  UMBO_CHECK(umbo_device_get_info("GPU:0", &gpu));
  printf("physical devices: %d CPU, %d GPU\n", (int)cpu.physical_count, (int)gpu.physical_count);

  umbo_strategy *strategy = NULL;
  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
  UMBO_CHECK(umbo_strategy_get_info(strategy, &info));
  printf("variables live on %s\n", info.parameter_device);

  umbo_value *greetings = NULL;
  UMBO_CHECK(umbo_strategy_run(strategy, greet, NULL, NULL, NULL, &greetings));

  /* The replicas ran in no particular order; their results come in replica order. */
  umbo_value *results = NULL;
  UMBO_CHECK(umbo_strategy_local_results(strategy, greetings, &results));
  umbo_value_info of_results = UMBO_VALUE_INFO_INIT;
  UMBO_CHECK(umbo_value_get_info(results, &of_results));
  for (int32_t replica = 0; replica < of_results.item_count; ++replica) {
    umbo_value *item = NULL;
    umbo_view view;
    const char *device = NULL;
    UMBO_CHECK(umbo_value_item(results, replica, &item));
    UMBO_CHECK(umbo_value_view(item, NULL, UMBO_DTYPE_INT32, &view));
    UMBO_CHECK(umbo_strategy_compute_device(strategy, replica, &device));
    printf("replica %d on %s says %d\n", (int)replica, device, (int)*(const int32_t *)view.data);
    umbo_value_release(item);
  }

  umbo_value_release(results);
  umbo_value_release(greetings);
  umbo_strategy_release(strategy);
  return 0;
}

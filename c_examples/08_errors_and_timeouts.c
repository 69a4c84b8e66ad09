/* What happens when something goes wrong: a wrong argument, a replica that fails, and one that takes too long. Teaches that
 * messages say what and where, that a failed step changes nothing, and that the strategy can be used afterwards. */

#include <stdio.h>
#include <stdlib.h>
#include <umbo/umbo.h>

static umbo_variable *total; /* what replicas add to */
static umbo_strategy *strategy;

/* Adds 1 on each replica; replica 1 does what user_data says. */
static umbo_status step(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
  (void)args;
  (void)result;
  const char what = *(const char *)user_data;
  int32_t cancelled = 0;
  umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
  UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
  umbo_value *one = NULL;
  const float number = 1;
  UMBO_TRY(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &number, NULL, &one));
  UMBO_TRY(umbo_variable_assign_add(total, one)); /* takes effect when all replicas are done */
  if (here.replica_id == 1 && what == 'f') {
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "picture 17 is cut off", NULL, NULL);
  }
  /* Long work asks now and then whether it is still wanted. */
  while (here.replica_id == 1 && what == 'l' && !cancelled) {
    UMBO_TRY(umbo_replica_context_is_cancelled(ctx, &cancelled));
  }
  return UMBO_OK;
}

static float read_total(void) {
  float number = 0;
  UMBO_CHECK(umbo_variable_download(total, &number, sizeof(number)));
  return number;
}

int main(void) {
  const umbo_status refused = umbo_strategy_create_cpu(-2, &strategy);
  printf("%s: %s\n", umbo_status_name(refused), umbo_last_error_message());

  UMBO_CHECK(umbo_strategy_create_cpu(2, &strategy));
  /* What replicas assign is added up. */
  UMBO_CHECK(umbo_variable_create(
      strategy, "total", NULL,
      &UMBO_OPTIONS(umbo_variable, .initial = UMBO_INITIAL_ZEROS, .dtype = UMBO_DTYPE_FLOAT32,
                    .aggregation = UMBO_AGGREGATION_SUM),
      &total));

  const umbo_status failed = umbo_strategy_run(strategy, step, NULL, "f", NULL, NULL);
  printf("%s: %s\n", umbo_status_name(failed), umbo_last_error_message());
  for (int64_t i = 0; i < umbo_last_error_count(); ++i) { /* the same, one by one */
    umbo_error_info info = UMBO_ERROR_INFO_INIT;
    UMBO_CHECK(umbo_last_error_at(i, &info));
    printf("  replica %d on %s: %s, %s\n", (int)info.replica, info.device, umbo_status_name(info.status), info.message);
  }
  const float after_failure = read_total();

  const umbo_status late = umbo_strategy_run(strategy, step, NULL, "l",
                                             &UMBO_OPTIONS(umbo_run, .timeout_seconds = 0.1), NULL);
  printf("%s: %s\n", umbo_status_name(late), umbo_last_error_message());
  UMBO_CHECK(umbo_strategy_synchronize(strategy)); /* the late replica has noticed, and is back */
  const float after_timeout = read_total();

  UMBO_CHECK(umbo_strategy_run(strategy, step, NULL, "", NULL, NULL)); /* as if nothing had been */
  const float after_success = read_total();
  printf("total: %.0f after the failure, %.0f after the timeout, %.0f after success\n", after_failure, after_timeout,
         after_success);
  umbo_variable_release(total);
  umbo_strategy_release(strategy);
  return refused == UMBO_STATUS_INVALID_ARGUMENT && failed == UMBO_STATUS_DATA_LOSS &&
                 late == UMBO_STATUS_DEADLINE_EXCEEDED && after_failure == 0 && after_timeout == 0 && after_success == 2
             ? EXIT_SUCCESS
             : EXIT_FAILURE;
}

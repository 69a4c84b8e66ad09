/* A steady run that reduces a number over the replicas allocates nothing: counted by an allocator that stands before the
 * system's, on all threads. Nor does a result that the program keeps change with the next ones. */
#include <stdio.h>

#include <umbo/umbo.h>

#include "counting_allocator.h"

enum { REPLICAS = 2, FIRST = 20, LAST = 200 };

static umbo_value *numbers[REPLICAS];
static umbo_value *kept[REPLICAS];

static float number_of(const umbo_value *value) {
    umbo_tensor *tensor = NULL;
    umbo_view view;
    UMBO_CHECK(umbo_value_tensor(value, &tensor));
    UMBO_CHECK(umbo_tensor_view(tensor, &view));
    const float number = *(const float *)view.data;
    umbo_tensor_release(tensor);
    return number;
}

static umbo_status sum(umbo_replica_context *ctx, const umbo_value *args, void *user_data, umbo_value **result) {
    const int keeps = *(const int *)user_data;
    umbo_replica_context_info here = UMBO_REPLICA_CONTEXT_INFO_INIT;
    umbo_value *all = NULL;
    (void)args, (void)result;
    UMBO_TRY(umbo_replica_context_get_info(ctx, &here));
    UMBO_TRY(umbo_replica_context_all_reduce(ctx, numbers[here.replica_id], UMBO_REDUCE_SUM, &all));
    if (keeps) UMBO_TRY(umbo_value_retain(all, &kept[here.replica_id]));
    umbo_value_release(all);
    return UMBO_OK;
}

int main(void) {
    umbo_strategy *strategy = NULL;
    int keeps = 0;
    UMBO_CHECK(umbo_strategy_create_cpu(REPLICAS, &strategy));
    for (int replica = 0; replica < REPLICAS; ++replica) {
        const float number = (float)(replica + 1);
        atomic_store(&counting, 1);
        UMBO_CHECK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &number, NULL, &numbers[replica]));
        atomic_store(&counting, 0);
    }
    const long of_numbers = atomic_load(&allocations);
    for (int run = 0; run < LAST; ++run) {
        if (run == FIRST) atomic_store(&counting, 1);
        UMBO_CHECK(umbo_strategy_run(strategy, sum, NULL, &keeps, NULL, NULL));
    }
    atomic_store(&counting, 0);
    const long of_runs = atomic_load(&allocations) - of_numbers;
    keeps = 1;
    UMBO_CHECK(umbo_strategy_run(strategy, sum, NULL, &keeps, NULL, NULL));
    keeps = 0;
    for (int replica = 0; replica < REPLICAS; ++replica) {
        umbo_value_release(numbers[replica]);
        UMBO_CHECK(umbo_value_from_data(UMBO_DTYPE_FLOAT32, 0, NULL, &(float){7}, NULL, &numbers[replica]));
    }
    UMBO_CHECK(umbo_strategy_run(strategy, sum, NULL, &keeps, NULL, NULL));
    int is_kept = 1;
    for (int replica = 0; replica < REPLICAS; ++replica) {
        is_kept &= number_of(kept[replica]) == 3;
        umbo_value_release(kept[replica]);
        umbo_value_release(numbers[replica]);
    }
    umbo_strategy_release(strategy);
    printf("%ld allocations for %d numbers, %ld in %d runs\n", of_numbers, REPLICAS, of_runs, LAST - FIRST);
    /* None for the numbers would say that the allocator counts nothing. */
    return of_numbers < REPLICAS || of_runs != 0 || !is_kept;
}

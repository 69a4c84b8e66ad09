/* The end of all threads: what is refused while they are needed, that none is left, and that the
 * library works as before afterwards. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <sched.h>

#include "threads.h"

enum { REPLICAS = 2, LARGE = 1 << 19, SHARED = 1 << 17 };

static umbo_status add_one(umbo_replica_context *context, const umbo_value *args, void *user_data,
                           umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    return return_float(1, result);
}

static umbo_status shut_down(umbo_replica_context *context, const umbo_value *args, void *user_data,
                             umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return umbo_shutdown();
}

static umbo_dataset *ahead(void) {
    umbo_dataset *numbers = NULL, *prefetched = NULL;
    CHECK_OK(umbo_dataset_from_range(0, 1000, 1, &numbers));
    CHECK_OK(umbo_dataset_retain(numbers, &prefetched));
    CHECK_OK(umbo_dataset_prefetch(&prefetched, 4));
    umbo_dataset_release(numbers);
    return prefetched;
}

static umbo_status same(const umbo_value *element, void *user_data, umbo_value **result) {
    (void)user_data;
    return umbo_value_retain(element, result);
}

/* Threads of a parallel map live as long as its iterator. */
static void maps(void) {
    umbo_map_options options = UMBO_MAP_OPTIONS_INIT;
    umbo_dataset *numbers = NULL, *mapped = NULL;
    umbo_iterator *iterator = NULL;
    umbo_value *element = NULL;
    options.parallel_call_count = 2;
    CHECK_OK(umbo_dataset_from_range(0, 1000, 1, &numbers));
    CHECK_OK(umbo_dataset_retain(numbers, &mapped));
    CHECK_OK(umbo_dataset_map(&mapped, same, NULL, NULL, &options));
    CHECK_OK(umbo_iterator_from_dataset(mapped, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    umbo_value_release(element);
    umbo_dataset_release(mapped);
    umbo_dataset_release(numbers);
    CHECK_STATUS(umbo_shutdown(), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("threads of parallel maps (2): release their iterators");
    umbo_iterator_release(iterator);
    check_threads_of_process(2);
    CHECK_OK(umbo_shutdown());
}

static umbo_status contribute(umbo_replica_context *context, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    umbo_gradients *gradients = (umbo_gradients *)user_data;
    umbo_view rows, gradient;
    float sum = 0;
    int64_t row, element;
    (void)result;
    UMBO_TRY(umbo_value_view(args, NULL, UMBO_DTYPE_NONE, &rows));
    for (row = 0; row < rows.shape[0]; row++) sum += ((const float *)rows.data)[row];
    UMBO_TRY(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &gradient));
    for (element = 0; element < SHARED; element++) ((float *)gradient.mutable_data)[element] = sum;
    return umbo_gradients_submit(gradients, context);
}

/* How many threads share heavy computations: as many as there are processors, none if there is one. */
static int computing_threads(void) {
    cpu_set_t processors;
    CHECK(sched_getaffinity(0, sizeof(processors), &processors) == 0);
    return CPU_COUNT(&processors) > 1 ? CPU_COUNT(&processors) : 0;
}

/* The check compares large gradients on threads that nobody asked for, and that stay. */
static void heavy_computations(void) {
    static const float rows[] = {1, 2, 3, 4};
    const int64_t size = SHARED;
    const int expected = computing_threads();
    umbo_strategy *strategy = make_strategy(REPLICAS);
    umbo_value *batch = floats_value(4, rows);
    umbo_tensor *initial = NULL;
    umbo_variable *variable = NULL;
    umbo_gradients *gradients = NULL;
    umbo_equivalence *equivalence = NULL;
    umbo_equivalence_info info = UMBO_EQUIVALENCE_INFO_INIT;
    umbo_variable_options variable_options = UMBO_VARIABLE_OPTIONS_INIT;
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &size, NULL, &initial));
    CHECK_OK(umbo_variable_create(strategy, "v", initial, &variable_options, &variable));
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, UMBO_LOSS_SUM, NULL,
                                   &gradients));
    CHECK_OK(umbo_strategy_check_equivalence(strategy, gradients, contribute, batch, gradients, NULL,
                                             &equivalence));
    CHECK_OK(umbo_equivalence_get_info(equivalence, &info));
    CHECK(info.holds == 1);
    umbo_equivalence_release(equivalence);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
    umbo_tensor_release(initial);
    umbo_value_release(batch);
    CHECK_STATUS(umbo_shutdown(), UMBO_STATUS_FAILED_PRECONDITION);
    umbo_strategy_release(strategy);
    check_threads_of_process(4 + expected);
    CHECK_OK(umbo_shutdown());
    check_threads_of_process(2);
}

static void *life(void *nothing) {
    int32_t round;
    (void)nothing;
    CHECK_OK(umbo_shutdown());
    CHECK_OK(umbo_set_worker_count(3));
    for (round = 0; round < 3; round++) {
        umbo_strategy *strategy = make_strategy(REPLICAS);
        umbo_value *values = zeros_of_replicas(REPLICAS, LARGE), *sum = NULL, *result = NULL, *element = NULL;
        umbo_dataset *dataset = ahead();
        umbo_iterator *iterator = NULL;
        CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
        CHECK_OK(umbo_iterator_next(iterator, &element));
        umbo_value_release(element);
        CHECK_OK(umbo_strategy_run(strategy, add_one, NULL, NULL, NULL, &result));
        CHECK_OK(umbo_strategy_reduce(strategy, values, UMBO_REDUCE_SUM, NULL, &sum));
        /* Two of the program's, one for replica 1, two for central work, one for the iterator. */
        check_threads_of_process(6);
        CHECK_STATUS(umbo_shutdown(), UMBO_STATUS_FAILED_PRECONDITION);
        CHECK_MESSAGE("replica threads (1): release their strategies");
        CHECK_MESSAGE("prefetching threads (1): release their iterators");
        CHECK_STATUS(umbo_strategy_run(strategy, shut_down, NULL, NULL, NULL, NULL),
                     UMBO_STATUS_FAILED_PRECONDITION);
        umbo_iterator_release(iterator);
        umbo_dataset_release(dataset);
        umbo_value_release(result);
        umbo_value_release(sum);
        umbo_value_release(values);
        CHECK_STATUS(umbo_shutdown(), UMBO_STATUS_FAILED_PRECONDITION);
        umbo_strategy_release(strategy);
        check_threads_of_process(4);
        CHECK_OK(umbo_shutdown());
        CHECK_OK(umbo_shutdown());
        check_threads_of_process(2);
    }
    maps();
    heavy_computations();
    return NULL;
}

/* On a thread that ends before the process does: what the library keeps for a thread is gone then, and
 * checkers of leaks have nothing to find. */
int main(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, life, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    check_threads_of_process(1);
    return finish();
}

/* The end of all threads: what is refused while they are needed, that none is left, and that the
 * library works as before afterwards. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dirent.h>
#include <pthread.h>
#include <unistd.h>

#include "check.h"

enum { REPLICAS = 2, LARGE = 1 << 19 };

/* How many threads this process has. One that was joined may still be on its way out of the list. */
static int threads_of_process(int expected) {
    int count = 0, look;
    for (look = 0; look < 10000; look++) {
        DIR *list = opendir("/proc/self/task");
        struct dirent *entry;
        CHECK(list != NULL);
        count = 0;
        while ((entry = readdir(list)) != NULL) count += entry->d_name[0] != '.';
        closedir(list);
        if (count == expected) break;
        usleep(1000);
    }
    return count;
}

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

static umbo_value *large_values(void) {
    const int64_t size = LARGE;
    umbo_value *items[REPLICAS];
    int32_t replica;
    for (replica = 0; replica < REPLICAS; replica++) {
        umbo_tensor *tensor = NULL;
        CHECK_OK(umbo_tensor_zeros(UMBO_FLOAT32, 1, &size, NULL, &tensor));
        items[replica] = into_value(tensor);
    }
    return into_per_replica(REPLICAS, items);
}

static umbo_dataset *ahead(void) {
    umbo_dataset *numbers = NULL, *prefetched = NULL;
    CHECK_OK(umbo_dataset_range(0, 1000, 1, &numbers));
    CHECK_OK(umbo_dataset_prefetch(numbers, 4, &prefetched));
    umbo_dataset_release(numbers);
    return prefetched;
}

static void *life(void *nothing) {
    int32_t round;
    (void)nothing;
    CHECK_OK(umbo_shutdown());
    CHECK_OK(umbo_set_worker_count(3));
    for (round = 0; round < 3; round++) {
        umbo_strategy *strategy = make_strategy(REPLICAS);
        umbo_value *values = large_values(), *sum = NULL, *result = NULL, *element = NULL;
        umbo_dataset *dataset = ahead();
        umbo_iterator *iterator = NULL;
        CHECK_OK(umbo_dataset_iterator(dataset, &iterator));
        CHECK_OK(umbo_iterator_next(iterator, &element));
        umbo_value_release(element);
        CHECK_OK(umbo_strategy_run(strategy, add_one, NULL, NULL, NULL, &result));
        CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, values, NULL, &sum));
        /* Two of the program's, one for replica 1, two for central work, one for the iterator. */
        CHECK(threads_of_process(6) == 6);
        CHECK_STATUS(umbo_shutdown(), UMBO_FAILED_PRECONDITION);
        CHECK_MESSAGE("1 replica threads: release their strategies");
        CHECK_MESSAGE("1 prefetching threads: release their iterators");
        CHECK_STATUS(umbo_strategy_run(strategy, shut_down, NULL, NULL, NULL, NULL),
                     UMBO_FAILED_PRECONDITION);
        umbo_iterator_release(iterator);
        umbo_dataset_release(dataset);
        umbo_value_release(result);
        umbo_value_release(sum);
        umbo_value_release(values);
        CHECK_STATUS(umbo_shutdown(), UMBO_FAILED_PRECONDITION);
        umbo_strategy_release(strategy);
        CHECK(threads_of_process(4) == 4);
        CHECK_OK(umbo_shutdown());
        CHECK_OK(umbo_shutdown());
        CHECK(threads_of_process(2) == 2);
    }
    return NULL;
}

/* On a thread that ends before the process does: what the library keeps for a thread is gone then, and
 * checkers of leaks have nothing to find. */
int main(void) {
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, life, NULL) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(threads_of_process(1) == 1);
    return finish();
}

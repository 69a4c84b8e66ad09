/* Ranks with variables on GPUs, as processes over the tests' own driver, and functions that take addresses of GPU
 * memory: the weights are those of one process on CPUs. */
#define _GNU_SOURCE

#include "gpu_memory.h"
#include "ranks.h"

#include "train.h"

typedef uint64_t device_address;

static int (*attribute_of)(void *, int, device_address);
static int (*copy_down)(void *, device_address, size_t);
static int (*copy_up)(device_address, const void *, size_t);
static int (*synchronize)(void *);
static uint64_t (*ask)(const char *, char *, size_t);

static void find_driver(void) {
    DRIVER_FUNCTION(attribute_of, "cuPointerGetAttribute");
    DRIVER_FUNCTION(copy_down, "cuMemcpyDtoH_v2");
    DRIVER_FUNCTION(copy_up, "cuMemcpyHtoD_v2");
    DRIVER_FUNCTION(synchronize, "cuStreamSynchronize");
    DRIVER_FUNCTION(ask, "fake_cuda_ask");
}

/* A communicator over another one, which takes addresses of GPU memory, too. */
struct over {
    umbo_communicator *host;
    int64_t rank, size;
    int64_t calls_on_gpus;
};

static int is_on_gpu(const void *address) {
    /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE, and what it says of a device's. */
    unsigned kind = 0;
    return address != NULL && attribute_of(&kind, 2, (device_address)(uintptr_t)address) == 0 && kind == 2;
}

static size_t sum_of(const size_t *bytes, int64_t count) {
    size_t sum = 0;
    int64_t at;
    for (at = 0; at < count; at++) sum += bytes[at];
    return sum;
}

/* Host memory with what lies on a GPU. */
static void *brought_down(const void *from, size_t bytes) {
    void *here = malloc(bytes + 1);
    CHECK(here != NULL);
    if (bytes > 0) CHECK(copy_down(here, (device_address)(uintptr_t)from, bytes) == 0);
    return here;
}

static void bring_up(void *to, void *here, size_t bytes) {
    if (bytes > 0) CHECK(copy_up((device_address)(uintptr_t)to, here, bytes) == 0);
    /* The copy has read its source by now; it may not have arrived. */
    CHECK(synchronize(NULL) == 0);
    free(here);
}

static umbo_status all_to_all(const size_t *send_bytes, const void *send, const size_t *receive_bytes,
                              void *user_data, void *receive) {
    struct over *it = (struct over *)user_data;
    const size_t sent = sum_of(send_bytes, it->size), received = sum_of(receive_bytes, it->size);
    void *from, *to;
    umbo_status status;
    if (!is_on_gpu(send) && !is_on_gpu(receive))
        return umbo_communicator_all_to_all(it->host, send_bytes, send, receive_bytes, receive);
    it->calls_on_gpus++;
    from = brought_down(send, sent);
    to = calloc(1, received + 1);
    CHECK(to != NULL);
    status = umbo_communicator_all_to_all(it->host, send_bytes, from, receive_bytes, to);
    free(from);
    bring_up(receive, to, received);
    return status;
}

static umbo_status all_gather(const size_t *bytes, const void *send, void *user_data, void *receive) {
    struct over *it = (struct over *)user_data;
    const size_t received = sum_of(bytes, it->size);
    void *from, *to;
    umbo_status status;
    if (!is_on_gpu(receive)) return umbo_communicator_all_gather(it->host, bytes, send, receive);
    it->calls_on_gpus++;
    from = brought_down(send, bytes[it->rank]);
    to = calloc(1, received + 1);
    CHECK(to != NULL);
    status = umbo_communicator_all_gather(it->host, bytes, from, to);
    free(from);
    bring_up(receive, to, received);
    return status;
}

struct plan {
    int on_gpus;
    struct seen seen;
};

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct plan *plan = (struct plan *)argument;
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    umbo_communicator *own = NULL;
    struct over over = {0};
    over.host = communicator;
    over.rank = communicator_info_of(communicator).rank;
    over.size = communicator_info_of(communicator).rank_count;
    if (plan->on_gpus) find_driver();
    functions.flags = UMBO_COMMUNICATOR_ANY_THREAD | UMBO_COMMUNICATOR_DEVICE_POINTERS;
    functions.rank = over.rank;
    functions.rank_count = over.size;
    functions.node_rank = over.rank;
    functions.node_rank_count = over.size;
    functions.all_to_all = all_to_all;
    functions.all_gather = all_gather;
    if (plan->on_gpus) CHECK_OK(umbo_communicator_create(&functions, &over, NULL, &own));
    else CHECK_OK(umbo_communicator_retain(communicator, &own));
    train_parameter_device = plan->on_gpus ? "GPU:0" : NULL;
    plan->seen.status[rank] = train(own, rank, REPLICAS / over.size, &plan->seen);
    umbo_communicator_release(own);
    CHECK(over.calls_on_gpus == (plan->on_gpus ? 2 * STEPS : 0));
    CHECK(!plan->on_gpus || ask("reports", NULL, 0) == 0);
    return 0;
}

int main(void) {
    struct plan *reference = (struct plan *)ranks_shared(sizeof(struct plan));
    struct plan *plan = (struct plan *)ranks_shared(sizeof(struct plan));
    struct ranks_options options = {0};
    struct ranks_outcome outcome;
    int rank, step, size;
    options.size = 1;
    outcome = ranks_run(&options, on_rank, reference);
    CHECK(!outcome.hung && outcome.code[0] == 0 && reference->seen.status[0] == UMBO_OK);
    for (size = 2; size <= REPLICAS; size *= 2) {
        memset(plan, 0, sizeof(*plan));
        plan->on_gpus = 1;
        options.size = size;
        outcome = ranks_run(&options, on_rank, plan);
        CHECK(!outcome.hung);
        for (rank = 0; rank < size; rank++) {
            CHECK(outcome.code[rank] == 0 && plan->seen.status[rank] == UMBO_OK);
            for (step = 0; step <= STEPS; step++)
                CHECK(plan->seen.fingerprint[step][rank] == reference->seen.fingerprint[step][0]);
        }
    }
    return 0;
}

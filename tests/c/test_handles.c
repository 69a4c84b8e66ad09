/* Handles held wrong: stale, foreign, random, of another kind, released twice. */
#include "check.h"

static umbo_tensor *as_tensor(const void *address) { return (umbo_tensor *)address; }

static void refuse_tensor(const umbo_tensor *tensor, const char *words) {
    umbo_tensor *another = NULL;
    umbo_view view;
    memset(&view, 0x5a, sizeof(view));
    CHECK_STATUS(umbo_tensor_view(tensor, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("tensor");
    CHECK(strstr(umbo_last_error_message(), words) != NULL);
    CHECK(view.ndim == 0x5a5a5a5a); /* untouched */
    CHECK_STATUS(umbo_tensor_retain(tensor, &another), UMBO_STATUS_INVALID_ARGUMENT);
    umbo_tensor_release(tensor); /* nothing happens */
}

#define REFUSE_TO_RETAIN(retain, type, handle) \
    do { \
        type *another = NULL; \
        CHECK_STATUS(retain((type *)(handle), &another), UMBO_STATUS_INVALID_ARGUMENT); \
        CHECK_STATUS(retain(NULL, &another), UMBO_STATUS_INVALID_ARGUMENT); \
        CHECK(another == NULL); \
    } while (0)

/* Each noun's retain takes that noun alone. */
static void retain_as_every_other_type(void *of_another_type, void *tensor) {
    REFUSE_TO_RETAIN(umbo_cancellation_retain, umbo_cancellation, of_another_type);
    REFUSE_TO_RETAIN(umbo_checkpoint_retain, umbo_checkpoint, of_another_type);
    REFUSE_TO_RETAIN(umbo_checkpoint_manager_retain, umbo_checkpoint_manager, of_another_type);
    REFUSE_TO_RETAIN(umbo_cluster_resolver_retain, umbo_cluster_resolver, of_another_type);
    REFUSE_TO_RETAIN(umbo_communicator_retain, umbo_communicator, of_another_type);
    REFUSE_TO_RETAIN(umbo_dataset_retain, umbo_dataset, of_another_type);
    REFUSE_TO_RETAIN(umbo_distributed_dataset_retain, umbo_distributed_dataset, of_another_type);
    REFUSE_TO_RETAIN(umbo_element_spec_retain, umbo_element_spec, of_another_type);
    REFUSE_TO_RETAIN(umbo_equivalence_retain, umbo_equivalence, of_another_type);
    REFUSE_TO_RETAIN(umbo_gradients_retain, umbo_gradients, of_another_type);
    REFUSE_TO_RETAIN(umbo_iterator_retain, umbo_iterator, of_another_type);
    REFUSE_TO_RETAIN(umbo_metrics_retain, umbo_metrics, of_another_type);
    REFUSE_TO_RETAIN(umbo_optimizer_retain, umbo_optimizer, of_another_type);
    REFUSE_TO_RETAIN(umbo_tensor_retain, umbo_tensor, of_another_type);
    REFUSE_TO_RETAIN(umbo_value_retain, umbo_value, of_another_type);
    REFUSE_TO_RETAIN(umbo_variable_retain, umbo_variable, of_another_type);
    REFUSE_TO_RETAIN(umbo_strategy_retain, umbo_strategy, tensor);
}

int main(void) {
    umbo_tensor *tensor = make_float(1), *recycled;
    umbo_value *value = float_value(2);
    umbo_strategy *strategy = make_strategy(1);
    umbo_view view;
    uint64_t noise = 88172645463325252u;
    int64_t before;
    int on_the_stack = 0, index;
    char *on_the_heap = (char *)malloc(64);
    static int64_t messages;
    expect_messages(&messages);
    CHECK_STATUS(umbo_live_handles((umbo_handle_type)999, &before), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_live_handles((umbo_handle_type)-1, &before), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_live_handles(UMBO_HANDLE_ANY, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_live_handles: count: is NULL; a place for the output is expected");

    /* Each handle is released by itself; the tensor lives as long as there is one. */
    CHECK_OK(umbo_tensor_retain(tensor, &recycled));
    CHECK(recycled != tensor && live(UMBO_HANDLE_TENSOR) == 2);
    umbo_tensor_release(tensor);
    refuse_tensor(tensor, "released");
    tensor = recycled;
    CHECK_OK(umbo_tensor_view(tensor, &view));
    CHECK(live(UMBO_HANDLE_TENSOR) == 1 && live(UMBO_HANDLE_VALUE) == 1);
    CHECK(live(UMBO_HANDLE_STRATEGY) == 1);

    /* Stale, and stale with the slot used again. */
    umbo_tensor_release(tensor);
    refuse_tensor(tensor, "");
    umbo_tensor_release(tensor); /* twice */
    recycled = make_float(3);
    refuse_tensor(tensor, "");
    CHECK_OK(umbo_tensor_view(recycled, &view));
    CHECK(live(UMBO_HANDLE_TENSOR) == 1);

    retain_as_every_other_type(strategy, recycled);
    umbo_ignore(umbo_tensor_view(recycled, NULL)); /* a failure that nobody asks about */

    /* Of another kind: says which. */
    refuse_tensor(as_tensor(value), "value");
    refuse_tensor(as_tensor(strategy), "strategy");
    CHECK(live(UMBO_HANDLE_VALUE) == 1 && live(UMBO_HANDLE_STRATEGY) == 1);

    /* Foreign and random. */
    CHECK(on_the_heap != NULL);
    refuse_tensor(as_tensor(&on_the_stack), "");
    refuse_tensor(as_tensor(on_the_heap), "");
    refuse_tensor(as_tensor((void *)(intptr_t)-1), "");
    refuse_tensor(as_tensor((void *)(uintptr_t)1), "");
    before = live(UMBO_HANDLE_ANY);
    for (index = 0; index < 10000; index++) {
        umbo_status status;
        noise ^= noise << 13;
        noise ^= noise >> 7;
        noise ^= noise << 17;
        if (as_tensor((void *)(uintptr_t)noise) == recycled) continue;
        status = umbo_tensor_view(as_tensor((void *)(uintptr_t)noise), &view);
        CHECK(status == UMBO_STATUS_INVALID_ARGUMENT);
        umbo_tensor_release(as_tensor((void *)(uintptr_t)noise));
    }
    /* One bit away from a true one. */
    for (index = 0; index < 64; index++) {
        const uintptr_t bits = (uintptr_t)recycled ^ ((uintptr_t)1 << index);
        CHECK_STATUS(umbo_tensor_view(as_tensor((void *)bits), &view), UMBO_STATUS_INVALID_ARGUMENT);
    }
    CHECK(live(UMBO_HANDLE_ANY) == before);

    /* Nothing is released without complaint. */
    CHECK(messages > 10000); /* one for each handle that was none */
    messages = 0;
    umbo_tensor_release(NULL);

    free(on_the_heap);
    CHECK(messages == 0);
    umbo_tensor_release(recycled);
    umbo_strategy_release(strategy);
    umbo_value_release(value);
    return finish();
}

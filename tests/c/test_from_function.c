/* Datasets from a function: each replica gets whole elements; and the options of distribution. */
#include "check.h"

#include <umbo/all.h>

typedef struct {
    int calls;
    int64_t elements;   /* scalars 0, 1, ... */
    int64_t batch_size; /* global; 0: not batched */
} made_by;

static umbo_status make_dataset(const umbo_input_context *context, void *user_data,
                                umbo_dataset **dataset) {
    made_by *self = (made_by *)user_data;
    umbo_dataset *numbers = NULL;
    int64_t size = 0;
    self->calls++;
    CHECK(context->struct_size == sizeof(*context));
    CHECK(context->pipeline_count == 1 && context->pipeline_index == 0);
    CHECK(context->replica_count == 2);
    CHECK_OK(umbo_dataset_from_range(0, self->elements, 1, &numbers));
    if (self->batch_size == 0) {
        *dataset = numbers;
        return UMBO_OK;
    }
    CHECK_OK(umbo_input_context_per_replica_batch_size(context, self->batch_size, &size));
    CHECK_OK(umbo_dataset_retain(numbers, dataset));
    CHECK_OK(umbo_dataset_batch(dataset, size, 0));
    umbo_dataset_release(numbers);
    return UMBO_OK;
}

static umbo_iterator *distribute(umbo_strategy *strategy, made_by *user_data,
                                 const umbo_distribute_options *options) {
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    CHECK_OK(umbo_strategy_distribute_datasets_from_function(strategy, make_dataset, user_data,
                                                             options, &distributed));
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
    umbo_distributed_dataset_release(distributed);
    return iterator;
}

/* The next step: component k begins with `first[k]` and has `rows[k]` rows (-1: a scalar). */
static void check_step(umbo_iterator *iterator, const int64_t *first, const int64_t *rows) {
    umbo_value *element = NULL, *component = NULL;
    umbo_view view;
    int32_t replica;
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element != NULL && kind_of(element) == UMBO_VALUE_PER_REPLICA && count_of(element) == 2);
    for (replica = 0; replica < 2; replica++) {
        CHECK_OK(umbo_value_item(element, replica, &component));
        CHECK_OK(umbo_value_view(component, NULL, UMBO_DTYPE_NONE, &view));
        CHECK(view.dtype == UMBO_DTYPE_INT64);
        CHECK(rows[replica] < 0 ? view.ndim == 0 : view.shape[0] == rows[replica]);
        if (rows[replica] != 0) CHECK(*(const int64_t *)view.data == first[replica]);
        umbo_value_release(component);
    }
    umbo_value_release(element);
}

static void check_end(umbo_iterator *iterator) {
    umbo_value *element = NULL;
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element == NULL);
    umbo_iterator_release(iterator);
}

/* Element s * 2 + k for replica k in step s; the last step is completed, or left out. */
static void dealing(umbo_strategy *strategy) {
    static const int64_t firsts[3][2] = {{0, 2}, {4, 6}, {8, 0}};
    static const int64_t rows[3][2] = {{2, 2}, {2, 2}, {1, 0}};
    static const int64_t scalars[2][2] = {{0, 1}, {2, 0}}, scalar[2] = {-1, -1};
    made_by self = {0, 9, 4};
    umbo_iterator *iterator = distribute(strategy, &self, NULL);
    int step;
    umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
    CHECK(self.calls == 1); /* before the call returns, and only once */
    for (step = 0; step < 3; step++) check_step(iterator, firsts[step], rows[step]);
    check_end(iterator);
    CHECK(self.calls == 1);
    options.drop_partial_step = 1;
    iterator = distribute(strategy, &self, &options);
    for (step = 0; step < 2; step++) check_step(iterator, firsts[step], rows[step]);
    check_end(iterator);
    self.elements = 3;
    self.batch_size = 0;
    iterator = distribute(strategy, &self, NULL);
    for (step = 0; step < 2; step++) check_step(iterator, scalars[step], scalar);
    check_end(iterator);
}

static void batch_sizes(void) {
    int64_t size = -1;
    ZEROED(umbo_input_context, context);
    context.replica_count = 4;
    CHECK_OK(umbo_input_context_per_replica_batch_size(&context, 12, &size));
    CHECK(size == 3);
    CHECK_OK(umbo_input_context_per_replica_batch_size(&context, 0, &size));
    CHECK(size == 0);
    CHECK_STATUS(umbo_input_context_per_replica_batch_size(&context, 10, &size),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("10");
}

static umbo_status fail(const umbo_input_context *context, void *user_data,
                        umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    (void)dataset;
    return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "the files are gone", NULL, NULL);
}

static umbo_status store_nothing(const umbo_input_context *context, void *user_data,
                                 umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    (void)dataset;
    return UMBO_OK;
}

static void failures(umbo_strategy *strategy) {
    made_by self = {0, 8, 0};
    umbo_distributed_dataset *distributed = NULL;
    umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
    CHECK_STATUS(umbo_strategy_distribute_datasets_from_function(strategy, fail, NULL, NULL,
                                                                 &distributed),
                 UMBO_STATUS_DATA_LOSS);
    CHECK_MESSAGE("the files are gone");
    CHECK_STATUS(umbo_strategy_distribute_datasets_from_function(strategy, store_nothing, NULL,
                                                                 NULL, &distributed),
                 UMBO_STATUS_INVALID_ARGUMENT);
    options.host_only = 2;
    CHECK_STATUS(umbo_strategy_distribute_datasets_from_function(strategy, make_dataset, &self,
                                                                 &options, &distributed),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("host_only");
    CHECK(distributed == NULL);
}

/* One dataset in each way to split it, read ahead or not, on the host or not. */
static void splitting(umbo_strategy *strategy) {
    static const int64_t firsts[3][2] = {{0, 3}, {5, 8}, {10, 0}};
    static const int64_t rows[3][2] = {{3, 2}, {3, 2}, {1, 0}};
    static const int32_t buffers[3] = {-1, 0, 3};
    umbo_dataset *numbers = NULL, *batches = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *iterator = NULL;
    int buffer, split, drop, step;
    CHECK_OK(umbo_dataset_from_range(0, 11, 1, &numbers));
    CHECK_OK(umbo_dataset_retain(numbers, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 5, 0));
    for (buffer = 0; buffer < 3; buffer++) {
        for (split = UMBO_SPLIT_CEIL; split <= UMBO_SPLIT_BALANCED; split++) {
            for (drop = 0; drop < 2; drop++) {
                umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
                options.split = (umbo_split)split;
                options.drop_partial_step = drop;
                options.host_only = drop;
                options.prefetch_count = buffers[buffer];
                CHECK_OK(umbo_strategy_distribute_dataset(strategy, batches, &options,
                                                          &distributed));
                CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &iterator));
                umbo_distributed_dataset_release(distributed);
                /* Split by itself each batch is a step, so that none is left out. */
                for (step = 0; step < 3 - (split == UMBO_SPLIT_BALANCED ? drop : 0); step++) {
                    check_step(iterator, firsts[step], rows[step]);
                }
                check_end(iterator);
            }
        }
    }
    distributed = NULL;
    {
        umbo_distribute_options options = UMBO_DISTRIBUTE_OPTIONS_INIT;
        options.split = (umbo_split)5;
        CHECK_STATUS(umbo_strategy_distribute_dataset(strategy, batches, &options, &distributed),
                     UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("split");
        options.split = UMBO_SPLIT_CEIL;
        options.prefetch_count = -2;
        CHECK_STATUS(umbo_strategy_distribute_dataset(strategy, batches, &options, &distributed),
                     UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("prefetch_count");
    }
    CHECK(distributed == NULL);
    umbo_dataset_release(batches);
    umbo_dataset_release(numbers);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    dealing(strategy);
    batch_sizes();
    failures(strategy);
    splitting(strategy);
    umbo_strategy_release(strategy);
    return finish();
}

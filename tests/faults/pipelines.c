/* Input pipelines over elements of several tensors. Each transformation makes a dataset, of which a few
 * elements are taken. */

#include "faults.h"

enum { ROWS = 6, ELEMENTS = 3, TENSORS = 5 };

/* Where the datasets come from. */
enum { SLICES, GIVEN, GENERATED, SOURCES };

static umbo_status same(const umbo_value *element, void *user_data, umbo_value **result) {
    (void)user_data;
    return umbo_value_retain(element, result);
}

static umbo_status all_but_one(const umbo_value *element, void *user_data, int32_t *keep) {
    umbo_value *tensor = NULL;
    umbo_view view;
    (void)user_data;
    UMBO_TRY(umbo_value_item(element, 0, &tensor));
    UMBO_TRY(umbo_value_view(tensor, NULL, UMBO_DTYPE_FLOAT32, &view));
    *keep = ((const float *)view.data)[0] != numbers[2 * WIDTH];
    return UMBO_OK;
}

static umbo_status generate(void *pass, void *user_data, umbo_value **element) {
    int *made = pass;
    (void)user_data;
    if (*made == ROWS) return UMBO_OK;
    UMBO_TRY(umbo_value_retain(all.values[1], element));
    ++*made;
    return UMBO_OK;
}

static umbo_status own_part(const umbo_input_context *context, void *user_data,
                            umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    return umbo_dataset_retain(all.datasets[GIVEN], dataset);
}

/* Value 0 is a tuple of tensors with rows, value 1 one of single rows. */
static void make_sources(void) {
    static umbo_value *items[TENSORS];
    umbo_generator generator = UMBO_GENERATOR_INIT;
    umbo_dataset **d = all.datasets;
    int at;
    make_tensor(10, 2, ROWS, WIDTH);
    make_tensor(11, 1, WIDTH, 0);
    for (at = 0; at < TENSORS; at++) items[at] = all.values[10];
    CALL(umbo_value_create_tuple(TENSORS, items, &all.values[0]));
    for (at = 0; at < TENSORS; at++) items[at] = all.values[11];
    CALL(umbo_value_create_tuple(TENSORS, items, &all.values[1]));
    CALL(umbo_dataset_from_tensor_slices(all.values[0], &d[SLICES]));
    CALL(umbo_dataset_from_tensors(all.values[0], &d[GIVEN]));
    CALL(umbo_dataset_element_spec(d[SLICES], &all.specs[0]));
    generator.begin = begin;
    generator.next = generate;
    generator.end = end;
    CALL((hold(), umbo_dataset_from_generator(all.specs[0], &generator, NULL, destroy,
                                              &d[GENERATED])));
}

/* Datasets from place `at` on; returns the place behind the last. */
static int transform(int at, int source) {
    umbo_dataset **d = all.datasets;
    umbo_dataset *in = d[source], *two[2];
    static const int64_t sizes[2] = {2, 1};
    umbo_shuffle_options shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
    umbo_map_options map = UMBO_MAP_OPTIONS_INIT;
    umbo_sample_options sample = UMBO_SAMPLE_OPTIONS_INIT;
    umbo_padding_options masked = UMBO_PADDING_OPTIONS_INIT;
    static const double weights_of_both[2] = {1, 3};
    masked.mask = 1;
    two[0] = two[1] = in;
    shuffle.seed = 7;
    shuffle.buffer_capacity = 4;
    map.parallel_call_count = 2;
    CALL(umbo_dataset_zip(2, NULL, two, &d[at]));
    CALL(umbo_dataset_concatenate(2, two, &d[at + 1]));
    two[1] = d[at + 1];
    CALL(umbo_dataset_zip(2, NULL, two, &d[at + 2]));
    CALL(umbo_dataset_retain(in, &d[at + 3]));
    CALL(umbo_dataset_batch(&d[at + 3], 2, 0));
    CALL(umbo_dataset_retain(in, &d[at + 4]));
    CALL(umbo_dataset_padded_batch(&d[at + 4], 2, 0, NULL));
    CALL(umbo_dataset_retain(d[at + 3], &d[at + 5]));
    CALL(umbo_dataset_rebatch(&d[at + 5], 2, sizes, 0));
    two[0] = d[at + 3]; /* sizes that differ: the spec of both is a new one */
    two[1] = d[at + 5];
    CALL(umbo_dataset_concatenate(2, two, &d[at + 6]));
    CALL(umbo_dataset_retain(in, &d[at + 7]));
    CALL(umbo_dataset_shuffle(&d[at + 7], &shuffle));
    CALL(umbo_dataset_retain(d[at + 7], &d[at + 8]));
    CALL((hold(), umbo_dataset_map(&d[at + 8], same, NULL, destroy, NULL)));
    CALL(umbo_dataset_retain(in, &d[at + 9]));
    CALL((hold(), umbo_dataset_map(&d[at + 9], same, NULL, destroy, &map)));
    CALL(umbo_dataset_retain(in, &d[at + 10]));
    CALL(umbo_dataset_cache(&d[at + 10]));
    CALL(umbo_dataset_retain(d[at + 4], &d[at + 11]));
    CALL(umbo_dataset_prefetch(&d[at + 11], 2));
    CALL(umbo_dataset_retain(d[at + 9], &d[at + 12]));
    CALL(umbo_dataset_repeat(&d[at + 12], 2));
    CALL(umbo_dataset_retain(in, &d[at + 13]));
    CALL(umbo_dataset_take(&d[at + 13], 2));
    CALL(umbo_dataset_retain(in, &d[at + 14]));
    CALL(umbo_dataset_skip(&d[at + 14], 1));
    CALL(umbo_dataset_retain(in, &d[at + 15]));
    CALL(umbo_dataset_shard(&d[at + 15], 2, 0));
    CALL(umbo_dataset_retain(in, &d[at + 16]));
    CALL((hold(), umbo_dataset_filter(&d[at + 16], all_but_one, NULL, destroy)));
    CALL(umbo_dataset_retain(d[at + 3], &d[at + 17]));
    CALL(umbo_dataset_unbatch(&d[at + 17]));
    two[0] = in;
    two[1] = d[at + 16];
    CALL(umbo_dataset_sample(2, two, weights_of_both, &sample, &d[at + 18]));
    CALL(umbo_dataset_retain(d[at + 18], &d[at + 19]));
    CALL(umbo_dataset_padded_batch(&d[at + 19], 2, 0, &masked));
    return at + 20;
}

static void take_some(int iterator) {
    static char position[1 << 16];
    size_t length;
    int element;
    for (element = 0; element < ELEMENTS; element++) {
        if (element == ELEMENTS / 2) {
            CALL(umbo_iterator_save_position(all.iterators[iterator], position,
                                                  sizeof position, &length));
        }
        CALL_ONCE(umbo_iterator_next(all.iterators[iterator], &all.values[20]));
        umbo_value_release(all.values[20]);
        all.values[20] = NULL;
    }
    CALL(umbo_iterator_restore_position(all.iterators[iterator], position));
    CALL_ONCE(umbo_iterator_next(all.iterators[iterator], &all.values[20]));
    umbo_value_release(all.values[20]);
    all.values[20] = NULL;
    CALL(umbo_iterator_reset(all.iterators[iterator]));
    CALL_ONCE(umbo_iterator_next(all.iterators[iterator], &all.values[20]));
    umbo_value_release(all.values[20]);
    all.values[20] = NULL;
    umbo_iterator_release(all.iterators[iterator]);
    all.iterators[iterator] = NULL;
}

static void distribute(void) {
    umbo_distribute_options balanced = UMBO_DISTRIBUTE_OPTIONS_INIT;
    umbo_dataset *batches = all.datasets[SOURCES + 3];
    int at;
    balanced.split = UMBO_SPLIT_BALANCED;
    balanced.prefetch_count = 2;
    CALL(umbo_strategy_distribute_dataset(all.strategy, batches, NULL, &all.distributed[0]));
    CALL(umbo_strategy_distribute_dataset(all.strategy, batches, &balanced, &all.distributed[1]));
    CALL(umbo_strategy_distribute_datasets_from_function(all.strategy, own_part, NULL, NULL,
                                                         &all.distributed[2]));
    for (at = 0; at < 3; at++) {
        CALL(umbo_iterator_from_distributed_dataset(all.distributed[at], &all.iterators[at]));
        take_some(at);
    }
    CALL(umbo_strategy_iterate(all.strategy, batches, &balanced, &all.iterators[3]));
    take_some(3);
}

void pipelines(void) {
    int source, at, count = SOURCES;
    make_strategy();
    make_sources();
    for (source = 0; source < SOURCES; source++) count = transform(count, source);
    for (at = 0; at < count; at++) {
        CALL(umbo_iterator_from_dataset(all.datasets[at], &all.iterators[0]));
        take_some(0);
    }
    distribute();
}

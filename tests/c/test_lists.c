/* Lists: nests that are treated as tuples are, and are of another kind. Per-replica values of nests. */
#include "check.h"

#include <umbo/all.h>

static umbo_value *list(umbo_value *first, umbo_value *second) {
    const umbo_value *items[2];
    umbo_value *value = NULL;
    items[0] = first;
    items[1] = second;
    CHECK_OK(umbo_value_create_list(2, items, &value));
    umbo_value_release(first);
    umbo_value_release(second);
    return value;
}

static umbo_value *tuple(umbo_value *first, umbo_value *second) {
    const umbo_value *items[2];
    umbo_value *value = NULL;
    items[0] = first;
    items[1] = second;
    CHECK_OK(umbo_value_create_tuple(2, items, &value));
    umbo_value_release(first);
    umbo_value_release(second);
    return value;
}

static umbo_value *three(float first) {
    float numbers[3];
    numbers[0] = first;
    numbers[1] = first + 1;
    numbers[2] = first + 2;
    return floats_value(3, numbers);
}

static void looked_into(void) {
    umbo_value *value = list(float_value(1), list(float_value(2), float_value(3))), *item = NULL;
    umbo_view view;
    char text[512];
    size_t length = 0;
    CHECK(kind_of(value) == UMBO_VALUE_LIST && count_of(value) == 2 && float_at(value, 0) == 1);
    CHECK_OK(umbo_value_view(value, "1.1", UMBO_DTYPE_NONE, &view));
    CHECK(*(const float *)view.data == 3);
    CHECK_STATUS(umbo_value_field(value, "2", &item), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("the list has 2 items");
    CHECK_STATUS(umbo_value_view(value, NULL, UMBO_DTYPE_NONE, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("is a list");
    CHECK_OK(umbo_value_text(value, text, sizeof(text), &length));
    CHECK(strncmp(text, "list\n  0: ", 10) == 0 && strstr(text, "1: list") != NULL);
    umbo_value_release(value);
}

static umbo_status return_list(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                               umbo_value **result) {
    const float own = (float)replica_id(ctx);
    (void)user_data;
    if (args != NULL) CHECK(kind_of(args) == UMBO_VALUE_LIST && float_at(args, 1) == 10 + own);
    *result = list(float_value(own), float_value(2 * own));
    return UMBO_OK;
}

static umbo_status list_or_tuple(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    (void)args;
    (void)user_data;
    *result = replica_id(ctx) == 0 ? list(float_value(1), float_value(2))
                                   : tuple(float_value(1), float_value(2));
    return UMBO_OK;
}

static void merged_and_reduced(umbo_strategy *strategy) {
    umbo_value *merged = NULL, *item = NULL, *sum = NULL, *local = NULL, *none = NULL;
    CHECK_OK(umbo_strategy_run(strategy, return_list, NULL, NULL, NULL, &merged));
    CHECK(kind_of(merged) == UMBO_VALUE_LIST);
    CHECK_OK(umbo_value_item(merged, 1, &item));
    CHECK(kind_of(item) == UMBO_VALUE_PER_REPLICA && float_at(item, 1) == 2);
    umbo_value_release(item);
    CHECK_OK(umbo_strategy_reduce(strategy, UMBO_REDUCE_SUM, merged, NULL, &sum));
    CHECK(kind_of(sum) == UMBO_VALUE_LIST && float_at(sum, 0) == 1 && float_at(sum, 1) == 2);
    CHECK_OK(umbo_strategy_local_results(strategy, merged, &local));
    CHECK_OK(umbo_value_item(local, 1, &item));
    CHECK(kind_of(item) == UMBO_VALUE_LIST && float_at(item, 1) == 2);
    umbo_value_release(item);
    umbo_value_release(local);
    umbo_value_release(sum);
    umbo_value_release(merged);
    CHECK_STATUS(umbo_strategy_run(strategy, list_or_tuple, NULL, NULL, NULL, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("a list of 2 on replica 0, a tuple of 2 on replica 1");
    CHECK(none == NULL);
}

/* Components that are nests: the nest of per-replica values. */
static void per_replica_of_nests(umbo_strategy *strategy) {
    const umbo_value *components[2];
    umbo_value *first = list(float_value(0), float_value(10));
    umbo_value *second = list(float_value(1), float_value(11));
    umbo_value *other = tuple(float_value(1), float_value(11)), *value = NULL, *item = NULL;
    components[0] = first;
    components[1] = second;
    CHECK_OK(umbo_value_create_per_replica(2, components, &value));
    CHECK(kind_of(value) == UMBO_VALUE_LIST && count_of(value) == 2);
    CHECK_OK(umbo_value_item(value, 0, &item));
    CHECK(kind_of(item) == UMBO_VALUE_PER_REPLICA && float_at(item, 1) == 1);
    umbo_value_release(item);
    CHECK_OK(umbo_strategy_run(strategy, return_list, NULL, value, NULL, NULL));
    umbo_value_release(value);
    value = NULL;
    components[1] = other;
    CHECK_STATUS(umbo_value_create_per_replica(2, components, &value),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("components: the structures differ");
    components[1] = NULL;
    CHECK_STATUS(umbo_value_create_per_replica(2, components, &value),
                 UMBO_STATUS_INVALID_ARGUMENT);
    components[0] = components[1] = first; /* wrapped all the same */
    CHECK_OK(umbo_value_create_per_replica(2, components, &value));
    CHECK_OK(umbo_value_item(value, 1, &item));
    CHECK(kind_of(item) == UMBO_VALUE_PER_REPLICA);
    umbo_value_release(item);
    umbo_value_release(value);
    umbo_value_release(other);
    umbo_value_release(second);
    umbo_value_release(first);
}

static void elements(umbo_strategy *strategy) {
    umbo_value *components = list(three(0), three(10)), *element = NULL, *parts = NULL;
    umbo_dataset *dataset = NULL;
    umbo_distributed_dataset *over = NULL;
    umbo_iterator *iterator = NULL;
    umbo_element_spec *spec = NULL, *made = NULL;
    const umbo_element_spec *items[2];
    umbo_element_spec_info info = UMBO_ELEMENT_SPEC_INFO_INIT;
    umbo_view view;
    CHECK_OK(umbo_dataset_from_tensor_slices(components, &dataset));
    CHECK_OK(umbo_dataset_batch(&dataset, 3, 0));
    CHECK_OK(umbo_dataset_element_spec(dataset, &spec));
    CHECK_OK(umbo_element_spec_get_info(spec, &info));
    CHECK(info.kind == UMBO_VALUE_LIST && info.item_count == 2);
    items[0] = items[1] = spec;
    CHECK_OK(umbo_element_spec_create_list(2, items, &made));
    CHECK_OK(umbo_element_spec_get_info(made, &info));
    CHECK(info.kind == UMBO_VALUE_LIST && info.dtype == UMBO_DTYPE_NONE);
    umbo_element_spec_release(made);
    umbo_element_spec_release(spec);
    CHECK_OK(umbo_strategy_distribute_dataset(strategy, dataset, NULL, &over));
    CHECK_OK(umbo_iterator_from_distributed_dataset(over, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(kind_of(element) == UMBO_VALUE_LIST);
    CHECK_OK(umbo_strategy_split(strategy, components, &parts));
    CHECK(kind_of(parts) == UMBO_VALUE_LIST);
    umbo_value_release(parts);
    CHECK_OK(umbo_value_item(element, 1, &parts));
    CHECK(float_at(parts, 1) == 12); /* rows 10 and 11 went to the first replica */
    umbo_value_release(parts);
    umbo_value_release(element);
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(over);
    umbo_dataset_release(dataset);

    /* Two arrays of three are two elements of three. */
    CHECK_OK(umbo_strategy_make_numpy_dataset(strategy, components, &dataset));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    CHECK_OK(umbo_iterator_next(iterator, &element));
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK_OK(umbo_value_view(element, NULL, UMBO_DTYPE_NONE, &view));
    CHECK(view.ndim == 1 && view.shape[0] == 3 && ((const float *)view.data)[2] == 12);
    umbo_value_release(element);
    CHECK_OK(umbo_iterator_next(iterator, &element));
    CHECK(element == NULL);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    umbo_value_release(components);

    dataset = NULL;
    components = list(three(0), float_value(1));
    CHECK_STATUS(umbo_strategy_make_numpy_dataset(strategy, components, &dataset),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("stacked");
    umbo_value_release(components);
    components = list(three(0), tuple(three(1), three(2)));
    CHECK_STATUS(umbo_strategy_make_numpy_dataset(strategy, components, &dataset),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("a list that contains a tuple");
    umbo_value_release(components);
    CHECK(dataset == NULL);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    looked_into();
    merged_and_reduced(strategy);
    per_replica_of_nests(strategy);
    elements(strategy);
    umbo_strategy_release(strategy);
    return finish();
}

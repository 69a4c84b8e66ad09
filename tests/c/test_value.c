/* Values: leaves, nests, per-replica values, paths and the identity of what they hold. */
#include "check.h"

static void nests(void) {
    const char *const names[2] = {"x", "rest"};
    const float numbers[2] = {1, 2};
    umbo_value *items[2];
    const char *name = NULL;
    umbo_value *leaf = float_value(7), *other = floats_value(2, numbers);
    umbo_value *tuple = NULL, *structure = NULL, *item = NULL, *clone = NULL;
    umbo_value_info info;
    umbo_view view;

    items[0] = leaf;
    items[1] = other;
    CHECK_OK(umbo_value_create_tuple(2, items, &tuple));
    items[1] = tuple;
    CHECK_OK(umbo_value_create_struct(2, names, items, &structure));
    CHECK(kind_of(leaf) == UMBO_VALUE_TENSOR && count_of(leaf) == 1);
    CHECK(kind_of(tuple) == UMBO_VALUE_TUPLE && count_of(tuple) == 2);
    CHECK(kind_of(structure) == UMBO_VALUE_STRUCT && count_of(structure) == 2);

    CHECK_OK(umbo_value_field_name(structure, 1, &name));
    CHECK(strcmp(name, "rest") == 0);
    CHECK_STATUS(umbo_value_field_name(structure, 2, &name), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_value_field_name(tuple, 0, &name), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_value_field(structure, "rest", &item));
    CHECK(kind_of(item) == UMBO_VALUE_TUPLE);
    umbo_value_release(item);
    CHECK_OK(umbo_value_item(structure, 0, &item));
    CHECK(float_of(item) == 7);
    umbo_value_release(item);

    CHECK_OK(umbo_value_view(structure, "x", UMBO_DTYPE_NONE, &view));
    CHECK(*(const float *)view.data == 7);
    CHECK_OK(umbo_value_view(structure, "rest.1", UMBO_DTYPE_FLOAT32, &view));
    CHECK(view.shape[0] == 2 && ((const float *)view.data)[1] == 2);
    CHECK(view.mutable_data == NULL && (view.flags & UMBO_VIEW_READ_ONLY) != 0);

    /* A dtype other than the elements' is refused, and nothing is written. */
    view.data = names;
    CHECK_STATUS(umbo_value_view(structure, "rest.1", UMBO_DTYPE_FLOAT64, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_value_view: dtype: float64, but 'rest.1' is float32");
    CHECK_STATUS(umbo_value_view(leaf, NULL, UMBO_DTYPE_INT32, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("the value is float32");
    CHECK_STATUS(umbo_value_view(leaf, NULL, (umbo_dtype)999, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK(view.data == (const void *)names);

    info = value_info_of(other);
    CHECK(info.dtype == UMBO_DTYPE_FLOAT32 && info.ndim == 1 && info.shape[0] == 2 && info.shape[1] == 0);
    info = value_info_of(structure);
    CHECK(info.dtype == UMBO_DTYPE_NONE && info.ndim == 0 && info.shape[0] == 0);

    CHECK_STATUS(umbo_value_view(structure, "y", UMBO_DTYPE_NONE, &view), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("umbo_value_view: name: there is no field 'y'; the struct has 'x', 'rest'");
    CHECK_STATUS(umbo_value_view(structure, NULL, UMBO_DTYPE_NONE, &view), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("struct");
    item = NULL;
    CHECK_STATUS(umbo_value_item(tuple, 2, &item), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_MESSAGE("index");
    CHECK_STATUS(umbo_value_item(tuple, -1, &item), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_value_item(leaf, 0, &item), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_value_field(structure, "y", &item), UMBO_STATUS_NOT_FOUND);
    CHECK(item == NULL);

    CHECK_OK(umbo_value_retain(structure, &clone));
    umbo_value_release(structure);
    CHECK_OK(umbo_value_view(clone, "rest.0", UMBO_DTYPE_NONE, &view)); /* the nest lives on */
    CHECK(*(const float *)view.data == 7);

    umbo_value_release(clone);
    umbo_value_release(tuple);
    umbo_value_release(other);
    umbo_value_release(leaf);
}

/* A path is a name, or names and numbers with a dot between them; names may have dots themselves. */
static void paths(void) {
    static const char *const names[5] = {"a", "a.b", "", "layer.0.weight", "list"};
    static const struct {
        const char *path;
        float number; /* of the leaf that it leads to; 0: there is none */
        const char *words;
    } all[] = {
        {"a.b", 2, NULL}, /* the longest name, not the field of a field */
        {"a.c", 6, NULL},
        {"", 3, NULL},
        {"layer.0.weight", 4, NULL},
        {"list.0", 5, NULL},
        {"list.1", 6, NULL},
        {"a.", 0, "there is no field ''; the struct has 'b', 'c'"},
        {".a", 0, "'a' asks a tensor for a field"},
        {".", 0, "'' asks a tensor for a field"},
        {"list.", 0, "there is no item ''; the tuple has 2 items"},
        {"list.+1", 0, "there is no item '+1'"},
        {"list.01", 0, "there is no item '01'"},
        {"list.00", 0, "there is no item '00'"},
        {"list.-1", 0, "there is no item '-1'"},
        {"list.2", 0, "there is no item '2'"},
        {"list.99999999999999999999", 0, "there is no item '99999999999999999999'"},
        {"list..1", 0, "there is no item ''"},
        {"layer.0", 0, "there is no field 'layer'"},
        {"a.b.c", 0, "'c' asks a tensor for a field"},
    };
    const char *const inner_names[2] = {"b", "c"};
    umbo_value *leaves[6], *inner = NULL, *tuple = NULL, *outer = NULL, *plain = NULL, *field = NULL;
    umbo_value *items[5];
    umbo_view view;
    int32_t index;
    for (index = 0; index < 6; index++) leaves[index] = float_value((float)(index + 1));
    items[0] = leaves[0];
    items[1] = leaves[5];
    CHECK_OK(umbo_value_create_struct(2, inner_names, items, &inner));
    items[0] = leaves[4];
    CHECK_OK(umbo_value_create_tuple(2, items, &tuple));
    items[0] = inner;
    items[1] = leaves[1];
    items[2] = leaves[2];
    items[3] = leaves[3];
    items[4] = tuple;
    CHECK_OK(umbo_value_create_struct(5, names, items, &outer));
    for (index = 0; index < COUNT_OF(all); index++) {
        const umbo_status expected = all[index].number == 0 ? UMBO_STATUS_NOT_FOUND : UMBO_OK;
        CHECK_STATUS(umbo_value_view(outer, all[index].path, UMBO_DTYPE_NONE, &view), expected);
        field = NULL;
        CHECK_STATUS(umbo_value_field(outer, all[index].path, &field), expected);
        if (expected == UMBO_OK) {
            CHECK(*(const float *)view.data == all[index].number);
            CHECK(float_of(field) == all[index].number);
        } else if (strstr(umbo_last_error_message(), all[index].words) == NULL) {
            check_failed(__FILE__, __LINE__, all[index].words);
        }
        umbo_value_release(field);
    }
    /* No name, not an empty one, is the value itself. */
    CHECK_OK(umbo_value_view(leaves[0], NULL, UMBO_DTYPE_NONE, &view));
    CHECK_STATUS(umbo_value_view(leaves[0], "", UMBO_DTYPE_NONE, &view), UMBO_STATUS_NOT_FOUND);
    CHECK_STATUS(umbo_value_view(tuple, "", UMBO_DTYPE_NONE, &view), UMBO_STATUS_NOT_FOUND);
    /* Without a field of the longer name, the field of a field. */
    items[0] = inner;
    CHECK_OK(umbo_value_create_struct(1, names, items, &plain));
    CHECK_OK(umbo_value_view(plain, "a.b", UMBO_DTYPE_NONE, &view));
    CHECK(*(const float *)view.data == 1);
    umbo_value_release(plain);
    umbo_value_release(outer);
    umbo_value_release(tuple);
    umbo_value_release(inner);
    for (index = 0; index < 6; index++) umbo_value_release(leaves[index]);
}

/* Replaces a value by a tuple of it, `times` times over. */
static umbo_status wrap(umbo_value **value, int32_t times) {
    umbo_value *items[2];
    umbo_value *tuple = NULL;
    items[0] = items[1] = *value;
    UMBO_TRY(umbo_value_create_tuple(times, items, &tuple));
    umbo_value_release(*value);
    *value = tuple;
    return UMBO_OK;
}

/* Nests have a greatest depth, and a greatest number of values however often each is named. */
static void large_nests(void) {
    umbo_value *value = float_value(1);
    umbo_dataset *dataset = NULL, *zipped = NULL;
    umbo_element_spec *spec = NULL, *outer = NULL;
    umbo_dataset *datasets[1];
    umbo_element_spec *specs[1];
    size_t length = 0;
    int32_t depth;
    for (depth = 1; depth <= UMBO_MAX_NEST_DEPTH; depth++) CHECK_OK(wrap(&value, 1));
    CHECK_STATUS(wrap(&value, 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("65 deep");
    CHECK_MESSAGE("64 nests");
    /* One line for each nest, and those of the tensor. */
    CHECK_STATUS(umbo_value_text(value, NULL, 0, &length), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(length >= 64 * 65 * 2 && length < 64 * 65 * 2 + 2000);
    CHECK_OK(umbo_dataset_from_tensors(value, &dataset));
    datasets[0] = dataset;
    CHECK_STATUS(umbo_dataset_zip(1, NULL, datasets, &zipped), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("65 deep");
    umbo_dataset_release(dataset);
    umbo_value_release(value);

    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 0, NULL, &spec));
    for (depth = 1; depth <= UMBO_MAX_NEST_DEPTH; depth++) {
        specs[0] = spec;
        CHECK_OK(umbo_element_spec_create_tuple(1, specs, &outer));
        umbo_element_spec_release(spec);
        spec = outer;
    }
    specs[0] = spec;
    CHECK_STATUS(umbo_element_spec_create_tuple(1, specs, &outer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("65 deep");
    umbo_element_spec_release(spec);

    value = float_value(1);
    for (depth = 1; depth < 20; depth++) CHECK_OK(wrap(&value, 2));
    CHECK_STATUS(wrap(&value, 2), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("2097151 values");
    CHECK_MESSAGE("1048576");
    umbo_value_release(value);
}

static void leaves(void) {
    const float numbers[2] = {3, 4};
    umbo_view first, second;
    umbo_strategy *strategy = make_strategy(2);
    umbo_variable *variable = make_variable(strategy, 5, UMBO_AGGREGATION_NONE), *back = NULL;
    umbo_value *value = NULL, *per_replica = per_replica_floats(2, numbers);
    umbo_tensor *tensor = NULL, *same = NULL;
    int64_t examples = 7;

    CHECK_OK(umbo_value_from_variable(variable, &value));
    CHECK(kind_of(value) == UMBO_VALUE_VARIABLE);
    CHECK(value_info_of(value).dtype == UMBO_DTYPE_FLOAT32 && value_info_of(value).ndim == 0);
    CHECK_OK(umbo_value_variable(value, &back));
    CHECK(float_of_variable(back) == 5);
    CHECK_STATUS(umbo_value_tensor(value, &tensor), UMBO_STATUS_INVALID_ARGUMENT);
    umbo_variable_release(back);
    umbo_value_release(value);

    CHECK(kind_of(per_replica) == UMBO_VALUE_PER_REPLICA && count_of(per_replica) == 2);
    CHECK(float_at(per_replica, 0) == 3 && float_at(per_replica, 1) == 4);
    CHECK_STATUS(umbo_value_example_count(per_replica, 2, &examples), UMBO_STATUS_OUT_OF_RANGE);
    CHECK_STATUS(umbo_value_example_count(per_replica, -2, &examples), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(examples == 7);
    CHECK_STATUS(umbo_value_tensor(per_replica, &tensor), UMBO_STATUS_INVALID_ARGUMENT);

    value = float_value(9);
    CHECK_OK(umbo_value_tensor(value, &tensor));
    CHECK_OK(umbo_value_tensor(value, &same));
    CHECK_OK(umbo_tensor_view(tensor, &first));
    CHECK_OK(umbo_tensor_view(same, &second));
    CHECK(first.data == second.data);
    CHECK_STATUS(umbo_value_variable(value, &back), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("umbo_value_variable: value: is a tensor, not a variable");

    umbo_tensor_release(same);
    umbo_tensor_release(tensor);
    umbo_value_release(value);
    umbo_value_release(per_replica);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

/* The text is written whole or not at all, and its length in any case. */
static void words(void) {
    const float data[2] = {1, 2.5f};
    umbo_value *value = floats_value(2, data);
    char text[64] = "untouched";
    size_t length = 0;
    CHECK_STATUS(umbo_value_text(value, NULL, 0, &length), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(length > 0 && length < sizeof(text));
    CHECK_STATUS(umbo_value_text(value, text, length, &length), UMBO_STATUS_OUT_OF_RANGE);
    CHECK(strcmp(text, "untouched") == 0);
    CHECK_OK(umbo_value_text(value, text, length + 1, &length));
    CHECK(strcmp(text, "float32 [2] on CPU:0\n[1, 2.5]") == 0);
    CHECK(strlen(text) == length);
    umbo_value_release(value);
}

int main(void) {
    nests();
    paths();
    large_nests();
    leaves();
    words();
    return finish();
}

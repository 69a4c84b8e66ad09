/* All weights as one array: in the order of the list, between two steps, and inside of one. */
#include "check.h"

enum { COUNT = 3, ELEMENTS = 8 };

struct scene {
    umbo_strategy *strategy;
    umbo_variable *variables[COUNT];
    int32_t fails;
};

/* Variables of 3, 2 x 2 and one element, all zero. */
static void make(struct scene *scene, int32_t replicas, umbo_aggregation aggregation,
                 umbo_dtype dtype) {
    const int64_t sizes[COUNT][2] = {{3, 0}, {2, 2}, {0, 0}};
    const int32_t ndims[COUNT] = {1, 2, 0};
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    int32_t index;
    scene->strategy = make_strategy(replicas);
    scene->fails = 0;
    options.aggregation = aggregation;
    options.dtype = dtype;
    options.initial = UMBO_INITIAL_ZEROS;
    for (index = 0; index < COUNT; index++) {
        options.shape = sizes[index];
        options.ndim = ndims[index];
        CHECK_OK(umbo_variable_create(scene->strategy, "v", NULL, &options,
                                      &scene->variables[index]));
    }
}

static void release(struct scene *scene) {
    int32_t index;
    for (index = 0; index < COUNT; index++) umbo_variable_release(scene->variables[index]);
    umbo_strategy_release(scene->strategy);
}

static void an_array_is_written_and_read(void) {
    struct scene scene;
    const float numbers[ELEMENTS] = {1, 2, 3, 4, 5, 6, 7, 8};
    float all[ELEMENTS] = {0}, matrix[4];
    umbo_variable *turned[COUNT];
    int64_t count = 0;
    make(&scene, 2, UMBO_AGGREGATION_NONE, UMBO_DTYPE_FLOAT32);
    CHECK_OK(umbo_variable_element_count(COUNT, scene.variables, &count));
    CHECK(count == ELEMENTS);
    CHECK_OK(umbo_variable_upload_flat(COUNT, scene.variables, numbers, sizeof(numbers)));
    CHECK_OK(umbo_variable_download(scene.variables[1], matrix, sizeof(matrix)));
    CHECK(matrix[0] == 4 && matrix[3] == 7);
    CHECK_OK(umbo_variable_download_flat(COUNT, scene.variables, all, sizeof(all)));
    CHECK(memcmp(all, numbers, sizeof(all)) == 0);
    turned[0] = scene.variables[2];
    turned[1] = scene.variables[0];
    turned[2] = scene.variables[1];
    CHECK_OK(umbo_variable_download_flat(COUNT, turned, all, sizeof(all)));
    CHECK(all[0] == 8 && all[1] == 1 && all[4] == 4 && all[7] == 7);

    CHECK_STATUS(umbo_variable_upload_flat(COUNT, scene.variables, all, sizeof(all) - 4),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("bytes: 28; shape [8] of float32 has 32");
    CHECK_STATUS(umbo_variable_download_flat(COUNT, scene.variables, NULL, sizeof(all)),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_variable_download_flat(COUNT, scene.variables, (char *)all + 1, sizeof(all)),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("is not a multiple");
    CHECK_OK(umbo_variable_element_count(0, NULL, &count));
    CHECK(count == 0);
    CHECK_OK(umbo_variable_download_flat(0, NULL, NULL, 0));
    CHECK_OK(umbo_variable_upload_flat(0, NULL, NULL, 0));
    CHECK_STATUS(umbo_variable_upload_flat(0, NULL, all, sizeof(all)), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_variable_download_flat(COUNT, scene.variables, all, sizeof(all)));
    CHECK(memcmp(all, numbers, sizeof(all)) == 0);
    release(&scene);
}

static void other_dtypes_are_arrays_too(void) {
    struct scene scene, other;
    const int64_t numbers[ELEMENTS] = {1, -2, 3, INT64_MAX, 5, 6, 7, INT64_MIN};
    const uint16_t halves[ELEMENTS] = {0x3c00, 0x4000, 0, 1, 2, 3, 0x7c00, 0xbc00};
    int64_t all[ELEMENTS];
    uint16_t read[ELEMENTS];
    umbo_variable *mixed[2], *strangers[2];
    make(&scene, 1, UMBO_AGGREGATION_NONE, UMBO_DTYPE_INT64);
    make(&other, 1, UMBO_AGGREGATION_NONE, UMBO_DTYPE_FLOAT16);
    CHECK_OK(umbo_variable_upload_flat(COUNT, scene.variables, numbers, sizeof(numbers)));
    CHECK_OK(umbo_variable_download_flat(COUNT, scene.variables, all, sizeof(all)));
    CHECK(memcmp(all, numbers, sizeof(all)) == 0);
    CHECK_OK(umbo_variable_upload_flat(COUNT, other.variables, halves, sizeof(halves)));
    CHECK_OK(umbo_variable_download_flat(COUNT, other.variables, read, sizeof(read)));
    CHECK(memcmp(read, halves, sizeof(read)) == 0);
    mixed[0] = scene.variables[0];
    mixed[1] = other.variables[0];
    CHECK_STATUS(umbo_variable_download_flat(2, mixed, all, 30), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("an array has elements of one dtype");
    release(&other);
    make(&other, 1, UMBO_AGGREGATION_NONE, UMBO_DTYPE_INT64);
    strangers[0] = scene.variables[0];
    strangers[1] = other.variables[0];
    CHECK_STATUS(umbo_variable_upload_flat(2, strangers, numbers, 48), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("different strategies");
    release(&other);
    release(&scene);
}

/* Each replica writes its own numbers, and reads what they come to. */
static umbo_status in_a_callback(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                                 umbo_value **result) {
    struct scene *scene = (struct scene *)user_data;
    umbo_replica_context_info info = UMBO_REPLICA_CONTEXT_INFO_INIT;
    float numbers[ELEMENTS];
    int32_t index;
    (void)args, (void)result;
    UMBO_TRY(umbo_replica_context_get_info(ctx, &info));
    for (index = 0; index < ELEMENTS; index++) {
        numbers[index] = (float)(index + 10 * info.replica_id);
    }
    UMBO_TRY(umbo_variable_upload_flat(COUNT, scene->variables, numbers, sizeof(numbers)));
    UMBO_TRY(umbo_variable_download_flat(COUNT, scene->variables, numbers, sizeof(numbers)));
    for (index = 0; index < ELEMENTS; index++) CHECK(numbers[index] == (float)index + 5);
    if (scene->fails) return umbo_set_last_error(UMBO_STATUS_ABORTED, "as planned", NULL, NULL);
    return UMBO_OK;
}

static void a_step_writes_all_or_nothing(void) {
    struct scene scene;
    float all[ELEMENTS];
    int32_t index;
    make(&scene, 2, UMBO_AGGREGATION_MEAN, UMBO_DTYPE_FLOAT32);
    scene.fails = 1;
    CHECK_STATUS(umbo_strategy_run(scene.strategy, in_a_callback, NULL, &scene, NULL, NULL),
                 UMBO_STATUS_ABORTED);
    CHECK_OK(umbo_variable_download_flat(COUNT, scene.variables, all, sizeof(all)));
    for (index = 0; index < ELEMENTS; index++) CHECK(all[index] == 0);
    scene.fails = 0;
    CHECK_OK(umbo_strategy_run(scene.strategy, in_a_callback, NULL, &scene, NULL, NULL));
    CHECK_OK(umbo_variable_download_flat(COUNT, scene.variables, all, sizeof(all)));
    for (index = 0; index < ELEMENTS; index++) CHECK(all[index] == (float)index + 5);
    release(&scene);
}

int main(void) {
    an_array_is_written_and_read();
    other_dtypes_are_arrays_too();
    a_step_writes_all_or_nothing();
    return finish();
}

/* Variables that are made by shape, from a distribution. */
#include "check.h"

static umbo_variable_options drawn(umbo_initial initial, int32_t rank, const int64_t *shape) {
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.dtype = UMBO_DTYPE_FLOAT32;
    options.ndim = rank;
    options.shape = shape;
    options.initial = initial;
    return options;
}

static void numbers_of(umbo_strategy *strategy, const char *name,
                       const umbo_variable_options *options, float numbers[6]) {
    umbo_variable *variable = NULL;
    CHECK_OK(umbo_variable_create(strategy, name, NULL, options, &variable));
    CHECK_OK(umbo_variable_download(variable, numbers, 6 * sizeof(float)));
    umbo_variable_release(variable);
}

static int are_equal(const float one[6], const float other[6]) {
    return memcmp(one, other, 6 * sizeof(float)) == 0;
}

/* Another strategy draws the same. Another name, another seed and another variable of the name draw something else. */
static void every_distribution(umbo_strategy *strategy, umbo_strategy *second) {
    static const int64_t shape[2] = {2, 3};
    /* The square roots of 6 / (2 + 3) and of 6 / 2, and twice the wider normals' deviations. */
    static const float bounds[8] = {0, 0, 0.05f, 1, 1.0954452f, 1.4380f, 1.7320508f, 2.2738f};
    umbo_initial initial;
    for (initial = UMBO_INITIAL_ZEROS; initial <= UMBO_INITIAL_HE_NORMAL;
         initial = (umbo_initial)(initial + 1)) {
        umbo_variable_options options = drawn(initial, 2, shape);
        float first[6], again[6], other[6];
        char name[16];
        int index;
        snprintf(name, sizeof(name), "w%d", (int)initial);
        numbers_of(strategy, name, &options, first);
        numbers_of(second, name, &options, again);
        CHECK(are_equal(first, again));
        for (index = 0; index < 6; index++) {
            const float bound = bounds[initial - UMBO_INITIAL_ZEROS];
            CHECK(first[index] <= bound && first[index] >= -bound);
        }
        if (initial <= UMBO_INITIAL_CONSTANT) continue;
        CHECK(first[0] != first[1]);
        numbers_of(strategy, "b", &options, other); /* another name */
        CHECK(!are_equal(first, other));
        numbers_of(strategy, name, &options, again); /* the second of the name */
        CHECK(!are_equal(first, again));
        options.initial_seed = 1; /* another seed, also of the second one */
        numbers_of(second, name, &options, other);
        CHECK(!are_equal(first, other) && !are_equal(again, other));
    }
}

/* Layers in a loop that have one name, or none, whatever their shapes. */
static void names_that_repeat(umbo_strategy *strategy) {
    static const int64_t small[2] = {2, 3}, large[2] = {200, 3};
    static const char *const names[5] = {NULL, NULL, "Variable", "layer", "layer"};
    float drawn_of[6][6];
    int index, other;
    umbo_variable_options options = drawn(UMBO_INITIAL_GLOROT_UNIFORM, 2, small);
    float many[600];
    umbo_variable *variable = NULL;
    for (index = 0; index < 5; index++) {
        numbers_of(strategy, names[index], &options, drawn_of[index]);
        for (other = 0; other < index; other++) CHECK(!are_equal(drawn_of[other], drawn_of[index]));
    }
    options.shape = large;
    CHECK_OK(umbo_variable_create(strategy, "layer", NULL, &options, &variable));
    CHECK_OK(umbo_variable_download(variable, many, sizeof(many)));
    umbo_variable_release(variable);
    for (index = 3; index < 5; index++) {
        const float ratio = many[0] / drawn_of[index][0], second = many[1] / drawn_of[index][1];
        CHECK(ratio - second > 0.01f || second - ratio > 0.01f);
    }
}

static void mean_and_spread(umbo_strategy *strategy) {
    static const int64_t six = 6;
    umbo_variable_options options = drawn(UMBO_INITIAL_CONSTANT, 1, &six);
    float numbers[6];
    int index;
    options.initial_mean = 2.5;
    numbers_of(strategy, "c", &options, numbers);
    CHECK(numbers[0] == 2.5f && numbers[5] == 2.5f);
    options.initial = UMBO_INITIAL_UNIFORM;
    options.initial_spread = 0.25;
    numbers_of(strategy, "u", &options, numbers);
    for (index = 0; index < 6; index++) CHECK(numbers[index] >= 2.25f && numbers[index] <= 2.75f);
    options.initial = UMBO_INITIAL_NORMAL;
    options.initial_spread = 0; /* 0 is 0 */
    numbers_of(strategy, "n", &options, numbers);
    CHECK(numbers[0] == 2.5f && numbers[5] == 2.5f);
}

/* The same bits on every machine. */
static void golden(umbo_strategy *strategy) {
    static const int64_t shape[2] = {2, 2};
    double numbers[4] = {0, 0, 0, 0};
    umbo_variable *variable = NULL;
    umbo_variable_options options = drawn(UMBO_INITIAL_HE_NORMAL, 2, shape);
    options.dtype = UMBO_DTYPE_FLOAT64;
    options.initial_seed = 42;
    CHECK_OK(umbo_variable_create(strategy, "w", NULL, &options, &variable));
    CHECK_OK(umbo_variable_download(variable, numbers, sizeof(numbers)));
    CHECK(numbers[0] == 0.8176315223886266 && numbers[1] == 0.7766207833064371);
    CHECK(numbers[2] == -0.6368205124446055 && numbers[3] == 0.12775718770153693);
    umbo_variable_release(variable);
}

static umbo_status leave_zeros(const umbo_view *memory, void *user_data) {
    (void)memory;
    (void)user_data;
    return UMBO_OK;
}

static void refused(umbo_strategy *strategy) {
    static const int64_t six = 6;
    umbo_variable *none = NULL;
    umbo_tensor *initial = make_float(1);
    umbo_variable_options options = drawn(UMBO_INITIAL_NORMAL, 1, &six);
    CHECK_STATUS(umbo_variable_create(strategy, "w", initial, &options, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("one of the three");
    options.initializer = leave_zeros;
    CHECK_STATUS(umbo_variable_create(strategy, "w", NULL, &options, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("one of the three");
    options.initializer = NULL;
    CHECK_STATUS(umbo_variable_create(strategy, "", initial, NULL, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("name: is empty");
    options.initial_spread = -1;
    CHECK_STATUS(umbo_variable_create(strategy, "w", NULL, &options, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("initial_spread");
    options.initial_spread = 1;
    options.dtype = UMBO_DTYPE_INT32;
    CHECK_STATUS(umbo_variable_create(strategy, "w", NULL, &options, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("int32");
    options.initial = UMBO_ENUM_VALUE(umbo_initial, 999);
    CHECK_STATUS(umbo_variable_create(strategy, "w", NULL, &options, &none),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("UMBO_INITIAL_HE_NORMAL");
    CHECK(none == NULL);
    umbo_tensor_release(initial);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2), *second = make_strategy(1);
    every_distribution(strategy, second);
    names_that_repeat(strategy);
    mean_and_spread(strategy);
    golden(strategy);
    refused(strategy);
    umbo_strategy_release(second);
    umbo_strategy_release(strategy);
    return finish();
}

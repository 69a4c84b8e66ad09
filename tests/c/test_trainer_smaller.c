/* Trainers that keep fewer bytes: states of 8 bits, and weights of bfloat16 that are rounded. */
#include "trainer_rows.h"

enum { LARGE = 5000, STEPS = 5 };

static float widened(uint16_t bits) {
    const uint32_t wide = (uint32_t)bits << 16;
    float number;
    memcpy(&number, &wide, sizeof number);
    return number;
}

/* The upper half of a number that has no lower one. */
static uint16_t upper(float number) {
    uint32_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (uint16_t)(bits >> 16);
}

/* Adds to the gradients of all arrays, whatever type they have: small whole numbers, so that no sum is rounded. */
static umbo_status learn_all(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                             double *loss) {
    const int64_t *const counts = (const int64_t *)user_data;
    CHECK(weights == rows->weights[0] && gradient == rows->gradients[0]);
    *loss = (double)rows->count;
    for (int64_t array = 0; rows->training && array < rows->array_count; ++array) {
        const int is_half = rows->weights[array] == NULL;
        CHECK(is_half == (rows->half_weights != NULL && rows->half_weights[array] != NULL));
        float *const wide = rows->gradients[array];
        uint16_t *const half = rows->half_gradients == NULL ? NULL : (uint16_t *)rows->half_gradients[array];
        CHECK((wide == NULL) != (half == NULL));
        for (int64_t at = 0; at < counts[array]; ++at) {
            for (int64_t i = 0; i < rows->count; ++i) {
                const float one = (float)((at + rows->indices[i]) % 5 - 2);
                if (wide != NULL) wide[at] += one;
                else half[at] = upper(widened(half[at]) + one);
            }
        }
    }
    return UMBO_OK;
}

static umbo_trainer *made(umbo_parameters *parameters, int64_t count, const umbo_trainer_options *options) {
    umbo_trainer *trainer = NULL;
    CHECK_OK(umbo_trainer_create_with_arrays(count, parameters, options, &trainer));
    return trainer;
}

static void take_steps(umbo_trainer *trainer, int64_t *counts) {
    for (int step = 0; step < STEPS; ++step)
        CHECK_OK(umbo_trainer_step(trainer, step, 8, learn_all, counts, NULL));
}

static double setting(umbo_trainer *trainer, const char *name) {
    umbo_optimizer *optimizer = NULL;
    double value = -1;
    CHECK_OK(umbo_trainer_optimizer(trainer, &optimizer));
    CHECK_OK(umbo_optimizer_setting(optimizer, NULL, name, &value));
    umbo_optimizer_release(optimizer);
    return value;
}

/* The option is that of the optimizer. */
static void states_of_8_bits(void) {
    static float by_option[LARGE], by_setting[LARGE], in_full[LARGE];
    float *const arrays[] = {by_option, by_setting, in_full};
    int64_t count = LARGE;
    for (int way = 0; way < 3; ++way) {
        umbo_parameters parameters = array_of(arrays[way], LARGE);
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.rule = "adam";
        if (way == 0) options.state_bits = 8;
        umbo_trainer *const trainer = made(&parameters, 1, &options);
        if (way == 1) {
            umbo_optimizer *optimizer = NULL;
            umbo_optimizer_options settings = UMBO_OPTIMIZER_OPTIONS_INIT;
            settings.state_bits = 8;
            CHECK_OK(umbo_trainer_optimizer(trainer, &optimizer));
            CHECK_OK(umbo_optimizer_configure(optimizer, &settings));
            umbo_optimizer_release(optimizer);
        }
        CHECK(setting(trainer, "state_bits") == (way == 2 ? 0 : 8));
        take_steps(trainer, &count);
        umbo_trainer_release(trainer);
    }
    CHECK(memcmp(by_option, by_setting, sizeof by_option) == 0);
    CHECK(memcmp(by_option, in_full, sizeof by_option) != 0);
}

/* Arrays of bfloat16 and of float32, with gradients of the type that `gradient_dtype` says. Their bits do not depend on
   the number of replicas, and a training that was saved goes on with the same. */
static void weights_of_bfloat16(void) {
    static const umbo_dtype dtypes[] = {UMBO_DTYPE_NONE, UMBO_DTYPE_FLOAT32, UMBO_DTYPE_BFLOAT16};
    static uint16_t expected[LARGE], half[LARGE];
    static float full[FEATURES];
    int64_t counts[] = {LARGE, FEATURES};
    for (int at = 0; at < COUNT_OF(dtypes); ++at) {
        for (int64_t replicas = 1; replicas <= 4; replicas += 3) {
            umbo_parameters parameters[2] = {array_of(NULL, LARGE), array_of(full, FEATURES)};
            umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
            for (int index = 0; index < LARGE; ++index) half[index] = upper((float)(index % 9) / 4);
            memset(full, 0, sizeof full);
            parameters[0].half_weights = half;
            options.rule = "adam";
            options.replicas = replicas;
            options.gradient_dtype = dtypes[at];
            options.state_bits = 8;
            options.stochastic_rounding = 1;
            options.rounding_seed = 7;
            umbo_trainer *trainer = made(parameters, 2, &options);
            CHECK(setting(trainer, "stochastic_rounding") == 1 && setting(trainer, "rounding_seed") == 7);
            take_steps(trainer, counts);
            CHECK(full[0] != 0 && half[1] != upper(0.25f));
            if (at == 0 && replicas == 1) memcpy(expected, half, sizeof half);
            CHECK(memcmp(expected, half, sizeof half) == 0);
            CHECK_OK(umbo_trainer_save(trainer, "trainer_smaller.umbo"));
            umbo_trainer_release(trainer);
            memset(half, 0, sizeof half);
            trainer = made(parameters, 2, &options);
            CHECK_OK(umbo_trainer_restore(trainer, "trainer_smaller.umbo"));
            CHECK(memcmp(expected, half, sizeof half) == 0);
            umbo_trainer_release(trainer);
        }
    }
    CHECK(remove("trainer_smaller.umbo") == 0);
}

static void refused(umbo_parameters parameters, const umbo_trainer_options *options, const char *words) {
    umbo_trainer *trainer = NULL;
    CHECK_STATUS(umbo_trainer_create_with_arrays(1, &parameters, options, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    if (strstr(umbo_last_error_message(), words) == NULL) {
        fprintf(stderr, "expected: %s\n", words);
        check_failed(__FILE__, __LINE__, "the message");
    }
}

static void refusals(void) {
    static float full[LARGE];
    static uint16_t half[LARGE];
    umbo_parameters of_full = array_of(full, LARGE), of_half = array_of(NULL, LARGE);
    umbo_trainer_options plain = UMBO_TRAINER_OPTIONS_INIT, options = plain;
    of_half.half_weights = half;
    refused(of_half, &plain, "stochastic_rounding: 0, but parameters[0] has half_weights");
    options.state_bits = 4, options.rule = "adam";
    refused(of_full, &options, "options.state_bits: 4; 0 (those of the variable) and 8 are possible");
    options.state_bits = 8;
    of_full.row_length = 5;
    refused(of_full, &options, "state_bits: 8, but parameters[0] has a row_length");
    of_full.row_length = 0;
    options.rule = "lion";
    refused(of_full, &options, "state_bits: 8; adam");
    options.rule = "adafactor";
    refused(of_full, &options, "state_bits: 8; adafactor keeps a number for each row and column");
    options = plain, options.stochastic_rounding = 2;
    refused(of_half, &options, "options.stochastic_rounding: 2");
    options.stochastic_rounding = 1, options.rule = "lamb";
    refused(of_half, &options, "stochastic_rounding: 1; lamb");
    options.rule = "adam", options.average_decay = 0.5;
    refused(of_half, &options, "average: with stochastic_rounding");
    options.average_decay = 0;
    of_half.row_length = 5;
    refused(of_half, &options, "parameters[0].row_length: 5, but half_weights have no gradients of single rows");
    of_half.row_length = 0;
    of_half.weights = full;
    refused(of_half, &options, "parameters[0].half_weights: given together with weights");
    of_half.weights = NULL, of_half.count = 1;
    of_half.half_weights = (uint16_t *)(void *)((char *)half + 1);
    refused(of_half, &options, "is not a multiple of 2, the size of a bfloat16");
}

/* An optimizer of the program's says it already. */
static void beside_an_optimizer(void) {
    static float full[FEATURES];
    umbo_strategy *strategy = NULL;
    umbo_optimizer *optimizer = NULL;
    CHECK_OK(umbo_strategy_create(NULL, &strategy));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &optimizer));
    for (int field = 0; field < 3; ++field) {
        static const char *const names[] = {"state_bits", "stochastic_rounding", "rounding_seed"};
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        char words[80];
        options.strategy = strategy, options.optimizer = optimizer;
        if (field == 0) options.state_bits = 8;
        if (field == 1) options.stochastic_rounding = 1;
        if (field == 2) options.rounding_seed = 1;
        snprintf(words, sizeof words, "options.%s: given together with options.optimizer", names[field]);
        refused(array_of(full, FEATURES), &options, words);
    }
    umbo_optimizer_release(optimizer);
    umbo_strategy_release(strategy);
}

int main(void) {
    states_of_8_bits();
    weights_of_bfloat16();
    refusals();
    beside_an_optimizer();
    return finish();
}

/* What a trainer refuses, with what words, and its limits. */
#include "trainer_rows.h"

static void refused(umbo_parameters parameters, const umbo_trainer_options *options,
                    const char *words) {
    umbo_trainer *trainer = NULL;
    CHECK_STATUS(umbo_trainer_create_with_arrays(1, &parameters, options, &trainer),
                 UMBO_STATUS_INVALID_ARGUMENT);
    if (strstr(umbo_last_error_message(), words) == NULL) {
        fprintf(stderr, "expected: %s\n", words);
        check_failed(__FILE__, __LINE__, "the message");
    }
    CHECK(trainer == NULL);
}

/* Each field of each array is named with the array's index. */
static void fields(void) {
    static const char *const words[] = {
        "weights: is NULL", "weights: ", "count: 0", "count: -1", "name: ", "row_length: 2", "row_length: -1",
        "learning_rate_factor: -1", "no_weight_decay: 2", "frozen: 2", "reserved"};
    static float both[2][FEATURES];
    for (int index = 0; index < 2; ++index) {
        for (int field = 0; field < COUNT_OF(words); ++field) {
            umbo_parameters parameters[2] = {array_of(both[0], FEATURES), array_of(both[1], FEATURES)};
            umbo_parameters *one = &parameters[index];
            umbo_trainer *trainer = NULL;
            char expected[64];
            switch (field) {
                case 0: one->weights = NULL; break;
                case 1: one->weights = (float *)(void *)((char *)both[index] + 1), one->count = 1; break;
                case 2: one->count = 0; break;
                case 3: one->count = -1; break;
                case 4: one->name = "\xff"; break;
                case 5: one->row_length = 2; break;
                case 6: one->row_length = -1; break;
                case 7: one->learning_rate_factor = -1; break;
                case 8: one->no_weight_decay = 2; break;
                case 9: one->frozen = 2; break;
                default: one->reserved[2] = 1; break;
            }
            snprintf(expected, sizeof(expected), "parameters[%d].%s", index, words[field]);
            CHECK_STATUS(umbo_trainer_create_with_arrays(2, parameters, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
            if (strstr(umbo_last_error_message(), expected) == NULL)
                check_failed(__FILE__, __LINE__, expected);
            if (field == 1) CHECK_MESSAGE("not a multiple of 4");
        }
    }
    /* No memory is there up to the last address. */
    refused(array_of((float *)(UINTPTR_MAX - 7), 4), NULL, "parameters[0]: 16 bytes from 0x");
}

/* Arrays that do not go together. */
static void several_arrays(void) {
    float weights[FEATURES + 1] = {0};
    umbo_parameters two[2];
    umbo_trainer *trainer = NULL;
    two[0] = array_of(weights, 2), two[1] = array_of(weights + 1, 2);
    CHECK_STATUS(umbo_trainer_create_with_arrays(0, two, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("count: 0");
    CHECK_STATUS(umbo_trainer_create_with_arrays(2, two, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("parameters[0] and parameters[1] have elements in common");
    two[1] = array_of(weights + 2, 2), two[0].name = two[1].name = "w";
    CHECK_STATUS(umbo_trainer_create_with_arrays(2, two, NULL, &trainer), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("'w'");
}

/* Options with two fields given, the second of which may be one that the first needs. */
#define REFUSED_WITH(field, value, other, its_value, words)                 \
    do {                                                                    \
        umbo_trainer_options options_ = UMBO_TRAINER_OPTIONS_INIT;          \
        options_.other = its_value;                                         \
        options_.field = value;                                             \
        refused(array_of(refused_weights, FEATURES), &options_, words);     \
    } while (0)

/* Options with one field given. */
#define REFUSED(field, value, words) REFUSED_WITH(field, value, field, value, words)

static float refused_weights[FEATURES];

static void options_alone(void) {
    REFUSED(rule, "adamax", "options.rule: 'adamax'; valid are sgd, momentum");
    REFUSED(learning_rate, -1, "options.learning_rate: -1");
    REFUSED(weight_decay, -1, "options.weight_decay: -1");
    REFUSED(global_clip_norm, 0, "options.global_clip_norm: 0");
    REFUSED(schedule, "steps", "options.schedule: 'steps'; valid are linear and cosine");
    REFUSED(schedule_updates, 3, "options.schedule_updates: 3; this schedule has no end, so give 0");
    REFUSED(warmup_updates, -1, "options.warmup_updates: -1");
    REFUSED(accumulation_steps, 0, "options.accumulation_steps: 0");
    REFUSED(loss_reduction, (umbo_loss_reduction)7, "options.loss_reduction: 7");
    REFUSED(replicas, -1, "options.replicas: -1");
    REFUSED(replicas, 2000, "options.replicas: 2000");
    REFUSED_WITH(replicas_in_sync, 2, replicas, 3, "options.replicas_in_sync: 2");
    REFUSED(gradient_dtype, UMBO_DTYPE_FLOAT64, "options.gradient_dtype: float64; valid are float32");
    REFUSED(average_decay, 1, "options.average_decay: 1; must be at least 0 and less than 1");
    REFUSED(average_decay, -0.5, "options.average_decay: -0.5");
    REFUSED(gradient_dtype, (umbo_dtype)7, "options.gradient_dtype: 7");
    REFUSED(shuffle, 2, "options.shuffle: 2");
    REFUSED(progress, -1, "options.progress: -1");
    REFUSED(timeout_seconds, -1, "options.timeout_seconds: -1");
    REFUSED(interrupt_path, "", "options.interrupt_path: '': names no file");
    REFUSED(interrupt_path, "no/such", "options.interrupt_path: 'no/such': there is no such folder");
    REFUSED(interrupt_path, ".", "options.interrupt_path: '.': is a folder");
    REFUSED(interrupt_path, "no_such/", "options.interrupt_path: 'no_such/': is a folder");
}

/* Rows have gradients of 32 bits. */
static void half_rows(void) {
    umbo_parameters parameters = array_of(refused_weights, FEATURES);
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    parameters.row_length = 1;
    options.gradient_dtype = UMBO_DTYPE_BFLOAT16;
    refused(parameters, &options, "options.gradient_dtype: bfloat16, but parameters[0] has a row_length");
}

/* The numbers of the rows are for reading, as strict mode says. */
static umbo_status write_indices(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                                 double *loss) {
    (void)weights, (void)gradient, (void)user_data, (void)loss;
    ((int64_t *)(uintptr_t)rows->indices)[0] += 1;
    return UMBO_OK;
}

static void written_indices(void) {
    float weights[FEATURES] = {0};
    umbo_strategy_options strict = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    strict.cpu_replicas = 2;
    strict.strict = 1;
    CHECK_OK(umbo_strategy_create(&strict, &options.strategy));
    umbo_trainer *const trainer = trainer_with(weights, &options);
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 5, write_indices, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("the replica's part of the batch (int64 of shape");
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 5, write_indices, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_trainer_evaluate(trainer, ROWS, 5, write_indices, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    umbo_trainer_release(trainer);
    umbo_strategy_release(options.strategy);
}

/* A function that writes the weights is told so in the first steps, if the array is small. */
typedef struct {
    int64_t step, first;
} writer;

static umbo_status write_weights(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                                 double *loss) {
    const writer *const self = (const writer *)user_data;
    (void)rows, (void)gradient, (void)loss;
    if (self->step >= self->first) ((float *)(uintptr_t)weights)[0] += 1;
    return UMBO_OK;
}

static int64_t told;

static void note_written(umbo_log_level level, const char *message, void *user_data) {
    (void)level, (void)user_data;
    told += strstr(message, "'weights'") != NULL && strstr(message, "was written through a view of it") != NULL;
}

static void written_weights(void) {
    static float large[(64 << 8) + 1]; /* a number more than 64 KiB */
    static const struct {
        int64_t first, count, is_told;
    } cases[] = {{1, FEATURES, 1}, {2, 64 << 8, 1}, {3, FEATURES, 0}, {1, (64 << 8) + 1, 0}, {9, FEATURES, 0}};
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, note_written, NULL, NULL));
    for (int k = 0; k < COUNT_OF(cases); ++k) {
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        const umbo_parameters parameters = array_of(large, cases[k].count);
        umbo_trainer *trainer = NULL;
        writer self = {0, cases[k].first};
        told = 0;
        options.replicas = 1;
        CHECK_OK(umbo_trainer_create_with_arrays(1, &parameters, &options, &trainer));
        for (self.step = 1; self.step <= 5; ++self.step)
            CHECK_OK(umbo_trainer_step(trainer, 0, 1, write_weights, &self, NULL));
        CHECK(told == cases[k].is_told); /* once */
        umbo_trainer_release(trainer);
    }
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, NULL, NULL, NULL));
}

/* The warm-up of a schedule ends before it. */
static void schedule_of_nothing(void) {
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.schedule = "cosine";
    options.schedule_updates = 3;
    options.warmup_updates = 3;
    refused(array_of(refused_weights, FEATURES), &options, "options.schedule_updates: 3; must be more than the 3");
}

/* What the program's own strategy or optimizer has already settled. */
static void options_given_together(void) {
    umbo_strategy *strategy = make_strategy(1), *other = make_strategy(1);
    umbo_optimizer *optimizer = NULL;
    CHECK_OK(umbo_optimizer_create_sgd(other, NULL, &optimizer));
    REFUSED_WITH(replicas, 1, strategy, strategy, "options.replicas: given together with options.strategy");
    REFUSED_WITH(replicas_in_sync, 1, strategy, strategy, "options.replicas_in_sync: given together");
    REFUSED_WITH(optimizer, optimizer, strategy, strategy, "options.optimizer: made for a strategy other than options.strategy");
    for (int field = 0; field < 2; ++field) {
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.strategy = other;
        options.optimizer = optimizer;
        if (field == 0) options.rule = "sgd";
        if (field == 1) options.learning_rate = 1;
        refused(array_of(refused_weights, FEATURES), &options,
                field == 0 ? "options.rule: given together with options.optimizer"
                           : "options.learning_rate: given together");
    }
    umbo_optimizer_release(optimizer);
    umbo_strategy_release(other);
    umbo_strategy_release(strategy);
}

/* A step has so many rows at most, also one of an epoch. */
static void too_large_batches(umbo_trainer *trainer) {
    const int64_t rows = INT64_C(1) << 30, most = INT64_C(1) << 28;
    umbo_dataset *dataset = NULL;
    notes n = no_notes();
    CHECK_STATUS(umbo_trainer_epoch(trainer, rows, most + 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 268435457; a step has at most 268435456 rows");
    CHECK_STATUS(umbo_trainer_evaluate(trainer, rows, most + 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 268435457");
    CHECK_STATUS(umbo_trainer_dataset(trainer, rows, most + 1, &dataset), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 268435457");
    CHECK_STATUS(umbo_trainer_step(trainer, 0, most + 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_count: 268435457");
    CHECK_OK(umbo_trainer_evaluate(trainer, ROWS, INT64_MAX, learn, &n, NULL));
    CHECK(is_count(n.evaluated, ROWS));
}

static void set_rates(umbo_trainer *trainer) {
    CHECK_STATUS(umbo_trainer_set_learning_rate(trainer, -1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("learning_rate: -1");
    CHECK_STATUS(umbo_trainer_set_learning_rate(NULL, 1), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("trainer: is NULL");
    CHECK_OK(umbo_trainer_set_learning_rate(trainer, 0));
}

static void arguments(void) {
    float weights[FEATURES] = {0};
    umbo_trainer *trainer = trainer_with(weights, NULL);
    notes n = no_notes();
    CHECK_STATUS(umbo_trainer_epoch(trainer, 0, 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_count: 0");
    CHECK_STATUS(umbo_trainer_epoch(trainer, 1, 0, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("batch_size: 0");
    CHECK_STATUS(umbo_trainer_evaluate(trainer, 1, -1, learn, &n, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    too_large_batches(trainer);
    set_rates(trainer);
    CHECK_STATUS(umbo_trainer_step(trainer, -1, 1, learn, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("first_row: -1");
    CHECK_STATUS(umbo_trainer_step(trainer, 0, INT64_C(1) << 40, learn, &n, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("row_count: 1099511627776");
    CHECK_STATUS(umbo_trainer_step(trainer, INT64_MAX, 2, learn, &n, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("first_row: ");
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, NULL, &n, NULL), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("learn: is NULL");
    umbo_trainer_release(trainer);
}

/* No trainer is made, and no rate set, in a step or a scope. */
static umbo_status make_inside(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                               double *loss) {
    umbo_trainer *other = NULL;
    (void)rows, (void)weights, (void)gradient, (void)loss;
    CHECK_STATUS(umbo_trainer_create(refused_weights, FEATURES, NULL, &other), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_trainer_set_learning_rate((umbo_trainer *)user_data, 1), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("inside of a step");
    CHECK_STATUS(umbo_trainer_save((umbo_trainer *)user_data, "none.umbo"), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_STATUS(umbo_trainer_restore((umbo_trainer *)user_data, "none.umbo"), UMBO_STATUS_FAILED_PRECONDITION);
    return UMBO_OK;
}

static umbo_status make_in_scope(umbo_strategy *strategy, void *user_data) {
    umbo_trainer *other = NULL;
    (void)strategy, (void)user_data;
    CHECK_STATUS(umbo_trainer_create(refused_weights, FEATURES, NULL, &other), UMBO_STATUS_FAILED_PRECONDITION);
    return UMBO_OK;
}

static void not_there(void) {
    float weights[FEATURES] = {0};
    umbo_strategy *strategy = NULL;
    umbo_trainer *const trainer = trainer_with(weights, NULL);
    CHECK_OK(umbo_trainer_step(trainer, 0, 1, make_inside, trainer, NULL));
    CHECK_OK(umbo_trainer_strategy(trainer, &strategy));
    CHECK_OK(umbo_strategy_scope(strategy, make_in_scope, NULL));
    umbo_strategy_release(strategy);
    umbo_trainer_release(trainer);
}

/* A trainer cannot be used in one of its steps. */
static umbo_status learn_inside(const umbo_rows *rows, const float *weights, float *gradient,
                                void *user_data, double *loss) {
    (void)rows, (void)weights, (void)gradient, (void)loss;
    return umbo_trainer_step((umbo_trainer *)user_data, 0, 1, learn_inside, user_data, NULL);
}

/* A clip, a gradient that is not finite, a token, a time limit. */
static void limits(void) {
    float weights[FEATURES] = {0}, gradient = 100;
    umbo_cancellation *token = NULL;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.global_clip_norm = 1;
    options.learning_rate = 1;
    options.replicas = 2;
    umbo_trainer *trainer = trainer_with(weights, &options);
    CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_given, &gradient, NULL));
    CHECK(near(weights[0], -1));
    gradient = 1e30f;
    gradient *= gradient;
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_given, &gradient, NULL),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("weights");
    CHECK(near(weights[0], -1) && progress_of(trainer).step_count == 1);
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_inside, trainer, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    umbo_trainer_release(trainer);
    CHECK_OK(umbo_cancellation_create(&token));
    options.cancellation = token;
    options.timeout_seconds = 3600;
    trainer = trainer_with(weights, &options);
    gradient = 0;
    CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_given, &gradient, NULL));
    CHECK_OK(umbo_cancellation_cancel(token));
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_given, &gradient, NULL),
                 UMBO_STATUS_CANCELLED);
    CHECK_STATUS(umbo_trainer_epoch(trainer, 4, 1, learn_given, &gradient, NULL),
                 UMBO_STATUS_CANCELLED);
    umbo_trainer_release(trainer);
    options.cancellation = NULL;
    options.timeout_seconds = 0;
    trainer = trainer_with(weights, &options);
    CHECK_STATUS(umbo_trainer_step(trainer, 0, 1, learn_given, &gradient, NULL),
                 UMBO_STATUS_DEADLINE_EXCEEDED);
    umbo_trainer_release(trainer);
    umbo_cancellation_release(token);
}

int main(void) {
    make_table();
    fields();
    several_arrays();
    options_alone();
    schedule_of_nothing();
    half_rows();
    written_indices();
    written_weights();
    options_given_together();
    arguments();
    limits();
    not_there();
    return finish();
}

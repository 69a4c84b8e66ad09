/* All update rules learn side by side from shuffled batches: a dense array, one of float64 and a table of which replicas name
 * rows, with gradients of 32 and 16 bits, clipping, weight decay, averages, schedules and loss scales. */
#ifndef UMBO_TESTS_ONE_SHA_RULES_PART_H
#define UMBO_TESTS_ONE_SHA_RULES_PART_H

#include "parts.h"

enum { RULES = 17, ELEMENTS = 77, WIDE = 5, WORDS = 11, LENGTH = 3, COLUMNS = 8, EXAMPLES = 130, BATCH = 50, STEPS = 8 };

static umbo_status make_rule(const umbo_strategy *strategy, int rule, umbo_optimizer **made) {
    umbo_momentum_options momentum = UMBO_MOMENTUM_OPTIONS_INIT;
    umbo_adam_options adam = UMBO_ADAM_OPTIONS_INIT;
    umbo_nadam_options nadam = UMBO_NADAM_OPTIONS_INIT;
    umbo_radam_options radam = UMBO_RADAM_OPTIONS_INIT;
    umbo_lion_options lion = UMBO_LION_OPTIONS_INIT;
    umbo_adagrad_options adagrad = UMBO_ADAGRAD_OPTIONS_INIT;
    umbo_rmsprop_options rmsprop = UMBO_RMSPROP_OPTIONS_INIT;
    umbo_ftrl_options ftrl = UMBO_FTRL_OPTIONS_INIT;
    momentum.nesterov = rule == 2;
    momentum.dampening = rule == 3 ? 0.3 : 0;
    adam.amsgrad = rule == 5;
    nadam.decoupled_weight_decay = radam.decoupled_weight_decay = 1;
    radam.beta2 = 0.8; /* so that some of the steps are rectified */
    lion.weight_decay = 0.1;
    adagrad.learning_rate_decay = 0.1;
    adagrad.initial_accumulator = 0.1;
    rmsprop.centered = rule == 14;
    rmsprop.momentum = rule == 13 ? 0.9 : 0;
    ftrl.l1 = rule == 15 ? 0.05 : 0;
    ftrl.l2 = 0.01;
    switch (rule) {
        case 0: return umbo_optimizer_create_sgd(strategy, NULL, made);
        case 1: case 2: case 3: return umbo_optimizer_create_momentum(strategy, &momentum, made);
        case 4: case 5: return umbo_optimizer_create_adam(strategy, &adam, made);
        case 6: return umbo_optimizer_create_adamw(strategy, NULL, made);
        case 7: return umbo_optimizer_create_nadam(strategy, &nadam, made);
        case 8: return umbo_optimizer_create_radam(strategy, &radam, made);
        case 9: return umbo_optimizer_create_lion(strategy, &lion, made);
        case 10: return umbo_optimizer_create_lamb(strategy, NULL, made);
        case 11: return umbo_optimizer_create_lars(strategy, NULL, made);
        case 12: return umbo_optimizer_create_adagrad(strategy, &adagrad, made);
        case 13: case 14: return umbo_optimizer_create_rmsprop(strategy, &rmsprop, made);
        default: return umbo_optimizer_create_ftrl(strategy, &ftrl, made);
    }
}

/* LAMB and LARS take the norm of whole arrays. */
static int has_rows(int rule) { return rule != 10 && rule != 11; }

/* The type of the gradients, and of the weights that a callback reads. */
static umbo_dtype type_of(int rule) {
    static const umbo_dtype types[3] = {UMBO_DTYPE_FLOAT32, UMBO_DTYPE_BFLOAT16, UMBO_DTYPE_FLOAT16};
    return types[rule % 3];
}

static void configure(umbo_optimizer *optimizer, int rule) {
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_schedule_options schedule = UMBO_SCHEDULE_OPTIONS_INIT;
    if (rule % 2 == 0) options.global_clip_norm = 0.9;
    if (rule % 4 == 1) options.clip_value = 0.05;
    if (rule % 4 == 0) options.weight_decay = 0.02;
    if (rule % 5 == 1) options.average = UMBO_AVERAGE_EXPONENTIAL, options.average_decay = 0.9;
    if (rule % 5 == 3) options.average = UMBO_AVERAGE_MEAN, options.average_start = 2;
    if (type_of(rule) == UMBO_DTYPE_FLOAT16) {
        options.non_finite = UMBO_NON_FINITE_SKIP;
        options.loss_scaling = UMBO_LOSS_SCALING_DYNAMIC;
        options.loss_scale = 1024;
        options.loss_scale_growth_interval = 3;
    }
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    if (rule % 3 == 2) return;
    schedule.kind = rule % 3 == 0 ? UMBO_SCHEDULE_COSINE : UMBO_SCHEDULE_ONE_CYCLE;
    schedule.warmup_updates = 2;
    schedule.updates = STEPS + 1;
    CHECK_OK(umbo_optimizer_set_named_schedule(optimizer, &schedule));
}

struct rule_model {
    umbo_variable *variables[3]; /* the array, that of float64 and the table */
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
};

struct rules {
    umbo_strategy *strategy;
    umbo_iterator *iterator;
    umbo_checkpoint *checkpoint;
    struct rule_model models[RULES];
};

static void make_model(struct rules *rules, int rule) {
    static const int64_t shapes[3][2] = {{ELEMENTS, 0}, {WIDE, 0}, {WORDS, LENGTH}};
    struct rule_model *const model = &rules->models[rule];
    const umbo_dtype type = type_of(rule);
    const int32_t row_sparse[3] = {0, 0, has_rows(rule)};
    umbo_gradients_options options = UMBO_GRADIENTS_OPTIONS_INIT;
    char name[32];
    for (int at = 0; at < 3; at++) {
        const umbo_dtype dtype = at == 1 && type == UMBO_DTYPE_FLOAT32 ? UMBO_DTYPE_FLOAT64 : UMBO_DTYPE_FLOAT32;
        snprintf(name, sizeof(name), "%d.%d", rule, at);
        CHECK_OK(umbo_variable_create_drawn(rules->strategy, name, dtype, at == 2 ? 2 : 1, shapes[at],
                                            at == 1 ? UMBO_INITIAL_UNIFORM : UMBO_INITIAL_NORMAL, (uint64_t)rule,
                                            &model->variables[at]));
        CHECK_OK(umbo_checkpoint_add_variable(rules->checkpoint, NULL, model->variables[at]));
    }
    options.row_sparse = row_sparse;
    if (type != UMBO_DTYPE_FLOAT32) options.dtype = type;
    CHECK_OK(umbo_gradients_create(rules->strategy, 3, model->variables, rule % 4 == 3 ? UMBO_LOSS_MEAN : UMBO_LOSS_SUM,
                                   &options, &model->gradients));
    CHECK_OK(make_rule(rules->strategy, rule, &model->optimizer));
    configure(model->optimizer, rule);
    snprintf(name, sizeof(name), "rule.%d", rule);
    CHECK_OK(umbo_checkpoint_add_optimizer(rules->checkpoint, name, model->optimizer));
}

static void make_rules(umbo_communicator *communicator, int replicas, struct rules *rules) {
    const int64_t shape[2] = {EXAMPLES, COLUMNS};
    umbo_shuffle_options shuffle = UMBO_SHUFFLE_OPTIONS_INIT;
    umbo_dataset *dataset = NULL;
    umbo_view view;
    float numbers[EXAMPLES][COLUMNS];
    for (int row = 0; row < EXAMPLES; row++)
        for (int column = 0; column < COLUMNS; column++) numbers[row][column] = number_of(row, column);
    memset(rules, 0, sizeof(*rules));
    rules->strategy = make_part_strategy(communicator, replicas, IN_SYNC);
    CHECK_OK(umbo_checkpoint_create(rules->strategy, &rules->checkpoint));
    view = umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 2, shape, numbers);
    CHECK_OK(umbo_dataset_from_arrays(1, NULL, &view, &dataset));
    shuffle.seed = 5;
    CHECK_OK(umbo_dataset_shuffle(&dataset, &shuffle));
    CHECK_OK(umbo_dataset_batch(&dataset, BATCH, 0));
    CHECK_OK(umbo_strategy_iterate(rules->strategy, dataset, NULL, &rules->iterator));
    umbo_dataset_release(dataset);
    CHECK_OK(umbo_checkpoint_add_iterator(rules->checkpoint, "data", rules->iterator));
    for (int rule = 0; rule < RULES; rule++) make_model(rules, rule);
}

static void release_rules(struct rules *rules) {
    for (int rule = 0; rule < RULES; rule++) {
        struct rule_model *const model = &rules->models[rule];
        umbo_optimizer_release(model->optimizer);
        umbo_gradients_release(model->gradients);
        for (int at = 0; at < 3; at++) umbo_variable_release(model->variables[at]);
    }
    umbo_checkpoint_release(rules->checkpoint);
    umbo_iterator_release(rules->iterator);
    umbo_strategy_release(rules->strategy);
}

/* ---- the step */

/* The error of an example, whose numbers `x` some of the time are left out. */
static float error_of(const float *weights, const float *words, const float *x) {
    float error = -x[COLUMNS - 1];
    for (int at = 0; at < ELEMENTS; at++) error += weights[at] * x[at % COLUMNS] * 0.0625f;
    for (int at = 0; at < LENGTH; at++) error += words[at] * x[at];
    return error;
}

/* Scaled up, numbers are between -10 and 10. */
static int word_of(const float *x) { return (int)((x[0] + 10) * 16) % WORDS; }

/* Writes float32 numbers as the type of a view. */
static umbo_status write_numbers(const umbo_view *view, int count, const float *numbers) {
    if (view->dtype == UMBO_DTYPE_FLOAT16 || view->dtype == UMBO_DTYPE_BFLOAT16)
        return umbo_dtype_convert_from_float(view->dtype, count, numbers, view->mutable_data);
    for (int at = 0; at < count; at++) {
        if (view->dtype == UMBO_DTYPE_FLOAT64) ((double *)view->mutable_data)[at] = (double)numbers[at] / 3;
        else ((float *)view->mutable_data)[at] = numbers[at];
    }
    return UMBO_OK;
}

/* The weights as this rule's callback reads them: some of them are copies in 16 bits. */
static umbo_status read_weights(umbo_variable *variable, umbo_replica_context *context, umbo_dtype type, int count,
                                float *numbers) {
    umbo_view view;
    UMBO_TRY(umbo_variable_view(variable, context, type, &view));
    if (type != UMBO_DTYPE_FLOAT32) return umbo_dtype_convert_to_float(type, count, view.data, numbers);
    memcpy(numbers, view.data, sizeof(float) * (size_t)count);
    return UMBO_OK;
}

struct rule_gradients {
    float weights[ELEMENTS], wide[WIDE], words[WORDS][LENGTH];
};

static void add_example(const float *x, const float *weights, float table[][LENGTH], float scale,
                        struct rule_gradients *sums) {
    const int word = word_of(x);
    const float error = error_of(weights, table[word], x) * scale;
    for (int at = 0; at < ELEMENTS; at++) sums->weights[at] += error * x[at % COLUMNS];
    for (int at = 0; at < WIDE; at++) sums->wide[at] += error * x[at + 1];
    for (int at = 0; at < LENGTH; at++) sums->words[word][at] += error * x[at];
}

static umbo_status submit_sums(struct rule_model *model, umbo_replica_context *context, int rule,
                               const struct rule_gradients *sums) {
    umbo_view view, indices;
    UMBO_TRY(umbo_gradients_view(model->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    UMBO_TRY(write_numbers(&view, ELEMENTS, sums->weights));
    UMBO_TRY(umbo_gradients_view(model->gradients, context, 1, UMBO_GRADIENT_OVERWRITE, &view));
    UMBO_TRY(write_numbers(&view, WIDE, sums->wide));
    if (!has_rows(rule)) {
        UMBO_TRY(umbo_gradients_view(model->gradients, context, 2, UMBO_GRADIENT_OVERWRITE, &view));
        UMBO_TRY(write_numbers(&view, WORDS * LENGTH, sums->words[0]));
        return umbo_gradients_submit(model->gradients, context);
    }
    for (int word = 0; word < WORDS; word++) {
        int named = 0;
        for (int at = 0; at < LENGTH; at++) named |= sums->words[word][at] != 0;
        if (!named) continue;
        UMBO_TRY(umbo_gradients_add_rows(model->gradients, context, 2, 1, &indices, &view));
        *(int64_t *)indices.mutable_data = word;
        UMBO_TRY(write_numbers(&view, LENGTH, sums->words[word]));
    }
    return umbo_gradients_submit(model->gradients, context);
}

static umbo_status learn_rule(struct rule_model *model, umbo_replica_context *context, int rule, const umbo_view *rows,
                              const float *noise) {
    struct rule_gradients sums;
    float weights[ELEMENTS], table[WORDS][LENGTH], scale = 1;
    umbo_optimizer_info info = UMBO_OPTIMIZER_INFO_INIT;
    const int64_t count = rows->shape[0];
    memset(&sums, 0, sizeof(sums));
    UMBO_TRY(umbo_optimizer_get_info(model->optimizer, &info));
    UMBO_TRY(read_weights(model->variables[0], context, type_of(rule), ELEMENTS, weights));
    UMBO_TRY(read_weights(model->variables[2], context, UMBO_DTYPE_FLOAT32, WORDS * LENGTH, table[0]));
    if (rule % 4 == 3 && count > 0) scale = 1 / (float)count; /* UMBO_LOSS_MEAN */
    scale *= (float)info.loss_scale;
    for (int64_t row = 0; row < count; row++) {
        float x[COLUMNS];
        for (int column = 0; column < COLUMNS; column++)
            x[column] = ((const float *)rows->data)[row * rows->strides[0] + column] * noise[row * COLUMNS + column];
        add_example(x, weights, table, scale, &sums);
    }
    return submit_sums(model, context, rule, &sums);
}

static umbo_status learn_rules(umbo_replica_context *context, const umbo_value *batch, void *user_data,
                               umbo_value **result) {
    struct rules *const rules = (struct rules *)user_data;
    umbo_random_key key = UMBO_RANDOM_KEY_INIT;
    float noise[BATCH * COLUMNS];
    umbo_view rows;
    (void)result;
    UMBO_TRY(umbo_value_view(batch, NULL, UMBO_DTYPE_FLOAT32, &rows));
    UMBO_TRY(umbo_replica_context_random_key(context, 7, 1, &key));
    UMBO_TRY(umbo_random_bernoulli(&key, 0.875, 8.0 / 7.0, rows.shape[0], COLUMNS, UMBO_DTYPE_FLOAT32, noise));
    for (int rule = 0; rule < RULES; rule++) {
        UMBO_TRY(learn_rule(&rules->models[rule], context, rule, &rows, noise));
        /* Of half of them the update is a part of the step. */
        if (rule % 2 == 0)
            UMBO_TRY(umbo_optimizer_apply(rules->models[rule].optimizer, rules->models[rule].gradients, NULL, NULL));
    }
    return UMBO_OK;
}

static void train_rules(struct rules *rules, int steps) {
    for (int step = 0; step < steps; step++) {
        umbo_value *batch = NULL;
        CHECK_OK(umbo_iterator_next(rules->iterator, &batch));
        if (batch == NULL) {
            CHECK_OK(umbo_iterator_reset(rules->iterator));
            CHECK_OK(umbo_iterator_next(rules->iterator, &batch));
        }
        CHECK_OK(umbo_strategy_run(rules->strategy, learn_rules, batch, rules, NULL, NULL));
        umbo_value_release(batch);
        for (int rule = 1; rule < RULES; rule += 2)
            CHECK_OK(umbo_optimizer_apply(rules->models[rule].optimizer, rules->models[rule].gradients, NULL, NULL));
    }
}

/* ---- the part */

struct rule_print {
    const struct rules *rules;
    int rule;
    struct sha256 *sha;
};

static umbo_status add_model(void *user_data) {
    const struct rule_print *const print = (const struct rule_print *)user_data;
    for (int at = 0; at < 3; at++) add_variable(print->sha, print->rules->models[print->rule].variables[at]);
    return UMBO_OK;
}

static void rules_until_saved(umbo_communicator *communicator, int replicas) {
    struct rules rules;
    make_rules(communicator, replicas, &rules);
    train_rules(&rules, STEPS / 2);
    CHECK_OK(umbo_checkpoint_save(rules.checkpoint, "rules.umbo"));
    release_rules(&rules);
}

static void rules_from_saved(umbo_communicator *communicator, int replicas, struct sha256 *sha) {
    struct rules rules;
    make_rules(communicator, replicas, &rules);
    CHECK_OK(umbo_checkpoint_restore(rules.checkpoint, "rules.umbo"));
    train_rules(&rules, STEPS - STEPS / 2);
    for (int rule = 0; rule < RULES; rule++) {
        struct rule_print print = {&rules, rule, sha};
        CHECK_OK(add_model(&print));
        if (rule % 5 == 1 || rule % 5 == 3)
            CHECK_OK(umbo_optimizer_with_average(rules.models[rule].optimizer, add_model, &print));
    }
    release_rules(&rules);
}

#endif

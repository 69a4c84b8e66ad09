/* Settings are read back: what was given is what is there, what was left out is the default of the
 * UMBO_..._INIT, and 0 is 0. */
#include "check.h"

static double setting(const umbo_optimizer *optimizer, const char *name) {
    double value = -12345;
    CHECK_OK(umbo_optimizer_setting(optimizer, NULL, name, &value));
    return value;
}

static void has_rule(const umbo_optimizer *optimizer, const char *expected) {
    double value = 0;
    CHECK(strcmp(optimizer_info_of(optimizer).rule, expected) == 0);
    CHECK_STATUS(umbo_optimizer_setting(optimizer, NULL, "no such setting", &value), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("learning_rate");
}

#define READS(rule, field) CHECK(setting(optimizer, #field) == given.field)

/* For one rule: NULL is INIT, fields that are left out have their default, zeros (where they are allowed: `zeros` sets
 * them) stay zeros, and other numbers (`others`) read back. */
#define RULE_TEST(name, INIT, zeros, others, reads)                                              \
    static void name##_reads_back(umbo_strategy *strategy) {                                     \
        const umbo_##name##_options init = INIT;                                                 \
        umbo_##name##_options given = init;                                                      \
        umbo_optimizer *optimizer = NULL;                                                        \
        int round;                                                                               \
        for (round = 0; round < 5; round++) {                                                    \
            const umbo_##name##_options *options = &given;                                       \
            given = init;                                                                        \
            if (round == 0) options = NULL;                                                      \
            if (round == 2) {                                                                    \
                zeros                                                                            \
            }                                                                                    \
            if (round == 3) {                                                                    \
                others                                                                           \
            }                                                                                    \
            if (round == 4) { /* an older program's: one field, and nothing behind it */         \
                others given.struct_size =                                                       \
                    UMBO_STRUCT_MARK + offsetof(umbo_##name##_options, learning_rate) + 8;       \
            }                                                                                    \
            CHECK_OK(umbo_optimizer_create_##name(strategy, options, &optimizer));               \
            if (round == 4) {                                                                    \
                const double rate = given.learning_rate;                                         \
                given = init;                                                                    \
                given.learning_rate = rate;                                                      \
            }                                                                                    \
            has_rule(optimizer, #name);                                                          \
            READS(name, learning_rate);                                                          \
            reads umbo_optimizer_release(optimizer);                                             \
        }                                                                                        \
    }

RULE_TEST(sgd, UMBO_SGD_OPTIONS_INIT, given.learning_rate = 0;, given.learning_rate = 0.5;, )
RULE_TEST(momentum, UMBO_MOMENTUM_OPTIONS_INIT, given.learning_rate = 0; given.momentum = 0;
          , given.learning_rate = 0.5; given.momentum = 0.25; given.nesterov = 1;
          , READS(momentum, momentum); READS(momentum, nesterov); READS(momentum, dampening);)
#define MOMENTS(name) READS(name, beta1); READS(name, beta2); READS(name, epsilon);
#define ZERO_MOMENTS given.learning_rate = 0; given.beta1 = 0; given.beta2 = 0;
#define OTHER_MOMENTS given.learning_rate = 0.5; given.beta1 = 0.25; given.beta2 = 0.75; given.epsilon = 0.125;
RULE_TEST(adam, UMBO_ADAM_OPTIONS_INIT, ZERO_MOMENTS, OTHER_MOMENTS given.amsgrad = 1;
          , MOMENTS(adam) READS(adam, amsgrad);)
RULE_TEST(adamw, UMBO_ADAMW_OPTIONS_INIT, ZERO_MOMENTS given.weight_decay = 0;
          , OTHER_MOMENTS given.weight_decay = 0.0625; given.amsgrad = 1;
          , MOMENTS(adamw) READS(adamw, weight_decay); READS(adamw, amsgrad);)
RULE_TEST(nadam, UMBO_NADAM_OPTIONS_INIT, ZERO_MOMENTS given.momentum_decay = 0;
          , OTHER_MOMENTS given.momentum_decay = 0.5; given.decoupled_weight_decay = 1;
          , MOMENTS(nadam) READS(nadam, momentum_decay); READS(nadam, decoupled_weight_decay);)
RULE_TEST(radam, UMBO_RADAM_OPTIONS_INIT, ZERO_MOMENTS
          , OTHER_MOMENTS given.decoupled_weight_decay = 1;
          , MOMENTS(radam) READS(radam, decoupled_weight_decay);)
RULE_TEST(lion, UMBO_LION_OPTIONS_INIT, given.learning_rate = 0; given.beta1 = 0; given.beta2 = 0;
          , given.learning_rate = 0.5; given.beta1 = 0.25; given.beta2 = 0.75; given.weight_decay = 0.0625;
          , READS(lion, beta1); READS(lion, beta2); READS(lion, weight_decay);)
RULE_TEST(lamb, UMBO_LAMB_OPTIONS_INIT, ZERO_MOMENTS given.weight_decay = 0;
          , OTHER_MOMENTS given.weight_decay = 0.0625;, MOMENTS(lamb) READS(lamb, weight_decay);)
RULE_TEST(lars, UMBO_LARS_OPTIONS_INIT, given.learning_rate = 0; given.momentum = 0;
          given.trust_coefficient = 0;
          , given.learning_rate = 0.5; given.momentum = 0.25; given.trust_coefficient = 0.75;
          given.weight_decay = 0.0625;
          , READS(lars, momentum); READS(lars, trust_coefficient); READS(lars, weight_decay);)
RULE_TEST(muon, UMBO_MUON_OPTIONS_INIT, given.learning_rate = 0; given.momentum = 0; given.nesterov = 0;
          given.weight_decay = 0;
          , given.learning_rate = 0.5; given.momentum = 0.25; given.nesterov = 0; given.weight_decay = 0.0625;
          given.epsilon = 0.125; given.match_adamw = 1;
          , READS(muon, momentum); READS(muon, nesterov); READS(muon, weight_decay); READS(muon, epsilon);
          READS(muon, match_adamw);)
RULE_TEST(adafactor, UMBO_ADAFACTOR_OPTIONS_INIT, given.learning_rate = 0; given.beta2_decay = 0; given.epsilon2 = 0;
          , given.learning_rate = 0.5; given.beta2_decay = -0.25; given.epsilon1 = 0.125; given.epsilon2 = 0.75;
          given.clip_threshold = 1.5; given.weight_decay = 0.0625;
          , READS(adafactor, beta2_decay); READS(adafactor, epsilon1); READS(adafactor, epsilon2);
          READS(adafactor, clip_threshold); READS(adafactor, weight_decay);)
RULE_TEST(adagrad, UMBO_ADAGRAD_OPTIONS_INIT, given.learning_rate = 0; given.initial_accumulator = 0;
          , given.learning_rate = 0.5; given.initial_accumulator = 0.25; given.epsilon = 0.125;
          given.learning_rate_decay = 0.75;
          , READS(adagrad, initial_accumulator); READS(adagrad, epsilon); READS(adagrad, learning_rate_decay);)
RULE_TEST(rmsprop, UMBO_RMSPROP_OPTIONS_INIT, given.learning_rate = 0; given.rho = 0; given.momentum = 0;
          , given.learning_rate = 0.5; given.rho = 0.25; given.momentum = 0.75; given.epsilon = 0.125;
          given.centered = 1;
          , READS(rmsprop, rho); READS(rmsprop, momentum); READS(rmsprop, epsilon);
          READS(rmsprop, centered);)
RULE_TEST(ftrl, UMBO_FTRL_OPTIONS_INIT, given.l1 = 0; given.l2 = 0; given.initial_accumulator = 0;
          , given.learning_rate = 0.5; given.beta = 0.25; given.l1 = 0.125; given.l2 = 0.0625;
          given.initial_accumulator = 0.75;
          , READS(ftrl, beta); READS(ftrl, l1); READS(ftrl, l2); READS(ftrl, initial_accumulator);)

static int same_settings(const umbo_optimizer_options *a, const umbo_optimizer_options *b) {
    return a->weight_decay == b->weight_decay && a->global_clip_norm == b->global_clip_norm &&
           a->clip_value == b->clip_value && a->non_finite == b->non_finite &&
           a->loss_scaling == b->loss_scaling && a->loss_scale == b->loss_scale &&
           a->loss_scale_growth_factor == b->loss_scale_growth_factor &&
           a->loss_scale_backoff_factor == b->loss_scale_backoff_factor &&
           a->loss_scale_minimum == b->loss_scale_minimum &&
           a->loss_scale_growth_interval == b->loss_scale_growth_interval && a->maximize == b->maximize &&
           a->average == b->average && a->average_decay == b->average_decay &&
           a->average_start == b->average_start && a->average_interval == b->average_interval &&
           a->average_warmup == b->average_warmup && a->state_bits == b->state_bits &&
           a->stochastic_rounding == b->stochastic_rounding && a->rounding_seed == b->rounding_seed;
}

static umbo_optimizer_options settings_of(const umbo_optimizer *optimizer) {
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    options.weight_decay = setting(optimizer, "weight_decay");
    options.global_clip_norm = setting(optimizer, "global_clip_norm");
    options.clip_value = setting(optimizer, "clip_value");
    options.non_finite = UMBO_ENUM_VALUE(umbo_non_finite, setting(optimizer, "non_finite"));
    options.loss_scaling = UMBO_ENUM_VALUE(umbo_loss_scaling, setting(optimizer, "loss_scaling"));
    options.loss_scale = setting(optimizer, "loss_scale");
    options.loss_scale_growth_factor = setting(optimizer, "loss_scale_growth_factor");
    options.loss_scale_backoff_factor = setting(optimizer, "loss_scale_backoff_factor");
    options.loss_scale_minimum = setting(optimizer, "loss_scale_minimum");
    options.loss_scale_growth_interval = (int64_t)setting(optimizer, "loss_scale_growth_interval");
    options.maximize = (int32_t)setting(optimizer, "maximize");
    options.average = UMBO_ENUM_VALUE(umbo_average, setting(optimizer, "average"));
    options.average_decay = setting(optimizer, "average_decay");
    options.average_start = (int64_t)setting(optimizer, "average_start");
    options.average_interval = (int64_t)setting(optimizer, "average_interval");
    options.average_warmup = (int32_t)setting(optimizer, "average_warmup");
    options.state_bits = (int64_t)setting(optimizer, "state_bits");
    options.stochastic_rounding = (int32_t)setting(optimizer, "stochastic_rounding");
    options.rounding_seed = (uint64_t)setting(optimizer, "rounding_seed");
    return options;
}

static void settings(umbo_strategy *strategy) {
    umbo_optimizer_options given = UMBO_OPTIMIZER_OPTIONS_INIT, expected = given, found;
    umbo_optimizer *optimizer = NULL;
    CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &optimizer));
    expected.weight_decay = 0.01;
    expected.non_finite = UMBO_NON_FINITE_IGNORE;
    found = settings_of(optimizer);
    CHECK(same_settings(&found, &expected));
    CHECK_OK(umbo_optimizer_configure(optimizer, &given));
    found = settings_of(optimizer);
    CHECK(same_settings(&found, &expected));
    CHECK_OK(umbo_optimizer_configure(optimizer, NULL));
    found = settings_of(optimizer);
    CHECK(same_settings(&found, &expected));
    /* What is read can be given back. */
    CHECK_OK(umbo_optimizer_configure(optimizer, &found));
    found = settings_of(optimizer);
    CHECK(same_settings(&found, &expected));

    given.weight_decay = 0;
    given.global_clip_norm = 3;
    CHECK_OK(umbo_optimizer_configure(optimizer, &given));
    found = settings_of(optimizer);
    CHECK(found.weight_decay == 0 && found.global_clip_norm == 3);
    CHECK(found.non_finite == UMBO_NON_FINITE_FAIL && found.clip_value == UMBO_INFINITE);

    given.weight_decay = 0.5;
    given.clip_value = 7;
    given.non_finite = UMBO_NON_FINITE_SKIP;
    given.loss_scaling = UMBO_LOSS_SCALING_DYNAMIC;
    given.loss_scale = 32;
    given.loss_scale_growth_factor = 4;
    given.loss_scale_backoff_factor = 0.25;
    given.loss_scale_minimum = 2;
    given.loss_scale_growth_interval = 9;
    given.maximize = 1;
    given.average = UMBO_AVERAGE_EXPONENTIAL;
    given.average_decay = 0.75;
    given.average_start = 3;
    given.average_interval = 5;
    given.average_warmup = 1;
    given.state_bits = 8;
    CHECK_OK(umbo_optimizer_configure(optimizer, &given));
    found = settings_of(optimizer);
    CHECK(same_settings(&found, &given));

    given.loss_scaling = UMBO_LOSS_SCALING_FIXED;
    CHECK_OK(umbo_optimizer_configure(optimizer, &given));
    found = settings_of(optimizer);
    CHECK(found.loss_scaling == UMBO_LOSS_SCALING_FIXED && found.loss_scale == 32);

    given.average = UMBO_AVERAGE_NONE;
    given.stochastic_rounding = 1;
    given.rounding_seed = 77;
    CHECK_OK(umbo_optimizer_configure(optimizer, &given));
    found = settings_of(optimizer);
    CHECK(found.stochastic_rounding == 1 && found.rounding_seed == 77);

    /* An older program's struct ends early. */
    given.struct_size = UMBO_STRUCT_MARK + offsetof(umbo_optimizer_options, clip_value);
    CHECK_OK(umbo_optimizer_configure(optimizer, &given));
    found = settings_of(optimizer);
    CHECK(found.weight_decay == 0.5 && found.global_clip_norm == 3);
    CHECK(found.clip_value == UMBO_INFINITE && found.loss_scaling == UMBO_LOSS_SCALING_NONE);
    umbo_optimizer_release(optimizer);
}

static umbo_group_options treatment(const umbo_optimizer *optimizer, const umbo_variable *variable) {
    umbo_group_options options = UMBO_GROUP_OPTIONS_INIT;
    double frozen = -1;
    CHECK_OK(umbo_optimizer_setting(optimizer, variable, "learning_rate_factor", &options.learning_rate_factor));
    CHECK_OK(umbo_optimizer_setting(optimizer, variable, "weight_decay", &options.weight_decay));
    CHECK_OK(umbo_optimizer_setting(optimizer, variable, "frozen", &frozen));
    options.frozen = (int32_t)frozen;
    CHECK_STATUS(umbo_optimizer_setting(optimizer, variable, "clip_value", &frozen), UMBO_STATUS_NOT_FOUND);
    CHECK_MESSAGE("learning_rate_factor, weight_decay, frozen");
    return options;
}

static void groups(umbo_strategy *strategy) {
    umbo_strategy *other = make_strategy(1);
    umbo_variable *variables[4], *foreign = make_variable(other, 1, UMBO_AGGREGATION_NONE);
    umbo_group_options given = UMBO_GROUP_OPTIONS_INIT, found;
    umbo_optimizer *optimizer = NULL;
    double number = 0;
    int index;
    for (index = 0; index < 4; index++) variables[index] = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    CHECK_OK(umbo_optimizer_create_adamw(strategy, NULL, &optimizer));
    CHECK_OK(umbo_optimizer_add_group(optimizer, 1, &variables[0], NULL));
    CHECK_OK(umbo_optimizer_add_group(optimizer, 1, &variables[1], &given));
    for (index = 0; index < 4; index++) { /* 2 and 3 are in no group */
        found = treatment(optimizer, variables[index]);
        CHECK(found.learning_rate_factor == 1 && found.weight_decay == 0.01 && found.frozen == 0);
    }
    given.learning_rate_factor = 0;
    given.weight_decay = 0;
    CHECK_OK(umbo_optimizer_add_group(optimizer, 1, &variables[2], &given));
    found = treatment(optimizer, variables[2]);
    CHECK(found.learning_rate_factor == 0 && found.weight_decay == 0 && found.frozen == 0);
    given.learning_rate_factor = 3;
    given.weight_decay = 0.75;
    given.frozen = 1;
    CHECK_OK(umbo_optimizer_add_group(optimizer, 1, &variables[3], &given));
    found = treatment(optimizer, variables[3]);
    CHECK(found.learning_rate_factor == 3 && found.weight_decay == 0.75 && found.frozen == 1);
    CHECK_STATUS(umbo_optimizer_setting(optimizer, foreign, "frozen", &number), UMBO_STATUS_INVALID_ARGUMENT);
    umbo_optimizer_release(optimizer);
    for (index = 0; index < 4; index++) umbo_variable_release(variables[index]);
    umbo_variable_release(foreign);
    umbo_strategy_release(other);
}

static void strategies(void) {
    umbo_strategy_options given = UMBO_STRATEGY_OPTIONS_INIT;
    const umbo_strategy_options *choices[2] = {NULL, &given};
    size_t bytes[2] = {0, 0};
    umbo_strategy_info info;
    umbo_strategy *strategy = NULL;
    int choice;
    for (choice = 0; choice < 2; choice++) {
        CHECK_OK(umbo_strategy_create(choices[choice], &strategy));
        info = info_of(strategy);
        bytes[choice] = info.thread_stack_bytes;
        CHECK(info.struct_size == UMBO_STRUCT_SIZE(info) && info.strict == 0 && info.bind_threads == 1);
        CHECK(info.replica_count == 1 && info.local_replica_count == 1 && info.compute_device_count == 1);
        CHECK(info.rank == 0 && info.rank_count == 1 && info.variable_count == 0 && info.late_replica_count == 0);
        CHECK(strstr(info.parameter_device, "CPU:0") != NULL);
        umbo_strategy_release(strategy);
    }
    CHECK(bytes[0] == bytes[1] && bytes[0] >= (size_t)2 << 20);
    given.cpu_replicas = 2;
    given.parameter_device = "CPU:1";
    given.bind_threads = 0;
    given.thread_stack_bytes = (size_t)3 << 20;
    given.replicas_in_sync = 5;
    given.strict = 1;
    CHECK_OK(umbo_strategy_create(&given, &strategy));
    info = info_of(strategy);
    CHECK(info.strict == 1 && info.thread_stack_bytes == (size_t)3 << 20);
    CHECK(info.bind_threads == 0 && strstr(info.parameter_device, "CPU:1") != NULL);
    CHECK(info.replica_count == 5 && info.local_replica_count == 5 && info.compute_device_count == 2);
    umbo_strategy_release(strategy);
}

static void variables(umbo_strategy *strategy) {
    umbo_variable_options given = UMBO_VARIABLE_OPTIONS_INIT;
    const umbo_variable_options *choices[2] = {NULL, &given};
    umbo_tensor *initial = make_float(1);
    umbo_variable *variable = NULL;
    int choice;
    for (choice = 0; choice < 3; choice++) {
        const umbo_variable_options *options = &given;
        umbo_variable_info info;
        if (choice < 2) options = choices[choice];
        if (choice == 2) {
            given.trainable = 0;
            given.aggregation = UMBO_AGGREGATION_MEAN;
        }
        CHECK_OK(umbo_variable_create(strategy, "v", initial, options, &variable));
        info = facts_of(variable);
        CHECK(info.trainable == (choice < 2));
        CHECK(info.aggregation == (choice < 2 ? UMBO_AGGREGATION_NONE : UMBO_AGGREGATION_MEAN));
        umbo_variable_release(variable);
    }
    umbo_tensor_release(initial);
}

static void gradients(umbo_strategy *strategy) {
    const int64_t shape[2] = {3, 2};
    const float zeros[6] = {0};
    const int32_t row_sparse[2] = {0, 1};
    umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT32, 2, shape, zeros);
    umbo_gradients_options given = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_variable *made[2] = {NULL, NULL}, *found = NULL;
    umbo_gradients *own = NULL;
    umbo_gradients_info info = UMBO_GRADIENTS_INFO_INIT;
    int index, choice;
    for (index = 0; index < 2; index++)
        CHECK_OK(umbo_variable_create(strategy, index == 0 ? "a" : "b", initial, NULL, &made[index]));
    for (choice = 0; choice < 2; choice++) {
        const umbo_gradients_options *const options = choice == 0 ? NULL : &given;
        if (choice == 1) {
            given.accumulation_steps = 5;
            given.row_sparse = row_sparse;
            given.dtype = UMBO_DTYPE_BFLOAT16;
        }
        CHECK_OK(umbo_gradients_create(strategy, 2, made, UMBO_LOSS_SUM, options, &own));
        CHECK_OK(umbo_gradients_get_info(own, UMBO_NONE, &info));
        CHECK(info.struct_size == UMBO_STRUCT_SIZE(info) && info.variable_count == 2);
        CHECK(info.dtype == UMBO_DTYPE_NONE && info.row_sparse == 0);
        CHECK(info.loss_reduction == UMBO_LOSS_SUM && info.accumulation_steps == (choice == 0 ? 1 : 5));
        for (index = 0; index < 2; index++) {
            CHECK_OK(umbo_gradients_variable(own, index, &found));
            CHECK(strcmp(facts_of(found).name, index == 0 ? "a" : "b") == 0);
            umbo_variable_release(found);
            CHECK_OK(umbo_gradients_get_info(own, index, &info));
            CHECK(info.row_sparse == (choice == 1 && index == 1) && info.variable_count == 2);
            CHECK(info.dtype == (choice == 0 ? UMBO_DTYPE_FLOAT32 : UMBO_DTYPE_BFLOAT16));
        }
        CHECK_STATUS(umbo_gradients_variable(own, 2, &found), UMBO_STATUS_OUT_OF_RANGE);
        CHECK_STATUS(umbo_gradients_get_info(own, 2, &info), UMBO_STATUS_OUT_OF_RANGE);
        CHECK_STATUS(umbo_gradients_get_info(own, -2, &info), UMBO_STATUS_OUT_OF_RANGE);
        umbo_gradients_release(own);
    }
    umbo_tensor_release(initial);
    for (index = 0; index < 2; index++) umbo_variable_release(made[index]);
}

static umbo_status give_two(umbo_replica_context *ctx, const umbo_value *args, void *user_data,
                            umbo_value **result) {
    umbo_gradients *own = (umbo_gradients *)user_data;
    umbo_view view;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(own, ctx, 0, UMBO_GRADIENT_OVERWRITE, &view));
    *(float *)view.mutable_data = 2;
    return umbo_gradients_submit_weighted(own, ctx, 1);
}

/* A weight of 1 after two updates with the gradient 2; gives the optimizer up. */
static double after_two_updates(umbo_strategy *strategy, umbo_optimizer *optimizer) {
    umbo_variable *variable = make_variable(strategy, 1, UMBO_AGGREGATION_NONE);
    umbo_gradients *own = make_mean_gradients(strategy, variable, 0);
    umbo_tensor *value = NULL;
    umbo_view view;
    double weight;
    int update;
    for (update = 0; update < 2; update++) {
        CHECK_OK(umbo_strategy_run(strategy, give_two, NULL, own, NULL, NULL));
        CHECK_OK(umbo_optimizer_apply(optimizer, own, NULL, NULL));
    }
    CHECK_OK(umbo_variable_read(variable, &value));
    CHECK_OK(umbo_tensor_view(value, &view));
    weight = *(const float *)view.data;
    umbo_tensor_release(value);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(own);
    umbo_variable_release(variable);
    return weight;
}

/* 0 is no word for "default": it does what 0 does. */
static void zeros_do_nothing(umbo_strategy *strategy) {
    umbo_adamw_options adamw = UMBO_ADAMW_OPTIONS_INIT;
    umbo_adam_options adam = UMBO_ADAM_OPTIONS_INIT;
    umbo_momentum_options momentum = UMBO_MOMENTUM_OPTIONS_INIT;
    umbo_sgd_options sgd = UMBO_SGD_OPTIONS_INIT;
    umbo_optimizer *one = NULL, *two = NULL;
    adamw.weight_decay = 0;
    CHECK_OK(umbo_optimizer_create_adamw(strategy, &adamw, &one));
    CHECK_OK(umbo_optimizer_create_adam(strategy, &adam, &two));
    CHECK(after_two_updates(strategy, one) == after_two_updates(strategy, two));
    momentum.momentum = 0;
    CHECK_OK(umbo_optimizer_create_momentum(strategy, &momentum, &one));
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd, &two));
    CHECK(after_two_updates(strategy, one) == after_two_updates(strategy, two));
    sgd.learning_rate = 0;
    momentum.learning_rate = 0;
    adamw.learning_rate = 0;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, &sgd, &one));
    CHECK(after_two_updates(strategy, one) == 1);
    CHECK_OK(umbo_optimizer_create_momentum(strategy, &momentum, &one));
    CHECK(after_two_updates(strategy, one) == 1);
    CHECK_OK(umbo_optimizer_create_adamw(strategy, &adamw, &one));
    CHECK(after_two_updates(strategy, one) == 1);
}

int main(void) {
    umbo_strategy *strategy = make_strategy(2);
    sgd_reads_back(strategy);
    momentum_reads_back(strategy);
    adam_reads_back(strategy);
    adamw_reads_back(strategy);
    nadam_reads_back(strategy);
    radam_reads_back(strategy);
    lion_reads_back(strategy);
    lamb_reads_back(strategy);
    lars_reads_back(strategy);
    adafactor_reads_back(strategy);
    muon_reads_back(strategy);
    adagrad_reads_back(strategy);
    rmsprop_reads_back(strategy);
    ftrl_reads_back(strategy);
    settings(strategy);
    groups(strategy);
    strategies();
    variables(strategy);
    gradients(strategy);
    zeros_do_nothing(strategy);
    umbo_strategy_release(strategy);
    return finish();
}

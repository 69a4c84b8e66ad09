/* A training in which random numbers, masks of padded batches, metrics by name with weights, flat arrays of weights and
 * weights in memory meet: the same for any number of ranks that share its replicas, and any place of the variables. */
#ifndef UMBO_TESTS_CROSSINGS_H
#define UMBO_TESTS_CROSSINGS_H

#include <umbo/io.h>

#include "../c/check.h"

enum { REPLICAS = 4, LONGEST = 7, EXAMPLES = 21, BATCH = 8, EPOCHS = 2, FLAT = LONGEST + 3, MOST_BYTES = 1 << 16, CROSSING_RANKS = 4 };

/* What a rank has seen, all of which is the same on each. */
struct crossing {
    float flat[EPOCHS][FLAT];   /* after each epoch */
    float halved[FLAT];         /* once an array of half of them was uploaded */
    float loaded[FLAT];         /* once the weights of the first epoch were loaded from memory */
    double kept[EPOCHS][2];     /* the mean of the steps: what the masks keep */
    double error[EPOCHS][2];    /* the squared error, with the mask as weights */
    uint64_t fingerprint;
};

struct crossings {
    struct crossing of_rank[CROSSING_RANKS];
    /* Weights after the first epoch, as one process has saved them. */
    unsigned char weights[MOST_BYTES];
    size_t length;
};

struct crossing_model {
    umbo_gradients *gradients;
    umbo_metrics *metrics;
};

/* ---- elements of different lengths */

static umbo_status begin_pass(void *user_data, void **pass) {
    (void)user_data;
    *pass = calloc(1, sizeof(int));
    return *pass == NULL ? UMBO_STATUS_RESOURCE_EXHAUSTED : UMBO_OK;
}

static void end_pass(void *pass, void *user_data) {
    (void)user_data;
    free(pass);
}

static umbo_status next_row(void *pass, void *user_data, umbo_value **element) {
    int *at = (int *)pass;
    float numbers[LONGEST];
    const int64_t size = 1 + *at * 5 % LONGEST;
    int64_t column;
    (void)user_data;
    if (*at == EXAMPLES) return UMBO_OK;
    for (column = 0; column < size; column++) numbers[column] = (float)(*at % 5) + 0.25f * (float)column;
    ++*at;
    return umbo_value_from_data(UMBO_DTYPE_FLOAT32, 1, &size, numbers, NULL, element);
}

static umbo_dataset *masked_batches(void) {
    const int64_t any = UMBO_SIZE_UNKNOWN;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    umbo_padding_options padding = UMBO_PADDING_OPTIONS_INIT;
    umbo_element_spec *spec = NULL;
    umbo_dataset *rows = NULL;
    umbo_value *number = float_value(-100);
    generator.begin = begin_pass;
    generator.next = next_row;
    generator.end = end_pass;
    padding.padding = number;
    padding.mask = 1;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 1, &any, &spec));
    CHECK_OK(umbo_dataset_from_generator(spec, &generator, NULL, NULL, &rows));
    CHECK_OK(umbo_dataset_padded_batch(&rows, BATCH, 0, &padding));
    umbo_element_spec_release(spec);
    umbo_value_release(number);
    return rows;
}

/* ---- the step */

/* The first column of a matrix. */
static umbo_view first_column(umbo_view matrix) {
    matrix.shape[1] = 1;
    return matrix;
}

static umbo_status crossing_step(umbo_replica_context *context, const umbo_value *batch, void *user_data,
                                 umbo_value **result) {
    const struct crossing_model *model = (const struct crossing_model *)user_data;
    umbo_random_key key = UMBO_RANDOM_KEY_INIT;
    umbo_value *items[2] = {NULL, NULL};
    umbo_view rows, mask, weight, bias, predicted, kept;
    float noise[BATCH * LONGEST];
    double sum = 0;
    int64_t at, column;
    (void)result;
    UMBO_TRY(umbo_value_item(batch, 0, &items[0]));
    UMBO_TRY(umbo_value_item(batch, 1, &items[1]));
    UMBO_TRY(umbo_value_view(items[0], NULL, UMBO_DTYPE_FLOAT32, &rows));
    UMBO_TRY(umbo_value_view(items[1], NULL, UMBO_DTYPE_BOOL, &mask));
    UMBO_TRY(umbo_replica_context_random_key(context, 7, 1, &key));
    UMBO_TRY(umbo_random_uniform(&key, rows.shape[0], LONGEST, UMBO_DTYPE_FLOAT32, noise));
    UMBO_TRY(umbo_gradients_view(model->gradients, context, 0, UMBO_GRADIENT_ADD, &weight));
    UMBO_TRY(umbo_gradients_view(model->gradients, context, 1, UMBO_GRADIENT_ADD, &bias));
    for (at = 0; at < rows.shape[0]; at++) {
        for (column = 0; column < rows.shape[1]; column++) {
            const float number = ((const float *)rows.data)[at * rows.strides[0] + column * rows.strides[1]];
            const int is_there = ((const uint8_t *)mask.data)[at * mask.strides[0] + column * mask.strides[1]];
            CHECK(is_there == (number != -100));
            if (!is_there) continue;
            sum += 1;
            ((float *)weight.mutable_data)[column] += number * noise[at * LONGEST + column];
            ((float *)bias.mutable_data)[column % 3] += number;
        }
    }
    predicted = first_column(rows);
    kept = first_column(mask);
    rows.data = noise;
    rows.strides[0] = LONGEST;
    rows.strides[1] = 1;
    rows = first_column(rows);
    if (rows.shape[0] > 0)
        UMBO_TRY(umbo_metrics_add_labels(model->metrics, context, "error", &predicted, &rows, &kept));
    UMBO_TRY(umbo_replica_context_add_metric(context, "kept", sum, (double)rows.shape[0]));
    return umbo_gradients_submit(model->gradients, context);
}

/* ---- the training */

static void load_and_compare(umbo_strategy *strategy, umbo_variable *const *variables, int is_alone, int epoch,
                             struct crossings *shared, struct crossing *seen) {
    umbo_checkpoint *checkpoint = NULL;
    CHECK_OK(umbo_checkpoint_create(strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, NULL, variables[0]));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, NULL, variables[1]));
    if (epoch == 0 && is_alone && shared->length == 0)
        CHECK_OK(umbo_checkpoint_save_weights_to_memory(checkpoint, NULL, shared->weights, MOST_BYTES, &shared->length));
    if (epoch == EPOCHS - 1) {
        CHECK_OK(umbo_checkpoint_load_weights_from_memory(checkpoint, shared->weights, shared->length, NULL));
        CHECK_OK(umbo_variable_download_flat(2, variables, seen->loaded, sizeof(seen->loaded)));
    }
    umbo_checkpoint_release(checkpoint);
}

static CHECK_MAYBE_UNUSED void cross(umbo_communicator *communicator, int rank, int64_t replicas,
                                     const char *parameter_device, struct crossings *shared) {
    static const int64_t shapes[2] = {LONGEST, 3};
    struct crossing *seen = &shared->of_rank[rank];
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_train_epoch_options pass = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    umbo_variable *variables[2] = {NULL, NULL};
    struct crossing_model model = {NULL, NULL};
    umbo_optimizer *optimizer = NULL;
    umbo_dataset *batches = masked_batches();
    umbo_iterator *iterator = NULL;
    int epoch, at;
    options.cpu_replicas = replicas;
    options.communicator = communicator;
    options.parameter_device = parameter_device;
    options.bind_threads = 0;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    for (at = 0; at < 2; at++)
        CHECK_OK(umbo_variable_create_drawn(strategy, at == 0 ? "w" : "b", UMBO_DTYPE_FLOAT32, 1, &shapes[at],
                                            UMBO_INITIAL_NORMAL, 3, &variables[at]));
    CHECK_OK(umbo_gradients_create(strategy, 2, variables, UMBO_LOSS_SUM, NULL, &model.gradients));
    CHECK_OK(umbo_optimizer_create_adam(strategy, NULL, &optimizer));
    CHECK_OK(umbo_metrics_create(strategy, &model.metrics));
    CHECK_OK(umbo_metrics_define(model.metrics, "error", UMBO_METRIC_SQUARED_ERROR, NULL));
    CHECK_OK(umbo_strategy_iterate(strategy, batches, NULL, &iterator));
    umbo_dataset_release(batches);
    pass.metrics = model.metrics;
    for (epoch = 0; epoch < EPOCHS; epoch++) {
        umbo_metric_result kept = UMBO_METRIC_RESULT_INIT, error = UMBO_METRIC_RESULT_INIT;
        float half[FLAT];
        CHECK_OK(umbo_train_epoch(strategy, iterator, optimizer, model.gradients, crossing_step, &model, &pass, NULL));
        CHECK_OK(umbo_strategy_metric_result(strategy, "kept", &kept));
        CHECK_OK(umbo_metrics_result(model.metrics, "error", &error));
        seen->kept[epoch][0] = kept.sum, seen->kept[epoch][1] = kept.weight;
        seen->error[epoch][0] = error.sum, seen->error[epoch][1] = error.weight;
        CHECK_OK(umbo_variable_download_flat(2, variables, seen->flat[epoch], sizeof(seen->flat[epoch])));
        load_and_compare(strategy, variables, communicator == NULL || replicas == REPLICAS, epoch, shared, seen);
        if (epoch != 0) continue;
        for (at = 0; at < FLAT; at++) half[at] = 0.5f * seen->flat[0][at];
        CHECK_OK(umbo_variable_upload_flat(2, variables, half, sizeof(half)));
        CHECK_OK(umbo_variable_download_flat(2, variables, seen->halved, sizeof(seen->halved)));
        CHECK(memcmp(half, seen->halved, sizeof(half)) == 0);
    }
    CHECK(memcmp(seen->loaded, seen->flat[0], sizeof(seen->loaded)) == 0);
    CHECK_OK(umbo_strategy_fingerprint(strategy, &seen->fingerprint));
    umbo_iterator_release(iterator);
    umbo_metrics_release(model.metrics);
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(model.gradients);
    umbo_variable_release(variables[0]);
    umbo_variable_release(variables[1]);
    umbo_strategy_release(strategy);
}

#endif

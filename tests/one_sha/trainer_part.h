/* A trainer of an array and of a table of which each call asks for rows, and its losses. */
#ifndef UMBO_TESTS_ONE_SHA_TRAINER_PART_H
#define UMBO_TESTS_ONE_SHA_TRAINER_PART_H

#include <umbo/trainer.h>

#include "parts.h"

enum { TRAINED = 40, TRAINED_ROWS = 7, TRAINED_LENGTH = 2, DATA = 90, TRAINER_BATCH = 40 };

struct trained {
    float weights[TRAINED], table[TRAINED_ROWS * TRAINED_LENGTH];
    umbo_trainer *trainer;
};

static umbo_status learn_trained(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                                 double *loss) {
    (void)user_data;
    for (int64_t i = 0; i < rows->count; i++) {
        const int64_t row = rows->indices[i], word = row * 5 % TRAINED_ROWS;
        float error = number_of(row, TRAINED), *place = NULL;
        for (int at = 0; at < TRAINED; at++) error += weights[at] * number_of(row, at) * 0.03125f;
        error += rows->weights[1][word * TRAINED_LENGTH];
        *loss += (double)error * (double)error / 2;
        if (gradient == NULL) continue;
        for (int at = 0; at < TRAINED; at++) gradient[at] += error * number_of(row, at) * 0.03125f;
        UMBO_TRY(umbo_rows_gradient_row(rows, 1, word, &place));
        place[0] += error;
        place[1] += error * 0.3f;
    }
    return UMBO_OK;
}

static void make_trained(umbo_communicator *communicator, int replicas, struct trained *trained) {
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[2];
    memset(trained, 0, sizeof(*trained));
    memset(parameters, 0, sizeof(parameters));
    for (int at = 0; at < TRAINED; at++) trained->weights[at] = number_of(at, -1) * 0.125f;
    parameters[0].weights = trained->weights, parameters[0].count = TRAINED;
    parameters[1].weights = trained->table, parameters[1].count = TRAINED_ROWS * TRAINED_LENGTH;
    parameters[1].row_length = TRAINED_LENGTH;
    parameters[1].learning_rate_factor = 2;
    parameters[1].no_weight_decay = 1;
    options.rule = "adamw";
    options.learning_rate = 0.03;
    options.schedule = "cosine";
    options.warmup_updates = 2;
    options.schedule_updates = 8;
    options.weight_decay = 0.05;
    options.global_clip_norm = 0.8;
    options.average_decay = 0.75;
    options.replicas = replicas;
    options.replicas_in_sync = IN_SYNC;
    options.communicator = communicator;
    options.seed = 3;
    CHECK_OK(umbo_trainer_create_with_arrays(2, parameters, &options, &trained->trainer));
}

static void trainer_until_saved(umbo_communicator *communicator, int replicas) {
    struct trained trained;
    make_trained(communicator, replicas, &trained);
    CHECK_OK(umbo_trainer_epoch(trained.trainer, DATA, TRAINER_BATCH, learn_trained, NULL, NULL));
    CHECK_OK(umbo_trainer_step(trained.trainer, 11, 30, learn_trained, NULL, NULL));
    CHECK_OK(umbo_trainer_save(trained.trainer, "trainer.umbo"));
    umbo_trainer_release(trained.trainer);
}

static void trainer_from_saved(umbo_communicator *communicator, int replicas, struct sha256 *sha) {
    struct trained trained;
    double losses[2];
    make_trained(communicator, replicas, &trained);
    CHECK_OK(umbo_trainer_restore(trained.trainer, "trainer.umbo"));
    CHECK_OK(umbo_trainer_epoch(trained.trainer, DATA, TRAINER_BATCH, learn_trained, NULL, &losses[0]));
    CHECK_OK(umbo_trainer_evaluate(trained.trainer, DATA, TRAINER_BATCH, learn_trained, NULL, &losses[1]));
    umbo_trainer_release(trained.trainer);
    sha256_add(sha, trained.weights, sizeof(trained.weights));
    sha256_add(sha, trained.table, sizeof(trained.table));
    sha256_add(sha, losses, sizeof(losses));
}

#endif

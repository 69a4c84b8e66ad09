/* A trainer: rows of a table and a large array, steps, epochs, evaluations, a file. */

#include "faults.h"

enum { WORDS = 40, ALL_ROWS = 60 };

static float table[WORDS * WIDTH], large[LARGE];

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                         double *loss) {
    (void)user_data;
    for (int64_t i = 0; i < rows->count; ++i) {
        const int64_t row = rows->indices[i];
        float *word = NULL;
        *loss += weights[row];
        if (gradient == NULL) continue;
        gradient[row * 3] += 1 + weights[row];
        for (int k = 0; k < 3; ++k) {
            UMBO_TRY(umbo_rows_gradient_row(rows, 1, (row * 7 + k) % WORDS, &word));
            word[k] += (float)row;
        }
    }
    return UMBO_OK;
}

void trainer(void) {
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[2];
    double loss = 0;
    int step;
    memset(parameters, 0, sizeof(parameters));
    memset(table, 0, sizeof(table));
    memset(large, 0, sizeof(large));
    parameters[0].weights = large;
    parameters[0].count = LARGE;
    parameters[1].weights = table;
    parameters[1].count = WORDS * WIDTH;
    parameters[1].row_length = WIDTH;
    options.rule = "adam";
    options.replicas = REPLICAS;
    options.accumulation_steps = 2;
    options.global_clip_norm = 1;
    CALL(umbo_trainer_create_with_arrays(2, parameters, &options, &all.trainer));
    CALL(umbo_trainer_variable(all.trainer, 0, &all.variables[0]));
    CALL(umbo_trainer_variable(all.trainer, 1, &all.variables[1]));
    for (step = 0; step < 3; step++) CALL(umbo_trainer_step(all.trainer, 5 * step, 9, learn, NULL, &loss));
    /* An epoch of one batch, since one of several is not undone as a whole. */
    CALL(umbo_trainer_epoch(all.trainer, ALL_ROWS, ALL_ROWS, learn, NULL, &loss));
    CALL(umbo_trainer_evaluate(all.trainer, ALL_ROWS, 20, learn, NULL, &loss));
    CALL(umbo_trainer_save(all.trainer, "faults_trainer.umbo"));
    CALL(umbo_trainer_step(all.trainer, 0, 20, learn, NULL, &loss));
    CALL(umbo_trainer_restore(all.trainer, "faults_trainer.umbo"));
    CALL(umbo_trainer_step(all.trainer, 20, 20, learn, NULL, &loss));
}

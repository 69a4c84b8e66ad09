/* Trainers of ranks that are not given the same: all ranks are told, and none waits in vain or trains on. */
#include "ranks.h"

#include "../c/check.h"

enum { ROWS = 20, RANKS = 3 };

enum {
    SEED, SHUFFLE, ROW_COUNT, BATCH_SIZE, FIRST_ROW, STEP_ROWS, RATE, RATE_LATER, RULE, REDUCTION, CLIP, DECAY, SCHEDULE,
    STEPS_OR_EPOCHS, EVALUATES, ROW_LENGTH, FROZEN, GRADIENT_DTYPE, ACCUMULATION, COUNT, NAME, WEIGHTS, ARRAYS, KINDS
};

static const char *const kinds[KINDS] = {
    "seed", "shuffle", "row_count", "batch_size", "first_row", "rows of a step", "learning_rate", "a learning rate set later",
    "rule", "loss_reduction", "global_clip_norm", "weight_decay", "schedule", "a step or an epoch", "an evaluation or an epoch",
    "row_length", "frozen", "gradient_dtype", "accumulation_steps", "count", "name", "weights", "arrays"};

struct seen {
    int kind;
    umbo_status status[RANKS];
    float weights[RANKS][4];
    char message[RANKS][1000];
};

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
    (void)user_data;
    for (int64_t i = 0; i < rows->count; ++i) {
        const float error = weights[0] + weights[1] * (float)rows->indices[i] - 3;
        float *to = gradient;
        *loss += (double)(error * error) / 2;
        if (!rows->training) continue;
        if (rows->half_gradients != NULL) continue;
        if (to == NULL) UMBO_TRY(umbo_rows_gradient_row(rows, 0, 0, &to));
        to[0] += error;
    }
    return UMBO_OK;
}

static umbo_status train(umbo_trainer *trainer, int kind, int differs) {
    const int64_t rows = kind == ROW_COUNT ? ROWS - differs : ROWS, batch = kind == BATCH_SIZE ? 6 - differs : 6;
    for (int turn = 0; turn < 4; ++turn) {
        if (kind == RATE_LATER && differs) UMBO_TRY(umbo_trainer_set_learning_rate(trainer, 0.02));
        if (kind == STEPS_OR_EPOCHS && differs) UMBO_TRY(umbo_trainer_step(trainer, 0, 6, learn, NULL, NULL));
        else if (kind == EVALUATES && differs) UMBO_TRY(umbo_trainer_evaluate(trainer, rows, batch, learn, NULL, NULL));
        else UMBO_TRY(umbo_trainer_epoch(trainer, rows, batch, learn, NULL, NULL));
        UMBO_TRY(umbo_trainer_step(trainer, kind == FIRST_ROW ? differs : 0, kind == STEP_ROWS ? 6 + differs : 6, learn, NULL,
                                   NULL));
    }
    return UMBO_OK;
}

static umbo_status make_and_train(umbo_communicator *communicator, int kind, int differs, float *weights) {
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[2];
    umbo_trainer *trainer = NULL;
    memset(parameters, 0, sizeof(parameters));
    parameters[0].weights = weights, parameters[0].count = 2, parameters[0].name = "w";
    parameters[1].weights = weights + 2, parameters[1].count = 2, parameters[1].name = "v";
    options.rule = "adam";
    options.learning_rate = 0.01;
    options.communicator = communicator;
    options.replicas = 1;
    if (differs) {
        if (kind == SEED) options.seed = 1;
        if (kind == SHUFFLE) options.shuffle = 0;
        if (kind == RATE) options.learning_rate = 0.02;
        if (kind == RULE) options.rule = "adamw";
        if (kind == REDUCTION) options.loss_reduction = UMBO_LOSS_MEAN;
        if (kind == CLIP) options.global_clip_norm = 1;
        if (kind == DECAY) options.weight_decay = 0.1;
        if (kind == SCHEDULE) options.schedule = "linear", options.schedule_updates = 50;
        if (kind == ROW_LENGTH) parameters[0].row_length = 2;
        if (kind == FROZEN) parameters[0].frozen = 1;
        if (kind == GRADIENT_DTYPE) options.gradient_dtype = UMBO_DTYPE_BFLOAT16;
        if (kind == ACCUMULATION) options.accumulation_steps = 2;
        if (kind == COUNT) parameters[0].count = 1;
        if (kind == NAME) parameters[0].name = "other";
        if (kind == WEIGHTS) weights[0] = 1;
    }
    const umbo_status made = umbo_trainer_create_with_arrays(kind == ARRAYS && differs ? 2 : 1, parameters, &options, &trainer);
    if (made != UMBO_OK) return made;
    const umbo_status ended = train(trainer, kind, differs);
    umbo_trainer_release(trainer);
    return ended;
}

static int on_rank(umbo_communicator *communicator, int rank, void *argument) {
    struct seen *const seen = (struct seen *)argument;
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    seen->status[rank] = make_and_train(communicator, seen->kind, rank == 1, seen->weights[rank]);
    snprintf(seen->message[rank], sizeof(seen->message[rank]), "%s", umbo_last_error_message());
    return 0;
}

int main(void) {
    struct seen *const seen = (struct seen *)ranks_shared(sizeof(*seen));
    for (int kind = 0; kind < KINDS; ++kind) {
        struct ranks_options options = {0};
        int failures = 0;
        options.size = RANKS;
        memset(seen, 0, sizeof(*seen));
        seen->kind = kind;
        const struct ranks_outcome outcome = ranks_run(&options, on_rank, seen);
        for (int rank = 0; rank < RANKS; ++rank) failures += seen->status[rank] != UMBO_OK;
        /* Initial weights are those of rank 0. What the numbers of a step's rows mean is the program's. */
        const int may_differ = kind == WEIGHTS || kind == FIRST_ROW;
        CHECK(!outcome.hung);
        if (failures != (may_differ ? 0 : RANKS)) fprintf(stderr, "%s: %d failures\n", kinds[kind], failures);
        CHECK(failures == (may_differ ? 0 : RANKS));
        for (int rank = 0; rank < RANKS; ++rank) {
            CHECK(outcome.code[rank] == 0);
            if (may_differ) CHECK(memcmp(seen->weights[rank], seen->weights[0], sizeof(seen->weights[0])) == 0);
            else CHECK(strstr(seen->message[rank], "the ranks disagree") != NULL);
        }
    }
    return 0;
}

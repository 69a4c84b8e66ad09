/* UMBO_CHECK_STEPS=1 looks at what a trainer's function does: the log says whether one replica and many do the same. */
#define _POSIX_C_SOURCE 200112L
#include "check.h"

enum { ROWS = 30, REPLICAS = 2 };

typedef struct {
    int is_wrong; /* it divides by its rows although it is said to add up */
    int64_t calls;
} mistake;

static umbo_status learn(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                         double *loss) {
    mistake *const m = (mistake *)user_data;
    const float scale = m->is_wrong ? 1 / (float)rows->count : 1;
    __atomic_fetch_add(&m->calls, 1, __ATOMIC_SEQ_CST);
    for (int64_t i = 0; i < rows->count; ++i) {
        const float error = weights[0] - (float)rows->indices[i];
        *loss += (double)(error * error * scale) / 2;
        if (gradient != NULL) gradient[0] += error * scale;
    }
    return UMBO_OK;
}

static int64_t holds, fails;

static void note(umbo_log_level level, const char *message, void *user_data) {
    (void)user_data;
    if (strstr(message, "UMBO_CHECK_STEPS") == NULL) return;
    if (level == UMBO_LOG_INFO && strstr(message, ": equivalent: ") != NULL) holds++;
    if (level == UMBO_LOG_WARNING && strstr(message, ": not equivalent: ") != NULL) fails++;
}

static void train(int is_wrong, int by_epochs) {
    float weights[1] = {0};
    mistake m = {is_wrong, 0};
    umbo_parameters parameters;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_trainer *trainer = NULL;
    memset(&parameters, 0, sizeof(parameters));
    parameters.weights = weights, parameters.count = 1;
    options.replicas = REPLICAS;
    CHECK_OK(umbo_trainer_create_with_arrays(1, &parameters, &options, &trainer));
    for (int turn = 0; turn < 3; ++turn) {
        const int64_t before = m.calls;
        if (by_epochs) CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 7, learn, &m, NULL));
        if (!by_epochs) CHECK_OK(umbo_trainer_step(trainer, 7 * turn, 7, learn, &m, NULL));
        /* The first step is computed more than once, and no other. */
        if (!by_epochs) CHECK((m.calls - before > REPLICAS) == (turn == 0));
    }
    umbo_trainer_release(trainer);
}

int main(void) {
    CHECK(setenv("UMBO_CHECK_STEPS", "1", 1) == 0);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_INFO, note, NULL, NULL));
    for (int by_epochs = 0; by_epochs < 2; ++by_epochs) {
        holds = fails = 0;
        train(0, by_epochs);
        CHECK(holds == 1 && fails == 0); /* once, whatever the number of steps */
        train(1, by_epochs);
        CHECK(holds == 1 && fails == 1);
    }
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_INFO, NULL, NULL, NULL));
    return finish();
}

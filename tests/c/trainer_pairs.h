/* Trainings that are drawn so that every two options, and every two ways of going through the training, meet. Each ends
 * with the bits of one that has the same options, one replica on one processor, and nothing that disturbs it. */
#ifndef UMBO_TESTS_TRAINER_PAIRS_H
#define UMBO_TESTS_TRAINER_PAIRS_H

#include "check.h"
#include "pairs.h"

#include <signal.h>
#include <unistd.h>

enum { PAIR_ROWS = 17, PAIR_BATCH = 6, PAIR_EPOCHS = 3, PAIR_DENSE = 4, PAIR_LENGTH = 2, PAIR_WORDS = 5, PAIR_IN_SYNC = 4 };

/* What the result depends on, and behind it what it does not. */
enum factor {
    RULE, SCHEDULE, ACCUMULATION, CLIP, REDUCTION, WEIGHS, ARRAYS, SHUFFLE, SETS_RATE, STEPS_BETWEEN, NOISE, HALF,
    REPLICAS, DISTURBANCE, RESTART, EVALUATES, IS_BOUNDED, TAKES_PARTS, OWN_STRATEGY, MEASURES,
    FACTORS
};

/* How many levels each has. */
static const int training_levels[FACTORS] = {4, 3, 2, 2, 3, 2, 3, 2, 2, 2, 2, 3, 4, 4, 4, 2, 2, 2, 2, 2};

enum { CALM, FAILS, INTERRUPTED, CANCELLED };                    /* DISTURBANCE */
enum { CONTINUES, RESTORES, RESUMES, RESTORES_ITS_CHECKPOINT };     /* RESTART */

/* What does not go together: `number` is that of ranks. */
static void amend_training(int *p, int64_t number) {
    if (p[REDUCTION] == 2) p[WEIGHS] = 0;                     /* divides by itself */
    if (p[ARRAYS] == 1) p[HALF] = 0;                          /* rows are float32 */
    if (number > 1) p[ACCUMULATION] = 0;                      /* with replicas in sync it is refused */
    if (number > 1) p[REPLICAS] = 0;                          /* the ranks share the replicas */
    if (p[DISTURBANCE] == CANCELLED && p[RESTART] == CONTINUES) p[RESTART] = RESTORES;
    if (p[OWN_STRATEGY] && p[REPLICAS] == 3) p[REPLICAS] = 2; /* only a trainer's own is chosen */
}

/* ---- what is learned */

typedef struct {
    const int *p;
    int fails, interrupts;     /* 1: at the next row of that number */
    umbo_cancellation *token;  /* cancelled at the next call */
    int64_t evaluated;
} lesson;

static float hashed_row(int64_t row, int k) {
    const uint32_t h = (uint32_t)(row * 7 + k + 3) * 2654435761u;
    return (float)(h >> 16) / 32768.0f - 1;
}

static const umbo_dtype half_dtypes[] = {UMBO_DTYPE_NONE, UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16};

/* Adds to a number of a gradient, of whatever type. */
static void add_to(const umbo_rows *rows, const int *p, int array, int at, float number) {
    float sum;
    CHECK((rows->gradients[array] == NULL) == (p[HALF] != 0) && (rows->half_gradients != NULL) == (p[HALF] != 0));
    if (!p[HALF]) {
        rows->gradients[array][at] += number;
        return;
    }
    uint16_t *const half = (uint16_t *)rows->half_gradients[array] + at;
    CHECK_OK(umbo_dtype_convert_to_float(half_dtypes[p[HALF]], 1, half, &sum));
    sum += number;
    CHECK_OK(umbo_dtype_convert_from_float(half_dtypes[p[HALF]], 1, &sum, half));
}

static umbo_status learn_pair(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                              double *loss) {
    lesson *const self = (lesson *)user_data;
    const int *const p = self->p;
    float noise[PAIR_ROWS] = {0};
    double weight = 0;
    CHECK(gradient == rows->gradients[0]);
    if (!rows->training) __atomic_fetch_add(&self->evaluated, rows->count, __ATOMIC_SEQ_CST);
    if (p[NOISE] && rows->training) {
        umbo_random_key key = UMBO_RANDOM_KEY_INIT;
        UMBO_TRY(umbo_replica_context_random_key(rows->context, 5, 1, &key));
        UMBO_TRY(umbo_random_uniform(&key, rows->count, 1, UMBO_DTYPE_FLOAT32, noise));
    }
    for (int64_t i = 0; i < rows->count; ++i) {
        const int64_t row = rows->indices[i];
        if (row == 11 && __atomic_exchange_n(&self->fails, 0, __ATOMIC_SEQ_CST)) return UMBO_STATUS_ABORTED;
        if (row == 11 && __atomic_exchange_n(&self->interrupts, 0, __ATOMIC_SEQ_CST)) CHECK(kill(getpid(), SIGINT) == 0);
        if (row == 11 && self->token != NULL) CHECK_OK(umbo_cancellation_cancel(self->token));
        weight += p[WEIGHS] ? (double)(1 + row % 3) : 1;
    }
    const float scale = p[REDUCTION] == 0 ? 1 : p[REDUCTION] == 1 ? (float)(1 / weight) : 1.0f / PAIR_BATCH;
    for (int64_t i = 0; i < rows->count; ++i) {
        const int64_t row = rows->indices[i];
        float error = noise[i] - hashed_row(row, 9), *word = NULL;
        for (int k = 0; k < PAIR_DENSE; ++k) error += weights[k] * hashed_row(row, k);
        if (p[ARRAYS] == 1) error += rows->weights[1][row % PAIR_WORDS * PAIR_LENGTH];
        if (p[ARRAYS] == 2) error += rows->weights[1][0] + rows->weights[2][0];
        *loss += (double)(scale * error * error) / 2;
        if (!rows->training) continue;
        for (int k = 0; k < PAIR_DENSE; ++k) add_to(rows, p, 0, k, scale * error * hashed_row(row, k));
        if (p[ARRAYS] == 1) {
            UMBO_TRY(umbo_rows_gradient_row(rows, 1, row % PAIR_WORDS, &word));
            word[0] += scale * error;
            word[1] += scale;
        }
        if (p[ARRAYS] == 2) add_to(rows, p, 1, 0, scale * error), add_to(rows, p, 2, 0, scale * error);
    }
    if (p[MEASURES]) UMBO_TRY(umbo_replica_context_add_metric(rows->context, "rows", (double)rows->count, 1));
    return p[WEIGHS] ? umbo_rows_weigh(rows, weight) : UMBO_OK;
}

/* ---- a training */

typedef struct {
    float dense[PAIR_DENSE], table[PAIR_WORDS * PAIR_LENGTH], bias[2];
} numbers_of_pair;

typedef struct {
    numbers_of_pair numbers;
    double loss[PAIR_EPOCHS], evaluated, stepped;
    int64_t steps;
} outcome_of_pair;

typedef struct {
    const int *p;
    int is_reference;
    umbo_communicator *communicator;
    int64_t ranks;
    char path[64], interrupt_path[64];
    umbo_strategy *strategy;
    umbo_cancellation *token;
    umbo_trainer *trainer;
} training_of_pair;

static void make_trainer(training_of_pair *self, numbers_of_pair *to) {
    static const char *const rules[] = {"sgd", "momentum", "adam", "adamw"};
    static const char *const schedules[] = {NULL, "linear", "cosine"};
    static const umbo_loss_reduction reductions[] = {UMBO_LOSS_SUM, UMBO_LOSS_MEAN, UMBO_LOSS_GLOBAL_MEAN};
    static const int64_t replicas[] = {2, 3, 4, UMBO_AUTO};
    const int *const p = self->p;
    const int is_varied = !self->is_reference;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[3];
    memset(parameters, 0, sizeof(parameters));
    parameters[0].weights = to->dense, parameters[0].count = PAIR_DENSE;
    if (p[ARRAYS] == 1) {
        parameters[1].weights = to->table, parameters[1].count = PAIR_WORDS * PAIR_LENGTH;
        parameters[1].row_length = PAIR_LENGTH;
    } else {
        parameters[1].weights = &to->bias[0], parameters[1].count = 1;
        parameters[1].no_weight_decay = 1, parameters[1].learning_rate_factor = 0.5;
        parameters[2].weights = &to->bias[1], parameters[2].count = 1, parameters[2].frozen = 1;
    }
    options.rule = rules[p[RULE]];
    options.learning_rate = 0.05;
    options.schedule = schedules[p[SCHEDULE]];
    if (p[SCHEDULE] > 0) options.schedule_updates = 12, options.warmup_updates = 2;
    options.accumulation_steps = p[ACCUMULATION] ? 3 : 1;
    if (p[CLIP]) options.global_clip_norm = 0.3;
    options.loss_reduction = reductions[p[REDUCTION]];
    options.gradient_dtype = half_dtypes[p[HALF]];
    options.shuffle = p[SHUFFLE];
    options.seed = 3;
    if (is_varied && p[IS_BOUNDED]) options.timeout_seconds = 300;
    if (is_varied && p[DISTURBANCE] == INTERRUPTED) options.interrupt_path = self->interrupt_path;
    if (is_varied && self->token != NULL) options.cancellation = self->token;
    if (is_varied && p[OWN_STRATEGY]) {
        umbo_strategy_options own = UMBO_STRATEGY_OPTIONS_INIT;
        own.cpu_replicas = self->ranks > 1 ? PAIR_IN_SYNC / self->ranks : replicas[p[REPLICAS]];
        own.replicas_in_sync = PAIR_IN_SYNC;
        own.communicator = self->communicator;
        own.bind_threads = 0;
        if (self->strategy == NULL) CHECK_OK(umbo_strategy_create(&own, &self->strategy));
        options.strategy = self->strategy;
    } else {
        options.replicas = self->is_reference ? 1 : self->ranks > 1 ? 0 : replicas[p[REPLICAS]];
        options.replicas_in_sync = PAIR_IN_SYNC;
        if (is_varied) options.communicator = self->communicator;
    }
    CHECK_OK(umbo_trainer_create_with_arrays(p[ARRAYS] == 0 ? 1 : p[ARRAYS] + 1, parameters, &options, &self->trainer));
    if (is_varied && p[TAKES_PARTS]) {
        umbo_variable *variable = NULL;
        umbo_optimizer *optimizer = NULL;
        CHECK_OK(umbo_trainer_variable(self->trainer, 0, &variable));
        CHECK_OK(umbo_trainer_optimizer(self->trainer, &optimizer));
        umbo_variable_release(variable);
        umbo_optimizer_release(optimizer);
    }
}

/* Another trainer continues, over the other arrays. */
static void restart(training_of_pair *self, numbers_of_pair *to, const char *path) {
    umbo_checkpoint *checkpoint = NULL;
    memset(to, 9, sizeof(*to));
    umbo_trainer_release(self->trainer);
    umbo_strategy_release(self->strategy);
    self->strategy = NULL;
    make_trainer(self, to);
    switch (self->p[RESTART]) {
    case RESUMES: CHECK_OK(umbo_trainer_resume(self->trainer, path, NULL)); break;
    case RESTORES_ITS_CHECKPOINT:
        CHECK_OK(umbo_trainer_checkpoint(self->trainer, &checkpoint));
        CHECK_OK(umbo_checkpoint_restore(checkpoint, path));
        umbo_checkpoint_release(checkpoint);
        break;
    default: CHECK_OK(umbo_trainer_restore(self->trainer, path));
    }
}

/* The epoch is disturbed once, and the training continues as the plan says. Which arrays have the weights now. */
static int disturb(training_of_pair *self, lesson *l, numbers_of_pair *both, int at) {
    const int how = self->p[DISTURBANCE];
    umbo_status expected = UMBO_STATUS_CANCELLED;
    umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
    if (how == FAILS) l->fails = 1, expected = UMBO_STATUS_ABORTED;
    if (how == INTERRUPTED) l->interrupts = 1;
    if (how == CANCELLED) l->token = self->token;
    if (how != CALM) {
        const umbo_status ended = umbo_trainer_epoch(self->trainer, PAIR_ROWS, PAIR_BATCH, learn_pair, l, NULL);
        /* A signal or a token that comes in the last step of all may come too late for it. */
        CHECK(ended == expected);
        CHECK_OK(umbo_trainer_get_info(self->trainer, &info));
        l->fails = l->interrupts = 0, l->token = NULL;
    }
    if (self->p[RESTART] == CONTINUES) return at;
    if (how == INTERRUPTED) {
        restart(self, &both[1 - at], self->interrupt_path);
        return 1 - at;
    }
    if (how == CANCELLED) { /* a callback may not be back */
        umbo_strategy *strategy = NULL;
        CHECK_OK(umbo_trainer_strategy(self->trainer, &strategy));
        CHECK_OK(umbo_strategy_synchronize(strategy));
        umbo_strategy_release(strategy);
    }
    CHECK_OK(umbo_trainer_save(self->trainer, self->path));
    if (how == CANCELLED) {
        umbo_cancellation_release(self->token);
        self->token = NULL;
    }
    restart(self, &both[1 - at], self->path);
    return 1 - at;
}

static CHECK_MAYBE_UNUSED void train_pair(training_of_pair *self, outcome_of_pair *seen) {
    numbers_of_pair both[2];
    const int *const p = self->p;
    lesson l;
    int at = 0;
    memset(&l, 0, sizeof(l));
    memset(both, 0, sizeof(both));
    memset(seen, 0, sizeof(*seen));
    l.p = p;
    both[0].bias[1] = 0.25f;
    self->strategy = NULL, self->token = NULL;
    if (!self->is_reference && p[DISTURBANCE] == CANCELLED) CHECK_OK(umbo_cancellation_create(&self->token));
    make_trainer(self, &both[0]);
    for (int epoch = 0; epoch < PAIR_EPOCHS; ++epoch) {
        if (p[SETS_RATE]) CHECK_OK(umbo_trainer_set_learning_rate(self->trainer, 0.04 / (epoch + 1)));
        if (p[STEPS_BETWEEN]) CHECK_OK(umbo_trainer_step(self->trainer, 2, 7, learn_pair, &l, &seen->stepped));
        if (!self->is_reference && epoch == 1) {
            at = disturb(self, &l, both, at);
            if (p[SETS_RATE]) CHECK_OK(umbo_trainer_set_learning_rate(self->trainer, 0.04 / (epoch + 1)));
        }
        if (!self->is_reference && p[EVALUATES]) {
            double loss = -1;
            l.evaluated = 0;
            CHECK_OK(umbo_trainer_evaluate(self->trainer, PAIR_ROWS, 5, learn_pair, &l, &loss));
        }
        CHECK_OK(umbo_trainer_epoch(self->trainer, PAIR_ROWS, PAIR_BATCH, learn_pair, &l, &seen->loss[epoch]));
    }
    CHECK_OK(umbo_trainer_evaluate(self->trainer, PAIR_ROWS, PAIR_BATCH, learn_pair, &l, &seen->evaluated));
    {
        umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
        CHECK_OK(umbo_trainer_get_info(self->trainer, &info));
        CHECK(info.epoch_count == PAIR_EPOCHS && info.epoch_step_count == 0);
        seen->steps = info.step_count;
    }
    memcpy(seen->numbers.dense, both[at].dense, sizeof(both[at].dense));
    if (p[ARRAYS] == 1) memcpy(seen->numbers.table, both[at].table, sizeof(both[at].table));
    if (p[ARRAYS] == 2) memcpy(seen->numbers.bias, both[at].bias, sizeof(both[at].bias));
    umbo_trainer_release(self->trainer);
    umbo_strategy_release(self->strategy);
    umbo_cancellation_release(self->token);
    remove(self->path);
    remove(self->interrupt_path);
}

static CHECK_MAYBE_UNUSED void print_plan(const int *p) {
    static const char *const names[FACTORS] = {
        "rule", "schedule", "accumulation", "clip", "reduction", "weighs", "arrays", "shuffle", "sets rate",
        "steps between", "noise", "half", "replicas", "disturbance", "restart", "evaluates", "bounded", "takes parts",
        "own strategy", "measures"};
    for (int at = 0; at < FACTORS; ++at)
        if (p[at]) fprintf(stderr, "%s %d; ", names[at], p[at]);
    fprintf(stderr, "\n");
}

#endif

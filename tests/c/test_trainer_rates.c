/* The learning rate of a trainer, by a schedule or set by the program; and the number of replicas that it chooses. */
#include "trainer_rows.h"

/* The learning rate rises and falls, also over a restart. */
static void schedules(void) {
    static const double factors[] = {0.5, 1, 1, 0.75, 0.5, 0.25, 0, 0};
    float weights[FEATURES] = {0}, one = 1;
    double at = 0;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.learning_rate = 0.5;
    options.schedule = "linear";
    options.schedule_updates = 6;
    options.warmup_updates = 2;
    options.replicas = 1;
    umbo_trainer *trainer = trainer_with(weights, &options);
    for (int step = 0; step < 8; ++step) {
        CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_given, &one, NULL));
        at -= 0.5 * factors[step];
        CHECK(near((double)weights[0], at));
        if (step != 3) continue;
        CHECK_OK(umbo_trainer_save(trainer, "test_trainer_rates.umbo"));
        umbo_trainer_release(trainer);
        trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_restore(trainer, "test_trainer_rates.umbo"));
        CHECK(remove("test_trainer_rates.umbo") == 0);
    }
    umbo_trainer_release(trainer);
}

/* A training whose schedule was another one is restored, and the log says which; the same one is not worth a word. A
 * trainer without one follows that of the training. */
#define NONE "no schedule with a name"

static const struct {
    const char *schedule;
    int64_t updates, warmup;
    int is_ended; /* the program has set the rate */
    const char *words;
} kinds[] = {
    {NULL, 0, 0, 0, NONE},
    {NULL, 0, 3, 0, "the schedule constant with 3 of warm-up at a rate of 0.01"},
    {"linear", 6, 0, 0, "the schedule linear over 6 updates at a rate of 0.01"},
    {"linear", 8, 0, 0, "the schedule linear over 8 updates at a rate of 0.01"},
    {"cosine", 6, 2, 0, "the schedule cosine over 6 updates with 2 of warm-up at a rate of 0.01"},
    {"linear", 6, 0, 1, NONE},
};

static umbo_trainer *scheduled(float *weights, int kind) {
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.schedule = kinds[kind].schedule;
    options.schedule_updates = kinds[kind].updates;
    options.warmup_updates = kinds[kind].warmup;
    options.replicas = 1;
    umbo_trainer *trainer = trainer_with(weights, &options);
    if (kinds[kind].is_ended) CHECK_OK(umbo_trainer_set_learning_rate(trainer, 0.25));
    return trainer;
}

static char said[512];

static void keep_message(umbo_log_level level, const char *message, void *user_data) {
    (void)level, (void)user_data;
    /* Under the check of steps, which every test runs in, too, the log has its results. */
    if (strncmp(message, "UMBO_CHECK_STEPS", strlen("UMBO_CHECK_STEPS")) != 0) strncpy(said, message, sizeof(said) - 1);
}

/* A sum of the weights after some steps, by which two learning rates can be told apart. */
static double sum_after_steps(umbo_trainer *trainer, const float *weights) {
    float one = 1;
    double sum = 0;
    for (int step = 0; step < 5; ++step) {
        CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_given, &one, NULL));
        sum += (double)weights[0] * (step + 1);
    }
    return sum;
}

static void other_schedules(void) {
    const char *const path = "test_trainer_rates.umbo";
    for (int saved = 0; saved < COUNT_OF(kinds); ++saved) {
        float weights[FEATURES] = {0};
        umbo_trainer *trainer = scheduled(weights, saved);
        CHECK_OK(umbo_trainer_save(trainer, path));
        umbo_trainer_release(trainer);
        for (int own = 0; own < COUNT_OF(kinds); ++own) {
            char first[128], second[128];
            const int follows = strcmp(kinds[own].words, NONE) == 0;
            const int is_same = follows || strcmp(kinds[saved].words, kinds[own].words) == 0;
            trainer = scheduled(weights, own);
            CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, keep_message, NULL, NULL));
            for (int time = 0; time < 2; ++time) { /* told each time */
                memset(said, 0, sizeof(said));
                CHECK_OK(umbo_trainer_resume(trainer, path, NULL));
                snprintf(first, sizeof(first), "had %s, and", kinds[saved].words);
                snprintf(second, sizeof(second), "now follows %s, which", kinds[own].words);
                CHECK(is_same ? said[0] == '\0' : strstr(said, first) != NULL && strstr(said, second) != NULL);
            }
            expect_no_messages();
            if (!is_same || follows) {
                float by_saved[FEATURES] = {0};
                umbo_trainer *same = scheduled(by_saved, saved);
                const int is_followed = sum_after_steps(trainer, weights) == sum_after_steps(same, by_saved);
                CHECK(is_followed == follows);
                umbo_trainer_release(same);
            }
            umbo_trainer_release(trainer);
        }
        CHECK(remove(path) == 0);
    }
}

/* The program sets the rate of each update, which ends a schedule. The last one stays when one replica is chosen, after
 * more steps. */
static void rates_of_the_program(void) {
    float weights[FEATURES] = {0}, one = 1;
    double at = 0;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.schedule = "linear";
    options.schedule_updates = 6;
    options.replicas = UMBO_AUTO;
    umbo_trainer *trainer = trainer_with(weights, &options);
    for (int step = 0; step < 60; ++step) {
        if (step < 40) CHECK_OK(umbo_trainer_set_learning_rate(trainer, 1.0 / (step + 1)));
        CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_given, &one, NULL));
        at -= 1.0 / (step < 40 ? step + 1 : 40);
        CHECK(near((double)weights[0], at));
    }
    umbo_trainer_release(trainer);
}

/* A training is restored by a trainer that chooses its replicas afterwards, and by one with a schedule of its own that
 * does. Each follows what it followed before the choice, of which the log says nothing more. */
static void schedules_through_a_choice(void) {
    const char *const path = "test_trainer_rates.umbo";
    for (int own = 0; own < 2; ++own) {
        float weights[FEATURES] = {0}, expected[FEATURES] = {0}, one = 1;
        umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
        options.schedule = "linear";
        options.schedule_updates = 70;
        options.replicas = 1;
        umbo_trainer *trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_save(trainer, path));
        umbo_trainer_release(trainer);
        options.schedule = own ? "cosine" : "linear";
        trainer = trainer_with(expected, &options);
        if (!own) options.schedule = NULL, options.schedule_updates = 0;
        options.replicas = UMBO_AUTO;
        umbo_trainer *chooses = trainer_with(weights, &options);
        CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, keep_message, NULL, NULL));
        CHECK_OK(umbo_trainer_restore(chooses, path));
        CHECK((strstr(said, "now follows the schedule cosine over 70 updates") != NULL) == own);
        memset(said, 0, sizeof(said));
        for (int step = 0; step < 60; ++step) {
            CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_given, &one, NULL));
            CHECK_OK(umbo_trainer_step(chooses, 0, 1, learn_given, &one, NULL));
            CHECK(weights[0] == expected[0]);
        }
        CHECK(said[0] == '\0');
        expect_no_messages();
        umbo_trainer_release(chooses);
        umbo_trainer_release(trainer);
        CHECK(remove(path) == 0);
    }
}

/* What the rows say of threads. */
typedef struct {
    int64_t most_threads, least_threads;
} shares;

static umbo_status note_shares(const umbo_rows *rows, const float *w, float *gradient, void *user_data, double *loss) {
    shares *all = (shares *)user_data;
    (void)w, (void)gradient, (void)loss;
    if (rows->replica_id != 0) return UMBO_OK;
    if (all->most_threads < rows->thread_count) all->most_threads = rows->thread_count;
    if (all->least_threads > rows->thread_count) all->least_threads = rows->thread_count;
    return UMBO_OK;
}

/* Each replica has its share of the processors, and one thread where bits must not depend on them. */
static void threads_of_a_replica(void) {
    int64_t processors = 1;
    CHECK_OK(umbo_processor_count(&processors));
    for (int64_t replicas = 1; replicas <= processors; ++replicas) {
        for (int in_sync = 0; in_sync < 2; ++in_sync) {
            float weights[FEATURES] = {0};
            shares all = {0, 1 << 20};
            umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
            options.replicas = replicas;
            options.replicas_in_sync = in_sync ? processors + 1 : 0;
            umbo_trainer *trainer = trainer_with(weights, &options);
            CHECK_OK(umbo_trainer_step(trainer, 0, ROWS, note_shares, &all, NULL));
            const int64_t expected = in_sync ? 1 : processors / replicas;
            CHECK(all.most_threads == expected && all.least_threads == expected);
            umbo_trainer_release(trainer);
        }
    }
}

/* For steps with so little to do a trainer chooses one replica, and the result is that of one from the beginning, with the
 * optimizer's averages and what is accumulated. */
static void chooses(void) {
    float weights[2][FEATURES] = {{0}, {0}};
    double loss[2] = {0, 0}, averaged[2] = {0, 0};
    int64_t processors = 1;
    notes n = no_notes();
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    CHECK_OK(umbo_processor_count(&processors));
    options.rule = "adam";
    options.accumulation_steps = 3;
    options.average_decay = 0.75;
    options.replicas_in_sync = processors < 4 ? 4 : processors;
    for (int run = 0; run < 2; ++run) {
        options.replicas = run == 0 ? UMBO_AUTO : 1;
        umbo_trainer *trainer = trainer_with(weights[run], &options);
        umbo_strategy *strategy = NULL;
        umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
        for (int epoch = 0; epoch < 10; ++epoch) {
            CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 3, learn, &n, &loss[run]));
            CHECK_OK(umbo_trainer_step(trainer, epoch, 2, learn, &n, NULL));
        }
        CHECK_OK(umbo_trainer_evaluate(trainer, ROWS, 4, learn, &n, &averaged[run]));
        CHECK(progress_of(trainer).step_count == 90 && progress_of(trainer).epoch_count == 10);
        CHECK_OK(umbo_trainer_strategy(trainer, &strategy));
        CHECK_OK(umbo_strategy_get_info(strategy, &info));
        printf("%d compute devices are left\n", (int)info.compute_device_count);
        CHECK(info.replica_count == options.replicas_in_sync && info.compute_device_count <= processors);
        umbo_strategy_release(strategy);
        umbo_trainer_release(trainer);
    }
    CHECK(loss[0] == loss[1] && averaged[0] == averaged[1] && averaged[0] > 0);
    CHECK(memcmp(weights[0], weights[1], sizeof(weights[0])) == 0);
    /* A part that the program gets settles the choice. */
    umbo_gradients *gradients = NULL;
    options.replicas = UMBO_AUTO;
    options.replicas_in_sync = 0;
    umbo_trainer *trainer = trainer_with(weights[0], &options);
    const int64_t before = progress_of(trainer).replica_count;
    CHECK_OK(umbo_trainer_step(trainer, 0, 2, learn, &n, NULL));
    CHECK_OK(umbo_trainer_gradients(trainer, &gradients));
    for (int epoch = 0; epoch < 4; ++epoch)
        CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 1, learn, &n, NULL));
    CHECK(progress_of(trainer).replica_count == before);
    umbo_gradients_release(gradients);
    umbo_trainer_release(trainer);
}

static umbo_status look(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
    CHECK(gradient == NULL && rows->training == 0);
    *loss = (double)weights[0] * (double)rows->count;
    (void)user_data;
    return UMBO_OK;
}

/* An evaluation has the averages for weights, also after a restart; the arrays have the weights afterwards. */
static void averages(void) {
    float weights[FEATURES] = {0}, one = 1;
    double average = 0, found = 0;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.learning_rate = 1;
    options.replicas = 1;
    options.average_decay = 0.9;
    umbo_trainer *trainer = trainer_with(weights, &options);
    CHECK_OK(umbo_trainer_evaluate(trainer, 4, 2, look, NULL, &found));
    CHECK(near(found, 0)); /* nothing was updated */
    for (int step = 1; step <= 6; ++step) {
        CHECK_OK(umbo_trainer_step(trainer, 0, 1, learn_given, &one, NULL));
        /* The i-th move has the decay (1 + i) / (10 + i) here. */
        average = step == 1 ? -1 : (step * average + 9.0 * -step) / (9.0 + step);
        CHECK_OK(umbo_trainer_evaluate(trainer, 4, 2, look, NULL, &found));
        CHECK(near(found, average) && near((double)weights[0], -step));
        if (step != 3) continue;
        CHECK_OK(umbo_trainer_save(trainer, "test_trainer_averages.umbo"));
        umbo_trainer_release(trainer);
        trainer = trainer_with(weights, &options);
        CHECK_OK(umbo_trainer_restore(trainer, "test_trainer_averages.umbo"));
        CHECK(remove("test_trainer_averages.umbo") == 0);
    }
    umbo_trainer_release(trainer);
}

int main(void) {
    make_table();
    schedules();
    averages();
    other_schedules();
    rates_of_the_program();
    memset(said, 0, sizeof(said));
    schedules_through_a_choice();
    threads_of_a_replica();
    chooses();
    return finish();
}

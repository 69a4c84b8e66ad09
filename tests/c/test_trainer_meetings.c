/* Where trainers meet: their own log callback, each other on one strategy, other strategies, datasets, deadlines,
 * interrupts, restarts, and parts that the program has made. */
#define _POSIX_C_SOURCE 200112L
#include "check.h"

#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

enum { ROWS = 12 };

/* A weight that is pulled to the numbers of the rows, and its loss. */
static umbo_status pull(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
    (void)user_data;
    for (int64_t i = 0; i < rows->count; ++i) {
        const float error = weights[0] - (float)rows->indices[i];
        *loss += (double)(error * error) / 2;
        if (gradient != NULL) gradient[0] += error;
    }
    return UMBO_OK;
}

static umbo_trainer *trainer_of(float *weight, const char *name, const umbo_trainer_options *options) {
    umbo_parameters parameters;
    umbo_trainer *trainer = NULL;
    memset(&parameters, 0, sizeof(parameters));
    parameters.weights = weight, parameters.count = 1, parameters.name = name;
    CHECK_OK(umbo_trainer_create_with_arrays(1, &parameters, options, &trainer));
    return trainer;
}

static umbo_status pull_and_interrupt(const umbo_rows *rows, const float *weights, float *gradient, void *user_data,
                                      double *loss) {
    int *const wanted = (int *)user_data;
    if (__atomic_exchange_n(wanted, 0, __ATOMIC_SEQ_CST)) CHECK(kill(getpid(), SIGINT) == 0);
    return pull(rows, weights, gradient, NULL, loss);
}

/* ---- calls from the log, which tells of an interrupt and of the choice of one replica */

static umbo_trainer *logged;
static pthread_t trains; /* the thread of the trainer's calls */
static int64_t messages, refusals;
static int is_inside; /* the log callback calls, and what it calls may log */

static void call_from_the_log(umbo_log_level level, const char *message, void *user_data) {
    umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
    umbo_status statuses[6];
    (void)level, (void)message, (void)user_data;
    if (logged == NULL || !pthread_equal(pthread_self(), trains)) return;
    if (__atomic_exchange_n(&is_inside, 1, __ATOMIC_SEQ_CST) != 0) return;
    messages++;
    CHECK_OK(umbo_trainer_get_info(logged, &info));
    statuses[0] = umbo_trainer_epoch(logged, ROWS, 3, pull, NULL, NULL);
    statuses[1] = umbo_trainer_step(logged, 0, 3, pull, NULL, NULL);
    statuses[2] = umbo_trainer_evaluate(logged, ROWS, 3, pull, NULL, NULL);
    statuses[3] = umbo_trainer_save(logged, "test_trainer_meetings_2.umbo");
    statuses[4] = umbo_trainer_restore(logged, "test_trainer_meetings.umbo");
    statuses[5] = umbo_trainer_set_learning_rate(logged, 0.5);
    /* All are refused, or none: a message may come when the call that it belongs to has returned. */
    for (int at = 0; at < 6; ++at) {
        CHECK(statuses[at] == UMBO_OK || statuses[at] == UMBO_STATUS_FAILED_PRECONDITION);
        refusals += statuses[at] != UMBO_OK;
    }
    __atomic_store_n(&is_inside, 0, __ATOMIC_SEQ_CST);
}

static void calls_from_the_log(void) {
    float weight = 0;
    int interrupt = 1;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    options.interrupt_path = "test_trainer_meetings.umbo";
    options.replicas = UMBO_AUTO;
    options.replicas_in_sync = 4;
    umbo_trainer *const trainer = trainer_of(&weight, NULL, &options);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, call_from_the_log, NULL, NULL));
    logged = trainer;
    trains = pthread_self();
    CHECK_STATUS(umbo_trainer_epoch(trainer, ROWS, 3, pull_and_interrupt, &interrupt, NULL), UMBO_STATUS_CANCELLED);
    CHECK(messages >= 1 && refusals == 6 * messages);
    for (int epoch = 0; epoch < 20; ++epoch) CHECK_OK(umbo_trainer_epoch(trainer, ROWS, 3, pull, NULL, NULL));
    CHECK_OK(umbo_trainer_restore(trainer, "test_trainer_meetings.umbo"));
    CHECK(refusals % 6 == 0);
    logged = NULL;
    umbo_trainer_release(trainer);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_WARNING, NULL, NULL, NULL));
    CHECK(remove("test_trainer_meetings.umbo") == 0);
    remove("test_trainer_meetings_2.umbo");
}

/* ---- two trainers on one strategy, each on a thread of its own */

typedef struct {
    umbo_trainer *trainer;
    double loss; /* of each row */
    int64_t wrong;
} pupil;

static umbo_status lose(const umbo_rows *rows, const float *weights, float *gradient, void *user_data, double *loss) {
    (void)weights;
    *loss = ((const pupil *)user_data)->loss * (double)rows->count;
    if (gradient != NULL) gradient[0] -= (float)rows->count;
    return UMBO_OK;
}

static void *study(void *user_data) {
    pupil *const self = (pupil *)user_data;
    for (int turn = 0; turn < 100; ++turn) {
        double losses[3] = {-1, -1, -1};
        CHECK_OK(umbo_trainer_step(self->trainer, 0, 5, lose, self, &losses[0]));
        CHECK_OK(umbo_trainer_epoch(self->trainer, 6, 3, lose, self, &losses[1]));
        CHECK_OK(umbo_trainer_evaluate(self->trainer, 4, 3, lose, self, &losses[2]));
        for (int at = 0; at < 3; ++at) self->wrong += losses[at] != self->loss;
    }
    return NULL;
}

static void two_on_one_strategy(void) {
    umbo_strategy *const strategy = make_strategy(2);
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    pupil pupils[2];
    float weights[2] = {0, 0};
    pthread_t threads[2];
    options.strategy = strategy;
    options.learning_rate = 1;
    for (int at = 0; at < 2; ++at) {
        pupils[at].loss = at + 1, pupils[at].wrong = 0;
        pupils[at].trainer = trainer_of(&weights[at], at == 0 ? "first" : "second", &options);
    }
    for (int at = 0; at < 2; ++at) CHECK(pthread_create(&threads[at], NULL, study, &pupils[at]) == 0);
    for (int at = 0; at < 2; ++at) {
        CHECK(pthread_join(threads[at], NULL) == 0);
        CHECK(pupils[at].wrong == 0 && weights[at] == 300);
        umbo_trainer_release(pupils[at].trainer);
    }
    umbo_strategy_release(strategy);
}

/* ---- a trainer that a dataset uses from several threads at once; callbacks of another strategy may not */

static umbo_status train_in_a_run(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                  umbo_value **result) {
    (void)context, (void)args, (void)result;
    return umbo_trainer_step((umbo_trainer *)user_data, 0, 3, pull, NULL, NULL);
}

static umbo_status train_merged(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                                umbo_value **result) {
    (void)strategy, (void)args, (void)result;
    return umbo_trainer_step((umbo_trainer *)user_data, 0, 3, pull, NULL, NULL);
}

static umbo_status train_in_a_merge_call(umbo_replica_context *context, const umbo_value *args, void *user_data,
                                         umbo_value **result) {
    (void)args, (void)result;
    return umbo_replica_context_merge_call(context, train_merged, NULL, user_data, NULL);
}

static umbo_status train_in_a_map(const umbo_value *element, void *user_data, umbo_value **result) {
    UMBO_TRY(umbo_trainer_step((umbo_trainer *)user_data, 0, 3, pull, NULL, NULL));
    return umbo_value_retain(element, result);
}

static void used_by_callbacks(void) {
    float weight = 0;
    umbo_strategy *const other = make_strategy(2);
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_map_options parallel = UMBO_MAP_OPTIONS_INIT;
    umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
    umbo_dataset *dataset = NULL;
    umbo_iterator *iterator = NULL;
    int32_t ended = 0;
    options.replicas = 2;
    umbo_trainer *const trainer = trainer_of(&weight, NULL, &options);
    CHECK_STATUS(umbo_strategy_run(other, train_in_a_run, NULL, trainer, NULL, NULL), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("mixing different strategies");
    CHECK_STATUS(umbo_strategy_run(other, train_in_a_merge_call, NULL, trainer, NULL, NULL),
                 UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("mixing different strategies");
    CHECK(weight == 0);
    parallel.parallel_call_count = 2;
    CHECK_OK(umbo_dataset_from_range(0, 5, 1, &dataset));
    CHECK_OK(umbo_dataset_map(&dataset, train_in_a_map, trainer, NULL, &parallel));
    CHECK_OK(umbo_dataset_prefetch(&dataset, 2));
    CHECK_OK(umbo_iterator_from_dataset(dataset, &iterator));
    while (!ended) {
        umbo_value *element = NULL;
        CHECK_OK(umbo_iterator_has_ended(iterator, &ended));
        if (!ended && umbo_iterator_next(iterator, &element) != UMBO_OK) ended = 1;
        umbo_value_release(element);
    }
    CHECK_OK(umbo_trainer_get_info(trainer, &info));
    CHECK(info.step_count == 5);
    umbo_iterator_release(iterator);
    umbo_dataset_release(dataset);
    umbo_trainer_release(trainer);
    umbo_strategy_release(other);
}

/* ---- evaluations between the steps by which a trainer chooses its replicas */

/* Neither the choice nor an evaluation changes a bit: with replicas in sync as a trainer has it that chooses nothing. */
static void evaluated_while_choosing(void) {
    enum { STEPS = 160 }; /* each number of replicas is tried for 48 */
    float weights[2] = {0, 0};
    int64_t processors = 0;
    umbo_trainer *trainers[2];
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    CHECK_OK(umbo_processor_count(&processors));
    options.rule = "adam";
    options.average_decay = 0.75;
    options.replicas_in_sync = processors < 4 ? 4 : processors;
    for (int at = 0; at < 2; ++at) {
        options.replicas = at == 0 ? UMBO_AUTO : 1;
        trainers[at] = trainer_of(&weights[at], NULL, &options);
    }
    for (int step = 0; step < STEPS; ++step) {
        umbo_trainer_info info = UMBO_TRAINER_INFO_INIT;
        double losses[2] = {-1, -2};
        for (int at = 0; at < 2; ++at) {
            CHECK_OK(umbo_trainer_step(trainers[at], step % 5, 7, pull, NULL, NULL));
            CHECK_OK(umbo_trainer_evaluate(trainers[at], ROWS, 5, pull, NULL, &losses[at]));
        }
        CHECK(losses[0] == losses[1] && weights[0] == weights[1]);
        CHECK_OK(umbo_trainer_get_info(trainers[0], &info));
        CHECK(info.step_count == step + 1);
    }
    for (int at = 0; at < 2; ++at) umbo_trainer_release(trainers[at]);
}

int main(void) {
    calls_from_the_log();
    evaluated_while_choosing();
    two_on_one_strategy();
    used_by_callbacks();
    return finish();
}

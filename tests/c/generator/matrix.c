/* Written by tests/c/generator from umbo.h: every public function, called in every context in which
 * the library calls back. Each call has to come back with an answer other than INTERNAL, whatever
 * the answer is, and afterwards the objects still work and no handle is left.
 *
 *   matrix [--context NAME] [--function NAME] [--patience SECONDS] [--jobs N] [--list]
 *
 * A context is entered anew for each function, with new objects, in a child process that goes from
 * function to function. A child that dies or does not go on is noted, and another one goes on
 * behind the function. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

#include <umbo/dlpack.h>
#include <umbo/tensorflow.h>

/* A number of another library's, which needs no release. */
static float others_number = 7;
static struct DLManagedTensorVersioned others_tensor = {
    {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL, NULL, 0,
    {&others_number, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0}};
static struct DLManagedTensor others_legacy_tensor = {
    {&others_number, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0}, NULL, NULL};

#define NPY_FILE "matrix.npy"
#define IDX_FILE "matrix.idx"
#define CHECKPOINT_FILE "matrix.safetensors"
#define OTHER_FILE "matrix_other.safetensors"

/* What a call may be given; made anew for each call. */
struct objects {
    umbo_tensor *tensor;
    umbo_value *value;
    umbo_strategy *strategy;
    umbo_variable *variable;
    umbo_dataset *dataset;
    umbo_iterator *iterator;
    umbo_gradients *gradients;
    umbo_optimizer *optimizer;
    umbo_cancellation *cancellation;
    umbo_distributed_dataset *distributed_dataset;
    umbo_element_spec *element_spec;
    umbo_equivalence *equivalence;
    umbo_cluster_resolver *cluster_resolver;
    umbo_scope *scope;
    umbo_replica_context *replica_context;
    umbo_variable_request *variable_request;
    umbo_metrics *metrics;
    umbo_checkpoint *checkpoint;
    umbo_checkpoint_manager *checkpoint_manager;
    umbo_communicator *communicator;
    umbo_variable *table;
    umbo_value *structure;
    umbo_value *variable_value;
    umbo_value *per_replica;
    umbo_tensor *indices;
    umbo_value *slices;
    umbo_value *table_slices;
    umbo_value *batch;
    umbo_dataset *batches;
    umbo_gradients *sparse_gradients;
    umbo_element_spec *structure_spec;
    umbo_optimizer *fresh_optimizer;
};

struct function {
    const char *name;
    umbo_status (*call)(struct objects good);
    /* The member whose last reference the call gives up. */
    size_t gives_up;
    int never_succeeds;
};

#define NOTHING ((size_t)-1)
#define REPLICAS 2
#define MOST_FUNCTIONS 1024
#define MOST_CONTEXTS 128
#define MOST_FAILURES 4096

static const char cluster[] =
    "{\"cluster\": {\"worker\": [\"a:1\"]}, \"task\": {\"type\": \"worker\", \"index\": 0}}";
static float numbers[16] = {1};
static umbo_view array_view;
static const char *const idx_file = IDX_FILE;
static const int64_t sizes[1] = {1};
static const int32_t axes[1] = {0};
static const char *const texts[1] = {"x"};
static int64_t cells_of_a_matrix[4];

/* ---- what the children tell their parent */

struct failure {
    int context, function;
    char what[200];
};

static struct {
    /* Whether a function has succeeded in some context, and been refused. */
    int succeeded[MOST_FUNCTIONS];
    int failure_count;
    struct failure failures[MOST_FAILURES];
    struct {
        int function;
        int reached;
    } at[MOST_CONTEXTS];
} *report;

/* The call that is being made. */
static int current_context, current_function, entered;

static void fail(const char *what, const char *detail) {
    const int index = __atomic_fetch_add(&report->failure_count, 1, __ATOMIC_SEQ_CST);
    if (index < MOST_FAILURES) {
        report->failures[index].context = current_context;
        report->failures[index].function = current_function;
        snprintf(report->failures[index].what, sizeof(report->failures[index].what), "%s: %.150s",
                 what, detail);
    }
}

/* The answer of the call that the context is about. */
static void note(umbo_status status) {
    if (status == UMBO_STATUS_INTERNAL) fail("INTERNAL", umbo_last_error_message());
    if (status == UMBO_OK)
        __atomic_store_n(&report->succeeded[current_function], 1, __ATOMIC_RELAXED);
}

/* A step that is part of the frame and not of what is looked at. */
static void demand(umbo_status status, const char *what) {
    if (status != UMBO_OK) {
        char text[160];
        snprintf(text, sizeof(text), "%s gives %s: %.100s", what, umbo_status_name(status),
                 umbo_last_error_message());
        fail("afterwards", text);
    }
}

/* ---- callbacks that are passed to the functions */

/* The objects of the call in progress, for callbacks without user data. */
static struct objects *now;

static CHECK_MAYBE_UNUSED umbo_status good_generator_next_fn(void *pass, void *user_data,
                                                             umbo_value **element) {
    (void)pass;
    (void)user_data;
    (void)element;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_communicator_all_to_all_fn(
    const void *send, const int64_t *send_counts, void *receive, const int64_t *receive_counts,
    void *user_data) {
    (void)receive_counts;
    (void)user_data;
    if (send_counts[0] > 0) memcpy(receive, send, (size_t)send_counts[0]);
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_communicator_all_gather_fn(const void *send, void *receive,
                                                                      const int64_t *counts,
                                                                      void *user_data) {
    (void)user_data;
    if (counts[0] > 0) memcpy(receive, send, (size_t)counts[0]);
    return UMBO_OK;
}

/* A program without MPI. */
static CHECK_MAYBE_UNUSED void *good_mpi_find_fn(const char *name, void *user_data) {
    (void)name;
    (void)user_data;
    return NULL;
}

/* A rank alone. */
static umbo_communicator *make_communicator(void) {
    umbo_communicator *communicator = NULL;
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    functions.flags = UMBO_COMMUNICATOR_ANY_THREAD;
    functions.all_to_all = good_communicator_all_to_all_fn;
    functions.all_gather = good_communicator_all_gather_fn;
    CHECK_OK(umbo_communicator_create(&functions, NULL, NULL, &communicator));
    return communicator;
}

static CHECK_MAYBE_UNUSED umbo_status good_map_fn(const umbo_value *element, void *user_data,
                                                  umbo_value **result) {
    (void)user_data;
    return umbo_value_retain(element, result);
}

static CHECK_MAYBE_UNUSED umbo_status good_dataset_fn(const umbo_input_context *context,
                                                      void *user_data, umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    return umbo_dataset_from_range(0, 4, 1, dataset);
}

static CHECK_MAYBE_UNUSED void good_update_tile_fn(const umbo_update_tile *tile, void *user_data) {
    (void)tile;
    (void)user_data;
}

static CHECK_MAYBE_UNUSED umbo_status good_schedule_fn(int64_t step, void *user_data,
                                                       double *learning_rate) {
    (void)step;
    (void)user_data;
    *learning_rate = 0.1;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_progress_fn(const umbo_progress *progress,
                                                       void *user_data) {
    (void)progress;
    (void)user_data;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_scope_fn(umbo_strategy *strategy, void *user_data) {
    (void)strategy;
    (void)user_data;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_replica_fn(umbo_replica_context *context,
                                                      const umbo_value *args, void *user_data,
                                                      umbo_value **result) {
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_merge_fn(umbo_strategy *strategy, const umbo_value *args,
                                                    void *user_data, umbo_value **result) {
    (void)strategy;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_update_fn(umbo_variable *variable,
                                                     const umbo_value *args, void *user_data,
                                                     umbo_value **result) {
    (void)variable;
    (void)args;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_value_fn(const umbo_value_context *context,
                                                    void *user_data, umbo_value **value) {
    (void)context;
    (void)user_data;
    return umbo_value_retain(now->value, value);
}

static CHECK_MAYBE_UNUSED umbo_status good_variable_creator_fn(umbo_variable_request *request,
                                                            void *user_data,
                                                            umbo_variable **variable) {
    (void)request;
    (void)user_data;
    (void)variable;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED void good_log_fn(umbo_log_level level, const char *message,
                                                 void *user_data) {
    (void)level;
    (void)message;
    (void)user_data;
}

/* ---- what some functions need first */

static umbo_status submit_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    const struct objects *good = user_data;
    umbo_view view;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(good->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    *(float *)view.mutable_data = 1;
    return umbo_gradients_submit_weighted(good->gradients, context, 1);
}

static umbo_status metric_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    return umbo_replica_context_add_metric(context, "x", 1, 1);
}

/* Something to apply, if the context allows runs or is a replica's. */
static void submit_in_place(struct objects good) {
    umbo_value *result = NULL;
    if (umbo_strategy_run(good.strategy, submit_on_a_replica, &good, NULL, NULL, NULL) != UMBO_OK)
        (void)submit_on_a_replica(good.replica_context, NULL, &good, &result);
}

/* A scope to be left, if the context allows one. */
static umbo_scope *scope_in_place(struct objects good) {
    umbo_scope *scope = NULL;
    return umbo_scope_enter(good.strategy, &scope) == UMBO_OK ? scope : NULL;
}

/* Where an iterator is, if the context allows asking. */
static void place_of(umbo_iterator *iterator, char *text, size_t capacity) {
    size_t length = 0;
    text[0] = '\0';
    umbo_ignore(umbo_iterator_save_position(iterator, text, capacity, &length));
}

static void prepare_metric(struct objects good) {
    umbo_ignore(umbo_strategy_run(good.strategy, metric_on_a_replica, NULL, NULL, NULL, NULL));
}

static void prepare_report(struct objects good) {
    umbo_ignore(umbo_strategy_measure_steps(good.strategy, 1));
    prepare_metric(good);
}

/* ---- the calls, one for each function */

/* CALLS */
static const struct function functions[] = {
    /* TABLE */
};

#define FUNCTIONS COUNT_OF(functions)

/* ---- objects */

static umbo_value *value_of_shape(int32_t rank, const int64_t *shape) {
    return into_value(make_tensor(UMBO_DTYPE_FLOAT32, rank, shape, numbers));
}

static umbo_status remember_context(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    struct objects *good = user_data;
    (void)args;
    (void)result;
    if (replica_id(context) == 0) good->replica_context = context;
    return UMBO_OK;
}

/* An accuracy, a confusion matrix and an AUC. */
static umbo_metrics *make_metrics(umbo_strategy *strategy) {
    umbo_metrics *metrics = NULL;
    umbo_metric_options options = UMBO_METRIC_OPTIONS_INIT;
    options.classes = 2;
    CHECK_OK(umbo_metrics_create(strategy, &metrics));
    CHECK_OK(umbo_metrics_define(metrics, "x", UMBO_METRIC_ACCURACY, NULL, NULL));
    CHECK_OK(umbo_metrics_define(metrics, "matrix", UMBO_METRIC_CONFUSION, &options, NULL));
    CHECK_OK(umbo_metrics_define(metrics, "auc", UMBO_METRIC_AUC, NULL, NULL));
    return metrics;
}

/* A variable and two numbers, which lie in a file already. */
static umbo_checkpoint *make_checkpoint(const struct objects *good) {
    umbo_checkpoint *checkpoint = NULL;
    CHECK_OK(umbo_checkpoint_create(good->strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, NULL, good->variable));
    CHECK_OK(umbo_checkpoint_set_number(checkpoint, "number", 1));
    CHECK_OK(umbo_checkpoint_set_integer(checkpoint, "integer", 1));
    CHECK_OK(umbo_checkpoint_save(checkpoint, CHECKPOINT_FILE));
    return checkpoint;
}

static void make_objects(struct objects *good) {
    const int64_t row_index = 0, one = 1, three = 3;
    const int64_t table_shape[2] = {2, 2};
    const int32_t row_sparse[1] = {1};
    umbo_value *items[REPLICAS];
    umbo_variable *variable;
    umbo_tensor *matrix;
    umbo_dataset *structures;
    float row[2] = {1, 1};
    int32_t index;
    umbo_strategy_options strategy_options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_variable_options variable_options = UMBO_VARIABLE_OPTIONS_INIT;
    umbo_gradients_options gradients_options = UMBO_GRADIENTS_OPTIONS_INIT;
    memset(good, 0, sizeof(*good));
    CHECK_OK(umbo_cluster_resolver_from_tf_config(cluster, &good->cluster_resolver));
    good->communicator = make_communicator();
    strategy_options.cpu_replicas = REPLICAS;
    strategy_options.cluster_resolver = good->cluster_resolver;
    CHECK_OK(umbo_strategy_create(&strategy_options, &good->strategy));
    good->tensor = make_floats(1, numbers);
    CHECK_OK(umbo_tensor_view(good->tensor, &array_view));
    CHECK_OK(umbo_value_from_tensor(good->tensor, &good->value));
    variable_options.aggregation = UMBO_AGGREGATION_MEAN;
    CHECK_OK(umbo_variable_create(good->strategy, "v", good->tensor, &variable_options, &variable));
    good->variable = variable;
    matrix = make_tensor(UMBO_DTYPE_FLOAT32, 2, table_shape, numbers);
    CHECK_OK(umbo_variable_create(good->strategy, "t", matrix, &variable_options, &good->table));
    umbo_tensor_release(matrix);
    CHECK_OK(umbo_dataset_from_tensor_slices(good->value, &good->dataset));
    CHECK_OK(umbo_dataset_from_tensors(good->value, &good->batches));
    CHECK_OK(umbo_iterator_from_dataset(good->dataset, &good->iterator));
    CHECK_OK(umbo_strategy_distribute_dataset(good->strategy, good->batches, NULL,
                                              &good->distributed_dataset));
    CHECK_OK(umbo_dataset_element_spec(good->dataset, &good->element_spec));
    gradients_options.loss_reduction = UMBO_LOSS_SUM;
    CHECK_OK(umbo_gradients_create(good->strategy, 1,
                                   &good->variable,
                                   &gradients_options, &good->gradients));
    gradients_options.row_sparse = row_sparse;
    CHECK_OK(umbo_gradients_create(good->strategy, 1, &good->table,
                                   &gradients_options, &good->sparse_gradients));
    CHECK_OK(umbo_optimizer_create_momentum(good->strategy, NULL, &good->optimizer));
    CHECK_OK(umbo_optimizer_create_sgd(good->strategy, NULL, &good->fresh_optimizer));
    CHECK_OK(umbo_cancellation_create(&good->cancellation));
    good->metrics = make_metrics(good->strategy);
    good->checkpoint = make_checkpoint(good);
    CHECK_OK(umbo_checkpoint_manager_create(good->checkpoint, "matrix_checkpoints", NULL,
                                            &good->checkpoint_manager));
    CHECK_OK(umbo_value_create_struct(1, texts, (const umbo_value *const *)&good->value,
                               &good->structure));
    CHECK_OK(umbo_value_from_variable(good->variable, &good->variable_value));
    for (index = 0; index < REPLICAS; index++) items[index] = value_of_shape(1, &one);
    good->per_replica = into_per_replica(REPLICAS, items);
    good->indices = make_tensor(UMBO_DTYPE_INT64, 1, &one, &row_index);
    CHECK_OK(umbo_value_create_indexed_slices(good->tensor, good->indices, 1, &one, &good->slices));
    good->table_slices = make_slices(1, row, &row_index, 2);
    good->batch = value_of_shape(1, &three);
    CHECK_OK(umbo_dataset_from_tensors(good->structure, &structures));
    CHECK_OK(umbo_dataset_element_spec(structures, &good->structure_spec));
    umbo_dataset_release(structures);
    CHECK_OK(umbo_strategy_check_equivalence(good->strategy, submit_on_a_replica, good, good->batch,
                                             good->gradients, NULL, &good->equivalence));
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, good, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(good->optimizer, good->gradients, NULL, NULL));
    CHECK_OK(umbo_strategy_run(good->strategy, remember_context, good, NULL, NULL, NULL));
}

#define RELEASE(type, member) \
    if (gone != offsetof(struct objects, member)) umbo_##type##_release(good->member)

/* All but what the call has given up. */
static void release_objects(struct objects *good, size_t gone) {
    RELEASE(optimizer, fresh_optimizer);
    RELEASE(element_spec, structure_spec);
    RELEASE(gradients, sparse_gradients);
    RELEASE(dataset, batches);
    RELEASE(value, batch);
    RELEASE(value, table_slices);
    RELEASE(value, slices);
    RELEASE(tensor, indices);
    RELEASE(value, per_replica);
    RELEASE(value, variable_value);
    RELEASE(value, structure);
    RELEASE(variable, table);
    RELEASE(communicator, communicator);
    RELEASE(checkpoint_manager, checkpoint_manager);
    RELEASE(checkpoint, checkpoint);
    RELEASE(metrics, metrics);
    RELEASE(cluster_resolver, cluster_resolver);
    RELEASE(equivalence, equivalence);
    RELEASE(element_spec, element_spec);
    RELEASE(distributed_dataset, distributed_dataset);
    RELEASE(cancellation, cancellation);
    RELEASE(optimizer, optimizer);
    RELEASE(gradients, gradients);
    RELEASE(iterator, iterator);
    RELEASE(dataset, dataset);
    RELEASE(variable, variable);
    RELEASE(value, value);
    RELEASE(tensor, tensor);
    RELEASE(strategy, strategy);
}

static umbo_status add_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    umbo_view view;
    float sum = 0;
    (void)args;
    UMBO_TRY(umbo_variable_view(user_data, context, &view));
    sum = *(const float *)view.data + 1;
    return return_float(sum, result);
}

/* After a call everything that it has not given up works as before. */
static void check_objects(struct objects *good, size_t gone) {
    umbo_value *result = NULL;
    umbo_tensor *tensor = NULL;
    umbo_view view;
    if (gone != offsetof(struct objects, strategy)) {
        demand(umbo_strategy_synchronize(good->strategy), "synchronize");
        if (gone != offsetof(struct objects, variable)) {
            demand(umbo_strategy_run(good->strategy, add_on_a_replica, good->variable, NULL, NULL,
                                     &result),
                   "a run");
            umbo_value_release(result);
            demand(umbo_variable_assign(good->variable, good->per_replica), "an assignment");
        }
    }
    if (gone != offsetof(struct objects, variable)) {
        demand(umbo_variable_read(good->variable, &tensor), "a read");
        umbo_tensor_release(tensor);
    }
    if (gone != offsetof(struct objects, tensor))
        demand(umbo_tensor_view(good->tensor, &view), "a view");
}

/* ---- contexts */

/* Objects of the call in progress, and where the context has got to. */
struct scene {
    struct objects good;
    /* The iterator that is being advanced, if any. */
    umbo_iterator *own;
    umbo_replica_context *context;
    /* A run returned while its callbacks were in it: they are late. How many of them use the scene no
     * more. */
    int inside, returned, done;
    umbo_cancellation *token;
    /* Memory of foreign tensors. */
    float memory[4];
    /* How many elements a generator has yet to make. */
    int left;
    /* What a function of a generator or a communicator has to be to be looked at. */
    int part;
    int flag;
    pthread_key_t key;
};

enum { BEGIN = 1, NEXT, RESET, END, ALL_TO_ALL, ALL_GATHER, BROADCAST, VOTE, BARRIER, ABORT };

/* Makes the call with these objects. */
static void probe(const struct scene *scene, umbo_replica_context *context,
                  umbo_variable_request *request) {
    struct objects good = scene->good;
    const struct function *function = &functions[current_function];
    const int first = __atomic_exchange_n(&entered, 1, __ATOMIC_SEQ_CST) == 0;
    if (function->gives_up != NOTHING && !first) return;
    if (context != NULL) good.replica_context = context;
    if (request != NULL) good.variable_request = request;
    if (scene->own != NULL && function->gives_up != offsetof(struct objects, iterator))
        good.iterator = scene->own;
    (void)function->call(good);
}

/* As probe, but only the first time that the context comes by. */
static void probe_once(const struct scene *scene, umbo_variable_request *request) {
    if (!__atomic_load_n(&entered, __ATOMIC_SEQ_CST)) probe(scene, NULL, request);
}

static void nothing_open(struct scene *scene) { probe(scene, NULL, NULL); }

/* -- umbo_replica_fn */

static umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    (void)args;
    (void)result;
    probe(user_data, context, NULL);
    return UMBO_OK;
}

static void a_replica(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, on_a_replica, scene, NULL, NULL, NULL));
}

static void a_replica_with_limits(struct scene *scene) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.timeout_seconds = 3600;
    options.cancellation = scene->good.cancellation;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, on_a_replica, scene, NULL, &options, NULL));
}

static void a_replica_of_the_default_strategy(struct scene *scene) {
    umbo_strategy *strategy = NULL;
    CHECK_OK(umbo_default_strategy(&strategy));
    umbo_ignore(umbo_strategy_run(strategy, on_a_replica, scene, NULL, NULL, NULL));
    umbo_strategy_release(strategy);
}

static void each_replica(struct scene *scene) {
    umbo_ignore(umbo_strategy_call_for_each_replica(scene->good.strategy, on_a_replica, scene, NULL,
                                                    NULL));
}

static void a_check_of_equivalence(struct scene *scene) {
    umbo_equivalence *equivalence = NULL;
    umbo_ignore(umbo_strategy_check_equivalence(scene->good.strategy, on_a_replica, scene,
                                                scene->good.batch, NULL, NULL, &equivalence));
    umbo_equivalence_release(equivalence);
}

/* The last replica that comes here stops the run, and all wait until it has returned. */
static void be_late(struct scene *scene) {
    if (__atomic_add_fetch(&scene->inside, 1, __ATOMIC_SEQ_CST) == REPLICAS)
        CHECK_OK(umbo_cancellation_cancel(scene->token));
    while (!__atomic_load_n(&scene->returned, __ATOMIC_SEQ_CST)) usleep(50);
}

static umbo_status late_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                     void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    (void)args;
    (void)result;
    be_late(scene);
    probe(scene, context, NULL);
    __atomic_add_fetch(&scene->done, 1, __ATOMIC_SEQ_CST);
    return UMBO_OK;
}

/* Runs a callback that is late, and comes back when it is back. */
static void run_late(struct scene *scene, umbo_replica_fn function, umbo_destroy_fn destroy) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    CHECK_OK(umbo_cancellation_create(&scene->token));
    options.cancellation = scene->token;
    options.user_data_destroy = destroy;
    CHECK_STATUS(umbo_strategy_run(scene->good.strategy, function, scene, NULL, &options, NULL),
                 UMBO_STATUS_CANCELLED);
    umbo_cancellation_release(scene->token);
    __atomic_store_n(&scene->returned, 1, __ATOMIC_SEQ_CST);
}

static int64_t late_replicas(const umbo_strategy *strategy) {
    int64_t count = 0;
    return umbo_strategy_late_replicas(strategy, &count) == UMBO_OK ? count : 0;
}

static void a_late_replica(struct scene *scene) {
    run_late(scene, late_on_a_replica, NULL);
    /* The strategy cannot be asked for late replicas where the call has released it. */
    while (__atomic_load_n(&scene->done, __ATOMIC_SEQ_CST) < REPLICAS) usleep(100);
    while (late_replicas(scene->good.strategy) != 0) usleep(100);
}

/* -- umbo_merge_fn */

static umbo_status in_a_merge(umbo_strategy *strategy, const umbo_value *args, void *user_data,
                              umbo_value **result) {
    const struct scene *scene = user_data;
    (void)strategy;
    (void)args;
    (void)result;
    probe(scene, scene->context, NULL);
    return UMBO_OK;
}

static umbo_status runs_in_a_merge(umbo_strategy *strategy, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    (void)args;
    (void)result;
    umbo_ignore(umbo_strategy_run(strategy, on_a_replica, user_data, NULL, NULL, NULL));
    return UMBO_OK;
}

static umbo_status update_with_a_probe(umbo_variable *variable, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    const struct scene *scene = user_data;
    (void)variable;
    (void)args;
    (void)result;
    probe(scene, scene->context, NULL);
    return UMBO_OK;
}

static umbo_status updates_in_a_merge(umbo_strategy *strategy, const umbo_value *args,
                                      void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    (void)args;
    (void)result;
    umbo_ignore(umbo_strategy_update(strategy, scene->good.variable, update_with_a_probe, scene,
                                     NULL, NULL, NULL));
    return UMBO_OK;
}

/* What all replicas call in a merging context. */
static umbo_merge_fn merged;

static umbo_status merging_replica(umbo_replica_context *context, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    (void)args;
    (void)result;
    if (replica_id(context) == 0) scene->context = context;
    umbo_ignore(umbo_replica_context_merge_call(context, merged, scene, NULL, NULL));
    return UMBO_OK;
}

static void merge(struct scene *scene, umbo_merge_fn function, int limits) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    merged = function;
    options.timeout_seconds = 3600;
    options.cancellation = scene->good.cancellation;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, merging_replica, scene, NULL,
                                  limits ? &options : NULL, NULL));
}

static void a_merge(struct scene *scene) { merge(scene, in_a_merge, 0); }
static void a_merge_with_limits(struct scene *scene) { merge(scene, in_a_merge, 1); }
static void a_nested_replica(struct scene *scene) { merge(scene, runs_in_a_merge, 0); }
static void a_nested_replica_with_limits(struct scene *scene) {
    merge(scene, runs_in_a_merge, 1);
}
static void an_update_in_a_merge(struct scene *scene) { merge(scene, updates_in_a_merge, 0); }

/* -- umbo_update_fn */

static void an_update(struct scene *scene) {
    umbo_ignore(umbo_strategy_update(scene->good.strategy, scene->good.variable,
                                     update_with_a_probe, scene, NULL, NULL, NULL));
}

static void an_update_of_no_slot(struct scene *scene) {
    umbo_ignore(umbo_strategy_update_non_slot(scene->good.strategy, scene->good.variable,
                                              update_with_a_probe, scene, NULL, NULL, NULL));
}

static umbo_status updating_replica(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    (void)args;
    (void)result;
    if (replica_id(context) == 0) scene->context = context;
    umbo_ignore(umbo_strategy_update(scene->good.strategy, scene->good.variable,
                                     update_with_a_probe, scene, NULL, NULL, NULL));
    return UMBO_OK;
}

static void an_update_of_replicas(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, updating_replica, scene, NULL, NULL, NULL));
}

/* -- umbo_destroy_fn */

static void probing_destroy(void *user_data) { probe_once(user_data, NULL); }

static void the_destroy_of_a_run(struct scene *scene) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.user_data_destroy = probing_destroy;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, good_replica_fn, scene, NULL, &options,
                                  NULL));
}

static umbo_status late_without_a_probe(umbo_replica_context *context, const umbo_value *args,
                                        void *user_data, umbo_value **result) {
    (void)context;
    (void)args;
    (void)result;
    be_late(user_data);
    return UMBO_OK;
}

static void signalling_destroy(void *user_data) {
    struct scene *scene = user_data;
    probe_once(scene, NULL);
    __atomic_store_n(&scene->flag, 1, __ATOMIC_SEQ_CST);
}

static void the_destroy_of_a_late_run(struct scene *scene) {
    run_late(scene, late_without_a_probe, signalling_destroy);
    while (!__atomic_load_n(&scene->flag, __ATOMIC_SEQ_CST)) usleep(100);
}

/* The run cannot start, since its user data's strategy is the default one's replica already. */
static umbo_status run_that_cannot_start(umbo_replica_context *context, const umbo_value *args,
                                         void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    (void)args;
    (void)result;
    options.user_data_destroy = probing_destroy;
    if (replica_id(context) == 0)
        umbo_ignore(umbo_strategy_run(scene->good.strategy, good_replica_fn, scene, NULL, &options,
                                      NULL));
    return UMBO_OK;
}

static void the_destroy_of_a_run_that_cannot_start(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, run_that_cannot_start, scene, NULL, NULL,
                                  NULL));
}

static umbo_tensor *foreign_tensor(struct scene *scene) {
    umbo_tensor *tensor = NULL;
    CHECK_OK(umbo_tensor_from_memory(UMBO_DTYPE_FLOAT32, 1, sizes, NULL, scene->memory, NULL, scene,
                                     probing_destroy, &tensor));
    return tensor;
}

static void the_destroy_of_a_tensor(struct scene *scene) {
    umbo_tensor_release(foreign_tensor(scene));
}

static umbo_status releasing_replica(umbo_replica_context *context, const umbo_value *args,
                                     void *user_data, umbo_value **result) {
    (void)args;
    (void)result;
    if (replica_id(context) == 1) umbo_tensor_release(foreign_tensor(user_data));
    return UMBO_OK;
}

static void the_destroy_of_a_tensor_on_a_replica(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, releasing_replica, scene, NULL, NULL,
                                  NULL));
}

static umbo_status releasing_merge(umbo_strategy *strategy, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    (void)strategy;
    (void)args;
    (void)result;
    umbo_tensor_release(foreign_tensor(user_data));
    return UMBO_OK;
}

static void the_destroy_of_a_tensor_in_a_merge(struct scene *scene) {
    merge(scene, releasing_merge, 0);
}

static umbo_status discarding_replica(umbo_replica_context *context, const umbo_value *args,
                                      void *user_data, umbo_value **result) {
    (void)args;
    *result = into_value(replica_id(context) == 1 ? foreign_tensor(user_data)
                                                  : make_floats(1, numbers));
    return UMBO_OK;
}

static void the_destroy_of_a_discarded_result(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, discarding_replica, scene, NULL, NULL,
                                  NULL));
}

static void the_destroy_of_a_payload(struct scene *scene) {
    (void)umbo_set_last_error(UMBO_STATUS_ABORTED, "x", scene, probing_destroy);
    umbo_clear_last_error();
}

static umbo_status failing_replica(umbo_replica_context *context, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    (void)args;
    (void)result;
    return replica_id(context) == 1
               ? umbo_set_last_error(UMBO_STATUS_ABORTED, "x", user_data, probing_destroy)
               : UMBO_OK;
}

static void the_destroy_of_a_payload_that_travelled(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, failing_replica, scene, NULL, NULL, NULL));
    umbo_clear_last_error();
}

/* -- umbo_log_fn */

static void probing_log(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    (void)message;
    probe_once(user_data, NULL);
}

/* The release of what is no handle is logged. */
static void release_what_is_no_handle(void) { umbo_tensor_release((umbo_tensor *)(size_t)0x10); }

static void the_log(struct scene *scene) {
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, probing_log, scene, NULL));
    release_what_is_no_handle();
}

static umbo_status logging_replica(umbo_replica_context *context, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    if (replica_id(context) == 1) release_what_is_no_handle();
    return UMBO_OK;
}

static void the_log_of_a_replica(struct scene *scene) {
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, probing_log, scene, NULL));
    umbo_ignore(umbo_strategy_run(scene->good.strategy, logging_replica, scene, NULL, NULL, NULL));
}

static void the_destroy_of_a_log(struct scene *scene) {
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, good_log_fn, scene, probing_destroy));
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_DEBUG, NULL, NULL, NULL));
}

/* -- umbo_schedule_fn */

static umbo_status probing_schedule(int64_t step, void *user_data, double *learning_rate) {
    (void)step;
    probe_once(user_data, NULL);
    *learning_rate = 0.5;
    return UMBO_OK;
}

static void a_schedule(struct scene *scene) {
    struct objects *good = &scene->good;
    CHECK_OK(umbo_optimizer_set_schedule(good->optimizer, probing_schedule, scene, NULL));
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, good, NULL, NULL, NULL));
    umbo_ignore(umbo_optimizer_apply(good->optimizer, good->gradients, NULL, NULL));
}

static umbo_status applying_replica(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    UMBO_TRY(submit_on_a_replica(context, args, &scene->good, result));
    return umbo_optimizer_apply(scene->good.optimizer, scene->good.gradients, NULL, NULL);
}

static void a_schedule_at_the_commit(struct scene *scene) {
    struct objects *good = &scene->good;
    CHECK_OK(umbo_optimizer_set_schedule(good->optimizer, probing_schedule, scene, NULL));
    umbo_ignore(umbo_strategy_run(good->strategy, applying_replica, scene, NULL, NULL, NULL));
}

/* -- umbo_update_tile_fn */

static void probing_rule(const umbo_update_tile *tile, void *user_data) {
    (void)tile;
    probe_once(user_data, NULL);
}

static void a_rule(struct scene *scene) {
    struct objects *good = &scene->good;
    umbo_optimizer *optimizer = NULL;
    CHECK_OK(umbo_optimizer_create_custom(good->strategy, NULL, probing_rule, scene, NULL, &optimizer));
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, good, NULL, NULL, NULL));
    umbo_ignore(umbo_optimizer_apply(optimizer, good->gradients, NULL, NULL));
    umbo_optimizer_release(optimizer);
}

static void the_destroy_of_a_schedule(struct scene *scene) {
    CHECK_OK(umbo_optimizer_set_schedule(scene->good.optimizer, good_schedule_fn, scene,
                                         probing_destroy));
    CHECK_OK(umbo_optimizer_set_schedule(scene->good.optimizer, NULL, NULL, NULL));
}

/* -- umbo_progress_fn */

static umbo_status probing_progress(const umbo_progress *progress, void *user_data) {
    (void)progress;
    probe_once(user_data, NULL);
    return UMBO_OK;
}

static void a_progress(struct scene *scene) {
    struct objects *good = &scene->good;
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    options.metrics = good->metrics;
    options.progress = probing_progress;
    options.progress_user_data = scene;
    umbo_ignore(umbo_train_epoch(good->strategy, good->iterator, good->optimizer, good->gradients,
                                 submit_on_a_replica, good, &options, NULL));
}

/* -- umbo_map_fn */

static umbo_status probing_map(const umbo_value *element, void *user_data, umbo_value **result) {
    probe_once(user_data, NULL);
    return umbo_value_retain(element, result);
}

/* Four scalars. */
static umbo_dataset *four_elements(void) {
    umbo_dataset *dataset = NULL;
    CHECK_OK(umbo_dataset_from_range(0, 4, 1, &dataset));
    return dataset;
}

/* Takes all elements of an iterator, and gives the dataset up. */
static void take_all(struct scene *scene, umbo_dataset *dataset, int prefetch, int resets) {
    umbo_dataset *prefetched = NULL;
    umbo_iterator *own = NULL;
    if (prefetch) {
        CHECK_OK(umbo_dataset_retain(dataset, &prefetched));
        CHECK_OK(umbo_dataset_prefetch(&prefetched, 2));
        umbo_dataset_release(dataset);
        dataset = prefetched;
    }
    CHECK_OK(umbo_iterator_from_dataset(dataset, &own));
    umbo_dataset_release(dataset);
    scene->own = own;
    for (; resets >= 0; resets--) {
        int32_t has_value = 1;
        int attempts = 0;
        while (has_value && attempts++ < 16) {
            umbo_value *element = NULL;
            if (umbo_iterator_next_as_optional(own, &has_value, &element) != UMBO_OK) continue;
            umbo_value_release(element);
            if (resets > 0) break;
        }
        if (resets > 0) umbo_ignore(umbo_iterator_reset(own));
    }
    umbo_iterator_release(own);
    scene->own = NULL;
}

static void map(struct scene *scene, int parallel, int prefetch) {
    umbo_dataset *source = four_elements(), *mapped = NULL;
    umbo_map_options options = UMBO_MAP_OPTIONS_INIT;
    options.parallel_calls = parallel;
    CHECK_OK(umbo_dataset_retain(source, &mapped));
    CHECK_OK(umbo_dataset_map(&mapped, probing_map, scene, NULL, &options));
    umbo_dataset_release(source);
    take_all(scene, mapped, prefetch, 1);
}

static void a_map(struct scene *scene) { map(scene, 1, 0); }
static void a_parallel_map(struct scene *scene) { map(scene, 2, 0); }
static void a_prefetched_map(struct scene *scene) { map(scene, 1, 1); }
static void a_prefetched_parallel_map(struct scene *scene) { map(scene, 2, 1); }

/* The iterator itself is given up in its own map function. */
static umbo_status releasing_map(const umbo_value *element, void *user_data,
                                 umbo_value **result) {
    struct scene *scene = user_data;
    if (__atomic_exchange_n(&scene->flag, 1, __ATOMIC_SEQ_CST) == 0) {
        probe(scene, NULL, NULL);
        umbo_iterator_release(scene->own);
    }
    return umbo_value_retain(element, result);
}

static void release_in_the_map(struct scene *scene, int parallel, int prefetch) {
    umbo_dataset *source = four_elements(), *mapped = NULL, *prefetched = NULL;
    umbo_iterator *own = NULL;
    umbo_value *element = NULL;
    umbo_map_options options = UMBO_MAP_OPTIONS_INIT;
    options.parallel_calls = parallel;
    CHECK_OK(umbo_dataset_retain(source, &mapped));
    CHECK_OK(umbo_dataset_map(&mapped, releasing_map, scene, NULL, &options));
    umbo_dataset_release(source);
    if (prefetch) {
        CHECK_OK(umbo_dataset_retain(mapped, &prefetched));
        CHECK_OK(umbo_dataset_prefetch(&prefetched, 2));
        umbo_dataset_release(mapped);
        mapped = prefetched;
    }
    CHECK_OK(umbo_iterator_from_dataset(mapped, &own));
    umbo_dataset_release(mapped);
    __atomic_store_n(&scene->own, own, __ATOMIC_SEQ_CST);
    umbo_ignore(umbo_iterator_next(own, &element));
    umbo_value_release(element);
    scene->own = NULL;
}

static void a_map_that_releases(struct scene *scene) { release_in_the_map(scene, 1, 0); }
static void a_parallel_map_that_releases(struct scene *scene) { release_in_the_map(scene, 2, 0); }

static void the_destroy_of_a_map(struct scene *scene) {
    umbo_dataset *source = four_elements(), *mapped = NULL;
    CHECK_OK(umbo_dataset_retain(source, &mapped));
    CHECK_OK(umbo_dataset_map(&mapped, good_map_fn, scene, probing_destroy, NULL));
    umbo_dataset_release(source);
    umbo_dataset_release(mapped);
}

/* -- umbo_generator_begin_fn, umbo_generator_next_fn, umbo_generator_reset_fn,
 * umbo_generator_end_fn */

static umbo_status /* umbo_generator_begin_fn */ begin_pass(void *user_data, void **pass) {
    struct scene *scene = user_data;
    *pass = scene;
    scene->left = 3;
    if (scene->part == BEGIN) probe_once(scene, NULL);
    return UMBO_OK;
}

static umbo_status /* umbo_generator_next_fn */ next_of_pass(void *pass, void *user_data,
                                                             umbo_value **element) {
    struct scene *scene = user_data;
    (void)pass;
    if (scene->part == NEXT) probe_once(scene, NULL);
    if (scene->left-- <= 0) return UMBO_OK;
    *element = float_value(1);
    return UMBO_OK;
}

static umbo_status /* umbo_generator_reset_fn */ reset_pass(void *pass, void *user_data) {
    struct scene *scene = user_data;
    (void)pass;
    scene->left = 3;
    if (scene->part == RESET) probe_once(scene, NULL);
    return UMBO_OK;
}

static void /* umbo_generator_end_fn */ end_pass(void *pass, void *user_data) {
    struct scene *scene = user_data;
    (void)pass;
    if (scene->part == END) probe_once(scene, NULL);
}

static umbo_dataset *generated(struct scene *scene, umbo_destroy_fn destroy) {
    umbo_dataset *dataset = NULL;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    generator.begin = begin_pass;
    generator.next = next_of_pass;
    generator.reset = reset_pass;
    generator.end = end_pass;
    CHECK_OK(umbo_dataset_from_generator(scene->good.element_spec, &generator, scene, destroy,
                                         &dataset));
    return dataset;
}

static void generate(struct scene *scene, int part, int prefetch) {
    scene->part = part;
    take_all(scene, generated(scene, NULL), prefetch, 2);
}

static void the_begin_of_a_generator(struct scene *scene) { generate(scene, BEGIN, 0); }
static void the_next_of_a_generator(struct scene *scene) { generate(scene, NEXT, 0); }
static void the_reset_of_a_generator(struct scene *scene) { generate(scene, RESET, 0); }
static void the_end_of_a_generator(struct scene *scene) { generate(scene, END, 0); }
static void the_begin_of_a_prefetched_generator(struct scene *scene) { generate(scene, BEGIN, 1); }
static void the_next_of_a_prefetched_generator(struct scene *scene) { generate(scene, NEXT, 1); }
static void the_reset_of_a_prefetched_generator(struct scene *scene) { generate(scene, RESET, 1); }
static void the_end_of_a_prefetched_generator(struct scene *scene) { generate(scene, END, 1); }

static void the_destroy_of_a_generator(struct scene *scene) {
    umbo_dataset_release(generated(scene, probing_destroy));
}

static void the_next_of_a_distributed_generator(struct scene *scene) {
    umbo_dataset *source = NULL, *batches = NULL;
    umbo_distributed_dataset *distributed = NULL;
    umbo_iterator *own = NULL;
    umbo_value *element = NULL;
    scene->part = NEXT;
    source = generated(scene, NULL);
    CHECK_OK(umbo_dataset_retain(source, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 2, 0));
    umbo_dataset_release(source);
    CHECK_OK(umbo_strategy_distribute_dataset(scene->good.strategy, batches, NULL, &distributed));
    umbo_dataset_release(batches);
    CHECK_OK(umbo_iterator_from_distributed_dataset(distributed, &own));
    umbo_distributed_dataset_release(distributed);
    scene->own = own;
    umbo_ignore(umbo_iterator_next(own, &element));
    umbo_value_release(element);
    umbo_iterator_release(own);
    scene->own = NULL;
}

/* -- umbo_communicator_all_to_all_fn and what stands beside it in umbo_communicator_functions */

static umbo_status /* umbo_communicator_all_to_all_fn */ all_to_all_alone(
    const void *send, const int64_t *send_counts, void *receive, const int64_t *receive_counts,
    void *user_data) {
    struct scene *scene = user_data;
    if (scene->part == ALL_TO_ALL) probe(scene, NULL, NULL);
    return good_communicator_all_to_all_fn(send, send_counts, receive, receive_counts, NULL);
}

static umbo_status /* umbo_communicator_all_gather_fn */ all_gather_alone(const void *send, void *receive,
                                                                         const int64_t *counts,
                                                                         void *user_data) {
    struct scene *scene = user_data;
    if (scene->part == ALL_GATHER) probe(scene, NULL, NULL);
    return good_communicator_all_gather_fn(send, receive, counts, NULL);
}

static umbo_status /* umbo_communicator_broadcast_fn */ broadcast_alone(void *data, int64_t bytes,
                                                                        int64_t root, void *user_data) {
    struct scene *scene = user_data;
    (void)data;
    (void)bytes;
    (void)root;
    if (scene->part == BROADCAST) probe(scene, NULL, NULL);
    return UMBO_OK;
}

static umbo_status /* umbo_communicator_vote_fn */ vote_alone(int64_t number, int64_t *least,
                                                              int64_t *greatest, void *user_data) {
    struct scene *scene = user_data;
    *least = *greatest = number;
    if (scene->part == VOTE) probe(scene, NULL, NULL);
    return UMBO_OK;
}

static umbo_status /* umbo_communicator_barrier_fn */ barrier_alone(void *user_data) {
    struct scene *scene = user_data;
    if (scene->part == BARRIER) probe(scene, NULL, NULL);
    return UMBO_OK;
}

static void /* umbo_communicator_abort_fn */ abort_alone(const char *message, void *user_data) {
    struct scene *scene = user_data;
    (void)message;
    if (scene->part == ABORT) probe(scene, NULL, NULL);
}

static void communicate(struct scene *scene, int part, umbo_destroy_fn destroy) {
    const int64_t counts[1] = {sizeof(float)};
    const float sent = 1;
    float received = 0;
    int64_t least = 0, greatest = 0;
    umbo_communicator *communicator = NULL;
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    functions.all_to_all = all_to_all_alone;
    functions.all_gather = all_gather_alone;
    functions.broadcast = broadcast_alone;
    functions.vote = vote_alone;
    functions.barrier = barrier_alone;
    functions.abort = abort_alone;
    scene->part = part;
    CHECK_OK(umbo_communicator_create(&functions, scene, destroy, &communicator));
    umbo_ignore(umbo_communicator_all_to_all(communicator, &sent, counts, &received, counts));
    umbo_ignore(umbo_communicator_all_gather(communicator, &sent, &received, counts));
    umbo_ignore(umbo_communicator_broadcast(communicator, &received, sizeof(received), 0));
    umbo_ignore(umbo_communicator_vote(communicator, 1, &least, &greatest));
    umbo_ignore(umbo_communicator_barrier(communicator));
    umbo_ignore(umbo_communicator_abort(communicator, "the end"));
    umbo_communicator_release(communicator);
}

static void an_all_to_all(struct scene *scene) { communicate(scene, ALL_TO_ALL, NULL); }
static void an_all_gather(struct scene *scene) { communicate(scene, ALL_GATHER, NULL); }
static void a_broadcast(struct scene *scene) { communicate(scene, BROADCAST, NULL); }
static void a_vote(struct scene *scene) { communicate(scene, VOTE, NULL); }
static void a_barrier(struct scene *scene) { communicate(scene, BARRIER, NULL); }
static void an_abort(struct scene *scene) { communicate(scene, ABORT, NULL); }
static void the_destroy_of_a_communicator(struct scene *scene) { communicate(scene, 0, probing_destroy); }

/* -- umbo_mpi_find_fn */

static void *find_nothing(const char *name, void *user_data) {
    (void)name;
    probe(user_data, NULL, NULL);
    return NULL;
}

static void a_search_for_mpi(struct scene *scene) {
    umbo_communicator *communicator = NULL;
    umbo_ignore(umbo_communicator_create_mpi_of(numbers, find_nothing, scene, NULL, &communicator));
}

static umbo_status next_is_foreign(void *pass, void *user_data, umbo_value **element) {
    struct scene *scene = user_data;
    (void)pass;
    if (scene->left-- <= 0) return UMBO_OK;
    *element = into_value(foreign_tensor(scene));
    return UMBO_OK;
}

/* The elements wait in a buffer and are dropped by a reset. */
static void drop_from_a_buffer(struct scene *scene, int prefetch) {
    umbo_dataset *source = NULL, *buffered = NULL;
    umbo_element_spec *spec = NULL;
    umbo_iterator *own = NULL;
    umbo_value *element = NULL;
    umbo_generator generator = UMBO_GENERATOR_INIT;
    generator.begin = begin_pass;
    generator.next = next_is_foreign;
    CHECK_OK(umbo_element_spec_create_tensor(UMBO_DTYPE_FLOAT32, 1, sizes, &spec));
    CHECK_OK(umbo_dataset_from_generator(spec, &generator, scene, NULL, &source));
    umbo_element_spec_release(spec);
    if (prefetch) {
        CHECK_OK(umbo_dataset_retain(source, &buffered));
        CHECK_OK(umbo_dataset_prefetch(&buffered, 2));
    } else {
        umbo_shuffle_options options = UMBO_SHUFFLE_OPTIONS_INIT;
        options.buffer_size = 3;
        CHECK_OK(umbo_dataset_retain(source, &buffered));
        CHECK_OK(umbo_dataset_shuffle(&buffered, &options));
    }
    umbo_dataset_release(source);
    CHECK_OK(umbo_iterator_from_dataset(buffered, &own));
    umbo_dataset_release(buffered);
    umbo_ignore(umbo_iterator_next(own, &element));
    usleep(prefetch ? 300 : 0);
    scene->own = own;
    umbo_ignore(umbo_iterator_reset(own));
    umbo_value_release(element);
    umbo_iterator_release(own);
    scene->own = NULL;
}

static void the_destroy_of_a_prefetched_element(struct scene *scene) {
    drop_from_a_buffer(scene, 1);
}
static void the_destroy_of_a_shuffled_element(struct scene *scene) {
    drop_from_a_buffer(scene, 0);
}

/* -- umbo_dataset_fn */

static umbo_status probing_dataset(const umbo_input_context *context, void *user_data,
                                   umbo_dataset **dataset) {
    (void)context;
    probe_once(user_data, NULL);
    *dataset = four_elements();
    return UMBO_OK;
}

static void a_dataset_function(struct scene *scene) {
    umbo_distributed_dataset *distributed = NULL;
    umbo_ignore(umbo_strategy_distribute_datasets_from_function(scene->good.strategy,
                                                                probing_dataset, scene, NULL,
                                                                &distributed));
    umbo_distributed_dataset_release(distributed);
}

/* -- umbo_initializer_fn */

static umbo_status probing_initializer(const umbo_view *memory, void *user_data) {
    (void)memory;
    probe_once(user_data, NULL);
    return UMBO_OK;
}

static void make_initialized(struct scene *scene, umbo_strategy *strategy) {
    umbo_variable *variable = NULL;
    umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    options.initializer = probing_initializer;
    options.initializer_user_data = scene;
    options.dtype = UMBO_DTYPE_FLOAT32;
    umbo_ignore(umbo_variable_create(strategy, "i", NULL, &options, &variable));
    umbo_variable_release(variable);
}

static void an_initializer(struct scene *scene) { make_initialized(scene, scene->good.strategy); }

static umbo_status initializing_replica(umbo_replica_context *context, const umbo_value *args,
                                        void *user_data, umbo_value **result) {
    (void)context;
    (void)args;
    (void)result;
    make_initialized(user_data, NULL);
    return UMBO_OK;
}

static void an_initializer_on_a_replica(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, initializing_replica, scene, NULL, NULL,
                                  NULL));
}

/* -- umbo_variable_creator_fn */

static umbo_status probing_creator(umbo_variable_request *request, void *user_data,
                                   umbo_variable **variable) {
    (void)variable;
    probe_once(user_data, request);
    return UMBO_OK;
}

static void create_in_scope(struct scene *scene, umbo_variable_creator_fn creator, umbo_destroy_fn destroy) {
    umbo_scope *scope = NULL;
    umbo_variable *variable = NULL;
    CHECK_OK(umbo_variable_creator_scope_enter(creator, scene, destroy, &scope));
    umbo_ignore(umbo_variable_create(scene->good.strategy, "c", scene->good.tensor, NULL,
                                     &variable));
    umbo_variable_release(variable);
    CHECK_OK(umbo_scope_exit(scope));
}

static void a_creator(struct scene *scene) { create_in_scope(scene, probing_creator, NULL); }

static umbo_status creating_replica(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    umbo_variable *variable = NULL;
    (void)context;
    (void)args;
    (void)user_data;
    (void)result;
    umbo_ignore(umbo_variable_create(NULL, "c", NULL, NULL, &variable));
    umbo_variable_release(variable);
    if (umbo_variable_create(NULL, "c", now->tensor, NULL, &variable) == UMBO_OK)
        umbo_variable_release(variable);
    return UMBO_OK;
}

static void a_creator_on_a_replica(struct scene *scene) {
    umbo_scope *scope = NULL;
    CHECK_OK(umbo_variable_creator_scope_enter(probing_creator, scene, NULL, &scope));
    umbo_ignore(umbo_strategy_run(scene->good.strategy, creating_replica, scene, NULL, NULL, NULL));
    CHECK_OK(umbo_scope_exit(scope));
}

static void the_destroy_of_a_creator(struct scene *scene) {
    create_in_scope(scene, good_variable_creator_fn, probing_destroy);
}

/* -- umbo_value_fn */

static umbo_status probing_value(const umbo_value_context *context, void *user_data,
                                 umbo_value **value) {
    (void)context;
    probe_once(user_data, NULL);
    *value = float_value(1);
    return UMBO_OK;
}

static void a_value_function(struct scene *scene) {
    umbo_value *value = NULL;
    umbo_ignore(umbo_strategy_values_from_function(scene->good.strategy, probing_value, scene,
                                                   &value));
    umbo_value_release(value);
}

/* -- umbo_scope_fn */

static umbo_status probing_scope(umbo_strategy *strategy, void *user_data) {
    (void)strategy;
    probe_once(user_data, NULL);
    return UMBO_OK;
}

static void a_scope(struct scene *scene) {
    umbo_ignore(umbo_strategy_scope(scene->good.strategy, probing_scope, scene));
}

static void a_scope_without_a_probe(struct scene *scene) {
    CHECK_OK(umbo_strategy_scope(scene->good.strategy, good_scope_fn, NULL));
}

static void a_colocation(struct scene *scene) {
    umbo_scope *scope = NULL;
    CHECK_OK(umbo_scope_enter(scene->good.strategy, &scope));
    umbo_ignore(umbo_strategy_colocate_vars_with(scene->good.strategy, scene->good.variable,
                                                 probing_scope, scene));
    CHECK_OK(umbo_scope_exit(scope));
}

/* -- the ends of threads */

/* What threads have of their own in the library is made: the strategy that is current, scopes,
 * the last error, the places of handles that are in use. */
static void probe_every_place(struct scene *scene) {
    struct objects *good = &scene->good;
    CHECK_OK(umbo_set_strategy(good->strategy));
    CHECK_OK(umbo_set_strategy(NULL));
    a_scope_without_a_probe(scene);
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, good, NULL, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(good->optimizer, good->gradients, NULL, NULL));
    CHECK_OK(umbo_variable_assign(good->variable, good->value));
    take_all(scene, four_elements(), 0, 0);
}

static void *ending_thread(void *user_data) {
    struct scene *scene = user_data;
    CHECK(pthread_setspecific(scene->key, scene) == 0);
    /* A thread that has used as much of the library as there is. */
    probe_every_place(scene);
    (void)umbo_set_last_error(UMBO_STATUS_ABORTED, "x", NULL, NULL);
    return NULL;
}

static void the_end_of_a_thread(struct scene *scene) {
    pthread_t thread;
    CHECK(pthread_key_create(&scene->key, probing_destroy) == 0);
    CHECK(pthread_create(&thread, NULL, ending_thread, scene) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(pthread_key_delete(scene->key) == 0);
}

static umbo_status marking_replica(umbo_replica_context *context, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    (void)args;
    (void)result;
    if (replica_id(context) == 1) CHECK(pthread_setspecific(scene->key, scene) == 0);
    return UMBO_OK;
}

/* The replica's thread ends with the strategy, while its release waits for it. */
static void the_end_of_a_replica_thread(struct scene *scene) {
    umbo_strategy *copy = NULL;
    CHECK(pthread_key_create(&scene->key, signalling_destroy) == 0);
    CHECK_OK(umbo_strategy_copy(scene->good.strategy, &copy));
    CHECK_OK(umbo_strategy_run(copy, marking_replica, scene, NULL, NULL, NULL));
    umbo_strategy_release(copy);
    while (!__atomic_load_n(&scene->flag, __ATOMIC_SEQ_CST)) usleep(100);
    CHECK(pthread_key_delete(scene->key) == 0);
}

/* -- gradients in the program's memory */

static umbo_status lending_replica(umbo_replica_context *context, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    umbo_gradients *gradients = scene->good.gradients;
    (void)args;
    (void)result;
    if (replica_id(context) != 0) return umbo_gradients_submit_weighted(gradients, context, 1);
    UMBO_TRY(umbo_gradients_attach(gradients, context, 0, &array_view, scene, probing_destroy));
    UMBO_TRY(umbo_gradients_submit_weighted(gradients, context, 1));
    return scene->flag ? umbo_set_last_error(UMBO_STATUS_ABORTED, "x", NULL, NULL) : UMBO_OK;
}

static void the_destroy_of_a_lent_gradient(struct scene *scene) {
    struct objects *good = &scene->good;
    CHECK_OK(umbo_strategy_run(good->strategy, lending_replica, scene, NULL, NULL, NULL));
    umbo_ignore(umbo_optimizer_apply(good->optimizer, good->gradients, NULL, NULL));
}

static void the_destroy_of_a_lent_gradient_of_a_failed_run(struct scene *scene) {
    scene->flag = 1;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, lending_replica, scene, NULL, NULL, NULL));
    scene->flag = 0;
}

/* -- umbo_replica_thread_fn */

static void probing_thread(const umbo_replica_thread *thread, void *user_data) {
    if (thread->replica == thread->replica_count - 1) probe_once(user_data, NULL);
}

/* A strategy beside the others, whose last replica's thread probes when it begins or ends. */
static void serve(struct scene *scene, int at_its_end) {
    umbo_strategy *strategy = NULL;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    options.cpu_replicas = REPLICAS;
    options.replica_thread_user_data = scene;
    if (at_its_end) {
        options.replica_thread_stop_fn = probing_thread;
    } else {
        options.replica_thread_start_fn = probing_thread;
    }
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    umbo_ignore(umbo_strategy_run(strategy, good_replica_fn, NULL, NULL, NULL, NULL));
    umbo_strategy_release(strategy);
}

static void a_thread_that_begins_to_serve(struct scene *scene) { serve(scene, 0); }

static void a_thread_that_has_served(struct scene *scene) { serve(scene, 1); }

#define CONTEXT(name) {#name, name}

static const struct {
    const char *name;
    void (*enter)(struct scene *scene);
} contexts[] = {
    CONTEXT(nothing_open),
    CONTEXT(a_replica) /* umbo_replica_fn */,
    CONTEXT(a_replica_with_limits),
    CONTEXT(a_replica_of_the_default_strategy),
    CONTEXT(each_replica),
    CONTEXT(a_check_of_equivalence),
    CONTEXT(a_late_replica),
    CONTEXT(a_merge) /* umbo_merge_fn */,
    CONTEXT(a_merge_with_limits),
    CONTEXT(a_nested_replica),
    CONTEXT(a_nested_replica_with_limits),
    CONTEXT(an_update) /* umbo_update_fn */,
    CONTEXT(an_update_in_a_merge),
    CONTEXT(an_update_of_replicas),
    CONTEXT(an_update_of_no_slot),
    CONTEXT(the_destroy_of_a_run),
    CONTEXT(the_destroy_of_a_late_run),
    CONTEXT(the_destroy_of_a_run_that_cannot_start),
    CONTEXT(the_destroy_of_a_tensor),
    CONTEXT(the_destroy_of_a_tensor_on_a_replica),
    CONTEXT(the_destroy_of_a_tensor_in_a_merge),
    CONTEXT(the_destroy_of_a_discarded_result),
    CONTEXT(the_destroy_of_a_payload),
    CONTEXT(the_destroy_of_a_payload_that_travelled),
    CONTEXT(the_log) /* umbo_log_fn */,
    CONTEXT(the_log_of_a_replica),
    CONTEXT(the_destroy_of_a_log),
    CONTEXT(a_schedule) /* umbo_schedule_fn */,
    CONTEXT(a_schedule_at_the_commit),
    CONTEXT(the_destroy_of_a_schedule),
    CONTEXT(a_progress) /* umbo_progress_fn */,
    CONTEXT(a_rule) /* umbo_update_tile_fn */,
    CONTEXT(a_map) /* umbo_map_fn */,
    CONTEXT(a_parallel_map),
    CONTEXT(a_prefetched_map),
    CONTEXT(a_prefetched_parallel_map),
    CONTEXT(a_map_that_releases),
    CONTEXT(a_parallel_map_that_releases),
    CONTEXT(the_destroy_of_a_map),
    CONTEXT(the_begin_of_a_generator),
    CONTEXT(the_next_of_a_generator),
    CONTEXT(the_reset_of_a_generator),
    CONTEXT(the_end_of_a_generator),
    CONTEXT(the_begin_of_a_prefetched_generator),
    CONTEXT(the_next_of_a_prefetched_generator),
    CONTEXT(the_reset_of_a_prefetched_generator),
    CONTEXT(the_end_of_a_prefetched_generator),
    CONTEXT(the_next_of_a_distributed_generator),
    CONTEXT(the_destroy_of_a_generator),
    CONTEXT(the_destroy_of_a_prefetched_element),
    CONTEXT(the_destroy_of_a_shuffled_element),
    CONTEXT(an_all_to_all),
    CONTEXT(an_all_gather),
    CONTEXT(a_broadcast),
    CONTEXT(a_vote),
    CONTEXT(a_barrier),
    CONTEXT(an_abort),
    CONTEXT(the_destroy_of_a_communicator),
    CONTEXT(a_search_for_mpi) /* umbo_mpi_find_fn */,
    CONTEXT(a_dataset_function) /* umbo_dataset_fn */,
    CONTEXT(an_initializer) /* umbo_initializer_fn */,
    CONTEXT(an_initializer_on_a_replica),
    CONTEXT(a_creator) /* umbo_variable_creator_fn */,
    CONTEXT(a_creator_on_a_replica),
    CONTEXT(the_destroy_of_a_creator),
    CONTEXT(a_value_function) /* umbo_value_fn */,
    CONTEXT(a_scope) /* umbo_scope_fn */,
    CONTEXT(a_colocation),
    CONTEXT(the_end_of_a_thread),
    CONTEXT(the_end_of_a_replica_thread),
    CONTEXT(a_thread_that_begins_to_serve) /* umbo_replica_thread_fn */,
    CONTEXT(a_thread_that_has_served),
    CONTEXT(the_destroy_of_a_lent_gradient),
    CONTEXT(the_destroy_of_a_lent_gradient_of_a_failed_run),
};

#define CONTEXTS COUNT_OF(contexts)

/* ---- one child for each context */

static void make_the_call(int context, int function) {
    static int64_t left_before;
    const size_t gone = functions[function].gives_up;
    struct scene scene;
    int64_t left = 0;
    current_context = context;
    current_function = function;
    entered = 0;
    memset(&scene, 0, sizeof(scene));
    make_objects(&scene.good);
    now = &scene.good;
    contexts[context].enter(&scene);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    demand(umbo_set_strategy(NULL), "umbo_set_strategy(NULL)");
    if (!entered) fail("the context", "was never there");
    check_objects(&scene.good, entered ? gone : NOTHING);
    release_objects(&scene.good, entered ? gone : NOTHING);
    umbo_clear_last_error();
    if (umbo_live_handles(UMBO_HANDLE_ANY, &left) != UMBO_OK || left != left_before) {
        char text[80];
        snprintf(text, sizeof(text), "%lld more than before", (long long)(left - left_before));
        fail("handles left", text);
        left_before = left;
    }
}

static const char *wanted_function;

static int is_wanted(int function) {
    return wanted_function == NULL || strcmp(functions[function].name, wanted_function) == 0;
}

static void child(int context, int from) {
    int function;
    for (function = from; function < FUNCTIONS; function++) {
        __atomic_store_n(&report->at[context].function, function, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&report->at[context].reached, 1, __ATOMIC_SEQ_CST);
        if (is_wanted(function)) make_the_call(context, function);
    }
    /* Threads of the library may still be there. */
    fflush(NULL);
    _exit(0);
}

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct worker {
    pid_t process;
    int context, reached;
    double since;
};

static void start(struct worker *worker, int context, int from) {
    fflush(NULL);
    worker->context = context;
    worker->reached = report->at[context].reached;
    worker->since = seconds();
    worker->process = fork();
    CHECK(worker->process >= 0);
    if (worker->process == 0) child(context, from);
}

/* Looks after a child; whether it goes on. */
static int look_after(struct worker *worker, double patience) {
    const int context = worker->context;
    const int reached = __atomic_load_n(&report->at[context].reached, __ATOMIC_SEQ_CST);
    const char *what = NULL;
    char text[80];
    int status = 0;
    if (waitpid(worker->process, &status, WNOHANG) == worker->process) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
        what = "dies";
        if (WIFSIGNALED(status))
            snprintf(text, sizeof(text), "%s", strsignal(WTERMSIG(status)));
        else
            snprintf(text, sizeof(text), "exit status %d, see above", WEXITSTATUS(status));
    } else if (reached != worker->reached) {
        worker->reached = reached;
        worker->since = seconds();
        return 1;
    } else if (seconds() - worker->since > patience) {
        what = "hangs";
        snprintf(text, sizeof(text), "no answer for %.0f seconds", patience);
        kill(worker->process, SIGKILL);
        CHECK(waitpid(worker->process, &status, 0) == worker->process);
    } else {
        return 1;
    }
    current_context = context;
    current_function = report->at[context].function;
    fail(what, text);
    if (current_function + 1 >= FUNCTIONS) return 0;
    start(worker, context, current_function + 1);
    return 1;
}

static void write_files(void) {
    static const unsigned char idx[] = {0, 0, 8, 1, 0, 0, 0, 2, 7, 9};
    static const char npy[] =
        "\x93NUMPY\x01\x00\x76\x00{'descr': '<f4', 'fortran_order': False, 'shape': (1,), }";
    static const float number = 1;
    FILE *file = fopen(IDX_FILE, "wb");
    size_t length;
    CHECK(file != NULL && fwrite(idx, sizeof(idx), 1, file) == 1 && fclose(file) == 0);
    file = fopen(NPY_FILE, "wb");
    CHECK(file != NULL && fwrite(npy, sizeof(npy) - 1, 1, file) == 1);
    for (length = sizeof(npy) - 1; length < 127; length++) CHECK(fputc(' ', file) == ' ');
    CHECK(fputc('\n', file) == '\n' && fwrite(&number, sizeof(number), 1, file) == 1);
    CHECK(fclose(file) == 0);
}

int main(int argc, char **argv) {
    const char *wanted_context = NULL;
    double patience = 20;
    int jobs = 2, next = 0, working = 0, failures, index, listed = 0;
    struct worker workers[16];
    CHECK(setenv("UMBO_MPI_LIBRARY", "none.so", 1) == 0); /* MPI is not for forks and random arguments */
    for (index = 1; index < argc; index++) {
        const char *const value = index + 1 < argc ? argv[index + 1] : "";
        if (strcmp(argv[index], "--list") == 0) {
            for (next = 0; next < CONTEXTS; next++) printf("%s\n", contexts[next].name);
            return 0;
        }
        if (strcmp(argv[index], "--context") == 0) wanted_context = value;
        if (strcmp(argv[index], "--function") == 0) wanted_function = value;
        if (strcmp(argv[index], "--patience") == 0) patience = atof(value);
        if (strcmp(argv[index], "--jobs") == 0) jobs = atoi(value);
        index++;
    }
    CHECK(jobs >= 1 && jobs <= 16 && CONTEXTS <= MOST_CONTEXTS && FUNCTIONS <= MOST_FUNCTIONS);
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(report != MAP_FAILED);
    write_files();
    memset(workers, 0, sizeof(workers));
    for (;;) {
        for (index = 0, working = 0; index < jobs; index++) {
            struct worker *worker = &workers[index];
            if (worker->process != 0 && !look_after(worker, patience)) worker->process = 0;
            while (worker->process == 0 && next < CONTEXTS) {
                const int context = next++;
                if (wanted_context == NULL || strcmp(contexts[context].name, wanted_context) == 0)
                    start(worker, context, 0);
            }
            working += worker->process != 0;
        }
        if (working == 0) break;
        usleep(1000);
    }
    /* Arguments that no context takes show nothing. */
    for (index = 0; index < FUNCTIONS && wanted_context == NULL; index++) {
        const int expected = !functions[index].never_succeeds;
        if (is_wanted(index) && functions[index].gives_up == NOTHING &&
            report->succeeded[index] != expected && expected) {
            printf("%s succeeds in no context: it needs a recipe in matrix.rs\n",
                   functions[index].name);
            listed++;
        }
    }
    failures = report->failure_count < MOST_FAILURES ? report->failure_count : MOST_FAILURES;
    for (index = 0; index < failures; index++) {
        const struct failure *failure = &report->failures[index];
        printf("%s in %s: %s\n", functions[failure->function].name,
               contexts[failure->context].name, failure->what);
    }
    printf("%d functions in %d contexts, %d failures\n", (int)FUNCTIONS, (int)CONTEXTS,
           report->failure_count);
    (void)axes;
    return report->failure_count != 0 || listed != 0;
}

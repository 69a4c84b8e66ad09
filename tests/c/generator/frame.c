/* Written by tests/c/generator from umbo.h: NULL for every pointer parameter of every function. */
#include "check.h"

#include <umbo/dlpack.h>
#include <umbo/all.h>

static int failures = 0;

static struct {
    /* HANDLES */
} good;

static float numbers[1] = {1};
static const int64_t sizes[1] = {1};
static const int32_t axes[1] = {0};
static const char *const texts[1] = {"x"};

/* The last error without the function's name, with which it must begin; NULL if it does not. */
static const char *said_by(const char *function) {
    const char *const message = umbo_last_error_message();
    const size_t length = strlen(function);
    if (strncmp(message, function, length) != 0 || strncmp(message + length, ": ", 2) != 0) {
        return NULL;
    }
    return message + length + 2;
}

/* A pointer that may not be NULL: a status, and a message that names function and parameter. */
static CHECK_MAYBE_UNUSED void refused(umbo_status status, const char *function,
                                       const char *parameter) {
    const char *const message = said_by(function);
    if (status == UMBO_OK) {
        fprintf(stderr, "%s accepts NULL for '%s'; if it may, its documentation must say so\n",
                function, parameter);
        failures++;
    } else if (message == NULL) {
        fprintf(stderr, "%s(%s: NULL): the message does not begin with the function's name: %s\n",
                function, parameter, umbo_last_error_message());
        failures++;
    } else if (strstr(message, parameter) == NULL) {
        fprintf(stderr, "%s(%s: NULL): the message does not name the parameter: %s\n", function,
                parameter, message);
        failures++;
    }
}

/* A struct without its defaults: a status, and a message that names the parameter and what to start from, which is NULL
 * where there is no message. */
static CHECK_MAYBE_UNUSED void unset(umbo_status status, const char *function, const char *parameter,
                                     const char *initial) {
    const char *const message = said_by(function);
    const int is_said = message != NULL && strncmp(message, parameter, strlen(parameter)) == 0;
    if (status != UMBO_STATUS_INVALID_ARGUMENT ||
        (initial != NULL && (!is_said || strstr(message, initial) == NULL))) {
        fprintf(stderr, "%s(%s): a struct without its defaults: %s\n", function, parameter,
                umbo_last_error_message());
        failures++;
    }
}

/* A pointer that may be NULL: whatever else the function says, it does not refuse that. */
static CHECK_MAYBE_UNUSED void allowed(umbo_status status, const char *function,
                                       const char *parameter) {
    const char *const message = said_by(function);
    if (status != UMBO_OK && message != NULL && strstr(message, parameter) != NULL &&
        strstr(message, "NULL") != NULL) {
        fprintf(stderr, "%s: the documentation allows NULL for '%s', but: %s\n", function,
                parameter, message);
        failures++;
    }
}

/* SHARED */

static CHECK_MAYBE_UNUSED umbo_status good_filter_fn(const umbo_value *element, void *user_data,
                                                     int32_t *keep) {
    (void)element;
    (void)user_data;
    *keep = 1;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_map_fn(const umbo_value *element, void *user_data,
                                                  umbo_value **result) {
    (void)element;
    (void)user_data;
    (void)result;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_dataset_fn(const umbo_input_context *context,
                                                      void *user_data, umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    return umbo_dataset_retain(good.dataset, dataset);
}

static CHECK_MAYBE_UNUSED umbo_status good_open_file_fn(const char *path, int64_t number, void *user_data,
                                                        umbo_dataset **dataset) {
    (void)path;
    (void)number;
    (void)user_data;
    return umbo_dataset_retain(good.dataset, dataset);
}

static CHECK_MAYBE_UNUSED umbo_status good_value_fn(const umbo_value_context *context,
                                                    void *user_data, umbo_value **value) {
    (void)context;
    (void)user_data;
    return umbo_value_retain(good.value, value);
}

/* CASES */
static umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    good.replica_context = context;
    /* INSIDE */
    return UMBO_OK;
}

static umbo_status in_a_creator(umbo_variable_request *request, void *user_data,
                                umbo_variable **variable) {
    (void)user_data;
    (void)variable;
    good.variable_request = request;
    /* CREATING */
    return UMBO_OK;
}

static umbo_equivalence *check_three_examples(void) {
    static const float three[3] = {1, 2, 3};
    umbo_value *batch = floats_value(3, three);
    umbo_equivalence *equivalence = NULL;
    CHECK_OK(umbo_strategy_check_equivalence(good.strategy, NULL, good_replica_fn, batch, NULL,
                                             NULL, &equivalence));
    umbo_value_release(batch);
    return equivalence;
}

int main(void) {
    umbo_dataset *batches = NULL;
    umbo_scope *creators = NULL;
    good.strategy = make_strategy(1);
    good.tensor = make_floats(1, numbers);
    CHECK_OK(umbo_value_from_tensor(good.tensor, &good.value));
    good.variable = make_variable(good.strategy, 1, UMBO_AGGREGATION_SUM);
    CHECK_OK(umbo_dataset_from_tensor_slices(good.value, &good.dataset));
    CHECK_OK(umbo_dataset_retain(good.dataset, &batches));
    CHECK_OK(umbo_dataset_batch(&batches, 1, 0));
    CHECK_OK(umbo_iterator_from_dataset(good.dataset, &good.iterator));
    CHECK_OK(umbo_strategy_distribute_dataset(good.strategy, batches, NULL,
                                              &good.distributed_dataset));
    CHECK_OK(umbo_dataset_element_spec(good.dataset, &good.element_spec));
    CHECK_OK(umbo_gradients_create(good.strategy, 1, &good.variable,
                                   UMBO_LOSS_SUM, NULL, &good.gradients));
    CHECK_OK(umbo_optimizer_create_sgd(good.strategy, NULL, &good.optimizer));
    CHECK_OK(umbo_cancellation_create(&good.cancellation));
    CHECK_OK(umbo_metrics_create(good.strategy, &good.metrics));
    CHECK_OK(umbo_metrics_define(good.metrics, "x", UMBO_METRIC_ACCURACY, NULL));
    CHECK_OK(umbo_checkpoint_create(good.strategy, &good.checkpoint));
    CHECK_OK(umbo_checkpoint_manager_create(good.checkpoint, "null_checkpoints", NULL, &good.checkpoint_manager));
    CHECK_OK(umbo_cluster_resolver_from_tf_config("{}", &good.cluster_resolver));
    good.communicator = make_communicator();
    good.trainer = make_trainer(good.strategy);

    good.equivalence = check_three_examples();

    /* OUTSIDE */
    CHECK_OK(umbo_strategy_run(good.strategy, on_a_replica, NULL, NULL, NULL, NULL));
    CHECK_OK(umbo_variable_creator_scope_enter(in_a_creator, NULL, NULL, &creators));
    umbo_variable_release(make_variable(good.strategy, 1, UMBO_AGGREGATION_SUM));
    CHECK_OK(umbo_scope_exit(creators));

    umbo_trainer_release(good.trainer);
    umbo_communicator_release(good.communicator);
    umbo_checkpoint_manager_release(good.checkpoint_manager);
    umbo_checkpoint_release(good.checkpoint);
    umbo_metrics_release(good.metrics);
    umbo_equivalence_release(good.equivalence);
    umbo_cluster_resolver_release(good.cluster_resolver);
    umbo_cancellation_release(good.cancellation);
    umbo_optimizer_release(good.optimizer);
    umbo_gradients_release(good.gradients);
    umbo_element_spec_release(good.element_spec);
    umbo_distributed_dataset_release(good.distributed_dataset);
    umbo_iterator_release(good.iterator);
    umbo_dataset_release(batches);
    umbo_dataset_release(good.dataset);
    umbo_variable_release(good.variable);
    umbo_value_release(good.value);
    umbo_tensor_release(good.tensor);
    umbo_strategy_release(good.strategy);
    (void)axes;
    (void)sizes;
    (void)texts;
    return failures != 0 || finish() != 0;
}

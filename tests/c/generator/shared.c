/* What the programs that call every function pass to them: memory of others', and callbacks that do what is asked for and
 * nothing else. */

/* A number of another library's, which needs no release. */
static float others_number = 7;
static struct DLManagedTensorVersioned others_tensor = {
    {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL, NULL, 0,
    {&others_number, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0}};
static struct DLManagedTensor others_legacy_tensor = {
    {&others_number, {kDLCPU, 0}, 0, {kDLFloat, 32, 1}, NULL, NULL, 0}, NULL, NULL};

static CHECK_MAYBE_UNUSED umbo_status good_generator_next_fn(void *pass, void *user_data,
                                                             umbo_value **element) {
    (void)pass;
    (void)user_data;
    (void)element;
    return UMBO_OK;
}

/* What a rank alone gets from itself; no more than there can be at one address. */
static CHECK_MAYBE_UNUSED umbo_status move_to_itself(void *to, const void *from, size_t bytes) {
    const size_t most = (size_t)1 << 30;
    if (bytes > most)
        return umbo_set_last_error(UMBO_STATUS_RESOURCE_EXHAUSTED, "too many bytes", NULL, NULL);
    if (bytes > 0) memcpy(to, from, bytes);
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED umbo_status good_communicator_all_to_all_fn(
    const size_t *send_bytes, const void *send, const size_t *receive_bytes, void *user_data,
    void *receive) {
    (void)receive_bytes;
    (void)user_data;
    return move_to_itself(receive, send, send_bytes[0]);
}

static CHECK_MAYBE_UNUSED umbo_status good_communicator_all_gather_fn(const size_t *bytes,
                                                                      const void *send,
                                                                      void *user_data,
                                                                      void *receive) {
    (void)user_data;
    return move_to_itself(receive, send, bytes[0]);
}

/* A program without MPI. */
static CHECK_MAYBE_UNUSED void *good_mpi_find_fn(const char *name, void *user_data) {
    (void)name;
    (void)user_data;
    return NULL;
}

/* The arrays of trainers. */
static float trained[16];

/* It has as many rows as there are numbers. */
static umbo_status good_learn_fn(const umbo_rows *rows, const float *weights, float *gradient,
                                 void *user_data, double *loss) {
    (void)user_data;
    if (rows->indices[rows->count - 1] >= COUNT_OF(trained))
        return umbo_set_last_error(UMBO_STATUS_OUT_OF_RANGE,
                                   "first_row, row_count: there is no such row", NULL, NULL);
    if (gradient != NULL) gradient[0] += 1;
    *loss += weights[0];
    return UMBO_OK;
}

/* Rows in their order, on a strategy that there is. */
static CHECK_MAYBE_UNUSED umbo_trainer *make_trainer(umbo_strategy *strategy) {
    umbo_trainer *trainer = NULL;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters;
    memset(&parameters, 0, sizeof(parameters));
    parameters.weights = trained;
    parameters.count = 1;
    options.strategy = strategy;
    options.shuffle = 0;
    CHECK_OK(umbo_trainer_create_with_arrays(1, &parameters, &options, &trainer));
    return trainer;
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

static CHECK_MAYBE_UNUSED void good_update_tile_fn(const umbo_update_tile *tile, void *user_data) {
    (void)tile;
    (void)user_data;
}

static CHECK_MAYBE_UNUSED umbo_status good_update_on_gpu_fn(const umbo_gpu_update *update,
                                                            void *user_data) {
    (void)update;
    (void)user_data;
    return UMBO_OK;
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

static CHECK_MAYBE_UNUSED umbo_status good_average_fn(void *user_data) {
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


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
    options.class_count = 2;
    CHECK_OK(umbo_metrics_create(strategy, &metrics));
    CHECK_OK(umbo_metrics_define(metrics, "x", UMBO_METRIC_ACCURACY, NULL));
    CHECK_OK(umbo_metrics_define(metrics, "matrix", UMBO_METRIC_CONFUSION, &options));
    CHECK_OK(umbo_metrics_define(metrics, "auc", UMBO_METRIC_AUC, NULL));
    return metrics;
}

/* A variable, two numbers and a string, which lie in a file and in memory already. */
static umbo_checkpoint *make_checkpoint(const struct objects *good) {
    umbo_checkpoint *checkpoint = NULL;
    CHECK_OK(umbo_checkpoint_create(good->strategy, &checkpoint));
    CHECK_OK(umbo_checkpoint_add_variable(checkpoint, NULL, good->variable));
    CHECK_OK(umbo_checkpoint_set_number(checkpoint, "number", 1));
    CHECK_OK(umbo_checkpoint_set_integer(checkpoint, "integer", 1));
    CHECK_OK(umbo_checkpoint_set_string(checkpoint, "string", "x"));
    CHECK_OK(umbo_checkpoint_save(checkpoint, CHECKPOINT_FILE));
    CHECK_OK(umbo_checkpoint_save_to_memory(checkpoint, checkpoint_bytes, sizeof(checkpoint_bytes),
                                            &checkpoint_length));
    return checkpoint;
}

/* Removes what objects before these have saved: it is not theirs to resume from. Another process of the matrix may do so,
 * too. */
static void empty(const umbo_checkpoint_manager *manager) {
    char path[128];
    size_t length = 0;
    int64_t step = 0;
    for (;;) {
        CHECK_OK(umbo_checkpoint_manager_latest(manager, &step));
        if (step == UMBO_NONE) return;
        CHECK_OK(umbo_checkpoint_manager_path(manager, step, path, sizeof(path), &length));
        CHECK(remove(path) == 0 || errno == ENOENT);
    }
}

/* The rows of no call. */
static const umbo_rows no_rows = {sizeof(umbo_rows), 0, NULL, 0, 0, 1, NULL, 0, NULL, NULL, 0, NULL, NULL, NULL};

/* A trainer of a table, of whose gradient rows are asked for, and of an array. */
static umbo_trainer *make_trainer_of_rows(umbo_strategy *strategy) {
    umbo_trainer *trainer = NULL;
    umbo_trainer_options options = UMBO_TRAINER_OPTIONS_INIT;
    umbo_parameters parameters[2];
    memset(parameters, 0, sizeof(parameters));
    parameters[0].weights = trained + 8;
    parameters[0].count = 4;
    parameters[0].row_length = 2;
    parameters[1].weights = trained + 12;
    parameters[1].count = 4;
    /* It takes no GPUs. */
    if (gpu_seed < 0) options.strategy = strategy;
    options.shuffle = 0;
    CHECK_OK(umbo_trainer_create_with_arrays(2, parameters, &options, &trainer));
    return trainer;
}

/* An optimizer with an average of the weights, and a schedule that observes values. */
static umbo_optimizer *make_settled_optimizer(umbo_strategy *strategy) {
    umbo_optimizer *optimizer = NULL;
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    umbo_schedule_options schedule = UMBO_SCHEDULE_OPTIONS_INIT;
    CHECK_OK(umbo_optimizer_create_sgd(strategy, NULL, &optimizer));
    options.average = UMBO_AVERAGE_MEAN;
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    schedule.kind = UMBO_SCHEDULE_PLATEAU;
    CHECK_OK(umbo_optimizer_set_named_schedule(optimizer, &schedule));
    return optimizer;
}

static void make_objects(struct objects *good) {
    const int64_t row_index = 0, none = 0, one = 1, three = 3;
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
    strategy_options.replicas_in_sync = REPLICAS;
    if (gpu_seed < 0) {
        strategy_options.cpu_replicas = devices_in_use;
    } else {
        strategy_options.compute_devices = two_gpus;
        strategy_options.compute_device_count = REPLICAS;
        strategy_options.parameter_device = gpu_seed % 2 == 1 ? "GPU:1" : "CPU:0";
    }
    CHECK_OK(umbo_strategy_create(&strategy_options, &good->strategy));
    good->tensor = make_floats(1, numbers);
    CHECK_OK(umbo_tensor_mutable_view(good->tensor, &array_view));
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
    CHECK_OK(umbo_gradients_create(good->strategy, 1,
                                   &good->variable,
                                   UMBO_LOSS_SUM, NULL, &good->gradients));
    gradients_options.row_sparse = row_sparse;
    CHECK_OK(umbo_gradients_create(good->strategy, 1, &good->table, UMBO_LOSS_SUM,
                                   &gradients_options, &good->sparse_gradients));
    CHECK_OK(umbo_optimizer_create_momentum(good->strategy, NULL, &good->optimizer));
    CHECK_OK(umbo_optimizer_create_sgd(good->strategy, NULL, &good->fresh_optimizer));
    CHECK_OK(umbo_variable_create_drawn(good->strategy, "fresh", UMBO_DTYPE_FLOAT32, 2, table_shape,
                                        UMBO_INITIAL_ZEROS, 0, &good->fresh_variable));
    good->settled_optimizer = make_settled_optimizer(good->strategy);
    CHECK_OK(umbo_tensor_create_zeros(UMBO_DTYPE_FLOAT32, 1, &none, NULL, &good->no_elements));
    CHECK_OK(umbo_cancellation_create(&good->cancellation));
    good->metrics = make_metrics(good->strategy);
    good->checkpoint = make_checkpoint(good);
    CHECK_OK(umbo_checkpoint_manager_create(good->checkpoint, "matrix_checkpoints", NULL,
                                            &good->checkpoint_manager));
    empty(good->checkpoint_manager);
    good->trainer = make_trainer_of_rows(good->strategy);
    good->rows = &no_rows;
    CHECK_OK(umbo_value_create_struct(1, texts, &good->value,
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
    CHECK_OK(umbo_strategy_check_equivalence(good->strategy, good->gradients, submit_on_a_replica, good->batch,
                                             good, NULL, &good->equivalence));
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, good, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(good->optimizer, good->gradients, NULL, NULL));
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, good, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(good->settled_optimizer, good->gradients, NULL, NULL));
    CHECK_OK(umbo_strategy_run(good->strategy, remember_context, NULL, good, NULL, NULL));
}

#define RELEASE(type, member) \
    if (gone != offsetof(struct objects, member)) umbo_##type##_release(good->member)

/* All but what the call has given up. */
static void release_objects(struct objects *good, size_t gone) {
    RELEASE(trainer, trainer);
    RELEASE(optimizer, fresh_optimizer);
    RELEASE(variable, fresh_variable);
    RELEASE(optimizer, settled_optimizer);
    RELEASE(tensor, no_elements);
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
    UMBO_TRY(umbo_variable_view(user_data, context, UMBO_DTYPE_NONE, &view));
    UMBO_TRY(get_number(context, &view, &sum));
    sum += 1;
    return return_float(sum, result);
}

/* After a call everything that it has not given up works as before. */
static CHECK_MAYBE_UNUSED void check_objects(struct objects *good, size_t gone) {
    umbo_value *result = NULL;
    umbo_tensor *tensor = NULL;
    umbo_view view;
    if (gone != offsetof(struct objects, strategy)) {
        demand(umbo_strategy_synchronize(good->strategy), "synchronize");
        if (gone != offsetof(struct objects, variable)) {
            demand(umbo_strategy_run(good->strategy, add_on_a_replica, NULL, good->variable, NULL,
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


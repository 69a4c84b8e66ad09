/* ---- what is done with what a call has made */

static umbo_status do_nothing_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                           void *user_data, umbo_value **result) {
    (void)context, (void)args, (void)user_data, (void)result;
    return UMBO_OK;
}

static CHECK_MAYBE_UNUSED void use_iterator(struct objects *good, umbo_iterator *iterator) {
    char position[2048];
    size_t length = 0;
    int turn;
    for (turn = 0; turn < 3; turn++) {
        umbo_value *element = NULL;
        if (used(umbo_iterator_next(iterator, &element)) != UMBO_OK) break;
        umbo_value_release(element);
    }
    umbo_ignore(used(umbo_iterator_save_position(iterator, position, sizeof(position), &length)));
    umbo_ignore(used(umbo_iterator_reset(iterator)));
    (void)good;
}

static CHECK_MAYBE_UNUSED void use_dataset(struct objects *good, umbo_dataset *dataset) {
    umbo_iterator *iterator = NULL;
    umbo_distributed_dataset *distributed = NULL;
    int64_t count = 0;
    umbo_ignore(used(umbo_dataset_cardinality(dataset, &count)));
    if (used(umbo_iterator_from_dataset(dataset, &iterator)) == UMBO_OK)
        use_iterator(good, iterator);
    umbo_iterator_release(iterator);
    iterator = NULL;
    if (used(umbo_strategy_distribute_dataset(good->strategy, dataset, NULL, &distributed)) !=
        UMBO_OK)
        return;
    if (used(umbo_iterator_from_distributed_dataset(distributed, &iterator)) == UMBO_OK)
        use_iterator(good, iterator);
    umbo_iterator_release(iterator);
    umbo_distributed_dataset_release(distributed);
}

static CHECK_MAYBE_UNUSED void use_distributed_dataset(struct objects *good,
                                                       umbo_distributed_dataset *distributed) {
    umbo_iterator *iterator = NULL;
    if (used(umbo_iterator_from_distributed_dataset(distributed, &iterator)) == UMBO_OK)
        use_iterator(good, iterator);
    umbo_iterator_release(iterator);
}

static CHECK_MAYBE_UNUSED void use_tensor(struct objects *good, umbo_tensor *tensor) {
    umbo_value *value = NULL;
    umbo_dataset *dataset = NULL;
    umbo_view view;
    umbo_ignore(used(umbo_tensor_view(tensor, &view)));
    if (used(umbo_value_from_tensor(tensor, &value)) != UMBO_OK) return;
    if (used(umbo_dataset_from_tensor_slices(value, &dataset)) == UMBO_OK)
        use_dataset(good, dataset);
    umbo_dataset_release(dataset);
    umbo_value_release(value);
}

static CHECK_MAYBE_UNUSED void use_value(struct objects *good, umbo_value *value) {
    char text[256];
    size_t length = 0;
    umbo_ignore(used(umbo_value_text(value, text, sizeof(text), &length)));
    (void)good;
}

static CHECK_MAYBE_UNUSED void use_variable(struct objects *good, umbo_variable *variable) {
    umbo_tensor *tensor = NULL;
    umbo_ignore(used(umbo_variable_read(variable, &tensor)));
    umbo_tensor_release(tensor);
    (void)good;
}

static CHECK_MAYBE_UNUSED void use_gradients(struct objects *good, umbo_gradients *gradients) {
    struct objects changed = *good;
    changed.gradients = gradients;
    umbo_ignore(used(
        umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, &changed, NULL, NULL)));
    umbo_ignore(used(umbo_optimizer_apply(good->optimizer, gradients, NULL, NULL)));
}

static CHECK_MAYBE_UNUSED void use_optimizer(struct objects *good, umbo_optimizer *optimizer) {
    umbo_ignore(
        used(umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, good, NULL, NULL)));
    umbo_ignore(used(umbo_optimizer_apply(optimizer, good->gradients, NULL, NULL)));
}

static CHECK_MAYBE_UNUSED void use_strategy(struct objects *good, umbo_strategy *strategy) {
    umbo_ignore(used(umbo_strategy_run(strategy, do_nothing_on_a_replica, NULL, NULL, NULL, NULL)));
    (void)good;
}

static CHECK_MAYBE_UNUSED void use_trainer(struct objects *good, umbo_trainer *trainer) {
    umbo_ignore(used(umbo_trainer_step(trainer, 0, 2, good_learn_fn, NULL, NULL)));
    (void)good;
}

static CHECK_MAYBE_UNUSED void use_communicator(struct objects *good,
                                                umbo_communicator *communicator) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    options.communicator = communicator;
    if (used(umbo_strategy_create(&options, &strategy)) == UMBO_OK) use_strategy(good, strategy);
    umbo_strategy_release(strategy);
}

static CHECK_MAYBE_UNUSED void use_checkpoint_manager(struct objects *good,
                                                      umbo_checkpoint_manager *manager) {
    int32_t saved = 0;
    umbo_ignore(used(umbo_checkpoint_manager_save(manager, 1, NULL, 1, &saved)));
    empty(manager);
    (void)good;
}

static umbo_status add_to_metrics(umbo_replica_context *context, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    struct objects *const good = user_data;
    umbo_view labels;
    (void)args, (void)result;
    UMBO_TRY(umbo_tensor_view(good->indices, &labels));
    return umbo_metrics_add_labels(good->metrics, context, "y", &labels, &labels, NULL);
}

static CHECK_MAYBE_UNUSED void use_metrics(struct objects *good) {
    umbo_ignore(used(umbo_strategy_run(good->strategy, add_to_metrics, NULL, good, NULL, NULL)));
}

static CHECK_MAYBE_UNUSED void use_devices(void) {
    umbo_ignore(used(umbo_device_set_logical_count(UMBO_DEVICE_CPU, 0, 1, NULL)));
}

static CHECK_MAYBE_UNUSED void use_workers(struct objects *good) {
    use_optimizer(good, good->optimizer);
    umbo_ignore(used(umbo_set_worker_count(UMBO_AUTO)));
}

static CHECK_MAYBE_UNUSED void use_measured(struct objects *good) {
    char text[2048];
    size_t length = 0;
    int32_t causes = 0;
    use_optimizer(good, good->optimizer);
    umbo_ignore(used(
        umbo_strategy_step_report(good->strategy, text, sizeof(text), &length, &causes)));
}

static CHECK_MAYBE_UNUSED void use_trace(struct objects *good) {
    use_optimizer(good, good->optimizer);
    umbo_ignore(used(umbo_trace_stop(NULL, NULL)));
}


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
    umbo_ignore(umbo_strategy_run(scene->good.strategy, logging_replica, NULL, scene, NULL, NULL));
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
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, good, NULL, NULL));
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
    umbo_ignore(umbo_strategy_run(good->strategy, applying_replica, NULL, scene, NULL, NULL));
}

/* -- umbo_average_fn */

static umbo_status probing_average(void *user_data) {
    probe_once(user_data, NULL);
    return UMBO_OK;
}

static void an_average(struct scene *scene) {
    struct objects *good = &scene->good;
    umbo_optimizer *optimizer = NULL;
    umbo_optimizer_options options = UMBO_OPTIMIZER_OPTIONS_INIT;
    options.average = UMBO_AVERAGE_MEAN;
    CHECK_OK(umbo_optimizer_create_sgd(good->strategy, NULL, &optimizer));
    CHECK_OK(umbo_optimizer_configure(optimizer, &options));
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, good, NULL, NULL));
    CHECK_OK(umbo_optimizer_apply(optimizer, good->gradients, NULL, NULL));
    umbo_ignore(umbo_optimizer_with_average(optimizer, probing_average, scene));
    umbo_optimizer_release(optimizer);
}

/* -- umbo_update_tile_fn */

static void probing_rule(const umbo_update_tile *tile, void *user_data) {
    in_rule = tile != NULL;
    probe_once(user_data, NULL);
    in_rule = 0;
}

/* The library never calls the host's function for a variable of a GPU. */
static void a_rule(struct scene *scene) {
    struct objects *good = &scene->good;
    umbo_optimizer *optimizer = NULL;
    if (gpu_seed >= 0 && gpu_seed % 2 == 1) {
        probing_rule(NULL, scene);
        return;
    }
    CHECK_OK(umbo_optimizer_create_custom(good->strategy, probing_rule, scene, NULL, NULL, &optimizer));
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, good, NULL, NULL));
    umbo_ignore(umbo_optimizer_apply(optimizer, good->gradients, NULL, NULL));
    umbo_optimizer_release(optimizer);
}

/* -- umbo_update_on_gpu_fn */

static umbo_status probing_update_on_gpu(const umbo_gpu_update *update, void *user_data) {
    in_rule = update != NULL;
    probe_once(user_data, NULL);
    in_rule = 0;
    return UMBO_OK;
}

static umbo_status submit_in_host_memory(umbo_replica_context *context, const umbo_value *args,
                                         void *user_data, umbo_value **result) {
    umbo_gradients *gradients = user_data;
    umbo_view view;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    *(float *)view.mutable_data = 1;
    return umbo_gradients_submit_weighted(gradients, context, 1);
}

/* A GPU holds the variable. Where there is none the library never calls such a function. */
static void a_rule_on_a_gpu(struct scene *scene) {
    static const char *const cpu[1] = {"CPU:0"};
    umbo_custom_rule_options of_rule = UMBO_CUSTOM_RULE_OPTIONS_INIT;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    umbo_variable *variable = NULL;
    umbo_gradients *gradients = NULL;
    umbo_optimizer *optimizer = NULL;
    umbo_device_info gpus = UMBO_DEVICE_INFO_INIT;
    CHECK_OK(umbo_device_get_info("GPU:0", &gpus));
    if (gpus.logical_count == 0) {
        (void)probing_update_on_gpu(NULL, scene);
        return;
    }
    options.compute_devices = cpu;
    options.compute_device_count = 1;
    options.parameter_device = "GPU:0";
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    CHECK_OK(umbo_variable_create(strategy, "v", scene->good.tensor, NULL, &variable));
    CHECK_OK(umbo_gradients_create(strategy, 1, &variable, UMBO_LOSS_SUM, NULL, &gradients));
    of_rule.update_on_gpu = probing_update_on_gpu;
    CHECK_OK(umbo_optimizer_create_custom(strategy, probing_rule, scene, NULL, &of_rule, &optimizer));
    CHECK_OK(umbo_strategy_run(strategy, submit_in_host_memory, NULL, gradients, NULL, NULL));
    umbo_ignore(umbo_optimizer_apply(optimizer, gradients, NULL, NULL));
    umbo_optimizer_release(optimizer);
    umbo_gradients_release(gradients);
    umbo_variable_release(variable);
    umbo_strategy_release(strategy);
}

static void the_destroy_of_a_schedule(struct scene *scene) {
    CHECK_OK(umbo_optimizer_set_schedule(scene->good.optimizer, good_schedule_fn, scene,
                                         probing_destroy));
    CHECK_OK(umbo_optimizer_set_schedule(scene->good.optimizer, NULL, NULL, NULL));
}

/* -- umbo_map_name_fn, umbo_loaded_weight_fn */

static umbo_status probing_map_name(const char *tensor_name, void *user_data, const char **variable_name) {
    *variable_name = tensor_name;
    probe_once(user_data, NULL);
    return UMBO_OK;
}

static void probing_loaded_weight(const char *variable_name, const char *tensor_name, void *user_data) {
    (void)variable_name;
    (void)tensor_name;
    probe_once(user_data, NULL);
}

static void a_name_map(struct scene *scene) {
    umbo_load_weights_options options = UMBO_LOAD_WEIGHTS_OPTIONS_INIT;
    options.map_name = probing_map_name;
    options.map_name_user_data = scene;
    umbo_ignore(umbo_checkpoint_load_weights(scene->good.checkpoint, CHECKPOINT_FILE, &options));
}

static void a_report_of_weights(struct scene *scene) {
    umbo_load_weights_options options = UMBO_LOAD_WEIGHTS_OPTIONS_INIT;
    options.report = probing_loaded_weight;
    options.report_user_data = scene;
    umbo_ignore(umbo_checkpoint_load_weights(scene->good.checkpoint, CHECKPOINT_FILE, &options));
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


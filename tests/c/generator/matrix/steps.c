/* -- umbo_replica_fn */

static umbo_status on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                void *user_data, umbo_value **result) {
    (void)args;
    (void)result;
    probe(user_data, context, NULL);
    return UMBO_OK;
}

static void a_replica(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, on_a_replica, NULL, scene, NULL, NULL));
}

static void a_replica_with_limits(struct scene *scene) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.timeout_seconds = 3600;
    options.cancellation = scene->good.cancellation;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, on_a_replica, NULL, scene, &options, NULL));
}

static void a_replica_of_the_default_strategy(struct scene *scene) {
    umbo_strategy *strategy = NULL;
    CHECK_OK(umbo_strategy_default(&strategy));
    umbo_ignore(umbo_strategy_run(strategy, on_a_replica, NULL, scene, NULL, NULL));
    umbo_strategy_release(strategy);
}

static void each_replica(struct scene *scene) {
    umbo_ignore(umbo_strategy_call_for_each_replica(scene->good.strategy, on_a_replica, NULL, scene,
                                                    NULL));
}

static void a_check_of_equivalence(struct scene *scene) {
    umbo_equivalence *equivalence = NULL;
    umbo_ignore(umbo_strategy_check_equivalence(scene->good.strategy, NULL, on_a_replica,
                                                scene->good.batch, scene, NULL, &equivalence));
    umbo_equivalence_release(equivalence);
}

/* -- umbo_learn_fn */

static umbo_status probing_learn(const umbo_rows *rows, const float *weights, float *gradient,
                                 void *user_data, double *loss) {
    struct scene scene = *(struct scene *)user_data;
    (void)weights, (void)gradient, (void)loss;
    scene.good.rows = rows;
    probe(&scene, rows->context, NULL);
    return UMBO_OK;
}

static void a_learning(struct scene *scene) {
    umbo_ignore(umbo_trainer_step(scene->good.trainer, 0, REPLICAS, probing_learn, scene, NULL));
}

static void an_epoch_of_a_trainer(struct scene *scene) {
    umbo_ignore(umbo_trainer_epoch(scene->good.trainer, REPLICAS, REPLICAS, probing_learn, scene,
                                   NULL));
}

/* The last replica that can come here stops the run, and all wait until it has returned. */
static void be_late(struct scene *scene) {
    if (__atomic_add_fetch(&scene->inside, 1, __ATOMIC_SEQ_CST) == devices_in_use)
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
    CHECK_STATUS(umbo_strategy_run(scene->good.strategy, function, NULL, scene, &options, NULL),
                 UMBO_STATUS_CANCELLED);
    umbo_cancellation_release(scene->token);
    __atomic_store_n(&scene->returned, 1, __ATOMIC_SEQ_CST);
}

static int64_t late_replicas(const umbo_strategy *strategy) {
    umbo_strategy_info info = UMBO_STRATEGY_INFO_INIT;
    return umbo_strategy_get_info(strategy, &info) == UMBO_OK ? info.late_replica_count : 0;
}

static void a_late_replica(struct scene *scene) {
    run_late(scene, late_on_a_replica, NULL);
    /* The strategy cannot be asked for late replicas where the call has released it. */
    while (__atomic_load_n(&scene->done, __ATOMIC_SEQ_CST) < devices_in_use) usleep(100);
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
    umbo_ignore(umbo_strategy_run(strategy, on_a_replica, NULL, user_data, NULL, NULL));
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
    umbo_ignore(umbo_strategy_update(strategy, scene->good.variable, update_with_a_probe, NULL,
                                     scene, NULL));
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
    umbo_ignore(umbo_replica_context_merge_call(context, merged, NULL, scene, NULL));
    return UMBO_OK;
}

static void merge(struct scene *scene, umbo_merge_fn function, int limits) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    merged = function;
    options.timeout_seconds = 3600;
    options.cancellation = scene->good.cancellation;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, merging_replica, NULL, scene,
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
                                     update_with_a_probe, NULL, scene, NULL));
}

static void an_update_of_no_slot(struct scene *scene) {
    umbo_ignore(umbo_strategy_update_non_slot(scene->good.strategy, scene->good.variable,
                                              update_with_a_probe, NULL, scene, NULL));
}

static umbo_status updating_replica(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    struct scene *scene = user_data;
    (void)args;
    (void)result;
    if (replica_id(context) == 0) scene->context = context;
    umbo_ignore(umbo_strategy_update(scene->good.strategy, scene->good.variable,
                                     update_with_a_probe, NULL, scene, NULL));
    return UMBO_OK;
}

static void an_update_of_replicas(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, updating_replica, NULL, scene, NULL, NULL));
}

/* -- umbo_destroy_fn */

static void probing_destroy(void *user_data) { probe_once(user_data, NULL); }

static void the_destroy_of_a_run(struct scene *scene) {
    umbo_run_options options = UMBO_RUN_OPTIONS_INIT;
    options.user_data_destroy = probing_destroy;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, good_replica_fn, NULL, scene, &options,
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
        umbo_ignore(umbo_strategy_run(scene->good.strategy, good_replica_fn, NULL, scene, &options,
                                      NULL));
    return UMBO_OK;
}

static void the_destroy_of_a_run_that_cannot_start(struct scene *scene) {
    umbo_ignore(umbo_strategy_run(scene->good.strategy, run_that_cannot_start, NULL, scene, NULL,
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
    umbo_ignore(umbo_strategy_run(scene->good.strategy, releasing_replica, NULL, scene, NULL,
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
    umbo_ignore(umbo_strategy_run(scene->good.strategy, discarding_replica, NULL, scene, NULL,
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
    umbo_ignore(umbo_strategy_run(scene->good.strategy, failing_replica, NULL, scene, NULL, NULL));
    umbo_clear_last_error();
}


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
    CHECK_OK(umbo_strategy_set_current(good->strategy));
    CHECK_OK(umbo_strategy_set_current(NULL));
    a_scope_without_a_probe(scene);
    CHECK_OK(umbo_strategy_run(good->strategy, submit_on_a_replica, NULL, good, NULL, NULL));
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
    umbo_value *sum = NULL;
    (void)args;
    (void)result;
    /* Replicas that share a device run on one thread until one of them waits. */
    UMBO_TRY(umbo_replica_context_all_reduce(context, scene->good.value, UMBO_REDUCE_SUM, &sum));
    umbo_value_release(sum);
    if (replica_id(context) == 1) CHECK(pthread_setspecific(scene->key, scene) == 0);
    return UMBO_OK;
}

/* The replica's thread ends with the strategy, while its release waits for it. */
static void the_end_of_a_replica_thread(struct scene *scene) {
    umbo_strategy *copy = NULL;
    CHECK(pthread_key_create(&scene->key, signalling_destroy) == 0);
    CHECK_OK(umbo_strategy_copy(scene->good.strategy, &copy));
    CHECK_OK(umbo_strategy_run(copy, marking_replica, NULL, scene, NULL, NULL));
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

/* A replica on a GPU refuses the host's memory, and lets go of it at once. */
static void the_destroy_of_a_lent_gradient(struct scene *scene) {
    struct objects *good = &scene->good;
    umbo_status status = umbo_strategy_run(good->strategy, lending_replica, NULL, scene, NULL, NULL);
    CHECK(status == UMBO_OK || gpu_seed >= 0);
    umbo_ignore(umbo_optimizer_apply(good->optimizer, good->gradients, NULL, NULL));
}

static void the_destroy_of_a_lent_gradient_of_a_failed_run(struct scene *scene) {
    scene->flag = 1;
    umbo_ignore(umbo_strategy_run(scene->good.strategy, lending_replica, NULL, scene, NULL, NULL));
    scene->flag = 0;
}

/* -- umbo_replica_thread_fn */

static void probing_thread(const umbo_replica_thread *thread, void *user_data) {
    if (thread->replica_id == thread->replica_count - 1) probe_once(user_data, NULL);
}

/* A strategy beside the others, whose last replica's thread probes when it begins or ends. */
static void serve(struct scene *scene, int at_its_end) {
    umbo_strategy *strategy = NULL;
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    options.cpu_replicas = REPLICAS;
    options.replica_thread_user_data = scene;
    if (at_its_end) {
        options.replica_thread_stop = probing_thread;
    } else {
        options.replica_thread_start = probing_thread;
    }
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    umbo_ignore(umbo_strategy_run(strategy, good_replica_fn, NULL, NULL, NULL, NULL));
    umbo_strategy_release(strategy);
}

static void a_thread_that_begins_to_serve(struct scene *scene) { serve(scene, 0); }

static void a_thread_that_has_served(struct scene *scene) { serve(scene, 1); }


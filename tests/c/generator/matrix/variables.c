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
    umbo_ignore(umbo_strategy_run(scene->good.strategy, initializing_replica, NULL, scene, NULL,
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
    umbo_ignore(umbo_strategy_run(scene->good.strategy, creating_replica, NULL, scene, NULL, NULL));
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


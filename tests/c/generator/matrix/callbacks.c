/* ---- callbacks that are passed to the functions */

/* The objects of the call in progress, for callbacks without user data. */
static struct objects *now;

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
    (void)user_data;
    return umbo_value_retain(element, result);
}

static CHECK_MAYBE_UNUSED umbo_status good_dataset_fn(const umbo_input_context *context,
                                                      void *user_data, umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    return umbo_dataset_from_range(0, 4, 1, dataset);
}

static CHECK_MAYBE_UNUSED umbo_status good_open_file_fn(const char *path, int64_t number, void *user_data,
                                                        umbo_dataset **dataset) {
    (void)path;
    (void)number;
    (void)user_data;
    return umbo_dataset_from_range(0, 4, 1, dataset);
}

static CHECK_MAYBE_UNUSED umbo_status good_value_fn(const umbo_value_context *context,
                                                    void *user_data, umbo_value **value) {
    (void)context;
    (void)user_data;
    return umbo_value_retain(now->value, value);
}

/* ---- what some functions need first */

static umbo_status submit_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                       void *user_data, umbo_value **result) {
    const struct objects *good = user_data;
    umbo_view view;
    (void)args;
    (void)result;
    UMBO_TRY(umbo_gradients_view(good->gradients, context, 0, UMBO_GRADIENT_OVERWRITE, &view));
    UMBO_TRY(put_number(context, &view, 1));
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
    if (umbo_strategy_run(good.strategy, submit_on_a_replica, NULL, &good, NULL, NULL) != UMBO_OK)
        (void)submit_on_a_replica(good.replica_context, NULL, &good, &result);
}

/* A scope to be left, if the context allows one. */
static CHECK_MAYBE_UNUSED umbo_scope *scope_in_place(struct objects good) {
    umbo_scope *scope = NULL;
    return umbo_scope_enter(good.strategy, &scope) == UMBO_OK ? scope : NULL;
}

/* Where an iterator is, if the context allows asking. */
static CHECK_MAYBE_UNUSED void place_of(umbo_iterator *iterator, char *text, size_t capacity) {
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


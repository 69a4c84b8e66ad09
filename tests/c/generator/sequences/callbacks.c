/* ---- callbacks, which may call again where they are on the thread that draws */

static void some_calls(struct fuzzer *f);
static void gone_with(struct fuzzer *f, int64_t callback);
static void keep_all(struct fuzzer *f);

static void in_a_callback(void) {
    struct fuzzer *const f = &fuzzer;
    if (!pthread_equal(pthread_self(), f->thread) || f->nesting >= MOST_NESTING) return;
    {
        /* What the callback around this one has made lives until that returns. */
        const int64_t around = f->callback, number = ++f->callbacks;
        f->callback = number;
        if (one_in(f, 2)) {
            CHECK_OK(umbo_callback_keep_handles());
            keep_all(f);
        }
        f->nesting++;
        some_calls(f);
        f->nesting--;
        gone_with(f, number);
        f->callback = around;
    }
}

static umbo_status outcome(void) {
    struct fuzzer *const f = &fuzzer;
    if (!pthread_equal(pthread_self(), f->thread) || !one_in(f, 10)) return UMBO_OK;
    {
        const umbo_status status = below(f, 20) - 1;
        /* That of the library's own mistakes. */
        return status == UMBO_STATUS_INTERNAL ? UMBO_OK : umbo_set_last_error(status, text(f), NULL, NULL);
    }
}

static void drawn_destroy_fn(void *user_data) {
    const int64_t token = (int64_t)(size_t)user_data;
    if (__atomic_fetch_add(&destroyed[token % MOST_TOKENS], 1, __ATOMIC_SEQ_CST) != 0)
        wrong(&fuzzer, "user data", "is destroyed twice");
    __atomic_fetch_add(&tokens_destroyed, 1, __ATOMIC_SEQ_CST);
    in_a_callback();
}

/* A pass of a generator. Passes of generators that were drawn without a function for the end are never
 * ended: the list is there so that they do not look lost. */
struct pass {
    int elements;
    struct pass *before, *after;
};

static struct pass passes = {0, &passes, &passes};
static pthread_mutex_t passes_mutex = PTHREAD_MUTEX_INITIALIZER;

static umbo_status drawn_generator_begin_fn(void *user_data, void **pass) {
    struct pass *const made = calloc(1, sizeof(*made));
    (void)user_data;
    CHECK(made != NULL);
    CHECK(pthread_mutex_lock(&passes_mutex) == 0);
    made->before = &passes;
    made->after = passes.after;
    made->before->after = made->after->before = made;
    CHECK(pthread_mutex_unlock(&passes_mutex) == 0);
    *pass = made;
    in_a_callback();
    return UMBO_OK;
}

static umbo_status drawn_generator_next_fn(void *pass, void *user_data, umbo_value **element) {
    (void)user_data;
    in_a_callback();
    if (pass != NULL && ++((struct pass *)pass)->elements < 4) *element = float_value(1);
    return outcome();
}

static umbo_status drawn_generator_reset_fn(void *pass, void *user_data) {
    (void)user_data;
    if (pass != NULL) ((struct pass *)pass)->elements = 0;
    in_a_callback();
    return outcome();
}

static void drawn_generator_end_fn(void *pass, void *user_data) {
    struct pass *const ended = pass;
    (void)user_data;
    if (ended != NULL) {
        CHECK(pthread_mutex_lock(&passes_mutex) == 0);
        ended->before->after = ended->after;
        ended->after->before = ended->before;
        CHECK(pthread_mutex_unlock(&passes_mutex) == 0);
        free(ended);
    }
    in_a_callback();
}

static void *
    drawn_mpi_find_fn(const char *name, void *user_data) {
    (void)name;
    (void)user_data;
    in_a_callback();
    return NULL;
}

/* Ranks that are not there send nothing. */
static umbo_status drawn_communicator_all_to_all_fn(const size_t *send_bytes, const void *send,
                                                    const size_t *receive_bytes, void *user_data,
                                                    void *receive) {
    (void)send;
    (void)send_bytes;
    (void)receive;
    (void)receive_bytes;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_all_gather_fn(const size_t *bytes, const void *send,
                                                    void *user_data, void *receive) {
    (void)send;
    (void)receive;
    (void)bytes;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_broadcast_fn(int64_t root, size_t bytes, void *user_data,
                                                   void *data) {
    (void)data;
    (void)bytes;
    (void)root;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_vote_fn(int64_t number, void *user_data, int64_t *least,
                                              int64_t *greatest) {
    (void)user_data;
    *least = *greatest = number;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_communicator_barrier_fn(void *user_data) {
    (void)user_data;
    in_a_callback();
    return outcome();
}

static void drawn_communicator_abort_fn(const char *message, void *user_data) {
    (void)message;
    (void)user_data;
    in_a_callback();
}

static umbo_status drawn_map_fn(const umbo_value *element, void *user_data, umbo_value **result) {
    const umbo_status status = umbo_value_retain(element, result);
    (void)user_data;
    in_a_callback();
    return status == UMBO_OK ? outcome() : status;
}

static umbo_status drawn_filter_fn(const umbo_value *element, void *user_data, int32_t *keep) {
    (void)element;
    (void)user_data;
    in_a_callback();
    /* Of a dataset without end some element must be kept. */
    *keep = 1;
    return outcome();
}

static umbo_status drawn_dataset_fn(const umbo_input_context *context, void *user_data,
                                    umbo_dataset **dataset) {
    (void)context;
    (void)user_data;
    in_a_callback();
    return umbo_dataset_from_range(0, 4, 1, dataset);
}

static umbo_status drawn_open_file_fn(const char *path, int64_t number, void *user_data,
                                      umbo_dataset **dataset) {
    (void)path;
    (void)user_data;
    in_a_callback();
    UMBO_TRY(umbo_dataset_from_range(0, number % 4, 1, dataset));
    return outcome();
}

static void drawn_update_tile_fn(const umbo_update_tile *tile, void *user_data) {
    (void)tile;
    (void)user_data;
}

/* Functions of the library are refused in it. */
static umbo_status drawn_update_on_gpu_fn(const umbo_gpu_update *update, void *user_data) {
    (void)update;
    (void)user_data;
    return outcome();
}

static umbo_status drawn_learn_fn(const umbo_rows *rows, const float *weights, float *gradient,
                                  void *user_data, double *loss) {
    (void)user_data;
    if (gradient != NULL) gradient[0] += weights[0];
    *loss = 1;
    if (pthread_equal(pthread_self(), fuzzer.thread)) {
        float *row = NULL;
        struct fuzzer *const f = &fuzzer;
        if (umbo_rows_gradient_row(rows, below(f, 3), narrow(f), &row) == UMBO_OK) row[0] = 1;
        umbo_ignore(umbo_rows_weigh(rows, real(f)));
        in_a_callback();
    }
    return outcome();
}

static umbo_status drawn_schedule_fn(int64_t step, void *user_data, double *learning_rate) {
    (void)step;
    (void)user_data;
    *learning_rate = 0.1;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_map_name_fn(const char *tensor_name, void *user_data, const char **variable_name) {
    (void)user_data;
    if (!one_in(&fuzzer, 4)) *variable_name = tensor_name;
    in_a_callback();
    return outcome();
}

static void drawn_loaded_weight_fn(const char *variable_name, const char *tensor_name, void *user_data) {
    (void)variable_name;
    (void)tensor_name;
    (void)user_data;
    in_a_callback();
}

static umbo_status drawn_progress_fn(const umbo_progress *progress, void *user_data) {
    (void)progress;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_average_fn(void *user_data) {
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_scope_fn(umbo_strategy *strategy, void *user_data) {
    (void)strategy;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_replica_fn(umbo_replica_context *context, const umbo_value *args,
                                    void *user_data, umbo_value **result) {
    (void)args;
    (void)user_data;
    (void)result;
    if (pthread_equal(pthread_self(), fuzzer.thread)) {
        struct live *const live = &fuzzer.live[UMBO_HANDLE_REPLICA_CONTEXT][0];
        const struct live outer = *live;
        const int had = fuzzer.count[UMBO_HANDLE_REPLICA_CONTEXT];
        /* Lent handles are not counted, but here they are of use. */
        live->handle = context;
        live->depth = 0;
        fuzzer.count[UMBO_HANDLE_REPLICA_CONTEXT] = 1;
        in_a_callback();
        fuzzer.count[UMBO_HANDLE_REPLICA_CONTEXT] = had;
        *live = outer;
        fuzzer.gone[UMBO_HANDLE_REPLICA_CONTEXT]
                   [fuzzer.gone_count[UMBO_HANDLE_REPLICA_CONTEXT]++ % MOST_GONE] = context;
    }
    return outcome();
}

static umbo_status drawn_merge_fn(umbo_strategy *strategy, const umbo_value *args,
                                  void *user_data, umbo_value **result) {
    (void)strategy;
    (void)args;
    (void)user_data;
    (void)result;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_update_fn(umbo_variable *variable, const umbo_value *args,
                                   void *user_data, umbo_value **result) {
    (void)variable;
    (void)args;
    (void)user_data;
    (void)result;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_value_fn(const umbo_value_context *context, void *user_data,
                                  umbo_value **value) {
    (void)context;
    (void)user_data;
    in_a_callback();
    *value = float_value(1);
    return outcome();
}

static umbo_status drawn_initializer_fn(const umbo_view *view, void *user_data) {
    (void)view;
    (void)user_data;
    in_a_callback();
    return outcome();
}

static umbo_status drawn_variable_creator_fn(umbo_variable_request *request, void *user_data,
                                          umbo_variable **variable) {
    (void)request;
    (void)user_data;
    (void)variable;
    in_a_callback();
    return outcome();
}

static void drawn_replica_thread_fn(const umbo_replica_thread *thread, void *user_data) {
    (void)thread;
    (void)user_data;
    in_a_callback();
}

static void drawn_log_fn(umbo_log_level level, const char *message, void *user_data) {
    (void)level;
    (void)message;
    (void)user_data;
    in_a_callback();
}


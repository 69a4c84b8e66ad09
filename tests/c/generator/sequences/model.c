/* ---- the model of what is alive */

static struct live *find(struct fuzzer *f, int kind, const void *handle) {
    int index;
    for (index = 0; index < f->count[kind]; index++)
        if (f->live[kind][index].handle == handle) return &f->live[kind][index];
    return NULL;
}

/* A handle for a parameter of this type. */
static void *pick(struct fuzzer *f, int kind) {
    const int way = below(f, 40);
    int other = kind;
    if (way == 0) return NULL;
    if (way == 1 && f->gone_count[kind] > 0)
        return f->gone[kind][below(f, f->gone_count[kind] < MOST_GONE ? f->gone_count[kind]
                                                                      : MOST_GONE)];
    if (way == 2) return (void *)(size_t)draw(f);
    if (way == 3) return (void *)(size_t)below(f, 4096);
    if (way == 4) other = UMBO_HANDLE_TENSOR + below(f, KINDS - UMBO_HANDLE_TENSOR);
    if (f->count[other] == 0) return NULL;
    {
        const struct live *const live = &f->live[other][below(f, f->count[other])];
        if (live->depth > f->depth) f->depth = live->depth;
        return live->handle;
    }
}

static void **picks(struct fuzzer *f, int kind) {
    void **const array = f->picked[next_array(f)];
    int index;
    for (index = 0; index < MOST_ITEMS; index++) array[index] = pick(f, kind);
    return one_in(f, 16) ? NULL : array;
}

static void forget(struct fuzzer *f, int kind, struct live *live) {
    f->gone[kind][f->gone_count[kind]++ % MOST_GONE] = live->handle;
    *live = f->live[kind][--f->count[kind]];
}

static void release(int kind, void *handle) {
    switch (kind) {
        case UMBO_HANDLE_TENSOR: umbo_tensor_release(handle); break;
        case UMBO_HANDLE_VALUE: umbo_value_release(handle); break;
        case UMBO_HANDLE_STRATEGY: umbo_strategy_release(handle); break;
        case UMBO_HANDLE_SCOPE: umbo_ignore(umbo_scope_exit(handle)); break;
        case UMBO_HANDLE_VARIABLE: umbo_variable_release(handle); break;
        case UMBO_HANDLE_DATASET: umbo_dataset_release(handle); break;
        case UMBO_HANDLE_DISTRIBUTED_DATASET: umbo_distributed_dataset_release(handle); break;
        case UMBO_HANDLE_ITERATOR: umbo_iterator_release(handle); break;
        case UMBO_HANDLE_GRADIENTS: umbo_gradients_release(handle); break;
        case UMBO_HANDLE_OPTIMIZER: umbo_optimizer_release(handle); break;
        case UMBO_HANDLE_CANCELLATION: umbo_cancellation_release(handle); break;
        case UMBO_HANDLE_CLUSTER_RESOLVER: umbo_cluster_resolver_release(handle); break;
        case UMBO_HANDLE_COMMUNICATOR: umbo_communicator_release(handle); break;
        case UMBO_HANDLE_ELEMENT_SPEC: umbo_element_spec_release(handle); break;
        case UMBO_HANDLE_EQUIVALENCE: umbo_equivalence_release(handle); break;
        case UMBO_HANDLE_METRICS: umbo_metrics_release(handle); break;
        case UMBO_HANDLE_CHECKPOINT: umbo_checkpoint_release(handle); break;
        case UMBO_HANDLE_CHECKPOINT_MANAGER: umbo_checkpoint_manager_release(handle); break;
        case UMBO_HANDLE_TRAINER: umbo_trainer_release(handle); break;
        default: break;
    }
}

/* The innermost scope is left. */
static void leave_scope(struct fuzzer *f) {
    struct live *live;
    void *const scope = f->scopes[--f->scope_count];
    f->nesting += MOST_NESTING;
    if (umbo_scope_exit(scope) != UMBO_OK)
        wrong(f, "the innermost scope cannot be left", umbo_last_error_message());
    f->nesting -= MOST_NESTING;
    live = find(f, UMBO_HANDLE_SCOPE, scope);
    if (live != NULL) forget(f, UMBO_HANDLE_SCOPE, live);
}

/* A callback returns, and the library releases what was made in it. */
static void gone_with(struct fuzzer *f, int64_t callback) {
    int kind, index;
    for (kind = UMBO_HANDLE_TENSOR; kind < KINDS; kind++)
        for (index = f->count[kind]; index-- > 0;)
            if (f->live[kind][index].until == callback) forget(f, kind, &f->live[kind][index]);
}

/* The running callback keeps what it has made and what it makes. */
static void keep_all(struct fuzzer *f) {
    int kind, index;
    for (kind = UMBO_HANDLE_TENSOR; f->callback != 0 && kind < KINDS; kind++)
        for (index = 0; index < f->count[kind]; index++)
            if (f->live[kind][index].until == f->callback) f->live[kind][index].until = 0;
    f->callback = 0;
}

/* Whether the library releases a handle of this kind at the end of the callback that makes it. */
static int goes_with_callback(int kind) { return kind == UMBO_HANDLE_TENSOR || kind == UMBO_HANDLE_VALUE; }

/* What a call has made. */
static void adopt(struct fuzzer *f, int kind, umbo_status status, void *handle) {
    struct live *live;
    if (handle == NULL) return;
    if (status != UMBO_OK) {
        wrong(f, "an output without success", umbo_status_name(status));
        return;
    }
    if (find(f, kind, handle) != NULL) wrong(f, "a new handle", "one that lives was given again");
    if (kind == UMBO_HANDLE_SCOPE) {
        /* Scopes are left in order, so all are kept. */
        f->scopes[f->scope_count++] = handle;
    } else if (f->depth > MOST_DEPTH) {
        release(kind, handle);
        return;
    } else if (f->count[kind] == MOST_LIVE) {
        /* Makes room. What its end calls back may need the room itself. */
        struct live old = f->live[kind][below(f, MOST_LIVE)];
        forget(f, kind, find(f, kind, old.handle));
        f->nesting += MOST_NESTING;
        release(kind, old.handle);
        f->nesting -= MOST_NESTING;
    }
    live = &f->live[kind][f->count[kind]++];
    live->handle = handle;
    live->depth = f->depth + 1;
    live->until = goes_with_callback(kind) ? f->callback : 0;
}

/* What a program retains stays until it releases it. */
static void keep(struct fuzzer *f, int kind, umbo_status status, void *handle) {
    struct live *live;
    adopt(f, kind, status, handle);
    live = find(f, kind, handle);
    if (live != NULL) live->until = 0;
}

static void borrowed(struct fuzzer *f, int kind, umbo_status status, void *handle) {
    if (handle == NULL) return;
    if (status != UMBO_OK) wrong(f, "an output without success", umbo_status_name(status));
    f->gone[kind][f->gone_count[kind]++ % MOST_GONE] = handle;
}

static void released(struct fuzzer *f, int kind, const void *handle) {
    struct live *const live = find(f, kind, handle);
    int index;
    if (live == NULL) return;
    forget(f, kind, live);
    for (index = 0; kind == UMBO_HANDLE_SCOPE && index < f->scope_count; index++)
        if (f->scopes[index] == handle) {
            if (index != f->scope_count - 1) wrong(f, "a scope", "left although not innermost");
            f->scope_count--;
        }
}

static void retained(struct fuzzer *f, int kind, umbo_status status, const void *handle) {
    struct live *const live = find(f, kind, handle);
    if (live == NULL && status == UMBO_OK)
        wrong(f, "a handle that is not live is retained", umbo_last_error_message());
    if (live != NULL && status != UMBO_OK)
        wrong(f, "a live handle is refused", umbo_last_error_message());
}

static void check_live_handles(struct fuzzer *f) {
    int kind;
    for (kind = UMBO_HANDLE_TENSOR; kind < KINDS; kind++) {
        int64_t count = -1;
        int patience;
        /* Functions that run ahead of an iterator, on other threads, make handles for a moment. */
        for (patience = 20000; patience > 0; patience--) {
            if (umbo_live_handles(kind, &count) == UMBO_OK && count == f->count[kind]) break;
            (void)usleep(100);
        }
        if (patience == 0) {
            char detail[100];
            snprintf(detail, sizeof(detail), "%lld of type %d are alive, and %d by the model",
                     (long long)count, kind, f->count[kind]);
            wrong(f, "umbo_live_handles", detail);
        }
    }
}

/* Where an iterator is, or any text. */
static const char *place(struct fuzzer *f) {
    size_t length = 0;
    umbo_iterator *const iterator = pick(f, UMBO_HANDLE_ITERATOR);
    const umbo_status status =
        umbo_iterator_save_position(iterator, f->place, sizeof(f->place), &length);
    if (status != UMBO_OK || one_in(f, 12)) return text(f);
    /* Damaged now and then. */
    if (one_in(f, 6)) f->place[below(f, (int)length)] = (char)draw(f);
    return f->place;
}

/* User data that is to be destroyed once. */
static void *new_token(struct fuzzer *f) {
    if (one_in(f, 4)) return NULL;
    f->tokens++;
    destroyed[f->tokens % MOST_TOKENS] = 0;
    return (void *)(size_t)f->tokens;
}

static void begin_call(struct fuzzer *f, const char *name) {
    f->trace[(f->calls + 1) % TRACE] = name;
    /* Another thread watches it. */
    __atomic_store_n(&f->calls, f->calls + 1, __ATOMIC_SEQ_CST);
}

static void end_call(struct fuzzer *f, umbo_status status, const char *name) {
    if (status == UMBO_STATUS_INTERNAL) {
        char detail[200];
        snprintf(detail, sizeof(detail), "%s: %.150s", name, umbo_last_error_message());
        wrong(f, "INTERNAL", detail);
    }
    if (status == UMBO_OK) f->succeeded++;
    else f->refused++;
}


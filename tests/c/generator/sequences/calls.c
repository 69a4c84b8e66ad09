/* ---- the calls, one for each function */

/* CALLS */
static const struct {
    const char *name;
    void (*draw)(struct fuzzer *f);
    int calls_back;
} functions[] = {
    /* TABLE */
};

static int is_left_out(const char *name) {
    const size_t length = strlen(name);
    const char *found = without;
    while ((found = strstr(found, name)) != NULL) {
        if ((found == without || found[-1] == ',') &&
            (found[length] == 0 || found[length] == ','))
            return 1;
        found += length;
    }
    return 0;
}

static void one_call(struct fuzzer *f) {
    int index = below(f, COUNT_OF(functions));
    /* What is picked for this call, within another one that is in progress. */
    const int depth = f->depth;
    if (one_in(f, 3))
        while (!functions[index].calls_back) index = below(f, COUNT_OF(functions));
    if (is_left_out(functions[index].name)) return;
    f->depth = 0;
    functions[index].draw(f);
    f->depth = depth;
}

/* The calls of a callback, which leaves the scopes that it has entered. */
static void some_calls(struct fuzzer *f) {
    const int scopes = f->scope_count;
    int count = below(f, 4);
    while (count-- > 0 && f->scope_count < MOST_LIVE - 2) one_call(f);
    while (f->scope_count > scopes) leave_scope(f);
}

static int finished;

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Says where it was; may be called by a signal. */
static void say_where(const char *what) {
    char text[200];
    int index, length;
    length = snprintf(text, sizeof(text), "sequences --seed %llu %s in call %lld, after\n",
                      (unsigned long long)seed, what, (long long)fuzzer.calls);
    (void)!write(2, text, (size_t)length);
    for (index = TRACE - 1; index >= 0; index--) {
        const char *const name = fuzzer.trace[(fuzzer.calls - index + TRACE) % TRACE];
        length = snprintf(text, sizeof(text), "  %s\n", name == NULL ? "-" : name);
        (void)!write(2, text, (size_t)length);
    }
}

static void on_signal(int number) {
    say_where(strsignal(number));
    signal(number, SIG_DFL);
    raise(number);
}

static void *watch(void *user_data) {
    int64_t progress = -1;
    double since = now();
    (void)user_data;
    while (!__atomic_load_n(&finished, __ATOMIC_SEQ_CST)) {
        const int64_t calls = __atomic_load_n(&fuzzer.calls, __ATOMIC_SEQ_CST);
        usleep(100000);
        if (calls != progress) {
            progress = calls;
            since = now();
        } else if (now() - since > PATIENCE) {
            say_where("hangs");
            signal(SIGABRT, SIG_DFL);
            abort();
        }
    }
    return NULL;
}

int main(int argc, char **argv) {
    struct fuzzer *const f = &fuzzer;
    int64_t wanted = 1000000;
    double seconds = 1e9, began = now();
    int index, kind;
    pthread_t watcher;
    CHECK(setenv("UMBO_MPI_LIBRARY", "none.so", 1) == 0); /* MPI is not for random arguments */
    for (index = 1; index + 1 < argc; index += 2) {
        if (strcmp(argv[index], "--calls") == 0) wanted = atoll(argv[index + 1]);
        else if (strcmp(argv[index], "--seconds") == 0) seconds = atof(argv[index + 1]);
        else if (strcmp(argv[index], "--seed") == 0) seed = strtoull(argv[index + 1], NULL, 10);
        else if (strcmp(argv[index], "--without") == 0) without = argv[index + 1];
        else {
            fprintf(stderr, "usage: sequences [--calls N] [--seconds S] [--seed X] "
                            "[--without FUNCTION,...]\n");
            return 2;
        }
    }
    printf("sequences --seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    enter_folder();
    signal(SIGSEGV, on_signal);
    signal(SIGBUS, on_signal);
    signal(SIGABRT, on_signal);
    f->state = seed;
    f->thread = pthread_self();
    CHECK(pthread_create(&watcher, NULL, watch, NULL) == 0);
    while (f->calls < wanted && now() - began < seconds &&
           __atomic_load_n(&failures, __ATOMIC_SEQ_CST) < 20) {
        one_call(f);
        while (f->scope_count > 0 && (one_in(f, 3) || f->scope_count > MOST_LIVE - 4))
            leave_scope(f);
        if (one_in(f, 64)) check_live_handles(f);
    }
    while (f->scope_count > 0) leave_scope(f);
    umbo_ignore(umbo_strategy_set_current(NULL));
    f->nesting = MOST_NESTING;
    check_live_handles(f);
    for (kind = UMBO_HANDLE_TENSOR; kind < KINDS; kind++)
        while (f->count[kind] > 0) {
            struct live *const live = &f->live[kind][0];
            void *const handle = live->handle;
            forget(f, kind, live);
            release(kind, handle);
        }
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    umbo_clear_last_error();
    __atomic_store_n(&finished, 1, __ATOMIC_SEQ_CST);
    CHECK(pthread_join(watcher, NULL) == 0);
    if (__atomic_load_n(&tokens_destroyed, __ATOMIC_SEQ_CST) != f->tokens) {
        char detail[80];
        snprintf(detail, sizeof(detail), "%lld of %lld", (long long)tokens_destroyed,
                 (long long)f->tokens);
        wrong(f, "user data destroyed", detail);
    }
    printf("%lld calls, %lld succeeded, %lld were refused, %lld user data, %d failures\n",
           (long long)f->calls, (long long)f->succeeded, (long long)f->refused,
           (long long)f->tokens, failures);
    remove_folder();
    return failures != 0 || finish() != 0;
}

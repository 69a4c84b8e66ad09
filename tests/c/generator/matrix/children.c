/* ---- one child for each context */

static void make_the_calls(int context) {
    static int64_t left_before;
    const size_t gone = functions[first_function].gives_up;
    struct scene scene;
    int64_t left = 0;
    int patience = 1000;
    current_context = context;
    current_function = first_function;
    entered = 0;
    memset(&scene, 0, sizeof(scene));
    make_objects(&scene.good);
    now = &scene.good;
    contexts[context].enter(&scene);
    CHECK_OK(umbo_set_log_callback(UMBO_LOG_ERROR, NULL, NULL, NULL));
    demand(umbo_strategy_set_current(NULL), "umbo_strategy_set_current(NULL)");
    if (!entered) fail("the context", "was never there");
    check_objects(&scene.good, entered ? gone : NOTHING);
    release_objects(&scene.good, entered ? gone : NOTHING);
    umbo_clear_last_error();
    /* Threads that have made elements of an iterator that is gone may still have one. */
    while (umbo_live_handles(UMBO_HANDLE_ANY, &left) == UMBO_OK && left != left_before && patience-- > 0) usleep(1000);
    if (left != left_before) {
        char text[80];
        snprintf(text, sizeof(text), "%lld more than before", (long long)(left - left_before));
        fail("handles left", text);
        left_before = left;
    }
}

static const char *wanted_function;

/* How many functions from this one are called with the same objects. */
static int count_together(int from) {
    int count = 1;
    if (wanted_function != NULL || functions[from].gives_up != NOTHING) return 1;
    while (count < most_together && from + count < FUNCTIONS && !functions[from + count].needs_new_objects) count++;
    return count;
}

static int is_wanted(int function) {
    return wanted_function == NULL || strcmp(functions[function].name, wanted_function) == 0;
}

static void child(int context, int from) {
    mode_of_program = try_mode(unusual_modes[COUNT_OF(unusual_modes) - 1].control);
    for (first_function = from; first_function < FUNCTIONS; first_function += together) {
        together = count_together(first_function);
        __atomic_store_n(&report->at[context].function, first_function, __ATOMIC_SEQ_CST);
        __atomic_fetch_add(&report->at[context].reached, 1, __ATOMIC_SEQ_CST);
        if (is_wanted(first_function)) make_the_calls(context);
    }
    /* Threads of the library may still be there. */
    fflush(NULL);
    _exit(0);
}

static double seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

struct worker {
    pid_t process;
    int context, reached;
    double since;
};

static void start(struct worker *worker, int context, int from) {
    fflush(NULL);
    worker->context = context;
    worker->reached = report->at[context].reached;
    worker->since = seconds();
    worker->process = fork();
    CHECK(worker->process >= 0);
    if (worker->process == 0) child(context, from);
}

/* Looks after a child; whether it still runs. */
static int look_after(struct worker *worker, double patience) {
    const int context = worker->context;
    const int reached = __atomic_load_n(&report->at[context].reached, __ATOMIC_SEQ_CST);
    const char *what = NULL;
    char text[80];
    int status = 0, next;
    if (waitpid(worker->process, &status, WNOHANG) == worker->process) {
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
        what = "dies";
        if (WIFSIGNALED(status))
            snprintf(text, sizeof(text), "%s", strsignal(WTERMSIG(status)));
        else
            snprintf(text, sizeof(text), "exit status %d, see above", WEXITSTATUS(status));
    } else if (reached != worker->reached) {
        worker->reached = reached;
        worker->since = seconds();
        return 1;
    } else if (seconds() - worker->since > patience) {
        what = "hangs";
        snprintf(text, sizeof(text), "no answer for %.0f seconds", patience);
        kill(worker->process, SIGKILL);
        CHECK(waitpid(worker->process, &status, 0) == worker->process);
    } else {
        return 1;
    }
    current_context = context;
    current_function = report->at[context].function;
    fail(what, text);
    next = current_function + count_together(current_function);
    if (next >= FUNCTIONS) return 0;
    start(worker, context, next);
    return 1;
}

/* Whether a context is one of as many, which follow each other at equal distances from one that the seed
 * chooses. */
static int is_drawn(int context, int most) {
    const int every = most >= CONTEXTS ? 1 : (CONTEXTS + most - 1) / most;
    return (context + gpu_seed + 1) % every == 0;
}

int main(int argc, char **argv) {
    const char *wanted_context = NULL;
    double patience = 20;
    int jobs = 2, most = CONTEXTS, next = 0, working = 0, failures, index, listed = 0;
    struct worker workers[16];
    CHECK(setenv("UMBO_MPI_LIBRARY", "none.so", 1) == 0); /* MPI is not for forks and random arguments */
    for (index = 1; index < argc; index += 2) {
        const char *const value = index + 1 < argc ? argv[index + 1] : "";
        if (strcmp(argv[index], "--list") == 0) {
            for (next = 0; next < CONTEXTS; next++) printf("%s\n", contexts[next].name);
            return 0;
        }
        if (strcmp(argv[index], "--context") == 0) wanted_context = value;
        if (strcmp(argv[index], "--function") == 0) wanted_function = value;
        if (strcmp(argv[index], "--patience") == 0) patience = atof(value);
        if (strcmp(argv[index], "--jobs") == 0) jobs = atoi(value);
        if (strcmp(argv[index], "--gpus") == 0) gpu_seed = atol(value);
        if (strcmp(argv[index], "--contexts") == 0) most = atoi(value);
        if (strcmp(argv[index], "--devices") == 0) devices_in_use = atoi(value);
        if (strcmp(argv[index], "--together") == 0) most_together = atoi(value);
    }
    CHECK(jobs >= 1 && jobs <= 16 && CONTEXTS <= MOST_CONTEXTS && FUNCTIONS <= MOST_FUNCTIONS);
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(report != MAP_FAILED);
    write_files();
    memset(workers, 0, sizeof(workers));
    for (;;) {
        for (index = 0, working = 0; index < jobs; index++) {
            struct worker *worker = &workers[index];
            if (worker->process != 0 && !look_after(worker, patience)) worker->process = 0;
            while (worker->process == 0 && next < CONTEXTS) {
                const int context = next++;
                const char *const name = contexts[context].name;
                if (wanted_context == NULL ? is_drawn(context, most) : strcmp(name, wanted_context) == 0)
                    start(worker, context, 0);
            }
            working += worker->process != 0;
        }
        if (working == 0) break;
        usleep(1000);
    }
    /* Arguments that no context takes show nothing. (Some give the host's memory, which a GPU refuses.) */
    for (index = 0; index < FUNCTIONS && wanted_context == NULL && most >= CONTEXTS && gpu_seed < 0; index++) {
        const int expected = !functions[index].never_succeeds;
        if (is_wanted(index) && functions[index].gives_up == NOTHING &&
            report->succeeded[index] != expected && expected) {
            printf("%s succeeds in no context: it needs a recipe in matrix.rs\n",
                   functions[index].name);
            listed++;
        }
    }
    failures = report->failure_count < MOST_FAILURES ? report->failure_count : MOST_FAILURES;
    for (index = 0; index < failures; index++) {
        const struct failure *failure = &report->failures[index];
        printf("%s%s in %s: %s\n", functions[failure->function].name,
               count_together(failure->function) > 1 ? " and those behind it" : "", contexts[failure->context].name,
               failure->what);
    }
    printf("%d functions in %d contexts, %d failures\n", (int)FUNCTIONS, (int)CONTEXTS,
           report->failure_count);
    (void)axes;
    return report->failure_count != 0 || listed != 0;
}

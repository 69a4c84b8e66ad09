/* ---- contexts */

/* Objects of the calls in progress, and where the context has got to. */
struct scene {
    struct objects good;
    /* The iterator that is being advanced, if any, and whether the context needs its last handle: nobody waits for
     * callbacks on threads of an iterator that is given up. */
    umbo_iterator *own;
    int keeps_own;
    umbo_replica_context *context;
    /* A run returned while its callbacks were in it: they are late. How many of them use the scene no
     * more. */
    int inside, returned, done;
    umbo_cancellation *token;
    /* Memory of foreign tensors. */
    float memory[4];
    /* How many elements a generator has yet to make. */
    int left;
    /* What a function of a generator or a communicator has to be to be looked at. */
    int part;
    int flag;
    pthread_key_t key;
};

enum { BEGIN = 1, NEXT, RESET, END, ALL_TO_ALL, ALL_GATHER, BROADCAST, VOTE, BARRIER, ABORT };

/* Demands that a call of the iterator that has called back is refused. */
static void check_own(int function, umbo_status status) {
    static const char *const names[] = {"umbo_iterator_next", "umbo_iterator_reset", "umbo_iterator_save_position"};
    size_t at;
    for (at = 0; at < COUNT_OF(names); at++) {
        if (strcmp(functions[function].name, names[at]) == 0 &&
            (status != UMBO_STATUS_FAILED_PRECONDITION ||
             strstr(umbo_last_error_message(), "would wait for itself") == NULL))
            fail("its own iterator", umbo_status_name(status));
    }
}

/* The floating-point mode of the program, in which its callbacks run. */
static unsigned long mode_of_program;

/* Whether an update rule probes: that computes a part of a result, in the default mode. */
static int in_rule;

/* Demands that this thread is in its mode. */
static void check_mode(const char *when) {
    char text[40];
    if (mode_of_thread() == (in_rule ? MODE_DEFAULT : mode_of_program)) return;
    snprintf(text, sizeof(text), "0x%lx", mode_of_thread());
    fail(when, text);
}

/* Makes the calls with these objects. */
static void probe(const struct scene *scene, umbo_replica_context *context,
                  umbo_variable_request *request) {
    struct objects good = scene->good;
    const size_t gone = functions[first_function].gives_up;
    const int first = __atomic_exchange_n(&entered, 1, __ATOMIC_SEQ_CST) == 0;
    const int before = current_function; /* its call may have come here */
    int function;
    umbo_status status;
    if (gone != NOTHING && !first) return;
    if (context != NULL) good.replica_context = context;
    if (request != NULL) good.variable_request = request;
    if (scene->own != NULL && !(gone == offsetof(struct objects, iterator) && scene->keeps_own))
        good.iterator = scene->own;
    check_mode("a callback has a floating-point mode other than the program");
    for (function = first_function; function < first_function + together; function++) {
        current_function = function;
        status = functions[function].call(good);
        check_mode("leaves another floating-point mode");
        if (scene->own != NULL && good.iterator == scene->own) check_own(function, status);
    }
    current_function = before;
}

/* As probe, but only the first time that the context comes by. */
static void probe_once(const struct scene *scene, umbo_variable_request *request) {
    if (!__atomic_load_n(&entered, __ATOMIC_SEQ_CST)) probe(scene, NULL, request);
}

static void nothing_open(struct scene *scene) { probe(scene, NULL, NULL); }


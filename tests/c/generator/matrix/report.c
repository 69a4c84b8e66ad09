struct function {
    const char *name;
    umbo_status (*call)(struct objects good);
    /* The member whose last reference the call gives up. */
    size_t gives_up;
    int never_succeeds;
    /* It is the first that is called with its objects. */
    int needs_new_objects;
};

/* ---- what the children tell their parent */

struct failure {
    int context, function;
    char what[200];
};

static struct {
    /* Whether a function has succeeded in some context. */
    int succeeded[MOST_FUNCTIONS];
    int failure_count;
    struct failure failures[MOST_FAILURES];
    struct {
        int function;
        int reached;
    } at[MOST_CONTEXTS];
} *report;

/* Most functions that are called one after another with the same objects. */
static int most_together = 25;
/* What is being called: so many functions from the first. */
static int current_context, first_function, together, entered;
/* The one that this thread calls, or the last that it has called. */
static __thread int current_function;

static void fail(const char *what, const char *detail) {
    const int index = __atomic_fetch_add(&report->failure_count, 1, __ATOMIC_SEQ_CST);
    if (index < MOST_FAILURES) {
        report->failures[index].context = current_context;
        report->failures[index].function = current_function;
        snprintf(report->failures[index].what, sizeof(report->failures[index].what), "%s: %.150s",
                 what, detail);
    }
}

/* The answer of the call that the context is about. */
static void note(umbo_status status) {
    if (status == UMBO_STATUS_INTERNAL) fail("INTERNAL", umbo_last_error_message());
    if (status == UMBO_OK)
        __atomic_store_n(&report->succeeded[current_function], 1, __ATOMIC_RELAXED);
}

/* A step that is part of the frame and not of what is looked at. */
static void demand(umbo_status status, const char *what) {
    if (status != UMBO_OK) {
        char text[160];
        snprintf(text, sizeof(text), "%s gives %s: %.100s", what, umbo_status_name(status),
                 umbo_last_error_message());
        fail("afterwards", text);
    }
}


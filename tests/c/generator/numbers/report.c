enum context { OUTSIDE, ON_A_REPLICA, IN_A_CREATOR };

struct place {
    const char *function;
    const char *name;
    /* What a message may call it, divided by '|'. */
    const char *names;
    void (*call)(struct objects good, int64_t number);
    enum context context;
    /* Arrays of the program have to be as long as the number says. */
    int by_arrays;
    /* Another answer that is right. */
    umbo_status answer;
    /* The enum whose constants it takes, or "". */
    const char *of_enum;
};

static const int64_t extremes[] = {-1, INT64_C(1) << 31, INT64_C(1) << 40, INT64_C(1) << 62,
                                   INT64_MAX};

/* A constant of each enum, which each place of another enum gets behind the extremes. */
static const struct {
    const char *name, *of_enum;
    int64_t number;
} constants[] = {
    /* CONSTANTS */
};

static int64_t number_at(int index) {
    const int extreme = index < COUNT_OF(extremes);
    return extreme ? extremes[index] : constants[index - COUNT_OF(extremes)].number;
}

/* In an int32_t: its own extremes. */
static CHECK_MAYBE_UNUSED int64_t narrow(int64_t number) {
    return number > INT32_MAX ? INT32_MAX : number;
}

/* In a double: -1, and NaN in the place of what no memory holds. */
static CHECK_MAYBE_UNUSED double real(int64_t number) { return number == -1 ? -1 : (double)NAN; }

#define MOST_FAILURES 1024

/* What the children tell their parent. */
static struct {
    int place, number, calls, succeeded;
    int failure_count;
    struct {
        int place, number;
        char what[240];
    } failures[MOST_FAILURES];
} *report;

static void fail(const char *what, const char *detail) {
    const int index = report->failure_count++;
    if (index >= MOST_FAILURES) return;
    report->failures[index].place = report->place;
    report->failures[index].number = report->number;
    snprintf(report->failures[index].what, sizeof(report->failures[index].what), "%s: %.190s", what,
             detail);
}

/* A step that is part of the frame and not of what is looked at. */
static CHECK_MAYBE_UNUSED void demand(umbo_status status, const char *what) {
    if (status != UMBO_OK) fail(what, umbo_last_error_message());
}

static const struct place *current_place(void);

/* Whether a message has one of the names of a place. */
static int is_named(const char *message, const char *names) {
    while (*names != '\0') {
        const size_t length = strcspn(names, "|");
        char name[64];
        CHECK(length < sizeof(name));
        memcpy(name, names, length);
        name[length] = '\0';
        if (strstr(message, name) != NULL) return 1;
        names += length + (names[length] == '|');
    }
    return 0;
}

/* The answer of the call that a place is about. */
static void note(umbo_status status) {
    const struct place *const place = current_place();
    char text[240];
    report->calls++;
    report->succeeded += status == UMBO_OK;
    if (report->number >= COUNT_OF(extremes)) {
        const char *const name = constants[report->number - COUNT_OF(extremes)].name;
        snprintf(text, sizeof(text), "%s: %s", umbo_status_name(status), umbo_last_error_message());
        if (status != UMBO_STATUS_INVALID_ARGUMENT || strstr(text, name) == NULL ||
            !is_named(text, place->names))
            fail("does not refuse the constant of another enum", text);
        return;
    }
    if (status == UMBO_OK || status == place->answer) return;
    snprintf(text, sizeof(text), "%s: %s", umbo_status_name(status), umbo_last_error_message());
    if (status != UMBO_STATUS_INVALID_ARGUMENT && status != UMBO_STATUS_OUT_OF_RANGE &&
        status != UMBO_STATUS_RESOURCE_EXHAUSTED)
        fail("another status", text);
    else if (!is_named(umbo_last_error_message(), place->names))
        fail("does not name the argument", text);
}

/* What is done with an object may fail, if there is no memory for it. */
static CHECK_MAYBE_UNUSED umbo_status used(umbo_status status) {
    char text[240];
    snprintf(text, sizeof(text), "%s: %s", umbo_status_name(status), umbo_last_error_message());
    if (status == UMBO_STATUS_INTERNAL) fail("used", text);
    return status;
}

/* ---- arrays as long as a number says */

/* So many bytes for each of them, as far as the system gives that. */
static size_t room;
static char *rooms;
enum { MOST_ARRAYS = 5 };

static void find_room(void) {
    for (room = (size_t)1 << 44; room >= (size_t)1 << 36; room >>= 1) {
        void *const found = mmap(NULL, MOST_ARRAYS * room, PROT_READ | PROT_WRITE,
                                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (found != MAP_FAILED) {
            rooms = found;
            return;
        }
    }
    CHECK(rooms != NULL);
}

/* An array that begins with these bytes; zeros follow. */
static CHECK_MAYBE_UNUSED void *lengthened(int place, const void *first, size_t bytes) {
    char *const array = rooms + (size_t)place * room;
    CHECK(place < MOST_ARRAYS && bytes <= 4096);
    memset(array, 0, 4096);
    memcpy(array, first, bytes);
    return array;
}

static const char *const first_text[1] = {"CPU:0"};

/* The array's first element is that of what stands here. */
#define LENGTHENED(place, ...) lengthened(place, __VA_ARGS__, sizeof((__VA_ARGS__)[0]))


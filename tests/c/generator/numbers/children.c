/* ---- the calls, one for each place */

/* CALLS */
static const struct place places[] = {
    /* TABLE */
};

#define PLACES COUNT_OF(places)

static const struct place *current_place(void) { return &places[report->place]; }

/* ---- where a call is made */

static umbo_status call_on_a_replica(umbo_replica_context *context, const umbo_value *args,
                                     void *user_data, umbo_value **result) {
    struct objects good = *(const struct objects *)user_data;
    (void)args, (void)result;
    good.replica_context = context;
    current_place()->call(good, number_at(report->number));
    return UMBO_OK;
}

static umbo_status call_in_a_creator(umbo_variable_request *request, void *user_data,
                                     umbo_variable **variable) {
    struct objects good = *(const struct objects *)user_data;
    good.variable_request = request;
    current_place()->call(good, number_at(report->number));
    return umbo_variable_retain(good.variable, variable);
}

static void make_the_call(struct objects *good) {
    umbo_scope *creators = NULL;
    umbo_variable *variable = NULL;
    const umbo_variable_options options = UMBO_VARIABLE_OPTIONS_INIT;
    switch (current_place()->context) {
        case OUTSIDE: current_place()->call(*good, number_at(report->number)); break;
        case ON_A_REPLICA:
            umbo_ignore(
                umbo_strategy_run(good->strategy, call_on_a_replica, NULL, good, NULL, NULL));
            break;
        case IN_A_CREATOR:
            CHECK_OK(umbo_variable_creator_scope_enter(call_in_a_creator, good, NULL, &creators));
            umbo_ignore(
                umbo_variable_create(good->strategy, "v", good->tensor, &options, &variable));
            umbo_variable_release(variable);
            CHECK_OK(umbo_scope_exit(creators));
    }
}

/* ---- children */

/* Little more address space than there is in use. */
static void limit_memory(void) {
    const size_t more = (size_t)3 << 29;
    unsigned long pages = 0;
    struct rlimit limit;
    FILE *const file = fopen("/proc/self/statm", "r");
    CHECK(file != NULL && fscanf(file, "%lu", &pages) == 1 && fclose(file) == 0);
    CHECK(getrlimit(RLIMIT_AS, &limit) == 0);
    limit.rlim_cur = pages * (size_t)sysconf(_SC_PAGESIZE) + more;
    CHECK(setrlimit(RLIMIT_AS, &limit) == 0);
#ifdef __GLIBC__
    /* Each arena takes 128 MiB of it. */
    CHECK(mallopt(M_ARENA_MAX, 1) == 1);
#endif
}

static const char *wanted_function;

static int is_wanted(int place) {
    return wanted_function == NULL || strcmp(places[place].function, wanted_function) == 0;
}

/* Whether there can be arrays of so many elements, or the number is to be refused before; of
 * constants, whether the place is of another enum. */
static int may_be_given(const struct place *place, int index) {
    const int64_t number = number_at(index);
    if (index >= COUNT_OF(extremes))
        return *place->of_enum != '\0' &&
               strcmp(place->of_enum, constants[index - COUNT_OF(extremes)].of_enum) != 0;
    return number < 0 || number >= INT64_C(1) << 62 || !place->by_arrays;
}

static void child(double patience) {
    static int64_t messages;
    const int numbers_of_all = COUNT_OF(extremes) + COUNT_OF(constants);
    for (; report->place < PLACES; report->place++, report->number = 0) {
        struct objects good;
        int64_t left = 0;
        int turns = 1000;
        if (!is_wanted(report->place)) continue;
        alarm((unsigned)patience);
        expect_messages(&messages);
        make_objects(&good);
        now = &good;
        for (; report->number < numbers_of_all; report->number++) {
            if (!may_be_given(current_place(), report->number)) continue;
            alarm((unsigned)patience);
            make_the_call(&good);
            /* One that has failed is of no further use. */
            umbo_communicator_release(good.communicator);
            good.communicator = make_communicator();
        }
        report->number = numbers_of_all - 1;
        umbo_ignore(umbo_strategy_set_current(NULL));
        release_objects(&good, NOTHING);
        umbo_clear_last_error();
        /* Threads that have made elements of an iterator that is gone may still have one. */
        while (umbo_live_handles(UMBO_HANDLE_ANY, &left) == UMBO_OK && left != 0 && turns-- > 0)
            usleep(1000);
        if (left != 0) fail("handles left", "some");
    }
    fflush(NULL);
    _exit(0);
}

/* Whether another child has to continue. */
static int run_a_child(double patience) {
    char text[80];
    int status = 0;
    pid_t process;
    fflush(NULL);
    process = fork();
    CHECK(process >= 0);
    if (process == 0) {
        limit_memory();
        child(patience);
    }
    CHECK(waitpid(process, &status, 0) == process);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return 0;
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
        fail("hangs", "no answer in time");
    else if (WIFSIGNALED(status))
        fail("dies", strsignal(WTERMSIG(status)));
    else {
        snprintf(text, sizeof(text), "exit status %d, see above", WEXITSTATUS(status));
        fail("dies", text);
    }
    if (++report->number >= COUNT_OF(extremes) + COUNT_OF(constants)) report->place++, report->number = 0;
    return report->place < PLACES;
}

int main(int argc, char **argv) {
    double patience = 30;
    int index, failures;
    CHECK(setenv("UMBO_MPI_LIBRARY", "none.so", 1) == 0); /* MPI is not for forks */
    for (index = 1; index < argc; index += 2) {
        const char *const value = index + 1 < argc ? argv[index + 1] : "";
        if (strcmp(argv[index], "--function") == 0) wanted_function = value;
        if (strcmp(argv[index], "--patience") == 0) patience = atof(value);
        if (strcmp(argv[index], "--list") == 0) {
            for (index = 0; index < PLACES; index++)
                printf("%s: %s\n", places[index].function, places[index].name);
            return 0;
        }
    }
    report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(report != MAP_FAILED);
    write_files();
    find_room();
    while (run_a_child(patience)) {
    }
    failures = report->failure_count < MOST_FAILURES ? report->failure_count : MOST_FAILURES;
    for (index = 0; index < failures; index++) {
        const struct place *const place = &places[report->failures[index].place];
        printf("%s(%s: %lld): %s\n", place->function, place->name,
               (long long)number_at(report->failures[index].number), report->failures[index].what);
    }
    printf("%d places, %d calls, %d of them succeeded, %d failures\n", (int)PLACES, report->calls,
           report->succeeded, report->failure_count);
    (void)axes;
    return report->failure_count != 0;
}

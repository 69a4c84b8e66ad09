/* An MPI of the program's own that says how many ranks there are, and can do nothing else. */
#include <limits.h>

#include "check.h"

/* Constants of MPI's standard ABI. */
#define NO_REQUEST ((void *)0x180)
#define SERIALIZED 2048
#define FAILED 16

typedef void (*function)(void);

static int size_of_world;
static int collectives;

static int say_yes(int *flag) {
    *flag = 1;
    return 0;
}

static int say_no(int *flag) {
    *flag = 0;
    return 0;
}

static int level_of_threads(int *provided) {
    *provided = SERIALIZED;
    return 0;
}

static int test_inter(void *communicator, int *flag) {
    (void)communicator;
    *flag = 0;
    return 0;
}

static int duplicate(void *communicator, void **copy, void **request) {
    *copy = communicator;
    *request = NO_REQUEST;
    return 0;
}

static int test(void **request, int *flag, void *status) {
    (void)status;
    *request = NO_REQUEST;
    *flag = 1;
    return 0;
}

static int rank_in(void *communicator, int *rank) {
    (void)communicator;
    *rank = 0;
    return 0;
}

static int size_of(void *communicator, int *size) {
    (void)communicator;
    *size = size_of_world;
    return 0;
}

static int succeed(void) { return 0; }

static int fail(void) {
    collectives++;
    return FAILED;
}

static int name_of(char *name, int *length) {
    strcpy(name, "here");
    *length = 4;
    return 0;
}

static int text_of(int code, char *text, int *length) {
    (void)code;
    return name_of(text, length);
}

/* As MPI's functions are found: by their names, as pointers to data. */
static void *find(const char *name, void *user_data) {
    static const struct {
        const char *name;
        function found;
    } known[] = {
        {"MPI_Initialized", (function)say_yes},
        {"MPI_Finalized", (function)say_no},
        {"MPI_Is_thread_main", (function)say_yes},
        {"MPI_Query_thread", (function)level_of_threads},
        {"MPI_Comm_test_inter", (function)test_inter},
        {"MPI_Comm_idup", (function)duplicate},
        {"MPI_Comm_free", (function)succeed},
        {"MPI_Comm_set_errhandler", (function)succeed},
        {"MPI_Comm_rank", (function)rank_in},
        {"MPI_Comm_size", (function)size_of},
        {"MPI_Get_processor_name", (function)name_of},
        {"MPI_Error_string", (function)text_of},
        {"MPI_Test", (function)test},
    };
    function found = (function)fail;
    void *pointer;
    int32_t at;
    (void)user_data;
    for (at = 0; at < COUNT_OF(known); at++) {
        if (strcmp(known[at].name, name) == 0) found = known[at].found;
    }
    memcpy(&pointer, &found, sizeof(pointer));
    return pointer;
}

/* Neither the memory nor the messages that so many ranks would take are asked for. */
int main(void) {
    static const int sizes[] = {65537, INT_MAX};
    static char communicators[1];
    umbo_mpi_options options = UMBO_MPI_OPTIONS_INIT;
    int32_t at;
    options.find = find;
    for (at = 0; at < COUNT_OF(sizes); at++) {
        umbo_communicator *communicator = NULL;
        size_of_world = sizes[at];
        CHECK_STATUS(umbo_communicator_create_mpi(communicators, &options, &communicator),
                     UMBO_STATUS_INVALID_ARGUMENT);
        CHECK_MESSAGE("at most 65536 ranks are supported");
        CHECK(communicator == NULL && collectives == 0);
    }
    return finish();
}

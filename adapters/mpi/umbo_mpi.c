/* The functions of MPI that Umbo uses, as MPI's standard ABI has them, on top of any mpi.h: objects and
 * constants of the ABI on one side, those of the engine on the other. */
#include "umbo_mpi.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What the ABI calls these. */
#define ABI_COMM_NULL ((void *)(uintptr_t)0x100)
#define ABI_COMM_WORLD ((void *)(uintptr_t)0x101)
#define ABI_REQUEST_NULL ((void *)(uintptr_t)0x180)
#define ABI_INT64 ((void *)(uintptr_t)0x258)
enum { ABI_THREAD_SINGLE = 0, ABI_THREAD_FUNNELED = 1024, ABI_THREAD_SERIALIZED = 2048, ABI_THREAD_MULTIPLE = 4096 };

/* Statuses have this much room, and handles fit in a word. */
typedef char statuses_fit[sizeof(MPI_Status) <= 64 ? 1 : -1];
typedef char communicators_fit[sizeof(MPI_Comm) <= sizeof(void *) ? 1 : -1];
typedef char requests_fit[sizeof(MPI_Request) <= sizeof(void *) ? 1 : -1];

static MPI_Comm communicator_of(void *word) {
    MPI_Comm communicator;
    if (word == ABI_COMM_WORLD) return MPI_COMM_WORLD;
    if (word == ABI_COMM_NULL) return MPI_COMM_NULL;
    memcpy(&communicator, &word, sizeof(communicator));
    return communicator;
}

static void *word_of(MPI_Comm communicator) {
    void *word = NULL;
    memcpy(&word, &communicator, sizeof(communicator));
    return word;
}

static MPI_Request request_of(void *word) {
    MPI_Request request;
    if (word == ABI_REQUEST_NULL) return MPI_REQUEST_NULL;
    memcpy(&request, &word, sizeof(request));
    return request;
}

static void *word_of_request(MPI_Request request) {
    void *word = NULL;
    if (request == MPI_REQUEST_NULL) return ABI_REQUEST_NULL;
    memcpy(&word, &request, sizeof(request));
    return word;
}

static MPI_Datatype type_of(void *word) { return word == ABI_INT64 ? MPI_INT64_T : MPI_BYTE; }

static int level_of(int level) {
    if (level == MPI_THREAD_SINGLE) return ABI_THREAD_SINGLE;
    if (level == MPI_THREAD_FUNNELED) return ABI_THREAD_FUNNELED;
    if (level == MPI_THREAD_SERIALIZED) return ABI_THREAD_SERIALIZED;
    return ABI_THREAD_MULTIPLE;
}

static int initialized(int *flag) { return MPI_Initialized(flag); }
static int finalized(int *flag) { return MPI_Finalized(flag); }
static int finalize(void) { return MPI_Finalize(); }
static int is_thread_main(int *flag) { return MPI_Is_thread_main(flag); }
static int processor_name(char *name, int *length) { return MPI_Get_processor_name(name, length); }
static int error_string(int code, char *text, int *length) { return MPI_Error_string(code, text, length); }
static int abort_job(void *communicator, int code) { return MPI_Abort(communicator_of(communicator), code); }

/* Umbo asks for one thread at a time. */
static int init_thread(int *count, char ***arguments, int required, int *provided) {
    const int code = MPI_Init_thread(count, arguments, MPI_THREAD_SERIALIZED, provided);
    (void)required;
    *provided = level_of(*provided);
    return code;
}

static int query_thread(int *provided) {
    const int code = MPI_Query_thread(provided);
    *provided = level_of(*provided);
    return code;
}

static int test_inter(void *communicator, int *flag) {
    return MPI_Comm_test_inter(communicator_of(communicator), flag);
}

/* The place of the duplicate is written when the request is done. */
static int idup(void *communicator, void **duplicate, void **request) {
    MPI_Request made = MPI_REQUEST_NULL;
    int code;
    *duplicate = NULL;
    code = MPI_Comm_idup(communicator_of(communicator), (MPI_Comm *)(void *)duplicate, &made);
    *request = word_of_request(made);
    return code;
}

static int free_communicator(void **communicator) {
    MPI_Comm freed = communicator_of(*communicator);
    const int code = MPI_Comm_free(&freed);
    *communicator = ABI_COMM_NULL;
    return code;
}

/* The only one that is set. */
static int return_errors(void *communicator, void *handler) {
    (void)handler;
    return MPI_Comm_set_errhandler(communicator_of(communicator), MPI_ERRORS_RETURN);
}

static int rank_in(void *communicator, int *rank) { return MPI_Comm_rank(communicator_of(communicator), rank); }
static int size_of(void *communicator, int *size) { return MPI_Comm_size(communicator_of(communicator), size); }

static int isend(const void *data, int count, void *type, int to, int tag, void *communicator, void **request) {
    MPI_Request made = MPI_REQUEST_NULL;
    const int code = MPI_Isend(data, count, type_of(type), to, tag, communicator_of(communicator), &made);
    *request = word_of_request(made);
    return code;
}

static int irecv(void *data, int count, void *type, int from, int tag, void *communicator, void **request) {
    MPI_Request made = MPI_REQUEST_NULL;
    const int code = MPI_Irecv(data, count, type_of(type), from, tag, communicator_of(communicator), &made);
    *request = word_of_request(made);
    return code;
}

static int ibcast(void *data, int count, void *type, int root, void *communicator, void **request) {
    MPI_Request made = MPI_REQUEST_NULL;
    const int code = MPI_Ibcast(data, count, type_of(type), root, communicator_of(communicator), &made);
    *request = word_of_request(made);
    return code;
}

/* The least is the only operation. */
static int iallreduce(const void *send, void *receive, int count, void *type, void *operation,
                      void *communicator, void **request) {
    MPI_Request made = MPI_REQUEST_NULL;
    const int code = MPI_Iallreduce(send, receive, count, type_of(type), MPI_MIN,
                                    communicator_of(communicator), &made);
    (void)operation;
    *request = word_of_request(made);
    return code;
}

static int test(void **request, int *flag, void *status) {
    MPI_Request tested = request_of(*request);
    const int code = MPI_Test(&tested, flag, (MPI_Status *)status);
    *request = word_of_request(tested);
    return code;
}

static int cancel(void **request) {
    MPI_Request cancelled = request_of(*request);
    return MPI_Cancel(&cancelled);
}

static int get_count(const void *status, void *type, int *count) {
    return MPI_Get_count((const MPI_Status *)status, type_of(type), count);
}

typedef void (*any_function)(void);

static void *find(const char *name, void *user_data) {
    static const struct {
        const char *name;
        any_function function;
    } all[] = {
        {"MPI_Initialized", (any_function)initialized},
        {"MPI_Finalized", (any_function)finalized},
        {"MPI_Init_thread", (any_function)init_thread},
        {"MPI_Query_thread", (any_function)query_thread},
        {"MPI_Is_thread_main", (any_function)is_thread_main},
        {"MPI_Finalize", (any_function)finalize},
        {"MPI_Get_processor_name", (any_function)processor_name},
        {"MPI_Error_string", (any_function)error_string},
        {"MPI_Abort", (any_function)abort_job},
        {"MPI_Comm_test_inter", (any_function)test_inter},
        {"MPI_Comm_idup", (any_function)idup},
        {"MPI_Comm_free", (any_function)free_communicator},
        {"MPI_Comm_set_errhandler", (any_function)return_errors},
        {"MPI_Comm_rank", (any_function)rank_in},
        {"MPI_Comm_size", (any_function)size_of},
        {"MPI_Isend", (any_function)isend},
        {"MPI_Irecv", (any_function)irecv},
        {"MPI_Ibcast", (any_function)ibcast},
        {"MPI_Iallreduce", (any_function)iallreduce},
        {"MPI_Test", (any_function)test},
        {"MPI_Cancel", (any_function)cancel},
        {"MPI_Get_count", (any_function)get_count},
    };
    size_t index;
    (void)user_data;
    for (index = 0; index < sizeof(all) / sizeof(all[0]); index++) {
        if (strcmp(all[index].name, name) == 0) {
            void *address = NULL;
            memcpy(&address, &all[index].function, sizeof(address));
            return address;
        }
    }
    return NULL;
}

/* Joins the ranks of what the word stands for, by the functions above. */
static umbo_status create(void *word, const umbo_mpi_options *options, umbo_communicator **communicator) {
    umbo_mpi_options own = UMBO_MPI_OPTIONS_INIT;
    if (options != NULL) own = *options;
    own.find = find;
    return umbo_communicator_create_mpi(word, &own, communicator);
}

umbo_status umbo_mpi_communicator_create(MPI_Comm mpi_communicator, const umbo_mpi_options *options,
                                         umbo_communicator **communicator) {
    void *const word = mpi_communicator == MPI_COMM_NULL ? NULL : word_of(mpi_communicator);
    return create(word, options, communicator);
}

umbo_status umbo_mpi_communicator_create_world(const umbo_mpi_options *options,
                                               umbo_communicator **communicator) {
    return create(ABI_COMM_WORLD, options, communicator);
}

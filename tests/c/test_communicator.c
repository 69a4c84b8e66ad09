/* Communicators of the program's own functions: what they are given, what they must be, what becomes
 * of their failures. Several ranks are threads' and processes' business; here is one. */
#include <pthread.h>

#include "check.h"

/* A rank that says what it was asked, and moves bytes to itself. */
struct engine {
    int calls;
    int destroyed;
    int aborted;
    umbo_status outcome;
    int64_t off; /* added to votes */
    umbo_communicator *itself;
    char message[64];
};

static umbo_status called(struct engine *engine) {
    engine->calls++;
    if (engine->outcome == UMBO_OK) return UMBO_OK;
    return umbo_set_last_error(engine->outcome, "the wire is cut", NULL, NULL);
}

static umbo_status all_to_all(const size_t *send_bytes, const void *send, const size_t *receive_bytes,
                              void *user_data, void *receive) {
    CHECK(send_bytes[0] == receive_bytes[0]);
    CHECK((send == NULL) == (send_bytes[0] == 0));
    CHECK((receive == NULL) == (receive_bytes[0] == 0));
    if (send != NULL) memcpy(receive, send, send_bytes[0]);
    return called((struct engine *)user_data);
}

static umbo_status all_gather(const size_t *bytes, const void *send, void *user_data, void *receive) {
    if (bytes[0] > 0) memcpy(receive, send, bytes[0]);
    return called((struct engine *)user_data);
}

static umbo_status vote(int64_t number, void *user_data, int64_t *least, int64_t *greatest) {
    struct engine *engine = (struct engine *)user_data;
    *least = *greatest = number + engine->off;
    return called(engine);
}

static umbo_status barrier(void *user_data) {
    struct engine *engine = (struct engine *)user_data;
    if (engine->itself != NULL) {
        CHECK_STATUS(umbo_communicator_barrier(engine->itself), UMBO_STATUS_FAILED_PRECONDITION);
        CHECK_MESSAGE("in progress");
    }
    return called(engine);
}

static void aborted(const char *message, void *user_data) {
    struct engine *engine = (struct engine *)user_data;
    engine->aborted++;
    strncpy(engine->message, message, sizeof(engine->message) - 1);
}

static void destroy(void *user_data) { ((struct engine *)user_data)->destroyed++; }

static umbo_communicator_functions functions_of_one(void) {
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    functions.all_to_all = all_to_all;
    functions.all_gather = all_gather;
    functions.abort = aborted;
    return functions;
}

static umbo_communicator *make(const umbo_communicator_functions *functions, struct engine *engine) {
    umbo_communicator *communicator = NULL;
    memset(engine, 0, sizeof(*engine));
    CHECK_OK(umbo_communicator_create(functions, engine, destroy, &communicator));
    return communicator;
}

/* Moves with the functions of `functions`; `calls` of them reach the engine. */
static void moves(const umbo_communicator_functions *functions, int calls) {
    const size_t bytes[1] = {5}, none[1] = {0};
    struct engine engine;
    char received[8] = "";
    int64_t number = -1, other = -1;
    umbo_communicator *communicator = make(functions, &engine), *second = NULL;
    const umbo_communicator_info here = communicator_info_of(communicator);
    CHECK(here.rank == 0 && here.rank_count == 1 && here.node_rank == 0 && here.node_rank_count == 1);
    CHECK_OK(umbo_communicator_all_to_all(communicator, bytes, "abcd", bytes, received));
    CHECK(strcmp(received, "abcd") == 0);
    CHECK_OK(umbo_communicator_all_to_all(communicator, none, NULL, none, NULL));
    CHECK_OK(umbo_communicator_all_gather(communicator, bytes, "efgh", received));
    CHECK(strcmp(received, "efgh") == 0);
    CHECK_OK(umbo_communicator_broadcast(communicator, 0, 5, received));
    CHECK(strcmp(received, "efgh") == 0);
    CHECK_OK(umbo_communicator_vote(communicator, INT64_MIN, &number, &other));
    CHECK(number == INT64_MIN && other == INT64_MIN);
    CHECK_OK(umbo_communicator_barrier(communicator));
    CHECK(engine.calls == calls);
    CHECK_OK(umbo_communicator_retain(communicator, &second));
    umbo_communicator_release(communicator);
    CHECK(engine.destroyed == 0);
    CHECK_OK(umbo_communicator_barrier(second));
    umbo_communicator_release(second);
    CHECK(engine.destroyed == 1);
}

static void what_is_wrong_is_said(void) {
    const size_t four[1] = {4}, endless[1] = {SIZE_MAX}, huge[1] = {SIZE_MAX / 2 + 1}, three[1] = {3};
    struct engine engine;
    char bytes[8] = "";
    const umbo_communicator_functions functions = functions_of_one();
    umbo_communicator *communicator = make(&functions, &engine);
    CHECK_STATUS(umbo_communicator_all_to_all(communicator, endless, "abc", four, bytes),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("send_bytes");
    CHECK_STATUS(umbo_communicator_all_to_all(communicator, four, "abc", three, bytes),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("sends itself 4 bytes and receives 3");
    CHECK_STATUS(umbo_communicator_all_to_all(communicator, four, bytes, four, bytes + 2),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("overlaps");
    CHECK_STATUS(umbo_communicator_all_gather(communicator, endless, "abc", bytes),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_communicator_all_gather(communicator, huge, bytes, bytes),
                 UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_communicator_broadcast(communicator, 0, SIZE_MAX, bytes), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_STATUS(umbo_communicator_broadcast(communicator, 1, 1, bytes), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_MESSAGE("root: 1 is not in [0, 1)");
    CHECK(engine.calls == 0);
    CHECK_OK(umbo_communicator_barrier(communicator)); /* nothing of this has broken it */
    umbo_communicator_release(communicator);
}

static void failures(void) {
    struct engine engine;
    const umbo_communicator_functions functions = functions_of_one();
    umbo_communicator *communicator = make(&functions, &engine);
    engine.outcome = UMBO_STATUS_ABORTED;
    CHECK_STATUS(umbo_communicator_barrier(communicator), UMBO_STATUS_ABORTED);
    CHECK_MESSAGE("the wire is cut");
    engine.outcome = UMBO_OK;
    CHECK_STATUS(umbo_communicator_barrier(communicator), UMBO_STATUS_UNAVAILABLE);
    CHECK_MESSAGE("ABORTED: the wire is cut");
    CHECK(engine.calls == 1);
    CHECK_OK(umbo_communicator_abort(communicator, "enough"));
    CHECK(engine.aborted == 1 && strcmp(engine.message, "enough") == 0);
    umbo_communicator_release(communicator);
}

static void *on_another_thread(void *communicator) {
    CHECK_STATUS(umbo_communicator_barrier((umbo_communicator *)communicator), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("UMBO_COMMUNICATOR_ANY_THREAD");
    return NULL;
}

static void *allowed_on_another_thread(void *communicator) {
    CHECK_OK(umbo_communicator_barrier((umbo_communicator *)communicator));
    return NULL;
}

static void threads(void) {
    struct engine engine;
    pthread_t thread;
    umbo_communicator_functions functions = functions_of_one();
    umbo_communicator *communicator = make(&functions, &engine);
    CHECK(pthread_create(&thread, NULL, on_another_thread, communicator) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(engine.calls == 0);
    CHECK_OK(umbo_communicator_barrier(communicator)); /* it was refused before anything began */
    umbo_communicator_release(communicator);
    functions.flags = UMBO_COMMUNICATOR_ANY_THREAD;
    communicator = make(&functions, &engine);
    CHECK(pthread_create(&thread, NULL, allowed_on_another_thread, communicator) == 0);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(engine.calls == 1);
    umbo_communicator_release(communicator);
}

static void odd_engines(void) {
    struct engine engine;
    int64_t least, greatest;
    umbo_communicator *communicator;
    umbo_communicator_functions functions = functions_of_one();
    functions.vote = vote;
    functions.barrier = barrier;
    communicator = make(&functions, &engine);
    engine.itself = communicator;
    CHECK_OK(umbo_communicator_barrier(communicator));
    engine.off = 1;
    CHECK_STATUS(umbo_communicator_vote(communicator, 7, &least, &greatest), UMBO_STATUS_DATA_LOSS);
    CHECK_STATUS(umbo_communicator_barrier(communicator), UMBO_STATUS_UNAVAILABLE);
    umbo_communicator_release(communicator);
}

static void refused(const umbo_communicator_functions *functions, const char *words) {
    struct engine engine;
    umbo_communicator *communicator = NULL;
    memset(&engine, 0, sizeof(engine));
    CHECK_STATUS(umbo_communicator_create(functions, &engine, destroy, &communicator),
                 UMBO_STATUS_INVALID_ARGUMENT);
    if (strstr(umbo_last_error_message(), words) == NULL) check_failed(__FILE__, __LINE__, words);
    CHECK(communicator == NULL && engine.destroyed == 1);
}

static void what_is_none(void) {
    umbo_communicator_functions functions = functions_of_one();
    functions.all_to_all = NULL;
    refused(&functions, "functions.all_to_all");
    functions = functions_of_one();
    functions.all_gather = NULL;
    refused(&functions, "functions.all_gather");
    functions = functions_of_one();
    functions.flags = 1 << 30;
    refused(&functions, "functions.flags: 1073741824");
    functions = functions_of_one();
    functions.rank_count = -1;
    refused(&functions, "functions.rank_count: -1");
    {
        static const int64_t too_many[] = {65537, INT64_C(1) << 31, INT64_C(1) << 40, INT64_C(1) << 60, INT64_MAX};
        int32_t index;
        for (index = 0; index < COUNT_OF(too_many); index++) {
            functions = functions_of_one();
            functions.rank_count = too_many[index];
            functions.rank = too_many[index] - 1;
            refused(&functions, "at most 65536 ranks are supported");
        }
    }
    functions = functions_of_one();
    functions.rank = 1;
    refused(&functions, "rank: 1 is not in [0, 1)");
    functions = functions_of_one();
    functions.node_rank_count = 2;
    refused(&functions, "node_rank_count: 2");
    functions = functions_of_one();
    functions.struct_size = 3;
    refused(&functions, "struct_size is 3");
    refused(NULL, "functions");
}

int main(void) {
    umbo_communicator_functions functions = functions_of_one();
    moves(&functions, 6); /* an empty all-to-all is a call, too */
    functions.vote = vote;
    functions.barrier = barrier;
    moves(&functions, 6);
    what_is_wrong_is_said();
    failures();
    threads();
    odd_engines();
    what_is_none();
    return finish();
}

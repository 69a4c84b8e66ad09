/* The engine of ranks itself, through the library's functions: everything arrives in sizes beyond what
 * a cell takes, and whatever happens to a rank reaches the others as a status, soon. */
#include "ranks.h"

#include "../c/check.h"
#include "everything_arrives.h"

static int everything(umbo_communicator *communicator, int rank, void *argument) {
    static const int64_t scales[] = {0, 1, 1000, 70000, 300001};
    const int size = *(int *)argument;
    const umbo_communicator_info here = communicator_info_of(communicator);
    int64_t number, other;
    int32_t index;
    CHECK(here.rank == rank && here.rank_count == size);
    CHECK(here.node_rank == rank % 2 && here.node_rank_count == (rank / 2 * 2 + 1 < size ? 2 : 1));
    for (index = 0; index < COUNT_OF(scales); index++) {
        int root;
        to_all(communicator, rank, size, scales[index]);
        from_all(communicator, rank, size, scales[index]);
        for (root = 0; root < size; root++) {
            unsigned char data[5] = {0};
            if (rank == root) memset(data, root + 1, sizeof(data));
            CHECK_OK(umbo_communicator_broadcast(communicator, root, sizeof(data), data));
            CHECK(data[0] == root + 1 && data[4] == root + 1);
        }
        CHECK_OK(umbo_communicator_vote(communicator, rank * 10 - 5, &number, &other));
        CHECK(number == -5 && other == (size - 1) * 10 - 5);
        CHECK_OK(umbo_communicator_barrier(communicator));
    }
    return 0;
}

static void bytes_arrive(void) {
    int size;
    for (size = 1; size <= 5; size++) {
        struct ranks_options options = {0};
        struct ranks_outcome outcome;
        int rank;
        options.size = size;
        options.per_node = 2;
        options.jitter = (uint64_t)size;
        outcome = ranks_run(&options, everything, &size);
        CHECK(!outcome.hung);
        for (rank = 0; rank < size; rank++) CHECK(outcome.code[rank] == 0);
    }
}

/* What each rank was told in the end. */
struct told {
    umbo_status status[RANKS_MOST];
    char message[RANKS_MOST][300];
};

static struct told *told;

static umbo_status some_call(umbo_communicator *communicator, int rank, int call) {
    static char send[3 * 200000], receive[3 * 200000];
    const size_t bytes[3] = {200000, 200000, 200000};
    int64_t least, greatest;
    switch (call % 5) {
        case 0: return umbo_communicator_barrier(communicator);
        case 1: return umbo_communicator_vote(communicator, rank, &least, &greatest);
        case 2: return umbo_communicator_all_to_all(communicator, bytes, send, bytes, receive);
        case 3: return umbo_communicator_all_gather(communicator, bytes, send, receive);
        default: return umbo_communicator_broadcast(communicator, 2, sizeof(send), send);
    }
}

static int until_failure(umbo_communicator *communicator, int rank, void *argument) {
    int call;
    (void)argument;
    for (call = 0; call < 10; call++) {
        told->status[rank] = some_call(communicator, rank, call);
        if (told->status[rank] != UMBO_OK) break;
    }
    strncpy(told->message[rank], umbo_last_error_message(), sizeof(told->message[rank]) - 1);
    return told->status[rank] == UMBO_OK ? 0 : 3;
}

static void is_told(int rank, umbo_status status, const char *words) {
    if (told->status[rank] == status && strstr(told->message[rank], words) != NULL) return;
    fprintf(stderr, "rank %d was told %s: %s\n", rank, umbo_status_name(told->status[rank]), told->message[rank]);
    check_failed(__FILE__, __LINE__, words);
}

/* Rank 1 has this in its call, and the others know by the end. */
static struct ranks_outcome with(enum ranks_event event, int call, double seconds) {
    struct ranks_options options = {0};
    struct ranks_fault fault;
    fault.event = event;
    fault.rank = 1;
    fault.call = call;
    fault.seconds = seconds;
    options.size = 3;
    options.faults = &fault;
    options.fault_count = 1;
    options.timeout = event == RANKS_STOP ? 0.5 : 20;
    memset(told, 0, sizeof(*told));
    return ranks_run(&options, until_failure, NULL);
}

static void deaths(void) {
    int call, within, rank;
    for (call = 1; call <= 10; call++) {
        for (within = 0; within < 2; within++) {
            const struct ranks_outcome outcome = with(within ? RANKS_DEATH_WITHIN : RANKS_DEATH, call, 0);
            CHECK(!outcome.hung && outcome.signal[1] == 9);
            /* Well below the timeout: the death itself was noticed. */
            CHECK(outcome.until_end < 10);
            for (rank = 0; rank < 3; rank += 2) {
                /* Who had all that it needed of the call's ranks may have finished the last one. */
                if (outcome.code[rank] == 0) {
                    CHECK(call == 10 && within);
                    continue;
                }
                CHECK(outcome.code[rank] == 3);
                if (strstr(told->message[rank], "rank 1 has died") == NULL)
                    is_told(rank, UMBO_STATUS_ABORTED, "rank 1 has died"); /* by way of the third */
                else
                    is_told(rank, told->status[rank], "rank 1 has died");
            }
        }
    }
}

static void other_ends(void) {
    struct ranks_outcome outcome = with(RANKS_DELAY, 3, 0.2);
    CHECK(!outcome.hung && outcome.code[0] == 0 && outcome.code[1] == 0 && outcome.code[2] == 0);
    outcome = with(RANKS_STOP, 4, 0);
    CHECK(!outcome.hung && outcome.code[0] == 3 && outcome.code[2] == 3 && outcome.signal[1] == 9);
    CHECK(told->status[0] == UMBO_STATUS_DEADLINE_EXCEEDED || told->status[2] == UMBO_STATUS_DEADLINE_EXCEEDED);
    CHECK(strstr(told->message[0], "rank 1 has not come") != NULL);
    outcome = with(RANKS_FAILURE, 2, 0);
    CHECK(!outcome.hung && outcome.code[0] == 3 && outcome.code[1] == 3 && outcome.code[2] == 3);
    is_told(0, UMBO_STATUS_ABORTED, "the wire is cut");
    is_told(1, UMBO_STATUS_INTERNAL, "the wire is cut");
}

static int corrupted(umbo_communicator *communicator, int rank, void *argument) {
    const size_t bytes[2] = {4, 4};
    unsigned char send[4] = {1, 2, 3, 4}, receive[8] = {0};
    (void)argument;
    CHECK_OK(umbo_communicator_all_gather(communicator, bytes, send, receive));
    CHECK(memcmp(receive, send, 4) == 0);
    /* The other's own is right where it is, and one bit off elsewhere. */
    if (rank == 1) CHECK(receive[4] == 1);
    else CHECK(receive[4] == (1 ^ 4));
    return memcmp(receive + 5, send + 1, 3);
}

static void a_bit_is_turned(void) {
    struct ranks_options options = {0};
    struct ranks_fault fault = {RANKS_CORRUPTION, 1, 1, 0};
    struct ranks_outcome outcome;
    options.size = 2;
    options.faults = &fault;
    options.fault_count = 1;
    outcome = ranks_run(&options, corrupted, NULL);
    CHECK(!outcome.hung && outcome.code[0] == 0 && outcome.code[1] == 0);
}

static int in_different_calls(umbo_communicator *communicator, int rank, void *argument) {
    int64_t least, greatest;
    (void)argument;
    CHECK_OK(umbo_communicator_barrier(communicator));
    told->status[rank] = rank == 0 ? umbo_communicator_barrier(communicator)
                                   : umbo_communicator_vote(communicator, 1, &least, &greatest);
    strncpy(told->message[rank], umbo_last_error_message(), sizeof(told->message[rank]) - 1);
    return 0;
}

static int one_gives_up(umbo_communicator *communicator, int rank, void *argument) {
    (void)argument;
    if (rank == 0) {
        CHECK_OK(umbo_communicator_abort(communicator, "no data"));
        return 0;
    }
    told->status[rank] = umbo_communicator_barrier(communicator);
    strncpy(told->message[rank], umbo_last_error_message(), sizeof(told->message[rank]) - 1);
    return 0;
}

static int one_leaves(umbo_communicator *communicator, int rank, void *argument) {
    (void)argument;
    CHECK_OK(umbo_communicator_barrier(communicator));
    if (rank == 0) return 0;
    told->status[rank] = umbo_communicator_barrier(communicator);
    strncpy(told->message[rank], umbo_last_error_message(), sizeof(told->message[rank]) - 1);
    return 0;
}

static void disagreements(void) {
    struct ranks_options options = {0};
    options.size = 2;
    memset(told, 0, sizeof(*told));
    CHECK(!ranks_run(&options, in_different_calls, NULL).hung);
    /* Who looks second may find that the first has failed. */
    if (told->status[0] == UMBO_STATUS_FAILED_PRECONDITION)
        is_told(0, UMBO_STATUS_FAILED_PRECONDITION, "rank 1 is in call 2, a vote of 8 bytes to rank 0, where rank 0 is in call 2, a barrier");
    else
        is_told(1, UMBO_STATUS_FAILED_PRECONDITION, "rank 0 is in call 2, a barrier of 0 bytes to rank 1, where rank 1 is in call 2, a vote");
    CHECK(told->status[0] != UMBO_OK && told->status[1] != UMBO_OK);
    CHECK(!ranks_run(&options, one_gives_up, NULL).hung);
    is_told(1, UMBO_STATUS_ABORTED, "rank 0 has given up: no data");
    CHECK(!ranks_run(&options, one_leaves, NULL).hung);
    is_told(1, UMBO_STATUS_UNAVAILABLE, "rank 0 has ended after its call 1");
}

int main(void) {
    told = (struct told *)ranks_shared(sizeof(*told));
    bytes_arrive();
    deaths();
    other_ends();
    a_bit_is_turned();
    disagreements();
    return finish();
}

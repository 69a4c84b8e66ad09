/* Ranks of MPI's: what arrives, and what is said when ranks do not come. Compiled as it is, it finds an
 * MPI with the standard ABI at run time; with WITH_MPI_H it is compiled by an mpicc with umbo_mpi.c. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "../c/check.h"
#include "../ranks/everything_arrives.h"
#include "../ranks/train.h"

#include <pthread.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#if defined(WITH_MPI_H)
#include <umbo_mpi.h>
#define JOIN umbo_mpi_communicator_create_world
#else
#define JOIN(options, communicator) umbo_communicator_create_mpi(NULL, options, communicator)
#endif

static int64_t rank, size;

static umbo_communicator *join(double timeout, size_t max_message_bytes) {
    umbo_communicator *communicator = NULL;
    umbo_mpi_options options = UMBO_MPI_OPTIONS_INIT;
    options.timeout_seconds = timeout;
    options.max_message_bytes = max_message_bytes;
    CHECK_OK(JOIN(&options, &communicator));
    rank = communicator_info_of(communicator).rank;
    size = communicator_info_of(communicator).rank_count;
    CHECK(size <= ARRIVING_MOST);
    return communicator;
}

static void as_expected(void) {
    printf("rank %lld is as expected\n", (long long)rank);
    fflush(stdout);
}

/* Everything arrives, in one message or in many. */
static void arrives(size_t max_message_bytes) {
    static const int64_t scales[] = {0, 1, 1000, 300001};
    umbo_communicator *const communicator = join(60, max_message_bytes);
    const umbo_communicator_info here = communicator_info_of(communicator);
    int64_t least, greatest, root;
    int32_t index;
    CHECK(here.node_rank == rank && here.node_rank_count == size); /* all are on this machine */
    for (index = 0; index < COUNT_OF(scales); index++) {
        to_all(communicator, rank, size, scales[index]);
        from_all(communicator, rank, size, scales[index]);
        for (root = 0; root < size; root++) {
            unsigned char data[2500];
            memset(data, rank == root ? (int)root + 1 : 0, sizeof(data));
            CHECK_OK(umbo_communicator_broadcast(communicator, root, sizeof(data), data));
            CHECK(data[0] == root + 1 && data[sizeof(data) - 1] == root + 1);
        }
        CHECK_OK(umbo_communicator_vote(communicator, rank == 0 ? INT64_MIN : INT64_MAX, &least, &greatest));
        CHECK(least == INT64_MIN && greatest == (size > 1 ? INT64_MAX : INT64_MIN));
        CHECK_OK(umbo_communicator_vote(communicator, rank * 3 - 2, &least, &greatest));
        CHECK(least == -2 && greatest == (size - 1) * 3 - 2);
        CHECK_OK(umbo_communicator_barrier(communicator));
    }
    umbo_communicator_release(communicator);
}

/* Rank 0 does not come to a call. */
static void late(void) {
    /* Long enough for ranks that start on a busy machine. */
    umbo_communicator *const communicator = join(3, 1 << 30);
    CHECK_OK(umbo_communicator_barrier(communicator));
    if (rank == 0) {
        sleep(5);
    } else {
        CHECK_STATUS(umbo_communicator_barrier(communicator), UMBO_STATUS_DEADLINE_EXCEEDED);
        CHECK_MESSAGE("for all ranks to come");
        CHECK_STATUS(umbo_communicator_barrier(communicator), UMBO_STATUS_UNAVAILABLE);
    }
    as_expected();
    sleep(rank == 0 ? 1 : 3); /* the launcher ends the others when the first is gone */
    _exit(0);
}

/* Ranks are in different calls, or disagree about bytes. */
static void mixed(int bytes) {
    static char data[8];
    umbo_communicator *const communicator = join(20, 1 << 30);
    if (bytes) {
        CHECK_STATUS(umbo_communicator_broadcast(communicator, 0, rank == 0 ? 8 : 4, data),
                     UMBO_STATUS_FAILED_PRECONDITION);
        CHECK_MESSAGE("others have 4 to 8");
    } else if (rank == 0) {
        CHECK_STATUS(umbo_communicator_barrier(communicator), UMBO_STATUS_FAILED_PRECONDITION);
        CHECK_MESSAGE("rank 0 in a barrier, others in a broadcast or a barrier");
    } else {
        CHECK_STATUS(umbo_communicator_broadcast(communicator, 0, 8, data), UMBO_STATUS_FAILED_PRECONDITION);
    }
    as_expected();
    sleep(1);
    _exit(0);
}

/* Ranks disagree about what goes from one to the other, which they cannot see before. */
static void torn(void) {
    size_t out[ARRIVING_MOST], in[ARRIVING_MOST];
    int64_t other;
    static char send[ARRIVING_MOST * 64], receive[ARRIVING_MOST * 64];
    umbo_communicator *const communicator = join(5, 1 << 30);
    for (other = 0; other < size; other++) out[other] = in[other] = 64;
    /* All send 64 bytes and rank 0 expects 32 of each other. */
    for (other = 1; rank == 0 && other < size; other++) in[other] = 32;
    if (rank == 0) {
        const umbo_status status = umbo_communicator_all_to_all(communicator, out, send, in, receive);
        CHECK(status == UMBO_STATUS_UNAVAILABLE || status == UMBO_STATUS_DATA_LOSS);
    } else {
        umbo_ignore(umbo_communicator_all_to_all(communicator, out, send, in, receive));
    }
    as_expected();
    sleep(1);
    _exit(0);
}

/* Rank 1 dies; the launcher ends the job. */
static void lost(void) {
    umbo_communicator *const communicator = join(300, 1 << 30);
    CHECK_OK(umbo_communicator_barrier(communicator));
    if (rank == 1) raise(SIGKILL);
    umbo_ignore(umbo_communicator_barrier(communicator));
    _exit(3);
}

static void gives_up(void) {
    umbo_communicator *const communicator = join(300, 1 << 30);
    CHECK_OK(umbo_communicator_barrier(communicator));
    if (rank == 1) umbo_ignore(umbo_communicator_abort(communicator, "no data"));
    umbo_ignore(umbo_communicator_barrier(communicator));
    _exit(3);
}

#if defined(WITH_MPI_H)
static void *on_another_thread(void *communicator) {
    CHECK_STATUS(umbo_communicator_barrier((umbo_communicator *)communicator), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("main thread");
    return NULL;
}

/* The program has initialised MPI, for its main thread alone, and has a communicator of its own. */
static void own(void) {
    umbo_communicator *communicator = NULL;
    MPI_Comm reversed;
    int level, world_rank, finalized;
    int64_t least, greatest;
    pthread_t thread;
    CHECK(MPI_Init_thread(NULL, NULL, MPI_THREAD_FUNNELED, &level) == MPI_SUCCESS);
    CHECK(MPI_Comm_rank(MPI_COMM_WORLD, &world_rank) == MPI_SUCCESS);
    CHECK(MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed) == MPI_SUCCESS);
    CHECK_STATUS(umbo_mpi_communicator_create(MPI_COMM_NULL, NULL, &communicator), UMBO_STATUS_INVALID_ARGUMENT);
    CHECK_OK(umbo_mpi_communicator_create(reversed, NULL, &communicator));
    CHECK(MPI_Comm_free(&reversed) == MPI_SUCCESS);
    rank = communicator_info_of(communicator).rank;
    size = communicator_info_of(communicator).rank_count;
    CHECK(rank == size - 1 - world_rank);
    CHECK_OK(umbo_communicator_vote(communicator, world_rank, &least, &greatest));
    CHECK(least == 0 && greatest == size - 1);
    if (level < MPI_THREAD_SERIALIZED) {
        CHECK(pthread_create(&thread, NULL, on_another_thread, communicator) == 0);
        CHECK(pthread_join(thread, NULL) == 0);
        CHECK_OK(umbo_communicator_barrier(communicator)); /* it was refused before anything began */
    }
    umbo_communicator_release(communicator);
    CHECK(MPI_Finalized(&finalized) == MPI_SUCCESS && !finalized);
    CHECK(MPI_Finalize() == MPI_SUCCESS);
    CHECK_STATUS(JOIN(NULL, &communicator), UMBO_STATUS_FAILED_PRECONDITION);
    CHECK_MESSAGE("finalised already");
}
#endif

/* Ranks that share the replicas of a training come to the weights of one process that has them all. */
static void trains(void) {
    static struct seen alone, together;
    umbo_communicator *const communicator = join(60, 1 << 30);
    int32_t step;
    CHECK_OK(train(NULL, 0, REPLICAS, &alone));
    CHECK_OK(train(communicator, (int)rank, REPLICAS / size, &together));
    for (step = 0; step <= STEPS; step++)
        CHECK(together.fingerprint[step][rank] == alone.fingerprint[step][0]);
    umbo_communicator_release(communicator);
}

int main(int argc, char **argv) {
    const char *const what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "arrives") == 0) {
        arrives(1 << 30);
    } else if (strcmp(what, "in_pieces") == 0) {
        arrives(1000);
    } else if (strcmp(what, "trains") == 0) {
        trains();
    } else if (strcmp(what, "late") == 0) {
        late();
    } else if (strcmp(what, "mixed") == 0) {
        mixed(0);
    } else if (strcmp(what, "bytes") == 0) {
        mixed(1);
    } else if (strcmp(what, "torn") == 0) {
        torn();
    } else if (strcmp(what, "lost") == 0) {
        lost();
    } else if (strcmp(what, "gives_up") == 0) {
        gives_up();
#if defined(WITH_MPI_H)
    } else if (strcmp(what, "own") == 0) {
        own();
#endif
    } else {
        fprintf(stderr, "ranks_of_mpi: no part '%s'\n", what);
        return 2;
    }
    as_expected();
    return finish();
}

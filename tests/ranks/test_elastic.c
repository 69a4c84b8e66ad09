/* Processes that are killed by SIGKILL in their calls, and others that join: those that are left meet anew with those
 * that come, over sockets, and give them their state. The end is bit-identical to that of a process alone. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ranks.h"

#include "train.h"

enum { MOST = 4, CHANGES = 30, IN_SYNC = 12, ALL_STEPS = 100, MOST_BYTES = 1 << 20 };

/* What a process and the hub say to each other before the bytes. */
enum verb { TO_EACH = 1, TO_ALL, STEPS_DONE, MEET, BROKEN, END };

struct header {
    int64_t verb;
    int64_t rank, size, steps; /* MEET */
    int64_t parts[MOST];       /* how many bytes are for each rank, or in a reply from each */
};

/* The state of a training, for the hub to compare. */
struct end {
    size_t length;
    char bytes[MOST_BYTES];
};

/* 0 if the other side is gone. */
static int transfer(int socket, void *data, int64_t bytes, int sends) {
    char *at = (char *)data;
    while (bytes > 0) {
        const ssize_t count = sends ? send(socket, at, (size_t)bytes, MSG_NOSIGNAL)
                                    : recv(socket, at, (size_t)bytes, 0);
        if (count <= 0) return 0;
        at += count;
        bytes -= count;
    }
    return 1;
}

static int64_t sum_of(const int64_t *parts) { return parts[0] + parts[1] + parts[2] + parts[3]; }

/* A process's end of a communicator. */
struct place {
    int socket;
    int64_t rank, size;
};

static umbo_status exchange(const struct place *place, struct header *header, const void *send, int64_t sent,
                            void *receive) {
    CHECK(transfer(place->socket, header, sizeof(*header), 1));
    CHECK(transfer(place->socket, (void *)(uintptr_t)send, sent, 1));
    CHECK(transfer(place->socket, header, sizeof(*header), 0));
    if (header->verb == BROKEN)
        return umbo_set_last_error(UMBO_STATUS_UNAVAILABLE, "a process has ended", NULL, NULL);
    CHECK(transfer(place->socket, receive, sum_of(header->parts), 0));
    return UMBO_OK;
}

static umbo_status all_to_all(const size_t *send_bytes, const void *send, const size_t *receive_bytes,
                              void *user_data, void *receive) {
    const struct place *place = (const struct place *)user_data;
    struct header header = {TO_EACH, 0, 0, 0, {0}};
    int64_t rank;
    (void)receive_bytes;
    for (rank = 0; rank < place->size; rank++) header.parts[rank] = (int64_t)send_bytes[rank];
    return exchange(place, &header, send, sum_of(header.parts), receive);
}

static umbo_status all_gather(const size_t *bytes, const void *send, void *user_data, void *receive) {
    const struct place *place = (const struct place *)user_data;
    struct header header = {TO_ALL, 0, 0, 0, {0}};
    header.parts[0] = (int64_t)bytes[place->rank];
    return exchange(place, &header, send, header.parts[0], receive);
}

/* A training in progress on a process. */
struct training {
    umbo_strategy *strategy;
    umbo_variable *variables[2];
    umbo_checkpoint *checkpoint;
    struct model model;
};

static umbo_status prepare(struct training *training, const struct place *place) {
    static const float zeros[ELEMENTS] = {0};
    static const int64_t shapes[2][2] = {{ELEMENTS, 0}, {ROWS, WIDTH}};
    static const int32_t row_sparse[2] = {0, 1};
    static const char *const names[2] = {"w", "table"};
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    umbo_gradients_options how = UMBO_GRADIENTS_OPTIONS_INIT;
    umbo_communicator *communicator = NULL;
    umbo_status status;
    int32_t index;
    functions.rank = place->rank;
    functions.rank_count = place->size;
    functions.all_to_all = all_to_all;
    functions.all_gather = all_gather;
    CHECK_OK(umbo_communicator_create(&functions, (void *)(uintptr_t)place, NULL, &communicator));
    status = umbo_strategy_create(&UMBO_OPTIONS(umbo_strategy, .communicator = communicator, .cpu_replicas = 2,
                                                .replicas_in_sync = IN_SYNC, .bind_threads = 0, .elastic = 1),
                                  &training->strategy);
    umbo_communicator_release(communicator);
    UMBO_TRY(status);
    for (index = 0; index < 2; index++) {
        umbo_tensor *initial = make_tensor(UMBO_DTYPE_FLOAT32, index + 1, shapes[index], zeros);
        status = umbo_variable_create(training->strategy, names[index], initial, NULL, &training->variables[index]);
        umbo_tensor_release(initial);
        UMBO_TRY(status);
    }
    how.row_sparse = row_sparse;
    UMBO_TRY(umbo_gradients_create(training->strategy, 2, training->variables, UMBO_LOSS_SUM, &how,
                                   &training->model.gradients));
    UMBO_TRY(umbo_optimizer_create_adam(training->strategy, NULL, &training->model.optimizer));
    UMBO_TRY(umbo_checkpoint_create(training->strategy, &training->checkpoint));
    for (index = 0; index < 2; index++)
        UMBO_TRY(umbo_checkpoint_add_variable(training->checkpoint, names[index], training->variables[index]));
    return umbo_checkpoint_add_optimizer(training->checkpoint, "optimizer", training->model.optimizer);
}

/* Makes so many steps, or the rest of `-steps` in all, or fewer if the ranks cannot meet any more. Then it replaces what
 * is in `kept` by the state. */
static umbo_status train_from(struct training *training, int64_t steps, struct end *kept) {
    umbo_optimizer_info info = UMBO_OPTIMIZER_INFO_INIT;
    umbo_status status = umbo_checkpoint_restore_from_ranks(training->checkpoint, kept->bytes, kept->length);
    if (status != UMBO_STATUS_NOT_FOUND) UMBO_TRY(status);
    CHECK_OK(umbo_optimizer_get_info(training->model.optimizer, &info));
    if (steps < 0) steps = -steps - info.iterations;
    CHECK(steps >= 0);
    for (status = UMBO_OK; status == UMBO_OK && steps > 0; steps--) {
        CHECK_OK(umbo_optimizer_get_info(training->model.optimizer, &info));
        training->model.step = (int32_t)info.iterations;
        status = umbo_strategy_run(training->strategy, contribute, NULL, &training->model, NULL, NULL);
    }
    CHECK_OK(umbo_checkpoint_save_to_memory(training->checkpoint, kept->bytes, sizeof(kept->bytes), &kept->length));
    return status;
}

static umbo_status serve(const struct place *place, int64_t steps, struct end *kept) {
    struct training training = {NULL, {NULL, NULL}, NULL, {NULL, NULL, 0}};
    umbo_status status = prepare(&training, place);
    if (status == UMBO_OK) status = train_from(&training, steps, kept);
    umbo_checkpoint_release(training.checkpoint);
    umbo_optimizer_release(training.model.optimizer);
    umbo_gradients_release(training.model.gradients);
    umbo_variable_release(training.variables[0]);
    umbo_variable_release(training.variables[1]);
    umbo_strategy_release(training.strategy);
    return status;
}

/* A process: it meets the others as often as the hub says. */
static void work(int socket, struct end *end) {
    static struct end kept;
    struct header header;
    while (transfer(socket, &header, sizeof(header), 0) && header.verb == MEET) {
        struct place place = {0, 0, 0};
        umbo_status status;
        place.socket = socket;
        place.rank = header.rank;
        place.size = header.size;
        status = serve(&place, header.steps, &kept);
        CHECK(status == UMBO_OK || status == UMBO_STATUS_UNAVAILABLE);
        header.verb = STEPS_DONE;
        CHECK(transfer(socket, &header, sizeof(header), 1));
    }
    memcpy(end, &kept, sizeof(kept));
    exit(0);
}

/* A process as the hub sees it. */
struct member {
    pid_t process;
    int socket;
    int left; /* it makes no more calls before they meet anew */
    struct header call;
    char *sent;
};

struct hub {
    struct member members[MOST];
    int64_t size;
    struct end *end;
    uint64_t random;
    int64_t deaths, joins;
};

static int64_t drawn(struct hub *hub, int64_t below) {
    hub->random = hub->random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int64_t)((hub->random >> 33) % (uint64_t)below);
}

static void join(struct hub *hub) {
    struct member *it = &hub->members[hub->size];
    int64_t other;
    int sockets[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) == 0);
    fflush(NULL);
    it->process = fork();
    CHECK(it->process >= 0);
    if (it->process == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        /* The others' ends are not this process's: they close when the others end. */
        for (other = 0; other < hub->size; other++) close(hub->members[other].socket);
        close(sockets[0]);
        work(sockets[1], hub->end);
    }
    close(sockets[1]);
    it->socket = sockets[0];
    hub->size++;
}

static void end_of(struct hub *hub, int64_t rank) {
    struct member *it = &hub->members[rank];
    int status;
    CHECK(waitpid(it->process, &status, 0) == it->process);
    CHECK(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    close(it->socket);
    free(it->sent);
    memmove(it, it + 1, (size_t)(hub->size - rank - 1) * sizeof(*it));
    hub->size--;
    memset(&hub->members[hub->size], 0, sizeof(*it));
}

static void reply(struct hub *hub, int64_t to, enum verb verb) {
    struct header header = {0, 0, 0, 0, {0}};
    int64_t from;
    header.verb = verb;
    for (from = 0; verb != BROKEN && from < hub->size; from++) {
        const struct header *call = &hub->members[from].call;
        header.parts[from] = call->parts[call->verb == TO_ALL ? 0 : to];
    }
    (void)transfer(hub->members[to].socket, &header, sizeof(header), 1);
    for (from = 0; verb != BROKEN && from < hub->size; from++) {
        const struct header *call = &hub->members[from].call;
        int64_t before = 0, rank;
        for (rank = 0; call->verb != TO_ALL && rank < to; rank++) before += call->parts[rank];
        (void)transfer(hub->members[to].socket, hub->members[from].sent + before, header.parts[from], 1);
    }
}

/* Gets the next call of a process, unless it makes no more. */
static void receive(struct member *it) {
    int64_t bytes;
    if (it->left) return;
    CHECK(transfer(it->socket, &it->call, sizeof(it->call), 0));
    it->left = it->call.verb == STEPS_DONE;
    if (it->left) return;
    bytes = sum_of(it->call.parts);
    it->sent = (char *)realloc(it->sent, (size_t)bytes + 1);
    CHECK(it->sent != NULL);
    CHECK(transfer(it->socket, it->sent, bytes, 0));
}

/* Serves the calls of all until none makes any more. In call `at` process `victim` is killed: before it has sent
 * anything, or afterwards, and then `cut` says by bits who does not get what it has sent. Returns whether it died. */
static int serve_calls(struct hub *hub, int64_t victim, int64_t at, int is_before, int64_t cut) {
    struct member *const dying = &hub->members[victim];
    int64_t call, rank;
    int killed = 0;
    for (call = 0;; call++) {
        int64_t left = 0;
        int dies = call == at && !dying->left;
        if (dies && is_before) {
            CHECK(kill(dying->process, SIGKILL) == 0);
            killed = dying->left = 1;
        }
        for (rank = 0; rank < hub->size; rank++) receive(&hub->members[rank]);
        for (rank = 0; rank < hub->size; rank++) left += hub->members[rank].left;
        if (left == hub->size) return killed;
        dies = dies && left == 0;
        if (dies) {
            CHECK(kill(dying->process, SIGKILL) == 0);
            killed = dying->left = 1;
        }
        for (rank = 0; rank < hub->size; rank++) {
            const int is_cut = left > 0 || (dies && (cut >> rank & 1) != 0);
            if (!hub->members[rank].left) reply(hub, rank, is_cut ? BROKEN : TO_ALL);
        }
    }
}

/* All meet, and make so many steps unless one dies. */
static void meet(struct hub *hub, int64_t steps, int kills) {
    struct header header = {MEET, 0, 0, 0, {0}};
    int64_t rank;
    const int64_t victim = drawn(hub, hub->size);
    header.size = hub->size;
    header.steps = steps;
    for (rank = 0; rank < hub->size; rank++) {
        header.rank = rank;
        hub->members[rank].left = 0;
        CHECK(transfer(hub->members[rank].socket, &header, sizeof(header), 1));
    }
    if (serve_calls(hub, victim, kills ? drawn(hub, 20 + 6 * steps) : -1, (int)drawn(hub, 2), drawn(hub, 16))) {
        end_of(hub, victim);
        hub->deaths++;
    }
}

/* Trains under so many changes, then until so many steps have been made in all, and ends with the state's bytes. */
static void train_under(struct hub *hub, int64_t changes, int64_t all_steps) {
    struct header header = {END, 0, 0, 0, {0}};
    int64_t change;
    for (change = 0; change < changes; change++) {
        while (hub->size < 2 || (hub->size < MOST && drawn(hub, 2) == 0)) {
            join(hub);
            hub->joins++;
        }
        meet(hub, 1 + drawn(hub, 3), 1);
    }
    if (hub->size == 0) join(hub);
    meet(hub, -all_steps, 0);
    while (hub->size > 0) {
        CHECK(transfer(hub->members[0].socket, &header, sizeof(header), 1));
        end_of(hub, 0);
    }
}

int main(void) {
    struct end *ends = (struct end *)ranks_shared(2 * sizeof(struct end));
    struct hub hub;
    int under;
    (void)train;
    for (under = 0; under < 2; under++) {
        memset(&hub, 0, sizeof(hub));
        hub.random = 1;
        hub.end = &ends[under];
        train_under(&hub, under ? CHANGES : 0, ALL_STEPS);
    }
    CHECK(hub.deaths > 5 && hub.joins > 5);
    CHECK(ends[0].length > ELEMENTS * sizeof(float) * 3 && ends[0].length == ends[1].length);
    CHECK(memcmp(ends[0].bytes, ends[1].bytes, ends[0].length) == 0);
    printf("%d deaths and %d joins: bit-identical\n", (int)hub.deaths, (int)hub.joins);
    return 0;
}

/* The engine of a rank: every call sends a message to each rank and receives one from each. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "wire.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

struct rank {
    struct wire *wire;
    int rank, size;
    uint64_t random;
};

/* What goes to or comes from a rank. */
struct part {
    char *data;
    int64_t bytes;
    int64_t done;
    int over;
};

double wire_now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static const char *name_of(int kind) {
    static const char *const names[] = {"no call", "an all-to-all", "an all-gather", "a broadcast", "a vote", "a barrier"};
    return names[kind];
}

static void sleep_for(double seconds) {
    struct timespec time;
    time.tv_sec = (time_t)seconds;
    time.tv_nsec = (long)((seconds - (double)time.tv_sec) * 1e9);
    nanosleep(&time, NULL);
}

static umbo_status failed(struct rank *it, umbo_status status, const char *message) {
    struct member *const own = &it->wire->members[it->rank];
    if (__atomic_load_n(&own->fate, __ATOMIC_ACQUIRE) == ALIVE) {
        snprintf(own->message, MESSAGE, "%s", message);
        __atomic_store_n(&own->fate, FAILED, __ATOMIC_RELEASE);
    }
    return umbo_set_last_error(status, message, NULL, NULL);
}

/* Whether this happens to the rank in the call in progress. */
static int has(const struct rank *it, enum ranks_event event) {
    const struct ranks_fault *const fault = &it->wire->fault;
    return fault->event == event && fault->rank == it->rank && fault->call == it->wire->members[it->rank].call;
}

static umbo_status begin(struct rank *it, int kind) {
    struct member *const own = &it->wire->members[it->rank];
    __atomic_store_n(&own->kind, kind, __ATOMIC_RELEASE);
    __atomic_add_fetch(&own->call, 1, __ATOMIC_RELEASE);
    if (it->random != 0) {
        it->random = it->random * 6364136223846793005u + 1442695040888963407u;
        sleep_for((double)(it->random >> 40) * 1e-3 / (double)(1 << 24));
    }
    if (has(it, RANKS_DEATH)) raise(SIGKILL);
    if (has(it, RANKS_STOP)) raise(SIGSTOP);
    if (has(it, RANKS_FAILURE)) return failed(it, UMBO_STATUS_INTERNAL, "the wire is cut");
    return UMBO_OK;
}

/* A piece of a part, if the cell is free. Whether there was one. */
static int push(struct rank *it, int to, int kind, struct part *part) {
    struct cell *const cell = &it->wire->cells[it->rank * it->size + to];
    int64_t bytes = part->bytes - part->done;
    if (part->over || __atomic_load_n(&cell->full, __ATOMIC_ACQUIRE)) return 0;
    if (bytes > CELL) bytes = CELL;
    cell->kind = kind;
    cell->call = it->wire->members[it->rank].call;
    cell->total = part->bytes;
    cell->bytes = bytes;
    if (bytes > 0) memcpy(cell->data, part->data + part->done, (size_t)bytes);
    __atomic_store_n(&cell->full, 1, __ATOMIC_RELEASE);
    part->done += bytes;
    part->over = part->done == part->bytes;
    if (has(it, RANKS_DEATH_WITHIN)) raise(SIGKILL);
    return 1;
}

/* A piece of a part, if one has come. -1 if it is not of this call. */
static int pull(struct rank *it, int from, int kind, struct part *part, char *problem) {
    struct cell *const cell = &it->wire->cells[from * it->size + it->rank];
    const int64_t call = it->wire->members[it->rank].call;
    if (part->over || !__atomic_load_n(&cell->full, __ATOMIC_ACQUIRE)) return 0;
    if (cell->kind != kind || cell->call != call || cell->total != part->bytes) {
        snprintf(problem, MESSAGE,
                 "rank %d is in call %lld, %s of %lld bytes to rank %d, where rank %d is in call %lld, %s of %lld bytes",
                 from, (long long)cell->call, name_of(cell->kind), (long long)cell->total, it->rank, it->rank,
                 (long long)call, name_of(kind), (long long)part->bytes);
        return -1;
    }
    if (cell->bytes > 0) memcpy(part->data + part->done, cell->data, (size_t)cell->bytes);
    part->done += cell->bytes;
    part->over = part->done == part->bytes;
    __atomic_store_n(&cell->full, 0, __ATOMIC_RELEASE);
    return 1;
}

/* Why it is no use to wait for a rank, if so. */
static umbo_status lost(const struct rank *it, int other, char *problem) {
    const struct member *const member = &it->wire->members[other];
    const long long call = (long long)__atomic_load_n(&member->call, __ATOMIC_ACQUIRE);
    switch (__atomic_load_n(&member->fate, __ATOMIC_ACQUIRE)) {
        case KILLED: snprintf(problem, MESSAGE, "rank %d has died in its call %lld", other, call); return UMBO_STATUS_UNAVAILABLE;
        case ENDED: snprintf(problem, MESSAGE, "rank %d has ended after its call %lld", other, call); return UMBO_STATUS_UNAVAILABLE;
        case FAILED: snprintf(problem, MESSAGE, "rank %d has failed: %.150s", other, member->message); return UMBO_STATUS_ABORTED;
        case ABORTED: snprintf(problem, MESSAGE, "rank %d has given up: %.150s", other, member->message); return UMBO_STATUS_ABORTED;
        default: return UMBO_OK;
    }
}

static umbo_status exchange(struct rank *it, int kind, struct part *send, struct part *receive) {
    char problem[MESSAGE];
    const double timeout = it->wire->options.timeout;
    double until;
    int idle = 0, other;
    umbo_status status = begin(it, kind);
    if (status != UMBO_OK) return status;
    until = wire_now() + timeout;
    for (;;) {
        int moved = 0, open = 0, missing = -1;
        for (other = 0; other < it->size; other++) {
            int came;
            moved |= push(it, other, kind, &send[other]);
            came = pull(it, other, kind, &receive[other], problem);
            if (came < 0) return failed(it, UMBO_STATUS_FAILED_PRECONDITION, problem);
            moved |= came;
            if (!send[other].over || !receive[other].over) open = 1;
            if (!receive[other].over) missing = other;
        }
        if (!open) return UMBO_OK;
        idle = moved ? 0 : idle + 1;
        if (idle < 50) continue;
        /* What a rank has sent before it was lost is taken first. */
        for (other = 0; other < it->size; other++) {
            const struct cell *const cell = &it->wire->cells[other * it->size + it->rank];
            if (other == it->rank || (send[other].over && receive[other].over)) continue;
            status = lost(it, other, problem);
            if (status != UMBO_OK && !__atomic_load_n(&cell->full, __ATOMIC_ACQUIRE)) return failed(it, status, problem);
        }
        if (wire_now() > until) {
            if (missing < 0) missing = it->rank == 0 ? 1 : 0;
            snprintf(problem, MESSAGE, "rank %d has not come within %g s to call %lld, %s; it is in call %lld, %s", missing,
                     timeout, (long long)it->wire->members[it->rank].call, name_of(kind),
                     (long long)it->wire->members[missing].call, name_of(it->wire->members[missing].kind));
            return failed(it, UMBO_STATUS_DEADLINE_EXCEEDED, problem);
        }
        if (idle < 500) sched_yield();
        else sleep_for(20e-6);
    }
}

static void cut(const struct rank *it, struct part *parts, const void *data, const size_t *bytes) {
    int64_t at = 0;
    int other;
    memset(parts, 0, sizeof(*parts) * RANKS_MOST);
    for (other = 0; other < it->size; other++) {
        parts[other].data = (char *)data + at;
        parts[other].bytes = (int64_t)bytes[other];
        at += parts[other].bytes;
    }
}

static void same(const struct rank *it, struct part *parts, const void *data, int64_t bytes) {
    int other;
    memset(parts, 0, sizeof(*parts) * RANKS_MOST);
    for (other = 0; other < it->size; other++) {
        parts[other].data = (char *)data;
        parts[other].bytes = bytes;
    }
}

static umbo_status all_to_all(const size_t *send_bytes, const void *send, const size_t *receive_bytes,
                              void *user_data, void *receive) {
    struct rank *const it = (struct rank *)user_data;
    struct part out[RANKS_MOST], in[RANKS_MOST];
    cut(it, out, send, send_bytes);
    cut(it, in, receive, receive_bytes);
    return exchange(it, ALL_TO_ALL, out, in);
}

static umbo_status all_gather(const size_t *bytes, const void *send, void *user_data, void *receive) {
    struct rank *const it = (struct rank *)user_data;
    struct part out[RANKS_MOST], in[RANKS_MOST];
    same(it, out, send, (int64_t)bytes[it->rank]);
    cut(it, in, receive, bytes);
    return exchange(it, ALL_GATHER, out, in);
}

static umbo_status broadcast(int64_t root, size_t size, void *user_data, void *data) {
    const int64_t bytes = (int64_t)size;
    struct rank *const it = (struct rank *)user_data;
    struct part out[RANKS_MOST], in[RANKS_MOST];
    same(it, out, data, it->rank == root ? bytes : 0);
    same(it, in, data, 0);
    /* The root's own part stays where it is. */
    if (it->rank == root) out[root].bytes = 0;
    else in[root].bytes = bytes;
    return exchange(it, BROADCAST, out, in);
}

static umbo_status vote(int64_t number, void *user_data, int64_t *least, int64_t *greatest) {
    struct rank *const it = (struct rank *)user_data;
    struct part out[RANKS_MOST], in[RANKS_MOST];
    int64_t numbers[RANKS_MOST];
    size_t bytes[RANKS_MOST];
    umbo_status status;
    int other;
    for (other = 0; other < it->size; other++) bytes[other] = sizeof(number);
    same(it, out, &number, sizeof(number));
    cut(it, in, numbers, bytes);
    status = exchange(it, VOTE, out, in);
    if (status != UMBO_OK) return status;
    *least = *greatest = number;
    for (other = 0; other < it->size; other++) {
        if (numbers[other] < *least) *least = numbers[other];
        if (numbers[other] > *greatest) *greatest = numbers[other];
    }
    return UMBO_OK;
}

static umbo_status barrier(void *user_data) {
    struct rank *const it = (struct rank *)user_data;
    struct part out[RANKS_MOST], in[RANKS_MOST];
    same(it, out, NULL, 0);
    same(it, in, NULL, 0);
    return exchange(it, BARRIER, out, in);
}

static void give_up(const char *message, void *user_data) {
    struct rank *const it = (struct rank *)user_data;
    struct member *const own = &it->wire->members[it->rank];
    snprintf(own->message, MESSAGE, "%s", message);
    __atomic_store_n(&own->fate, ABORTED, __ATOMIC_RELEASE);
}

umbo_status wire_join(struct wire *wire, int rank, umbo_communicator **communicator) {
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    const int per_node = wire->options.per_node > 0 ? wire->options.per_node : wire->options.size;
    const int first = rank / per_node * per_node;
    struct rank *const it = (struct rank *)calloc(1, sizeof(*it));
    if (it == NULL) return umbo_set_last_error(UMBO_STATUS_RESOURCE_EXHAUSTED, "a rank", NULL, NULL);
    it->wire = wire;
    it->rank = rank;
    it->size = wire->options.size;
    if (wire->options.jitter != 0) it->random = wire->options.jitter * 31 + (uint64_t)rank + 1;
    functions.flags = UMBO_COMMUNICATOR_ANY_THREAD;
    functions.rank = rank;
    functions.rank_count = it->size;
    functions.node_rank = rank - first;
    functions.node_rank_count = it->size - first < per_node ? it->size - first : per_node;
    functions.all_to_all = all_to_all;
    functions.all_gather = all_gather;
    functions.broadcast = broadcast;
    functions.vote = vote;
    functions.barrier = barrier;
    functions.abort = give_up;
    return umbo_communicator_create(&functions, it, free, communicator);
}

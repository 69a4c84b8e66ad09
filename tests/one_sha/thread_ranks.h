/* Ranks as threads of one process, on every system that has POSIX threads: each publishes what it sends, and all meet before
 * and after the copies. */
#ifndef UMBO_TESTS_ONE_SHA_THREAD_RANKS_H
#define UMBO_TESTS_ONE_SHA_THREAD_RANKS_H

#include <pthread.h>

#include "../c/check.h"

enum { MOST_RANKS = 3 };

struct meeting {
    pthread_mutex_t lock;
    pthread_cond_t all_came;
    int size, came;
    uint64_t turn;
    const char *send[MOST_RANKS];
    const size_t *bytes[MOST_RANKS];
};

typedef int (*rank_fn)(umbo_communicator *communicator, int rank, void *argument);

struct thread_rank {
    struct meeting *meeting;
    int rank;
    rank_fn work;
    void *argument;
    pthread_t thread;
};

/* Returns when all ranks have called it. A rank that fails ends the process. */
static void meet(struct meeting *meeting) {
    uint64_t turn;
    pthread_mutex_lock(&meeting->lock);
    turn = meeting->turn;
    if (++meeting->came == meeting->size) {
        meeting->came = 0;
        meeting->turn++;
        pthread_cond_broadcast(&meeting->all_came);
    }
    while (meeting->turn == turn) pthread_cond_wait(&meeting->all_came, &meeting->lock);
    pthread_mutex_unlock(&meeting->lock);
}

static void publish(const struct thread_rank *self, const void *send, const size_t *bytes) {
    self->meeting->send[self->rank] = (const char *)send;
    self->meeting->bytes[self->rank] = bytes;
    meet(self->meeting);
}

/* Bytes of the parts before one. */
static size_t before(const size_t *bytes, int part) {
    size_t sum = 0;
    for (int at = 0; at < part; at++) sum += bytes[at];
    return sum;
}

static umbo_status thread_all_to_all(const size_t *send_bytes, const void *send, const size_t *receive_bytes,
                                     void *user_data, void *receive) {
    const struct thread_rank *const self = (const struct thread_rank *)user_data;
    const struct meeting *const meeting = self->meeting;
    publish(self, send, send_bytes);
    for (int other = 0; other < meeting->size; other++) {
        CHECK(meeting->bytes[other][self->rank] == receive_bytes[other]);
        if (receive_bytes[other] == 0) continue;
        memcpy((char *)receive + before(receive_bytes, other),
               meeting->send[other] + before(meeting->bytes[other], self->rank), receive_bytes[other]);
    }
    meet(self->meeting);
    return UMBO_OK;
}

static umbo_status thread_all_gather(const size_t *bytes, const void *send, void *user_data, void *receive) {
    const struct thread_rank *const self = (const struct thread_rank *)user_data;
    const struct meeting *const meeting = self->meeting;
    publish(self, send, bytes);
    for (int other = 0; other < meeting->size; other++) {
        CHECK(meeting->bytes[other][self->rank] == bytes[self->rank]);
        if (bytes[other] > 0) memcpy((char *)receive + before(bytes, other), meeting->send[other], bytes[other]);
    }
    meet(self->meeting);
    return UMBO_OK;
}

static void *thread_of_rank(void *user_data) {
    struct thread_rank *const self = (struct thread_rank *)user_data;
    umbo_communicator_functions functions = UMBO_COMMUNICATOR_FUNCTIONS_INIT;
    umbo_communicator *communicator = NULL;
    functions.rank = functions.node_rank = self->rank;
    functions.rank_count = functions.node_rank_count = self->meeting->size;
    functions.all_to_all = thread_all_to_all;
    functions.all_gather = thread_all_gather;
    CHECK_OK(umbo_communicator_create(&functions, self, NULL, &communicator));
    CHECK(self->work(communicator, self->rank, self->argument) == 0);
    umbo_communicator_release(communicator);
    return NULL;
}

/* Runs `work` on every rank, and waits for all of them. */
static void run_thread_ranks(int size, rank_fn work, void *argument) {
    struct thread_rank ranks[MOST_RANKS];
    struct meeting meeting;
    memset(&meeting, 0, sizeof(meeting));
    meeting.size = size;
    CHECK(size <= MOST_RANKS);
    CHECK(pthread_mutex_init(&meeting.lock, NULL) == 0 && pthread_cond_init(&meeting.all_came, NULL) == 0);
    for (int rank = 0; rank < size; rank++) {
        ranks[rank].meeting = &meeting;
        ranks[rank].rank = rank;
        ranks[rank].work = work;
        ranks[rank].argument = argument;
        CHECK(pthread_create(&ranks[rank].thread, NULL, thread_of_rank, &ranks[rank]) == 0);
    }
    for (int rank = 0; rank < size; rank++) CHECK(pthread_join(ranks[rank].thread, NULL) == 0);
    pthread_cond_destroy(&meeting.all_came);
    pthread_mutex_destroy(&meeting.lock);
}

#endif

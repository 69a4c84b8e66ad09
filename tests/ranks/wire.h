/* What ranks share: a cell for each pair, through which bytes go in pieces, and what became of each. */
#ifndef UMBO_TESTS_RANKS_WIRE_H
#define UMBO_TESTS_RANKS_WIRE_H

#include "ranks.h"

enum { CELL = 1 << 16, MESSAGE = 200 };

enum kind { ALL_TO_ALL = 1, ALL_GATHER, BROADCAST, VOTE, BARRIER };

/* Written by the sender while it is empty, read by the receiver while it is full. */
struct cell {
    int full;
    int kind;
    int64_t call;
    int64_t total;
    int64_t bytes;
    char data[CELL];
};

enum fate { ALIVE, ENDED, KILLED, FAILED, ABORTED };

struct member {
    int fate;
    int64_t call;
    int kind;
    char message[MESSAGE];
};

struct wire {
    struct ranks_options options;
    struct ranks_fault fault;
    struct member members[RANKS_MOST];
    struct cell cells[]; /* from r to s: r * size + s */
};

/* The communicator of a rank. */
umbo_status wire_join(struct wire *wire, int rank, umbo_communicator **communicator);

double wire_now(void);

#endif

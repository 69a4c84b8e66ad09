/* What the parts of the training have in common. */
#ifndef UMBO_TESTS_ONE_SHA_PARTS_H
#define UMBO_TESTS_ONE_SHA_PARTS_H

#include "../c/check.h"
#include "sha256.h"

/* The replicas in sync: one at least for each of 8 devices of 3 ranks. */
enum { IN_SYNC = 24 };

/* A number between -8 and 8, whose sums depend on their order. */
static float number_of(int64_t a, int64_t b) {
    const uint64_t mixed = ((uint64_t)a * 0x9e3779b97f4a7c15u + (uint64_t)b + 1) * 0xd1342543de82ef95u;
    return (float)(int32_t)(mixed >> 40) / 1048576.0f - 8.0f;
}

static umbo_strategy *make_part_strategy(umbo_communicator *communicator, int replicas, int in_sync) {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = NULL;
    options.cpu_replicas = replicas;
    options.replicas_in_sync = in_sync;
    options.communicator = communicator;
    options.bind_threads = 0;
    options.fingerprint_interval = 2;
    CHECK_OK(umbo_strategy_create(&options, &strategy));
    return strategy;
}

/* Adds the elements of a variable to a SHA. */
static void add_variable(struct sha256 *sha, const umbo_variable *variable) {
    double numbers[512];
    const umbo_variable_info info = facts_of(variable);
    size_t bytes = info.dtype == UMBO_DTYPE_FLOAT64 ? sizeof(double) : sizeof(float);
    for (int32_t at = 0; at < info.ndim; at++) bytes *= (size_t)info.shape[at];
    CHECK(bytes <= sizeof(numbers));
    CHECK_OK(umbo_variable_download(variable, numbers, bytes));
    for (size_t at = 0; at < bytes; at += sizeof(float)) {
        float number;
        memcpy(&number, (const char *)numbers + at, sizeof(number));
        CHECK(info.dtype == UMBO_DTYPE_FLOAT64 || number - number == 0); /* finite */
    }
    sha256_add(sha, numbers, bytes);
}

#endif

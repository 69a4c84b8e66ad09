/* What ranks send each other to see that everything arrives: bytes, and how many, that tell from whom and
 * for whom they are. */
#ifndef UMBO_TESTS_EVERYTHING_ARRIVES_H
#define UMBO_TESTS_EVERYTHING_ARRIVES_H

#include "../c/check.h"

enum { ARRIVING_MOST = 16 };

static unsigned char byte_of(int64_t from, int64_t to, size_t at) {
    return (unsigned char)((size_t)(from * 31 + to * 7) + at * 13 + at / 251);
}

/* How many bytes go from a rank to another: none, too. */
static size_t length_of(int64_t from, int64_t to, int64_t scale) {
    return (size_t)((from * 5 + to * 3) % 4 * scale + (from + to) % 2);
}

/* Each rank sends every other one something else. */
static void to_all(umbo_communicator *communicator, int64_t rank, int64_t size, int64_t scale) {
    size_t out[ARRIVING_MOST] = {0}, in[ARRIVING_MOST] = {0}, sent = 0, room = 0, at;
    int64_t other;
    unsigned char *send, *receive;
    CHECK(size <= ARRIVING_MOST);
    for (other = 0; other < size; other++) {
        sent += out[other] = length_of(rank, other, scale);
        room += in[other] = length_of(other, rank, scale);
    }
    send = (unsigned char *)calloc(1, sent + 1);
    receive = (unsigned char *)calloc(1, room + 1);
    CHECK(send != NULL && receive != NULL);
    for (other = 0, sent = 0; other < size; other++)
        for (at = 0; at < out[other]; at++) send[sent++] = byte_of(rank, other, at);
    CHECK_OK(umbo_communicator_all_to_all(communicator, out, send, in, receive));
    for (other = 0, room = 0; other < size; other++)
        for (at = 0; at < in[other]; at++) CHECK(receive[room++] == byte_of(other, rank, at));
    free(send);
    free(receive);
}

/* Each rank sends all of them the same bytes. */
static void from_all(umbo_communicator *communicator, int64_t rank, int64_t size, int64_t scale) {
    size_t bytes[ARRIVING_MOST] = {0}, room = 0, at;
    int64_t other;
    unsigned char *send, *receive;
    CHECK(rank < size && size <= ARRIVING_MOST);
    for (other = 0; other < size; other++) room += bytes[other] = length_of(other, 0, scale);
    send = (unsigned char *)calloc(1, bytes[rank] + 1);
    receive = (unsigned char *)calloc(1, room + 1);
    CHECK(send != NULL && receive != NULL);
    for (at = 0; at < bytes[rank]; at++) send[at] = byte_of(rank, 0, at);
    CHECK_OK(umbo_communicator_all_gather(communicator, bytes, send, receive));
    for (other = 0, room = 0; other < size; other++)
        for (at = 0; at < bytes[other]; at++) CHECK(receive[room++] == byte_of(other, 0, at));
    free(send);
    free(receive);
}

#endif

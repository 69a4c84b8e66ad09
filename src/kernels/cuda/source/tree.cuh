// Sums of many elements in an order that depends on their number alone: tiles of 1024 are added in
// 16 interleaved lanes, which are added in halves; tiles follow each other within a chunk, and
// chunks within a part. It is the order of the CPU's kernels.
#pragma once
#include "target.h"

#define TILE 1024
#define LANES 16
// Tiles that a block adds up, each by as many threads as there are lanes.
#define TILES_OF_BLOCK (THREADS / LANES)

// Which tile of its block a thread adds to, and which lane of it.
struct Seat {
    u32 tile;
    u32 lane;
};
DEVICE Seat own_seat() {
    Seat seat = {thread_number() / LANES, thread_number() % LANES};
    return seat;
}

// Adds the lanes of every tile of the block in halves. All threads of the block call it; then lane 0
// of a tile has its sum.
DEVICE double added_lanes(Seat seat, double sum, double (&lanes)[TILES_OF_BLOCK][LANES]) {
    lanes[seat.tile][seat.lane] = sum;
    barrier();
    NO_UNROLL
    for (u32 half = LANES / 2; half > 0; half /= 2) {
        if (seat.lane < half) {
            sum = add(sum, lanes[seat.tile][seat.lane + half]);
            lanes[seat.tile][seat.lane] = sum;
        }
        barrier();
    }
    return sum;
}

// Sums of many elements in an order that depends only on their number. Tiles of 1024 are added in
// 16 interleaved lanes, and the lanes are added in halves. Tiles are added in order within a
// chunk, and chunks within a part. This is the order of the CPU's kernels.
#pragma once
#include "target.h"

#define TILE 1024
#define LANES 16
// How many tiles a block adds up. Each is added by as many threads as there are lanes.
#define TILES_OF_BLOCK (THREADS / LANES)

// The tile of its block and the lane to which a thread adds.
struct Seat {
    u32 tile;
    u32 lane;
};
DEVICE Seat own_seat() {
    Seat seat = {thread_number() / LANES, thread_number() % LANES};
    return seat;
}

// Adds the lanes of every tile of the block in halves. All threads of the block call it.
// Afterwards, lane 0 of a tile has its sum.
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

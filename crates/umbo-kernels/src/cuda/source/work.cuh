// How a launch divides its work. There is a list of items. Each is cut into chunks of the same
// number of elements, and each block has one chunk.
#pragma once
#include "target.h"

struct Chunk {
    u32 item;
    u32 number;
};
static_assert(sizeof(Chunk) == 8, "as in Rust");

// A block's part: the elements from `start` to `end` of an item.
struct Part {
    u32 item;
    u64 start;
    u64 end;
};

// The part of this block. Without a table of chunks there is one item.
DEVICE Part part_of(const Chunk *chunks, u64 size) {
    Part part;
    u64 number = block_number();
    part.item = 0;
    if (chunks) {
        GLOBAL const Chunk *chunk = reading<Chunk>(chunks) + block_number();
        part.item = chunk->item;
        number = chunk->number;
    }
    part.start = number * size;
    part.end = part.start + size;
    return part;
}

// How many elements a thread handles together in registers, which hides the time that memory
// takes.
#define TOGETHER 4

// Calls `each.template run<N>(first)` for all elements of a part that this thread has. The N
// elements of a call are `first`, `first + THREADS` and so on, so that neighbouring threads have
// neighbours. N is MOST or 1.
template <int MOST, class Each> DEVICE void for_each_element(u64 start, u64 end, const Each &each) {
    u64 first = start + thread_number();
    if (MOST > 1) {
        NO_UNROLL
        for (; first + (MOST - 1) * THREADS < end; first += MOST * THREADS) {
            each.template run<MOST>(first);
        }
    }
    NO_UNROLL
    for (; first < end; first += THREADS) {
        each.template run<1>(first);
    }
}

DEVICE u64 smaller(u64 a, u64 b) { return a < b ? a : b; }

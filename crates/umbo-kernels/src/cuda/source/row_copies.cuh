// Copies of a table's rows, out of the table to memory without gaps, or back into it.
#pragma once
#include "layout.cuh"
#include "work.cuh"

template <class T> struct RowCopying {
    GLOBAL const u64 *numbers;
    GLOBAL T *table;
    GLOBAL T *rows;
    bool back;
    u64 width;
    u64 width_factor;
    u32 width_shift;

    template <int N> DEVICE_MEMBER void run(u64 element) const {
        u64 row = divided_by(element, width, width_factor, width_shift);
        u64 place = numbers[row] * width + (element - row * width);
        if (back) {
            table[place] = rows[element];
        } else {
            rows[element] = table[place];
        }
    }
};

#define COPY_ROWS(bytes, T)                                                                      \
    KERNEL void umbo_copy_rows_##bytes(const u64 *numbers, void *table, void *rows,              \
                                       u64 elements, const Chunk *chunks, u64 size, u64 width,   \
                                       u64 width_factor, u32 width_shift, u32 back) {            \
        Part part = part_of(chunks, size);                                                       \
        RowCopying<T> copying = {reading<u64>(numbers), writing<T>(table), writing<T>(rows),     \
                                 back != 0, width, width_factor, width_shift};                   \
        for_each_element<1>(part.start, smaller(part.end, elements), copying);                   \
    }
COPY_ROWS(4, u32)
COPY_ROWS(8, u64)

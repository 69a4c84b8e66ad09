// Sums of the rows that replicas contribute to the gradient of a table: of each row over the entries
// that name it, in their order and in float64.
#pragma once
#include "gradient.cuh"

// A row that was named.
struct NamedRow {
    // Its sum of earlier runs, or null.
    const double *accumulated;
    // Its entries, among all.
    u64 first_entry;
    u64 entries;
};
static_assert(sizeof(NamedRow) == 24, "as in Rust");

template <class G> struct RowSum {
    GLOBAL const NamedRow *rows;
    // A row of a replica each, and the factor with which it enters the sum.
    GLOBAL const Contribution *entries;
    GLOBAL double *sums;
    u64 width;
    u64 width_factor;
    u32 width_shift;

    template <int N> DEVICE_MEMBER void run(u64 element) const {
        u64 number = divided_by(element, width, width_factor, width_shift);
        u64 column = element - number * width;
        GLOBAL const NamedRow *row = rows + number;
        double sum = 0.0;
        if (const double *accumulated = row->accumulated) {
            sum = add(sum, reading<double>(accumulated)[column]);
        }
        GLOBAL const Contribution *entry = entries + row->first_entry;
        NO_UNROLL
        for (u64 left = row->entries; left > 0; left--, entry++) {
            typename G::Stored value = reading<typename G::Stored>(entry->gradient)[column];
            sum = add(sum, mul(entry->factor, G::wide(value)));
        }
        sums[element] = sum;
    }
};

#define ROW_SUMS(type, G)                                                                        \
    KERNEL void umbo_row_sums_##type(const NamedRow *rows, const Contribution *entries,          \
                                     double *sums, u64 elements, const Chunk *chunks, u64 size,  \
                                     u64 width, u64 width_factor, u32 width_shift) {             \
        Part part = part_of(chunks, size);                                                       \
        RowSum<G> summing = {reading<NamedRow>(rows), reading<Contribution>(entries),            \
                             writing<double>(sums), width, width_factor, width_shift};           \
        for_each_element<1>(part.start, smaller(part.end, elements), summing);                   \
    }
ROW_SUMS(f16, F16)
ROW_SUMS(bf16, BF16)
ROW_SUMS(f32, F32)
ROW_SUMS(f64, F64)

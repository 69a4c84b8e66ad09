// The layout of a tensor's elements in memory.
#pragma once
#include "target.h"

#define MAX_RANK 8

// A layout with as few axes as possible. The innermost axis is the last of the eight.
struct Runs {
    u32 axes;
    // Whether the elements lie densely, in order.
    u32 dense;
    u64 sizes[MAX_RANK];
    u64 strides[MAX_RANK];
    // The factors and shifts for divisions by the sizes: see `quotient_of`.
    u64 factors[MAX_RANK];
    u32 shifts[MAX_RANK];
};
static_assert(sizeof(Runs) == 232, "as in Rust");

// The upper half of a product.
DEVICE u64 upper_product(u64 a, u64 b) {
#if defined(__CUDACC_RTC__) || defined(__NVCC__)
    return __umul64hi(a, b);
#else
    return (u64)(((unsigned __int128)a * b) >> 64);
#endif
}

// `number` divided by the size from which the factor f and the shift s were computed. The
// quotient is floor(number * (2^64 + f) / 2^(65 + s)). The sum in it would need 65 bits, so it is
// halved while it is computed.
DEVICE u64 quotient_of(u64 number, u64 factor, u32 shift) {
    u64 part = upper_product(number, factor);
    return (((number - part) >> 1) + part) >> shift;
}

// `number` divided by a size. The size is 1, or the factor and the shift were computed from it.
DEVICE u64 divided_by(u64 number, u64 size, u64 factor, u32 shift) {
    return size == 1 ? number : quotient_of(number, factor, shift);
}

// The offset of the element with this number in row-major order.
DEVICE u64 offset_of(GLOBAL const Runs *runs, u64 number) {
    u64 offset = 0;
    u32 axis = MAX_RANK - 1, last = MAX_RANK - runs->axes;
    NO_UNROLL
    for (; axis > last; axis--) {
        u64 quotient = quotient_of(number, runs->factors[axis], runs->shifts[axis]);
        offset += (number - quotient * runs->sizes[axis]) * runs->strides[axis];
        number = quotient;
    }
    return offset + number * runs->strides[axis];
}

// The same, if it is known at compile time whether the layout is dense.
template <bool DENSE> DEVICE u64 place_of(GLOBAL const Runs *runs, u64 number) {
    return DENSE ? number : offset_of(runs, number);
}

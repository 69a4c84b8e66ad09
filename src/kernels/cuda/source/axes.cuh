// Sums and means over axes of each replica's part, then over replicas.
//
// Where results are few, or have neighbours of their own: the blocks add up tiles, then threads the
// tiles of each chunk, then threads the chunks and parts of each result. Else one thread does all of
// it for a result.
#pragma once
#include "element.cuh"
#include "layout.cuh"
#include "tree.cuh"
#include "work.cuh"

struct AxesPart {
    const void *data;
    // Elements of each result.
    u64 count;
    u64 tiles;
    u64 tiles_of_chunk;
    u64 chunks;
    // Where the sums of its tiles and of its chunks begin, among those of all parts.
    u64 first_tile;
    u64 first_chunk;
    // Whether position `element * results + result` of the runs is an element, or
    // `result * count + element`.
    u64 across;
    // What makes divisions by tiles and by results multiplications: see `divided_by`.
    u64 tiles_factor;
    u64 results_factor;
    u32 tiles_shift;
    u32 results_shift;
    Runs runs;
};
static_assert(sizeof(AxesPart) == 320, "as in Rust");

struct AxesOutput {
    void *data;
    u64 results;
    // What the sum is divided by for a mean.
    double count;
    u32 mean;
    // The number of its dtype.
    u32 dtype;
    Runs runs;
};
static_assert(sizeof(AxesOutput) == 264, "as in Rust");

enum { FLOAT16 = 1, BFLOAT16 = 2, FLOAT32 = 3, FLOAT64 = 4 };

// What is added up, of which kind of elements, and what becomes of the sum, where that is known and
// where the output says it.
struct DoubleSums {
    typedef double Sum;
    DEVICE double zero() { return 0.0; }
    DEVICE double plus(double a, double b) { return add(a, b); }
    DEVICE void finish(double sum, GLOBAL const AxesOutput *output, u64 place) {
        double value = output->mean ? quotient(sum, output->count) : sum;
        switch (output->dtype) {
        case FLOAT16:
            writing<u16>(output->data)[place] = F16::from_wide(value);
            break;
        case BFLOAT16:
            writing<u16>(output->data)[place] = BF16::from_wide(value);
            break;
        case FLOAT32:
            writing<float>(output->data)[place] = (float)value;
            break;
        default:
            writing<double>(output->data)[place] = value;
        }
    }
};
// Modulo 2^64. The means of integers of up to 32 bits are sums that are exact in it.
struct IntegerSums {
    typedef u64 Sum;
    DEVICE u64 zero() { return 0; }
    DEVICE u64 plus(u64 a, u64 b) { return a + b; }
    DEVICE void finish(u64 sum, GLOBAL const AxesOutput *output, u64 place) {
        if (output->mean) {
            double value = quotient((double)(i64)sum, output->count);
            if (output->dtype == FLOAT32) {
                writing<float>(output->data)[place] = (float)value;
            } else {
                writing<double>(output->data)[place] = value;
            }
            return;
        }
        // Numbers of integer types: in fours, signed and unsigned, from 8 bits on.
        switch ((output->dtype - 5) % 4) {
        case 0:
            writing<u8>(output->data)[place] = (u8)sum;
            break;
        case 1:
            writing<u16>(output->data)[place] = (u16)sum;
            break;
        case 2:
            writing<u32>(output->data)[place] = (u32)sum;
            break;
        default:
            writing<u64>(output->data)[place] = sum;
        }
    }
};
// 128 bits, for the means of 64-bit integers.
struct Large {
    u64 low;
    u64 high;
};
struct LargeSums {
    typedef Large Sum;
    DEVICE Large zero() {
        Large zero = {0, 0};
        return zero;
    }
    // The bits above the element's own.
    DEVICE u64 extension(i64 element) { return element < 0 ? ~0ull : 0; }
    DEVICE u64 extension(u64) { return 0; }
    DEVICE Large plus(Large a, Large b) {
        Large sum = {a.low + b.low, a.high + b.high};
        sum.high += sum.low < a.low;
        return sum;
    }
    DEVICE void finish(Large sum, GLOBAL const AxesOutput *output, u64 place) {
        writing<double>(output->data)[place] = quotient(rounded(sum), output->count);
    }
    // To nearest.
    DEVICE double rounded(Large sum) {
        bool negative = sum.high >> 63;
        if (negative) {
            sum.low = ~sum.low + 1;
            sum.high = ~sum.high + (sum.low == 0);
        }
        double scale = 1.0, value;
        if (sum.high == 0) {
            value = (double)sum.low;
        } else {
            scale = 18446744073709551616.0;
            NO_UNROLL
            while (!(sum.high >> 63)) {
                sum.high = sum.high << 1 | sum.low >> 63;
                sum.low <<= 1;
                scale = mul(scale, 0.5);
            }
            // What follows the upper half decides what is a tie.
            value = mul((double)(sum.high | (sum.low != 0)), scale);
        }
        return negative ? -value : value;
    }
};

template <class T> struct OfFloats : DoubleSums {
    typedef typename T::Stored From;
    DEVICE double of(From element) { return T::wide(element); }
    DEVICE void finish(double sum, GLOBAL const AxesOutput *output, u64 place) {
        double value = output->mean ? quotient(sum, output->count) : sum;
        writing<From>(output->data)[place] = T::from_wide(value);
    }
};
// Means of integers of up to 16 bits are float32.
template <int BYTES> struct MeanOf { typedef float Type; };
template <> struct MeanOf<4> { typedef double Type; };
template <> struct MeanOf<8> { typedef double Type; };
template <class T> struct OfIntegers : IntegerSums {
    typedef T From;
    DEVICE u64 of(T element) { return (u64)(i64)element; }
    DEVICE void finish(u64 sum, GLOBAL const AxesOutput *output, u64 place) {
        // Those of 64 bits are added up as large sums.
        if (sizeof(T) < 8 && output->mean) {
            typedef typename MeanOf<sizeof(T)>::Type Mean;
            Mean mean = (Mean)quotient((double)(i64)sum, output->count);
            writing<Mean>(output->data)[place] = mean;
        } else {
            writing<T>(output->data)[place] = (T)sum;
        }
    }
};
template <class T> struct OfLarge : LargeSums {
    typedef T From;
    DEVICE Large of(T element) {
        Large sum = {(u64)element, extension(element)};
        return sum;
    }
};

// The sum of one lane: of every 16th element from `first` on, which is less than 16 behind the end.
template <class How, bool DENSE>
DEVICE typename How::Sum lane_sum(GLOBAL const AxesPart *part, u64 results, u64 result, u64 first,
                                  u64 end) {
    GLOBAL const typename How::From *data = reading<typename How::From>(part->data);
    u64 step = part->across ? results : 1;
    u64 position = (part->across ? result : result * part->count) + first * step;
    u64 count = (end + (LANES - 1) - first) / LANES;
    step *= LANES;
    typename How::Sum sum = How::zero();
    NO_UNROLL
    for (; DENSE && count >= TOGETHER; count -= TOGETHER) {
        typename How::From elements[TOGETHER];
        UNROLL
        for (int i = 0; i < TOGETHER; i++) {
            elements[i] = data[position];
            position += step;
        }
        UNROLL
        for (int i = 0; i < TOGETHER; i++) {
            sum = How::plus(sum, How::of(elements[i]));
        }
    }
    NO_UNROLL
    for (; count > 0; count--) {
        sum = How::plus(sum, How::of(data[place_of<DENSE>(&part->runs, position)]));
        position += step;
    }
    return sum;
}

template <class How>
DEVICE typename How::Sum any_lane_sum(GLOBAL const AxesPart *part, u64 results, u64 result,
                                      u64 first, u64 end) {
    return part->runs.dense ? lane_sum<How, true>(part, results, result, first, end)
                            : lane_sum<How, false>(part, results, result, first, end);
}

// The sums of tiles. The rows of blocks are the parts.
template <class How>
DEVICE void sum_tiles(const AxesPart *parts, u64 results, typename How::Sum *sums) {
    SHARED typename How::Sum lanes[TILES_OF_BLOCK][LANES];
    GLOBAL const AxesPart *part = reading<AxesPart>(parts) + block_row();
    bool across = part->across != 0;
    Seat seat = seat_of(across);
    u64 item = (u64)block_number() * TILES_OF_BLOCK + seat.tile;
    u64 tiles = part->tiles;
    bool has_tile = item < tiles * results;
    u64 tile = 0, result = 0;
    typename How::Sum sum = How::zero();
    if (has_tile) {
        if (across) {
            tile = divided_by(item, results, part->results_factor, part->results_shift);
            result = item - tile * results;
        } else {
            result = divided_by(item, tiles, part->tiles_factor, part->tiles_shift);
            tile = item - result * tiles;
        }
        u64 first = tile * TILE + seat.lane;
        u64 end = smaller((tile + 1) * TILE, part->count);
        sum = any_lane_sum<How>(part, results, result, first, end);
    }
    sum = added_lanes<How>(seat, sum, lanes);
    if (has_tile && seat.lane == 0) {
        sums[part->first_tile + tile * results + result] = sum;
    }
}

// The sums of chunks: a thread for each of each result.
template <class How>
DEVICE void sum_chunks(const AxesPart *parts, u64 results, const typename How::Sum *tile_sums,
                       typename How::Sum *chunk_sums) {
    GLOBAL const AxesPart *part = reading<AxesPart>(parts) + block_row();
    u64 item = (u64)block_number() * THREADS + thread_number();
    if (item >= part->chunks * results) {
        return;
    }
    u64 chunk = divided_by(item, results, part->results_factor, part->results_shift);
    u64 result = item - chunk * results;
    u64 tile = chunk * part->tiles_of_chunk;
    u64 end = smaller(tile + part->tiles_of_chunk, part->tiles);
    typename How::Sum sum = How::zero();
    UNROLL_4
    for (; tile < end; tile++) {
        sum = How::plus(sum, tile_sums[part->first_tile + tile * results + result]);
    }
    chunk_sums[part->first_chunk + item] = sum;
}

// The results: a thread for each.
template <class How>
DEVICE void sum_parts(const AxesPart *parts, u64 count, const typename How::Sum *chunk_sums,
                      const AxesOutput *outputs) {
    GLOBAL const AxesOutput *output = reading<AxesOutput>(outputs);
    u64 results = output->results;
    u64 result = (u64)block_number() * THREADS + thread_number();
    if (result >= results) {
        return;
    }
    typename How::Sum sum = How::zero();
    NO_UNROLL
    for (u64 number = 0; number < count; number++) {
        GLOBAL const AxesPart *part = reading<AxesPart>(parts) + number;
        typename How::Sum part_sum = How::zero();
        NO_UNROLL
        for (u64 chunk = 0; chunk < part->chunks; chunk++) {
            part_sum =
                How::plus(part_sum, chunk_sums[part->first_chunk + chunk * results + result]);
        }
        sum = How::plus(sum, part_sum);
    }
    How::finish(sum, output, offset_of(&output->runs, result));
}

// The sum of a tile by one thread. The lanes come in the order in which halves are added: each
// with the one 8 behind it, such pairs with those 4 behind them, and so on. So four sums wait.
template <class How>
DEVICE typename How::Sum tile_sum(GLOBAL const AxesPart *part, u64 results, u64 result, u64 first,
                                  u64 end) {
    typename How::Sum one = How::zero(), two = one, four = one, eight = one, sum = one;
    NO_UNROLL
    for (u32 turn = 0; turn < LANES; turn++) {
        u32 lane = (turn & 1) << 3 | (turn & 2) << 1 | (turn & 4) >> 1 | (turn & 8) >> 3;
        sum = any_lane_sum<How>(part, results, result, first + lane, end);
        if (!(turn & 1)) {
            one = sum;
            continue;
        }
        sum = How::plus(one, sum);
        if (!(turn & 2)) {
            two = sum;
            continue;
        }
        sum = How::plus(two, sum);
        if (!(turn & 4)) {
            four = sum;
            continue;
        }
        sum = How::plus(four, sum);
        if (!(turn & 8)) {
            eight = sum;
        }
    }
    return How::plus(eight, sum);
}

// All of it for one result, of parts that are one chunk each.
template <class How>
DEVICE void sum_directly(const AxesPart *parts, u64 count, const AxesOutput *outputs) {
    GLOBAL const AxesOutput *output = reading<AxesOutput>(outputs);
    u64 results = output->results;
    u64 result = (u64)block_number() * THREADS + thread_number();
    if (result >= results) {
        return;
    }
    typename How::Sum sum = How::zero();
    NO_UNROLL
    for (u64 number = 0; number < count; number++) {
        GLOBAL const AxesPart *part = reading<AxesPart>(parts) + number;
        u64 elements = part->count;
        typename How::Sum chunk_sum = How::zero();
        NO_UNROLL
        for (u64 first = 0; first < elements; first += TILE) {
            u64 end = smaller(first + TILE, elements);
            chunk_sum = How::plus(chunk_sum, tile_sum<How>(part, results, result, first, end));
        }
        sum = How::plus(sum, chunk_sum);
    }
    How::finish(sum, output, offset_of(&output->runs, result));
}

#define AXES(name, ...)                                                                          \
    KERNEL void umbo_axes_tiles_##name(const AxesPart *parts, u64 results,                       \
                                       __VA_ARGS__::Sum *sums) {                                 \
        sum_tiles<__VA_ARGS__>(parts, results, sums);                                            \
    }                                                                                            \
    KERNEL void umbo_axes_direct_##name(const AxesPart *parts, u64 count,                        \
                                        const AxesOutput *output) {                              \
        sum_directly<__VA_ARGS__>(parts, count, output);                                         \
    }
AXES(f16, OfFloats<F16>)
AXES(bf16, OfFloats<BF16>)
AXES(f32, OfFloats<F32>)
AXES(f64, OfFloats<F64>)
AXES(i8, OfIntegers<i8>)
AXES(u8, OfIntegers<u8>)
AXES(i16, OfIntegers<i16>)
AXES(u16, OfIntegers<u16>)
AXES(i32, OfIntegers<i32>)
AXES(u32, OfIntegers<u32>)
AXES(64, OfIntegers<u64>)
AXES(i64_mean, OfLarge<i64>)
AXES(u64_mean, OfLarge<u64>)

#define AXES_SUMS(name, How)                                                                     \
    KERNEL void umbo_axes_chunks_##name(const AxesPart *parts, u64 results,                      \
                                        const How::Sum *tile_sums, How::Sum *chunk_sums) {       \
        sum_chunks<How>(parts, results, tile_sums, chunk_sums);                                  \
    }                                                                                            \
    KERNEL void umbo_axes_results_##name(const AxesPart *parts, u64 count,                       \
                                         const How::Sum *chunk_sums,                             \
                                         const AxesOutput *output) {                             \
        sum_parts<How>(parts, count, chunk_sums, output);                                        \
    }
AXES_SUMS(double, DoubleSums)
AXES_SUMS(integer, IntegerSums)
AXES_SUMS(large, LargeSums)

// Sums over the elements of a variable's update before anything is updated: norms, and whether
// all elements are finite. The order of additions is that of tree.cuh.
#pragma once
#include "rules.cuh"
#include "tree.cuh"
#include "update.cuh"

// The largest number of chunks, and the tiles of the smallest chunk.
#define MOST_CHUNKS 64
#define SMALLEST_CHUNK 16

// Each lane has two sums, which start at 0. `add` adds the terms of N elements, every LANES-th
// from `first` on. `finish` is called once for each lane.

// The squares of the gradient, and zero times the gradient. The second sum is 0 if all elements
// are finite, else NaN.
template <class T> struct Squares {
    const Source<T> &source;

    DEVICE_MEMBER Squares(const Source<T> &of) : source(of) {}

    template <int N> DEVICE_MEMBER void add_terms(u64 first, double (&sums)[2]) const {
        Real<T> gradient[N];
        source.template make<N, LANES>(first, gradient);
        UNROLL
        for (int i = 0; i < N; i++) {
            double wide = (double)gradient[i].value;
            sums[0] = add(sums[0], mul(wide, wide));
            if (sizeof(T) == sizeof(double)) {
                sums[1] = add(sums[1], mul(wide, 0.0));
            }
        }
    }

    DEVICE_MEMBER void finish(double (&sums)[2]) const {
        if (sizeof(T) != sizeof(double)) {
            // Squares of float32 are never past float64's range: their sum is finite if they are.
            sums[1] = mul(sums[0], 0.0);
        }
    }
};

// The squares of the weights and of the direction of a rule that measures.
template <class Rule, class T> struct NormSquares {
    const Source<T> &source;
    Real<T> scalars[SCALARS];

    DEVICE_MEMBER NormSquares(const Source<T> &of) : source(of) {
        UNROLL
        for (int i = 0; i < SCALARS; i++) {
            scalars[i].value = of.treatment->scalars[i];
        }
    }

    template <int N> DEVICE_MEMBER void add_terms(u64 first, double (&sums)[2]) const {
        GLOBAL const Variable *variable = source.variable;
        Real<T> gradient[N], weight[N], state[N][Rule::SLOTS];
        UNROLL
        for (int i = 0; i < N; i++) {
            weight[i].value = reading<T>(variable->weights)[first + i * LANES];
            UNROLL
            for (int slot = 0; slot < Rule::SLOTS; slot++) {
                state[i][slot].value = reading<T>(variable->slots[slot])[first + i * LANES];
            }
        }
        source.template make<N, LANES>(first, gradient);
        UNROLL
        for (int i = 0; i < N; i++) {
            double update = (double)Rule::direction(scalars, weight[i], state[i], gradient[i]).value;
            sums[0] = add(sums[0], mul((double)weight[i].value, (double)weight[i].value));
            sums[1] = add(sums[1], mul(update, update));
        }
    }

    DEVICE_MEMBER void finish(double (&)[2]) const {}
};

// The sums of the tiles of a chunk of TILES_OF_BLOCK tiles.
template <class Terms, class T>
DEVICE void measure_tiles(const Variable *variables, const Contribution *contributions,
                          const Treatment<T> *treatments, const Chunk *chunks, u64 size,
                          double *tile_sums) {
    SHARED double lanes[TILES_OF_BLOCK][LANES];
    Part part = part_of(chunks, size);
    Source<T> source(variables, contributions, treatments, part.item);
    u64 elements = source.variable->elements;
    Seat seat = own_seat();
    u64 start = part.start + (u64)seat.tile * TILE;
    u64 end = smaller(start + TILE, elements), first = start + seat.lane;
    double sums[2] = {0.0, 0.0};
    Terms terms(source);
    NO_UNROLL
    for (; first + (TOGETHER - 1) * LANES < end; first += TOGETHER * LANES) {
        terms.template add_terms<TOGETHER>(first, sums);
    }
    NO_UNROLL
    for (; first < end; first += LANES) {
        terms.template add_terms<1>(first, sums);
    }
    terms.finish(sums);
    u64 place = 2 * (source.variable->first_tile + start / TILE);
    NO_UNROLL
    for (int number = 0; number < 2; number++) {
        double sum = added_lanes(seat, number ? sums[1] : sums[0], lanes);
        if (start < elements && seat.lane == 0) {
            writing<double>(tile_sums)[place + number] = sum;
        }
    }
}

#define MEASURE(name, Terms, type, T)                                                            \
    KERNEL void umbo_##name##_##type(                                                            \
        const Variable *variables, const Contribution *contributions,                            \
        const Treatment<T> *treatments, const Chunk *chunks, u64 size, double *tile_sums) {      \
        measure_tiles<Terms<T>, T>(variables, contributions, treatments, chunks, size,           \
                                   tile_sums);                                                   \
    }
MEASURE(squares, Squares, f32, float)
MEASURE(squares, Squares, f64, double)
template <class T> using LambSquares = NormSquares<Lamb, T>;
MEASURE(lamb_squares, LambSquares, f32, float)
MEASURE(lamb_squares, LambSquares, f64, double)
template <class T> using LarsSquares = NormSquares<Lars, T>;
MEASURE(lars_squares, LarsSquares, f32, float)
MEASURE(lars_squares, LarsSquares, f64, double)

// Adds up the tiles of each variable; one block for each variable. It writes the quotient
// of the norms, or both sums.
KERNEL void umbo_totals(const Variable *variables, const double *tile_sums, u32 quotients) {
    SHARED double chunk_sums[2][MOST_CHUNKS];
    GLOBAL const Variable *variable = reading<Variable>(variables) + block_number();
    u64 tiles = (variable->elements + TILE - 1) / TILE;
    // The tiles of one chunk, so that there are at most MOST_CHUNKS chunks.
    u64 of_chunk = (variable->elements + MOST_CHUNKS - 1) / MOST_CHUNKS;
    of_chunk = (of_chunk + TILE - 1) / TILE;
    of_chunk = of_chunk < SMALLEST_CHUNK ? SMALLEST_CHUNK : of_chunk;
    u32 chunk = thread_number() / 2, number = thread_number() % 2;
    if (chunk < MOST_CHUNKS) {
        u64 tile = chunk * of_chunk, end = smaller(tile + of_chunk, tiles);
        double sum = 0.0;
        GLOBAL const double *sums = reading<double>(tile_sums) + 2 * variable->first_tile + number;
        UNROLL_4
        for (; tile < end; tile++) {
            sum = add(sum, sums[2 * tile]);
        }
        chunk_sums[number][chunk] = sum;
    }
    barrier();
    if (thread_number() > 0) {
        return;
    }
    double totals[2] = {0.0, 0.0};
    NO_UNROLL
    for (u64 first = 0; first * of_chunk < tiles; first++) {
        totals[0] = add(totals[0], chunk_sums[0][first]);
        totals[1] = add(totals[1], chunk_sums[1][first]);
    }
    GLOBAL double *result = writing<double>(variable->result);
    if (quotients) {
        double weights = root(totals[0]), update = root(totals[1]);
        result[0] = weights > 0 && update > 0 ? quotient(weights, update) : -1.0;
    } else {
        result[0] = totals[0];
        result[1] = totals[1];
    }
}

// Copies between layouts, fills, conversions and additions in place.
#pragma once
#include "element.cuh"
#include "layout.cuh"
#include "work.cuh"

// One copy: where elements are read, and where the same positions are written. A concatenation is
// one copy for each of its parts.
struct Copy {
    const void *from;
    void *to;
    u64 elements;
    Runs from_runs;
    Runs to_runs;
};
static_assert(sizeof(Copy) == 488, "as in Rust");

// How an element that is read becomes the one that is written: here it stays the same.
template <class T> struct Same {
    typedef T From;
    typedef T To;
    DEVICE T of(T value) { return value; }
};

template <class How, bool DENSE> struct Copying {
    GLOBAL const Copy *copy;
    GLOBAL const typename How::From *from;
    GLOBAL typename How::To *to;

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        typename How::From values[N];
        UNROLL
        for (int i = 0; i < N; i++) {
            values[i] = from[place_of<DENSE>(&copy->from_runs, first + i * THREADS)];
        }
        UNROLL
        for (int i = 0; i < N; i++) {
            to[place_of<DENSE>(&copy->to_runs, first + i * THREADS)] = How::of(values[i]);
        }
    }
};

template <class How> DEVICE void copy_part(const Copy *copies, const Chunk *chunks, u64 size) {
    Part part = part_of(chunks, size);
    GLOBAL const Copy *copy = reading<Copy>(copies) + part.item;
    GLOBAL const typename How::From *from = reading<typename How::From>(copy->from);
    GLOBAL typename How::To *to = writing<typename How::To>(copy->to);
    u64 end = smaller(part.end, copy->elements);
    if (copy->from_runs.dense && copy->to_runs.dense) {
        for_each_element<TOGETHER>(part.start, end, Copying<How, true>{copy, from, to});
    } else {
        for_each_element<1>(part.start, end, Copying<How, false>{copy, from, to});
    }
}

#define COPY(bytes, type)                                                                        \
    KERNEL void umbo_copy_##bytes(const Copy *copies, const Chunk *chunks, u64 size) {           \
        copy_part<Same<type>>(copies, chunks, size);                                             \
    }
COPY(1, u8)
COPY(2, u16)
COPY(4, u32)
COPY(8, u64)
COPY(16, Sixteen)

// Conversions between floats, each rounded once.
template <class F, class T> struct Converted {
    typedef typename F::Stored From;
    typedef typename T::Stored To;
    DEVICE To of(From value) { return T::from_wide(F::wide(value)); }
};
// Conversions between narrow types do without float64: every value of one type is a float32.
template <class F, class T> struct ConvertedInSingle {
    typedef typename F::Stored From;
    typedef typename T::Stored To;
    DEVICE To of(From value) { return T::from_single(F::single(value)); }
};
#define CONVERT(from_name, From, to_name, To, How)                                               \
    KERNEL void umbo_convert_##from_name##_##to_name(const Copy *copies, const Chunk *chunks,    \
                                                     u64 size) {                                 \
        copy_part<How<From, To>>(copies, chunks, size);                                          \
    }
CONVERT(f16, F16, bf16, BF16, ConvertedInSingle)
CONVERT(f16, F16, f32, F32, ConvertedInSingle)
CONVERT(f16, F16, f64, F64, Converted)
CONVERT(bf16, BF16, f16, F16, ConvertedInSingle)
CONVERT(bf16, BF16, f32, F32, ConvertedInSingle)
CONVERT(bf16, BF16, f64, F64, Converted)
CONVERT(f32, F32, f16, F16, ConvertedInSingle)
CONVERT(f32, F32, bf16, BF16, ConvertedInSingle)
CONVERT(f32, F32, f64, F64, Converted)
CONVERT(f64, F64, f16, F16, Converted)
CONVERT(f64, F64, bf16, BF16, Converted)
CONVERT(f64, F64, f32, F32, Converted)

struct Fill {
    void *to;
    u64 elements;
    // The bits of every element; those of a narrow element are the lower bits.
    u64 bits;
    Runs runs;
};
static_assert(sizeof(Fill) == 256, "as in Rust");

template <class T, bool DENSE> struct Filling {
    GLOBAL const Fill *fill;
    GLOBAL T *to;
    T value;

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        UNROLL
        for (int i = 0; i < N; i++) {
            to[place_of<DENSE>(&fill->runs, first + i * THREADS)] = value;
        }
    }
};

template <class T> DEVICE void fill_part(const Fill *fills, const Chunk *chunks, u64 size) {
    Part part = part_of(chunks, size);
    GLOBAL const Fill *fill = reading<Fill>(fills) + part.item;
    GLOBAL T *to = writing<T>(fill->to);
    T value = (T)fill->bits;
    u64 end = smaller(part.end, fill->elements);
    if (fill->runs.dense) {
        for_each_element<TOGETHER>(part.start, end, Filling<T, true>{fill, to, value});
    } else {
        for_each_element<1>(part.start, end, Filling<T, false>{fill, to, value});
    }
}

#define FILL(bytes, type)                                                                        \
    KERNEL void umbo_fill_##bytes(const Fill *fills, const Chunk *chunks, u64 size) {            \
        fill_part<type>(fills, chunks, size);                                                    \
    }
FILL(1, u8)
FILL(2, u16)
FILL(4, u32)
FILL(8, u64)

// `to += from` or `to -= from`: integers wrap, 16-bit floats are added in float32 and rounded.
template <class T> struct Integers {
    typedef T Stored;
    DEVICE T sum(T to, T from) { return (T)(to + from); }
    DEVICE T difference(T to, T from) { return (T)(to - from); }
};
template <class T> struct Narrow {
    typedef u16 Stored;
    DEVICE u16 sum(u16 to, u16 from) {
        return T::from_single(add(T::single(to), T::single(from)));
    }
    DEVICE u16 difference(u16 to, u16 from) {
        return T::from_single(sub(T::single(to), T::single(from)));
    }
};
template <class T> struct Floats {
    typedef T Stored;
    DEVICE T sum(T to, T from) { return add(to, from); }
    DEVICE T difference(T to, T from) { return sub(to, from); }
};

template <class How, bool DENSE> struct Combining {
    typedef typename How::Stored T;
    GLOBAL const Copy *copy;
    GLOBAL const T *from;
    GLOBAL T *to;
    bool subtracts;

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        T left[N], right[N];
        u64 places[N];
        UNROLL
        for (int i = 0; i < N; i++) {
            places[i] = place_of<DENSE>(&copy->to_runs, first + i * THREADS);
            left[i] = to[places[i]];
            right[i] = from[place_of<DENSE>(&copy->from_runs, first + i * THREADS)];
        }
        UNROLL
        for (int i = 0; i < N; i++) {
            to[places[i]] =
                subtracts ? How::difference(left[i], right[i]) : How::sum(left[i], right[i]);
        }
    }
};

template <class How>
DEVICE void combine_part(const Copy *copies, const Chunk *chunks, u64 size, u32 subtracts) {
    typedef typename How::Stored T;
    Part part = part_of(chunks, size);
    GLOBAL const Copy *copy = reading<Copy>(copies) + part.item;
    GLOBAL const T *from = reading<T>(copy->from);
    GLOBAL T *to = writing<T>(copy->to);
    bool difference = subtracts != 0;
    u64 end = smaller(part.end, copy->elements);
    if (copy->from_runs.dense && copy->to_runs.dense) {
        Combining<How, true> combining = {copy, from, to, difference};
        for_each_element<TOGETHER>(part.start, end, combining);
    } else {
        Combining<How, false> combining = {copy, from, to, difference};
        for_each_element<1>(part.start, end, combining);
    }
}

#define COMBINE(name, ...)                                                                       \
    KERNEL void umbo_combine_##name(const Copy *copies, const Chunk *chunks, u64 size,           \
                                    u32 subtracts) {                                             \
        combine_part<__VA_ARGS__>(copies, chunks, size, subtracts);                              \
    }
COMBINE(f16, Narrow<F16>)
COMBINE(bf16, Narrow<BF16>)
COMBINE(f32, Floats<float>)
COMBINE(f64, Floats<double>)
COMBINE(8, Integers<u8>)
COMBINE(16, Integers<u16>)
COMBINE(32, Integers<u32>)
COMBINE(64, Integers<u64>)

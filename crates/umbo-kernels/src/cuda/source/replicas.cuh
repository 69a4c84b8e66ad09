// Sums, means and extremes over replicas, element by element and in replica order.
#pragma once
#include "element.cuh"
#include "layout.cuh"
#include "work.cuh"

struct Input {
    const void *data;
    Runs runs;
};
static_assert(sizeof(Input) == 240, "as in Rust");

struct Reduction {
    void *output;
    u64 elements;
    u32 inputs;
    // Whether the output and all inputs are dense.
    u32 dense;
    Runs output_runs;
};
static_assert(sizeof(Reduction) == 256, "as in Rust");

// Division by a number of addends. If it is a power of two, the division is a multiplication.
DEVICE bool is_power_of_two(u32 count) { return (count & (count - 1)) == 0; }
DEVICE double divided(double sum, u32 count) {
    return is_power_of_two(count) ? mul(sum, quotient(1.0, (double)count))
                                  : quotient(sum, (double)count);
}

// How elements become a result. `Sum` is the type of the sums, `of` makes a sum of one element,
// `plus` adds, and `sum` and `mean` make the result.

// float32 and float64 are added in float64.
template <class T> struct WideFloats {
    typedef typename T::Stored From;
    typedef double Sum;
    typedef From SumOut;
    typedef From MeanOut;
    DEVICE double of(From element) { return T::wide(element); }
    DEVICE double plus(double a, double b) { return add(a, b); }
    DEVICE From sum(double total) { return T::from_wide(total); }
    DEVICE From mean(double total, u32 count) { return T::from_wide(divided(total, count)); }
};
// 16-bit floats are added in float32.
template <class T> struct NarrowFloats {
    typedef u16 From;
    typedef float Sum;
    typedef u16 SumOut;
    typedef u16 MeanOut;
    DEVICE float of(u16 element) { return T::single(element); }
    DEVICE float plus(float a, float b) { return add(a, b); }
    DEVICE u16 sum(float total) { return T::from_single(total); }
    DEVICE u16 mean(float total, u32 count) {
        return T::from_single(quotient(total, (float)count));
    }
};
// Integers wrap. Their means are exact sums that are divided.
template <class T> struct WrappingIntegers {
    typedef T From;
    typedef T Sum;
    typedef T SumOut;
    DEVICE T of(T element) { return element; }
    DEVICE T plus(T a, T b) { return (T)(a + b); }
    DEVICE T sum(T total) { return total; }
};
template <class T> struct SmallIntegers {
    typedef T From;
    typedef i32 Sum;
    typedef float MeanOut;
    DEVICE i32 of(T element) { return element; }
    DEVICE i32 plus(i32 a, i32 b) { return a + b; }
    DEVICE float mean(i32 total, u32 count) {
        // For such a count both are exact in float32, and the quotient is rounded once.
        return count <= 256 ? quotient((float)total, (float)count)
                            : (float)quotient((double)total, (double)count);
    }
};
template <class T> struct MiddleIntegers {
    typedef T From;
    typedef double Sum;
    typedef double MeanOut;
    DEVICE double of(T element) { return (double)element; }
    DEVICE double plus(double a, double b) { return add(a, b); }
    DEVICE double mean(double total, u32 count) { return divided(total, count); }
};
// The sums of upper and lower halves, which are exact for the largest number of addends.
struct Halves {
    i64 high;
    i64 low;
};
template <class T> struct LargeIntegers {
    typedef T From;
    typedef Halves Sum;
    typedef double MeanOut;
    DEVICE Halves of(T element) {
        Halves halves = {(i64)(element >> 32), (i64)(u32)element};
        return halves;
    }
    DEVICE Halves plus(Halves a, Halves b) {
        Halves halves = {a.high + b.high, a.low + b.low};
        return halves;
    }
    DEVICE double mean(Halves total, u32 count) {
        i64 high = total.high + (total.low >> 32);
        i64 low = total.low & 0xffffffff;
        return divided(add(mul((double)high, 4294967296.0), (double)low), count);
    }
};

// The smallest element, or the largest one: that of the first key, as on the CPU. A key is a signed
// integer. Keys of floats are in the order of the numbers, -0 before +0, and every NaN has the first
// key of all. `OFFSET` inverts the first bit of unsigned integers.
template <class T, class Key, u64 OFFSET, bool LARGEST> struct ChosenInteger {
    typedef T From;
    typedef Key Sum;
    typedef T SumOut;
    DEVICE Key turned(Key key) {
        Key offset = (Key)OFFSET;
        return LARGEST ? (Key)~(key ^ offset) : (Key)(key ^ offset);
    }
    DEVICE Key of(T element) { return turned((Key)element); }
    DEVICE Key plus(Key a, Key b) { return b < a ? b : a; }
    DEVICE T sum(Key key) { return (T)turned(key); }
};
// `Bits` has the size of `Key`.
template <class Bits, class Key, u64 INFINITE, u64 NOT_A_NUMBER, bool LARGEST> struct ChosenFloat {
    typedef Bits From;
    typedef Key Sum;
    typedef Bits SumOut;
    static constexpr Key FIRST = (Key)((u64)1 << (8 * sizeof(Key) - 1));
    DEVICE Key in_order(Key bits) { return bits < 0 ? (Key)(bits ^ (Key)~FIRST) : bits; }
    DEVICE Key of(Bits element) {
        Key key = in_order((Key)element);
        bool is_nan = (element & (Bits)~(Bits)FIRST) > (Bits)INFINITE;
        return is_nan ? FIRST : LARGEST ? (Key)~key : key;
    }
    DEVICE Key plus(Key a, Key b) { return b < a ? b : a; }
    DEVICE Bits sum(Key key) {
        return key == FIRST ? (Bits)NOT_A_NUMBER : (Bits)in_order(LARGEST ? (Key)~key : key);
    }
};

template <class How> struct Sums {
    typedef How Way;
    typedef typename How::SumOut To;
    DEVICE To finish(typename How::Sum total, u32) { return How::sum(total); }
};
template <class How> struct Means {
    typedef How Way;
    typedef typename How::MeanOut To;
    DEVICE To finish(typename How::Sum total, u32 count) { return How::mean(total, count); }
};

template <class Result, bool DENSE> struct Reducing {
    typedef typename Result::Way How;
    GLOBAL const Reduction *reduction;
    GLOBAL const Input *inputs;
    u32 count;
    GLOBAL typename Result::To *output;

    template <int N> DEVICE_MEMBER void run(u64 first) const {
        typename How::Sum sums[N];
        read<N>(0, first, sums);
        NO_UNROLL
        for (u32 replica = 1; replica < count; replica++) {
            typename How::Sum more[N];
            read<N>(replica, first, more);
            UNROLL
            for (int i = 0; i < N; i++) {
                sums[i] = How::plus(sums[i], more[i]);
            }
        }
        typename Result::To results[N];
        UNROLL
        for (int i = 0; i < N; i++) {
            results[i] = Result::finish(sums[i], count);
        }
        UNROLL
        for (int i = 0; i < N; i++) {
            output[place_of<DENSE>(&reduction->output_runs, first + i * THREADS)] = results[i];
        }
    }

    template <int N>
    DEVICE_MEMBER void read(u32 replica, u64 first, typename How::Sum (&sums)[N]) const {
        GLOBAL const Input *input = inputs + replica;
        GLOBAL const typename How::From *data = reading<typename How::From>(input->data);
        typename How::From values[N];
        UNROLL
        for (int i = 0; i < N; i++) {
            values[i] = data[place_of<DENSE>(&input->runs, first + i * THREADS)];
        }
        UNROLL
        for (int i = 0; i < N; i++) {
            sums[i] = How::of(values[i]);
        }
    }
};

template <class Result>
DEVICE void reduce_part(const Reduction *reductions, const Input *inputs, const Chunk *chunks,
                        u64 size) {
    Part part = part_of(chunks, size);
    GLOBAL const Reduction *reduction = reading<Reduction>(reductions) + part.item;
    GLOBAL const Input *first = reading<Input>(inputs);
    GLOBAL typename Result::To *output = writing<typename Result::To>(reduction->output);
    u32 count = reduction->inputs;
    u64 end = smaller(part.end, reduction->elements);
    if (reduction->dense) {
        Reducing<Result, true> reducing = {reduction, first, count, output};
        for_each_element<TOGETHER>(part.start, end, reducing);
    } else {
        Reducing<Result, false> reducing = {reduction, first, count, output};
        for_each_element<1>(part.start, end, reducing);
    }
}

#define REDUCE(name, ...)                                                                        \
    KERNEL void umbo_##name(const Reduction *reductions, const Input *inputs,                    \
                            const Chunk *chunks, u64 size) {                                     \
        reduce_part<__VA_ARGS__>(reductions, inputs, chunks, size);                              \
    }
REDUCE(sum_f16, Sums<NarrowFloats<F16>>)
REDUCE(sum_bf16, Sums<NarrowFloats<BF16>>)
REDUCE(sum_f32, Sums<WideFloats<F32>>)
REDUCE(sum_f64, Sums<WideFloats<F64>>)
REDUCE(sum_8, Sums<WrappingIntegers<u8>>)
REDUCE(sum_16, Sums<WrappingIntegers<u16>>)
REDUCE(sum_32, Sums<WrappingIntegers<u32>>)
REDUCE(sum_64, Sums<WrappingIntegers<u64>>)
REDUCE(mean_f16, Means<NarrowFloats<F16>>)
REDUCE(mean_bf16, Means<NarrowFloats<BF16>>)
REDUCE(mean_f32, Means<WideFloats<F32>>)
REDUCE(mean_f64, Means<WideFloats<F64>>)
REDUCE(mean_i8, Means<SmallIntegers<i8>>)
REDUCE(mean_u8, Means<SmallIntegers<u8>>)
REDUCE(mean_i16, Means<SmallIntegers<i16>>)
REDUCE(mean_u16, Means<SmallIntegers<u16>>)
REDUCE(mean_i32, Means<MiddleIntegers<i32>>)
REDUCE(mean_u32, Means<MiddleIntegers<u32>>)
REDUCE(mean_i64, Means<LargeIntegers<i64>>)
REDUCE(mean_u64, Means<LargeIntegers<u64>>)

#define CHOOSE(name, largest)                                                                    \
    REDUCE(name##_f16, Sums<ChosenFloat<u16, i16, 0x7c00, 0x7e00, largest>>)                     \
    REDUCE(name##_bf16, Sums<ChosenFloat<u16, i16, 0x7f80, 0x7fc0, largest>>)                    \
    REDUCE(name##_f32, Sums<ChosenFloat<u32, i32, 0x7f800000, 0x7fc00000, largest>>)             \
    REDUCE(name##_f64, Sums<ChosenFloat<u64, i64, 0x7ffull << 52, 0xfffull << 51, largest>>)     \
    REDUCE(name##_i8, Sums<ChosenInteger<i8, i8, 0, largest>>)                                   \
    REDUCE(name##_i16, Sums<ChosenInteger<i16, i16, 0, largest>>)                                \
    REDUCE(name##_i32, Sums<ChosenInteger<i32, i32, 0, largest>>)                                \
    REDUCE(name##_i64, Sums<ChosenInteger<i64, i64, 0, largest>>)                                \
    REDUCE(name##_u8, Sums<ChosenInteger<u8, i8, 0x80, largest>>)                                \
    REDUCE(name##_u16, Sums<ChosenInteger<u16, i16, 0x8000, largest>>)                           \
    REDUCE(name##_u32, Sums<ChosenInteger<u32, i32, 0x80000000, largest>>)                       \
    REDUCE(name##_u64, Sums<ChosenInteger<u64, i64, 1ull << 63, largest>>)
CHOOSE(min, false)
CHOOSE(max, true)

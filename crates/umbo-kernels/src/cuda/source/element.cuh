// Element types: how each is stored, widened and rounded, in the same way as in the CPU's
// kernels.
#pragma once
#include "target.h"

DEVICE u32 bits_of(float value) {
    union { float number; u32 bits; } both;
    both.number = value;
    return both.bits;
}
DEVICE float float_of(u32 bits) {
    union { float number; u32 bits; } both;
    both.bits = bits;
    return both.number;
}

// float16: the processor's conversions round to nearest and keep denormals.
#if defined(__CUDA__) || defined(__CUDACC_RTC__) || defined(__NVCC__)
DEVICE float f16_to_f32(u16 bits) {
    float wide;
    asm("cvt.f32.f16 %0, %1;" : "=f"(wide) : "h"(bits));
    return wide;
}
DEVICE u16 f32_to_f16(float value) {
    u16 bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));
    return bits;
}
#else
DEVICE float f16_to_f32(u16 bits) {
    u32 sign = (u32)(bits & 0x8000) << 16, magnitude = (u32)(bits & 0x7fff) << 13, wide;
    if (magnitude < 1u << 23) {
        // A denormal is m * 2^-24. The number with m in the mantissa of 2^-14 is larger by 2^-14.
        wide = bits_of(float_of(magnitude + (113u << 23)) - float_of(113u << 23));
    } else if (magnitude < 31u << 23) {
        wide = magnitude + (112u << 23);
    } else {
        wide = magnitude | (255u << 23);
    }
    return float_of(wide | sign);
}
DEVICE u16 f32_to_f16(float value) {
    u32 bits = bits_of(value), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff, narrow;
    if (magnitude < 113u << 23) {
        // In a number near 1/2, the last place is that of a denormal, so the addition rounds.
        narrow = bits_of(float_of(magnitude) + float_of(126u << 23)) - (126u << 23);
    } else if (magnitude < 143u << 23) {
        narrow = (magnitude + 0xfff + ((magnitude >> 13) & 1) - (112u << 23)) >> 13;
    } else if (magnitude <= 255u << 23) {
        narrow = 0x7c00;
    } else {
        narrow = 0x7e00;
    }
    return (u16)(narrow | sign);
}
#endif

DEVICE float bf16_to_f32(u16 bits) { return float_of((u32)bits << 16); }
DEVICE u16 f32_to_bf16(float value) {
    u32 bits = bits_of(value);
    if ((bits & 0x7fffffff) > 255u << 23) {
        return (u16)((bits >> 16) | 0x40);
    }
    return (u16)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

// float64 to float32, rounded to odd: an inexact result has an odd last place. So a second
// rounding, to a type with at least two digits less, gives the same as rounding the float64 once.
DEVICE float rounded_to_odd(double value) {
    float nearest = (float)value;
    double back = (double)nearest;
    u32 bits = bits_of(nearest);
    if (back == value || value != value || (bits & 1)) {
        return nearest;
    }
    bool too_large = (value < 0 ? -back : back) > (value < 0 ? -value : value);
    return float_of(too_large ? bits - 1 : bits + 1);
}

// An element type: how it is stored, and how it is converted to a float64 and from one.
struct F16 {
    typedef u16 Stored;
    DEVICE float single(u16 bits) { return f16_to_f32(bits); }
    DEVICE u16 from_single(float value) { return f32_to_f16(value); }
    DEVICE double wide(u16 bits) { return (double)f16_to_f32(bits); }
    DEVICE u16 from_wide(double value) { return f32_to_f16(rounded_to_odd(value)); }
};
struct BF16 {
    typedef u16 Stored;
    DEVICE float single(u16 bits) { return bf16_to_f32(bits); }
    DEVICE u16 from_single(float value) { return f32_to_bf16(value); }
    DEVICE double wide(u16 bits) { return (double)bf16_to_f32(bits); }
    DEVICE u16 from_wide(double value) { return f32_to_bf16(rounded_to_odd(value)); }
};
struct F32 {
    typedef float Stored;
    DEVICE float single(float value) { return value; }
    DEVICE float from_single(float value) { return value; }
    DEVICE double wide(float value) { return (double)value; }
    DEVICE float from_wide(double value) { return (float)value; }
};
struct F64 {
    typedef double Stored;
    DEVICE double wide(double value) { return value; }
    DEVICE double from_wide(double value) { return value; }
};

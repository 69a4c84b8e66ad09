// Sums of float32 numbers without float64, for GPUs whose float64 units are few.
//
// A sum is kept as two float32 numbers: the rounded sum, and the sum of what was lost by rounding.
// Rounded once, it is what a sum in float64 gives that is scaled and rounded, if
//
// - either all of it is exact in both: factors and scale are powers of two, and the addends so near
//   to each other that nothing is lost in the second number, nor in float64;
// - or the sum is farther from the middle between two neighbouring float32 numbers than the two ways
//   can be from each other.
//
// Otherwise nothing is known, and whoever asks adds in float64. That happens to one element in
// thousands; more often with scales that are no powers of two, where sums can be such a middle.
#pragma once
#include "element.cuh"

#if defined(__CUDACC_RTC__) || defined(__NVCC__)
DEVICE float fused(float a, float b, float c) { return __fmaf_rn(a, b, c); }
DEVICE void note_recomputed() {}
#elif defined(__CUDA__)
DEVICE float fused(float a, float b, float c) { return __nvvm_fma_rn_f(a, b, c); }
DEVICE void note_recomputed() {}
#else
DEVICE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
// Given by whoever calls the kernels: an element was added in float64 after all.
void note_recomputed();
#endif

DEVICE float magnitude(float value) { return float_of(bits_of(value) & 0x7fffffff); }
// What is lost when a product is rounded: the only place where a multiplication is fused.
DEVICE float lost_in_product(float a, float b, float product) { return fused(a, b, -product); }
// What is lost when a sum is rounded (Knuth).
DEVICE float lost_in_sum(float a, float b, float sum) {
    float of_b = sub(sum, a), of_a = sub(sum, of_b);
    return add(sub(a, of_a), sub(b, of_b));
}

struct WordSum {
    float sum;
    float lost;
    // The sum of all magnitudes, which none of the partial sums exceeds, and the least that is not 0.
    float total;
    float least;

    DEVICE WordSum empty() {
        WordSum empty = {-0.0f, 0.0f, 0.0f, float_of(255u << 23)};
        return empty;
    }

    // Adds an element times a factor of two parts. The factor is so large that a product is below
    // what a float32 can be only if the element is far too small for what `finish` knows.
    DEVICE_MEMBER void plus_product(float factor_high, float factor_low, float element) {
        float product = mul(factor_high, element);
        float rest = add(lost_in_product(factor_high, element, product), mul(factor_low, element));
        float size = magnitude(product);
        // A product that vanishes is not 0.
        plus(product, rest, element != 0 && size < 0x1p-126f ? 0x1p-126f : size);
    }

    // Adds a number of two parts, and of this magnitude.
    DEVICE_MEMBER void plus(float high, float low, float size) {
        float more = add(sum, high);
        lost = add(lost, add(lost_in_sum(sum, high, more), low));
        sum = more;
        total = add(total, size);
        least = size < least && size > 0 ? size : least;
    }

    // The sum of `count` addends times a scale of two parts, rounded. Returns whether that is
    // known. `powers` says that all factors and the scale, which is more than 0, are powers of two.
    DEVICE_MEMBER bool finish(float scale_high, float scale_low, bool powers, float count,
                              float &result) const {
        if (total == 0) {
            result = mul(sum, scale_high);
            return true;
        }
        float high = add(sum, lost), low = lost_in_sum(sum, lost, high);
        float product = mul(high, scale_high);
        float rest = add(lost_in_product(high, scale_high, product),
                         add(mul(high, scale_low), mul(low, scale_high)));
        result = add(product, rest);
        float beyond = sub(rest, sub(result, product));
        float size = magnitude(result);
        // Neither products nor what they lose are denormal or past the range then.
        const float smallest = 0x1p-60f, largest = 0x1p60f, smallest_result = 0x1p-100f;
        if (!(total >= smallest && total <= largest)) {
            return false;
        }
        if (powers && mul(count, total) <= mul(least, 0x1p23f)) {
            return size >= smallest_result || size == 0;
        }
        u32 bits = bits_of(size);
        // Half the distance to the next number; below a power of two numbers are twice as near.
        u32 places = bits & 0x7fffff ? 24 : 25;
        float half = float_of((bits & 0x7f800000) - (places << 23));
        float errors = mul(add(mul(mul(4.0f, count), count), 32.0f), 0x1p-47f);
        float farthest = mul(mul(total, scale_high), errors);
        return size >= smallest_result && sub(half, magnitude(beyond)) > farthest;
    }
};

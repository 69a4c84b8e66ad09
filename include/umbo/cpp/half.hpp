// The 16-bit floats as types: to be stored and converted; arithmetic is float's.
#ifndef UMBO_CPP_HALF_HPP
#define UMBO_CPP_HALF_HPP

#include <cstdint>
#include <cstring>

#include <umbo/cpp/mode.hpp>

UMBO_DETAIL_BEGIN
namespace detail {

inline std::uint32_t bits_of(float number) noexcept {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &number, sizeof(bits));
    return bits;
}

inline float float_of(std::uint32_t bits) noexcept {
    float number = 0;
    std::memcpy(&number, &bits, sizeof(number));
    return number;
}

// `bits` without its lowest `count` bits, rounded to the nearest, of two equally near to the even.
constexpr std::uint32_t without_low_bits(std::uint32_t bits, unsigned count) noexcept {
    const std::uint32_t odd = (bits >> count) & 1;
    return (bits + (std::uint32_t{1} << (count - 1)) - 1 + odd) >> count;
}

} // namespace detail

// An IEEE binary16: 5 bits of exponent, 10 of fraction.
class float16 {
public:
    float16() noexcept = default;

    // Rounds to the nearest, of two equally near to the even; too large becomes infinite.
    explicit float16(float number) noexcept {
        const std::uint32_t all = detail::bits_of(number);
        const std::uint32_t magnitude = all & 0x7FFFFFFFu;
        std::uint32_t half = 0;
        if (magnitude > 0x7F800000u) {
            half = 0x7E00u | ((magnitude >> 13) & 0x3FFu); // stays a NaN, and becomes a quiet one
        } else if (magnitude >= 0x47800000u) {
            half = 0x7C00u; // 65536 and more
        } else if (magnitude >= 0x38800000u) {
            half = detail::without_low_bits(magnitude - 0x38000000u, 13); // may round to infinity
        } else if (magnitude >= 0x33000000u) {
            // Subnormal: a multiple of 2^-24, which is what the exponent decides to shift out.
            const std::uint32_t fraction = (magnitude & 0x7FFFFFu) | 0x800000u;
            half = detail::without_low_bits(fraction, 126 - (magnitude >> 23));
        }
        bits_ = static_cast<std::uint16_t>((all >> 16 & 0x8000u) | half);
    }

    explicit operator float() const noexcept {
        const std::uint32_t sign = static_cast<std::uint32_t>(bits_ & 0x8000u) << 16;
        const std::uint32_t magnitude = bits_ & 0x7FFFu;
        if (magnitude >= 0x7C00u) return detail::float_of(sign | 0x7F800000u | (magnitude & 0x3FFu) << 13);
        if (magnitude >= 0x0400u) return detail::float_of(sign | ((magnitude << 13) + 0x38000000u));
        const float subnormal = static_cast<float>(magnitude) * 0x1p-24f;
        return sign == 0 ? subnormal : -subnormal;
    }

    static float16 from_bits(std::uint16_t bits) noexcept {
        float16 made;
        made.bits_ = bits;
        return made;
    }
    std::uint16_t bits() const noexcept { return bits_; }

private:
    std::uint16_t bits_;
};

// The upper half of a float: 8 bits of exponent, 7 of fraction.
class bfloat16 {
public:
    bfloat16() noexcept = default;

    // Rounds to the nearest, of two equally near to the even; too large becomes infinite.
    explicit bfloat16(float number) noexcept {
        const std::uint32_t all = detail::bits_of(number);
        const bool is_nan = (all & 0x7FFFFFFFu) > 0x7F800000u;
        bits_ = static_cast<std::uint16_t>(is_nan ? (all >> 16) | 0x40u : detail::without_low_bits(all, 16));
    }

    explicit operator float() const noexcept {
        return detail::float_of(static_cast<std::uint32_t>(bits_) << 16);
    }

    static bfloat16 from_bits(std::uint16_t bits) noexcept {
        bfloat16 made;
        made.bits_ = bits;
        return made;
    }
    std::uint16_t bits() const noexcept { return bits_; }

private:
    std::uint16_t bits_;
};

UMBO_DETAIL_END

#endif

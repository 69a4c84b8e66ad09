// The 16-bit floats: every bit pattern there and back, rounding, and other types of a known dtype.
#include <umbo/umbo.hpp>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "../c/check.h"

namespace other {

// Another library's half.
struct half {
    std::uint16_t bits;
};

} // namespace other

template <>
struct umbo::dtype_trait<other::half> {
    static constexpr umbo::dtype value = umbo::dtype::float16;
};

namespace {

static_assert(sizeof(umbo::float16) == 2 && std::is_trivial_v<umbo::float16>);
static_assert(sizeof(umbo::bfloat16) == 2 && std::is_trivial_v<umbo::bfloat16>);
static_assert(!std::is_convertible_v<float, umbo::float16> && !std::is_convertible_v<umbo::float16, float>);
static_assert(!std::is_convertible_v<float, umbo::bfloat16> && !std::is_convertible_v<umbo::bfloat16, float>);

// What a pattern means, by its definition.
double meaning(std::uint32_t bits, int exponent_bits, int fraction_bits) {
    const double sign = (bits & 0x8000u) != 0 ? -1 : 1;
    const int exponent = static_cast<int>(bits >> fraction_bits) & ((1 << exponent_bits) - 1);
    const int bias = (1 << (exponent_bits - 1)) - 1;
    const double fraction = (bits & ((1u << fraction_bits) - 1)) / std::ldexp(1.0, fraction_bits);
    if (exponent == (1 << exponent_bits) - 1) {
        return fraction == 0 ? sign * std::numeric_limits<double>::infinity() : std::nan("");
    }
    if (exponent == 0) return sign * std::ldexp(fraction, 1 - bias);
    return sign * std::ldexp(1 + fraction, exponent - bias);
}

template <class Half>
void all_patterns(int exponent_bits, int fraction_bits) {
    const std::uint32_t infinity = ((1u << exponent_bits) - 1) << fraction_bits;
    for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
        const auto half = Half::from_bits(static_cast<std::uint16_t>(bits));
        const auto number = static_cast<float>(half);
        const double exact = meaning(bits, exponent_bits, fraction_bits);
        if (std::isnan(exact)) {
            CHECK(std::isnan(number) && std::isnan(static_cast<float>(Half(number))));
            continue;
        }
        CHECK(static_cast<double>(number) == exact && std::signbit(number) == std::signbit(exact));
        CHECK(Half(number).bits() == bits);
        if ((bits & 0x7FFFu) >= infinity) continue;
        // Half way to the next one goes to the even of both, a bit to each side to the nearer.
        const std::uint32_t next = bits + 1;
        const double step = meaning(next & 0x7FFFu, exponent_bits, fraction_bits);
        const double there = std::isinf(step) ? 2 * std::fabs(exact) - std::fabs(meaning((bits - 1) & 0x7FFFu, exponent_bits, fraction_bits)) : step;
        const double middle = (std::fabs(exact) + there) / 2;
        const float half_way = static_cast<float>(std::copysign(middle, number));
        if (std::fabs(static_cast<double>(half_way)) != middle) continue; // float has no such number
        CHECK(Half(half_way).bits() == ((bits & 1) == 0 ? bits : next));
        CHECK(Half(std::nextafter(half_way, 0.0f)).bits() == bits);
        CHECK(Half(std::nextafter(half_way, 2 * half_way)).bits() == next);
    }
}

void extremes() {
    const float infinity = std::numeric_limits<float>::infinity();
    CHECK(umbo::float16(1e30f).bits() == 0x7C00 && umbo::float16(-infinity).bits() == 0xFC00);
    CHECK(umbo::float16(1e-30f).bits() == 0 && umbo::float16(-1e-30f).bits() == 0x8000);
    CHECK(umbo::bfloat16(std::numeric_limits<float>::max()).bits() == 0x7F80);
    // A NaN whose fraction is in the lower half only does not become infinite.
    std::uint32_t low = 0x7F800001u;
    float nan = 0;
    std::memcpy(&nan, &low, sizeof(nan));
    CHECK(std::isnan(static_cast<float>(umbo::float16(nan))));
    CHECK(std::isnan(static_cast<float>(umbo::bfloat16(nan))));
}

void elements() {
    auto halves = umbo::tensor::from_vector(
        std::vector<umbo::float16>{umbo::float16(1.5f), umbo::float16(-2.0f)});
    CHECK(halves.view().dtype == UMBO_DTYPE_FLOAT16);
    CHECK(static_cast<float>(halves.view_as<umbo::float16>()[1]) == -2);
    halves.view_as<other::half>()[0].bits = 0x3C00;
    CHECK(static_cast<float>(halves.view_as<umbo::float16>()[0]) == 1);
#if defined(__STDCPP_FLOAT16_T__)
    CHECK(halves.view_as<std::float16_t>()[1] == -2);
#endif
#if defined(__STDCPP_BFLOAT16_T__)
    CHECK(umbo::tensor::scalar(std::bfloat16_t(2)).view().dtype == UMBO_DTYPE_BFLOAT16);
#endif
    try {
        halves.view_as<umbo::bfloat16>();
        CHECK(!"refused");
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

void training() {
    const auto strategy = umbo::strategy::create({{}, 2});
    const auto weight = strategy.create_variable("w", umbo::tensor::scalar(10.0f));
    const auto gradients = umbo::gradients::create(
        strategy, {weight}, umbo::loss_reduction::sum, {1, {}, umbo::dtype::bfloat16});
    const auto sgd = umbo::optimizer::sgd(strategy, {1.0});
    strategy.run([&](umbo::replica_context &context, const umbo::value &) {
        CHECK(static_cast<float>(context.read<umbo::float16>(weight)()) == 10);
        CHECK(context.read<float>(weight)() == 10);
        context.gradient<umbo::bfloat16>(gradients, 0, umbo::gradient_mode::overwrite)() =
            umbo::bfloat16(1.5f);
        context.submit(gradients, 1);
    });
    CHECK(sgd.apply(gradients).applied);
    CHECK(weight.view_as<float>()() == 8.5f);
    CHECK(strategy.create_variable("n", umbo::tensor::scalar<std::int64_t>(7)).view_as<std::int64_t>()() == 7);
    CHECK(static_cast<float>(weight.view_as<umbo::bfloat16>()()) == 8.5f);
}

} // namespace

int main() {
    all_patterns<umbo::float16>(5, 10);
    all_patterns<umbo::bfloat16>(8, 7);
    extremes();
    elements();
    training();
    return finish();
}

// The C++ types that are elements, and the dtype of each.
#ifndef UMBO_CPP_DTYPE_HPP
#define UMBO_CPP_DTYPE_HPP

#include <cstddef>
#include <cstdint>
#include <type_traits>

#if defined(__has_include)
#if __has_include(<stdfloat>) && __cplusplus > 202002L
#include <stdfloat>
#endif
#endif

#include <umbo/cpp/enums.hpp>
#include <umbo/cpp/half.hpp>

UMBO_DETAIL_BEGIN

// The dtype of an element type. A program that has a type of its own for elements of a dtype, such
// as another library's half, says so:
//
//     template <> struct umbo::dtype_trait<my::half> {
//         static constexpr umbo::dtype value = umbo::dtype::float16;
//     };
//
// The type has the dtype's size and representation, and can be copied as memory.
template <class T>
struct dtype_trait;

#define UMBO_DETAIL_DTYPE(type, code)                              \
    template <>                                                    \
    struct dtype_trait<type> {                                     \
        static constexpr umbo::dtype value = umbo::dtype::code;    \
    }

UMBO_DETAIL_DTYPE(float, float32);
UMBO_DETAIL_DTYPE(double, float64);
UMBO_DETAIL_DTYPE(std::int8_t, int8);
UMBO_DETAIL_DTYPE(std::int16_t, int16);
UMBO_DETAIL_DTYPE(std::int32_t, int32);
UMBO_DETAIL_DTYPE(std::int64_t, int64);
UMBO_DETAIL_DTYPE(std::uint8_t, uint8);
UMBO_DETAIL_DTYPE(std::uint16_t, uint16);
UMBO_DETAIL_DTYPE(std::uint32_t, uint32);
UMBO_DETAIL_DTYPE(std::uint64_t, uint64);
UMBO_DETAIL_DTYPE(bool, boolean);
UMBO_DETAIL_DTYPE(float16, float16);
UMBO_DETAIL_DTYPE(bfloat16, bfloat16);
#if defined(__STDCPP_FLOAT16_T__)
UMBO_DETAIL_DTYPE(std::float16_t, float16);
#endif
#if defined(__STDCPP_BFLOAT16_T__)
UMBO_DETAIL_DTYPE(std::bfloat16_t, bfloat16);
#endif

#undef UMBO_DETAIL_DTYPE

namespace detail {

// The size of an element.
constexpr std::size_t size_of(umbo::dtype of) noexcept {
    switch (of) {
        case umbo::dtype::int8:
        case umbo::dtype::uint8:
        case umbo::dtype::boolean:
            return 1;
        case umbo::dtype::float16:
        case umbo::dtype::bfloat16:
        case umbo::dtype::int16:
        case umbo::dtype::uint16:
            return 2;
        case umbo::dtype::float32:
        case umbo::dtype::int32:
        case umbo::dtype::uint32:
            return 4;
        case umbo::dtype::float64:
        case umbo::dtype::int64:
        case umbo::dtype::uint64:
            return 8;
        case umbo::dtype::none:
            break;
    }
    return 0;
}

template <class T, class = void>
struct has_dtype : std::false_type {};

template <class T>
struct has_dtype<T, std::void_t<decltype(dtype_trait<T>::value)>> : std::true_type {};

template <class T>
constexpr umbo::dtype checked_dtype() noexcept {
    static_assert(has_dtype<T>::value, "no element type; umbo::dtype_trait<T> says of which dtype it is");
    constexpr umbo::dtype made = dtype_trait<T>::value;
    static_assert(sizeof(T) == size_of(made) && std::is_trivially_copyable_v<T>,
                  "an element type has the size of its dtype, and is copied as memory");
    return made;
}

// The name of an element type.
inline const char *dtype_text(umbo::dtype dtype) noexcept {
    static const char *const names[] = {"float16", "bfloat16", "float32", "float64", "int8",
                                        "int16",   "int32",    "int64",   "uint8",   "uint16",
                                        "uint32",  "uint64",   "bool"};
    constexpr std::int32_t first = to_c(umbo::dtype::float16), last = to_c(umbo::dtype::boolean);
    static_assert(last - first == 12, "the names are in the order of the codes");
    const std::int32_t code = to_c(dtype);
    return code >= first && code <= last ? names[code - first] : "of no known type";
}

} // namespace detail

// The dtype of elements of a C++ type.
template <class T>
constexpr dtype dtype_of = detail::checked_dtype<std::remove_cv_t<T>>();

UMBO_DETAIL_END

#endif

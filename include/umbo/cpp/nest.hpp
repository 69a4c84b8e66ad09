// C++ objects as values: numbers become scalars, containers become nests.
#ifndef UMBO_CPP_NEST_HPP
#define UMBO_CPP_NEST_HPP

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/value.hpp>

UMBO_DETAIL_BEGIN
namespace detail {

template <class T, class = void>
struct is_tuple_like : std::false_type {};

template <class T>
struct is_tuple_like<T, std::void_t<decltype(std::tuple_size<T>::value)>> : std::true_type {};

template <class T, class = void>
struct is_sequence : std::false_type {};

template <class T>
struct is_sequence<T, std::void_t<typename T::value_type, decltype(std::declval<const T &>().begin()),
                                  decltype(std::declval<const T &>().end())>> : std::true_type {};

// Containers of pairs of a name and something, in an order that means something: of two hash maps
// with the same entries each may have another.
template <class T, class = void>
struct is_struct_like : std::false_type {};

template <class T>
struct is_struct_like<T, std::void_t<typename T::value_type::first_type>>
    : std::bool_constant<
          std::is_convertible_v<const typename T::value_type::first_type &, std::string>> {};

template <class T, class = void>
struct is_hashed : std::false_type {};

template <class T>
struct is_hashed<T, std::void_t<typename T::hasher>> : std::true_type {};

template <class T>
constexpr bool never = false;

} // namespace detail

// The value that a C++ object stands for:
// - a value, tensor or variable: itself; a number: a scalar tensor. These become a value by themselves;
// - a `std::tuple`, `std::pair`, `std::array`, `std::vector` or the like: a tuple of what is in it
//   (`tensor::from_vector` makes one tensor of many numbers);
// - a `std::map`, or a sequence of pairs, from names: a struct with these fields.
//
// Callables may return any of these where a value is expected.
template <class T>
value to_value(const T &made) {
    if constexpr (std::is_convertible_v<const T &, value>) {
        return made;
    } else if constexpr (detail::is_tuple_like<T>::value) {
        return std::apply(
            [](const auto &...items) { return detail::granted(value::create_tuple({to_value(items)...})); },
            made);
    } else if constexpr (detail::is_sequence<T>::value && !detail::is_hashed<T>::value) {
        if constexpr (detail::is_struct_like<T>::value) {
            value::field_list fields;
            for (const auto &field : made) fields.emplace_back(field.first, to_value(field.second));
            return detail::granted(value::create_struct(fields));
        } else {
            std::vector<value> items;
            for (const auto &item : made) items.push_back(to_value<typename T::value_type>(item));
            return detail::granted(value::create_tuple(items));
        }
    } else {
        static_assert(detail::never<T>,
                      "nothing that becomes a value: a value, tensor, variable or number, or a "
                      "container of them");
    }
}

UMBO_DETAIL_END

#endif

// The type of arrays that functions take.
#ifndef UMBO_CPP_SPAN_HPP
#define UMBO_CPP_SPAN_HPP

#include <cstddef>
#include <initializer_list>
#include <iterator>
#include <type_traits>
#include <utility>

#include <umbo/cpp/result.hpp>

UMBO_DETAIL_BEGIN

namespace detail {

template <class Range>
using pointer_of = decltype(std::data(std::declval<Range &>()));

// The address of the first element of a range. The `begin()` of a view fails if they are not contiguous.
template <class Range>
constexpr auto first_of(Range &range) {
    if constexpr (std::is_pointer_v<decltype(std::begin(range))>) {
        return std::begin(range);
    } else {
        return std::data(range);
    }
}

} // namespace detail

// Contiguous elements that it does not own, of anything with `data()` and `size()`, such as a vector, a `std::array`, an array
// of C, a `std::span` or a contiguous view, and, if `T` is const, of a list in braces. It is a type for parameters: a list, or a
// temporary, is gone at the end of the line.
template <class T>
class span {
public:
    using element_type = T;
    using value_type = std::remove_cv_t<T>;

    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}

    template <class U = T, std::enable_if_t<std::is_const_v<U>, int> = 0>
    constexpr span(std::initializer_list<value_type> list) noexcept : span(detail::first_of(list), list.size()) {}

    template <class Range,
              std::enable_if_t<!std::is_same_v<std::decay_t<Range>, span> &&
                                   std::is_convertible_v<std::remove_pointer_t<detail::pointer_of<Range>> (*)[], T (*)[]>,
                               int> = 0>
    constexpr span(Range &&range) : span(detail::first_of(range), std::size(range)) {}

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t position) const noexcept { return data_[position]; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

namespace detail {

template <class Range, class = void>
struct has_strides : std::false_type {};

template <class Range>
struct has_strides<Range, std::void_t<decltype(std::declval<const Range &>().is_contiguous())>> : std::true_type {};

// The elements of a range of any type, to which a function writes if they are not const.
template <class Range>
returned<span<std::remove_pointer_t<pointer_of<Range>>>> elements_of(Range &range) {
    if constexpr (has_strides<Range>::value) {
        if (!range.is_contiguous()) {
            UMBO_DETAIL_FAIL(status::failed_precondition,
                             "view: its elements are not contiguous; copy the tensor before");
        }
    }
    return span<std::remove_pointer_t<pointer_of<Range>>>(std::data(range), std::size(range));
}

} // namespace detail

UMBO_DETAIL_END

#endif

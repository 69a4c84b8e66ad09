// Typed access to the memory that a view describes.
#ifndef UMBO_CPP_VIEW_HPP
#define UMBO_CPP_VIEW_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>

#if __cplusplus >= 202002L
#include <version>
#endif
#if defined(__cpp_lib_ranges)
#include <ranges>
#endif
#if defined(__cpp_lib_span)
#include <span>
#endif
#if defined(__cpp_lib_mdspan)
#include <array>
#include <mdspan>
#endif

#include <umbo/cpp/dtype.hpp>
#include <umbo/cpp/result.hpp>
#include <umbo/cpp/span.hpp>

UMBO_DETAIL_BEGIN

// A logical device of this process.
struct device {
    device_type type = device_type::cpu;
    std::int32_t ordinal = 0;
};

namespace detail {

// The same view for those who only read.
inline umbo_view to_read(umbo_view view) noexcept {
    view.mutable_data = nullptr;
    view.flags = static_cast<umbo_view_flags>(view.flags | UMBO_VIEW_READ_ONLY);
    return view;
}

} // namespace detail

// A view whose elements are `T`, or `const T`. In C++20 it is a contiguous range, which becomes a
// `std::span` by itself. Valid as long as the `umbo_view` that it is made
// of: in a callback, until the callback returns.
template <class T>
class view_of {
public:
    // Fails with INVALID_ARGUMENT if the elements are of another type, with FAILED_PRECONDITION if
    // they may only be read and `T` is not const.
    static returned<view_of> of(const umbo_view &view) {
        if (umbo::dtype{view.dtype} != dtype_of<T>) {
            UMBO_DETAIL_FAIL(status::invalid_argument,
                             std::string("view: its elements are ") +
                                 detail::dtype_text(umbo::dtype{view.dtype}) + ", not " +
                                 detail::dtype_text(dtype_of<T>) +
                                 "; view them as what they are, or convert them before");
        }
        if (!std::is_const_v<T> && view.mutable_data == nullptr && view.data != nullptr) {
            UMBO_DETAIL_FAIL(
                status::failed_precondition,
                "view: its elements may only be read; make it a view of const elements");
        }
        return view_of(view, unchecked());
    }

    // As `of`.
    explicit view_of(const umbo_view &view) : view_of(detail::granted(of(view))) {}

    T *data() const noexcept {
        if constexpr (std::is_const_v<T>) {
            return static_cast<T *>(view_.data);
        } else {
            return static_cast<T *>(view_.mutable_data);
        }
    }
    std::int32_t ndim() const noexcept { return view_.ndim; }
    std::int64_t shape(std::int32_t axis) const noexcept { return view_.shape[axis]; }
    std::int64_t stride(std::int32_t axis) const noexcept { return view_.strides[axis]; }
    const umbo_view &raw() const noexcept { return view_; }
    operator const umbo_view &() const noexcept { return view_; }

    // The number of elements.
    std::size_t size() const noexcept {
        std::size_t size = 1;
        for (std::int32_t axis = 0; axis < view_.ndim; ++axis) {
            size *= static_cast<std::size_t>(view_.shape[axis]);
        }
        return size;
    }

    // Whether the elements are contiguous, in row-major order.
    bool is_contiguous() const noexcept { return (view_.flags & UMBO_VIEW_CONTIGUOUS) != 0; }

    // The element at these indices, one for each axis; neither count nor range is checked.
    template <class... Index>
    T &operator()(Index... index) const noexcept {
        std::int32_t axis = 0;
        std::int64_t offset = 0;
        ((offset += static_cast<std::int64_t>(index) * view_.strides[axis++]), ...);
        static_cast<void>(axis);
        return data()[offset];
    }

    // Elements by position and in loops. They throw FAILED_PRECONDITION unless the view is
    // contiguous; the position is not checked.
    T &operator[](std::size_t position) const {
        require_contiguous();
        return data()[position];
    }
    T *begin() const {
        require_contiguous();
        return data();
    }
    T *end() const {
        require_contiguous();
        return data() + size();
    }

#if defined(__cpp_lib_span)
    // The elements of a contiguous view. A conversion to `std::span` does the same.
    std::span<T> span() const {
        require_contiguous();
        return std::span<T>(data(), size());
    }
#endif

#if defined(__cpp_lib_mdspan)
    // The elements by their indices, strided or not. Throws INVALID_ARGUMENT if the view has other
    // dimensions, FAILED_PRECONDITION if several indices name one element.
    template <std::size_t Rank>
    using mdspan_of = std::mdspan<T, std::dextents<std::int64_t, Rank>, std::layout_stride>;

    template <std::size_t Rank>
    returned<mdspan_of<Rank>> mdspan() const {
        if (view_.ndim != static_cast<std::int32_t>(Rank)) {
            UMBO_DETAIL_FAIL(status::invalid_argument,
                             "view: it has " + std::to_string(view_.ndim) + " dimensions, not " +
                                 std::to_string(Rank) + "; ask for mdspan<" +
                                 std::to_string(view_.ndim) + ">()");
        }
        std::array<std::int64_t, Rank> extents{}, strides{};
        for (std::size_t axis = 0; axis < Rank; ++axis) {
            extents[axis] = view_.shape[axis];
            strides[axis] = view_.strides[axis];
            if (strides[axis] > 0) continue;
            if (extents[axis] > 1) {
                UMBO_DETAIL_FAIL(status::failed_precondition,
                                 "view: the stride of axis " + std::to_string(axis) +
                                     " is not positive, which no std::mdspan describes; copy the tensor before");
            }
            strides[axis] = 1; // of an axis with one position, it never counts
        }
        const std::layout_stride::mapping<std::dextents<std::int64_t, Rank>> mapping(
            std::dextents<std::int64_t, Rank>(extents), strides);
        return mdspan_of<Rank>(data(), mapping);
    }
#endif

private:
    struct unchecked {};

    view_of(const umbo_view &view, unchecked) noexcept : view_(view) {}

    void require_contiguous() const {
        if (!is_contiguous()) throw_strided();
    }

    [[noreturn]] static void throw_strided() {
        detail::raise(error(status::failed_precondition,
                            "view: its elements are not contiguous; name them by "
                            "view(i, j), or copy the tensor before"));
    }

    umbo_view view_;
};

UMBO_DETAIL_END

#if defined(__cpp_lib_ranges)
// A view and a span own nothing, so that what is made of a temporary one may outlive it.
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<umbo::view_of<T>> = true;
template <class T>
inline constexpr bool std::ranges::enable_borrowed_range<umbo::span<T>> = true;

// `size` and `data` know nothing of strides; a span asks `begin` and `end`, which check them.
template <class T>
inline constexpr bool std::ranges::disable_sized_range<umbo::view_of<T>> = true;
#endif

#endif

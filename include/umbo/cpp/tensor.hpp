// Tensors.
#ifndef UMBO_CPP_TENSOR_HPP
#define UMBO_CPP_TENSOR_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/handle.hpp>
#include <umbo/cpp/view.hpp>

UMBO_DETAIL_BEGIN

using dimensions = std::vector<std::int64_t>;

// The view of contiguous row-major memory of the program's, for writing, too, if `T` is not const.
template <class T>
umbo_view view_of_memory(span<const std::int64_t> shape, T *data) {
    const umbo_dtype dtype = to_c(dtype_of<std::remove_const_t<T>>);
    const std::int32_t ndim = detail::ndim_of(shape.size());
    if constexpr (std::is_const_v<T>) {
        return umbo_view_of_memory(dtype, ndim, shape.data(), data);
    } else {
        return umbo_view_of_mutable_memory(dtype, ndim, shape.data(), data);
    }
}

// The same of all that a vector, an array or another range has, as one dimension.
template <class Range, class = detail::pointer_of<Range>>
umbo_view view_of_memory(Range &&elements) {
    const std::int64_t count = detail::count_of(std::size(elements));
    return view_of_memory({count}, detail::first_of(elements));
}

namespace detail {

// Fails unless a range has as many elements as the shape.
inline returned<void> expect_count(std::size_t count, span<const std::int64_t> shape) {
    std::uint64_t expected = 1;
    for (const std::int64_t size : shape) expected *= static_cast<std::uint64_t>(size);
    if (count != expected) {
        UMBO_DETAIL_FAIL(status::invalid_argument, "data: " + std::to_string(count) + " elements, and the shape has " +
                                                       std::to_string(expected));
    }
    return done();
}

} // namespace detail

// The same with a shape, which has as many elements.
template <class Range, class = detail::pointer_of<Range>>
returned<umbo_view> view_of_memory(span<const std::int64_t> shape, Range &&elements) {
    UMBO_DETAIL_LET(all, detail::elements_of(elements));
    UMBO_DETAIL_CALL(detail::expect_count(all.size(), shape));
    return view_of_memory(shape, all.data());
}

// Round to float16 or bfloat16, and back. The 16-bit numbers are given as their bits.
inline returned<void> dtype_convert_from_float(umbo::dtype dtype, span<const float> from, span<std::uint16_t> to) {
    if (to.size() != from.size()) UMBO_DETAIL_FAIL(status::invalid_argument, "to: as many numbers as `from` are expected");
    return check(umbo_dtype_convert_from_float(to_c(dtype), detail::count_of(from.size()), from.data(), to.data()));
}

inline returned<std::vector<std::uint16_t>> dtype_convert_from_float(umbo::dtype dtype, span<const float> from) {
    std::vector<std::uint16_t> to(from.size());
    UMBO_DETAIL_CALL(dtype_convert_from_float(dtype, from, to));
    return to;
}

inline returned<void> dtype_convert_to_float(umbo::dtype dtype, span<const std::uint16_t> from, span<float> to) {
    if (to.size() != from.size()) UMBO_DETAIL_FAIL(status::invalid_argument, "to: as many numbers as `from` are expected");
    return check(umbo_dtype_convert_to_float(to_c(dtype), detail::count_of(from.size()), from.data(), to.data()));
}

inline returned<std::vector<float>> dtype_convert_to_float(umbo::dtype dtype, span<const std::uint16_t> from) {
    std::vector<float> to(from.size());
    UMBO_DETAIL_CALL(dtype_convert_to_float(dtype, from, to));
    return to;
}

// How foreign memory is laid out, and where it is.
struct memory_options {
    dimensions strides = {}; // in elements, one for each dimension; none: row-major
    std::string device = {};
};

// A tensor. An empty device name means CPU:0, or on a replica the replica's device.
class tensor : public handle<umbo_tensor> {
public:
    using handle::handle;

    static returned<tensor> create_zeros(umbo::dtype dtype, span<const std::int64_t> shape, const std::string &device = {}) {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_create_zeros(to_c(dtype), ndim_of(shape), shape.data(), detail::optional_text(device),
                                          &out));
        return tensor(out);
    }

    static returned<tensor> create_uninitialized(umbo::dtype dtype, span<const std::int64_t> shape,
                                const std::string &device = {}) {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_create_uninitialized(to_c(dtype), ndim_of(shape), shape.data(),
                                                  detail::optional_text(device), &out));
        return tensor(out);
    }

    // A copy of contiguous row-major host data.
    template <class T>
    static returned<tensor> from_data(span<const std::int64_t> shape, const T *data,
                            const std::string &device = {}) {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_from_data(to_c(dtype_of<T>), ndim_of(shape), shape.data(), data,
                                              detail::optional_text(device), &out));
        return tensor(out);
    }

    // A copy of all that a vector, an array or another range has, which is as much as the shape has.
    template <class Range, class = detail::pointer_of<const Range>>
    static returned<tensor> from_data(span<const std::int64_t> shape, const Range &data,
                                      const std::string &device = {}) {
        UMBO_DETAIL_LET(all, detail::elements_of(data));
        UMBO_DETAIL_CALL(detail::expect_count(all.size(), shape));
        return from_data(shape, all.data(), device);
    }

    // The same as one dimension.
    template <class Range, class = detail::pointer_of<const Range>>
    static returned<tensor> from_vector(const Range &data, const std::string &device = {}) {
        return from_data({detail::count_of(std::size(data))}, data, device);
    }

    // Numbers in braces.
    template <class T>
    static returned<tensor> from_vector(std::initializer_list<T> data, const std::string &device = {}) {
        return from_data({detail::count_of(data.size())}, data, device);
    }

    // A scalar.
    template <class T>
    static returned<tensor> scalar(T number) {
        return from_data(dimensions{}, &number);
    }

    // Foreign memory, used in place. `owner` is kept until nothing uses the memory any more.
    template <class T>
    static returned<tensor> from_memory(span<const std::int64_t> shape, T *data, std::shared_ptr<void> owner,
                              const memory_options &how = {}) {
        if (!how.strides.empty() && how.strides.size() != shape.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "strides: one for each dimension, or none");
        }
        umbo_tensor *out = nullptr;
        auto *kept = new std::shared_ptr<void>(std::move(owner));
        UMBO_DETAIL_TRY(umbo_tensor_from_memory(to_c(dtype_of<T>), ndim_of(shape), shape.data(),
                                                how.strides.empty() ? nullptr : how.strides.data(), data,
                                                detail::optional_text(how.device), kept, &drop_owner, &out));
        return tensor(out);
    }

    // The same of all that a vector, an array or another range has, which is as much as the shape has.
    template <class Range, class = detail::pointer_of<Range>>
    static returned<tensor> from_memory(span<const std::int64_t> shape, Range &data, std::shared_ptr<void> owner,
                                        const std::string &device = {}) {
        UMBO_DETAIL_LET(all, detail::elements_of(data));
        UMBO_DETAIL_CALL(detail::expect_count(all.size(), shape));
        return from_memory(shape, all.data(), std::move(owner), memory_options{{}, device});
    }

    // A tensor of another library, in place. It is taken over, unless this fails.
    static returned<tensor> from_dlpack(struct DLManagedTensorVersioned *managed) {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_from_dlpack(managed, &out));
        return tensor(out);
    }

    // The same, for libraries that know DLPack before version 1 only.
    static returned<tensor> from_dlpack_legacy(struct DLManagedTensor *managed) {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_from_dlpack_legacy(managed, &out));
        return tensor(out);
    }

    // This tensor for another library, in place. Who gets it calls its deleter, once.
    returned<struct DLManagedTensorVersioned *> to_dlpack() const {
        struct DLManagedTensorVersioned *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_to_dlpack(get(), &out));
        return out;
    }

    // The same, for libraries that know DLPack before version 1 only.
    returned<struct DLManagedTensor *> to_dlpack_legacy() const {
        struct DLManagedTensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_to_dlpack_legacy(get(), &out));
        return out;
    }

    // The elements in place: to be written through a tensor that is not `const`, and read through
    // one that is. (A copy of a const tensor is not const, and has the same elements.)
    returned<umbo_view> view() {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_tensor_mutable_view(get(), &out));
        return out;
    }

    returned<umbo_view> view() const {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_tensor_view(get(), &out));
        return out;
    }

    // The view is valid as long as a tensor is that has the elements, so that there is none of a
    // temporary: name the tensor.
    template <class T>
    returned<view_of<T>> view_as() & {
        UMBO_DETAIL_LET(raw, view());
        return view_of<T>::of(raw);
    }

    template <class T>
    returned<view_of<const T>> view_as() const & {
        UMBO_DETAIL_LET(raw, view());
        return view_of<const T>::of(raw);
    }

    template <class T>
    returned<view_of<const T>> view_as() const && = delete;

    // Every `step`-th position from `start` to before `stop`; shares memory.
    returned<tensor> slice(std::int32_t axis, std::int64_t start, std::int64_t stop,
                 std::int64_t step = 1) const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_slice(get(), axis, start, stop, step, &out));
        return tensor(out);
    }

    // Shares memory; throws if that is not possible.
    returned<tensor> reshape(span<const std::int64_t> shape) const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_reshape(get(), ndim_of(shape), shape.data(), &out));
        return tensor(out);
    }

    // The axes in reverse order; shares memory.
    returned<tensor> transpose() const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_transpose(get(), nullptr, &out));
        return tensor(out);
    }

    // The axes in this order, one entry for each; shares memory.
    returned<tensor> transpose(span<const std::int32_t> axes) const {
        UMBO_DETAIL_LET(raw, view());
        if (axes.size() != static_cast<std::size_t>(raw.ndim)) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "axes: one for each dimension");
        }
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_transpose(get(), axes.data(), &out));
        return tensor(out);
    }

    // From a `.npy` file.
    static returned<tensor> load(const std::string &path) {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_load(path.c_str(), nullptr, &out));
        return tensor(out);
    }

    // The array of this name in a `.npz` file.
    static returned<tensor> load(const std::string &path, const std::string &name) {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_load(path.c_str(), name.c_str(), &out));
        return tensor(out);
    }

    // As a `.npy` file.
    returned<void> save(const std::string &path) const { return check(umbo_tensor_save(get(), path.c_str())); }

    // Several by name, as a `.npz` file.
    static returned<void> save_all(const std::vector<std::pair<std::string, tensor>> &arrays,
                                   const std::string &path) {
        std::vector<umbo_tensor *> tensors;
        std::vector<const char *> names;
        for (const auto &array : arrays) {
            names.push_back(array.first.c_str());
            tensors.push_back(array.second.get());
        }
        return check(umbo_tensor_save_all(detail::count_of(names.size()), names.data(), tensors.data(),
                                          path.c_str()));
    }

    // A contiguous copy.
    returned<tensor> copy(const std::string &device = {}) const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_tensor_copy(get(), detail::optional_text(device), &out));
        return tensor(out);
    }

    // The elements in row-major order, from host memory that has `count`, all that there are.
    template <class T>
    returned<void> upload(const T *data, std::size_t count) {
        UMBO_DETAIL_CALL(view_as<T>());
        return check(umbo_tensor_upload(get(), data, count * sizeof(T)));
    }

    // The same of a vector, an array or another range, or of numbers in braces.
    template <class Range, class = detail::pointer_of<const Range>>
    returned<void> upload(const Range &elements) {
        UMBO_DETAIL_LET(all, detail::elements_of(elements));
        return upload(all.data(), all.size());
    }

    template <class T>
    returned<void> upload(std::initializer_list<T> elements) {
        return upload(std::data(elements), elements.size());
    }

    // The elements in row-major order, to host memory that has room for `count`, all that there are.
    template <class T>
    returned<void> download(T *data, std::size_t count) const {
        UMBO_DETAIL_CALL(view_as<T>());
        return check(umbo_tensor_download(get(), data, count * sizeof(T)));
    }

    // The same to a vector, an array or another range.
    template <class Range, class = detail::pointer_of<Range>>
    returned<void> download(Range &&to) const {
        UMBO_DETAIL_LET(all, detail::elements_of(to));
        return download(all.data(), all.size());
    }

    // The same in a vector. (Not for bool: a vector of it is not an array.)
    template <class T>
    returned<std::vector<T>> to_vector() const {
        UMBO_DETAIL_LET(view, view_as<T>());
        std::vector<T> elements(view.size());
        UMBO_DETAIL_TRY(umbo_tensor_download(get(), elements.data(), elements.size() * sizeof(T)));
        return elements;
    }

    returned<umbo::device> device() const {
        UMBO_DETAIL_LET(raw, view());
        return umbo::device{device_type{raw.device.type}, raw.device.ordinal};
    }

private:
    static std::int32_t ndim_of(span<const std::int64_t> shape) {
        return detail::ndim_of(shape.size());
    }

    static void drop_owner(void *owner) noexcept {
        delete static_cast<std::shared_ptr<void> *>(owner);
    }

    friend returned<struct DLManagedTensorVersioned *> view_to_dlpack(const umbo_view &view,
                                                                      std::shared_ptr<void> owner);
};

// Memory that a view shows, for another library, in place. `owner` is kept until that no longer uses
// it; the view has to be valid as long.
inline returned<struct DLManagedTensorVersioned *> view_to_dlpack(const umbo_view &view,
                                                                  std::shared_ptr<void> owner) {
    struct DLManagedTensorVersioned *out = nullptr;
    auto *kept = new std::shared_ptr<void>(std::move(owner));
    UMBO_DETAIL_TRY(umbo_view_to_dlpack(&view, kept, &tensor::drop_owner, &out));
    return out;
}

UMBO_DETAIL_END

#endif

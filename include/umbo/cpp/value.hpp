// Values: tensors, variables, per-replica values, and nests of them.
#ifndef UMBO_CPP_VALUE_HPP
#define UMBO_CPP_VALUE_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/variable.hpp>

UMBO_DETAIL_BEGIN
namespace detail {

template <class Owner>
std::vector<typename Owner::raw_type *> raw_handles(span<const Owner> owners) {
    std::vector<typename Owner::raw_type *> raw;
    raw.reserve(owners.size());
    for (const Owner &owner : owners) raw.push_back(owner.get());
    return raw;
}

inline std::vector<const char *> raw_texts(span<const std::string> texts) {
    std::vector<const char *> raw;
    raw.reserve(texts.size());
    for (const std::string &text : texts) raw.push_back(text.c_str());
    return raw;
}

// What stands for one element.
template <class T>
inline constexpr bool is_number = has_dtype<T>::value || (std::is_integral_v<T> && sizeof(T) == 8);

} // namespace detail

// A value. An empty one stands for "none": no arguments, no result, the end of a dataset.
class value : public handle<umbo_value> {
public:
    using handle::handle;
    using field_list = std::vector<std::pair<std::string, value>>;

    value() noexcept = default;

    // The tensor itself, as a leaf.
    value(const umbo::tensor &leaf) : value(detail::granted(from_tensor(leaf))) {}

    // The variable itself, as a leaf.
    value(const umbo::variable &leaf) : value(detail::granted(from_variable(leaf))) {}

    // A number, as a scalar tensor.
    template <class T, std::enable_if_t<detail::is_number<T>, int> = 0>
    value(T number) : value(detail::granted(scalar(number))) {}

    // The same, where a conversion does not fit.
    static returned<value> from_tensor(const umbo::tensor &leaf) {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_from_tensor(leaf.get(), &out));
        return value(out);
    }

    static returned<value> from_variable(const umbo::variable &leaf) {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_from_variable(leaf.get(), &out));
        return value(out);
    }

    // A copy of contiguous row-major host data, as a leaf. An empty device name means CPU:0, or on a
    // replica the replica's device.
    template <class T>
    static returned<value> from_data(span<const std::int64_t> shape, const T *data, const std::string &device = {}) {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_from_data(to_c(dtype_of<T>), detail::ndim_of(shape.size()), shape.data(), data,
                                             detail::optional_text(device), &out));
        return value(out);
    }

    // A copy of all that a vector, an array or another range has, which is as much as the shape has.
    template <class Range, class = detail::pointer_of<const Range>>
    static returned<value> from_data(span<const std::int64_t> shape, const Range &data,
                                     const std::string &device = {}) {
        UMBO_DETAIL_LET(all, detail::elements_of(data));
        UMBO_DETAIL_CALL(detail::expect_count(all.size(), shape));
        return from_data(shape, all.data(), device);
    }

    template <class T>
    static returned<value> scalar(T number) {
        static_assert(detail::is_number<T>, "a number of a type that has a dtype");
        if constexpr (detail::has_dtype<T>::value) {
            return from_data({}, &number);
        } else { // `long long`, where int64_t is `long`
            return scalar(static_cast<std::conditional_t<std::is_signed_v<T>, std::int64_t, std::uint64_t>>(number));
        }
    }

    static returned<value> create_tuple(span<const value> items) {
        const auto raw = detail::raw_handles(items);
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_create_tuple(detail::count_of(raw.size()), raw.data(), &out));
        return value(out);
    }

    static returned<value> create_struct(const field_list &fields) {
        std::vector<const char *> names;
        std::vector<umbo_value *> items;
        for (const auto &field : fields) {
            names.push_back(field.first.c_str());
            items.push_back(field.second.get());
        }
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_create_struct(detail::count_of(names.size()), names.data(),
                                          items.data(), &out));
        return value(out);
    }

    // One component, a tensor or indexed slices, for each replica; of nests of one structure, the nest
    // of per-replica values.
    static returned<value> create_per_replica(span<const value> components) {
        const auto raw = detail::raw_handles(components);
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_create_per_replica(detail::count_of(raw.size()), raw.data(), &out));
        return value(out);
    }

    // Some rows of a tensor of shape `dense_shape`: row i of `values` is row `indices[i]` of it.
    static returned<value> create_indexed_slices(const umbo::tensor &values, const umbo::tensor &indices,
                                span<const std::int64_t> dense_shape) {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_create_indexed_slices(values.get(), indices.get(),
                                                  detail::ndim_of(dense_shape.size()),
                                                  dense_shape.data(), &out));
        return value(out);
    }

    // The parts of indexed slices: values and indices. `shape` is the dense shape.
    returned<std::pair<umbo::tensor, umbo::tensor>> indexed_slices() const {
        umbo_tensor *values = nullptr, *indices = nullptr;
        UMBO_DETAIL_TRY(umbo_value_indexed_slices(get(), &values, &indices));
        return std::pair<umbo::tensor, umbo::tensor>(values, indices);
    }

    // All that the functions below say, in one call.
    returned<umbo_value_info> info() const {
        umbo_value_info out = UMBO_VALUE_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_value_get_info(get(), &out));
        return out;
    }

    returned<value_kind> kind() const {
        UMBO_DETAIL_LET(found, info());
        return value_kind{found.kind};
    }

    // Items, fields or components; 1 for a leaf.
    returned<std::int64_t> item_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.item_count;
    }

    // Of a leaf; `dtype::none` of anything else.
    returned<umbo::dtype> dtype() const {
        UMBO_DETAIL_LET(found, info());
        return umbo::dtype{found.dtype};
    }

    returned<dimensions> shape() const {
        UMBO_DETAIL_LET(found, info());
        return dimensions(found.shape, found.shape + found.ndim);
    }

    returned<value> item(std::int64_t index) const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_item(get(), index, &out));
        return value(out);
    }

    returned<value> field(const std::string &name) const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_field(get(), name.c_str(), &out));
        return value(out);
    }

    returned<std::string> field_name(std::int64_t index) const {
        const char *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_field_name(get(), index, &out));
        return out;
    }

    returned<umbo::tensor> tensor() const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_tensor(get(), &out));
        return umbo::tensor(out);
    }

    returned<umbo::variable> variable() const {
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_variable(get(), &out));
        return umbo::variable(out);
    }

    // The leaf at a path such as "x", "a.b" or "0", to be read; without one, the value itself.
    // (`tensor` gives what can be written.)
    returned<umbo_view> view(const char *name = nullptr) const {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_value_view(get(), name, UMBO_DTYPE_NONE, &out));
        return out;
    }

    template <class T>
    returned<view_of<const T>> view_as(const char *name = nullptr) const {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_value_view(get(), name, to_c(dtype_of<T>), &out));
        return view_of<const T>::of(out);
    }

    // The value in words.
    returned<std::string> text() const {
        return detail::text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return umbo_value_text(get(), buffer, capacity, length);
        });
    }

    // How many examples of a distributed element a replica has, or all of them together.
    returned<std::int64_t> example_count(std::int32_t replica = UMBO_ALL) const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_value_example_count(get(), replica, &out));
        return out;
    }

    // Another handle to a value that C code has.
    static returned<value> retained(const umbo_value *raw) {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_value_retain(raw, &out));
        return value(out);
    }
};

inline returned<std::vector<umbo_view>> variable::views(span<const variable> variables) {
    const auto raw = detail::raw_handles(variables);
    std::vector<umbo_view> out(raw.size());
    UMBO_DETAIL_TRY(umbo_variable_views(detail::count_of(raw.size()), raw.data(), nullptr, out.data()));
    return out;
}

inline returned<std::int64_t> variable::element_count(span<const variable> variables) {
    const auto raw = detail::raw_handles(variables);
    std::int64_t out = 0;
    UMBO_DETAIL_TRY(umbo_variable_element_count(detail::count_of(raw.size()), raw.data(), &out));
    return out;
}

template <class T>
returned<std::vector<T>> variable::download_flat(span<const variable> variables) {
    UMBO_DETAIL_CALL(expect_all(variables, dtype_of<T>));
    UMBO_DETAIL_LET(count, element_count(variables));
    std::vector<T> out(static_cast<std::size_t>(count));
    UMBO_DETAIL_CALL(download_flat(variables, out));
    return out;
}

template <class Range, class>
returned<void> variable::download_flat(span<const variable> variables, Range &&to) {
    UMBO_DETAIL_LET(all, detail::elements_of(to));
    using number = typename decltype(all)::value_type;
    UMBO_DETAIL_CALL(expect_all(variables, dtype_of<number>));
    const auto raw = detail::raw_handles(variables);
    return check(umbo_variable_download_flat(detail::count_of(raw.size()), raw.data(), all.data(),
                                             all.size() * sizeof(number)));
}

template <class T>
returned<void> variable::upload_flat(span<const variable> variables, const T *data, std::size_t count) {
    UMBO_DETAIL_CALL(expect_all(variables, dtype_of<T>));
    const auto raw = detail::raw_handles(variables);
    return check(umbo_variable_upload_flat(detail::count_of(raw.size()), raw.data(), data, count * sizeof(T)));
}

inline returned<void> variable::assign(const value &to) const {
    return check(umbo_variable_assign(get(), to.get()));
}

inline returned<void> variable::assign_add(const value &delta) const {
    return check(umbo_variable_assign_add(get(), delta.get()));
}

inline returned<void> variable::assign_sub(const value &delta) const {
    return check(umbo_variable_assign_sub(get(), delta.get()));
}

inline returned<void> variable::scatter(const value &slices, scatter_op op) const {
    return check(umbo_variable_scatter(get(), slices.get(), to_c(op)));
}

UMBO_DETAIL_END

#endif

// Variables.
#ifndef UMBO_CPP_VARIABLE_HPP
#define UMBO_CPP_VARIABLE_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include <umbo/cpp/tensor.hpp>

UMBO_DETAIL_BEGIN

class value;

// How a variable behaves, and what it begins with; `strategy::create_variable` makes it. See umbo_variable_options.
struct variable_options {
    umbo::dtype dtype = umbo::dtype::none; // it and the shape are those of a variable that `initial` says
    dimensions shape = {};
    std::optional<bool> trainable = {}; // none: yes, with one exception in tensorflow.h
    umbo::aggregation aggregation = umbo::aggregation::none;
    umbo::initial initial = umbo::initial::none; // what the elements are drawn from
    double initial_mean = 0;
    double initial_spread = 0.05;
    std::uint64_t initial_seed = 0;
};

// A variable: one value on the parameter device. Copying the C++ object makes another reference to it.
class variable : public handle<umbo_variable> {
public:
    using handle::handle;

    // The current value in place, to be read outside of `run`.
    returned<umbo_view> view() const {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_variable_view(get(), nullptr, UMBO_DTYPE_NONE, &out));
        return detail::to_read(out);
    }

    // The same in another type: `float16` or `bfloat16` of a float32 variable.
    returned<umbo_view> view_as(umbo::dtype dtype) const {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_variable_view(get(), nullptr, to_c(dtype), &out));
        return detail::to_read(out);
    }

    // The same in a type that is known when compiling: the variable's, `umbo::float16`, or
    // `umbo::bfloat16`.
    template <class T>
    returned<view_of<const T>> view_as() const {
        UMBO_DETAIL_LET(raw, view_as(dtype_of<T>));
        return view_of<const T>::of(raw);
    }

    // The current values of several variables in place, outside of `run`.
    static returned<std::vector<umbo_view>> views(span<const variable> variables);

    // How many elements variables of one dtype have together.
    static returned<std::int64_t> element_count(span<const variable> variables);

    // The current values of variables of one dtype, one after the other.
    template <class T>
    static returned<std::vector<T>> download_flat(span<const variable> variables);

    // The same to a vector, an array or another range, which has room for as many.
    template <class Range, class = detail::pointer_of<Range>>
    static returned<void> download_flat(span<const variable> variables, Range &&to);

    // Gives variables of one dtype the values that lie there one after the other.
    template <class T>
    static returned<void> upload_flat(span<const variable> variables, const T *data, std::size_t count);

    // The same of a vector, an array or another range.
    template <class Range, class = detail::pointer_of<const Range>>
    static returned<void> upload_flat(span<const variable> variables, const Range &elements) {
        UMBO_DETAIL_LET(all, detail::elements_of(elements));
        return upload_flat(variables, all.data(), all.size());
    }

    // A copy of the current value.
    returned<tensor> read() const {
        umbo_tensor *out = nullptr;
        UMBO_DETAIL_TRY(umbo_variable_read(get(), &out));
        return tensor(out);
    }

    returned<void> assign(const value &to) const;

    // Assigns `count` elements in row-major order, all that the variable has.
    template <class T>
    returned<void> upload(const T *data, std::size_t count) const {
        UMBO_DETAIL_CALL(expect(dtype_of<T>));
        return check(umbo_variable_upload(get(), data, count * sizeof(T)));
    }

    // The same of a vector, an array or another range, or of numbers in braces.
    template <class Range, class = detail::pointer_of<const Range>>
    returned<void> upload(const Range &elements) const {
        UMBO_DETAIL_LET(all, detail::elements_of(elements));
        return upload(all.data(), all.size());
    }

    template <class T>
    returned<void> upload(std::initializer_list<T> elements) const {
        return upload(std::data(elements), elements.size());
    }

    // The current value in host memory that has room for `count` elements, all that there are.
    template <class T>
    returned<void> download(T *data, std::size_t count) const {
        UMBO_DETAIL_CALL(expect(dtype_of<T>));
        return check(umbo_variable_download(get(), data, count * sizeof(T)));
    }

    // The same to a vector, an array or another range.
    template <class Range, class = detail::pointer_of<Range>>
    returned<void> download(Range &&to) const {
        UMBO_DETAIL_LET(all, detail::elements_of(to));
        return download(all.data(), all.size());
    }
    returned<void> assign_add(const value &delta) const;
    returned<void> assign_sub(const value &delta) const;

    // Change the rows that indexed slices name, one after the other.
    returned<void> scatter(const value &slices, scatter_op op) const;

    // All that the functions below say, in one call.
    returned<umbo_variable_info> info() const {
        umbo_variable_info out = UMBO_VARIABLE_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_variable_get_info(get(), &out));
        return out;
    }

    returned<std::string> name() const {
        UMBO_DETAIL_LET(found, info());
        return found.name;
    }

    returned<umbo::dtype> dtype() const {
        UMBO_DETAIL_LET(found, info());
        return umbo::dtype{found.dtype};
    }

    returned<dimensions> shape() const {
        UMBO_DETAIL_LET(found, info());
        return dimensions(found.shape, found.shape + found.ndim);
    }

    returned<bool> trainable() const {
        UMBO_DETAIL_LET(found, info());
        return found.trainable != 0;
    }

    returned<umbo::aggregation> aggregation() const {
        UMBO_DETAIL_LET(found, info());
        return umbo::aggregation{found.aggregation};
    }

    returned<std::string> device() const {
        UMBO_DETAIL_LET(found, info());
        return found.device;
    }

private:
    returned<void> expect(umbo::dtype of_memory) const {
        UMBO_DETAIL_LET(own, dtype());
        if (own != of_memory) {
            UMBO_DETAIL_FAIL(status::invalid_argument,
                             std::string("data: its elements are ") + detail::dtype_text(of_memory) +
                                 ", and the variable's are " + detail::dtype_text(own));
        }
        return detail::done();
    }

    static returned<void> expect_all(span<const variable> variables, umbo::dtype of_memory) {
        for (const variable &one : variables) UMBO_DETAIL_CALL(one.expect(of_memory));
        return detail::done();
    }
};

UMBO_DETAIL_END

#endif

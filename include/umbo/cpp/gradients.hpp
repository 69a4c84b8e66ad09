// Gradients: what replicas submit and optimizers apply.
#ifndef UMBO_CPP_GRADIENTS_HPP
#define UMBO_CPP_GRADIENTS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <umbo/cpp/options.hpp>
#include <umbo/cpp/strategy.hpp>

UMBO_DETAIL_BEGIN

// How gradients are kept; see umbo_gradients_options.
struct gradients_options {
    std::int64_t accumulation_steps = 1;
    std::vector<bool> row_sparse = {}; // empty, or for each variable whether replicas add rows of it
    umbo::dtype dtype = umbo::dtype::none;
};

namespace detail {

// The C form of `gradients_options` with these choices of rows; lives no longer than they do.
inline umbo_gradients_options raw_options(const gradients_options &how,
                                          span<const std::int32_t> row_sparse) noexcept {
    umbo_gradients_options raw = UMBO_GRADIENTS_OPTIONS_INIT;
    raw.accumulation_steps = how.accumulation_steps;
    raw.row_sparse = row_sparse.empty() ? nullptr : row_sparse.data();
    raw.dtype = to_c(how.dtype);
    return raw;
}

} // namespace detail

// The gradient buffers of all replicas; written and submitted through `replica_context`.
class gradients : public handle<umbo_gradients> {
public:
    using handle::handle;

    static returned<gradients> create(const strategy &of, span<const umbo::variable> variables,
                                      loss_reduction reduction, const gradients_options &how = {}) {
        // 1 and 0 instead of the bits that a vector of bool has.
        const std::vector<std::int32_t> choices(how.row_sparse.begin(), how.row_sparse.end());
        if (!choices.empty() && choices.size() != variables.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument,
                             "row_sparse: " + std::to_string(choices.size()) + " choices for " +
                                 std::to_string(variables.size()) + " variables");
        }
        const auto options = detail::raw_options(how, choices);
        const auto raw = detail::raw_handles(variables);
        umbo_gradients *out = nullptr;
        UMBO_DETAIL_TRY(umbo_gradients_create(of.get(), detail::count_of(raw.size()), raw.data(), to_c(reduction),
                                              &options, &out));
        return gradients(out);
    }

    // Of all of them, and of that of one variable.
    returned<gradients_info> info(std::int64_t index = UMBO_NONE) const {
        umbo_gradients_info out = UMBO_GRADIENTS_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_gradients_get_info(get(), index, &out));
        return detail::from_c(out);
    }

    returned<umbo::variable> variable(std::int64_t index) const {
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_gradients_variable(get(), index, &out));
        return umbo::variable(out);
    }

    // What the next apply would use: a tensor, or indexed slices of a row-sparse variable. The loss
    // scale of `scaled_by`, if it is given, is taken out.
    returned<umbo::value> reduced(std::int64_t index, const handle<umbo_optimizer> &scaled_by = {}) const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_gradients_reduced(get(), index, scaled_by.get(), &out));
        return umbo::value(out);
    }
};

UMBO_DETAIL_END

#endif

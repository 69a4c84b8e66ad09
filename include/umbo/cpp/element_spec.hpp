// What the elements of datasets look like.
#ifndef UMBO_CPP_ELEMENT_SPEC_HPP
#define UMBO_CPP_ELEMENT_SPEC_HPP

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <umbo/cpp/value.hpp>

UMBO_DETAIL_BEGIN

// The structure, dtypes and shapes of elements.
class element_spec : public handle<umbo_element_spec> {
public:
    using handle::handle;
    using field_list = std::vector<std::pair<std::string, element_spec>>;

    // UMBO_SIZE_UNKNOWN stands for a size in which elements may differ.
    static returned<element_spec> tensor(umbo::dtype dtype, const dimensions &shape) {
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_create_tensor(to_c(dtype), detail::rank_of(shape.size()), shape.data(),
                                                 &out));
        return element_spec(out);
    }

    static returned<element_spec> tuple(const std::vector<element_spec> &items) {
        const auto raw = detail::raw_handles(items);
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_create_tuple(detail::count_of(raw.size()), raw.data(), &out));
        return element_spec(out);
    }

    static returned<element_spec> list(const std::vector<element_spec> &items) {
        const auto raw = detail::raw_handles(items);
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_create_list(detail::count_of(raw.size()), raw.data(), &out));
        return element_spec(out);
    }

    static returned<element_spec> structure(const field_list &fields) {
        std::vector<const char *> names;
        std::vector<const umbo_element_spec *> items;
        for (const auto &field : fields) {
            names.push_back(field.first.c_str());
            items.push_back(field.second.get());
        }
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_create_struct(detail::count_of(names.size()), names.data(),
                                                 items.data(), &out));
        return element_spec(out);
    }

    returned<value_kind> kind() const {
        umbo_value_kind out{};
        UMBO_DETAIL_TRY(umbo_element_spec_get_kind(get(), &out));
        return value_kind{out};
    }

    // Items, fields or components; 1 for a tensor.
    returned<std::int64_t> count() const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_element_spec_count(get(), &out));
        return out;
    }

    returned<element_spec> item(std::int64_t index) const {
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_item(get(), index, &out));
        return element_spec(out);
    }

    returned<std::string> field_name(std::int64_t index) const {
        const char *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_field_name(get(), index, &out));
        return out;
    }

    // Of a tensor, or of each component of a per-replica value.
    returned<umbo::dtype> dtype() const {
        UMBO_DETAIL_LET(made, leaf());
        return made.first;
    }

    // As `dtype`; UMBO_SIZE_UNKNOWN is a size in which elements may differ.
    returned<dimensions> shape() const {
        UMBO_DETAIL_LET(made, leaf());
        return made.second;
    }

private:
    returned<std::pair<umbo::dtype, dimensions>> leaf() const {
        umbo_dtype dtype{};
        std::int32_t rank = 0;
        std::array<std::int64_t, 8> sizes{};
        UMBO_DETAIL_TRY(umbo_element_spec_leaf(get(), &dtype, &rank, sizes.data()));
        return std::pair{umbo::dtype{dtype}, dimensions(sizes.begin(), sizes.begin() + rank)};
    }
};

UMBO_DETAIL_END

#endif

// What the elements of datasets look like.
#ifndef UMBO_CPP_ELEMENT_SPEC_HPP
#define UMBO_CPP_ELEMENT_SPEC_HPP

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
    static returned<element_spec> create_tensor(umbo::dtype dtype, span<const std::int64_t> shape) {
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_create_tensor(to_c(dtype), detail::ndim_of(shape.size()), shape.data(),
                                                 &out));
        return element_spec(out);
    }

    static returned<element_spec> create_tuple(span<const element_spec> items) {
        const auto raw = detail::raw_handles(items);
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_create_tuple(detail::count_of(raw.size()), raw.data(), &out));
        return element_spec(out);
    }

    static returned<element_spec> create_struct(const field_list &fields) {
        std::vector<const char *> names;
        std::vector<umbo_element_spec *> items;
        for (const auto &field : fields) {
            names.push_back(field.first.c_str());
            items.push_back(field.second.get());
        }
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_element_spec_create_struct(detail::count_of(names.size()), names.data(),
                                                 items.data(), &out));
        return element_spec(out);
    }

    // All that the functions below say, in one call.
    returned<umbo_element_spec_info> info() const {
        umbo_element_spec_info out = UMBO_ELEMENT_SPEC_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_element_spec_get_info(get(), &out));
        return out;
    }

    returned<value_kind> kind() const {
        UMBO_DETAIL_LET(found, info());
        return value_kind{found.kind};
    }

    // Items, fields or components; 1 for a tensor.
    returned<std::int64_t> item_count() const {
        UMBO_DETAIL_LET(found, info());
        return found.item_count;
    }

    // Of a tensor, or of each component of a per-replica value; `dtype::none` of a nest.
    returned<umbo::dtype> dtype() const {
        UMBO_DETAIL_LET(found, info());
        return umbo::dtype{found.dtype};
    }

    // As `dtype`; UMBO_SIZE_UNKNOWN is a size in which elements may differ.
    returned<dimensions> shape() const {
        UMBO_DETAIL_LET(found, info());
        return dimensions(found.shape, found.shape + found.ndim);
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
};

UMBO_DETAIL_END

#endif

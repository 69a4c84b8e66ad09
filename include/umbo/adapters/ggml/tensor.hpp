// Tensors of ggml and of Umbo, over the same memory.
#ifndef UMBO_ADAPTERS_GGML_TENSOR_HPP
#define UMBO_ADAPTERS_GGML_TENSOR_HPP

#include <cstdint>
#include <memory>
#include <string>

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml-cpu.h>
#include <ggml-opt.h>
#include <ggml.h>
#include <gguf.h>

#include <umbo/adapters/common.hpp>

namespace umbo {
namespace adapters {

namespace ggml_detail {

struct free_of_ggml {
    void operator()(ggml_context *context) const noexcept { ggml_free(context); }
    void operator()(ggml_backend *backend) const noexcept { ggml_backend_free(backend); }
    void operator()(ggml_backend_buffer *buffer) const noexcept { ggml_backend_buffer_free(buffer); }
    void operator()(ggml_gallocr *allocator) const noexcept { ggml_gallocr_free(allocator); }
    void operator()(gguf_context *file) const noexcept { gguf_free(file); }
};

// An object of ggml's that is freed with its owner.
template <class Object>
using owned = std::unique_ptr<Object, free_of_ggml>;

// A context for this many tensors and graphs, without memory for the elements.
inline owned<ggml_context> context_for(std::size_t tensors, std::size_t graphs, std::size_t graph_size) {
    const std::size_t bytes = tensors * ggml_tensor_overhead() + graphs * ggml_graph_overhead_custom(graph_size, true);
    owned<ggml_context> made(ggml_init({bytes, nullptr, true}));
    if (made == nullptr) throw error(status::resource_exhausted, "ggml_init: no memory for a context");
    return made;
}

// How messages write the sizes of a tensor: as ggml does, with what lies next to each other first.
inline std::string sizes_of(const ggml_tensor *tensor) {
    std::string text = std::to_string(tensor->ne[0]);
    for (int axis = 1; axis < ggml_n_dims(tensor); ++axis) text += " x " + std::to_string(tensor->ne[axis]);
    return text;
}

} // namespace ggml_detail

// Umbo's type of elements; throws UNIMPLEMENTED for ggml's quantised types.
inline umbo_dtype umbo_type(ggml_type type) {
    switch (type) {
    case GGML_TYPE_F32: return UMBO_DTYPE_FLOAT32;
    case GGML_TYPE_F64: return UMBO_DTYPE_FLOAT64;
    case GGML_TYPE_F16: return UMBO_DTYPE_FLOAT16;
    case GGML_TYPE_BF16: return UMBO_DTYPE_BFLOAT16;
    case GGML_TYPE_I8: return UMBO_DTYPE_INT8;
    case GGML_TYPE_I16: return UMBO_DTYPE_INT16;
    case GGML_TYPE_I32: return UMBO_DTYPE_INT32;
    case GGML_TYPE_I64: return UMBO_DTYPE_INT64;
    default: break;
    }
    throw error(status::unimplemented, std::string("umbo has no element type ") + ggml_type_name(type));
}

// Where the elements of a contiguous tensor in host memory are. Umbo's first dimension is ggml's last.
inline umbo_view view_of_ggml(const ggml_tensor *tensor) {
    if (tensor->data == nullptr || !ggml_is_contiguous(tensor)) {
        throw error(status::invalid_argument, std::string("a ggml tensor '") + ggml_get_name(tensor) + "' that is not contiguous memory");
    }
    if (tensor->buffer != nullptr && !ggml_backend_buffer_is_host(tensor->buffer)) {
        throw error(status::unimplemented, std::string("a ggml tensor '") + ggml_get_name(tensor) + "' that is not in host memory");
    }
    std::int64_t sizes[GGML_MAX_DIMS];
    const int ndim = ggml_n_dims(tensor);
    for (int axis = 0; axis < ndim; ++axis) sizes[axis] = tensor->ne[ndim - 1 - axis];
    return umbo_view_of_mutable_memory(umbo_type(tensor->type), ndim, sizes, tensor->data);
}

// The rows of a dataset of ggml's, in place and in the order of its tensors, with the fields "data" and, if it has any,
// "labels". What `ggml_opt_dataset_shuffle` has done is not seen: shuffle with `dataset::shuffle`. The dataset of ggml's has
// to live as long as what is made of it.
inline dataset rows_of(ggml_opt_dataset_t from) {
    value::field_list fields;
    const auto lend = [&](const char *name, const ggml_tensor *from_ggml) {
        // Rows, also where ggml sees one dimension.
        const std::int64_t sizes[2] = {from_ggml->ne[1], from_ggml->ne[0]};
        umbo_tensor *out = nullptr;
        detail::require(umbo_tensor_from_memory(umbo_type(from_ggml->type), 2, sizes, nullptr, from_ggml->data, nullptr, nullptr,
                                                nullptr, &out));
        fields.emplace_back(name, value(tensor(out)));
    };
    lend("data", ggml_opt_dataset_data(from));
    if (const ggml_tensor *labels = ggml_opt_dataset_labels(from)) lend("labels", labels);
    return dataset::from_tensor_slices(value::create_struct(fields));
}

} // namespace adapters
} // namespace umbo

#endif

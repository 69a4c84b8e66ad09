// Tensors of LibTorch and of Umbo, over the same memory.
#ifndef UMBO_ADAPTERS_TORCH_TENSOR_HPP
#define UMBO_ADAPTERS_TORCH_TENSOR_HPP

#include <cstdint>
#include <string>
#include <utility>

#include <torch/torch.h>

#include <umbo/adapters/torch/device.hpp>

#if defined(UMBO_NO_EXCEPTIONS)
#error "umbo/adapters/torch.hpp needs exceptions, as LibTorch does"
#endif

namespace umbo {
namespace adapters {

inline at::ScalarType torch_type(umbo_dtype dtype) {
    switch (dtype) {
    case UMBO_DTYPE_FLOAT16: return at::kHalf;
    case UMBO_DTYPE_BFLOAT16: return at::kBFloat16;
    case UMBO_DTYPE_FLOAT32: return at::kFloat;
    case UMBO_DTYPE_FLOAT64: return at::kDouble;
    case UMBO_DTYPE_INT8: return at::kChar;
    case UMBO_DTYPE_INT16: return at::kShort;
    case UMBO_DTYPE_INT32: return at::kInt;
    case UMBO_DTYPE_INT64: return at::kLong;
    case UMBO_DTYPE_UINT8: return at::kByte;
    case UMBO_DTYPE_BOOL: return at::kBool;
    default: break;
    }
    throw error(status::unimplemented, "torch has no element type for the one numbered " +
                                           std::to_string(static_cast<int>(dtype)));
}

inline umbo_dtype umbo_type(at::ScalarType type) {
    for (const umbo_dtype dtype :
         {UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16, UMBO_DTYPE_FLOAT32, UMBO_DTYPE_FLOAT64, UMBO_DTYPE_INT8,
          UMBO_DTYPE_INT16, UMBO_DTYPE_INT32, UMBO_DTYPE_INT64, UMBO_DTYPE_UINT8, UMBO_DTYPE_BOOL}) {
        if (torch_type(dtype) == type) return dtype;
    }
    throw error(status::unimplemented, std::string("umbo has no element type ") + c10::toString(type));
}

// Where the elements of a tensor are, which lies in the memory of `on`.
inline umbo_view view_of_torch(const at::Tensor &tensor, const umbo_device &on) {
    if (tensor.device() != torch_detail::torch_device(on)) {
        throw error(status::invalid_argument, "a torch tensor on " + tensor.device().str() + "; its place is on " +
                                                  torch_detail::torch_device(on).str());
    }
    if (tensor.dim() > UMBO_MAX_NDIM) {
        throw error(status::invalid_argument,
                    "a torch tensor of " + std::to_string(tensor.dim()) + " dimensions; 8 are supported");
    }
    const auto ndim = static_cast<std::int32_t>(tensor.dim());
    umbo_view view =
        umbo_view_of_mutable_memory(umbo_type(tensor.scalar_type()), ndim, tensor.sizes().data(), tensor.data_ptr());
    view.device = on;
    if (!tensor.is_contiguous()) view.flags = umbo_view_flags{};
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) view.strides[axis] = tensor.stride(axis);
    return view;
}

// The same of a tensor in host memory. Throws UNIMPLEMENTED for one that is elsewhere.
inline umbo_view view_of_torch(const at::Tensor &tensor) {
    if (!tensor.device().is_cpu()) {
        throw error(status::unimplemented, "a torch tensor on " + tensor.device().str() +
                                               "; give it as tensor.cpu(): Umbo copies what a replica needs to its GPU");
    }
    return view_of_torch(tensor, umbo_device{UMBO_DEVICE_CPU, 0});
}

// The elements of a view, on a CPU or a GPU, as a torch tensor, which keeps `owner` (the value or variable that the view was taken
// from) and with it the memory: so it may be kept for longer than the callback.
template <class Owner>
at::Tensor lend(const umbo_view &view, Owner owner) {
    const auto ndim = static_cast<std::size_t>(view.ndim);
    const c10::Device device = torch_detail::torch_device(view.device);
    return at::from_blob(const_cast<void *>(view.data), at::IntArrayRef(view.shape, ndim),
                         at::IntArrayRef(view.strides, ndim), [owner = std::move(owner)](void *) {},
                         at::TensorOptions(torch_type(view.dtype)).device(device), device);
}

// The elements of a tensor in host memory as an Umbo tensor, which keeps torch's.
inline tensor share(const at::Tensor &from) {
    const umbo_view view = view_of_torch(from);
    umbo_tensor *out = nullptr;
    auto *kept = new at::Tensor(from.detach());
    detail::require(umbo_tensor_from_memory(
        view.dtype, view.ndim, view.shape, view.strides, view.mutable_data, "CPU:0", kept,
        [](void *own) { delete static_cast<at::Tensor *>(own); }, &out));
    return tensor(out);
}

} // namespace adapters
} // namespace umbo

#endif

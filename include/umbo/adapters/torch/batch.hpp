// Batches of torch tensors.
#ifndef UMBO_ADAPTERS_TORCH_BATCH_HPP
#define UMBO_ADAPTERS_TORCH_BATCH_HPP

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <umbo/adapters/common.hpp>
#include <umbo/adapters/torch/tensor.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

inline void require_rows(const std::string &name, const at::Tensor &tensor, const at::Tensor &first) {
    const std::string field = "fields: '" + name + "'";
    if (!tensor.defined()) throw error(status::invalid_argument, field + " is a tensor that is not defined");
    if (!tensor.device().is_cpu()) {
        throw error(status::unimplemented, field + " is a tensor on " + tensor.device().str() + "; batches lie in host memory: give '" +
                                               name + "' as tensor.cpu(), of which each replica's part is copied to its GPU");
    }
    if (tensor.dim() == 0) throw error(status::invalid_argument, field + " is a scalar; it needs a row for each example");
    if (tensor.size(0) != first.size(0)) {
        throw error(status::invalid_argument, field + " has " + std::to_string(tensor.size(0)) + " rows, and the first field " +
                                                  std::to_string(first.size(0)));
    }
}

} // namespace torch_detail

// A global batch of torch tensors, in place: a row of each for each example. `torch_model::train` splits it over the
// replicas. Throws INVALID_ARGUMENT for a tensor that is not defined, a scalar, or rows of a number other than the first's, and
// UNIMPLEMENTED for one on a GPU.
inline value batch_of(const std::vector<std::pair<std::string, at::Tensor>> &fields) {
    value::field_list shared;
    for (const auto &field : fields) {
        torch_detail::require_rows(field.first, field.second, fields.front().second);
        shared.emplace_back(field.first, value(share(field.second)));
    }
    return value::create_struct(shared);
}

// A dataset of the rows of tensors, in place.
inline dataset rows_of(const std::vector<std::pair<std::string, at::Tensor>> &fields) {
    return dataset::from_tensor_slices(batch_of(fields));
}

// What a `torch::data` loader gives: a stacked batch, with the fields "data" and "target", or without targets "data".
inline value batch_of(const torch::data::Example<> &stacked) {
    return batch_of({{"data", stacked.data}, {"target", stacked.target}});
}

inline value batch_of(const torch::data::TensorExample &stacked) { return batch_of({{"data", stacked.data}}); }

// The same of single examples, which are stacked first.
template <class Target>
value batch_of(const std::vector<torch::data::Example<at::Tensor, Target>> &examples) {
    if (examples.empty()) throw error(status::invalid_argument, "examples: a batch needs one");
    return batch_of(torch::data::transforms::Stack<torch::data::Example<at::Tensor, Target>>().apply_batch(examples));
}

// A replica's part of a batch: fields by name, as tensors that keep the batch's memory, so that autograd and
// callers may hold on to them.
class part {
public:
    explicit part(const value &of) : of_(of) {}

    at::Tensor operator[](const char *name) const {
        value field = of_.field(name);
        const umbo_view view = field.view();
        return lend(view, std::move(field));
    }

    // The part itself, if it is one tensor.
    at::Tensor tensor() const {
        const umbo_view view = of_.view();
        return lend(view, of_);
    }

private:
    const value &of_;
};

} // namespace adapters
} // namespace umbo

#endif

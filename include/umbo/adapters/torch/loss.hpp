// What a step of a torch_model returns.
#ifndef UMBO_ADAPTERS_TORCH_LOSS_HPP
#define UMBO_ADAPTERS_TORCH_LOSS_HPP

#include <umbo/adapters/torch/tensor.hpp>

namespace umbo {
namespace adapters {

// The mean loss of a step, whose gradients the replicas have contributed: a torch scalar of type double. `backward()` has nothing
// left to do, so that this line of a program may stay. A factor of the loss belongs into the function that computes it.
class torch_loss {
public:
    explicit torch_loss(double mean) : mean_(mean) {}

    template <class Number = double>
    Number item() const {
        return static_cast<Number>(mean_);
    }
    void backward() const noexcept {}
    operator at::Tensor() const { return at::scalar_tensor(mean_, at::TensorOptions(at::kDouble)); }

private:
    double mean_;
};

} // namespace adapters
} // namespace umbo

#endif

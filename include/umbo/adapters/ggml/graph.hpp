// The graph of a replica for one number of examples.
#ifndef UMBO_ADAPTERS_GGML_GRAPH_HPP
#define UMBO_ADAPTERS_GGML_GRAPH_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <umbo/adapters/ggml/tensor.hpp>

namespace umbo {
namespace adapters {

struct ggml_options {
    std::int64_t datapoint_size = 0; // elements of an example: ne[0] of the inputs
    ggml_type data_type = GGML_TYPE_F32;
    // As in ggml: means over the examples, except for the sum.
    ggml_opt_loss_type loss_type = GGML_OPT_LOSS_TYPE_CROSS_ENTROPY;
    std::int64_t accumulation_steps = 1; // ggml's opt_period
    // The most nodes that a graph with its gradients has; ggml ends the process if it has more.
    std::size_t graph_size = GGML_DEFAULT_GRAPH_SIZE;
    int threads = 1; // of ggml's, for each replica
};

namespace ggml_detail {

// Whether the loss compares outputs with labels.
inline bool has_labels(ggml_opt_loss_type loss) {
    return loss == GGML_OPT_LOSS_TYPE_CROSS_ENTROPY || loss == GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR;
}

// What ggml computes of `outputs`, in a context: the loss of `loss_type`, as ggml_opt has it.
inline ggml_tensor *loss_of(ggml_context *context, ggml_opt_loss_type loss_type, ggml_tensor *outputs, ggml_tensor *labels) {
    const auto each = 1.0f / static_cast<float>(ggml_nelements(outputs));
    switch (loss_type) {
    case GGML_OPT_LOSS_TYPE_MEAN: return ggml_scale(context, ggml_sum(context, outputs), each);
    case GGML_OPT_LOSS_TYPE_SUM: return ggml_sum(context, outputs);
    case GGML_OPT_LOSS_TYPE_CROSS_ENTROPY: return ggml_cross_entropy_loss(context, outputs, labels);
    case GGML_OPT_LOSS_TYPE_MEAN_SQUARED_ERROR: break;
    }
    return ggml_scale(context, ggml_sum(context, ggml_sqr(context, ggml_sub(context, outputs, labels))), each);
}

// A network's graph over memory that is allocated once, with the gradients of its parameters or without.
class graph {
public:
    template <class Net>
    graph(Net &net, const ggml_options &how, std::int64_t rows, const std::vector<ggml_tensor *> *trained)
        : rows_(rows), context_(context_for(4 * how.graph_size, 1, how.graph_size)) {
        ggml_context *const in = context_.get();
        inputs_ = ggml_new_tensor_2d(in, how.data_type, how.datapoint_size, rows);
        ggml_set_input(inputs_);
        outputs_ = net.forward(in, inputs_);
        require_outputs(how);
        if (!ggml_is_contiguous(outputs_)) outputs_ = ggml_cont(in, outputs_);
        ggml_set_output(outputs_);
        if (has_labels(how.loss_type)) {
            labels_ = ggml_new_tensor_2d(in, GGML_TYPE_F32, outputs_->ne[0], rows);
            ggml_set_input(labels_);
        }
        loss_ = loss_of(in, how.loss_type, outputs_, labels_);
        ggml_set_output(loss_);
        graph_ = ggml_new_graph_custom(in, how.graph_size, trained != nullptr);
        if (trained != nullptr) {
            ggml_set_loss(loss_);
            ggml_build_forward_expand(graph_, loss_);
            differentiate(*trained);
        } else {
            ggml_build_forward_expand(graph_, loss_);
        }
        if (how.loss_type == GGML_OPT_LOSS_TYPE_CROSS_ENTROPY) {
            right_ = ggml_count_equal(in, ggml_argmax(in, outputs_), ggml_argmax(in, labels_));
            ggml_set_output(right_);
            ggml_build_forward_expand(graph_, right_);
        }
        memory_.reset(ggml_gallocr_new(ggml_backend_cpu_buffer_type()));
        if (memory_ == nullptr || !ggml_gallocr_alloc_graph(memory_.get(), graph_)) {
            throw error(status::resource_exhausted, "ggml: no memory for the graph of " + std::to_string(rows) + " examples");
        }
    }

    std::int64_t rows() const noexcept { return rows_; }
    const ggml_tensor *outputs() const noexcept { return outputs_; }
    const ggml_tensor *labels() const noexcept { return labels_; }

    // The gradient of a parameter, or null if the loss does not use it.
    const ggml_tensor *gradient(std::size_t parameter) const { return gradients_[parameter]; }

    double loss() const { return static_cast<double>(*static_cast<const float *>(loss_->data)); }

    // How many examples have their largest output where their largest label is, if the loss is a cross entropy.
    bool counts() const noexcept { return right_ != nullptr; }
    double right() const { return static_cast<double>(*static_cast<const std::int64_t *>(right_->data)); }

    // Copies a replica's part of a batch into the inputs.
    void feed(const value &part) {
        copy(part, "data", inputs_);
        if (labels_ != nullptr) copy(part, "labels", labels_);
    }

    // Computes the loss and the gradients on the thread of a replica, whose context can stop it.
    void compute(ggml_backend_t backend, const replica_context &context) {
        if (!gradients_.empty()) ggml_graph_reset(graph_); // the gradient of the loss is 1
        umbo_replica_context *const raw = context.get();
        ggml_backend_cpu_set_abort_callback(backend, [](void *of) {
            std::int32_t cancelled = 0;
            return umbo_replica_context_is_cancelled(static_cast<umbo_replica_context *>(of), &cancelled) == UMBO_OK && cancelled != 0;
        }, raw);
        const ggml_status outcome = ggml_backend_graph_compute(backend, graph_);
        ggml_backend_cpu_set_abort_callback(backend, nullptr, nullptr);
        if (outcome == GGML_STATUS_SUCCESS) return;
        const auto as = outcome == GGML_STATUS_ABORTED        ? status::cancelled
                        : outcome == GGML_STATUS_ALLOC_FAILED ? status::resource_exhausted
                                                              : status::internal;
        throw error(as, std::string("ggml_backend_graph_compute: ") + ggml_status_to_string(outcome));
    }

private:
    // What `forward` has to give, so that ggml does not end the process over it.
    void require_outputs(const ggml_options &how) const {
        if (outputs_ == nullptr) throw error(status::invalid_argument, "forward: it gives no outputs");
        if (outputs_->type != GGML_TYPE_F32) {
            throw error(status::unimplemented, std::string("forward: its outputs are ") + ggml_type_name(outputs_->type) + "; F32 is needed");
        }
        if (!has_labels(how.loss_type) || outputs_->ne[0] * rows_ == ggml_nelements(outputs_)) return;
        throw error(status::invalid_argument, "forward: its outputs are " + sizes_of(outputs_) + " for " + std::to_string(rows_) +
                                                  " examples; ne[1] is their number");
    }

    // Adds the graph of the gradients, which stay in memory until they are read.
    void differentiate(const std::vector<ggml_tensor *> &parameters) {
        ggml_build_backward_expand(context_.get(), graph_, nullptr);
        ggml_set_input(ggml_graph_get_grad_acc(graph_, loss_)); // set before each computation
        for (ggml_tensor *parameter : parameters) {
            ggml_tensor *found = ggml_graph_get_grad(graph_, parameter);
            if (found != nullptr && !ggml_is_contiguous(found)) {
                found = ggml_cont(context_.get(), found);
                ggml_build_forward_expand(graph_, found);
            }
            if (found != nullptr) {
                ggml_set_output(found);
                if (found->view_src != nullptr) ggml_set_output(found->view_src);
            }
            gradients_.push_back(found);
        }
    }

    static void copy(const value &part, const char *field, ggml_tensor *to) {
        const umbo_view view = part.view(field);
        const auto wanted = umbo::dtype{umbo_type(to->type)}, found = umbo::dtype{view.dtype};
        std::int64_t count = 1;
        for (std::int32_t axis = 0; axis < view.ndim; ++axis) count *= view.shape[axis];
        if (found != wanted || count != ggml_nelements(to)) {
            throw error(status::invalid_argument, std::string("batch: '") + field + "' has " + std::to_string(count) + " elements of " +
                                                      detail::dtype_text(found) + " for " + std::to_string(to->ne[1]) +
                                                      " examples; each needs " + std::to_string(to->ne[0]) + " of " +
                                                      detail::dtype_text(wanted));
        }
        ggml_backend_tensor_set(to, view.data, 0, ggml_nbytes(to));
    }

    std::int64_t rows_;
    owned<ggml_context> context_;
    owned<ggml_gallocr> memory_;
    ggml_tensor *inputs_ = nullptr, *outputs_ = nullptr, *labels_ = nullptr, *loss_ = nullptr, *right_ = nullptr;
    ggml_cgraph *graph_ = nullptr;
    std::vector<ggml_tensor *> gradients_;
};

} // namespace ggml_detail

} // namespace adapters
} // namespace umbo

#endif

// A perceptron, and ggml's own training of it (ggml_opt), which training under Umbo is compared with.
#ifndef UMBO_TESTS_GGML_ALONE_HPP
#define UMBO_TESTS_GGML_ALONE_HPP

#include <umbo/adapters/ggml.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace ggml_alone {

struct sizes {
    std::int64_t inputs, hidden, classes;
};

struct perceptron {
    ggml_tensor *w1, *b1, *w2, *b2;

    perceptron(ggml_context *ctx, sizes of) {
        const auto parameter = [&](const char *name, std::int64_t from, std::int64_t to) {
            ggml_tensor *const made = from == 1 ? ggml_new_tensor_1d(ctx, GGML_TYPE_F32, to)
                                                : ggml_new_tensor_2d(ctx, GGML_TYPE_F32, from, to);
            ggml_set_param(made);
            return ggml_set_name(made, name);
        };
        w1 = parameter("w1", of.inputs, of.hidden), b1 = parameter("b1", 1, of.hidden);
        w2 = parameter("w2", of.hidden, of.classes), b2 = parameter("b2", 1, of.classes);
    }

    ggml_tensor *forward(ggml_context *ctx, ggml_tensor *inputs) const {
        ggml_tensor *const first = ggml_relu(ctx, ggml_add(ctx, ggml_mul_mat(ctx, w1, inputs), b1));
        return ggml_add(ctx, ggml_mul_mat(ctx, w2, first), b2);
    }

    // Uniform numbers from -spread to spread; biases stay 0.
    void draw(float spread) const {
        std::uint32_t state = 1;
        for (ggml_tensor *each : {w1, w2}) {
            float *const numbers = ggml_get_data_f32(each);
            for (std::int64_t at = 0; at < ggml_nelements(each); ++at) {
                state = state * 1664525u + 1013904223u;
                numbers[at] = (static_cast<float>(state >> 8) / 16777216.0f - 0.5f) * 2 * spread;
            }
        }
    }

    std::vector<float> numbers() const {
        std::vector<float> all;
        for (ggml_tensor *each : {w1, b1, w2, b2}) {
            const float *const first = ggml_get_data_f32(each);
            all.insert(all.end(), first, first + ggml_nelements(each));
        }
        return all;
    }
};

struct settings {
    sizes of = {20, 33, 5};
    std::int64_t rows = 12; // of each batch
    int threads = 1;
    float spread = 0.3f;
    ggml_opt_loss_type loss = GGML_OPT_LOSS_TYPE_CROSS_ENTROPY;
    ggml_opt_optimizer_type optimizer = GGML_OPT_OPTIMIZER_TYPE_ADAMW;
    ggml_opt_optimizer_params params = {};
};

class training {
public:
    explicit training(const settings &how)
        : settings_(how), fixed_(umbo::adapters::ggml_detail::context_for(16, 0, 0)),
          rest_(umbo::adapters::ggml_detail::context_for(512, 2, GGML_DEFAULT_GRAPH_SIZE)), net(fixed_.get(), how.of),
          cpu_(ggml_backend_cpu_init()) {
        inputs_ = ggml_new_tensor_2d(fixed_.get(), GGML_TYPE_F32, how.of.inputs, how.rows);
        ggml_set_input(inputs_);
        memory_.reset(ggml_backend_alloc_ctx_tensors_from_buft(fixed_.get(), ggml_backend_cpu_buffer_type()));
        ggml_backend_buffer_clear(memory_.get(), 0);
        net.draw(how.spread);
        ggml_tensor *const outputs = net.forward(rest_.get(), inputs_);
        ggml_set_output(outputs);
        ggml_backend_cpu_set_n_threads(cpu_.get(), how.threads);
        ggml_backend_t backend = cpu_.get();
        schedule_ = ggml_backend_sched_new(&backend, nullptr, 1, 512, false, false);
        ggml_opt_params with = ggml_opt_default_params(schedule_, how.loss);
        with.ctx_compute = rest_.get();
        with.inputs = inputs_;
        with.outputs = outputs;
        with.get_opt_pars = ggml_opt_get_constant_optimizer_params;
        with.get_opt_pars_ud = &settings_.params;
        with.optimizer = how.optimizer;
        context_ = ggml_opt_init(with);
    }
    ~training() {
        ggml_opt_free(context_);
        ggml_backend_sched_free(schedule_);
    }
    training(const training &) = delete;
    training &operator=(const training &) = delete;

    // A step on rows of inputs, and of labels as one number for each class, or an evaluation. `result` takes in its loss.
    void step(const float *x, const float *y, ggml_opt_result_t result = nullptr, bool trains = true) {
        ggml_opt_alloc(context_, trains);
        ggml_backend_tensor_set(inputs_, x, 0, ggml_nbytes(inputs_));
        ggml_tensor *const labels = ggml_opt_labels(context_);
        if (labels != nullptr) ggml_backend_tensor_set(labels, y, 0, ggml_nbytes(labels));
        ggml_opt_eval(context_, result);
    }

private:
    settings settings_;
    umbo::adapters::ggml_detail::owned<ggml_context> fixed_, rest_;

public:
    perceptron net;

private:
    umbo::adapters::ggml_detail::owned<ggml_backend> cpu_;
    umbo::adapters::ggml_detail::owned<ggml_backend_buffer> memory_;
    ggml_tensor *inputs_ = nullptr;
    ggml_backend_sched_t schedule_ = nullptr;
    ggml_opt_context_t context_ = nullptr;
};

} // namespace ggml_alone

#endif

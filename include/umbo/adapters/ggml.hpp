// ggml under Umbo: each replica has a graph of its own over one block of memory, in which the parameters lie, and
// updates read the gradients where ggml leaves them. Not part of umbo.hpp; needs ggml with its backend for CPUs, C++17 and
// exceptions.
//
//     #include <umbo/adapters/ggml.hpp>
//
//     struct perceptron {
//         ggml_tensor *w, *b;
//         explicit perceptron(ggml_context *ctx) // parameters, which have no memory yet
//             : w(ggml_new_tensor_2d(ctx, GGML_TYPE_F32, 784, 10)), b(ggml_new_tensor_1d(ctx, GGML_TYPE_F32, 10)) {
//             for (ggml_tensor *each : {w, b}) ggml_set_param(each);
//         }
//         ggml_tensor *forward(ggml_context *ctx, ggml_tensor *inputs) const {
//             return ggml_add(ctx, ggml_mul_mat(ctx, w, inputs), b);
//         }
//     };
//
//     umbo::adapters::ggml_options how;
//     how.datapoint_size = 784;
//     umbo::adapters::ggml_model<perceptron> model(umbo::strategy::create_cpu(2), how,
//         [](ggml_context *ctx) { return perceptron(ctx); }, [](perceptron &net) { draw(net.w); });
//     umbo::adapters::ggml_fit(model, dataset, GGML_OPT_OPTIMIZER_TYPE_ADAMW, ggml_opt_get_default_optimizer_params, 10, 64, 0.1f, false);
//     model.save("net.gguf");
//
// What a step means does not depend on the number of replicas: losses are means (or sums) over a replica's examples,
// weighted by these. Examples need not divide into batches, nor batches into replicas.
//
// ggml's threads are those of a replica's backend, of which `ggml_options::threads` sets the number: 1, since the replicas
// are the threads.
#ifndef UMBO_ADAPTERS_GGML_HPP
#define UMBO_ADAPTERS_GGML_HPP

#include <umbo/adapters/ggml/graph.hpp>
#include <umbo/adapters/ggml/loop.hpp>
#include <umbo/adapters/ggml/model.hpp>
#include <umbo/adapters/ggml/optimizer.hpp>
#include <umbo/adapters/ggml/tensor.hpp>

#endif

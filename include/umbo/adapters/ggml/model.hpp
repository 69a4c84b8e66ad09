// A network of ggml's on each replica.
#ifndef UMBO_ADAPTERS_GGML_MODEL_HPP
#define UMBO_ADAPTERS_GGML_MODEL_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/adapters/ggml/graph.hpp>

namespace umbo {
namespace adapters {

// A network on each replica, whose parameters lie in one block of memory and are variables of the strategy, without a copy.
//
// `Net` has the tensors of its parameters, and a method `forward(ggml_context *, ggml_tensor *inputs)`, which makes the graph
// from inputs of ne[0] = `datapoint_size` and ne[1] = the number of examples to outputs, and returns these. It is called
// once for each number of examples that a replica gets.
template <class Net>
class ggml_model {
public:
    // `make(ctx)` makes a network, with its parameters in `ctx`: tensors of type F32 that `ggml_set_param` has marked, and
    // whose names are those of the variables. Other tensors of `ctx` are constants. `make` is called once for each replica
    // of this process, `initialise(net)` once, for the first one, when its tensors have memory, which is zero.
    //
    // Throws INVALID_ARGUMENT for options that are out of range, a network without parameters, or networks that differ;
    // UNIMPLEMENTED for parameters of other types, and if a replica computes on a GPU.
    template <class Make, class Initialise>
    ggml_model(const umbo::strategy &on, const ggml_options &how, Make make, Initialise initialise) : on_(on), how_(how) {
        common_detail::require_cpus(on, "ggml_model");
        require(how);
        const auto count = static_cast<std::size_t>(on.local_replica_count());
        for (std::size_t index = 0; index < count; ++index) replicas_.push_back(std::make_unique<replica>(make, how));
        replica &first = *replicas_.front();
        require_parameters(first);
        memory_.reset(ggml_backend_alloc_ctx_tensors_from_buft(first.fixed.get(), ggml_backend_cpu_buffer_type()),
                      ggml_detail::free_of_ggml());
        if (memory_ == nullptr) throw error(status::resource_exhausted, "ggml_model: no memory for the parameters");
        ggml_backend_buffer_clear(memory_.get(), 0);
        initialise(first.net);
        for (std::size_t index = 1; index < count; ++index) lay(*replicas_[index], first);
        std::vector<std::string> names;
        std::vector<umbo_view> views;
        for (const ggml_tensor *parameter : first.parameters) {
            const std::string name = ggml_get_name(parameter);
            names.push_back(name.empty() ? "parameter" + std::to_string(names.size()) : name);
            views.push_back(view_of_ggml(parameter));
        }
        parameters_ = on.create_variables_in_memory(names, views, memory_);
        // ggml's sum is that of the batch, and so is its gradient.
        const auto reduction = sums() ? loss_reduction::global_mean : loss_reduction::mean;
        gradients_options accumulating;
        accumulating.accumulation_steps = how.accumulation_steps;
        gradients_ = umbo::gradients::create(on, parameters_, reduction, accumulating);
    }

    ggml_model(const ggml_model &) = delete;
    ggml_model &operator=(const ggml_model &) = delete;

    // In the order in which `make` has made them.
    const std::vector<variable> &parameters() const noexcept { return parameters_; }
    const umbo::gradients &gradients() const noexcept { return gradients_; }
    const umbo::strategy &strategy() const noexcept { return on_; }

    // Whether the loss of a batch is a sum over its examples, instead of a mean.
    bool sums() const noexcept { return how_.loss_type == GGML_OPT_LOSS_TYPE_SUM; }

    // Whether steps have the metric "accuracy".
    bool has_accuracy() const noexcept { return how_.loss_type == GGML_OPT_LOSS_TYPE_CROSS_ENTROPY; }

    // Replica 0's network, outside of runs: its tensors lie on the parameters. They are for reading; `variable::upload`
    // and `load` write them.
    const Net &central() const noexcept { return replicas_.front()->net; }

    // The step, for `strategy::run` and what takes its callables, on a batch with the fields "data" and, for losses with
    // labels, "labels". The metrics are "loss" and, for a cross entropy, "accuracy". Parameters that the loss does not use
    // are not changed.
    auto step() {
        return [this](replica_context &context, const value &batch) {
            double loss = 0, right = 0;
            const std::int64_t rows = context.info().local_example_count;
            if (rows != 0) { // a replica's part may be empty
                ggml_detail::graph &own = computed(context, batch, rows, true);
                for (std::size_t index = 0; index < parameters_.size(); ++index) {
                    const ggml_tensor *found = own.gradient(index);
                    if (found != nullptr) context.attach(gradients_, static_cast<std::int64_t>(index), gradient_view(found, index));
                }
                loss = own.loss();
                if (own.counts()) right = own.right();
            }
            add_metrics(context, loss, right, rows);
            context.submit(gradients_);
        };
    }

    // The same without gradients.
    auto evaluation() {
        return [this](replica_context &context, const value &batch) {
            double loss = 0, right = 0;
            const std::int64_t rows = context.info().local_example_count;
            if (rows != 0) {
                const ggml_detail::graph &own = computed(context, batch, rows, false);
                loss = own.loss();
                if (own.counts()) right = own.right();
            }
            add_metrics(context, loss, right, rows);
        };
    }

    // The same with a metric of the program: `measure(outputs, labels)` gives a sum over the examples, of which the metric is
    // the mean. The tensors have memory of the host; `labels` is null for losses without.
    template <class Measure>
    auto evaluation(std::string metric, Measure measure) {
        return [this, metric = std::move(metric), measure](replica_context &context, const value &batch) {
            double sum = 0;
            const std::int64_t rows = context.info().local_example_count;
            if (rows != 0) {
                const ggml_detail::graph &own = computed(context, batch, rows, false);
                sum = static_cast<double>(measure(own.outputs(), own.labels()));
            }
            context.add_metric(metric.c_str(), sum, static_cast<double>(rows));
        };
    }

    // One step on a batch: an element of a distributed dataset, or a global batch, which is split over the replicas here.
    // Returns the mean loss of an example.
    double train(const value &batch) {
        on_.run(step(), common_detail::split_over(on_, batch));
        return on_.metric_result("loss").mean;
    }

    // The parameters in a file of ggml's, GGUF, by name.
    void save(const std::string &path) const {
        const ggml_detail::owned<gguf_context> file(gguf_init_empty());
        for (const ggml_tensor *parameter : replicas_.front()->parameters) gguf_add_tensor(file.get(), parameter);
        if (!gguf_write_to_file(file.get(), path.c_str(), false)) throw error(status::unavailable, "save: '" + path + "' cannot be written");
    }

    // What `save` wrote. Throws NOT_FOUND if the file or a parameter is not there, INVALID_ARGUMENT for another shape or type;
    // then nothing has changed.
    void load(const std::string &path) {
        ggml_context *raw = nullptr;
        const ggml_detail::owned<gguf_context> file(gguf_init_from_file(path.c_str(), {false, &raw}));
        const ggml_detail::owned<ggml_context> tensors(raw);
        if (file == nullptr) throw error(status::not_found, "load: '" + path + "' cannot be read as GGUF");
        const auto &own = replicas_.front()->parameters;
        std::vector<const ggml_tensor *> found;
        for (const ggml_tensor *parameter : own) {
            const ggml_tensor *saved = ggml_get_tensor(tensors.get(), ggml_get_name(parameter));
            const std::string which = "load: '" + path + "' has the parameter '" + ggml_get_name(parameter) + "' ";
            if (saved == nullptr) throw error(status::not_found, which + "not");
            if (saved->type != parameter->type || !ggml_are_same_shape(saved, parameter)) {
                throw error(status::invalid_argument, which + "with " + ggml_detail::sizes_of(saved) + " elements of " +
                                                          ggml_type_name(saved->type) + ", not " + ggml_detail::sizes_of(parameter) + " of F32");
            }
            found.push_back(saved);
        }
        for (std::size_t index = 0; index < found.size(); ++index) {
            parameters_[index].upload(static_cast<const float *>(found[index]->data), static_cast<std::size_t>(ggml_nelements(found[index])));
        }
    }

private:
    using graphs = std::vector<std::unique_ptr<ggml_detail::graph>>;

    struct replica {
        template <class Make>
        replica(Make &make, const ggml_options &how)
            : fixed(ggml_detail::context_for(how.graph_size, 0, 0)), net(make(fixed.get())), cpu(ggml_backend_cpu_init()) {
            if (cpu == nullptr) throw error(status::resource_exhausted, "ggml_backend_cpu_init: no backend for CPUs");
            ggml_backend_cpu_set_n_threads(cpu.get(), how.threads);
            for (ggml_tensor *each = ggml_get_first_tensor(fixed.get()); each != nullptr; each = ggml_get_next_tensor(fixed.get(), each)) {
                if ((each->flags & GGML_TENSOR_FLAG_PARAM) != 0) parameters.push_back(each);
            }
        }

        ggml_detail::owned<ggml_context> fixed; // parameters and constants
        Net net;
        ggml_detail::owned<ggml_backend> cpu;
        std::vector<ggml_tensor *> parameters;
        graphs training, measuring; // those used last come first
    };

    static void require(const ggml_options &how) {
        if (how.datapoint_size < 1) throw error(status::invalid_argument, "datapoint_size: an example has 1 element or more");
        if (how.threads < 1) throw error(status::invalid_argument, "threads: 1 or more");
        if (how.graph_size < 1) throw error(status::invalid_argument, "graph_size: 1 or more");
    }

    static void require_parameters(const replica &first) {
        if (first.parameters.empty()) throw error(status::invalid_argument, "make: no tensor of its context is a parameter (ggml_set_param)");
        for (const ggml_tensor *parameter : first.parameters) {
            if (parameter->type == GGML_TYPE_F32) continue;
            throw error(status::unimplemented, std::string("make: the parameter '") + ggml_get_name(parameter) + "' is of type " +
                                                   ggml_type_name(parameter->type) + "; F32 is needed");
        }
    }

    // Lets the tensors of a replica lie where the first one's are.
    void lay(replica &own, const replica &first) {
        ggml_tensor *tensor = ggml_get_first_tensor(own.fixed.get());
        for (const ggml_tensor *there = ggml_get_first_tensor(first.fixed.get()); there != nullptr;
             there = ggml_get_next_tensor(first.fixed.get(), const_cast<ggml_tensor *>(there))) {
            if (tensor == nullptr || tensor->type != there->type || !ggml_are_same_shape(tensor, there) || tensor->flags != there->flags) break;
            const bool is_view = there->view_src != nullptr;
            const ggml_status laid = is_view ? ggml_backend_view_init(tensor) : ggml_backend_tensor_alloc(memory_.get(), tensor, there->data);
            if (laid != GGML_STATUS_SUCCESS) throw error(status::internal, std::string("ggml_backend_tensor_alloc: ") + ggml_status_to_string(laid));
            tensor = ggml_get_next_tensor(own.fixed.get(), tensor);
            if (ggml_get_next_tensor(first.fixed.get(), const_cast<ggml_tensor *>(there)) == nullptr && tensor == nullptr) return;
        }
        throw error(status::invalid_argument, "make: it gives other tensors when it is called again");
    }

    // The graph of the replica that calls, computed for its part of the batch.
    ggml_detail::graph &computed(const replica_context &context, const value &batch, std::int64_t rows, bool trains) {
        replica &own = *replicas_[static_cast<std::size_t>(context.local_replica_id())];
        ggml_detail::graph &found = graph_for(own, rows, trains);
        found.feed(batch);
        found.compute(own.cpu.get(), context);
        return found;
    }

    // Most batches have one size, and their last ones another: a few graphs are kept.
    ggml_detail::graph &graph_for(replica &own, std::int64_t rows, bool trains) {
        constexpr std::size_t kept = 4;
        graphs &all = trains ? own.training : own.measuring;
        auto found = std::find_if(all.begin(), all.end(), [&](const auto &each) { return each->rows() == rows; });
        if (found == all.end()) {
            if (all.size() == kept) all.pop_back();
            all.push_back(std::make_unique<ggml_detail::graph>(own.net, how_, rows, trains ? &own.parameters : nullptr));
            found = all.end() - 1;
        }
        std::rotate(all.begin(), found, found + 1);
        return *all.front();
    }

    // The elements of a gradient as those of its variable, which has as many.
    umbo_view gradient_view(const ggml_tensor *gradient, std::size_t index) const {
        umbo_view view = parameters_[index].view();
        return umbo_view_of_memory(UMBO_DTYPE_FLOAT32, view.ndim, view.shape, gradient->data);
    }

    void add_metrics(const replica_context &context, double loss, double right, std::int64_t rows) const {
        const auto weight = static_cast<double>(rows);
        context.add_metric("loss", sums() ? loss : loss * weight, weight);
        if (has_accuracy()) context.add_metric("accuracy", right, weight);
    }

    umbo::strategy on_;
    ggml_options how_;
    std::shared_ptr<ggml_backend_buffer> memory_;
    std::vector<std::unique_ptr<replica>> replicas_;
    std::vector<variable> parameters_;
    umbo::gradients gradients_;
};

} // namespace adapters
} // namespace umbo

#endif

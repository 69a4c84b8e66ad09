// A network of ggml's on each replica.
#ifndef UMBO_ADAPTERS_GGML_MODEL_HPP
#define UMBO_ADAPTERS_GGML_MODEL_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/adapters/ggml/graph.hpp>
#include <umbo/adapters/replica_choice.hpp>

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
    ggml_model(const umbo::strategy &on, const ggml_options &how, Make make, Initialise initialise)
        : how_(how), make_(std::move(make)), now_(std::make_unique<parts>(on, how_, make_, [&](parts &made) {
              initialise(made.replicas.front()->net);
          })) {}

    // On this many replicas. UMBO_AUTO: on as many as train fastest, each with its share of the processors for ggml's threads, in place
    // of `threads`. The first steps of the model's first `ggml_loop` or `ggml_fit`, which are steps like others, try one replica for
    // each processor and divisors of that number; results depend on it only by rounding. With `replicas_in_sync` it changes no bit of
    // them, since each replica has one thread. What `strategy()`, `parameters()`, `gradients()` or `central()` has handed out
    // stays: the choice ends there. `make` is called again, and has to live as long as what it refers to.
    template <class Make, class Initialise>
    ggml_model(std::int64_t replicas, const ggml_options &how, Make make, Initialise initialise, std::int64_t replicas_in_sync = 0)
        : ggml_model(on_replicas(replicas, replicas_in_sync), shared(how, replicas, replicas_in_sync), std::move(make), std::move(initialise)) {
        in_sync_ = replicas_in_sync;
        if (replicas == UMBO_AUTO) choice_ = common_detail::replica_choice(common_detail::first_replicas(replicas_in_sync));
    }

    ggml_model(const ggml_model &) = delete;
    ggml_model &operator=(const ggml_model &) = delete;

    // In the order in which `make` has made them.
    const std::vector<variable> &parameters() const noexcept { return settled().parameters; }
    const umbo::gradients &gradients() const noexcept { return settled().gradients; }
    const umbo::strategy &strategy() const noexcept { return settled().on; }

    // What was chosen for UMBO_AUTO, or is tried next, and why: "1 replica: a step takes 4.10 ms with ...".
    std::string choice() const { return choice_.text(); }

    // Whether the loss of a batch is a sum over its examples, instead of a mean.
    bool sums() const noexcept { return how_.loss_type == GGML_OPT_LOSS_TYPE_SUM; }

    // Whether steps have the metric "accuracy".
    bool has_accuracy() const noexcept { return how_.loss_type == GGML_OPT_LOSS_TYPE_CROSS_ENTROPY; }

    // Replica 0's network, outside of runs: its tensors lie on the parameters. They are for reading; `variable::upload`
    // and `load` write them.
    const Net &central() const noexcept { return settled().replicas.front()->net; }

    // The step, for `strategy::run` and what takes its callables, on a batch with the fields "data" and, for losses with
    // labels, "labels". The metrics are "loss" and, for a cross entropy, "accuracy". Parameters that the loss does not use
    // are not changed.
    auto step() {
        return [this](replica_context &context, const value &batch) {
            double loss = 0, right = 0;
            const std::int64_t rows = context.info().local_example_count;
            if (rows != 0) { // a replica's part may be empty
                ggml_detail::graph &own = computed(context, batch, rows, true);
                for (std::size_t index = 0; index < now_->parameters.size(); ++index) {
                    const ggml_tensor *found = own.gradient(index);
                    if (found != nullptr) context.attach(now_->gradients, static_cast<std::int64_t>(index), gradient_view(found, index));
                }
                loss = own.loss();
                if (own.counts()) right = own.right();
            }
            add_metrics(context, loss, right, rows);
            context.submit(now_->gradients);
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
        now_->on.run(step(), common_detail::split_over(now_->on, batch));
        return now_->on.metric_result("loss").mean;
    }

    // The parameters in a file of ggml's, GGUF, by name.
    void save(const std::string &path) const {
        const ggml_detail::owned<gguf_context> file(gguf_init_empty());
        for (const ggml_tensor *parameter : now_->replicas.front()->parameters) gguf_add_tensor(file.get(), parameter);
        if (!gguf_write_to_file(file.get(), path.c_str(), false)) throw error(status::unavailable, "save: '" + path + "' cannot be written");
    }

    // What `save` wrote. Throws NOT_FOUND if the file or a parameter is not there, INVALID_ARGUMENT for another shape or type;
    // then nothing has changed.
    void load(const std::string &path) {
        ggml_context *raw = nullptr;
        const ggml_detail::owned<gguf_context> file(gguf_init_from_file(path.c_str(), {false, &raw}));
        const ggml_detail::owned<ggml_context> tensors(raw);
        if (file == nullptr) throw error(status::not_found, "load: '" + path + "' cannot be read as GGUF");
        const auto &own = now_->replicas.front()->parameters;
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
            now_->parameters[index].upload(static_cast<const float *>(found[index]->data), static_cast<std::size_t>(ggml_nelements(found[index])));
        }
    }

private:
    using graphs = std::vector<std::unique_ptr<ggml_detail::graph>>;

    struct replica {
        replica(const std::function<Net(ggml_context *)> &make, const ggml_options &how)
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

    // What belongs to a number of replicas.
    struct parts {
        // `fill(parts)` writes the tensors of the first replica, which are zero.
        template <class Fill>
        parts(const umbo::strategy &strategy, const ggml_options &how, const std::function<Net(ggml_context *)> &make, Fill fill) : on(strategy) {
            common_detail::require_cpus(on, "ggml_model");
            require(how);
            const auto count = static_cast<std::size_t>(on.local_replica_count());
            for (std::size_t index = 0; index < count; ++index) replicas.push_back(std::make_unique<replica>(make, how));
            replica &first = *replicas.front();
            require_parameters(first);
            memory.reset(ggml_backend_alloc_ctx_tensors_from_buft(first.fixed.get(), ggml_backend_cpu_buffer_type()),
                         ggml_detail::free_of_ggml());
            if (memory == nullptr) throw error(status::resource_exhausted, "ggml_model: no memory for the parameters");
            ggml_backend_buffer_clear(memory.get(), 0);
            fill(*this);
            for (std::size_t index = 1; index < count; ++index) lay(*replicas[index], first);
            std::vector<std::string> names;
            std::vector<umbo_view> views;
            for (const ggml_tensor *parameter : first.parameters) {
                const std::string name = ggml_get_name(parameter);
                names.push_back(name.empty() ? "parameter" + std::to_string(names.size()) : name);
                views.push_back(view_of_ggml(parameter));
            }
            parameters = on.create_variables_in_memory(names, views, memory);
            // ggml's sum is that of the batch, and so is its gradient.
            const bool sums = how.loss_type == GGML_OPT_LOSS_TYPE_SUM;
            gradients_options accumulating;
            accumulating.accumulation_steps = how.accumulation_steps;
            gradients = umbo::gradients::create(on, parameters, sums ? loss_reduction::global_mean : loss_reduction::mean, accumulating);
        }

        // Gives each pair of a tensor of the first replica and one of another to `use`.
        template <class Use>
        static void pair_tensors(const replica &first, const replica &other, Use use) {
            ggml_tensor *tensor = ggml_get_first_tensor(other.fixed.get());
            ggml_tensor *there = ggml_get_first_tensor(first.fixed.get());
            for (; there != nullptr && tensor != nullptr; there = ggml_get_next_tensor(first.fixed.get(), there)) {
                if (tensor->type != there->type || !ggml_are_same_shape(tensor, there) || tensor->flags != there->flags) break;
                use(*there, *tensor);
                tensor = ggml_get_next_tensor(other.fixed.get(), tensor);
            }
            if (there == nullptr && tensor == nullptr) return;
            throw error(status::invalid_argument, "make: it gives other tensors when it is called again");
        }

        // Lets the tensors of a replica lie where the first one's are.
        void lay(const replica &own, const replica &first) const {
            pair_tensors(first, own, [this](const ggml_tensor &there, ggml_tensor &tensor) {
                const bool is_view = there.view_src != nullptr;
                const ggml_status laid = is_view ? ggml_backend_view_init(&tensor) : ggml_backend_tensor_alloc(memory.get(), &tensor, there.data);
                if (laid == GGML_STATUS_SUCCESS) return;
                throw error(status::internal, std::string("ggml_backend_tensor_alloc: ") + ggml_status_to_string(laid));
            });
        }

        umbo::strategy on;
        std::shared_ptr<ggml_backend_buffer> memory;
        std::vector<std::unique_ptr<replica>> replicas;
        std::vector<variable> parameters;
        umbo::gradients gradients;
    };

    // A loop's first steps choose the number of replicas.
    template <class>
    friend class ggml_loop;

    static umbo::strategy on_replicas(std::int64_t replicas, std::int64_t replicas_in_sync) {
        strategy_options options;
        options.cpu_replicas = replicas == UMBO_AUTO ? common_detail::first_replicas(replicas_in_sync) : replicas;
        options.replicas_in_sync = replicas_in_sync;
        return strategy::create(options);
    }

    // The options with a replica's share of the processors for ggml's threads, if the number of replicas is chosen.
    static ggml_options shared(ggml_options how, std::int64_t replicas, std::int64_t replicas_in_sync) {
        if (replicas == UMBO_AUTO) how.threads = share_of(common_detail::first_replicas(replicas_in_sync), replicas_in_sync);
        return how;
    }

    static int share_of(std::int64_t replicas, std::int64_t replicas_in_sync) {
        return replicas_in_sync > 0 ? 1 : static_cast<int>(std::max<std::int64_t>(1, processor_count() / replicas));
    }

    // The same network on this many replicas, with its parameters and constants as they are.
    std::unique_ptr<parts> on_other(std::int64_t replicas) const {
        ggml_options how = how_;
        how.threads = share_of(replicas, in_sync_);
        return std::make_unique<parts>(on_replicas(replicas, in_sync_), how, make_, [this](parts &made) {
            parts::pair_tensors(*now_->replicas.front(), *made.replicas.front(), [](const ggml_tensor &from, ggml_tensor &to) {
                if (from.view_src == nullptr) std::memcpy(to.data, from.data, ggml_nbytes(&from));
            });
        });
    }

    const parts &settled() const noexcept {
        choice_.settle();
        return *now_;
    }

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

    // The graph of the replica that calls, computed for its part of the batch.
    ggml_detail::graph &computed(const replica_context &context, const value &batch, std::int64_t rows, bool trains) {
        replica &own = *now_->replicas[static_cast<std::size_t>(context.local_replica_id())];
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
        umbo_view view = now_->parameters[index].view();
        return umbo_view_of_memory(UMBO_DTYPE_FLOAT32, view.ndim, view.shape, gradient->data);
    }

    void add_metrics(const replica_context &context, double loss, double right, std::int64_t rows) const {
        const auto weight = static_cast<double>(rows);
        context.add_metric("loss", sums() ? loss : loss * weight, weight);
        if (has_accuracy()) context.add_metric("accuracy", right, weight);
    }

    ggml_options how_;
    std::function<Net(ggml_context *)> make_;
    std::unique_ptr<parts> now_;
    std::int64_t in_sync_ = 0;
    mutable common_detail::replica_choice choice_;
    bool had_loop_ = false;
};

} // namespace adapters
} // namespace umbo

#endif

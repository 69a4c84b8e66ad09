// A module of LibTorch on each replica.
#ifndef UMBO_ADAPTERS_TORCH_MODEL_HPP
#define UMBO_ADAPTERS_TORCH_MODEL_HPP

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/autocast_mode.h>

#include <umbo/adapters/torch/batch.hpp>
#include <umbo/adapters/torch/dropout.hpp>
#include <umbo/adapters/torch/loss.hpp>
#include <umbo/adapters/torch/modules.hpp>
#include <umbo/adapters/torch/replica_module.hpp>

namespace umbo {
namespace adapters {

struct torch_options {
    // Losses are means over the replica's examples, sums, or sums divided by those of the global batch.
    umbo::loss_reduction loss_reduction = umbo::loss_reduction::mean;
    std::int64_t accumulation_steps = 1;
    // Replicas compute with parameters of this type and contribute gradients of it: `umbo::dtype::float16` or
    // `bfloat16`. Parameters of batch and instance normalisations, buffers and all updates stay float32.
    umbo::dtype dtype = umbo::dtype::none;
    // Names of parameters whose gradients are sparse, as those of torch::nn::Embedding with sparse(true).
    std::vector<std::string> row_sparse = {};
    // For a `torch_optimizer` that gets a number of replicas, as in strategy_options: results are bit-identical for any number, since
    // torch computes with one thread on each. 0: none.
    std::int64_t replicas_in_sync = 0;
};

// A module on each replica, whose parameters and buffers are variables of the strategy.
template <class Module>
class torch_model {
public:
    // `make()` makes a module, as a shared pointer. It is called once for each replica of this process; the first
    // one's parameters and buffers are the initial values, with several ranks those of rank 0. All floating-point
    // parameters can be trained: `requires_grad` says which are, in each step. What torch's generator draws for the modules of
    // other replicas is taken back, so that later draws do not depend on the number of replicas.
    //
    // The module of a replica lies on the replica's device, wherever `make` makes it; initial values may be on any.
    // Throws UNIMPLEMENTED if a replica computes on a GPU that this program's torch does not know. Warns once if the module has
    // torch's own dropout and there are several replicas.
    template <class Make, class = std::enable_if_t<std::is_invocable_v<Make &>>>
    torch_model(const umbo::strategy &on, Make make, torch_options options = {})
        : torch_model(on, nullptr, std::move(make), std::move(options)) {}

    // Trains a module that the program has made and keeps: it becomes that of replica 0, and `central()`. After each `train`, and
    // each step of a `torch_optimizer`, it shows the parameters and buffers as they are then, in host memory; with replicas on
    // GPUs that is a copy each time. Steps compute in the modes, training or evaluation, that it and its submodules are in, and
    // leave them so.
    //
    // The other replicas' modules are clones if it is a `torch::nn::Cloneable`, else made by its default constructor. A module
    // that has neither needs `make`. Throws INVALID_ARGUMENT if the module is null, or they have other parameters or buffers.
    torch_model(const umbo::strategy &on, const std::shared_ptr<Module> &module, torch_options options = {})
        : torch_model(on, module, torch_detail::another<Module>(module), std::move(options)) {}

    template <class Make, class = std::enable_if_t<std::is_invocable_v<Make &>>>
    torch_model(const umbo::strategy &on, const std::shared_ptr<Module> &module, Make make, torch_options options = {})
        : on_(on), options_(std::move(options)), given_(module != nullptr),
          replicas_(static_cast<std::size_t>(on.local_replica_count())), make_(std::move(make)) {
        torch_detail::require_devices(on);
        replicas_.front() = replica(given_ ? module : make_());
        make_other_replicas();
        torch_detail::warn_of_shared_generator(on, *replicas_.front().module);
        const replica &first = replicas_.front();
        std::unordered_set<std::string> sparse(options_.row_sparse.begin(), options_.row_sparse.end());
        gradients_options how{options_.accumulation_steps, {}, options_.dtype};
        std::vector<variable> trained;
        for (std::size_t index = 0; index < first.parameters.size(); ++index) {
            const auto &parameter = first.parameters[index];
            const auto &name = first.names[index];
            parameters_.push_back(on.create_variable(name, share(in_host_memory(parameter))));
            gradient_of_.push_back(-1);
            if (!parameter.is_floating_point()) continue;
            gradient_of_.back() = static_cast<std::int64_t>(trained.size());
            trained.push_back(parameters_.back());
            how.row_sparse.push_back(sparse.erase(name) != 0);
        }
        if (!sparse.empty()) {
            throw error(status::not_found, "row_sparse: the module has no floating-point parameter '" + *sparse.begin() + "'");
        }
        for (std::size_t index = 0; index < first.buffers.size(); ++index) {
            variable_options kept;
            kept.trainable = false;
            kept.aggregation = first.buffers[index].is_floating_point() ? aggregation::mean
                                                                        : aggregation::only_first_replica;
            buffers_.push_back(on.create_variable(first.buffer_names[index],
                                                  share(in_host_memory(first.buffers[index])), kept));
        }
        gradients_ = umbo::gradients::create(on, trained, options_.loss_reduction, how);
        for (const at::Tensor &parameter : first.parameters) laid_.parameters.push_back(parameter.data_ptr());
        for (const at::Tensor &buffer : first.buffers) laid_.buffers.push_back(buffer.data_ptr());
    }

    torch_model(const torch_model &) = delete;
    torch_model &operator=(const torch_model &) = delete;

    // Set it if losses make synchronising calls, such as an all-reduce: they are then computed on replicas
    // without examples, too.
    bool synchronises = false;

    // In the order of the module's named parameters and buffers.
    const std::vector<variable> &parameters() const noexcept { return parameters_; }
    const std::vector<variable> &buffers() const noexcept { return buffers_; }
    const umbo::gradients &gradients() const noexcept { return gradients_; }
    const umbo::strategy &strategy() const noexcept { return on_; }

    // Calls `change(module)` for the module of each replica, outside of runs: to freeze and unfreeze parameters with
    // `requires_grad_`, say, which all replicas have to agree about.
    template <class Change>
    void for_each_replica(Change change) {
        for (replica &own : replicas_) change(*own.module);
    }

    // The step, for `strategy::run` and what takes its callables: `loss(module, part)` gives a scalar. A
    // parameter that no replica's loss uses is left alone by the update. The metric "loss" is its mean. Parameters
    // are trained that require a gradient in the module of `central()` when `step` or `train` is called.
    //
    // With other models of the strategy, `loss(module, part, module_of_other...)` gets this replica's modules of them,
    // too, in training mode: their parameters require no gradient while the loss is computed, so that only this model
    // is trained, through them; what their normalisations track is kept. They have to live as long as the step.
    template <class Loss, class... Others>
    auto step(Loss loss, torch_model<Others> &...others) {
        follow_central();
        (others.follow_central(), ...);
        require_others({static_cast<const void *>(&others)...});
        return [this, loss, used = std::tuple<torch_model<Others> *...>(&others...)](replica_context &context,
                                                                                   const value &batch) {
            std::apply([&](auto *...each) { compute(loss, context, batch, *each...); }, used);
        };
    }

    // `measure(module, part)` gives a sum over the part's examples, such as how many are right; the metric is
    // its mean.
    template <class Measure>
    auto evaluation(const char *metric, Measure measure) {
        return evaluation(std::vector<std::string>{metric}, [measure](Module &module, const part &of) {
            return std::vector<at::Tensor>{measure(module, of)};
        });
    }

    // Several metrics by one pass: `measure(module, part)` gives a `std::vector<at::Tensor>`, a sum for each.
    template <class Measure>
    auto evaluation(std::vector<std::string> metrics, Measure measure) {
        take_over();
        return [this, metrics = std::move(metrics), measure](replica_context &context, const value &batch) {
            const umbo_replica_context_info position = context.info();
            std::vector<double> sums(metrics.size(), 0.0);
            if (position.local_example_count != 0) {
                const at::NoGradGuard no_grad;
                const torch_detail::replica_place place(position);
                const torch_detail::on_replica in_its_stream(position, place);
                replica &own = replica_of(context);
                const torch_detail::mode_guard as_before(*own.module);
                attach(own, context, place, false);
                named(position, [&] {
                    const std::vector<at::Tensor> found = measure(*own.module, part(batch));
                    require_each(metrics, found.size());
                    for (std::size_t index = 0; index < sums.size(); ++index) sums[index] = found[index].template item<double>();
                });
            }
            for (std::size_t index = 0; index < sums.size(); ++index) {
                context.add_metric(metrics[index].c_str(), sums[index], static_cast<double>(position.local_example_count));
            }
        };
    }

    // The means of metrics, as of `evaluation`, over all examples of several batches, which a `torch::data` loader gives, or an
    // iterator; NaN if there are none. All replicas compute, in evaluation mode.
    template <class Batches, class Measure>
    std::vector<double> evaluate(Batches &&batches, const std::vector<std::string> &metrics, Measure measure) {
        const auto step = evaluation(metrics, std::move(measure));
        std::vector<common_detail::mean_of> over_batches(metrics.size());
        for (auto &&batch : batches) {
            if constexpr (std::is_convertible_v<decltype(batch), value>) on_.run(step, common_detail::split_over(on_, batch));
            else on_.run(step, on_.split(batch_of(batch)));
            for (std::size_t index = 0; index < metrics.size(); ++index) {
                over_batches[index].add(on_.metric_result(metrics[index]));
            }
        }
        show();
        std::vector<double> means;
        for (const auto &each : over_batches) means.push_back(each.mean());
        return means;
    }

    // One step on a batch: an element of a distributed dataset, or a global batch, such as `batch_of` gives, which is split
    // over the replicas here. Returns the mean loss of the global batch, whose gradients are there already.
    template <class Loss, class... Others>
    torch_loss train(const value &batch, Loss loss, torch_model<Others> &...others) {
        on_.run(step(loss, others...), common_detail::split_over(on_, batch));
        show();
        (others.show(), ...);
        return torch_loss(on_.metric_result("loss").mean);
    }

    // The same for what a `torch::data` loader gives.
    template <class Batch, class Loss, class... Others,
              class = std::enable_if_t<!std::is_convertible_v<const Batch &, value>>>
    torch_loss train(const Batch &batch, Loss loss, torch_model<Others> &...others) {
        return train(batch_of(batch), loss, others...);
    }

    // The same for tensors, as of `batch_of`.
    template <class Loss, class... Others>
    torch_loss train(const std::vector<std::pair<std::string, at::Tensor>> &fields, Loss loss, torch_model<Others> &...others) {
        return train(batch_of(fields), loss, others...);
    }

    // Replica 0's module on the parameters and buffers as they are now, to look at, to compute with or to
    // torch::save, outside of runs. It lies in host memory: what a GPU holds is copied, and the next step takes replica 0's
    // module back to its device. It is in evaluation mode; steps set the mode that they need. Its parameters are not to be
    // written in place: `assign`, `load` and torch::load do that.
    std::shared_ptr<Module> central() {
        place_centrally();
        replicas_.front().module->eval();
        return replicas_.front().module;
    }

    // Lets the module that the program has given, if it has, show the parameters and buffers as they are now: after an
    // `umbo::optimizer` has changed those on GPUs. Its modes stay.
    void show() {
        if (given_) place_centrally();
    }

    // The module of `central()`: a program's `net->forward(x)` stays as it is.
    std::shared_ptr<Module> operator->() { return central(); }

    // The parameters of `central()`, in the order of `parameters()`: those of the module, each once.
    const std::vector<at::Tensor> &central_parameters() const noexcept { return replicas_.front().parameters; }

    // Parameters and buffers as `from` has them.
    void assign(const std::shared_ptr<Module> &from) {
        const replica given(from);
        given.require_like(replicas_.front(), "from: it has");
        take_over();
        for (std::size_t index = 0; index < parameters_.size(); ++index) {
            parameters_[index].assign(share(in_host_memory(given.parameters[index])));
        }
        for (std::size_t index = 0; index < buffers_.size(); ++index) {
            buffers_[index].assign(share(in_host_memory(given.buffers[index])));
        }
        show();
    }

    // What torch::save wrote.
    void load(const std::string &path) {
        std::shared_ptr<Module> from;
        {
            const torch_detail::generator_guard draws_as_before;
            from = make_();
        }
        torch::load(from, path);
        assign(from);
    }

private:
    template <class Other>
    friend class torch_model;

    using replica = torch_detail::replica_module<Module>;

    // The modules of other replicas than the first.
    void make_other_replicas() {
        const torch_detail::generator_guard draws_as_before;
        for (std::size_t number = 1; number < replicas_.size(); ++number) {
            replicas_[number] = replica(make_());
            replicas_[number].require_like(replicas_.front(), "make: the replicas' modules have");
        }
    }

    // Replica 0's module on the parameters and buffers as they are now, in host memory.
    void place_centrally() {
        take_over();
        replica &own = replicas_.front();
        const at::NoGradGuard no_grad;
        for (std::size_t index = 0; index < parameters_.size(); ++index) {
            const umbo_view view = parameters_[index].view();
            if (view.device.type == UMBO_DEVICE_CPU) {
                lay(own, index, view);
            } else {
                put(own, index, downloaded(parameters_[index], view));
            }
        }
        for (std::size_t index = 0; index < buffers_.size(); ++index) {
            move_buffer(own, index, c10::Device(c10::DeviceType::CPU));
            own.buffers[index].copy_(downloaded(buffers_[index], buffers_[index].view()));
        }
    }

    replica &replica_of(const replica_context &context) {
        return replicas_[static_cast<std::size_t>(context.local_replica_id())];
    }

    // While it lives this thread computes at this place.
    class place_guard {
    public:
        explicit place_guard(const umbo_replica_context_info &position) : before_(torch_detail::current_place()) {
            torch_detail::current_place() = {position.step, position.first_example, true, torch_detail::next_visit()};
        }
        ~place_guard() { torch_detail::current_place() = before_; }
        place_guard(const place_guard &) = delete;
        place_guard &operator=(const place_guard &) = delete;

    private:
        torch_detail::place before_;
    };

    // What torch throws in `compute` says which replica it was, on which device, and what part of the batch it had.
    template <class Compute>
    static auto named(const umbo_replica_context_info &position, Compute compute) {
        try {
            return compute();
        } catch (c10::Error &failed) {
            failed.add_context("on replica " + std::to_string(position.replica_id) + " of " +
                               std::to_string(position.replica_count) + ", on " +
                               torch_detail::short_name(position.device) + ", whose part of the batch has " +
                               std::to_string(position.local_example_count) + " of " +
                               std::to_string(position.global_example_count) + " examples");
            throw;
        }
    }

    // The module of another model in a step of this one: attached, and without gradients while this lives.
    class lent_module {
    public:
        lent_module(torch_model &model, const replica_context &context, const torch_detail::replica_place &place)
            : own_(model.replica_of(context)) {
            model.attach(own_, context, place, true);
            for (auto &parameter : own_.parameters) {
                trained_.push_back(parameter.requires_grad());
                parameter.requires_grad_(false);
            }
        }
        ~lent_module() {
            for (std::size_t index = 0; index < trained_.size(); ++index) own_.parameters[index].requires_grad_(trained_[index]);
        }
        lent_module(const lent_module &) = delete;
        lent_module &operator=(const lent_module &) = delete;

        Module &operator*() const noexcept { return *own_.module; }

    private:
        replica &own_;
        std::vector<bool> trained_;
    };

    void require_others(std::vector<const void *> others) const {
        others.push_back(this);
        const std::unordered_set<const void *> distinct(others.begin(), others.end());
        if (distinct.size() != others.size()) {
            throw error(status::invalid_argument, "others: a model is in the step already");
        }
    }

    static void require_each(const std::vector<std::string> &metrics, std::size_t found) {
        if (found == metrics.size()) return;
        throw error(status::invalid_argument, "evaluation: the measure gives " + std::to_string(found) + " sums for " +
                                                  std::to_string(metrics.size()) + " metrics");
    }

    // What a replica does in a step.
    template <class Loss, class... Others>
    void compute(const Loss &loss, replica_context &context, const value &batch, torch_model<Others> &...others) {
        const umbo_replica_context_info position = context.info();
        const std::int64_t rows = position.local_example_count;
        const torch_detail::replica_place place(position);
        const torch_detail::on_replica in_its_stream(position, place);
        replica &own = replica_of(context);
        at::Tensor lost;
        attach(own, context, place, true);
        {
            const auto lent =
                std::make_tuple(std::make_unique<typename torch_model<Others>::lent_module>(others, context, place)...);
            if (rows != 0 || synchronises) {
                const place_guard now(position);
                lost = named(position, [&] {
                    const at::Tensor scalar = std::apply(
                        [&](const auto &...other) { return loss(*own.module, part(batch), **other...); }, lent);
                    scalar.backward();
                    return scalar.detach();
                });
                named(position, [&] { contribute(own, context, place); });
            }
        }
        assign_buffers(context, place);
        (others.assign_buffers(context, place), ...);
        context.submit(gradients_);
        // The host waits here for a GPU, when all of its work of this step is queued.
        double sum = lost.defined() ? named(position, [&] { return lost.template item<double>(); }) : 0.0;
        if (options_.loss_reduction == umbo::loss_reduction::mean) sum *= static_cast<double>(rows);
        context.add_metric("loss", sum, static_cast<double>(rows));
    }

    // What the replicas' modules have tracked becomes that of the model.
    void assign_buffers(const replica_context &context, const torch_detail::replica_place &place) {
        if (buffers_.empty()) return;
        std::vector<umbo_view> views;
        for (const auto &buffer : replica_of(context).buffers) views.push_back(view_of_torch(buffer, place.own));
        context.assign_all(buffers_, views);
    }

    // All replicas train what replica 0 does, in the modes of a module that is the program's.
    void follow_central() {
        take_over();
        const replica &first = replicas_.front();
        if (given_) modes_ = torch_detail::modes_of(*first.module);
        for (replica &own : replicas_) {
            for (std::size_t index = 0; index < own.parameters.size(); ++index) {
                const bool trained = first.parameters[index].requires_grad();
                if (own.parameters[index].requires_grad() != trained) own.parameters[index].requires_grad_(trained);
            }
        }
    }

    // Parameters and buffers of replica 0 that lie elsewhere than this model has laid them are the program's: torch::load gives
    // a module other memory. The model takes them over.
    void take_over() {
        const replica &first = replicas_.front();
        take_over(first.parameters, laid_.parameters, parameters_);
        take_over(first.buffers, laid_.buffers, buffers_);
    }

    static void take_over(const std::vector<at::Tensor> &tensors, std::vector<const void *> &laid, std::vector<variable> &variables) {
        for (std::size_t index = 0; index < laid.size(); ++index) {
            if (tensors[index].data_ptr() == laid[index]) continue;
            variables[index].assign(share(in_host_memory(tensors[index])));
            laid[index] = tensors[index].data_ptr();
        }
    }

    // Lets a parameter lie where a view shows.
    void lay(replica &own, std::size_t index, const umbo_view &view) {
        if (own.parameters[index].data_ptr() != view.data) put(own, index, lend(view, parameters_[index]));
    }

    // Gives a parameter these elements.
    void put(replica &own, std::size_t index, const at::Tensor &elements) {
        own.parameters[index].set_data(elements);
        if (&own == &replicas_.front()) laid_.parameters[index] = own.parameters[index].data_ptr();
    }

    // A tensor's elements in host memory, in row-major order.
    static at::Tensor in_host_memory(const at::Tensor &from) {
        return from.detach().to(c10::Device(c10::DeviceType::CPU)).contiguous();
    }

    // A copy of what a variable's view shows, in host memory.
    static at::Tensor downloaded(const variable &from, const umbo_view &view) {
        const at::IntArrayRef shape(view.shape, static_cast<std::size_t>(view.ndim));
        at::Tensor to = at::empty(shape, at::TensorOptions(torch_type(view.dtype)));
        detail::require(umbo_variable_download(from.get(), to.data_ptr(), to.nbytes()));
        return to;
    }

    // Lets a buffer lie on a device; what it held is lost if it comes from another.
    void move_buffer(replica &own, std::size_t index, const c10::Device &device) {
        at::Tensor &buffer = own.buffers[index];
        if (buffer.device() == device) return;
        buffer.set_data(at::empty(buffer.sizes(), buffer.options().device(device)));
        if (&own == &replicas_.front()) laid_.buffers[index] = buffer.data_ptr();
    }

    // Lets the replica's module lie on the parameters, and gives it the buffers, as the step sees them.
    void attach(replica &own, const replica_context &context, const torch_detail::replica_place &place, bool training) {
        // Autocast keeps casts of parameters, which updates have changed in place.
        at::autocast::clear_cache();
        if (!training) torch_detail::set_modes(*own.module, std::vector<bool>(own.module->modules().size(), false));
        else if (given_) torch_detail::set_modes(*own.module, modes_);
        else if (!own.module->is_training()) own.module->train();
        const at::NoGradGuard no_grad;
        for (std::size_t index = 0; index < parameters_.size(); ++index) {
            const variable &from = parameters_[index];
            const bool narrow =
                options_.dtype != umbo::dtype::none && gradient_of_[index] >= 0 && !own.normalises[index];
            lay(own, index, context.view_as(from, narrow ? options_.dtype : from.dtype()));
            own.parameters[index].mutable_grad().reset();
        }
        for (std::size_t index = 0; index < buffers_.size(); ++index) {
            const umbo_view now = context.view_as(buffers_[index], buffers_[index].dtype());
            move_buffer(own, index, place.device);
            own.buffers[index].copy_(lend(now, buffers_[index]));
        }
    }

    // Hands over what backward() has left.
    void contribute(replica &own, const replica_context &context, const torch_detail::replica_place &place) {
        for (std::size_t index = 0; index < own.parameters.size(); ++index) {
            at::Tensor &gradient = own.parameters[index].mutable_grad();
            if (gradient_of_[index] < 0 || !gradient.defined()) continue;
            if (gradient.is_sparse()) {
                add_rows(own.names[index], gradient.coalesce(), context, gradient_of_[index]);
            } else {
                const bool narrow = options_.dtype != umbo::dtype::none;
                const auto type = narrow ? torch_type(to_c(options_.dtype)) : gradient.scalar_type();
                const auto whole = std::make_shared<at::Tensor>(gradient.to(type).contiguous());
                context.attach(gradients_, gradient_of_[index], view_of_torch(*whole, place.own), whole);
            }
            gradient.reset();
        }
    }

    void add_rows(const std::string &name, const at::Tensor &sparse, const replica_context &context,
                  std::int64_t index) {
        if (sparse.sparse_dim() != 1) {
            throw error(status::unimplemented, "the gradient of '" + name + "' is sparse in more than its rows");
        }
        const auto numbers = sparse.indices().select(0, 0), values = sparse.values();
        const auto added = context.add_rows(gradients_, index, numbers.size(0));
        const at::NoGradGuard no_grad;
        lend(added.indices.raw(), 0).copy_(numbers);
        lend(added.values, 0).copy_(values);
    }

    umbo::strategy on_;
    torch_options options_;
    // Whether replica 0's module is the program's, and the modes that it and its submodules had when the step began.
    bool given_;
    std::vector<bool> modes_;
    std::vector<replica> replicas_;
    shared_function<std::shared_ptr<Module>()> make_;
    std::vector<variable> parameters_, buffers_;
    // Where this model has laid those of replica 0's module.
    struct {
        std::vector<const void *> parameters, buffers;
    } laid_;
    // For each parameter its place among the gradients, or -1.
    std::vector<std::int64_t> gradient_of_;
    umbo::gradients gradients_;
};

} // namespace adapters
} // namespace umbo

#endif

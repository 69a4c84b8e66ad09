// LibTorch under Umbo: Umbo keeps a module's parameters and buffers, each replica has a module that lies on
// them, and backward() leaves gradients that updates read where they are. Not part of umbo.hpp; needs
// LibTorch (1.13 or newer), C++17 and exceptions.
//
//     #include <umbo/adapters/torch.hpp>
//
//     auto strategy = umbo::adapters::torch_strategy(2);
//     umbo::adapters::torch_model<NetImpl> model(strategy, [] { return std::make_shared<NetImpl>(); });
//     auto adam = umbo::optimizer::adam(strategy);
//     auto batches = strategy.distribute_dataset(umbo::adapters::rows_of({{"x", x}, {"y", y}}).shuffle().batch(64)).iterate();
//     for (const umbo::value &batch : batches) {
//         model.train(batch, [](NetImpl &net, const umbo::adapters::part &of) {
//             return torch::nn::functional::cross_entropy(net.forward(of["x"]), of["y"]);
//         });
//         adam.apply(model.gradients());
//     }
//     torch::save(model.central(), "net.pt");
//
// What a step means does not depend on the number of replicas: losses are means (or sums) over a replica's
// examples, the running statistics of a batch normalisation are the mean over the examples of the global
// batch, and `keyed_dropout` draws by the global position of an example. A batch normalisation itself
// normalises with the statistics of the replica's part, as it does in torch's DistributedDataParallel.
#ifndef UMBO_ADAPTERS_TORCH_HPP
#define UMBO_ADAPTERS_TORCH_HPP

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <ostream>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

#include <torch/torch.h>

#include <umbo/umbo.hpp>

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

// Where the elements of a tensor in host memory are.
inline umbo_view view_of_torch(const at::Tensor &tensor) {
    if (!tensor.device().is_cpu()) throw error(status::unimplemented, "a torch tensor that is not on the CPU");
    if (tensor.dim() > UMBO_MAX_NDIM) {
        throw error(status::invalid_argument,
                    "a torch tensor of " + std::to_string(tensor.dim()) + " dimensions; 8 are supported");
    }
    const auto ndim = static_cast<std::int32_t>(tensor.dim());
    umbo_view view =
        umbo_view_of_mutable_memory(umbo_type(tensor.scalar_type()), ndim, tensor.sizes().data(), tensor.data_ptr());
    if (!tensor.is_contiguous()) view.flags = umbo_view_flags{};
    for (std::int64_t axis = 0; axis < tensor.dim(); ++axis) view.strides[axis] = tensor.stride(axis);
    return view;
}

// The elements of a view as a torch tensor, which keeps `owner` (the value or variable that the view was taken
// from) and with it the memory: so it may be kept for longer than the callback.
template <class Owner>
at::Tensor lend(const umbo_view &view, Owner owner) {
    const auto ndim = static_cast<std::size_t>(view.ndim);
    return at::from_blob(const_cast<void *>(view.data), at::IntArrayRef(view.shape, ndim),
                         at::IntArrayRef(view.strides, ndim), [owner = std::move(owner)](void *) {},
                         at::TensorOptions(torch_type(view.dtype)));
}

// The same elements as an Umbo tensor, which keeps torch's.
inline tensor share(const at::Tensor &from) {
    const umbo_view view = view_of_torch(from);
    umbo_tensor *out = nullptr;
    auto *kept = new at::Tensor(from.detach());
    detail::require(umbo_tensor_from_memory(
        view.dtype, view.ndim, view.shape, view.strides, view.mutable_data, nullptr, kept,
        [](void *own) { delete static_cast<at::Tensor *>(own); }, &out));
    return tensor(out);
}

// A batch of tensors, in place: `model.train(strategy.split(batch_of({{"x", x}, {"y", y}})), loss)`.
inline value batch_of(const std::vector<std::pair<std::string, at::Tensor>> &fields) {
    value::field_list shared;
    for (const auto &field : fields) shared.emplace_back(field.first, value(share(field.second)));
    return value::create_struct(shared);
}

// A dataset of the rows of tensors, in place.
inline dataset rows_of(const std::vector<std::pair<std::string, at::Tensor>> &fields) {
    return dataset::from_tensor_slices(batch_of(fields));
}

namespace torch_detail {

// Lowers the number of OpenBLAS's threads, where torch multiplies with OpenBLAS. They are threads beside torch's
// own, which `at::set_num_threads` does not reach, and their number is the process's. A BLAS with OpenMP's threads,
// and MKL, follow torch's setting.
inline void limit_openblas_threads(int threads) {
#if defined(__unix__) || defined(__APPLE__)
    const auto now = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
    const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
    if (now && set && now() > threads) set(threads);
#else
    (void)threads;
#endif
}

// The number of threads for torch's operations on a replica with this share of the processors: at most what the
// environment sets, since torch itself follows these variables.
inline int threads_of_torch(int share) {
    for (const char *name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) {
        const char *text = std::getenv(name);
        if (text == nullptr) continue;
        const long set = std::strtol(text, nullptr, 10);
        if (set > 0 && set < share) share = static_cast<int>(set);
    }
    return share;
}

} // namespace torch_detail

// The same options with torch's operations set to a replica's share of the processors, or to OMP_NUM_THREADS or
// MKL_NUM_THREADS where these are lower, on each thread that serves as a replica. The number of threads of an
// operation belongs to the thread that calls it, except for OpenBLAS, whose number is the process's.
inline strategy_options with_torch_threads(strategy_options options) {
    options.replica_thread_start = [before = std::move(options.replica_thread_start)](
                                       const umbo_replica_thread &thread) {
        const int threads = torch_detail::threads_of_torch(thread.computing_thread_count);
        if (at::get_num_threads() != threads) at::set_num_threads(threads);
        torch_detail::limit_openblas_threads(threads);
        if (before) before(thread);
    };
    return options;
}

// A strategy of so many replicas, with torch's threads set.
inline strategy torch_strategy(std::int64_t replicas) {
    strategy_options options;
    options.cpu_replicas = replicas;
    return strategy::create(with_torch_threads(std::move(options)));
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

namespace torch_detail {

// Where the part of the replica that this thread serves lies; for dropout.
struct place {
    std::int64_t step = 0, first_example = 0;
    bool known = false;
    // Another number each time that a thread comes to a place.
    std::uint64_t visit = 0;
};

inline std::uint64_t next_visit() {
    static std::atomic<std::uint64_t> visits{0};
    return ++visits;
}

inline place &current_place() {
    thread_local place now;
    return now;
}

// The finaliser of splitmix64: a bijection whose outputs look random.
inline std::uint64_t mixed(std::uint64_t bits) {
    bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9u;
    bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebu;
    return bits ^ (bits >> 31);
}

inline std::uint64_t keyed(std::uint64_t key, std::uint64_t number) {
    return mixed(key + 0x9e3779b97f4a7c15u * (number + 1));
}

} // namespace torch_detail

// Dropout whose zeros depend on the seed, the layer, how often the step has used that layer before, the step
// and the global position of the example in its batch (dimension 0), not on how the batch was split. In
// training it works inside of the steps of a `torch_model`; elsewhere it is an error. Like torch's, it scales
// what stays by 1 / (1 - p).
class keyed_dropoutImpl : public torch::nn::Cloneable<keyed_dropoutImpl> {
public:
    explicit keyed_dropoutImpl(double p = 0.5, std::uint64_t seed = 0) : p(p), seed(seed) {
        TORCH_CHECK(p >= 0 && p <= 1, "keyed_dropout: p is ", p, "; it is from 0 to 1");
    }

    void reset() override {}

    void pretty_print(std::ostream &stream) const override { stream << "keyed_dropout(p=" << p << ")"; }

    at::Tensor forward(const at::Tensor &input) {
        if (!is_training() || p == 0) return input;
        const auto &at = torch_detail::current_place();
        TORCH_CHECK(at.known, "keyed_dropout: in training it is used in the steps of a torch_model, which "
                              "know where examples are");
        TORCH_CHECK(input.dim() > 0, "keyed_dropout: an input without examples in dimension 0");
        const std::int64_t rows = input.size(0), width = rows == 0 ? 0 : input.numel() / rows;
        auto mask = at::empty(input.sizes(), at::TensorOptions(at::kFloat));
        float *const all = mask.template data_ptr<float>();
        const auto kept = static_cast<float>(1 / (1 - p));
        std::uint64_t of_step = torch_detail::keyed(
            torch_detail::keyed(torch_detail::mixed(seed), layer), static_cast<std::uint64_t>(at.step));
        if (visit != at.visit) {
            visit = at.visit;
            uses = 0;
        }
        // A network may use one layer several times.
        if (uses > 0) of_step = torch_detail::keyed(torch_detail::mixed(of_step), uses);
        ++uses;
        // Numbers below this one, of 2^32, drop.
        const auto limit = static_cast<std::uint64_t>(p * 4294967296.0);
        for (std::int64_t row = 0; row < rows; ++row) {
            const auto key = torch_detail::keyed(of_step, static_cast<std::uint64_t>(at.first_example + row));
            for (std::int64_t column = 0; column < width; ++column) {
                const auto drawn = torch_detail::keyed(key, static_cast<std::uint64_t>(column)) >> 32;
                all[row * width + column] = p < 1 && drawn >= limit ? kept : 0.0f;
            }
        }
        return input * mask.to(input.scalar_type());
    }

    double p;
    std::uint64_t seed;
    // Which of a module's dropouts it is; a `torch_model` numbers them.
    std::uint64_t layer = 0;

private:
    // How often it was used in the step that its replica is in.
    std::uint64_t visit = 0, uses = 0;
};
TORCH_MODULE_IMPL(keyed_dropout, keyed_dropoutImpl);

namespace torch_detail {

// The LibTorch adapter computes on CPUs: memory of a GPU would look like host memory to torch.
inline void refuse_gpus(const strategy &on) {
    const auto replicas = static_cast<std::int32_t>(on.local_replica_count());
    for (std::int32_t replica = 0; replica < replicas; ++replica) {
        const std::string device = on.compute_device(replica);
        if (device.find("CPU:") != std::string::npos) continue;
        throw error(status::unimplemented, "torch_model: the strategy computes on " + device +
                                               "; the LibTorch adapter needs a strategy of CPUs, such as torch_strategy(2)");
    }
}

// Torch computes a normalisation of 16-bit examples with running statistics of float32 only if the parameters are
// float32 as well.
inline bool keeps_statistics(const torch::nn::Module &module) {
    return module.as<torch::nn::BatchNorm1dImpl>() || module.as<torch::nn::BatchNorm2dImpl>() ||
           module.as<torch::nn::BatchNorm3dImpl>() || module.as<torch::nn::InstanceNorm1dImpl>() ||
           module.as<torch::nn::InstanceNorm2dImpl>() || module.as<torch::nn::InstanceNorm3dImpl>();
}

// Whether a module drops out by torch's generator, of which the process has one.
inline bool drops_by_torch(const torch::nn::Module &module) {
    if (const auto *dropout = module.as<torch::nn::DropoutImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::Dropout2dImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::Dropout3dImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::AlphaDropoutImpl>()) return dropout->options.p() > 0;
    if (const auto *dropout = module.as<torch::nn::FeatureAlphaDropoutImpl>()) return dropout->options.p() > 0;
    if (const auto *layer = module.as<torch::nn::MultiheadAttentionImpl>()) return layer->options.dropout() > 0;
    if (const auto *layer = module.as<torch::nn::RNNImpl>()) return layer->options.dropout() > 0;
    if (const auto *layer = module.as<torch::nn::LSTMImpl>()) return layer->options.dropout() > 0;
    if (const auto *layer = module.as<torch::nn::GRUImpl>()) return layer->options.dropout() > 0;
    return false;
}

// Warns, once in a process, that results will differ from run to run.
inline void warn_of_shared_generator(const strategy &on, const torch::nn::Module &module) {
    if (on.replica_count() == 1) return;
    for (const auto &named : module.named_modules()) {
        if (!drops_by_torch(*named.value())) continue;
        TORCH_WARN_ONCE("umbo: '", named.key(), "' drops out by torch's generator, which all replicas share: results ",
                        "differ from run to run. umbo::adapters::keyed_dropout draws by example.");
        return;
    }
}

} // namespace torch_detail

struct torch_options {
    // Losses are means over the replica's examples, sums, or sums divided by those of the global batch.
    umbo::loss_reduction loss_reduction = umbo::loss_reduction::mean;
    std::int64_t accumulation_steps = 1;
    // Replicas compute with parameters of this type and contribute gradients of it: `umbo::dtype::float16` or
    // `bfloat16`. Parameters of batch and instance normalisations, buffers and all updates stay float32.
    umbo::dtype dtype = umbo::dtype::none;
    // Names of parameters whose gradients are sparse, as those of torch::nn::Embedding with sparse(true).
    std::vector<std::string> row_sparse = {};
};

// A module on each replica, whose parameters and buffers are variables of the strategy.
template <class Module>
class torch_model {
public:
    // `make()` makes a module, as a shared pointer. It is called once for each replica of this process; the first
    // one's parameters and buffers are the initial values, with several ranks those of rank 0. All floating-point
    // parameters can be trained: `requires_grad` says which are, in each step.
    //
    // Throws UNIMPLEMENTED if a replica computes on a GPU. Warns once if the module has torch's own dropout and there
    // are several replicas.
    template <class Make>
    torch_model(const strategy &on, Make make, torch_options options = {})
        : on_(on), options_(std::move(options)),
          replicas_(static_cast<std::size_t>(on.local_replica_count())), make_(std::move(make)) {
        torch_detail::refuse_gpus(on);
        for (auto &own : replicas_) take_apart(own, make_());
        torch_detail::warn_of_shared_generator(on, *replicas_.front().module);
        const replica &first = replicas_.front();
        std::unordered_set<std::string> sparse(options_.row_sparse.begin(), options_.row_sparse.end());
        gradients_options how{options_.accumulation_steps, {}, options_.dtype};
        std::vector<variable> trained;
        for (std::size_t index = 0; index < first.parameters.size(); ++index) {
            const auto &parameter = first.parameters[index];
            const auto &name = first.names[index];
            parameters_.push_back(on.create_variable(name, share(parameter.detach().contiguous())));
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
                                                  share(first.buffers[index].detach().contiguous()), kept));
        }
        gradients_ = umbo::gradients::create(on, trained, options_.loss_reduction, how);
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

    // Calls `change(module)` for the module of each replica, outside of runs: to freeze and unfreeze parameters with
    // `requires_grad_`, say, which all replicas have to agree about.
    template <class Change>
    void for_each_replica(Change change) {
        for (replica &own : replicas_) change(*own.module);
    }

    // The step, for `strategy::run` and what takes its callables: `loss(module, part)` gives a scalar. A
    // parameter that no replica's loss uses is left alone by the update. The metric "loss" is its mean. Parameters
    // are trained that require a gradient in the module of `central()` when `step` or `train` is called.
    template <class Loss>
    auto step(Loss loss) {
        follow_central();
        return [this, loss](replica_context &context, const value &batch) {
            const umbo_replica_context_info position = context.info();
            const std::int64_t rows = position.local_example_count;
            replica &own = replica_of(context);
            double sum = 0;
            attach(own, context, true);
            if (rows != 0 || synchronises) {
                const in_place now(position);
                const double lost = named(position, [&] {
                    const at::Tensor scalar = loss(*own.module, part(batch));
                    scalar.backward();
                    return scalar.template item<double>();
                });
                const double each = options_.loss_reduction == umbo::loss_reduction::mean ? static_cast<double>(rows) : 1.0;
                sum = lost * each;
                contribute(own, context);
            }
            if (!buffers_.empty()) {
                std::vector<umbo_view> views;
                for (const auto &buffer : own.buffers) views.push_back(view_of_torch(buffer));
                context.assign_all(buffers_, views);
            }
            context.add_metric("loss", sum, static_cast<double>(rows));
            context.submit(gradients_);
        };
    }

    // `measure(module, part)` gives a sum over the part's examples, such as how many are right; the metric is
    // its mean.
    template <class Measure>
    auto evaluation(const char *metric, Measure measure) {
        return [this, metric, measure](replica_context &context, const value &batch) {
            const umbo_replica_context_info position = context.info();
            double sum = 0;
            if (position.local_example_count != 0) {
                const at::NoGradGuard no_grad;
                replica &own = replica_of(context);
                attach(own, context, false);
                sum = named(position, [&] { return measure(*own.module, part(batch)).template item<double>(); });
            }
            context.add_metric(metric, sum, static_cast<double>(position.local_example_count));
        };
    }

    // One step on a distributed batch.
    template <class Loss>
    void train(const value &batch, Loss loss) {
        on_.run(step(loss), batch);
    }

    // Replica 0's module on the parameters and buffers as they are now, to look at, to compute with or to
    // torch::save, outside of runs. Its parameters are not to be written: `assign` and `load` do that.
    std::shared_ptr<Module> central() {
        replica &own = replicas_.front();
        const at::NoGradGuard no_grad;
        for (std::size_t index = 0; index < parameters_.size(); ++index) {
            const umbo_view view = parameters_[index].view();
            lay(own.parameters[index], view, parameters_[index]);
        }
        for (std::size_t index = 0; index < buffers_.size(); ++index) {
            own.buffers[index].copy_(lend(buffers_[index].view(), buffers_[index]));
        }
        own.module->eval();
        return own.module;
    }

    // Parameters and buffers as `from` has them.
    void assign(const std::shared_ptr<Module> &from) {
        replica given;
        take_apart(given, from);
        if (given.names != replicas_.front().names || given.buffer_names != replicas_.front().buffer_names) {
            throw error(status::invalid_argument, "from: its parameters or buffers have other names");
        }
        for (std::size_t index = 0; index < parameters_.size(); ++index) {
            parameters_[index].assign(share(given.parameters[index].detach().contiguous()));
        }
        for (std::size_t index = 0; index < buffers_.size(); ++index) {
            buffers_[index].assign(share(given.buffers[index].detach().contiguous()));
        }
    }

    // What torch::save wrote.
    void load(const std::string &path) {
        auto from = make_();
        torch::load(from, path);
        assign(from);
    }

private:
    struct replica {
        std::shared_ptr<Module> module;
        std::vector<std::string> names, buffer_names;
        std::vector<at::Tensor> parameters, buffers;
        // For each parameter whether it belongs to a module that keeps statistics.
        std::vector<bool> normalises;
    };

    replica &replica_of(const replica_context &context) {
        return replicas_[static_cast<std::size_t>(context.local_replica_id())];
    }

    // While it lives this thread computes at this place.
    class in_place {
    public:
        explicit in_place(const umbo_replica_context_info &position) : before_(torch_detail::current_place()) {
            torch_detail::current_place() = {position.step, position.first_example, true, torch_detail::next_visit()};
        }
        ~in_place() { torch_detail::current_place() = before_; }
        in_place(const in_place &) = delete;
        in_place &operator=(const in_place &) = delete;

    private:
        torch_detail::place before_;
    };

    // What torch throws in `compute` says which replica it was, and what part of the batch it had.
    template <class Compute>
    static double named(const umbo_replica_context_info &position, Compute compute) {
        try {
            return compute();
        } catch (c10::Error &failed) {
            failed.add_context("on replica " + std::to_string(position.replica_id) + " of " +
                               std::to_string(position.replica_count) + ", whose part of the batch has " +
                               std::to_string(position.local_example_count) + " of " +
                               std::to_string(position.global_example_count) + " examples");
            throw;
        }
    }

    // All replicas train what replica 0 does.
    void follow_central() {
        const replica &first = replicas_.front();
        for (replica &own : replicas_) {
            for (std::size_t index = 0; index < own.parameters.size(); ++index) {
                const bool trained = first.parameters[index].requires_grad();
                if (own.parameters[index].requires_grad() != trained) own.parameters[index].requires_grad_(trained);
            }
        }
    }

    // A module's own tensors, each once: one that is registered twice is listed twice.
    static void take_apart(replica &own, std::shared_ptr<Module> module) {
        own.module = std::move(module);
        std::unordered_set<const void *> seen, statistical;
        for (const auto &each : own.module->modules()) {
            if (!torch_detail::keeps_statistics(*each)) continue;
            for (const auto &parameter : each->parameters(false)) statistical.insert(parameter.unsafeGetTensorImpl());
        }
        const auto is_new = [&](const at::Tensor &tensor) {
            return tensor.defined() && seen.insert(tensor.unsafeGetTensorImpl()).second;
        };
        for (const auto &each : own.module->named_parameters()) {
            if (!is_new(each.value())) continue;
            own.names.push_back(each.key());
            own.parameters.push_back(each.value());
            own.normalises.push_back(statistical.count(each.value().unsafeGetTensorImpl()) != 0);
        }
        for (const auto &each : own.module->named_buffers()) {
            if (!is_new(each.value())) continue;
            own.buffer_names.push_back(each.key());
            own.buffers.push_back(each.value());
        }
        std::uint64_t layer = 0;
        for (const auto &each : own.module->modules()) {
            if (auto *dropout = each->template as<keyed_dropoutImpl>()) dropout->layer = layer++;
        }
    }

    // Lets a parameter lie where a view shows.
    static void lay(at::Tensor &parameter, const umbo_view &view, const variable &owner) {
        if (parameter.data_ptr() != view.data) parameter.set_data(lend(view, owner));
    }

    // Lets the replica's module lie on the parameters, and gives it the buffers, as the step sees them.
    void attach(replica &own, const replica_context &context, bool training) {
        if (own.module->is_training() != training) own.module->train(training);
        const at::NoGradGuard no_grad;
        for (std::size_t index = 0; index < parameters_.size(); ++index) {
            const variable &from = parameters_[index];
            const bool narrow =
                options_.dtype != umbo::dtype::none && gradient_of_[index] >= 0 && !own.normalises[index];
            lay(own.parameters[index], context.view_as(from, narrow ? options_.dtype : from.dtype()), from);
            own.parameters[index].mutable_grad().reset();
        }
        for (std::size_t index = 0; index < buffers_.size(); ++index) {
            const umbo_view now = context.view_as(buffers_[index], buffers_[index].dtype());
            own.buffers[index].copy_(lend(now, buffers_[index]));
        }
    }

    // Hands over what backward() has left.
    void contribute(replica &own, const replica_context &context) {
        for (std::size_t index = 0; index < own.parameters.size(); ++index) {
            at::Tensor &gradient = own.parameters[index].mutable_grad();
            if (gradient_of_[index] < 0 || !gradient.defined()) continue;
            if (gradient.is_sparse()) {
                add_rows(own.names[index], gradient.coalesce(), context, gradient_of_[index]);
            } else {
                const bool narrow = options_.dtype != umbo::dtype::none;
                const auto type = narrow ? torch_type(to_c(options_.dtype)) : gradient.scalar_type();
                const auto whole = std::make_shared<at::Tensor>(gradient.to(type).contiguous());
                context.attach(gradients_, gradient_of_[index], view_of_torch(*whole), whole);
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

    strategy on_;
    torch_options options_;
    std::vector<replica> replicas_;
    shared_function<std::shared_ptr<Module>()> make_;
    std::vector<variable> parameters_, buffers_;
    // For each parameter its place among the gradients, or -1.
    std::vector<std::int64_t> gradient_of_;
    umbo::gradients gradients_;
};

} // namespace adapters
} // namespace umbo

#endif

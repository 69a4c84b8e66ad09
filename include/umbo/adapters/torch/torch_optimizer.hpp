// An optimizer of Umbo's in the form of one of torch's: for its schedulers, and to save what it keeps in torch's files.
#ifndef UMBO_ADAPTERS_TORCH_TORCH_OPTIMIZER_HPP
#define UMBO_ADAPTERS_TORCH_TORCH_OPTIMIZER_HPP

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <sstream>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/adapters/replica_choice.hpp>
#include <umbo/adapters/torch/optimizer.hpp>
#include <umbo/adapters/torch/threads.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

// What torch 1.13 (a text) and later versions (a pointer) find the state of a parameter by.
template <class States>
auto key_in(const States &, const at::Tensor &parameter) {
    using key_type = std::decay_t<decltype(std::declval<States &>().begin()->first)>;
    c10::TensorImpl *const identity = parameter.unsafeGetTensorImpl();
    if constexpr (std::is_same_v<key_type, std::string>) {
        std::ostringstream text;
        text << identity;
        return text.str();
    } else {
        return static_cast<key_type>(identity);
    }
}

// What an optimizer of Umbo's keeps for a variable, to read and to write as torch has it.
class kept_state {
public:
    kept_state(const optimizer &of, const variable &about) : of_(of), about_(about), progress_(of.variable_progress(about)) {}

    std::int64_t updates() const noexcept { return progress_.update_count; }

    at::Tensor read(const char *name) const {
        const tensor found = of_.read_state(about_, name);
        return lend(found.view(), found).clone();
    }

    void write(const char *name, const at::Tensor &state) const { of_.assign_state(about_, name, share(state.detach().contiguous())); }

    void set_progress(std::int64_t updates, double first_running = 0, double second_running = 0) const {
        variable_progress now;
        now.update_count = updates;
        now.first_running = first_running;
        now.second_running = second_running;
        of_.set_variable_progress(about_, now);
    }

private:
    const optimizer &of_;
    const variable &about_;
    umbo::variable_progress progress_;
};

// For each rule: torch's state of what Umbo keeps, and back.
inline std::unique_ptr<torch::optim::SGDParamState> to_torch(const kept_state &from, const torch::optim::SGDOptions &how) {
    if (how.momentum() == 0) return nullptr; // torch keeps nothing then
    auto made = std::make_unique<torch::optim::SGDParamState>();
    made->momentum_buffer(from.read("momentum"));
    return made;
}

inline void from_torch(const torch::optim::SGDParamState &from, const torch::optim::SGDOptions &how, const kept_state &to) {
    if (how.momentum() == 0) return;
    to.write("momentum", from.momentum_buffer());
    to.set_progress(1, how.dampening() == 0 ? 0 : 1);
}

template <class State, class Options>
std::unique_ptr<State> moments_to_torch(const kept_state &from, const Options &how) {
    auto made = std::make_unique<State>();
    made->step(from.updates());
    made->exp_avg(from.read("m"));
    made->exp_avg_sq(from.read("v"));
    if (how.amsgrad()) made->max_exp_avg_sq(from.read("v_max"));
    return made;
}

template <class State, class Options>
void moments_from_torch(const State &from, const Options &how, const kept_state &to) {
    to.write("m", from.exp_avg());
    to.write("v", from.exp_avg_sq());
    if (how.amsgrad()) to.write("v_max", from.max_exp_avg_sq());
    const auto steps = static_cast<double>(from.step());
    to.set_progress(from.step(), std::pow(std::get<0>(how.betas()), steps), std::pow(std::get<1>(how.betas()), steps));
}

inline auto to_torch(const kept_state &from, const torch::optim::AdamOptions &how) {
    return moments_to_torch<torch::optim::AdamParamState>(from, how);
}

inline auto to_torch(const kept_state &from, const torch::optim::AdamWOptions &how) {
    return moments_to_torch<torch::optim::AdamWParamState>(from, how);
}

inline void from_torch(const torch::optim::AdamParamState &from, const torch::optim::AdamOptions &how, const kept_state &to) {
    moments_from_torch(from, how, to);
}

inline void from_torch(const torch::optim::AdamWParamState &from, const torch::optim::AdamWOptions &how, const kept_state &to) {
    moments_from_torch(from, how, to);
}

inline std::unique_ptr<torch::optim::AdagradParamState> to_torch(const kept_state &from, const torch::optim::AdagradOptions &) {
    auto made = std::make_unique<torch::optim::AdagradParamState>();
    made->step(from.updates());
    made->sum(from.read("accumulator"));
    return made;
}

inline void from_torch(const torch::optim::AdagradParamState &from, const torch::optim::AdagradOptions &how, const kept_state &to) {
    to.write("accumulator", from.sum());
    to.set_progress(from.step(), how.lr_decay() == 0 ? 0 : static_cast<double>(from.step()));
}

inline std::unique_ptr<torch::optim::RMSpropParamState> to_torch(const kept_state &from, const torch::optim::RMSpropOptions &how) {
    auto made = std::make_unique<torch::optim::RMSpropParamState>();
    made->step(from.updates());
    made->square_avg(from.read("v"));
    if (how.momentum() > 0) made->momentum_buffer(from.read("momentum"));
    if (how.centered()) made->grad_avg(from.read("mean"));
    return made;
}

inline void from_torch(const torch::optim::RMSpropParamState &from, const torch::optim::RMSpropOptions &how, const kept_state &to) {
    to.write("v", from.square_avg());
    if (how.momentum() > 0) to.write("momentum", from.momentum_buffer());
    if (how.centered()) to.write("mean", from.grad_avg());
    to.set_progress(from.step());
}

} // namespace torch_detail

// Umbo's optimizer for a model, with a rule of torch's beside it that computes nothing: torch's schedulers set the rule's
// learning rates, which `step` follows, and torch saves and loads what Umbo keeps. It takes the place of a torch::optim::SGD, say:
//
//     auto net = std::make_shared<Net>();
//     umbo::adapters::torch_optimizer sgd(umbo::adapters::torch_strategy(2), net, torch::optim::SGDOptions(0.01).momentum(0.5));
//     torch::optim::StepLR scheduler(sgd, 1, 0.7);
//     ...
//     sgd.zero_grad();
//     auto loss = sgd.train(batch, [](Net &net, const part &of) { return torch::nll_loss(net.forward(of["data"]), of["target"]); });
//     loss.backward();
//     sgd.step();
//     scheduler.step();
//     sgd.save("sgd.pt"); // as torch::save(sgd, "sgd.pt") of a torch::optim::SGD
template <class Rule, class Options, class Module>
class torch_optimizer {
public:
    using groups = std::vector<torch::optim::OptimizerParamGroup>;

    // As `optimizer_of`. The model has to live as long.
    torch_optimizer(torch_model<Module> &model, const Options &options, const groups &each = {})
        : torch_optimizer(nullptr, model, options, each) {}

    // With a model of its own, `torch_model(on, module, how)`, for a module that the program keeps: `model()` gives it.
    torch_optimizer(const umbo::strategy &on, const std::shared_ptr<Module> &module, const Options &options, const groups &each = {},
                    torch_options how = {})
        : torch_optimizer(std::make_unique<torch_model<Module>>(on, module, std::move(how)), options, each) {}

    torch_optimizer(const umbo::strategy &on, const torch::nn::ModuleHolder<Module> &module, const Options &options, const groups &each = {},
                    torch_options how = {})
        : torch_optimizer(on, module.ptr(), options, each, std::move(how)) {}

    // On this many replicas. UMBO_AUTO: on all GPUs, or where there are none on as many replicas as train fastest, each with its share
    // of the processors for torch's threads. The first steps, which are steps like others, try one replica for each
    // processor and the divisors of that number; where losses depend on the number of replicas only by rounding, so do
    // results; with `replicas_in_sync` of `how` it changes no bit of them. What `model()`, `strategy()` or `optimizer()` has
    // handed out stays: the choice ends there.
    torch_optimizer(std::int64_t replicas, const std::shared_ptr<Module> &module, const Options &options, const groups &each = {},
                    torch_options how = {})
        : torch_optimizer(on_replicas(replicas, how.replicas_in_sync), module, options, each, how) {
        if (replicas != UMBO_AUTO || torch::cuda::is_available()) return;
        choice_ = common_detail::replica_choice(common_detail::first_replicas(how.replicas_in_sync));
        module_ = module;
        groups_ = groups(each);
        how_ = std::move(how);
    }

    torch_optimizer(std::int64_t replicas, const torch::nn::ModuleHolder<Module> &module, const Options &options,
                    const groups &each = {}, torch_options how = {})
        : torch_optimizer(replicas, module.ptr(), options, each, std::move(how)) {}

    torch_model<Module> &model() noexcept {
        choice_.settle();
        return *model_;
    }

    const umbo::strategy &strategy() noexcept { return model().strategy(); }

    // What was chosen for UMBO_AUTO, or is tried next, and why: "1 replica: a step takes 4.10 ms with ...".
    std::string choice() const { return choice_.text(); }

    // Nothing: `step` has used the gradients up. Without it the next `train` is an error.
    void zero_grad() const noexcept {}

    // `torch_model::train`, with the models of other optimizers.
    template <class Batch, class Loss, class... Others>
    torch_loss train(const Batch &batch, Loss loss, Others &...others) {
        choice_.begin();
        return model_->train(batch, std::move(loss), others.model()...);
    }

    template <class Loss, class... Others>
    torch_loss train(const std::vector<std::pair<std::string, at::Tensor>> &fields, Loss loss, Others &...others) {
        choice_.begin();
        return model_->train(fields, std::move(loss), others.model()...);
    }

    // `torch_model::evaluate`, which does not end the choice of replicas.
    template <class Batches, class Measure>
    std::vector<double> evaluate(Batches &&batches, const std::vector<std::string> &metrics, Measure measure) {
        return model_->evaluate(std::forward<Batches>(batches), metrics, std::move(measure));
    }

    // Torch's optimizer, for schedulers, and for code that sets the learning rates of parameter groups.
    Rule &torch() noexcept { return *theirs_; }
    operator Rule &() noexcept { return *theirs_; }

    const umbo::optimizer &optimizer() noexcept {
        choice_.settle();
        return ours_;
    }

    // Applies what the replicas have submitted, with the learning rates as torch has them. Throws UNIMPLEMENTED if these have changed
    // by another factor in one parameter group than in the others.
    void step() {
        follow_rates();
        ours_.apply(model_->gradients());
        model_->show();
        choice_.end([this](std::int64_t replicas) { move_to(replicas); });
    }

    // What the rule keeps for each parameter, and its settings, in a file that `torch::load(rule, path)` reads.
    void save(const std::string &path) {
        auto &states = theirs_->state();
        for (std::size_t index = 0; index < tensors_.size(); ++index) {
            const torch_detail::kept_state kept(ours_, model_->parameters()[index]);
            auto state = kept.updates() == 0 ? nullptr : torch_detail::to_torch(kept, options_);
            if (state != nullptr) states[torch_detail::key_in(states, tensors_[index])] = std::move(state);
        }
        torch::save(*theirs_, path);
    }

    // What `save` or torch wrote, of the same rule with the same settings except for the learning rates. These come along where
    // torch itself loads them, which 1.13 does not. Throws torch's own exception for a file that does not fit, and
    // INVALID_ARGUMENT for other settings that torch has loaded; then Umbo's optimizer is as before.
    void load(const std::string &path) {
        auto &groups = theirs_->param_groups();
        std::vector<std::unique_ptr<torch::optim::OptimizerOptions>> before;
        for (const auto &group : groups) before.push_back(group.options().clone());
        torch::load(*theirs_, path);
        for (std::size_t number = 0; number < groups.size(); ++number) {
            const auto &now = static_cast<const Options &>(groups[number].options()), &own = static_cast<const Options &>(*before[number]);
            const char *setting = torch_detail::differing(now, own);
            if (setting == nullptr && now.weight_decay() != own.weight_decay()) setting = "weight_decay";
            if (setting == nullptr) continue;
            const std::string found = setting;
            for (std::size_t each = 0; each < groups.size(); ++each) groups[each].set_options(std::move(before[each]));
            throw error(status::invalid_argument, "load: '" + path + "' has another '" + found + "' than the optimizer");
        }
        const auto &states = theirs_->state();
        for (std::size_t index = 0; index < tensors_.size(); ++index) {
            const auto found = states.find(torch_detail::key_in(states, tensors_[index]));
            if (found == states.end()) continue;
            using State = typename decltype(torch_detail::to_torch(std::declval<const torch_detail::kept_state &>(), options_))::element_type;
            const torch_detail::kept_state kept(ours_, model_->parameters()[index]);
            torch_detail::from_torch(static_cast<const State &>(*found->second), options_, kept);
        }
        follow_rates();
    }

private:
    torch_optimizer(std::unique_ptr<torch_model<Module>> own, const Options &options, const groups &each)
        : torch_optimizer(nullptr, *own, options, each) {
        own_ = std::move(own);
    }

    torch_optimizer(std::nullptr_t, torch_model<Module> &model, const Options &options, const groups &each)
        : model_(&model), ours_(optimizer_of(model, options, each)), tensors_(model.central_parameters()), options_(options),
          theirs_(each.empty() ? std::make_unique<Rule>(tensors_, options) : std::make_unique<Rule>(each, options)), rate_(options.lr()) {
        for (const auto &group : theirs_->param_groups()) factors_.push_back(rate_ == 0 ? 1 : rate_of(group) / rate_);
    }

    static umbo::strategy on_replicas(std::int64_t replicas, std::int64_t in_sync) {
        common_detail::most_threads::of_program();
        if (in_sync == 0) return replicas == UMBO_AUTO ? torch_strategy() : torch_strategy(replicas);
        if (replicas != UMBO_AUTO || !torch::cuda::is_available()) {
            return torch_detail::strategy_with_shares(replicas == UMBO_AUTO ? common_detail::first_replicas(in_sync) : replicas, in_sync);
        }
        strategy_options options;
        options.replicas_in_sync = in_sync;
        return strategy::create(std::move(options));
    }

    // Lets the training continue on this many replicas.
    void move_to(std::int64_t replicas) {
        const auto state = checkpoint_of(*model_, ours_).save_to_memory();
        auto next = std::make_unique<torch_model<Module>>(torch_detail::strategy_with_shares(replicas, how_.replicas_in_sync), module_, how_);
        auto rule = optimizer_of(*next, options_, groups_);
        checkpoint_of(*next, rule).restore_from_memory(state);
        rule.set_learning_rate(rate_);
        next->synchronises = model_->synchronises;
        next->show();
        ours_ = std::move(rule);
        own_ = std::move(next);
        model_ = own_.get();
    }

    static checkpoint checkpoint_of(const torch_model<Module> &model, const umbo::optimizer &rule) {
        auto all = checkpoint::create(model.strategy());
        for (const auto &each : model.parameters()) all.add(each);
        for (const auto &each : model.buffers()) all.add(each);
        all.add("rule", rule);
        all.add("gradients", model.gradients());
        return all;
    }

    static double rate_of(const torch::optim::OptimizerParamGroup &group) { return static_cast<const Options &>(group.options()).lr(); }

    void follow_rates() {
        const auto &groups = theirs_->param_groups();
        double now = rate_;
        for (std::size_t number = 0; number < groups.size(); ++number) {
            if (factors_[number] != 0) now = rate_of(groups[number]) / factors_[number];
        }
        for (std::size_t number = 0; number < groups.size(); ++number) {
            const double expected = now * factors_[number];
            if (std::fabs(rate_of(groups[number]) - expected) <= 1e-9 * std::fabs(expected)) continue;
            throw error(status::unimplemented, "step: the 'lr' of parameter group " + std::to_string(number) +
                                                   " has changed by a factor other than that of the others");
        }
        if (now != rate_) ours_.set_learning_rate(now);
        rate_ = now;
    }

    // How many replicas train, and what a model on others is made of.
    common_detail::replica_choice choice_;
    std::shared_ptr<Module> module_;
    groups groups_;
    torch_options how_;

    std::unique_ptr<torch_model<Module>> own_;
    torch_model<Module> *model_;
    umbo::optimizer ours_;
    std::vector<at::Tensor> tensors_;
    Options options_;
    std::unique_ptr<Rule> theirs_;
    double rate_;
    // The learning rate of each parameter group, as a multiple of the optimizer's.
    std::vector<double> factors_;
};

template <class Module, class Options, class... Rest>
torch_optimizer(torch_model<Module> &, const Options &, const Rest &...)
    -> torch_optimizer<decltype(torch_detail::rule_with(std::declval<Options>())), Options, Module>;

template <class Module, class Options, class... Rest>
torch_optimizer(const strategy &, const std::shared_ptr<Module> &, const Options &, const Rest &...)
    -> torch_optimizer<decltype(torch_detail::rule_with(std::declval<Options>())), Options, Module>;

template <class Module, class Options, class... Rest>
torch_optimizer(std::int64_t, const std::shared_ptr<Module> &, const Options &, const Rest &...)
    -> torch_optimizer<decltype(torch_detail::rule_with(std::declval<Options>())), Options, Module>;

template <class Module, class Options, class... Rest>
torch_optimizer(std::int64_t, const torch::nn::ModuleHolder<Module> &, const Options &, const Rest &...)
    -> torch_optimizer<decltype(torch_detail::rule_with(std::declval<Options>())), Options, Module>;

template <class Module, class Options, class... Rest>
torch_optimizer(const strategy &, const torch::nn::ModuleHolder<Module> &, const Options &, const Rest &...)
    -> torch_optimizer<decltype(torch_detail::rule_with(std::declval<Options>())), Options, Module>;

} // namespace adapters
} // namespace umbo

#endif

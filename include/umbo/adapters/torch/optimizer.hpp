// Umbo's optimizers from the options of `torch::optim`.
#ifndef UMBO_ADAPTERS_TORCH_OPTIMIZER_HPP
#define UMBO_ADAPTERS_TORCH_OPTIMIZER_HPP

#include <cstddef>
#include <string>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <umbo/adapters/torch/model.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

// Rules of torch have a decay that is added to gradients; in Umbo it is a setting of all optimizers.
inline optimizer with_decay(optimizer made, double weight_decay) {
    if (weight_decay == 0) return made;
    optimizer_options how;
    how.weight_decay = weight_decay;
    made.configure(how);
    return made;
}

template <class From, class To>
To moments_of(const From &from) {
    To to;
    to.learning_rate = from.lr();
    std::tie(to.beta1, to.beta2) = from.betas();
    to.epsilon = from.eps();
    to.amsgrad = from.amsgrad();
    return to;
}

inline optimizer rule_of(const strategy &on, const torch::optim::SGDOptions &from) {
    if (from.nesterov() && (from.momentum() <= 0 || from.dampening() != 0)) {
        throw error(status::invalid_argument, "optimizer_of: SGDOptions::nesterov needs a momentum and no dampening");
    }
    if (from.momentum() == 0) {
        sgd_options to;
        to.learning_rate = from.lr();
        return with_decay(optimizer::sgd(on, to), from.weight_decay());
    }
    momentum_options to;
    to.learning_rate = from.lr();
    to.momentum = from.momentum();
    to.dampening = from.dampening();
    to.nesterov = from.nesterov();
    return with_decay(optimizer::momentum(on, to), from.weight_decay());
}

inline optimizer rule_of(const strategy &on, const torch::optim::AdamOptions &from) {
    return with_decay(optimizer::adam(on, moments_of<torch::optim::AdamOptions, adam_options>(from)), from.weight_decay());
}

inline optimizer rule_of(const strategy &on, const torch::optim::AdamWOptions &from) {
    auto to = moments_of<torch::optim::AdamWOptions, adamw_options>(from);
    to.weight_decay = from.weight_decay();
    return optimizer::adamw(on, to);
}

inline optimizer rule_of(const strategy &on, const torch::optim::AdagradOptions &from) {
    adagrad_options to;
    to.learning_rate = from.lr();
    to.learning_rate_decay = from.lr_decay();
    to.initial_accumulator = from.initial_accumulator_value();
    to.epsilon = from.eps();
    return with_decay(optimizer::adagrad(on, to), from.weight_decay());
}

inline optimizer rule_of(const strategy &on, const torch::optim::RMSpropOptions &from) {
    rmsprop_options to;
    to.learning_rate = from.lr();
    to.rho = from.alpha();
    to.momentum = from.momentum();
    to.epsilon = from.eps();
    to.centered = from.centered();
    return with_decay(optimizer::rmsprop(on, to), from.weight_decay());
}

// The first setting, besides the learning rate and the weight decay, that differs between two options of a rule; or null.
// Of Adam and AdamW:
template <class Options>
const char *differing(const Options &a, const Options &b) {
    if (a.betas() != b.betas()) return "betas";
    if (a.eps() != b.eps()) return "eps";
    return a.amsgrad() != b.amsgrad() ? "amsgrad" : nullptr;
}

inline const char *differing(const torch::optim::SGDOptions &a, const torch::optim::SGDOptions &b) {
    if (a.momentum() != b.momentum()) return "momentum";
    if (a.dampening() != b.dampening()) return "dampening";
    return a.nesterov() != b.nesterov() ? "nesterov" : nullptr;
}

inline const char *differing(const torch::optim::AdagradOptions &a, const torch::optim::AdagradOptions &b) {
    if (a.lr_decay() != b.lr_decay()) return "lr_decay";
    if (a.initial_accumulator_value() != b.initial_accumulator_value()) return "initial_accumulator_value";
    return a.eps() != b.eps() ? "eps" : nullptr;
}

inline const char *differing(const torch::optim::RMSpropOptions &a, const torch::optim::RMSpropOptions &b) {
    if (a.alpha() != b.alpha()) return "alpha";
    if (a.eps() != b.eps()) return "eps";
    if (a.momentum() != b.momentum()) return "momentum";
    return a.centered() != b.centered() ? "centered" : nullptr;
}

// The rules of torch by their options: declared for `decltype`, and never called.
torch::optim::SGD rule_with(const torch::optim::SGDOptions &);
torch::optim::Adam rule_with(const torch::optim::AdamOptions &);
torch::optim::AdamW rule_with(const torch::optim::AdamWOptions &);
torch::optim::Adagrad rule_with(const torch::optim::AdagradOptions &);
torch::optim::RMSprop rule_with(const torch::optim::RMSpropOptions &);

// How messages name a parameter group.
inline std::string group_name(std::size_t number) { return "optimizer_of: group " + std::to_string(number); }

// The groups with the options that torch gives them: its later versions complete those of a group by the optimizer's.
template <class Options>
std::vector<torch::optim::OptimizerParamGroup> completed(const std::vector<torch::optim::OptimizerParamGroup> &groups,
                                                         const Options &defaults) {
    for (std::size_t number = 0; number < groups.size(); ++number) {
        if (!groups[number].has_options() || dynamic_cast<const Options *>(&groups[number].options()) != nullptr) continue;
        throw error(status::invalid_argument, group_name(number) + " has the options of another rule");
    }
    return decltype(rule_with(defaults))(groups, defaults).param_groups();
}

// A group of torch's as one of Umbo's, which differs from the optimizer in its learning rate and its weight decay.
template <class Options>
group_options group_of(const std::string &name, const torch::optim::OptimizerParamGroup &group, const Options &defaults) {
    group_options how;
    const auto *own = static_cast<const Options *>(&group.options());
    if (const char *setting = differing(*own, defaults)) {
        throw error(status::unimplemented, name + " has another '" + setting +
                                               "' than the optimizer; groups differ in 'lr' and 'weight_decay' alone");
    }
    if (own->lr() != defaults.lr()) {
        if (defaults.lr() == 0) {
            throw error(status::unimplemented, name + " has an 'lr', and the optimizer's, whose multiple it is, is 0");
        }
        how.learning_rate_factor = own->lr() / defaults.lr();
    }
    how.weight_decay = own->weight_decay();
    return how;
}

} // namespace torch_detail

// An optimizer of Umbo's with the rule and the settings of `SGDOptions`, `AdamOptions`, `AdamWOptions`, `AdagradOptions`
// or `RMSpropOptions` of `torch::optim`; other options do not compile.
//
// Throws INVALID_ARGUMENT if a setting is out of range; an `eps` of 0 and a `momentum` of 1 or more are.
template <class Options>
optimizer optimizer_of(const strategy &on, const Options &options) {
    return torch_detail::rule_of(on, options);
}

// The same for a model, with parameter groups of tensors of `central()`'s. As in torch, parameters that are in no group
// are not trained; without groups all are. Torch itself completes the options of groups, each version in its way.
//
// Groups may have an `lr` and a `weight_decay` of their own: throws UNIMPLEMENTED for one with another setting of its own,
// which the message names, and INVALID_ARGUMENT for a tensor that is not a parameter of the model, or is in two groups.
template <class Module, class Options>
optimizer optimizer_of(torch_model<Module> &model, const Options &options,
                       const std::vector<torch::optim::OptimizerParamGroup> &groups = {}) {
    optimizer made = optimizer_of(model.strategy(), options);
    if (groups.empty()) return made;
    std::unordered_map<const void *, std::size_t> numbers;
    const auto tensors = model.central_parameters();
    for (std::size_t index = 0; index < tensors.size(); ++index) numbers[tensors[index].unsafeGetTensorImpl()] = index;
    std::unordered_set<std::size_t> listed;
    std::vector<std::vector<variable>> variables(groups.size());
    for (std::size_t number = 0; number < groups.size(); ++number) {
        const std::string which = torch_detail::group_name(number);
        for (const auto &tensor : groups[number].params()) {
            const auto found = numbers.find(tensor.unsafeGetTensorImpl());
            if (found == numbers.end()) {
                throw error(status::invalid_argument, which + " has a tensor that is not a parameter of the model's central()");
            }
            if (!listed.insert(found->second).second) {
                throw error(status::invalid_argument, which + " has a parameter that is in a group already");
            }
            variables[number].push_back(model.parameters()[found->second]);
        }
    }
    const auto whole = torch_detail::completed(groups, options);
    for (std::size_t number = 0; number < groups.size(); ++number) {
        const auto how = torch_detail::group_of(torch_detail::group_name(number), whole[number], options);
        if (!variables[number].empty()) made.add_group(variables[number], how);
    }
    std::vector<variable> others;
    for (std::size_t index = 0; index < tensors.size(); ++index) {
        if (listed.count(index) == 0) others.push_back(model.parameters()[index]);
    }
    group_options frozen;
    frozen.frozen = true;
    if (!others.empty()) made.add_group(others, frozen);
    return made;
}

} // namespace adapters
} // namespace umbo

#endif

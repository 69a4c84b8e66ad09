// Umbo's optimizers from ggml's parameters.
#ifndef UMBO_ADAPTERS_GGML_OPTIMIZER_HPP
#define UMBO_ADAPTERS_GGML_OPTIMIZER_HPP

#include <string>

#include <umbo/adapters/ggml/tensor.hpp>

namespace umbo {
namespace adapters {

// An optimizer of Umbo's with the rule and the settings of ggml's. Throws INVALID_ARGUMENT for a setting that is out of
// range (an `eps` of 0 is), UNIMPLEMENTED for a rule other than ggml's AdamW and SGD.
inline optimizer optimizer_of(const strategy &on, ggml_opt_optimizer_type type, const ggml_opt_optimizer_params &from) {
    if (type == GGML_OPT_OPTIMIZER_TYPE_ADAMW) {
        adamw_options to;
        to.learning_rate = static_cast<double>(from.adamw.alpha);
        to.beta1 = static_cast<double>(from.adamw.beta1);
        to.beta2 = static_cast<double>(from.adamw.beta2);
        to.epsilon = static_cast<double>(from.adamw.eps);
        to.weight_decay = static_cast<double>(from.adamw.wd);
        return optimizer::adamw(on, to);
    }
    if (type != GGML_OPT_OPTIMIZER_TYPE_SGD) {
        throw error(status::unimplemented, "optimizer_of: there is no rule for ggml's optimizer " + std::to_string(static_cast<int>(type)));
    }
    sgd_options to;
    to.learning_rate = static_cast<double>(from.sgd.alpha);
    const optimizer made = optimizer::sgd(on, to);
    optimizer_options decay;
    decay.weight_decay = static_cast<double>(from.sgd.wd);
    made.configure(decay);
    return made;
}

} // namespace adapters
} // namespace umbo

#endif

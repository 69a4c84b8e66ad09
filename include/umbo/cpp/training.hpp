// A pass over a dataset, a step for each element.
#ifndef UMBO_CPP_TRAINING_HPP
#define UMBO_CPP_TRAINING_HPP

#include <cstdint>
#include <functional>
#include <memory>
#include <type_traits>
#include <utility>

#include <umbo/cpp/metrics.hpp>

UMBO_DETAIL_BEGIN

// How an epoch is done; see umbo_train_epoch_options. Without optimizer and gradients nothing is
// updated.
struct train_epoch_options {
    umbo::optimizer optimizer;
    umbo::gradients gradients;
    umbo::metrics metrics;
    std::function<void(const umbo_progress &)> progress; // may throw, which ends the epoch
    double timeout_seconds = UMBO_INFINITE;
    umbo::cancellation cancellation;
    std::int64_t most_steps = UMBO_ALL;
    bool flush = true;
    bool reset_iterator = true;
    bool keep_metrics = false;
};

namespace detail {

inline umbo_status progress_trampoline(const umbo_progress *progress, void *callable) noexcept {
    using function = std::function<void(const umbo_progress &)>;
    return guarded([&] { return call(*static_cast<const function *>(callable), *progress); });
}

} // namespace detail

// Takes element after element, runs `step(replica_context &, const value &element)` on all replicas and
// applies what they submitted. The step is copied, and lives until its last call is back; what it
// refers to has to live as long.
template <class Fn>
returned<umbo_train_epoch_report> train_epoch(const strategy &on, const iterator &elements, Fn &&step,
                                    const train_epoch_options &how = {}) {
    using callable = std::decay_t<Fn>;
    auto options = detail::sized<umbo_train_epoch_options>();
    options.metrics = how.metrics.get();
    if (how.progress) {
        options.progress = &detail::progress_trampoline;
        options.progress_user_data =
            const_cast<void *>(static_cast<const void *>(std::addressof(how.progress)));
    }
    options.timeout_seconds = how.timeout_seconds;
    options.cancellation = how.cancellation.get();
    options.most_steps = how.most_steps;
    options.flush = how.flush ? 1 : 0;
    options.reset_iterator = how.reset_iterator ? 1 : 0;
    options.keep_metrics = how.keep_metrics ? 1 : 0;
    options.user_data_destroy = &detail::destroy_callable<callable>;
    auto report = detail::sized<umbo_train_epoch_report>();
    auto *kept = new callable(std::forward<Fn>(step));
    UMBO_DETAIL_TRY(umbo_train_epoch(on.get(), elements.get(), how.optimizer.get(), how.gradients.get(),
                                     &detail::replica_trampoline<callable>, kept, &options, &report));
    return report;
}

UMBO_DETAIL_END

#endif

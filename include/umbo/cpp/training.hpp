// A pass over a dataset, a step for each element.
#ifndef UMBO_CPP_TRAINING_HPP
#define UMBO_CPP_TRAINING_HPP

#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include <umbo/cpp/metrics.hpp>
#include <umbo/cpp/optimizer.hpp>

UMBO_DETAIL_BEGIN

// How far an epoch is; see umbo_progress.
struct progress {
    std::int64_t step_count = 0;
    std::int64_t example_count = 0;
    std::int64_t update_count = 0;
    std::int64_t skipped_count = 0;
    double seconds = 0;
    const apply_report *last_apply = nullptr; // valid for the call
};

// Options of an epoch; see umbo_train_epoch_options.
struct train_epoch_options {
    umbo::metrics metrics = {};
    shared_function<returned<void>(const umbo::progress &)> progress = {}; // a failure ends the epoch
    double timeout_seconds = UMBO_INFINITE;
    umbo::cancellation cancellation = {};
    std::int64_t max_steps = UMBO_ALL;
    bool flush = true;
    bool reset_iterator = true;
    bool keep_metrics = false;
};

namespace detail {

inline umbo_status progress_trampoline(const umbo_progress *raw, void *callable) noexcept {
    using function = shared_function<returned<void>(const progress &)>;
    return guarded([&]() -> returned<void> {
        apply_report last{};
        if (raw->last_apply != nullptr) last = from_c(*raw->last_apply);
        const progress how_far{raw->step_count,    raw->example_count, raw->update_count,
                               raw->skipped_count, raw->seconds,
                               raw->last_apply == nullptr ? nullptr : &last};
        return (*static_cast<const function *>(callable))(how_far);
    });
}

} // namespace detail

// Takes element after element, runs `step(replica_context &, const value &element)` on all replicas and
// applies what they submitted. Without optimizer and gradients (`{}`) nothing is updated.
//
// The step is used where it is, so the caller sees what becomes of it. With a time limit or a token it is copied, or
// moved if it is a temporary, as by `strategy::run`.
template <class Fn>
returned<train_epoch_report> train_epoch(const strategy &on, const iterator &elements,
                                         const optimizer &updating, const gradients &submitted, Fn &&step,
                                         const train_epoch_options &how = {}) {
    umbo_train_epoch_options options = UMBO_TRAIN_EPOCH_OPTIONS_INIT;
    options.metrics = how.metrics.get();
    if (how.progress) {
        options.progress = &detail::progress_trampoline;
        options.progress_user_data =
            const_cast<void *>(static_cast<const void *>(std::addressof(how.progress)));
    }
    options.timeout_seconds = how.timeout_seconds;
    options.cancellation = how.cancellation.get();
    options.max_steps = how.max_steps;
    options.flush = how.flush ? 1 : 0;
    options.reset_iterator = how.reset_iterator ? 1 : 0;
    options.keep_metrics = how.keep_metrics ? 1 : 0;
    detail::step_callable<Fn> callable(step);
    void *user_data = nullptr;
    UMBO_DETAIL_CALL(callable.hand_over(detail::waits_for_all(how.timeout_seconds, how.cancellation), user_data,
                                        options.user_data_destroy));
    umbo_train_epoch_report out = UMBO_TRAIN_EPOCH_REPORT_INIT;
    UMBO_DETAIL_TRY(umbo_train_epoch(on.get(), elements.get(), updating.get(), submitted.get(),
                                     &detail::replica_trampoline<detail::callable_object<Fn>>, user_data, &options,
                                     &out));
    return detail::from_c(out);
}

// `train_epoch` without an update: the step adds to metrics and submits no gradients.
template <class Fn>
returned<train_epoch_report> evaluate(const strategy &on, const iterator &elements, Fn &&step,
                                      const train_epoch_options &how = {}) {
    return train_epoch(on, elements, optimizer(), gradients(), std::forward<Fn>(step), how);
}

UMBO_DETAIL_END

#endif

// How a strategy, a run and a reduction are to be.
#ifndef UMBO_CPP_STRATEGY_OPTIONS_HPP
#define UMBO_CPP_STRATEGY_OPTIONS_HPP

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <umbo/cpp/callback.hpp>
#include <umbo/cpp/communicator.hpp>
#include <umbo/cpp/options.hpp>
#include <umbo/cpp/shared_function.hpp>
#include <umbo/cpp/value.hpp>

UMBO_DETAIL_BEGIN

// Asks running steps to stop; any thread may cancel.
class cancellation : public handle<umbo_cancellation> {
public:
    using handle::handle;

    static returned<cancellation> create() {
        umbo_cancellation *out = nullptr;
        UMBO_DETAIL_TRY(umbo_cancellation_create(&out));
        return cancellation(out);
    }

    returned<void> cancel() const { return check(umbo_cancellation_cancel(get())); }

    returned<bool> is_cancelled() const {
        std::int32_t out = 0;
        UMBO_DETAIL_TRY(umbo_cancellation_is_cancelled(get(), &out));
        return out != 0;
    }
};

struct strategy_options {
    std::vector<std::string> compute_devices = {}; // none: the default devices, or `cpu_replicas`
    std::int64_t cpu_replicas = 0; // UMBO_AUTO: one for each processor of this process
    std::string parameter_device = {};
    bool bind_threads = true;
    std::size_t thread_stack_bytes = 0; // 0: as large as that of the thread that makes the strategy
    // Called on each thread before it serves as a replica for the first time, and on those of the
    // library's own when they end. What they throw is dropped.
    shared_function<void(const umbo_replica_thread &)> replica_thread_start = {};
    shared_function<void(const umbo_replica_thread &)> replica_thread_stop = {};
    umbo::communicator communicator = {}; // joins ranks, whose replicas run in sync
    bool strict = false; // look for mistakes of callables, and fail instead of warning
    std::int64_t fingerprint_interval = 0; // steps after which ranks compare weights; 0: never
    // Those of all ranks, whatever the number of devices; 0: one for each compute device.
    std::int64_t replicas_in_sync = 0;
    bool elastic = false; // every rank keeps all state, so that ranks can die, leave and join
};

struct run_options {
    double timeout_seconds = UMBO_INFINITE;
    umbo::cancellation cancellation = {};
};

struct reduce_options {
    std::vector<std::int32_t> axes = {}; // none: over the replicas only
    std::string destination = {};
    tensor output = {}; // written instead of a new tensor
};

namespace detail {

// The C form of `reduce_options`; lives no longer than they do.
inline umbo_reduce_options raw_options(const reduce_options &how) {
    umbo_reduce_options raw = UMBO_REDUCE_OPTIONS_INIT;
    raw.axes = how.axes.empty() ? nullptr : how.axes.data();
    raw.axis_count = count_of(how.axes.size());
    raw.destination = optional_text(how.destination);
    raw.output = how.output.get();
    return raw;
}

// The C form of `variable_options`; lives no longer than they do.
inline umbo_variable_options raw_options(const variable_options &how) noexcept {
    umbo_variable_options raw = UMBO_VARIABLE_OPTIONS_INIT;
    raw.dtype = to_c(how.dtype);
    raw.ndim = ndim_of(how.shape.size());
    raw.shape = how.shape.empty() ? nullptr : how.shape.data();
    if (how.trainable) raw.trainable = *how.trainable ? 1 : 0;
    raw.aggregation = to_c(how.aggregation);
    raw.initial = to_c(how.initial);
    raw.initial_mean = how.initial_mean;
    raw.initial_spread = how.initial_spread;
    raw.initial_seed = how.initial_seed;
    return raw;
}

// The C form of `strategy_options`, whose devices have these names; lives no longer than both.
inline umbo_strategy_options raw_options(const strategy_options &how,
                                         const std::vector<const char *> &devices) {
    umbo_strategy_options raw = UMBO_STRATEGY_OPTIONS_INIT;
    raw.compute_devices = devices.empty() ? nullptr : devices.data();
    raw.compute_device_count = count_of(devices.size());
    raw.cpu_replicas = how.cpu_replicas;
    raw.parameter_device = optional_text(how.parameter_device);
    raw.bind_threads = how.bind_threads ? 1 : 0;
    raw.thread_stack_bytes = how.thread_stack_bytes;
    raw.communicator = how.communicator.get();
    raw.strict = how.strict ? 1 : 0;
    raw.fingerprint_interval = how.fingerprint_interval;
    raw.replicas_in_sync = how.replicas_in_sync;
    raw.elastic = how.elastic ? 1 : 0;
    return raw;
}

// The functions of `strategy_options`, which the strategy keeps.
struct replica_thread_functions {
    shared_function<void(const umbo_replica_thread &)> start, stop;

    static void call(const shared_function<void(const umbo_replica_thread &)> &function,
                     const umbo_replica_thread *thread) noexcept {
        umbo_ignore(umbo_callback_keep_handles());
#if defined(UMBO_NO_EXCEPTIONS)
        function(*thread);
#else
        try {
            function(*thread);
        } catch (...) {
            // The step continues: nothing in it depends on these functions.
        }
#endif
    }

    static void on_start(const umbo_replica_thread *thread, void *own) noexcept {
        call(static_cast<replica_thread_functions *>(own)->start, thread);
    }

    static void on_stop(const umbo_replica_thread *thread, void *own) noexcept {
        call(static_cast<replica_thread_functions *>(own)->stop, thread);
    }

    // To be called just before the strategy is made, which takes the functions over.
    static void hand_over(const strategy_options &from, umbo_strategy_options &to) {
        if (!from.replica_thread_start && !from.replica_thread_stop) return;
        to.replica_thread_user_data =
            new replica_thread_functions{from.replica_thread_start, from.replica_thread_stop};
        to.replica_thread_user_data_destroy = &destroy_callable<replica_thread_functions>;
        if (from.replica_thread_start) to.replica_thread_start = &on_start;
        if (from.replica_thread_stop) to.replica_thread_stop = &on_stop;
    }
};

// The C form of `run_options`; lives no longer than they do.
inline umbo_run_options raw_options(const run_options &how) noexcept {
    umbo_run_options raw = UMBO_RUN_OPTIONS_INIT;
    raw.timeout_seconds = how.timeout_seconds;
    raw.cancellation = how.cancellation.get();
    return raw;
}

} // namespace detail

UMBO_DETAIL_END

#endif

// Strategies whose replicas share the processors with torch's threads.
#ifndef UMBO_ADAPTERS_TORCH_THREADS_HPP
#define UMBO_ADAPTERS_TORCH_THREADS_HPP

#include <cstdint>
#include <cstdlib>
#include <utility>

#include <umbo/adapters/blas.hpp>
#include <umbo/adapters/torch/tensor.hpp>

namespace umbo {
namespace adapters {

namespace torch_detail {

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
        // Where torch multiplies with OpenBLAS: its threads are beside torch's own, which `at::set_num_threads` does not reach. A
        // BLAS with OpenMP's threads, and MKL, follow torch's setting.
        common_detail::limit_openblas_threads(threads);
        if (before) before(thread);
    };
    return options;
}

namespace torch_detail {

// A strategy of this many replicas on CPUs, each with its share of the processors for torch's operations and for OpenBLAS, whose
// threads an earlier strategy may have lowered. With `replicas_in_sync` each has one thread.
inline strategy strategy_with_shares(std::int64_t replicas, std::int64_t replicas_in_sync = 0) {
    strategy_options options;
    options.cpu_replicas = replicas;
    options.replicas_in_sync = replicas_in_sync;
    options.replica_thread_start = [most = common_detail::most_threads::of_program().openblas,
                                    replicas_in_sync](const umbo_replica_thread &thread) {
        const int threads = replicas_in_sync > 0 ? 1 : threads_of_torch(thread.computing_thread_count);
        if (replicas_in_sync > 0) at::set_num_threads(1);
        common_detail::set_openblas_threads(threads < most ? threads : most);
    };
    return strategy::create(with_torch_threads(std::move(options)));
}

} // namespace torch_detail

// A strategy of a replica on each GPU, if the LibTorch of this program has CUDA, else of one for each processor, with
// torch's threads set.
inline strategy torch_strategy() {
    strategy_options options;
    if (!torch::cuda::is_available()) options.cpu_replicas = UMBO_AUTO;
    return strategy::create(with_torch_threads(std::move(options)));
}

// A strategy of this many replicas on CPUs, with torch's threads set.
inline strategy torch_strategy(std::int64_t replicas) {
    strategy_options options;
    options.cpu_replicas = replicas;
    return strategy::create(with_torch_threads(std::move(options)));
}

} // namespace adapters
} // namespace umbo

#endif

// Threads of a BLAS and of OpenMP, of which each replica gets its share.
#ifndef UMBO_ADAPTERS_BLAS_HPP
#define UMBO_ADAPTERS_BLAS_HPP

#include <cstdint>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

#include <umbo/adapters/common.hpp>

namespace umbo {
namespace adapters {

namespace common_detail {

// Lowers a number of threads by a library's two functions, where the program has loaded that.
inline void lower_threads(const char *now_name, const char *set_name, int threads) {
#if defined(__unix__) || defined(__APPLE__)
    const auto now = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, now_name));
    const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, set_name));
    if (now && set && now() > threads) set(threads);
#else
    (void)now_name, (void)set_name, (void)threads;
#endif
}

// Those of OpenMP's regions, for the calling thread.
inline void limit_openmp_threads(int threads) { lower_threads("omp_get_max_threads", "omp_set_num_threads", threads); }

// Those of OpenBLAS, for the process.
inline void limit_openblas_threads(int threads) {
    lower_threads("openblas_get_num_threads", "openblas_set_num_threads", threads);
}

// The number of OpenBLAS's threads, or 1 where the program has not loaded it.
inline int openblas_threads() {
#if defined(__unix__) || defined(__APPLE__)
    const auto now = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "openblas_get_num_threads"));
    return now ? now() : 1;
#else
    return 1;
#endif
}

inline void set_openblas_threads(int threads) {
#if defined(__unix__) || defined(__APPLE__)
    const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
    if (set && openblas_threads() != threads) set(threads);
#else
    (void)threads;
#endif
}

} // namespace common_detail

// The same options with OpenMP's threads and OpenBLAS's set to a replica's share of the processors, on each thread that
// serves as a replica.
inline strategy_options with_blas_threads(strategy_options options) {
    options.replica_thread_start = [before = std::move(options.replica_thread_start)](const umbo_replica_thread &thread) {
        common_detail::limit_openmp_threads(thread.computing_thread_count);
        common_detail::limit_openblas_threads(thread.computing_thread_count);
        if (before) before(thread);
    };
    return options;
}

// A strategy of so many replicas, with these threads set.
inline strategy blas_strategy(std::int64_t replicas) {
    strategy_options options;
    options.cpu_replicas = replicas;
    return strategy::create(with_blas_threads(std::move(options)));
}

} // namespace adapters
} // namespace umbo

#endif

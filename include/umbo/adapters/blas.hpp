// Threads of a BLAS and of OpenMP, of which each replica gets its share.
#ifndef UMBO_ADAPTERS_BLAS_HPP
#define UMBO_ADAPTERS_BLAS_HPP

#include <cstdint>
#include <utility>

#if defined(__unix__) || defined(__APPLE__)
#include <dlfcn.h>
#endif

#include <umbo/adapters/common.hpp>
#include <umbo/adapters/replica_choice.hpp>

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

inline int openmp_threads() {
#if defined(__unix__) || defined(__APPLE__)
    const auto now = reinterpret_cast<int (*)()>(dlsym(RTLD_DEFAULT, "omp_get_max_threads"));
    return now ? now() : 1;
#else
    return 1;
#endif
}

inline void set_openmp_threads(int threads) {
#if defined(__unix__) || defined(__APPLE__)
    const auto set = reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (set && openmp_threads() != threads) set(threads);
#else
    (void)threads;
#endif
}

// The numbers of threads that the program has set, or that its environment has: those before the first strategy which shares
// the processors anew.
struct most_threads {
    int openblas = openblas_threads(), openmp = openmp_threads();

    static const most_threads &of_program() {
        static const most_threads all;
        return all;
    }
};

// A strategy of this many replicas, each with its share of the processors for OpenMP's threads and OpenBLAS's, which an earlier
// strategy may have lowered. UMBO_AUTO: one for each processor. With `replicas_in_sync` each has one thread, since other numbers sum
// in other orders.
inline strategy strategy_with_shares(std::int64_t replicas, std::int64_t replicas_in_sync) {
    strategy_options options;
    options.cpu_replicas = replicas == UMBO_AUTO ? first_replicas(replicas_in_sync) : replicas;
    options.replicas_in_sync = replicas_in_sync;
    options.replica_thread_start = [most = most_threads::of_program(), replicas_in_sync](const umbo_replica_thread &thread) {
        const int share = replicas_in_sync > 0 ? 1 : thread.computing_thread_count;
        set_openmp_threads(share < most.openmp ? share : most.openmp);
        set_openblas_threads(share < most.openblas ? share : most.openblas);
    };
    return strategy::create(options);
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

// A strategy of this many replicas, with these threads set.
inline strategy blas_strategy(std::int64_t replicas) {
    strategy_options options;
    options.cpu_replicas = replicas;
    return strategy::create(with_blas_threads(std::move(options)));
}

} // namespace adapters
} // namespace umbo

#endif

// What the adapters of several engines need.
#ifndef UMBO_ADAPTERS_COMMON_HPP
#define UMBO_ADAPTERS_COMMON_HPP

#include <cstdint>
#include <fstream>
#include <limits>
#include <string>

#include <umbo/umbo.hpp>

#if defined(UMBO_NO_EXCEPTIONS)
#error "umbo/adapters need exceptions"
#endif

namespace umbo {
namespace adapters {

namespace common_detail {

// Throws UNIMPLEMENTED if a replica computes on a device other than a CPU.
inline void require_cpus(const strategy &on, const char *model) {
    const auto replicas = static_cast<std::int32_t>(on.local_replica_count());
    for (std::int32_t replica = 0; replica < replicas; ++replica) {
        const std::string device = on.compute_device(replica);
        if (device.find("CPU:") != std::string::npos) continue;
        throw error(status::unimplemented, std::string(model) + ": the strategy computes on " + device +
                                               "; this adapter needs a strategy of CPUs, such as strategy::create_cpu(2)");
    }
}

// The batch as an element of a distributed dataset, which it may be already.
inline value split_over(const strategy &on, const value &batch) {
    std::int64_t examples = 0;
    if (umbo_value_example_count(batch.get(), UMBO_ALL, &examples) == UMBO_OK) return batch;
    return on.split(batch);
}

// Restores a checkpoint with the integer "epochs", if there is such a file. The number of epochs that it has seen, or 0.
inline std::int64_t resume(const checkpoint &from, const std::string &path) {
    if (!std::ifstream(path)) return 0;
    from.restore(path);
    return from.integer("epochs");
}

// The mean of a metric over the steps of a pass; NaN where there was nothing, as a metric of a run has it.
class mean_of {
public:
    void add(const metric_result &step) {
        sum_ += step.sum;
        weight_ += step.weight;
    }
    double sum() const noexcept { return sum_; }
    double mean() const noexcept { return weight_ != 0 ? sum_ / weight_ : std::numeric_limits<double>::quiet_NaN(); }
    std::int64_t weight() const noexcept { return static_cast<std::int64_t>(weight_); }

private:
    double sum_ = 0, weight_ = 0;
};

} // namespace common_detail

} // namespace adapters
} // namespace umbo

#endif

// How many replicas share the processors, chosen by the time of the first steps.
#ifndef UMBO_ADAPTERS_REPLICA_CHOICE_HPP
#define UMBO_ADAPTERS_REPLICA_CHOICE_HPP

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <umbo/umbo.hpp>

namespace umbo {
namespace adapters {

namespace common_detail {

// The number of replicas for UMBO_AUTO: one for each processor, or with `replicas_in_sync` at most that many.
inline std::int64_t first_replicas(std::int64_t replicas_in_sync = 0) {
    const std::int64_t processors = std::min<std::int64_t>(processor_count(), 1024); // the most that a strategy has
    return replicas_in_sync > 0 ? std::min(processors, replicas_in_sync) : processors;
}

// The choice of a training whose number of replicas is UMBO_AUTO, by the rule of trainers (umbo_replica_choice_count).
class replica_choice {
public:
    // The first steps have this many replicas.
    explicit replica_choice(std::int64_t first_count = 1) : first_count_(first_count), replicas_(first_count), is_open_(first_count > 1) {}

    // The number of replicas for the next step.
    std::int64_t replicas() const noexcept { return replicas_; }
    bool is_open() const noexcept { return is_open_; }

    // The present number stays.
    void settle() noexcept { is_open_ = false; }

    // A step begins.
    void begin() {
        if (is_open_) begin_ = clock::now();
    }

    // The step has ended. `move_to(replicas)` lets the training continue with another number of replicas; where it throws, that has
    // changed nothing, and the number before stays. Returns whether it was called and has not thrown.
    template <class MoveTo>
    bool end(MoveTo move_to) {
        if (!is_open_) return false;
        const std::int64_t before = replicas_;
        if (!add(std::chrono::duration<double>(clock::now() - begin_).count())) return false;
        try {
            move_to(replicas_);
            return true;
        } catch (const umbo::error &refused) {
            stay(before, refused.what());
            return false;
        }
    }

    // A step with the present number took so long. Returns whether the next one is to have another.
    bool add(double seconds) {
        if (!is_open_) return false;
        seconds_.push_back(seconds);
        const auto next = replica_choice_count(first_count_, seconds_);
        const bool is_other = next.count != replicas_;
        replicas_ = next.count;
        is_open_ = !next.is_chosen;
        return is_other;
    }

    // This many stay, since others cannot be had; `why` says the reason.
    void stay(std::int64_t replicas, const std::string &why) {
        refused_ = "; " + std::to_string(replicas_) + (replicas_ == 1 ? " replica" : " replicas") + " cannot be had: " + why;
        replicas_ = replicas;
        is_open_ = false;
    }

    // What was tried and stays, or comes next, in words.
    std::string text() const { return replica_choice_text(first_count_, seconds_) + refused_; }

private:
    using clock = std::chrono::steady_clock;

    std::int64_t first_count_, replicas_;
    bool is_open_;
    clock::time_point begin_;
    std::vector<double> seconds_; // of the steps
    std::string refused_;
};

} // namespace common_detail

} // namespace adapters
} // namespace umbo

#endif

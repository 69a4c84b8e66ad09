// How many replicas share the processors, chosen by the time of the first steps.
#ifndef UMBO_ADAPTERS_REPLICA_CHOICE_HPP
#define UMBO_ADAPTERS_REPLICA_CHOICE_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace umbo {
namespace adapters {

namespace common_detail {

// Tries one replica for each processor first, then the next smaller divisors of their number, where a replica has more of the
// engine's threads, as long as steps become faster; the fastest stays. Where times are equal, more replicas stay. As a trainer
// chooses (umbo_trainer_options::replicas).
class replica_choice {
public:
    // The steps that are timed with each number of replicas, and those before them, in which threads and memory are new.
    static constexpr std::size_t timed = 24, untimed = 4;

    explicit replica_choice(std::int64_t processors) : all_(processors), replicas_(processors), is_open_(processors > 1) {}

    // The number of replicas for the next step.
    std::int64_t replicas() const noexcept { return replicas_; }
    bool is_open() const noexcept { return is_open_; }

    // The present number stays.
    void settle() noexcept { is_open_ = false; }

    // So many stay, since others cannot be had; `why` says the reason.
    void stay(std::int64_t replicas, const std::string &why) {
        refused_ = "; " + unit(replicas_) + " cannot be had: " + why;
        replicas_ = replicas;
        is_open_ = false;
    }

    // A step with the present number took so long. Returns whether the next one is to have another.
    bool add(double seconds) {
        if (!is_open_) return false;
        times_.push_back(seconds);
        if (times_.size() < untimed + timed) return false;
        const auto middle = times_.begin() + untimed + timed / 2;
        std::nth_element(times_.begin() + untimed, middle, times_.end());
        tried_.emplace_back(replicas_, *middle);
        times_.clear();
        const std::int64_t before = replicas_;
        replicas_ = next();
        return replicas_ != before;
    }

    // What was tried and stays, in words.
    std::string text() const {
        if (tried_.empty()) return unit(replicas_) + ": nothing was measured";
        std::string said = unit(replicas_) + (is_open_ ? " next" : "") + ": a step takes ";
        for (std::size_t at = 0; at < tried_.size(); ++at) {
            char time[32];
            std::snprintf(time, sizeof time, "%.3g ms", 1e3 * tried_[at].second);
            said += (at == 0 ? "" : ", ") + std::string(time) + " with " + unit(tried_[at].first);
        }
        return said + refused_;
    }

private:
    using try_of = std::pair<std::int64_t, double>;

    std::string unit(std::int64_t replicas) const {
        const std::int64_t threads = all_ / replicas;
        return std::to_string(replicas) + (replicas == 1 ? " replica of " : " replicas of ") + std::to_string(threads) +
               (threads == 1 ? " thread" : " threads");
    }

    std::int64_t next() {
        const try_of last = tried_.back();
        const auto slower = [](const try_of &a, const try_of &b) { return a.second < b.second; };
        const auto fastest = std::min_element(tried_.begin(), tried_.end() - 1, slower);
        const bool is_first = tried_.size() == 1;
        if (is_first || last.second <= 0.97 * fastest->second) {
            for (std::int64_t fewer = last.first - 1; fewer > 0; --fewer) {
                if (all_ % fewer == 0) return fewer;
            }
            is_open_ = false;
            return last.first;
        }
        is_open_ = false;
        return fastest->first;
    }

    std::int64_t all_, replicas_;
    bool is_open_;
    std::vector<double> times_;
    std::vector<try_of> tried_;
    std::string refused_;
};

} // namespace common_detail

} // namespace adapters
} // namespace umbo

#endif

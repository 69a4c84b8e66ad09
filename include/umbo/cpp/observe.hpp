// What steps spend their time on, and the trace.
#ifndef UMBO_CPP_OBSERVE_HPP
#define UMBO_CPP_OBSERVE_HPP

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include <umbo/cpp/strategy.hpp>

UMBO_DETAIL_BEGIN

// Why steps are not faster, as a text for people and as causes for programs.
struct step_report {
    std::string text;
    std::int32_t causes = 0; // those of `step_cause`, added up

    bool names(step_cause cause) const noexcept {
        return (causes & static_cast<std::int32_t>(to_c(cause))) != 0;
    }
};

// Has the steps of `of` measured from now on, or not any more.
inline returned<void> measure_steps(const strategy &of, bool measure = true) {
    return check(umbo_strategy_measure_steps(of.get(), measure ? 1 : 0));
}

inline returned<step_report> report_steps(const strategy &of) {
    step_report report;
    std::string text(4096, '\0');
    std::size_t length = 0;
    umbo_status found = UMBO_STATUS_OUT_OF_RANGE;
    // The text may become longer from call to call while steps are taken.
    for (int attempt = 0; attempt < 8 && found == UMBO_STATUS_OUT_OF_RANGE; ++attempt) {
        if (length >= text.size()) text.resize(2 * length);
        found = umbo_strategy_step_report(of.get(), &report.causes, &text[0], text.size(), &length);
    }
    UMBO_DETAIL_TRY(found);
    text.resize(length);
    report.text = std::move(text);
    return report;
}

inline returned<umbo_step_times> step_times(const strategy &of, std::int32_t replica) {
    auto times = detail::sized<umbo_step_times>();
    UMBO_DETAIL_TRY(umbo_strategy_step_times(of.get(), replica, &times));
    return times;
}

// How many events a trace has, and how many there were too many.
struct trace_account {
    std::int64_t events = 0;
    std::int64_t dropped = 0;
};

inline returned<void> start_trace(const std::string &path, std::int64_t most_events = 4000000) {
    auto options = umbo_trace_options_default();
    options.most_events = most_events;
    return check(umbo_trace_start(path.c_str(), &options));
}

inline returned<trace_account> stop_trace() {
    trace_account account;
    UMBO_DETAIL_TRY(umbo_trace_stop(&account.events, &account.dropped));
    return account;
}

// A span of the program's own in the trace, from the constructor to the destructor.
class trace_span {
public:
    explicit trace_span(const char *name) noexcept { umbo_ignore(umbo_trace_span_begin(name)); }
    trace_span(const trace_span &) = delete;
    trace_span &operator=(const trace_span &) = delete;
    ~trace_span() { umbo_ignore(umbo_trace_span_end()); }
};

UMBO_DETAIL_END

#endif

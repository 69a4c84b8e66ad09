// Why steps are not faster, and the trace.
#ifndef UMBO_CPP_OBSERVE_HPP
#define UMBO_CPP_OBSERVE_HPP

#include <cstdint>
#include <string>

#include <umbo/cpp/error.hpp>
#include <umbo/diagnose.h>

UMBO_DETAIL_BEGIN

// Why steps are not faster, as a text for people and as causes for programs.
struct step_report {
    std::string text;
    std::int32_t causes = 0; // those of `step_cause`, added up

    bool names(step_cause cause) const noexcept {
        return (causes & static_cast<std::int32_t>(to_c(cause))) != 0;
    }
};

// How many events a trace has, and how many there were too many.
struct trace_account {
    std::int64_t event_count = 0;
    std::int64_t dropped_count = 0;
};

inline returned<void> trace_start(const std::string &path, std::int64_t max_events = 4000000) {
    umbo_trace_options options = UMBO_TRACE_OPTIONS_INIT;
    options.max_events = max_events;
    return check(umbo_trace_start(path.c_str(), &options));
}

inline returned<trace_account> trace_stop() {
    trace_account account;
    UMBO_DETAIL_TRY(umbo_trace_stop(&account.event_count, &account.dropped_count));
    return account;
}

// A span in the trace, from the constructor to the destructor.
class trace_span {
public:
    explicit trace_span(const char *name) noexcept { umbo_trace_span_begin(name); }
    trace_span(const trace_span &) = delete;
    trace_span &operator=(const trace_span &) = delete;
    ~trace_span() { umbo_trace_span_end(); }
};

UMBO_DETAIL_END

#endif

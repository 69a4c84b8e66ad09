// What steps spend their time on, and the trace, from C++.
#include <umbo/umbo.hpp>

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

#include "../c/check.h"

namespace {

void reports(const umbo::strategy &strategy) {
    strategy.measure_steps();
    for (int step = 0; step < 40; ++step) strategy.run([](umbo::replica_context &, const umbo::value &) {});
    const auto report = strategy.step_report();
    CHECK(report.text.find("replica 1") != std::string::npos);
    CHECK(!report.names(umbo::step_cause::update) && !report.names(umbo::step_cause::input));
    const auto times = strategy.step_times(1);
    CHECK(times.measured_step_count > 0 && times.step_count == 40 && times.step > 0);
    strategy.measure_steps(false);
}

void traces(const umbo::strategy &strategy) {
    const char *path = "test_observe_cpp_trace.json";
    umbo::trace_start(path);
    {
        umbo::trace_span epoch("an epoch");
        strategy.run([](umbo::replica_context &, const umbo::value &) { umbo::trace_span inside("forward"); });
    }
    const auto account = umbo::trace_stop();
    CHECK(account.event_count > 4 && account.dropped_count == 0);
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    CHECK(text.str().find("\"an epoch\"") != std::string::npos);
    CHECK(text.str().find("\"forward\"") != std::string::npos);
    CHECK(std::remove(path) == 0);
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create_cpu(2);
        reports(strategy);
        traces(strategy);
    }
    return finish();
}

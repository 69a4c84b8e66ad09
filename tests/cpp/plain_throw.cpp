// A C++ exception that leaves a callback of the plain C interface stops the process with a
// message: it must neither vanish nor unwind through the library. (umbo.hpp's callables may throw.)
#include <umbo/umbo.h>

#include <stdexcept>

namespace {

umbo_status throwing(umbo_replica_context *, const umbo_value *, void *, umbo_value **) {
    throw std::runtime_error("crosses the border");
}

}  // namespace

int main() {
    umbo_strategy_options options = UMBO_STRATEGY_OPTIONS_INIT;
    umbo_strategy *strategy = nullptr;
    options.cpu_replicas = 2;
    if (umbo_strategy_create(&options, &strategy) != UMBO_OK) return 1;
    umbo_ignore(umbo_strategy_run(strategy, throwing, nullptr, nullptr, nullptr, nullptr));
    return 0;
}

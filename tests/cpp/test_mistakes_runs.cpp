// Mistakes in setting up a strategy and in running steps.
#include <atomic>
#include <memory>
#include <stdexcept>
#include <thread>

#include "mistakes.hpp"

namespace {

using context = umbo::replica_context;
using umbo::tensor;
using umbo::value;

struct world {
    umbo::strategy strategy = two_replicas();
    tensor one = tensor::scalar(1.0f);
    tensor ones = tensor::create_zeros(umbo::dtype::float32, {2});
    value pair = value::create_per_replica({one, one});
};

void create_over(std::vector<std::string> devices, std::int32_t replicas = 0) {
    umbo::strategy_options how;
    how.compute_devices = std::move(devices);
    how.cpu_replicas = replicas;
    umbo::strategy::create(how);
}

std::vector<mistake> mistakes() {
    // A world for each mistake, so that none meets what another has left.
    return {
        {"a run inside of a run", umbo::status::failed_precondition,
         {"umbo_strategy_run", "replica 0 (", "CPU:0)", "replica 1 (", "CPU:1)", "use a merge call"},
         [] {
             const world at;
             at.strategy.run([&](context &, const value &) {
                 at.strategy.run([](context &, const value &) {});
             });
         }},
        {"a reduction in a replica's callback", umbo::status::failed_precondition,
         {"umbo_strategy_reduce", "replica 0's callback", "CPU:1", "use an all-reduce or a merge call"},
         [] {
             const world at;
             at.strategy.run([&](context &, const value &) {
                 at.strategy.reduce(at.ones, umbo::reduce_op::sum);
             });
         }},
        {"a gather in a replica's callback", umbo::status::failed_precondition,
         {"umbo_strategy_gather", "replica 0's callback", "CPU:1", "use an all-gather or a merge call"},
         [] {
             const world at;
             at.strategy.run([&](context &, const value &) {
                 at.strategy.gather(at.ones, 0);
             });
         }},
        {"an all-reduce of different shapes", umbo::status::invalid_argument,
         {"all_reduce SUM", "value", "replica 0 [2]", "replica 1 [3]", "give it tensors of one shape"},
         [] {
             const world at;
             at.strategy.run([](context &own, const value &) {
                 own.all_reduce(tensor::create_zeros(umbo::dtype::float32, {own.replica_id() + 2}), umbo::reduce_op::sum);
             });
         }},
        {"an all-gather of different widths", umbo::status::invalid_argument,
         {"all_gather along axis 0", "value", "replica 0 [2, 2]", "replica 1 [2, 3]", "can be gathered along axis 1"},
         [] {
             const world at;
             at.strategy.run([](context &own, const value &) {
                 own.all_gather(tensor::create_zeros(umbo::dtype::float32, {2, own.replica_id() + 2}), 0);
             });
         }},
        {"a merge call on one replica only", umbo::status::failed_precondition,
         {"the replicas disagree about merge calls", "replica 0 waits in its synchronising call 1, merge_call",
          "replica 1 has returned", "all replicas must make the same synchronising calls in the same order"},
         [] {
             const world at;
             at.strategy.run([](context &own, const value &) {
                 if (own.replica_id() == 0) own.merge_call([](umbo::strategy &, const value &) {});
             });
         }},
        {"different operations at one place", umbo::status::failed_precondition,
         {"the replicas disagree about merge calls", "replica 0 waits in its synchronising call 1, all_reduce SUM",
          "replica 1 waits in its synchronising call 1, all_gather along axis 0",
          "all replicas must make the same synchronising calls in the same order"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 if (own.replica_id() == 0) own.all_reduce(at.one, umbo::reduce_op::sum);
                 else own.all_gather(at.ones, 0);
             });
         }},
        {"different reductions at one place", umbo::status::failed_precondition,
         {"the replicas disagree about merge calls", "all_reduce SUM; replica 1", "all_reduce MEAN",
          "all replicas must make the same synchronising calls in the same order"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.all_reduce(at.one, own.replica_id() == 0 ? umbo::reduce_op::sum : umbo::reduce_op::mean);
             });
         }},
        {"different merge functions at one place", umbo::status::failed_precondition,
         {"the replicas disagree about merge calls",
          "replica 0 waits in its synchronising call 1, merge_call of the function at", "replica 1 waits",
          "all replicas must make the same synchronising calls in the same order"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 if (own.replica_id() == 0) own.merge_call([](umbo::strategy &, const value &) {});
                 else own.merge_call([&](umbo::strategy &, const value &) { static_cast<void>(at.one.get()); });
             });
         }},
        {"a callback that throws", umbo::status::unknown,
         {"row 7 of 5", "replica 1", "CPU:1", "7 of 5"},
         [] {
             const world at;
             at.strategy.run([](context &own, const value &) {
                 if (own.replica_id() == 1) throw std::out_of_range("row 7 of 5");
             });
         }},
        {"a callback that throws what is no exception", umbo::status::unknown,
         {"a C++ exception", "replica 1", "CPU:1", "not a std::exception"},
         [] {
             const world at;
             at.strategy.run([](context &own, const value &) {
                 if (own.replica_id() == 1) throw 7;
             });
         }},
        {"arguments for fewer replicas", umbo::status::invalid_argument,
         {"umbo_strategy_run", "args", "1 components", "for 2 replicas"},
         [] {
             const world at;
             at.strategy.run([](context &, const value &) {}, value::create_per_replica({at.one}));
         }},
        {"a result of some replicas only", umbo::status::invalid_argument,
         {"umbo_strategy_run", "result", "1 of 2 replicas", "all or none must"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 return own.replica_id() == 0 ? value(at.one) : value();
             });
         }},
        {"results of different structure", umbo::status::invalid_argument,
         {"umbo_strategy_run", "result", "a tensor of 1 on replica 0", "a tuple of 1 on replica 1",
          "the structures differ"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 return own.replica_id() == 0 ? value(at.one) : value::create_tuple({at.one});
             });
         }},
        {"a context that is kept", umbo::status::invalid_argument,
         {"umbo_replica_context_get_info", "ctx", "a callback that has returned", "keep a reference of your own"},
         [] {
             const world at;
             umbo_replica_context *kept = nullptr;
             at.strategy.run([&](context &own, const value &) {
                 if (own.replica_id() == 0) kept = own.get();
             });
             context(kept).replica_id();
         }},
        {"arguments that are kept", umbo::status::invalid_argument,
         {"umbo_value_view", "value", "a callback that has returned", "keep a reference of your own"},
         [] {
             const world at;
             const umbo_value *kept = nullptr;
             at.strategy.run([&](context &own, const value &args) {
                 if (own.replica_id() == 0) kept = args.get();
             }, at.pair);
             umbo_view view{};
             umbo::check(umbo_value_view(kept, nullptr, UMBO_DTYPE_NONE, &view));
         }},
        {"a context on another thread", umbo::status::failed_precondition,
         {"umbo_replica_context_add_metric", "ctx", "replica 0", "CPU:0", "to another thread"},
         [] {
             const world at;
             at.strategy.run([](context &own, const value &) {
                 if (own.replica_id() != 0) return;
                 std::string said;
                 std::thread([&] {
                     try {
                         own.add_metric("loss", 1, 1);
                     } catch (const umbo::error &error) {
                         said = error.what();
                     }
                 }).join();
                 if (!said.empty()) throw umbo::error(umbo::status::failed_precondition, said);
             });
         }},
        {"a run that is late", umbo::status::deadline_exceeded,
         {"the run's deadline", "replica 1 (", "CPU:1", "still in its callback", "give it more time",
          "ask whether to stop"},
         [] {
             const world at;
             // Whose time is over before replica 1 is called is not late, but too early.
             for (double seconds = 0.05;; seconds *= 2) {
                 umbo::run_options how;
                 how.timeout_seconds = seconds;
                 const auto begun = std::make_shared<std::atomic<bool>>(false);
                 const auto go = std::make_shared<std::atomic<bool>>(false);
                 const auto wait = [begun, go](context &own, const value &) {
                     if (own.replica_id() != 1) return;
                     *begun = true;
                     while (!*go) std::this_thread::yield();
                 };
                 try {
                     at.strategy.run(wait, value(), how);
                 } catch (const umbo::error &error) {
                     const std::string said = error.what();
                     const bool was_late = *begun;
                     *go = true;
                     at.strategy.synchronize();
                     if (was_late) throw umbo::error(error.status(), said);
                 }
             }
         }},
        {"a run without time", umbo::status::deadline_exceeded,
         {"the run's deadline", "umbo_strategy_run", "before its callbacks were called", "give it more time"},
         [] {
             const world at;
             umbo::run_options how;
             how.timeout_seconds = 0;
             at.strategy.run([](context &, const value &) {}, value(), how);
         }},
        {"a token that is used up", umbo::status::cancelled,
         {"umbo_strategy_run", "was cancelled", "give another run a new one"},
         [] {
             const world at;
             umbo::run_options how;
             how.cancellation = umbo::cancellation::create();
             how.cancellation.cancel();
             at.strategy.run([](context &, const value &) {}, value(), how);
         }},
        {"a deadline inside of a merge call", umbo::status::invalid_argument,
         {"options", "inside of a merge call", "give that one the deadline"},
         [] {
             const world at;
             at.strategy.run([&](context &own, const value &) {
                 own.merge_call([](umbo::strategy &all, const value &) {
                     umbo::run_options how;
                     how.timeout_seconds = 1;
                     all.run([](context &, const value &) {}, value(), how);
                 });
             });
         }},
        {"scopes that are left in the wrong order", umbo::status::failed_precondition,
         {"umbo_scope_exit", "scope", "not the innermost one", "left in the reverse order"},
         [] {
             const world at;
             auto outer = umbo::scope::enter(at.strategy);
             auto inner = umbo::scope::enter(at.strategy);
             try {
                 outer.exit();
             } catch (const umbo::error &) {
                 const std::string said = umbo_last_error_message();
                 inner.exit();
                 throw umbo::error(umbo::status::failed_precondition, said);
             }
         }},
        {"a scope that is left twice", umbo::status::invalid_argument,
         {"umbo_scope_exit", "scope", "was released", "keep a reference"},
         [] {
             const world at;
             auto scope = umbo::scope::enter(at.strategy);
             umbo_scope *const raw = scope.get();
             scope.exit();
             umbo::check(umbo_scope_exit(raw));
         }},
        {"a negative number of replicas", umbo::status::invalid_argument,
         {"umbo_strategy_create", "options.cpu_replicas", "-2", "0 or more"},
         [] { create_over({}, -2); }},
        {"a device that there is not", umbo::status::not_found,
         {"umbo_strategy_create", "compute_devices", "CPU:77", "CPU:0 to CPU:",
          "set the number of logical CPUs to 78"},
         [] { create_over({"CPU:0", "CPU:77"}); }},
        {"a device that is no name", umbo::status::invalid_argument,
         {"parameter_device", "'the large one'", "as in 'CPU:0'"},
         [] {
             umbo::strategy_options how;
             how.parameter_device = "the large one";
             umbo::strategy::create(how);
         }},
        {"a device twice", umbo::status::invalid_argument,
         {"compute_devices", "CPU:0 appears twice", "the CPU can be split into more logical devices"},
         [] { create_over({"CPU:0", "CPU:0"}); }},
        {"devices and a number of them", umbo::status::invalid_argument,
         {"cpu_replicas", "together with compute_devices", "give one of the two"},
         [] { create_over({"CPU:0"}, 2); }},
        {"a function that is NULL", umbo::status::invalid_argument,
         {"umbo_strategy_run", "function", "is NULL", "a function is expected"},
         [] {
             const world at;
             umbo_value *out = nullptr;
             umbo::check(umbo_strategy_run(at.strategy.get(), nullptr, nullptr, nullptr, nullptr, &out));
         }},
        {"a metric that nobody added", umbo::status::not_found,
         {"umbo_strategy_metric_result", "name", "'accuracy'", "the metrics are 'loss'"},
         [] {
             const world at;
             at.strategy.run([](context &own, const value &) { own.add_metric("loss", 1, 1); });
             at.strategy.metric_result("accuracy");
         }},
        {"synchronising inside of a run", umbo::status::failed_precondition,
         {"umbo_strategy_synchronize", "inside of a run", "replica 1 (", "synchronise outside of runs"},
         [] {
             const world at;
             at.strategy.run([&](context &, const value &) { at.strategy.synchronize(); });
         }},
        {"several steps at once", umbo::status::unimplemented,
         {"umbo_strategy_run_steps_on_iterator", "this strategy", "call umbo_strategy_run for each element"},
         [] {
             const world at;
             const auto input = umbo::dataset::from_range(0, 4).iterate();
             umbo::tensorflow::run_steps_on_iterator(
                 at.strategy, [](context &, const value &) {}, input, 2);
         }},
        {"a step with a struct from another header", umbo::status::invalid_argument,
         {"umbo_strategy_run", "options", "struct_size is 0", "UMBO_RUN_OPTIONS_INIT or UMBO_OPTIONS(umbo_run, ...)"},
         [] {
             const world at;
             umbo_run_options options{};
             umbo_value *out = nullptr;
             umbo::check(umbo_strategy_run(
                 at.strategy.get(),
                 [](umbo_replica_context *, const umbo_value *, void *, umbo_value **) -> umbo_status {
                     return UMBO_OK;
                 },
                 nullptr, nullptr, &options, &out));
         }},
        {"a run by another name inside of a run", umbo::status::failed_precondition,
         {"umbo_strategy_run", "replica 0's callback", "CPU:1", "use a merge call"},
         [] {
             const world at;
             at.strategy.run([&](context &, const value &) {
                 umbo::tensorflow::call_for_each_replica(at.strategy,
                                                         [](context &, const value &) {});
             });
         }},
        {"a call for each replica with too few arguments", umbo::status::invalid_argument,
         {"umbo_strategy_run", "args", "1 components", "for 2 replicas"},
         [] {
             const world at;
             umbo::tensorflow::call_for_each_replica(
                 at.strategy, [](context &, const value &) {}, value::create_per_replica({at.one}));
         }},
    };
}

} // namespace

int main() {
    judge(mistakes());
    return finish();
}

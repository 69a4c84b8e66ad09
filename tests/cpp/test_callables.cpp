// Every function that takes a callable takes each kind of callable, also those that can only be moved.
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "callables/crossing.hpp"
#include "callables/input.hpp"
#include "callables/steps.hpp"
#include "callables/training.hpp"

namespace {

using namespace callables;

// What is kept and can only be moved is not taken out of a name unasked.
void needs_a_copy(const world &on) {
    auto step = [own = std::make_unique<int>(7)](umbo::replica_context &, const value &) { ++calls; };
    umbo::run_options of_run;
    of_run.timeout_seconds = 3600;
    umbo::train_epoch_options of_epoch;
    of_epoch.cancellation = umbo::cancellation::create();
    const auto batches = on.batches();
    const int before = calls;
    for (const bool epoch : {false, true}) {
        try {
            if (epoch) {
                umbo::train_epoch(on.strategy, batches, {}, {}, step, of_epoch);
            } else {
                on.strategy.run(step, {}, of_run);
            }
            CHECK(false);
        } catch (const umbo::error &error) {
            CHECK(error.status() == umbo::status::invalid_argument);
            CHECK(std::string(error.what()).find("std::move(callable)") != std::string::npos);
        }
    }
    CHECK(calls == before);
}

// An engine that can only be moved.
struct engine {
    std::unique_ptr<int> own = std::make_unique<int>(7);

    void all_to_all(const std::size_t *, const void *, const std::size_t *, void *) { CHECK(*own == 7); }
    void all_gather(const std::size_t *, const void *, void *) { ++calls; }
};

void engines() {
    const auto communicator = umbo::communicator::create({}, engine());
    const double sent = 0;
    double received = 0;
    const int before = calls;
    communicator.all_gather({sizeof(received)}, &sent, &received);
    CHECK(calls == before + 1);
}

// Nothing to call is no callable, in whatever form.
void nothing_to_call() {
    using function = umbo::shared_function<int(int)>;
    CHECK(!function() && !function(nullptr) && !function(std::function<int(int)>()));
    int (*const pointer)(int) = nullptr;
    CHECK(!function(pointer));
    function counts = [count = std::make_unique<int>(0)](int by) { return *count += by; };
    const function same = counts;
    CHECK(counts(2) == 2 && same(3) == 5);
    counts = nullptr;
    CHECK(!counts && same(1) == 6);
}

} // namespace

int main() {
    {
        const auto on = world::make();
        cross<run, run_with_options, run_with_deadline, run_with_token, train_epoch, train_epoch_with_deadline,
              evaluate, check_equivalence, call_for_each_replica>(on);
        cross<merge_call, scope, colocate, update, update_non_slot, values_from_function, initializer, creator>(on);
        cross<map, filter, generator_begin, open_file, open_numbered_file, from_function>(on);
        cross<rule, rule_with_gpu, schedule, with_average, progress, map_name, log_sink>(on);
        cross<learn_epoch, learn_step, learn_evaluate>(on);
        needs_a_copy(on);
        engines();
        nothing_to_call();
    }
    cross<thread_start, thread_stop>({}); // threads can be ended while there is no strategy
    umbo::clear_last_error();
    return finish();
}

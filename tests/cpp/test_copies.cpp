// What becomes of callables: functions that wait for them neither copy nor move them nor allocate memory for them, and
// where a call may come late the library owns the callable.
#include <umbo/tensorflow.hpp>

#include <atomic>
#include <cstdlib>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

std::atomic<int> allocations{0}, copies{0}, moves{0}, alive{0}, calls{0};

} // namespace

// Not inlined: GCC would see memory of `new` that goes to `free`, and warn.
__attribute__((noinline)) void *operator new(std::size_t bytes) {
    ++allocations;
    if (void *memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
    throw std::bad_alloc();
}
__attribute__((noinline)) void operator delete(void *memory) noexcept { std::free(memory); }
__attribute__((noinline)) void operator delete(void *memory, std::size_t) noexcept { std::free(memory); }

namespace {

// A callable for all functions, which says what is done with it.
struct counted {
    explicit counted(int number_) : number(number_) { ++alive; }
    counted(const counted &other) : number(other.number) { ++copies, ++alive; }
    counted(counted &&other) noexcept : number(std::exchange(other.number, -1)) { ++moves, ++alive; }
    counted &operator=(const counted &) = delete;
    ~counted() {
        number = -1;
        --alive;
    }

    template <class... Arguments>
    void operator()(Arguments &&...) const {
        CHECK(number == 7);
        ++calls;
    }

    int number;
};

void start() { allocations = copies = moves = calls = 0; }

// Calls a function with a callable that has a name, one that is const, and a temporary.
template <class Use>
void copies_nothing(int expected_calls, Use use) {
    counted named(7);
    const counted constant(7);
    start();
    use(named);
    use(constant);
    use(counted(7));
    CHECK(copies == 0 && moves == 0 && calls == 3 * expected_calls && alive == 2);
    CHECK(allocations == 0);
}

struct makes_dataset : counted {
    using counted::counted;
    umbo::dataset source = umbo::dataset::from_range(0, 2);

    umbo::dataset operator()(const umbo::input_context &) const {
        ++calls;
        return source;
    }
};

void waiting_functions(const umbo::strategy &strategy) {
    const auto weight = strategy.create_variable("w", umbo::tensor::scalar(3.0f));
    const auto batches = strategy.distribute_dataset(umbo::dataset::from_range(0, 4).batch(2)).iterate();
    const umbo::value batch = umbo::tensor::from_vector(std::vector<float>{1, 2, 4});
    const umbo::run_options no_limits;
    const auto averaging = umbo::optimizer::sgd(strategy);
    umbo::optimizer_options how;
    how.average = umbo::average::mean;
    averaging.configure(how);
    copies_nothing(2, [&](auto &&fn) { strategy.run(std::forward<decltype(fn)>(fn)); });
    copies_nothing(2, [&](auto &&fn) { strategy.run(std::forward<decltype(fn)>(fn), batch); });
    copies_nothing(2, [&](auto &&fn) { strategy.run(std::forward<decltype(fn)>(fn), {}, no_limits); });
    copies_nothing(1, [&](auto &&fn) {
        strategy.run([&](umbo::replica_context &context, const umbo::value &) {
            context.merge_call(std::forward<decltype(fn)>(fn));
        });
    });
    copies_nothing(4, [&](auto &&fn) {
        umbo::train_epoch(strategy, batches, {}, {}, std::forward<decltype(fn)>(fn));
    });
    copies_nothing(4, [&](auto &&fn) { umbo::evaluate(strategy, batches, std::forward<decltype(fn)>(fn)); });
    copies_nothing(1, [&](auto &&fn) { strategy.scope(std::forward<decltype(fn)>(fn)); });
    copies_nothing(1, [&](auto &&fn) { averaging.with_average(std::forward<decltype(fn)>(fn)); });
    copies_nothing(1, [&](auto &&fn) { strategy.update(weight, std::forward<decltype(fn)>(fn)); });
    copies_nothing(2, [&](auto &&fn) {
        umbo::tensorflow::call_for_each_replica(strategy, std::forward<decltype(fn)>(fn));
    });
    copies_nothing(1, [&](auto &&fn) {
        umbo::tensorflow::update_non_slot(strategy, weight, std::forward<decltype(fn)>(fn));
    });
    copies_nothing(1, [&](auto &&fn) {
        strategy.create_variable("v", umbo::dtype::float32, {2, 3}, std::forward<decltype(fn)>(fn));
    });
    // Reading a variable and returning a number take no memory of C++ either.
    start();
    const auto read = strategy.run([&](umbo::replica_context &context, const umbo::value &) { return context.read<float>(weight)(); });
    CHECK(allocations == 0 && read);
    // Those whose callable returns something, and that of which the number of calls is the library's.
    counted named(7);
    makes_dataset source(7);
    start();
    strategy.values_from_function([&named](const umbo_value_context &context) {
        named(context);
        return 1.0f;
    });
    strategy.distribute_datasets_from_function(source);
    strategy.check_equivalence(named, batch);
    CHECK(copies == 0 && moves == 0 && calls > 4 && alive == 2);
}

// A deadline or a token: the library owns what it calls until the last call is back.
template <class Run>
void owned(Run run, int expected_calls) {
    {
        counted named(7);
        start();
        run(named);
        CHECK(copies == 1 && moves == 0 && calls == expected_calls && alive == 1);
        run(std::ref(named));
        CHECK(copies == 1 && moves == 0 && calls == 2 * expected_calls && alive == 1);
    }
    start();
    run(counted(7));
    CHECK(copies == 0 && moves == 1 && calls == expected_calls && alive == 0);
}

void limits(const umbo::strategy &strategy) {
    const auto batches = strategy.distribute_dataset(umbo::dataset::from_range(0, 4).batch(2)).iterate();
    umbo::run_options deadline, token;
    deadline.timeout_seconds = 3600;
    token.cancellation = umbo::cancellation::create();
    umbo::train_epoch_options epoch;
    epoch.timeout_seconds = 3600;
    owned([&](auto &&fn) { strategy.run(std::forward<decltype(fn)>(fn), {}, deadline); }, 2);
    owned([&](auto &&fn) { strategy.run(std::forward<decltype(fn)>(fn), {}, token); }, 2);
    owned([&](auto &&fn) { umbo::train_epoch(strategy, batches, {}, {}, std::forward<decltype(fn)>(fn), epoch); }, 4);
}

// A call that is late uses a callable whose name is gone.
template <class Run>
void late_call(const umbo::strategy &strategy, Run run) {
    std::atomic<bool> go_on{false}, is_late{false};
    struct late_step : counted {
        late_step(std::atomic<bool> &go_on_, std::atomic<bool> &is_late_) : counted(7), go_on(&go_on_), is_late(&is_late_) {}
        void operator()(umbo::replica_context &context, const umbo::value &element) const {
            if (context.replica_id() == 1) {
                *is_late = true;
                while (!*go_on) std::this_thread::yield();
            }
            counted::operator()(context, element);
        }
        std::atomic<bool> *go_on, *is_late;
    };
    start();
    {
        const late_step step(go_on, is_late);
        try {
            run(step);
            CHECK(false);
        } catch (const umbo::error &error) {
            CHECK(error.status() == umbo::status::deadline_exceeded);
        }
    }
    CHECK(copies == 1);
    if (is_late) CHECK(alive == 1 && strategy.late_replica_count() == 1);
    go_on = true;
    strategy.synchronize();
    CHECK(alive == 0 && strategy.late_replica_count() == 0 && (!is_late || calls > 0));
}

void late_calls(const umbo::strategy &strategy) {
    const auto batches = strategy.distribute_dataset(umbo::dataset::from_range(0, 4).batch(2)).iterate();
    umbo::run_options of_run;
    of_run.timeout_seconds = 0.2;
    umbo::train_epoch_options of_epoch;
    of_epoch.timeout_seconds = 0.2;
    late_call(strategy, [&](const auto &step) { strategy.run(step, {}, of_run); });
    late_call(strategy, [&](const auto &step) { umbo::train_epoch(strategy, batches, {}, {}, step, of_epoch); });
}

// The trainer has no place to keep a callable: it waits for the late call of a temporary, and of a function.
double learn_late(const umbo::rows &rows) {
    while (rows.replica_id() == 1 && !rows.context().is_cancelled()) std::this_thread::yield();
    ++calls;
    return 0;
}

void late_learning() {
    std::vector<float> weights(2);
    umbo::trainer_options how;
    how.replicas = 2;
    how.timeout_seconds = 0.2;
    const auto trainer = umbo::trainer::create({umbo::parameters(weights)}, how);
    const counted witness(7);
    const auto is_late = [&](auto call) {
        start();
        try {
            call();
            CHECK(false);
        } catch (const umbo::error &error) {
            CHECK(error.status() == umbo::status::deadline_exceeded);
        }
        CHECK(alive == 1 && trainer.strategy().late_replica_count() == 0);
    };
    const auto temporary = [&] {
        return [kept = witness](const umbo::rows &rows) {
            const double loss = learn_late(rows);
            CHECK(kept.number == 7); // it is still there
            return loss;
        };
    };
    is_late([&] { trainer.epoch(4, 2, temporary()); });
    is_late([&] { trainer.step(0, 2, temporary()); });
    is_late([&] { trainer.evaluate(4, 2, temporary()); });
    is_late([&] { trainer.step(0, 2, learn_late); });
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create_cpu(2);
        waiting_functions(strategy);
        limits(strategy);
        late_calls(strategy);
        late_learning();
    }
    CHECK(alive == 0);
    umbo::clear_last_error();
    return finish();
}

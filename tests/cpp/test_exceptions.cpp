// Exceptions: out of callables, through the C border, into the caller's thread.
#include <umbo/umbo.hpp>
#include <umbo/umbo.hpp> // a second time changes nothing

#include <memory>
#include <stdexcept>
#include <string>

#include "../c/check.h"

namespace {

struct trouble : std::runtime_error {
    trouble(int where, std::shared_ptr<int> witness)
        : std::runtime_error("trouble"), where(where), witness(std::move(witness)) {}
    int where;
    std::shared_ptr<int> witness; // the very object arrives, not a copy of its text
};

struct own_error : umbo::error {
    using umbo::error::error;
};

bool contains(const std::string &text, const std::string &words) {
    return text.find(words) != std::string::npos;
}

template <class Exception, class Body, class Handler>
void expect(Body body, Handler handler) {
    bool caught = false;
    try {
        body();
    } catch (const Exception &exception) {
        caught = true;
        handler(exception);
    }
    CHECK(caught);
}

void from_run(const umbo::strategy &strategy) {
    const auto witness = std::make_shared<int>(7);
    const trouble *thrown = nullptr;
    expect<trouble>(
        [&] {
            strategy.run([&](umbo::replica_context &context, const umbo::value &) {
                if (context.replica_id() != 2) return;
                try {
                    throw trouble(2, witness);
                } catch (const trouble &exception) {
                    thrown = &exception;
                    throw;
                }
            });
        },
        [&](const trouble &caught) {
            CHECK(caught.where == 2 && caught.witness == witness && &caught == thrown);
        });
    umbo::clear_last_error();
    CHECK(witness.use_count() == 1); // nobody keeps it
    // With several, the first in replica order.
    expect<trouble>(
        [&] {
            strategy.run([&](umbo::replica_context &context, const umbo::value &) {
                const int id = context.replica_id();
                if (id != 0) throw trouble(id, witness);
            });
        },
        [](const trouble &caught) { CHECK(caught.where == 1); });
    // Those that wait in a merge call are only stopped: theirs is not the one.
    expect<trouble>(
        [&] {
            strategy.run([&](umbo::replica_context &context, const umbo::value &) {
                if (context.replica_id() == 2) throw trouble(2, witness);
                context.merge_call([](umbo::strategy &, const umbo::value &) {});
            });
        },
        [](const trouble &caught) { CHECK(caught.where == 2); });
    umbo::clear_last_error();
    CHECK(witness.use_count() == 1);
}

void anything_can_be_thrown(const umbo::strategy &strategy) {
    bool caught = false;
    try {
        strategy.run([](umbo::replica_context &context, const umbo::value &) {
            if (context.replica_id() == 0) throw 42;
        });
    } catch (int number) {
        caught = number == 42;
    }
    CHECK(caught);
    expect<own_error>(
        [&] {
            strategy.run([](umbo::replica_context &, const umbo::value &) {
                throw own_error(umbo::status::aborted, "mine");
            });
        },
        [](const own_error &error) { CHECK(error.status() == umbo::status::aborted); });
}

// What the library says on a replica comes back with the replica's name.
void from_the_library(const umbo::strategy &strategy) {
    expect<umbo::error>(
        [&] {
            strategy.run([](umbo::replica_context &context, const umbo::value &args) {
                if (context.replica_id() == 1) args.view("absent");
            }, umbo::value::create_struct({{"x", umbo::tensor::scalar(1.0f)}}));
        },
        [](const umbo::error &error) {
            CHECK(error.status() == umbo::status::not_found);
            CHECK(contains(error.what(), "replica 1") && contains(error.what(), "'absent'"));
            CHECK(error.records().size() == 1);
            CHECK(error.records()[0].replica == 1);
            CHECK(contains(error.records()[0].device, "/device:CPU:"));
        });
    expect<umbo::error>([] { umbo::device_get_info("foo"); },
                        [](const umbo::error &error) {
                            CHECK(error.status() == umbo::status::invalid_argument);
                            CHECK(contains(error.what(), "foo"));
                        });
}

void from_other_callables(const umbo::strategy &strategy) {
    const auto witness = std::make_shared<int>(0);
    const auto same = [&](const trouble &caught) { CHECK(caught.witness == witness); };
    expect<trouble>(
        [&] { strategy.scope([&](umbo::strategy &) { throw trouble(0, witness); }); }, same);
    CHECK(umbo::strategy::current() != strategy); // the scope is left
    expect<trouble>(
        [&] {
            strategy.run([&](umbo::replica_context &context, const umbo::value &) {
                context.merge_call(
                    [&](umbo::strategy &, const umbo::value &) { throw trouble(0, witness); });
            });
        },
        same);
    // From a run inside of a merge function, through both.
    expect<trouble>(
        [&] {
            strategy.run([&](umbo::replica_context &context, const umbo::value &) {
                context.merge_call([&](umbo::strategy &inner, const umbo::value &) {
                    inner.run([&](umbo::replica_context &nested, const umbo::value &) {
                        if (nested.replica_id() == 1) throw trouble(1, witness);
                    });
                });
            });
        },
        same);
    expect<trouble>(
        [&] {
            strategy.create_variable("v", umbo::dtype::float32, {2},
                                     [&](const umbo_view &) { throw trouble(0, witness); });
        },
        same);
    const auto variable = strategy.create_variable("v", umbo::tensor::scalar(1.0f));
    expect<trouble>(
        [&] {
            strategy.update(variable, [&](umbo::variable &, const umbo::value &) {
                throw trouble(0, witness);
            });
        },
        same);
    umbo::clear_last_error();
    CHECK(witness.use_count() == 1);
}

// With a deadline the callable is kept by the library and destroyed after the step.
void kept_callables(const umbo::strategy &strategy) {
    const auto witness = std::make_shared<int>(0);
    umbo::run_options options;
    options.timeout_seconds = 3600;
    strategy.run([witness](umbo::replica_context &, const umbo::value &) { CHECK(*witness == 0); },
                 {}, options);
    CHECK(witness.use_count() == 1);
    options.timeout_seconds = -2;
    expect<umbo::error>(
        [&] {
            strategy.run([witness](umbo::replica_context &, const umbo::value &) {}, {}, options);
        },
        [](const umbo::error &error) { CHECK(error.status() == umbo::status::invalid_argument); });
    CHECK(witness.use_count() == 1);
    options.timeout_seconds = UMBO_INFINITE;
    options.cancellation = umbo::cancellation::create();
    options.cancellation.cancel();
    CHECK(options.cancellation.is_cancelled());
    expect<umbo::error>(
        [&] { strategy.run([](umbo::replica_context &, const umbo::value &) {}, {}, options); },
        [](const umbo::error &error) { CHECK(error.status() == umbo::status::cancelled); });
    CHECK(strategy.late_replica_count() == 0);
}

} // namespace

int main() {
    {
        const auto strategy = umbo::strategy::create_cpu(3);
        from_run(strategy);
        anything_can_be_thrown(strategy);
        from_the_library(strategy);
        from_other_callables(strategy);
        kept_callables(strategy);
    }
    umbo::clear_last_error();
    return finish();
}

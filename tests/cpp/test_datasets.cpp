// Datasets from the caller's functions, their specs, and distribution from a function.
#include <umbo/tensorflow.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../c/check.h"

namespace {

umbo::tensor scalar(std::int32_t number) {
    return umbo::tensor::from_vector(std::vector<std::int32_t>{number});
}

std::int32_t first(const umbo::value &element) {
    return element.view_as<const std::int32_t>()(0);
}

const auto one_number = [] { return umbo::element_spec::create_tensor(umbo::dtype::int32, {1}); };

void generators() {
    const auto alive = std::make_shared<int>(0);
    {
        const auto numbers = umbo::dataset::from_generator(one_number(), [alive] {
            return [alive, next = 0]() mutable -> std::optional<umbo::value> {
                if (next == 3) return std::nullopt;
                return umbo::value(scalar(next++));
            };
        });
        CHECK(numbers.cardinality() == UMBO_CARDINALITY_UNKNOWN && alive.use_count() == 2);
        const auto iterator = numbers.iterate();
        CHECK(first(iterator.next()) == 0 && alive.use_count() == 3);
        const auto other = numbers.iterate();
        CHECK(first(*umbo::tensorflow::next_as_optional(other)) == 0 && first(iterator.next()) == 1);
        iterator.reset();
        for (std::int32_t number = 0; number < 3; ++number) CHECK(first(iterator.next()) == number);
        CHECK(!umbo::tensorflow::next_as_optional(iterator) && !iterator.next());
    }
    CHECK(alive.use_count() == 1);
}

void files() {
    const std::vector<std::string> paths{"3", "missing", "2"};
    const auto alive = std::make_shared<int>(0);
    umbo::files_options options;
    options.element_spec = umbo::element_spec::create_tensor(umbo::dtype::int64, {});
    const auto number = [](const umbo::value &element) {
        return *element.view_as<const std::int64_t>().data();
    };
    {
        const auto both = umbo::dataset::from_files(
            paths,
            [alive](const std::string &path, std::int64_t at) {
                if (path == "missing") throw std::runtime_error("no such file");
                return umbo::dataset::from_range(10 * at, 10 * at + std::stoll(path));
            },
            options);
        CHECK(alive.use_count() == 2 && both.cardinality() == UMBO_CARDINALITY_UNKNOWN);
        const auto iterator = both.iterate();
        for (std::int64_t expected = 0; expected < 3; ++expected)
            CHECK(number(iterator.next()) == expected);
        bool thrown = false;
        try {
            iterator.next();
        } catch (const std::runtime_error &) {
            thrown = true;
        }
        CHECK(thrown && number(iterator.next()) == 20 && number(iterator.next()) == 21);
        CHECK(!iterator.next());
    }
    CHECK(alive.use_count() == 1);
    const auto named = umbo::dataset::from_files(
        {"1", "4"}, [](const std::string &path) { return umbo::dataset::from_range(0, std::stoll(path)); });
    const auto strategy = umbo::strategy::create();
    umbo::distribute_options how;
    how.sharding = umbo::sharding::file;
    int steps = 0;
    for (const umbo::value &step : strategy.distribute_dataset(named.batch(2), how).iterate()) {
        CHECK(step);
        ++steps;
    }
    CHECK(steps == 3);
}

void maps() {
    const auto numbers = umbo::dataset::from_tensor_slices(
        umbo::tensor::from_vector(std::vector<std::int32_t>{0, 1, 2, 3, 4, 5}));
    umbo::map_options options;
    options.parallel_call_count = 4;
    options.element_spec = one_number();
    std::atomic<int> calls{0};
    const auto mapped = numbers.map(
        [&calls](const umbo::value &element) -> umbo::value {
            ++calls;
            const std::int32_t number = *element.view_as<const std::int32_t>().data();
            if (number == 4) throw std::runtime_error("four");
            return scalar(10 * number);
        },
        options);
    const auto iterator = mapped.iterate();
    for (std::int32_t number = 0; number < 4; ++number) {
        CHECK(first(iterator.next()) == 10 * number);
    }
    bool thrown = false;
    try {
        iterator.next();
    } catch (const std::runtime_error &error) {
        thrown = true;
    }
    CHECK(thrown && first(iterator.next()) == 50 && calls == 6);
}

void filters() {
    const auto numbers = umbo::dataset::from_range(0, 6);
    const auto number = [](const umbo::value &element) {
        return *element.view_as<const std::int64_t>().data();
    };
    const auto alive = std::make_shared<int>(2);
    {
        const auto kept = numbers.filter([alive, number](const umbo::value &element) {
            if (number(element) == 3) throw std::runtime_error("three");
            return number(element) % *alive == 1;
        });
        CHECK(alive.use_count() == 2 && kept.cardinality() == UMBO_CARDINALITY_UNKNOWN);
        const auto iterator = kept.iterate();
        CHECK(number(iterator.next()) == 1);
        bool thrown = false;
        try {
            iterator.next();
        } catch (const std::runtime_error &) {
            thrown = true;
        }
        CHECK(thrown && number(iterator.next()) == 5 && !iterator.next());
    }
    CHECK(alive.use_count() == 1);
}

void mixtures() {
    const auto number = [](const umbo::value &element) {
        return *element.view_as<const std::int64_t>().data();
    };
    const std::vector<umbo::dataset> both{umbo::dataset::from_range(0, 4),
                                          umbo::dataset::from_range(10, 14)};
    umbo::sample_options how;
    how.seed = 7;
    how.stop_on_empty = true;
    const auto second = umbo::dataset::sample(both, {0.0, 1.0}, how).batch(3).unbatch();
    std::int64_t expected = 10;
    for (const umbo::value &element : second.iterate()) CHECK(number(element) == expected++);
    CHECK(expected == 14 && umbo::dataset::sample(both).cardinality() == 8);
    bool thrown = false;
    try {
        umbo::dataset::sample(both, {1.0});
    } catch (const umbo::error &error) {
        thrown = error.status() == umbo::status::invalid_argument;
    }
    CHECK(thrown);
}

void specs() {
    const auto leaf = umbo::element_spec::create_tensor(umbo::dtype::float32, {UMBO_SIZE_UNKNOWN, 3});
    const auto nest = umbo::element_spec::create_struct(
        {{"x", leaf}, {"pair", umbo::element_spec::create_tuple({leaf, one_number()})}});
    CHECK(nest.kind() == umbo::value_kind::structure && nest.item_count() == 2);
    CHECK(nest.field_name(1) == "pair" && nest.item(1).kind() == umbo::value_kind::tuple);
    const auto back = nest.item(0);
    CHECK(back.dtype() == umbo::dtype::float32 && (back.shape() == umbo::dimensions{UMBO_SIZE_UNKNOWN, 3}));
}

void sources_and_transformations() {
    const auto range = umbo::dataset::from_range(0, 7);
    const auto joined = umbo::dataset::concatenate({range, umbo::dataset::from_range(7, 9, 2)});
    CHECK(joined.cardinality() == 8 && joined.shard(3, 1).cardinality() == 3);
    CHECK(joined.cache().batch(4).rebatch({3}).element_spec().shape()[0] == UMBO_SIZE_UNKNOWN);
    const auto ragged = umbo::dataset::from_elements(
        {scalar(1), umbo::tensor::from_vector(std::vector<std::int32_t>{2, 3})});
    umbo::padded_batch_options how;
    how.padding = umbo::value::scalar(std::int32_t{-100});
    how.mask = true;
    const auto masked = ragged.padded_batch(2, how).iterate().next();
    CHECK(masked.item_count() == 2 && masked.item(0).view_as<const std::int32_t>()(0, 1) == -100);
    const auto padded = ragged.padded_batch(2).iterate().next();
    CHECK(padded.view_as<const std::int32_t>()(0, 1) == 0);
    CHECK(umbo::dataset::from_tensors(scalar(5)).cardinality() == 1);
    for (const auto open : {+[] { umbo::dataset::from_npy_file("/no/such.npy"); },
                            +[] { umbo::dataset::from_npz_file("/no/such.npz", {"x"}); }}) {
        umbo::status status = umbo::status::ok;
        try {
            open();
        } catch (const umbo::error &error) {
            status = error.status();
        }
        CHECK(status == umbo::status::not_found);
    }
}

void distribution() {
    const auto strategy = umbo::strategy::create_cpu(2);
    const auto pipeline = [](const umbo::input_context &context) {
        CHECK(context.replica_count == 2 && context.pipeline_count == 1);
        return umbo::dataset::from_range(0, 5).batch(umbo::tensorflow::per_replica_batch_size(context, 4));
    };
    const auto distributed = strategy.distribute_datasets_from_function(pipeline);
    CHECK(distributed.cardinality() == 2);
    CHECK(distributed.element_spec().kind() == umbo::value_kind::per_replica);
    const auto iterator = distributed.iterate();
    CHECK(iterator.element_spec().item_count() == 2);
    iterator.next();
    const auto last = iterator.next();
    CHECK(last.item(0).view().shape[0] == 1 && last.item(1).view().shape[0] == 0);
    umbo::distribute_options dropping;
    dropping.drop_partial_step = true;
    CHECK(strategy.distribute_datasets_from_function(pipeline, dropping).cardinality() == 1);
    umbo::distribute_options balanced;
    balanced.split = umbo::split::balanced;
    balanced.prefetch_count = UMBO_AUTO;
    const auto step =
        strategy.distribute_dataset(umbo::dataset::from_range(0, 5).batch(4), balanced).iterate().next();
    CHECK(step.item(1).view().shape[0] == 2);

    auto memory = std::vector<std::int32_t>{1, 2};
    const auto copied = [&] {
        auto array = umbo::tensor::from_vector(memory);
        const auto dataset = umbo::tensorflow::make_numpy_dataset(strategy, array);
        array.view_as<std::int32_t>()(0) = 9;
        return dataset;
    }();
    CHECK(*copied.iterate().next().view_as<const std::int32_t>().data() == 1);
    bool thrown = false;
    try {
        strategy.distribute_datasets_from_function(
            [](const umbo::input_context &) -> umbo::dataset { throw std::runtime_error("no"); });
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown);
}

} // namespace

int main() {
    generators();
    files();
    maps();
    filters();
    mixtures();
    specs();
    sources_and_transformations();
    distribution();
    CHECK(umbo::live_handles() == 0);
    return 0;
}

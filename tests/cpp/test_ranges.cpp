// Range-for over iterators: what is left of a pass, or a new one, over datasets and distributed ones.
#include <umbo/umbo.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "../c/check.h"

namespace {

static_assert(std::is_same_v<std::iterator_traits<umbo::iterator::position>::iterator_category,
                             std::input_iterator_tag>,
              "the standard algorithms take it");

std::int64_t number_of(const umbo::value &element) {
    return *element.view_as<const std::int64_t>().data();
}

void passes() {
    const auto numbers = umbo::dataset::from_range(0, 5).iterate();
    std::int64_t sum = 0;
    for (const umbo::value &number : numbers) sum += number_of(number);
    CHECK(sum == 10);
    CHECK(numbers.has_ended());
    // The pass is over, and each loop makes another one.
    for (int epoch = 0; epoch < 3; ++epoch) {
        for (const umbo::value &number : numbers) sum += 100 + number_of(number);
    }
    CHECK(sum == 10 + 3 * 510);
    numbers.reset();
    CHECK(!numbers.has_ended() && number_of(numbers.next()) == 0);
    // What is left of the pass.
    CHECK(std::count_if(numbers.begin(), numbers.end(), [](const umbo::value &number) {
              return number_of(number) > 0;
          }) == 4);
    // A break takes no more than it has seen.
    numbers.reset();
    for (const umbo::value &number : numbers) {
        if (number_of(number) == 1) break;
    }
    CHECK(number_of(numbers.next()) == 2);
    // An end that was found by hand, and a place at the end.
    while (numbers.next()) {}
    const std::string end = numbers.save_position();
    CHECK(std::distance(numbers.begin(), numbers.end()) == 5);
    numbers.reset();
    numbers.next();
    numbers.restore_position(end);
    CHECK(std::distance(numbers.begin(), numbers.end()) == 5);
    // What is empty ends each time.
    const auto nothing = umbo::dataset::from_range(0, 0).iterate();
    for (int epoch = 0; epoch < 2; ++epoch) CHECK(nothing.begin() == nothing.end());
}

void places() {
    const auto numbers = umbo::dataset::from_range(0, 50).shuffle().batch(4);
    const auto one = numbers.iterate(), other = numbers.iterate();
    one.next();
    other.restore_position(one.save_position());
    for (const umbo::value &batch : one) CHECK(other.next().text() == batch.text());
    CHECK(!other.next());
    try {
        other.restore_position("{}");
        CHECK(false);
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

void distributed() {
    const auto strategy = umbo::strategy::create_cpu(2);
    const auto batches =
        strategy.distribute_dataset(umbo::dataset::from_range(0, 10).batch(4)).iterate();
    for (int epoch = 0; epoch < 2; ++epoch) {
        std::int64_t steps = 0, examples = 0;
        for (const umbo::value &batch : batches) {
            ++steps;
            examples += batch.example_count();
        }
        CHECK(steps == 3 && examples == 10);
    }
}

void exceptions() {
    const auto numbers = umbo::dataset::from_range(0, 5)
                             .map([](const umbo::value &number) -> umbo::value {
                                 if (number_of(number) == 2) throw std::runtime_error("two");
                                 return number;
                             })
                             .iterate();
    std::int64_t seen = 0;
    bool thrown = false;
    try {
        for (const umbo::value &number : numbers) seen += 1 + number_of(number);
    } catch (const std::runtime_error &) {
        thrown = true;
    }
    CHECK(thrown && seen == 1 + 2);
    CHECK(number_of(numbers.next()) == 3);
}

} // namespace

int main() {
    passes();
    places();
    distributed();
    exceptions();
    return finish();
}

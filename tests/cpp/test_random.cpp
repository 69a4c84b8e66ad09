// Random numbers of callbacks in C++: those of C.
#include <umbo/umbo.hpp>

#include <algorithm>
#include <array>
#include <vector>

#include "../c/check.h"

namespace {

// All rows of a batch of 6 examples, drawn by as many replicas.
std::vector<float> masks(std::int32_t replicas) {
    const auto strategy = umbo::strategy::create_cpu(replicas);
    const auto batch = strategy.split(umbo::tensor::create_zeros(umbo::dtype::float32, {6}));
    std::vector<float> all(6 * 4);
    strategy.run(
        [&](umbo::replica_context own, const umbo::value &) {
            const auto key = own.random_key(3, 1);
            std::vector<float> mine(static_cast<std::size_t>(own.info().local_example_count * 4));
            key.bernoulli(0.5, 2, mine, 4);
            std::copy(mine.begin(), mine.end(), all.begin() + key.first_example * 4);
        },
        batch);
    return all;
}

void keys() {
    const auto expected = masks(1);
    CHECK(masks(2) == expected && masks(3) == expected);
    umbo::random_key key;
    key.seed = 3;
    key.stream = 1;
    key.step = 1;
    std::vector<float> by_hand(6 * 4);
    key.bernoulli(0.5, 2, by_hand, 4);
    CHECK(by_hand == expected);
    std::array<double, 4> one{}, other{};
    key.uniform(one, 4);
    key.with_stream(2).uniform(other, 4);
    CHECK(one != other);
    key.normal(one, 2);
    std::vector<std::int64_t> integers(4, -1);
    key.integers(10, integers, 2);
    for (const auto integer : integers) CHECK(integer >= 0 && integer < 10);
    auto status = umbo::status::ok;
    try {
        key.uniform(one, 3);
    } catch (const umbo::error &error) {
        status = error.status();
    }
    CHECK(status == umbo::status::invalid_argument);
}

} // namespace

int main() {
    keys();
    return finish();
}

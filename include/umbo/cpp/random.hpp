// Random numbers that follow from keys, and so do not depend on how a batch is split.
#ifndef UMBO_CPP_RANDOM_HPP
#define UMBO_CPP_RANDOM_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <type_traits>
#include <utility>

#include <umbo/cpp/dtype.hpp>
#include <umbo/cpp/span.hpp>

UMBO_DETAIL_BEGIN

// The key from which random numbers follow; `replica_context::random_key` makes one. The functions fill what has
// `data()` and `size()`: rows of `count` numbers, one row for each example from `first_example` on.
struct random_key {
    std::uint64_t seed = 0;
    // The number of one use within a step: another one for each layer, or purpose.
    std::uint64_t stream = 0;
    std::int64_t step = 0;
    std::int64_t first_example = 0;

    // The same with another stream.
    random_key with_stream(std::uint64_t other) const noexcept {
        random_key key = *this;
        key.stream = other;
        return key;
    }

    // Uniform numbers from 0 to 1, without 1 itself, of float or double.
    template <class Numbers>
    returned<void> uniform(Numbers &&numbers, std::int64_t count) const {
        UMBO_DETAIL_LET(all, detail::elements_of(numbers));
        UMBO_DETAIL_LET(examples, examples_of(all.size(), count));
        const auto key = to_c();
        return check(umbo_random_uniform(&key, examples, count, umbo::to_c(float_type<Numbers>()), all.data()));
    }

    // Normal numbers of mean 0 and variance 1.
    template <class Numbers>
    returned<void> normal(Numbers &&numbers, std::int64_t count) const {
        UMBO_DETAIL_LET(all, detail::elements_of(numbers));
        UMBO_DETAIL_LET(examples, examples_of(all.size(), count));
        const auto key = to_c();
        return check(umbo_random_normal(&key, examples, count, umbo::to_c(float_type<Numbers>()), all.data()));
    }

    // `value` with this probability, else 0.
    template <class Numbers>
    returned<void> bernoulli(double probability, double value, Numbers &&numbers, std::int64_t count) const {
        UMBO_DETAIL_LET(all, detail::elements_of(numbers));
        UMBO_DETAIL_LET(examples, examples_of(all.size(), count));
        const auto key = to_c();
        return check(umbo_random_bernoulli(&key, probability, value, examples, count,
                                           umbo::to_c(float_type<Numbers>()), all.data()));
    }

    // Integers from 0 to `bound` less one.
    template <class Numbers>
    returned<void> integers(std::int64_t bound, Numbers &&numbers, std::int64_t count) const {
        UMBO_DETAIL_LET(all, detail::elements_of(numbers));
        UMBO_DETAIL_LET(examples, examples_of(all.size(), count));
        const auto key = to_c();
        return check(umbo_random_integers(&key, bound, examples, count, all.data()));
    }

private:
    umbo_random_key to_c() const noexcept {
        umbo_random_key key = UMBO_RANDOM_KEY_INIT;
        key.seed = seed;
        key.stream = stream;
        key.step = step;
        key.first_example = first_example;
        return key;
    }

    template <class Numbers>
    static constexpr dtype float_type() noexcept {
        using number = std::remove_reference_t<decltype(*std::data(std::declval<Numbers &>()))>;
        static_assert(std::is_same_v<number, float> || std::is_same_v<number, double>,
                      "random numbers are float or double");
        return dtype_of<number>;
    }

    static returned<std::int64_t> examples_of(std::size_t size, std::int64_t count) {
        if (size == 0) return std::int64_t{0};
        if (count < 1 || size % static_cast<std::size_t>(count) != 0) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "count: the numbers are not whole rows of as many");
        }
        return static_cast<std::int64_t>(size / static_cast<std::size_t>(count));
    }
};

UMBO_DETAIL_END

#endif

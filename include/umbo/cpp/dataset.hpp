// Datasets, distributed datasets, and iterators over both.
#ifndef UMBO_CPP_DATASET_HPP
#define UMBO_CPP_DATASET_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <umbo/cpp/value.hpp>

namespace umbo {

// A position in a dataset.
class iterator : public handle<umbo_iterator> {
public:
    using handle::handle;

    // The next element; an empty value at the end.
    value next() const {
        umbo_value *out = nullptr;
        check(umbo_iterator_next(get(), &out));
        return value(out);
    }

    // Begins a new pass.
    void reset() const { check(umbo_iterator_reset(get())); }
};

struct shuffle_options {
    std::int64_t buffer_size = 0; // 0: the whole dataset
    std::uint64_t seed = 0;
    bool keep_order_each_pass = false;
};

// A recipe for elements. Each transformation makes another dataset.
class dataset : public handle<umbo_dataset> {
public:
    using handle::handle;

    // Slices every leaf along its first dimension.
    static dataset from_tensor_slices(const value &components) {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_from_tensor_slices(components.get(), &out));
        return dataset(out);
    }

    static dataset from_idx_file(const std::string &path) {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_from_idx_file(path.c_str(), &out));
        return dataset(out);
    }

    // Elements side by side: tuples, or structs if names are given.
    static dataset zip(const std::vector<dataset> &datasets,
                       const std::vector<std::string> &names = {}) {
        if (!names.empty() && names.size() != datasets.size()) {
            throw error(UMBO_INVALID_ARGUMENT, "names: one for each dataset, or none");
        }
        const auto raw = detail::raw_handles(datasets);
        const auto texts = detail::raw_texts(names);
        umbo_dataset *out = nullptr;
        check(umbo_dataset_zip(detail::count_of(raw.size(), "datasets"), raw.data(),
                               texts.empty() ? nullptr : texts.data(), &out));
        return dataset(out);
    }

    dataset shuffle(const shuffle_options &how = {}) const {
        auto options = detail::sized<umbo_shuffle_options>();
        options.buffer_size = how.buffer_size;
        options.seed = how.seed;
        options.keep_order_each_pass = how.keep_order_each_pass ? 1 : 0;
        umbo_dataset *out = nullptr;
        check(umbo_dataset_shuffle(get(), &options, &out));
        return dataset(out);
    }

    dataset batch(std::int64_t size, bool drop_remainder = false) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_batch(get(), size, drop_remainder ? 1 : 0, &out));
        return dataset(out);
    }

    // -1: endless.
    dataset repeat(std::int64_t count = -1) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_repeat(get(), count, &out));
        return dataset(out);
    }

    dataset prefetch(std::int32_t depth) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_prefetch(get(), depth, &out));
        return dataset(out);
    }

    dataset take(std::int64_t count) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_take(get(), count, &out));
        return dataset(out);
    }

    dataset skip(std::int64_t count) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_skip(get(), count, &out));
        return dataset(out);
    }

    // -1: endless; -2: unknown.
    std::int64_t cardinality() const {
        std::int64_t out = 0;
        check(umbo_dataset_cardinality(get(), &out));
        return out;
    }

    umbo::iterator iterate() const {
        umbo_iterator *out = nullptr;
        check(umbo_dataset_iterator(get(), &out));
        return umbo::iterator(out);
    }
};

// A dataset whose elements are split over the replicas of a strategy.
class distributed_dataset : public handle<umbo_distributed_dataset> {
public:
    using handle::handle;

    umbo::iterator iterate() const {
        umbo_iterator *out = nullptr;
        check(umbo_distributed_dataset_iterator(get(), &out));
        return umbo::iterator(out);
    }
};

} // namespace umbo

#endif

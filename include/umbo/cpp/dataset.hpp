// Datasets and iterators.
#ifndef UMBO_CPP_DATASET_HPP
#define UMBO_CPP_DATASET_HPP

#include <cstdint>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/callback.hpp>
#include <umbo/cpp/element_spec.hpp>

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

    // The next element; nothing at the end.
    std::optional<value> next_as_optional() const {
        std::int32_t has_value = 0;
        umbo_value *out = nullptr;
        check(umbo_iterator_next_as_optional(get(), &has_value, &out));
        if (has_value == 0) return std::nullopt;
        return value(out);
    }

    umbo::element_spec element_spec() const {
        umbo_element_spec *out = nullptr;
        check(umbo_iterator_element_spec(get(), &out));
        return umbo::element_spec(out);
    }

    // Begins a new pass.
    void reset() const { check(umbo_iterator_reset(get())); }
};

struct shuffle_options {
    std::int64_t buffer_size = 0; // 0: the whole dataset
    std::uint64_t seed = 0;
    bool keep_order_each_pass = false;
};

struct map_options {
    umbo::element_spec element_spec; // empty: that of the elements
    std::int32_t parallel_calls = 0; // 0 and 1: one after the other
};

namespace detail {

template <class Callable>
umbo_status map_trampoline(const umbo_value *element, void *callable,
                           umbo_value **result) noexcept {
    return guarded([&] {
        borrowed<value> lent_element(lent(element));
        call_for_value(*static_cast<Callable *>(callable), result, *lent_element);
    });
}

// A generator out of a callable that returns a pass: a callable that returns the next element, an
// empty value at the end.
template <class Factory>
struct generator_of {
    using pass_type = std::decay_t<std::invoke_result_t<Factory &>>;

    static umbo_status begin(void *factory, void **pass) noexcept {
        return guarded([&] { *pass = new pass_type((*static_cast<Factory *>(factory))()); });
    }

    static umbo_status next(void *pass, void *, umbo_value **element) noexcept {
        return guarded([&] { call_for_value(*static_cast<pass_type *>(pass), element); });
    }

    static void end(void *pass, void *) noexcept { delete static_cast<pass_type *>(pass); }
};

} // namespace detail

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

    static dataset from_npy_file(const std::string &path) {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_from_npy_file(path.c_str(), &out));
        return dataset(out);
    }

    // Without names all arrays of the file.
    static dataset from_npz_file(const std::string &path,
                                 const std::vector<std::string> &names = {}) {
        const auto texts = detail::raw_texts(names);
        umbo_dataset *out = nullptr;
        check(umbo_dataset_from_npz_file(path.c_str(), detail::count_of(texts.size(), "names"),
                                         texts.empty() ? nullptr : texts.data(), &out));
        return dataset(out);
    }

    // One element.
    static dataset from_tensors(const value &element) {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_from_tensors(element.get(), &out));
        return dataset(out);
    }

    // An element for each tensor; shapes may differ.
    static dataset elements(const std::vector<tensor> &tensors) {
        const auto raw = detail::raw_handles(tensors);
        umbo_dataset *out = nullptr;
        check(umbo_dataset_elements(detail::count_of(raw.size(), "tensors"), raw.data(), &out));
        return dataset(out);
    }

    // int64 scalars from `start` to before `stop`.
    static dataset range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_range(start, stop, step, &out));
        return dataset(out);
    }

    // `factory()` begins a pass: it returns a callable that returns the next element, an empty
    // value at the end. Kept as long as the dataset; called from several threads if several
    // iterators are used at once.
    template <class Factory>
    static dataset from_generator(const umbo::element_spec &spec, Factory &&factory) {
        using callable = std::decay_t<Factory>;
        auto generator = detail::sized<umbo_generator>();
        generator.begin = &detail::generator_of<callable>::begin;
        generator.next = &detail::generator_of<callable>::next;
        generator.end = &detail::generator_of<callable>::end;
        umbo_dataset *out = nullptr;
        auto *kept = new callable(std::forward<Factory>(factory));
        check(umbo_dataset_from_generator(spec.get(), &generator, kept,
                                          &detail::destroy_callable<callable>, &out));
        return dataset(out);
    }

    // One dataset after the other.
    static dataset concatenate(const std::vector<dataset> &datasets) {
        const auto raw = detail::raw_handles(datasets);
        umbo_dataset *out = nullptr;
        check(umbo_dataset_concatenate(detail::count_of(raw.size(), "datasets"), raw.data(),
                                       &out));
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

    // Elements may differ in shape: they are padded with zeros.
    dataset padded_batch(std::int64_t size, bool drop_remainder = false) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_padded_batch(get(), size, drop_remainder ? 1 : 0, &out));
        return dataset(out);
    }

    // The rows of all batches, cut into batches of these sizes, over and over again.
    dataset rebatch(const std::vector<std::int64_t> &sizes, bool drop_remainder = false) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_rebatch(get(), detail::count_of(sizes.size(), "sizes"), sizes.data(),
                                   drop_remainder ? 1 : 0, &out));
        return dataset(out);
    }

    // `fn(const value &element)` for each element; kept as long as the dataset, and called on
    // several threads at once if there are parallel calls or several iterators.
    template <class Fn>
    dataset map(Fn &&fn, const map_options &how = {}) const {
        using callable = std::decay_t<Fn>;
        auto options = detail::sized<umbo_map_options>();
        options.element_spec = how.element_spec.get();
        options.parallel_calls = how.parallel_calls;
        umbo_dataset *out = nullptr;
        auto *kept = new callable(std::forward<Fn>(fn));
        check(umbo_dataset_map(get(), &detail::map_trampoline<callable>, kept,
                               &detail::destroy_callable<callable>, &options, &out));
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

    // Every `shards`-th element from `index` on.
    dataset shard(std::int64_t shards, std::int64_t index) const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_shard(get(), shards, index, &out));
        return dataset(out);
    }

    // The first whole pass is kept in memory.
    dataset cache() const {
        umbo_dataset *out = nullptr;
        check(umbo_dataset_cache(get(), &out));
        return dataset(out);
    }

    umbo::element_spec element_spec() const {
        umbo_element_spec *out = nullptr;
        check(umbo_dataset_element_spec(get(), &out));
        return umbo::element_spec(out);
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

} // namespace umbo

#endif

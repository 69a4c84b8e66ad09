// Datasets, distributed datasets, and iterators over both.
#ifndef UMBO_CPP_DATASET_HPP
#define UMBO_CPP_DATASET_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/callback.hpp>
#include <umbo/cpp/element_spec.hpp>
#include <umbo/cpp/options.hpp>
#include <umbo/cpp/value.hpp>

UMBO_DETAIL_BEGIN
namespace detail {

template <class Callable>
umbo_status map_trampoline(const umbo_value *element, void *callable,
                           umbo_value **result) noexcept {
    return guarded([&] {
        borrowed<value> given(lent(element));
        return call_for_value(*static_cast<Callable *>(callable), result, std::as_const(*given));
    });
}

template <class Callable>
umbo_status filter_trampoline(const umbo_value *element, void *callable,
                              std::int32_t *keep) noexcept {
    return guarded([&]() -> returned<void> {
        borrowed<value> given(lent(element));
        UMBO_DETAIL_LET(kept, (*static_cast<Callable *>(callable))(std::as_const(*given)));
        *keep = static_cast<bool>(kept) ? 1 : 0;
        return done();
    });
}

// A generator begins a pass by calling the kept callable, whose result makes the elements.
template <class Callable>
struct generator_pass {
    using pass = std::invoke_result_t<Callable &>;

    static umbo_status begin(void *callable, void **out) noexcept {
        return guarded([&]() -> returned<void> {
            UMBO_DETAIL_LET(made, (*static_cast<Callable *>(callable))());
            *out = new pass(std::move(made));
            return done();
        });
    }

    static umbo_status next(void *kept, void *, umbo_value **element) noexcept {
        return guarded([&]() -> returned<void> {
            UMBO_DETAIL_LET(made, (*static_cast<pass *>(kept))());
            if (made) *element = made->release();
            return done();
        });
    }

    static void end(void *kept, void *) noexcept { destroy_callable<pass>(kept); }
};

} // namespace detail

// A position in a dataset. `for (const umbo::value &element : iterator)` goes over what is left of
// the pass, once; `reset` begins another one.
class iterator : public handle<umbo_iterator> {
public:
    using handle::handle;

#if !defined(UMBO_NO_EXCEPTIONS)
    // An input iterator over the rest of the pass, or over a new one. Lives no longer than the `umbo::iterator`.
    class position {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = value;
        using difference_type = std::ptrdiff_t;
        using pointer = const value *;
        using reference = const value &;

        // The end.
        position() noexcept = default;

        explicit position(const iterator &of) : of_(&of), element_(of.next()) {}

        const value &operator*() const noexcept { return element_; }
        const value *operator->() const noexcept { return &element_; }

        position &operator++() {
            element_ = value(); // released before the next one is asked for: their memory may be shared
            element_ = of_->next();
            return *this;
        }
        void operator++(int) { ++*this; }

        // Whether both are at the end, as with all input iterators.
        friend bool operator==(const position &a, const position &b) noexcept {
            return !a.element_ && !b.element_;
        }
        friend bool operator!=(const position &a, const position &b) noexcept { return !(a == b); }

    private:
        const iterator *of_ = nullptr;
        value element_;
    };

    // Takes the next element: the first one of a new pass if the last pass has ended, so that a range-for in a loop over
    // epochs makes a pass in each.
    position begin() const {
        if (has_ended()) reset();
        return position(*this);
    }
    position end() const noexcept { return position(); }
#endif

    // Whether next() has come to the end of the pass; then reset() begins the next one.
    returned<bool> has_ended() const {
        std::int32_t out = 0;
        UMBO_DETAIL_TRY(umbo_iterator_has_ended(get(), &out));
        return out != 0;
    }

    // The next element; an empty value at the end.
    returned<value> next() const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_iterator_next(get(), &out));
        return value(out);
    }

    returned<umbo::element_spec> element_spec() const {
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_iterator_element_spec(get(), &out));
        return umbo::element_spec(out);
    }

    // Begins a new pass.
    returned<void> reset() const { return check(umbo_iterator_reset(get())); }

    // The place in the data, after the element that came last, as a text for restore_position().
    returned<std::string> save_position() const {
        return detail::text_of([&](char *buffer, std::size_t capacity, std::size_t *length) {
            return umbo_iterator_save_position(get(), buffer, capacity, length);
        });
    }

    // Goes to a place of an iterator of the same pipeline.
    returned<void> restore_position(const std::string &text) const {
        return check(umbo_iterator_restore_position(get(), text.c_str()));
    }
};

struct batch_options {
    bool drop_remainder = false;
};

struct padded_batch_options {
    bool drop_remainder = false;
    value padding = {}; // a scalar, or a nest like the elements with a scalar for each tensor; empty: zero
    bool mask = false;  // batches are tuples of the batch and of its mask
};

struct map_options {
    umbo::element_spec element_spec = {}; // empty: results look like the elements
    std::int64_t parallel_call_count = 1;
};

struct files_options {
    umbo::element_spec element_spec = {}; // empty: that of the first file, which is opened to see it
    std::int64_t open_file_count = 1;
    std::int64_t consecutive_count = 1;
    bool shuffle_files = false;
    std::uint64_t seed = 0;
};

namespace detail {

// The C form of `files_options`; lives no longer than they do.
inline umbo_files_options raw_options(const files_options &how) noexcept {
    umbo_files_options raw = UMBO_FILES_OPTIONS_INIT;
    raw.element_spec = how.element_spec.get();
    raw.open_file_count = how.open_file_count;
    raw.consecutive_count = how.consecutive_count;
    raw.seed = how.seed;
    raw.shuffle_files = how.shuffle_files ? 1 : 0;
    return raw;
}

// A callable takes the path, and the file's place in the list if it wants.
template <class Callable>
umbo_status file_trampoline(const char *path, std::int64_t index, void *callable,
                            umbo_dataset **made) noexcept {
    return guarded([&]() -> returned<void> {
        auto &open = *static_cast<Callable *>(callable);
        const std::string name(path);
        if constexpr (std::is_invocable_v<Callable &, const std::string &, std::int64_t>) {
            UMBO_DETAIL_LET(source, open(name, index));
            *made = source.release();
        } else {
            static_cast<void>(index);
            UMBO_DETAIL_LET(source, open(name));
            *made = source.release();
        }
        return done();
    });
}

// The C form of `padded_batch_options`; lives no longer than they do.
inline umbo_padding_options raw_options(const padded_batch_options &how) noexcept {
    umbo_padding_options raw = UMBO_PADDING_OPTIONS_INIT;
    raw.padding = how.padding.get();
    raw.mask = how.mask ? 1 : 0;
    return raw;
}

// The C form of `map_options`; lives no longer than they do.
inline umbo_map_options raw_options(const map_options &how) noexcept {
    umbo_map_options raw = UMBO_MAP_OPTIONS_INIT;
    raw.element_spec = how.element_spec.get();
    raw.parallel_call_count = how.parallel_call_count;
    return raw;
}

// None, or as many as there are arrays: the C functions cannot count them.
inline returned<void> expect_names(std::size_t arrays, span<const std::string> names) {
    if (!names.empty() && names.size() != arrays) {
        UMBO_DETAIL_FAIL(status::invalid_argument, "names: one for each array, or none");
    }
    return detail::done();
}

} // namespace detail

// A recipe for elements. Each transformation makes another dataset.
class dataset : public handle<umbo_dataset> {
public:
    using handle::handle;

    // Slices every leaf along its first dimension.
    static returned<dataset> from_tensor_slices(const value &components) {
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_tensor_slices(components.get(), &out));
        return dataset(out);
    }

    static returned<dataset> from_npy_file(const std::string &path) {
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_npy_file(path.c_str(), &out));
        return dataset(out);
    }

    // Structs of the arrays with these names; of all arrays if there are none.
    static returned<dataset> from_npz_file(const std::string &path,
                                 span<const std::string> names = {}) {
        const auto texts = detail::raw_texts(names);
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_npz_file(path.c_str(), detail::count_of(texts.size()),
                                                   texts.empty() ? nullptr : texts.data(), &out));
        return dataset(out);
    }

    // Copies of arrays, sliced along dimension 0: structs with these names or, without names, tuples; a
    // single array without a name is sliced itself. `umbo::view_of_memory` makes the views.
    static returned<dataset> from_arrays(span<const umbo_view> arrays,
                               span<const std::string> names = {}) {
        UMBO_DETAIL_CALL(detail::expect_names(arrays.size(), names));
        const auto texts = detail::raw_texts(names);
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_arrays(detail::count_of(arrays.size()),
                                                 texts.empty() ? nullptr : texts.data(), arrays.data(), &out));
        return dataset(out);
    }

    // The same of the arrays in IDX files, such as images and labels.
    static returned<dataset> from_idx_files(span<const std::string> paths,
                                  span<const std::string> names = {}) {
        UMBO_DETAIL_CALL(detail::expect_names(paths.size(), names));
        const auto files = detail::raw_texts(paths), texts = detail::raw_texts(names);
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_idx_files(detail::count_of(files.size()), texts.empty() ? nullptr : texts.data(),
                                                    files.data(), &out));
        return dataset(out);
    }

    // One element.
    static returned<dataset> from_tensors(const value &element) {
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_tensors(element.get(), &out));
        return dataset(out);
    }

    // One element for each tensor.
    static returned<dataset> from_elements(span<const tensor> tensors) {
        const auto raw = detail::raw_handles(tensors);
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_elements(detail::count_of(raw.size()), raw.data(), &out));
        return dataset(out);
    }

    static returned<dataset> from_range(std::int64_t start, std::int64_t stop, std::int64_t step = 1) {
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_range(start, stop, step, &out));
        return dataset(out);
    }

    // `begin()` begins a pass: it returns a callable that returns a `std::optional<value>`, which
    // is empty at the end. Both are used by one thread at a time, `begin` by several.
    template <class Begin>
    static returned<dataset> from_generator(const umbo::element_spec &spec, Begin begin) {
        using pass = detail::generator_pass<Begin>;
        umbo_generator functions = UMBO_GENERATOR_INIT;
        functions.begin = &pass::begin;
        functions.next = &pass::next;
        functions.end = &pass::end;
        auto kept = std::make_unique<Begin>(std::move(begin));
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_generator(spec.get(), &functions, kept.release(),
                                                    &detail::destroy_callable<Begin>, &out));
        return dataset(out);
    }

    // The elements of the datasets that `open(const std::string &path)`, or `open(path, std::int64_t index)`,
    // makes of files. Several iterators may call it at once.
    template <class Open>
    static returned<dataset> from_files(span<const std::string> paths, Open open,
                              const files_options &how = {}) {
        const auto options = detail::raw_options(how);
        const auto names = detail::raw_texts(paths);
        auto kept = std::make_unique<Open>(std::move(open));
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_from_files(detail::count_of(names.size()), names.data(),
                                                &detail::file_trampoline<Open>, kept.release(),
                                                &detail::destroy_callable<Open>, &options, &out));
        return dataset(out);
    }

    // One after the other.
    static returned<dataset> concatenate(span<const dataset> datasets) {
        const auto raw = detail::raw_handles(datasets);
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_concatenate(detail::count_of(raw.size()), raw.data(), &out));
        return dataset(out);
    }

    // Each element from a dataset that is drawn by the weights, or by equal ones if there are none.
    static returned<dataset> sample(span<const dataset> datasets, span<const double> weights = {},
                          const sample_options &how = {}) {
        if (!weights.empty() && weights.size() != datasets.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "weights: one for each dataset, or none");
        }
        const auto options = detail::raw_options(how);
        const auto raw = detail::raw_handles(datasets);
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_sample(detail::count_of(raw.size()), raw.data(),
                                            weights.empty() ? nullptr : weights.data(), &options, &out));
        return dataset(out);
    }

    // Elements side by side: tuples, or structs if names are given.
    static returned<dataset> zip(span<const dataset> datasets,
                       span<const std::string> names = {}) {
        if (!names.empty() && names.size() != datasets.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "names: one for each dataset, or none");
        }
        const auto raw = detail::raw_handles(datasets);
        const auto texts = detail::raw_texts(names);
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_zip(detail::count_of(raw.size()), texts.empty() ? nullptr : texts.data(),
                                         raw.data(), &out));
        return dataset(out);
    }

    returned<dataset> shuffle(const shuffle_options &how = {}) const {
        const auto options = detail::raw_options(how);
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_shuffle(changed.place(), &options));
        return changed;
    }

    returned<dataset> batch(std::int64_t element_count, const batch_options &how = {}) const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_batch(changed.place(), element_count, how.drop_remainder ? 1 : 0));
        return changed;
    }

    returned<dataset> padded_batch(std::int64_t element_count, const padded_batch_options &how = {}) const {
        const auto options = detail::raw_options(how);
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_padded_batch(changed.place(), element_count, how.drop_remainder ? 1 : 0, &options));
        return changed;
    }

    returned<dataset> rebatch(span<const std::int64_t> row_counts, const batch_options &how = {}) const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_rebatch(changed.place(), detail::count_of(row_counts.size()), row_counts.data(), how.drop_remainder ? 1 : 0));
        return changed;
    }

    // Each row of an element becomes an element.
    returned<dataset> unbatch() const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_unbatch(changed.place()));
        return changed;
    }

    // `function(const value &)` returns what `to_value` takes; several threads may call it at once if the
    // options say so.
    template <class Function>
    returned<dataset> map(Function function, const map_options &how = {}) const {
        const auto options = detail::raw_options(how);
        auto kept = std::make_unique<Function>(std::move(function));
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_map(changed.place(), &detail::map_trampoline<Function>, kept.release(), &detail::destroy_callable<Function>, &options));
        return changed;
    }

    // The elements for which `predicate(const value &)` returns true; one thread at a time calls it for an iterator.
    template <class Predicate>
    returned<dataset> filter(Predicate predicate) const {
        auto kept = std::make_unique<Predicate>(std::move(predicate));
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_filter(changed.place(), &detail::filter_trampoline<Predicate>, kept.release(), &detail::destroy_callable<Predicate>));
        return changed;
    }

    returned<dataset> cache() const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_cache(changed.place()));
        return changed;
    }

    returned<dataset> shard(std::int64_t shard_count, std::int64_t index) const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_shard(changed.place(), shard_count, index));
        return changed;
    }

    // UMBO_INFINITE: endless.
    returned<dataset> repeat(std::int64_t count = UMBO_INFINITE) const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_repeat(changed.place(), count));
        return changed;
    }

    returned<dataset> prefetch(std::int64_t depth) const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_prefetch(changed.place(), depth));
        return changed;
    }

    returned<dataset> take(std::int64_t count) const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_take(changed.place(), count));
        return changed;
    }

    returned<dataset> skip(std::int64_t count) const {
        dataset changed = *this;
        UMBO_DETAIL_TRY(umbo_dataset_skip(changed.place(), count));
        return changed;
    }

    // May be UMBO_INFINITE or UMBO_CARDINALITY_UNKNOWN.
    returned<std::int64_t> cardinality() const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_dataset_cardinality(get(), &out));
        return out;
    }

    returned<umbo::element_spec> element_spec() const {
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_dataset_element_spec(get(), &out));
        return umbo::element_spec(out);
    }

    returned<umbo::iterator> iterate() const {
        umbo_iterator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_iterator_from_dataset(get(), &out));
        return umbo::iterator(out);
    }
};

// A dataset whose elements are split over the replicas of a strategy.
class distributed_dataset : public handle<umbo_distributed_dataset> {
public:
    using handle::handle;

    returned<umbo::element_spec> element_spec() const {
        umbo_element_spec *out = nullptr;
        UMBO_DETAIL_TRY(umbo_distributed_dataset_element_spec(get(), &out));
        return umbo::element_spec(out);
    }

    // In steps. May be UMBO_INFINITE or UMBO_CARDINALITY_UNKNOWN.
    returned<std::int64_t> cardinality() const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_distributed_dataset_cardinality(get(), &out));
        return out;
    }

    returned<umbo::iterator> iterate() const {
        umbo_iterator *out = nullptr;
        UMBO_DETAIL_TRY(umbo_iterator_from_distributed_dataset(get(), &out));
        return umbo::iterator(out);
    }
};

// For which pipeline a function makes a dataset.
struct input_context {
    std::int64_t pipeline_count = 1;
    std::int32_t pipeline_index = 0;
    std::int64_t replica_count = 1;
};

namespace detail {

template <class Callable>
umbo_status dataset_trampoline(const umbo_input_context *context, void *callable,
                               umbo_dataset **made) noexcept {
    return guarded([&]() -> returned<void> {
        const input_context given{context->pipeline_count, context->pipeline_index,
                                  context->replica_count};
        UMBO_DETAIL_LET(source, (*static_cast<Callable *>(callable))(given));
        *made = source.release();
        return done();
    });
}

} // namespace detail
UMBO_DETAIL_END

#endif

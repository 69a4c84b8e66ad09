// What a callable of `run` can do on its replica.
#ifndef UMBO_CPP_REPLICA_CONTEXT_HPP
#define UMBO_CPP_REPLICA_CONTEXT_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/optimizer.hpp>
#include <umbo/cpp/random.hpp>

UMBO_DETAIL_BEGIN

// Rows that a replica contributes to a row-sparse variable, to be filled: which they are, and their
// gradients.
template <class T>
struct added_rows {
    view_of<std::int64_t> indices;
    view_of<T> values;
};

// The same with gradients of any type.
template <>
struct added_rows<void> {
    view_of<std::int64_t> indices;
    umbo_view values;
};

// The context of one replica of a running step. Lent: usable until the callable returns, on the
// thread that it was given to.
class replica_context {
public:
    explicit replica_context(umbo_replica_context *raw) noexcept : raw_(raw) {}

    // The context of this thread; empty in cross-replica context.
    static returned<replica_context> current() {
        umbo_replica_context *out = nullptr;
        UMBO_DETAIL_TRY(umbo_replica_context_current(&out));
        return replica_context(out);
    }

    umbo_replica_context *get() const noexcept { return raw_; }
    explicit operator bool() const noexcept { return raw_ != nullptr; }

    // All that the functions for one field get, in one call, and this replica's part of the global batch.
    returned<umbo_replica_context_info> info() const {
        umbo_replica_context_info out = UMBO_REPLICA_CONTEXT_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_replica_context_get_info(raw_, &out));
        return out;
    }

    returned<std::int32_t> replica_id() const {
        UMBO_DETAIL_LET(here, info());
        return here.replica_id;
    }

    // Among those of this process.
    returned<std::int32_t> local_replica_id() const {
        UMBO_DETAIL_LET(here, info());
        return here.local_replica_id;
    }

    returned<std::int64_t> replica_count() const {
        UMBO_DETAIL_LET(here, info());
        return here.replica_count;
    }

    // The name lives as long as the process.
    returned<std::string_view> device() const {
        UMBO_DETAIL_LET(here, info());
        return std::string_view(here.device);
    }

    // The stream to queue work on; NULL on a CPU.
    returned<void *> stream() const {
        UMBO_DETAIL_LET(here, info());
        return here.stream;
    }

    returned<bool> is_cancelled() const {
        std::int32_t out = 0;
        UMBO_DETAIL_TRY(umbo_replica_context_is_cancelled(raw_, &out));
        return out != 0;
    }

    // The key of the random numbers for this replica's examples in this step.
    returned<umbo::random_key> random_key(std::uint64_t seed, std::uint64_t stream = 0) const {
        umbo_random_key out = UMBO_RANDOM_KEY_INIT;
        UMBO_DETAIL_TRY(umbo_replica_context_random_key(raw_, seed, stream, &out));
        return umbo::random_key{out.seed, out.stream, out.step, out.first_example};
    }

    // Uninitialised memory for `count` elements, 64-byte aligned, until the callable returns.
    template <class T>
    returned<span<T>> scratch(std::size_t count) const {
        static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= 64,
                      "scratch memory is raw memory");
        if (count > static_cast<std::size_t>(-1) / sizeof(T)) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "count: more bytes than memory can address");
        }
        void *out = nullptr;
        UMBO_DETAIL_TRY(umbo_replica_context_scratch(raw_, count * sizeof(T), &out));
        return span<T>(static_cast<T *>(out), count);
    }

    returned<void> add_metric(const char *name, double sum, double weight) const {
        return check(umbo_replica_context_add_metric(raw_, name, sum, weight));
    }

    // The variable's current value on this replica's device, read-only: in the variable's type, or
    // of a float32 variable as `umbo::float16` or `umbo::bfloat16`.
    template <class T>
    returned<view_of<const T>> read(const variable &of) const {
        UMBO_DETAIL_LET(raw, view_as(of, dtype_of<T>));
        return view_of<const T>::of(raw);
    }

    // The current values of several variables, read-only, in as many views.
    returned<void> views(span<const variable> of, span<umbo_view> out) const {
        if (out.size() != of.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "out: one view for each variable is expected");
        }
        umbo_view *view = out.data();
        for (const variable &each : of) {
            UMBO_DETAIL_TRY(umbo_variable_view(each.get(), raw_, UMBO_DTYPE_NONE, view++));
        }
        return detail::done();
    }

    // This replica's buffers for all variables of `of`, in as many views. A row-sparse variable has an empty view.
    returned<void> views(const gradients &of, span<umbo_view> out,
                         gradient_mode mode = gradient_mode::overwrite) const {
        return check(umbo_gradients_views(of.get(), raw_, to_c(mode), detail::count_of(out.size()), out.data()));
    }

    // The same where the type is not known when compiling.
    returned<umbo_view> view_as(const variable &of, umbo::dtype dtype) const {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_variable_view(of.get(), raw_, to_c(dtype), &out));
        return out;
    }

    // Waits for all replicas, then `fn(strategy &, const value &args)` runs once with the merged
    // arguments; each replica gets its part of the result.
    template <class Fn>
    returned<value> merge_call(Fn &&fn, const value &args = value()) const {
        using callable = detail::callable_object<Fn>;
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_replica_context_merge_call(raw_, &detail::merge_trampoline<callable>,
                                                        args.get(), detail::lent_callable(fn).user_data(),
                                                        &out));
        return value(out);
    }

    returned<value> all_reduce(const value &what, reduce_op op) const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_replica_context_all_reduce(raw_, what.get(), to_c(op), &out));
        return value(out);
    }

    returned<value> all_gather(const value &what, std::int32_t axis) const {
        umbo_value *out = nullptr;
        UMBO_DETAIL_TRY(umbo_replica_context_all_gather(raw_, what.get(), axis, &out));
        return value(out);
    }

    // Gives each variable the value at its place in `values`, in one synchronising call. Replicas count by
    // their examples, so that a variable with aggregation `mean` gets the mean of the global batch, or by
    // a weight.
    returned<void> assign_all(span<const variable> variables, span<const umbo_view> values,
                              double weight = UMBO_AUTO) const {
        if (variables.size() != values.size()) {
            UMBO_DETAIL_FAIL(status::invalid_argument, "values: one for each variable");
        }
        const auto raw = detail::raw_handles(variables);
        return check(umbo_variable_assign_all(detail::count_of(raw.size()), raw.data(), raw_,
                                              values.data(), weight));
    }

    // This replica's buffer for the gradient of variable `index`.
    template <class T>
    returned<view_of<T>> gradient(const gradients &of, std::int64_t index, gradient_mode mode) const {
        UMBO_DETAIL_LET(raw, gradient(of, index, mode));
        return view_of<T>::of(raw);
    }

    // The same for gradients of a type that is not known when compiling.
    returned<umbo_view> gradient(const gradients &of, std::int64_t index, gradient_mode mode) const {
        umbo_view out{};
        UMBO_DETAIL_TRY(umbo_gradients_view(of.get(), raw_, index, to_c(mode), &out));
        return out;
    }

    // This replica's gradient of variable `index` is read from `where`, in place. `owner` is kept until
    // nothing reads it any more.
    returned<void> attach(const gradients &of, std::int64_t index, const umbo_view &where,
                          std::shared_ptr<void> owner = {}) const {
        using kept_type = std::shared_ptr<void>;
        auto *kept = new kept_type(std::move(owner));
        return check(umbo_gradients_attach(of.get(), raw_, index, &where, kept,
                                           &detail::destroy_callable<kept_type>));
    }

    // Discards what this replica has contributed to variable `index` in this step. A variable to which
    // no replica contributes is left alone by the update.
    returned<void> discard(const gradients &of, std::int64_t index) const {
        return check(umbo_gradients_discard(of.get(), raw_, index));
    }

    // Room for `rows` more rows of row-sparse variable `index`, to be filled before submitting.
    // Gradients of a type other than `T` are noticed, by an exception, when the rows have been
    // added: do not submit after it.
    template <class T>
    returned<added_rows<T>> add_rows(const gradients &of, std::int64_t index, std::int64_t rows) const {
        UMBO_DETAIL_LET(added, add_rows(of, index, rows));
        UMBO_DETAIL_LET(values, view_of<T>::of(added.values));
        return added_rows<T>{added.indices, values};
    }

    // The same for gradients of any type.
    returned<added_rows<void>> add_rows(const gradients &of, std::int64_t index, std::int64_t rows) const {
        umbo_view indices{}, values{};
        UMBO_DETAIL_TRY(umbo_gradients_add_rows(of.get(), raw_, index, rows, &indices, &values));
        return added_rows<void>{view_of<std::int64_t>(indices), values};
    }

    // Copies of the rows of indexed slices.
    returned<void> add_rows(const gradients &of, std::int64_t index, const value &slices) const {
        return check(umbo_gradients_add_indexed_slices(of.get(), raw_, index, slices.get()));
    }

    // The weight is the number of examples of this replica's part.
    returned<void> submit(const gradients &of) const { return check(umbo_gradients_submit(of.get(), raw_)); }

    returned<void> submit(const gradients &of, double weight) const {
        return check(umbo_gradients_submit_weighted(of.get(), raw_, weight));
    }

private:
    umbo_replica_context *raw_;
};

namespace detail {

template <class Callable>
umbo_status replica_trampoline(umbo_replica_context *raw, const umbo_value *args, void *callable,
                               umbo_value **result) noexcept {
    return guarded([&] {
        replica_context context(raw);
        borrowed<value> lent_args(lent(args));
        return call_for_value(*static_cast<Callable *>(callable), result, context, *lent_args);
    });
}

} // namespace detail
UMBO_DETAIL_END

#endif

// A trainer, for weights that are arrays of floats, and data that are rows with numbers.
#ifndef UMBO_CPP_TRAINER_HPP
#define UMBO_CPP_TRAINER_HPP

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/cpp/checkpoint.hpp>
#include <umbo/cpp/replica_context.hpp>
#include <umbo/cpp/strategy.hpp>

UMBO_DETAIL_BEGIN

// An array that is trained, which stays where it is; see umbo_parameters.
struct parameters {
    // Of a vector, a span, an array, or whatever else has `data` and `size`.
    template <class Array, class = decltype(static_cast<float *>(std::data(std::declval<Array &>())))>
    parameters(Array &array, std::string its_name = {}) // NOLINT: an array is its parameters
        : parameters(std::data(array), detail::count_of(std::size(array)), std::move(its_name)) {}

    parameters(float *first, std::int64_t how_many, std::string its_name = {})
        : weights(first), count(how_many), name(std::move(its_name)) {}

    // The same of numbers of bfloat16, which take `trainer_options::stochastic_rounding`.
    template <class Array,
              class = decltype(static_cast<umbo::bfloat16 *>(std::data(std::declval<Array &>()))), int = 0>
    parameters(Array &array, std::string its_name = {}) // NOLINT: an array is its parameters
        : parameters(std::data(array), detail::count_of(std::size(array)), std::move(its_name)) {}

    parameters(umbo::bfloat16 *first, std::int64_t how_many, std::string its_name = {})
        : weights(nullptr), count(how_many), name(std::move(its_name)), half_weights(first) {}

    float *weights;
    std::int64_t count;
    std::string name;
    std::int64_t row_length = 0; // more: gradients are of single rows (`rows::gradient_row`)
    double learning_rate_factor = 1;
    bool no_weight_decay = false;
    bool frozen = false;
    umbo::bfloat16 *half_weights = nullptr; // instead of `weights`
};

// See umbo_trainer_options.
struct trainer_options {
    std::string rule = {};            // "sgd", "momentum", "adam", "adamw", ...; empty: "sgd"
    double learning_rate = UMBO_AUTO; // that of the rule
    std::string schedule = {}; // "linear", "cosine"; empty: a constant rate
    std::int64_t schedule_updates = 0;
    std::int64_t warmup_updates = 0;
    double weight_decay = UMBO_AUTO;
    double global_clip_norm = UMBO_INFINITE;
    std::int64_t accumulation_steps = 1;
    umbo::loss_reduction loss_reduction = umbo::loss_reduction::sum;
    std::int64_t replicas = 0; // one for each processor of this process
    std::int64_t replicas_in_sync = 0;
    std::uint64_t seed = 0;
    bool shuffle = true;
    bool progress = false;
    std::string interrupt_path = {}; // empty: interrupts are left to the program
    double timeout_seconds = UMBO_INFINITE;
    umbo::cancellation cancellation = {};
    umbo::communicator communicator = {};
    umbo::strategy strategy = {};   // empty: the trainer makes one
    umbo::optimizer optimizer = {}; // empty: the trainer makes one
    umbo::dtype gradient_dtype = umbo::dtype::none; // float16, bfloat16: `rows::half_gradient`
    double average_decay = 0; // more: evaluations take a moving average of the weights
    std::int64_t state_bits = 0; // 8: fewer bytes for the states of a rule
    bool stochastic_rounding = false; // true: for weights of bfloat16
    std::uint64_t rounding_seed = 0;
};

// The rows of a batch that a replica has. Lent: usable until the callable returns, on its thread.
class rows {
public:
    explicit rows(const umbo_rows *raw) noexcept : raw_(raw) {}

    const umbo_rows *get() const noexcept { return raw_; }

    // The numbers of the rows: `for (const std::int64_t row : rows)`.
    std::int64_t size() const noexcept { return raw_->count; }
    std::int64_t operator[](std::int64_t position) const noexcept { return raw_->indices[position]; }
    const std::int64_t *begin() const noexcept { return raw_->indices; }
    const std::int64_t *end() const noexcept { return raw_->indices + raw_->count; }

    // Whether gradients are wanted.
    bool training() const noexcept { return raw_->training != 0; }

    // Among the replicas of this process; no two calls have the same at a time.
    std::int32_t replica_id() const noexcept { return raw_->replica_id; }

    // How many threads of its own the callable may use.
    std::int64_t thread_count() const noexcept { return raw_->thread_count; }

    umbo::replica_context context() const noexcept { return umbo::replica_context(raw_->context); }

    // The weights of an array, and the memory where this replica adds to their gradient.
    const float *weights(std::int64_t array = 0) const noexcept { return raw_->weights[array]; }
    float *gradient(std::int64_t array = 0) const noexcept { return raw_->gradients[array]; }

    // The latter as numbers of 16 bits, if the `gradient_dtype` of the trainer is one of these; else nullptr.
    void *half_gradient(std::int64_t array = 0) const noexcept {
        return raw_->half_gradients == nullptr ? nullptr : raw_->half_gradients[array];
    }

    // The weights of an array of bfloat16; of any other, nullptr.
    const umbo::bfloat16 *half_weights(std::int64_t array = 0) const noexcept {
        const void *const at = raw_->half_weights == nullptr ? nullptr : raw_->half_weights[array];
        return static_cast<const umbo::bfloat16 *>(at);
    }

    // Where this replica adds to the gradient of a row, until the callable returns.
    returned<float *> gradient_row(std::int64_t array, std::int64_t row) const {
        float *out = nullptr;
        UMBO_DETAIL_TRY(umbo_rows_gradient_row(raw_, array, row, &out));
        return out;
    }

    // The weight of the rows in the mean over the batch, instead of their number.
    returned<void> weigh(double weight) const { return check(umbo_rows_weigh(raw_, weight)); }

private:
    const umbo_rows *raw_;
};

namespace detail {

template <class Callable>
umbo_status learn_trampoline(const umbo_rows *raw, const float *, float *, void *callable,
                             double *loss) noexcept {
    return guarded([&]() -> returned<void> {
        const umbo::rows these(raw);
        UMBO_DETAIL_LET(made, (*static_cast<Callable *>(callable))(these));
        static_assert(std::is_convertible_v<decltype(made), double>,
                      "a callable returns the loss of its rows");
        *loss = static_cast<double>(made);
        return done();
    });
}

// The C form of `parameters`; lives no longer than they do.
inline umbo_parameters raw_options(const parameters &from) noexcept {
    umbo_parameters raw = {};
    raw.weights = from.weights;
    raw.count = from.count;
    raw.name = optional_text(from.name);
    raw.row_length = from.row_length;
    raw.learning_rate_factor = from.learning_rate_factor;
    raw.no_weight_decay = from.no_weight_decay ? 1 : 0;
    raw.frozen = from.frozen ? 1 : 0;
    void *const half = from.half_weights;
    raw.half_weights = static_cast<std::uint16_t *>(half);
    return raw;
}

// The C form of `trainer_options`; lives no longer than they do.
inline umbo_trainer_options raw_options(const trainer_options &how) noexcept {
    umbo_trainer_options raw = UMBO_TRAINER_OPTIONS_INIT;
    raw.rule = optional_text(how.rule);
    raw.learning_rate = how.learning_rate;
    raw.schedule = optional_text(how.schedule);
    raw.schedule_updates = how.schedule_updates;
    raw.warmup_updates = how.warmup_updates;
    raw.weight_decay = how.weight_decay;
    raw.global_clip_norm = how.global_clip_norm;
    raw.accumulation_steps = how.accumulation_steps;
    raw.loss_reduction = to_c(how.loss_reduction);
    raw.replicas = how.replicas;
    raw.replicas_in_sync = how.replicas_in_sync;
    raw.seed = how.seed;
    raw.shuffle = how.shuffle ? 1 : 0;
    raw.progress = how.progress ? 1 : 0;
    raw.interrupt_path = optional_text(how.interrupt_path);
    raw.timeout_seconds = how.timeout_seconds;
    raw.cancellation = how.cancellation.get();
    raw.communicator = how.communicator.get();
    raw.strategy = how.strategy.get();
    raw.optimizer = how.optimizer.get();
    raw.gradient_dtype = to_c(how.gradient_dtype);
    raw.average_decay = how.average_decay;
    raw.state_bits = how.state_bits;
    raw.stochastic_rounding = how.stochastic_rounding ? 1 : 0;
    raw.rounding_seed = how.rounding_seed;
    return raw;
}

// Waits, after a call of a trainer that has failed, until its late callbacks have returned.
class late_calls {
public:
    // Of no trainer: it waits for nothing.
    explicit late_calls(const umbo_trainer *of) noexcept : of_(of) {}
    late_calls(const late_calls &) = delete;
    late_calls &operator=(const late_calls &) = delete;
    ~late_calls() {
        umbo_strategy *on = nullptr;
        if (!has_failed_ || of_ == nullptr || umbo_trainer_strategy(of_, &on) != UMBO_OK) return;
        umbo_ignore(umbo_strategy_synchronize(on));
        umbo_strategy_release(on);
    }

    umbo_status after(umbo_status outcome) noexcept {
        has_failed_ = outcome != UMBO_OK;
        return outcome;
    }

private:
    const umbo_trainer *of_;
    bool has_failed_ = false;
};

} // namespace detail

// A strategy, variables over arrays, gradients, an optimizer and a checkpoint, made together.
//
// `learn(const rows &)` adds to the gradients of its rows and returns their loss; it is called on all replicas at
// the same time, and may throw, which fails the step. It is used where it is. With a time limit or a token, one that
// has a name has to live until its last call is back, which `synchronize` of the strategy waits for; the call of the
// trainer itself waits for that of a temporary.
class trainer : public handle<umbo_trainer> {
public:
    using handle::handle;

    static returned<trainer> create(span<const parameters> arrays, const trainer_options &how = {}) {
        std::vector<umbo_parameters> raw;
        raw.reserve(arrays.size());
        for (const parameters &array : arrays) raw.push_back(detail::raw_options(array));
        const auto options = detail::raw_options(how);
        umbo_trainer *out = nullptr;
        UMBO_DETAIL_TRY(umbo_trainer_create_with_arrays(detail::count_of(raw.size()), raw.data(), &options, &out));
        return trainer(out);
    }

    // The mean loss of a row, after a step on each batch.
    template <class Learn>
    returned<double> epoch(std::int64_t row_count, std::int64_t batch_size, Learn &&learn) const {
        return call<Learn>(learn, [&](umbo_learn_fn function, void *user_data, double *out) {
            return umbo_trainer_epoch(get(), row_count, batch_size, function, user_data, out);
        });
    }

    // The same of a step on one batch: the rows from `first_row` on.
    template <class Learn>
    returned<double> step(std::int64_t first_row, std::int64_t row_count, Learn &&learn) const {
        return call<Learn>(learn, [&](umbo_learn_fn function, void *user_data, double *out) {
            return umbo_trainer_step(get(), first_row, row_count, function, user_data, out);
        });
    }

    // The same without gradients: nothing is updated.
    template <class Learn>
    returned<double> evaluate(std::int64_t row_count, std::int64_t batch_size, Learn &&learn) const {
        return call<Learn>(learn, [&](umbo_learn_fn function, void *user_data, double *out) {
            return umbo_trainer_evaluate(get(), row_count, batch_size, function, user_data, out);
        });
    }

    returned<void> save(const std::string &path) const { return check(umbo_trainer_save(get(), path.c_str())); }

    returned<void> restore(const std::string &path) const {
        return check(umbo_trainer_restore(get(), path.c_str()));
    }

    // Restores if there is such a file. The number of the epoch to begin with.
    returned<std::int64_t> resume(const std::string &path) const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_trainer_resume(get(), path.c_str(), &out));
        return out;
    }

    // From the next update on. Ends a schedule.
    returned<void> set_learning_rate(double learning_rate) const {
        return check(umbo_trainer_set_learning_rate(get(), learning_rate));
    }

    returned<umbo_trainer_info> info() const {
        umbo_trainer_info out = UMBO_TRAINER_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_trainer_get_info(get(), &out));
        return out;
    }

    returned<umbo::strategy> strategy() const {
        umbo_strategy *out = nullptr;
        UMBO_DETAIL_TRY(umbo_trainer_strategy(get(), &out));
        return umbo::strategy(out);
    }

    returned<umbo::variable> variable(std::int64_t array = 0) const {
        umbo_variable *out = nullptr;
        UMBO_DETAIL_TRY(umbo_trainer_variable(get(), array, &out));
        return umbo::variable(out);
    }

    returned<umbo::gradients> gradients() const {
        umbo_gradients *out = nullptr;
        UMBO_DETAIL_TRY(umbo_trainer_gradients(get(), &out));
        return umbo::gradients(out);
    }

    returned<umbo::optimizer> optimizer() const {
        umbo_optimizer *out = nullptr;
        UMBO_DETAIL_TRY(umbo_trainer_optimizer(get(), &out));
        return umbo::optimizer(out);
    }

    // What `save` saves.
    returned<umbo::checkpoint> checkpoint() const {
        umbo_checkpoint *out = nullptr;
        UMBO_DETAIL_TRY(umbo_trainer_checkpoint(get(), &out));
        return umbo::checkpoint(out);
    }

    // Batches of the numbers of rows, in the order of the next epoch.
    returned<umbo::dataset> dataset(std::int64_t row_count, std::int64_t batch_size) const {
        umbo_dataset *out = nullptr;
        UMBO_DETAIL_TRY(umbo_trainer_dataset(get(), row_count, batch_size, &out));
        return umbo::dataset(out);
    }

private:
    template <class Learn, class Call>
    returned<double> call(std::remove_reference_t<Learn> &learn, Call made) const {
        // A pointer to a function lies here, and a temporary is gone with the statement.
        constexpr bool lives_on =
            std::is_lvalue_reference_v<Learn> && !std::is_function_v<std::remove_reference_t<Learn>>;
        detail::lent_callable lent(learn);
        const auto function = &detail::learn_trampoline<detail::callable_object<Learn>>;
        detail::late_calls late(lives_on ? nullptr : get());
        double out = 0;
        UMBO_DETAIL_TRY(late.after(made(function, lent.user_data(), &out)));
        return out;
    }
};

UMBO_DETAIL_END

#endif

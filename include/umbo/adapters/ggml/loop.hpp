// The loop of ggml_opt: epochs over a dataset, a part of which is for validation.
#ifndef UMBO_ADAPTERS_GGML_LOOP_HPP
#define UMBO_ADAPTERS_GGML_LOOP_HPP

#include <cinttypes>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <string>
#include <utility>

#include <umbo/adapters/ggml/model.hpp>
#include <umbo/adapters/ggml/optimizer.hpp>

namespace umbo {
namespace adapters {

// What a pass has come to, as ggml_opt_result has it.
struct ggml_result {
    std::int64_t ndata = 0;
    double loss = 0; // the mean of an example, or of a loss that is a sum the sum
    double accuracy = std::numeric_limits<double>::quiet_NaN(); // of a cross entropy
};

struct ggml_loop_options {
    std::int64_t batch_size = 32;       // examples of an update, on all replicas together
    std::int64_t idata_split = UMBO_ALL; // rows before this one are for training, the others for evaluation
    bool shuffle = true;                // the rows for training, in each epoch
    std::uint64_t seed = 0;             // of their order
    ggml_opt_optimizer_type optimizer = GGML_OPT_OPTIMIZER_TYPE_ADAMW;
    // Called before each update, as by ggml: the learning rate may change.
    ggml_opt_get_optimizer_params get_opt_pars = ggml_opt_get_default_optimizer_params;
    void *get_opt_pars_ud = nullptr;
};

// Epochs of a model over rows with the fields "data" and "labels", such as `rows_of(dataset)` gives. The last batch of an
// epoch may be smaller.
template <class Net>
class ggml_loop {
public:
    // The model has to live as long. Throws INVALID_ARGUMENT for a batch size below 1, or rows of which none is for training.
    ggml_loop(ggml_model<Net> &model, const dataset &rows, const ggml_loop_options &how = {})
        : model_(model), how_(how), now_(how.get_opt_pars(how.get_opt_pars_ud)) {
        const std::int64_t all = rows.cardinality();
        if (all < 1) throw error(status::invalid_argument, "rows: their number has to be known, and 1 or more");
        const std::int64_t split = how.idata_split < 0 ? all : how.idata_split;
        if (split < 1 || split > all) {
            throw error(status::invalid_argument, "idata_split: from 1 to the number of rows, " + std::to_string(all));
        }
        shuffle_options order;
        order.seed = how.seed;
        const dataset first = rows.take(split);
        training_rows_ = (how.shuffle ? first.shuffle(order) : first).batch(how.batch_size);
        if (split < all) evaluation_rows_ = rows.skip(split).batch(how.batch_size);
        training_batches_ = batches_of(split);
        evaluation_batches_ = batches_of(all - split);
        parts_ = parts(*this);
        if (model_.had_loop_) model_.choice_.settle(); // the other loop knows nothing of new parts
        model_.had_loop_ = true;
    }

    ggml_loop(const ggml_loop &) = delete;
    ggml_loop &operator=(const ggml_loop &) = delete;

    const umbo::optimizer &optimizer() const noexcept {
        model_.choice_.settle();
        return parts_.optimizer;
    }

    const umbo::checkpoint &checkpoint() const noexcept {
        model_.choice_.settle();
        return parts_.saved;
    }

    // Trains on each batch of the rows for training, and evaluates on the others: the two results. `callback(train, result,
    // ibatch, ibatch_max, t_start_us)` is called after each batch, as by ggml_opt_epoch. What fails or throws ends the epoch;
    // the updates before it stay.
    template <class Callback>
    std::pair<ggml_result, ggml_result> epoch(Callback callback) {
        std::pair<ggml_result, ggml_result> made;
        made.first = pass(parts_.training, training_batches_, callback, true);
        parts_.saved.set_integer("epochs", parts_.saved.integer("epochs") + 1);
        if (parts_.evaluation) made.second = pass(parts_.evaluation, evaluation_batches_, callback, false);
        return made;
    }

    std::pair<ggml_result, ggml_result> epoch() {
        return epoch([](bool, const ggml_result &, std::int64_t, std::int64_t, std::int64_t) {});
    }

    // Parameters, the optimizer's state, the order of the rows, and the number of epochs, in a file of Umbo's.
    void save(const std::string &path) const { parts_.saved.save(path); }

    void restore(const std::string &path) {
        parts_.saved.restore(path);
        know_rate();
    }

    // Restores if there is such a file. The number of epochs that it has seen: the next one, counted from 0.
    std::int64_t resume(const std::string &path) {
        const std::int64_t epochs = common_detail::resume(parts_.saved, path);
        know_rate();
        return epochs;
    }

private:
    std::int64_t batches_of(std::int64_t rows) const { return (rows + how_.batch_size - 1) / how_.batch_size; }

    // What belongs to a number of replicas.
    struct parts {
        parts() = default;

        explicit parts(const ggml_loop &loop) {
            const auto &model = *loop.model_.now_;
            optimizer = optimizer_of(model.on, loop.how_.optimizer, loop.now_);
            training = model.on.iterate(loop.training_rows_);
            if (loop.evaluation_rows_) evaluation = model.on.iterate(loop.evaluation_rows_);
            saved = umbo::checkpoint::create(model.on);
            for (const variable &parameter : model.parameters) saved.add(parameter);
            saved.add("optimizer", optimizer);
            saved.add("gradients", model.gradients);
            saved.add("rows", training);
            saved.set_integer("epochs", 0);
        }

        umbo::optimizer optimizer;
        iterator training, evaluation;
        umbo::checkpoint saved;
    };

    // Lets the training continue on this many replicas.
    void move_to(std::int64_t replicas) {
        const auto state = parts_.saved.save_to_memory();
        auto model = model_.on_other(replicas);
        model_.now_.swap(model);
        try {
            parts next(*this);
            next.saved.restore_from_memory(state);
            next.optimizer.set_learning_rate(static_cast<double>(rate_of(now_)));
            parts_ = std::move(next);
        } catch (...) {
            model_.now_.swap(model);
            throw;
        }
    }

    template <class Callback>
    ggml_result pass(const iterator &batches, std::int64_t count, Callback &callback, bool trains) {
        common_detail::mean_of loss, right;
        ggml_result result;
        const std::int64_t start = ggml_time_us();
        std::int64_t number = 0;
        try {
            bool has_moved = true; // then the rest of the pass is another iterator's
            while (has_moved) {
                has_moved = false;
                for (const value &batch : batches) {
                    step_on(batch, trains, loss, right, result);
                    has_moved = trains && model_.choice_.end([this](std::int64_t replicas) { move_to(replicas); });
                    callback(trains, static_cast<const ggml_result &>(result), ++number, count, start);
                    if (has_moved) break;
                }
            }
        } catch (...) {
            batches.reset();
            throw;
        }
        return result;
    }

    // Trains or measures a batch, and adds to what the pass has come to.
    void step_on(const value &batch, bool trains, common_detail::mean_of &loss, common_detail::mean_of &right, ggml_result &result) {
        const auto &model = *model_.now_;
        if (trains) {
            follow_parameters(); // which may fail
            model_.choice_.begin();
            model.on.run(model_.step(), batch);
            parts_.optimizer.apply(model.gradients);
        } else {
            model.on.run(model_.evaluation(), batch);
        }
        loss.add(model.on.metric_result("loss"));
        result.ndata = loss.weight();
        result.loss = model_.sums() ? loss.sum() : loss.mean();
        if (model_.has_accuracy()) {
            right.add(model.on.metric_result("accuracy"));
            result.accuracy = right.mean();
        }
    }

    bool is_adamw() const noexcept { return how_.optimizer == GGML_OPT_OPTIMIZER_TYPE_ADAMW; }
    float rate_of(const ggml_opt_optimizer_params &how) const noexcept { return is_adamw() ? how.adamw.alpha : how.sgd.alpha; }

    // The optimizer has the learning rate of a checkpoint: the next update sets it again.
    void know_rate() { (is_adamw() ? now_.adamw.alpha : now_.sgd.alpha) = std::numeric_limits<float>::quiet_NaN(); }

    // The parameters of the next update.
    void follow_parameters() {
        const ggml_opt_optimizer_params next = how_.get_opt_pars(how_.get_opt_pars_ud);
        const auto &a = next.adamw, &b = now_.adamw;
        const char *other = nullptr;
        if (is_adamw()) {
            other = a.beta1 != b.beta1 ? "adamw.beta1" : a.beta2 != b.beta2 ? "adamw.beta2" : a.eps != b.eps ? "adamw.eps"
                    : a.wd != b.wd     ? "adamw.wd"    : nullptr;
        } else if (next.sgd.wd != now_.sgd.wd) {
            other = "sgd.wd";
        }
        if (other != nullptr) {
            throw error(status::unimplemented, std::string("get_opt_pars: '") + other + "' has changed; only 'alpha' may");
        }
        if (rate_of(next) != rate_of(now_)) parts_.optimizer.set_learning_rate(static_cast<double>(rate_of(next)));
        now_ = next;
    }

    ggml_model<Net> &model_;
    ggml_loop_options how_;
    ggml_opt_optimizer_params now_;
    dataset training_rows_, evaluation_rows_; // in batches
    std::int64_t training_batches_ = 0, evaluation_batches_ = 0;
    parts parts_;
};

// ggml_opt_fit over replicas, with its last arguments: `nepoch` epochs on the rows of a dataset, of which the share
// `val_split` is for validation. `get_opt_pars` gets a pointer to the number of the epoch, an int64_t from 1 on. Not silent,
// it writes a line for each epoch to standard error. Rows are shuffled before they are divided, and in each epoch. Returns the
// results of the last epoch.
template <class Net>
std::pair<ggml_result, ggml_result> ggml_fit(ggml_model<Net> &model, ggml_opt_dataset_t dataset, ggml_opt_optimizer_type optimizer,
                                             ggml_opt_get_optimizer_params get_opt_pars, std::int64_t nepoch,
                                             std::int64_t nbatch_logical, float val_split, bool silent, std::uint64_t seed = 0) {
    if (!(val_split >= 0.0f && val_split < 1.0f)) throw error(status::invalid_argument, "val_split: from 0 on, and below 1");
    std::int64_t epoch = 1;
    ggml_loop_options how;
    how.batch_size = nbatch_logical;
    how.idata_split = static_cast<std::int64_t>(std::ceil((1.0 - static_cast<double>(val_split)) *
                                                          static_cast<double>(ggml_opt_dataset_ndata(dataset))));
    how.seed = seed;
    how.optimizer = optimizer;
    how.get_opt_pars = get_opt_pars;
    how.get_opt_pars_ud = &epoch;
    shuffle_options once;
    once.seed = seed;
    once.keep_order_each_pass = true;
    ggml_loop<Net> loop(model, rows_of(dataset).shuffle(once), how);
    std::pair<ggml_result, ggml_result> last;
    for (; epoch <= nepoch; ++epoch) {
        last = loop.epoch();
        if (silent) continue;
        std::fprintf(stderr, "epoch %" PRId64 "/%" PRId64 ": loss %.5f, accuracy %.4f; validation: loss %.5f, accuracy %.4f\n", epoch,
                     nepoch, last.first.loss, last.first.accuracy, last.second.loss, last.second.accuracy);
    }
    return last;
}

} // namespace adapters
} // namespace umbo

#endif

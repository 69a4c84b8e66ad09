// The loop of dlib::dnn_trainer over replicas.
#ifndef UMBO_ADAPTERS_DLIB_TRAINER_HPP
#define UMBO_ADAPTERS_DLIB_TRAINER_HPP

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <iostream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <umbo/adapters/blas.hpp>
#include <umbo/adapters/dlib/model.hpp>
#include <umbo/adapters/replica_choice.hpp>

namespace umbo {
namespace adapters {

// Trains as dlib::dnn_trainer does, whose functions it has by their names, and with its defaults: batches in the order of the samples,
// and a learning rate that shrinks when the loss stops falling, until it is below the least one.
//
// Where it differs: the last batch of an epoch is weighted by its examples over the replicas; the momentum of dlib::sgd keeps
// gradients, not steps, so that a new learning rate is that of the whole next step; a call returns when it has trained.
template <class Net>
class dlib_trainer {
public:
    using input_type = typename Net::input_type;
    using label_type = typename Net::training_label_type;

    // `sample` has the sizes of all samples; see dlib_model. `solver` is a dlib::sgd or a dlib::adam.
    template <class Solver = dlib::sgd>
    dlib_trainer(const umbo::strategy &on, Net net, const input_type &sample, const Solver &solver = Solver())
        : sample_(sample), rule_([solver](const dlib_model<Net> &model, double rate) { return model.optimizer_of(solver, rate); }),
          now_(on, std::move(net), *this) {
        note(0); // so that it knows their names
    }

    // On this many replicas, with OpenBLAS's threads and OpenMP's set. UMBO_AUTO: on as many as train fastest. The first steps, which
    // are steps like others, try one replica for each processor and divisors of that number; where losses depend on the number
    // of replicas only by rounding, so do results. With `replicas_in_sync` it changes no bit of them. What `model()` or
    // `optimizer()` has handed out stays: the choice ends there.
    template <class Solver = dlib::sgd>
    dlib_trainer(std::int64_t replicas, Net net, const input_type &sample, const Solver &solver = Solver(),
                 std::int64_t replicas_in_sync = 0)
        : dlib_trainer(common_detail::strategy_with_shares(replicas, replicas_in_sync), std::move(net), sample, solver) {
        in_sync_ = replicas_in_sync;
        if (replicas == UMBO_AUTO) choice_ = common_detail::replica_choice(common_detail::first_replicas(replicas_in_sync));
    }

    dlib_trainer(const dlib_trainer &) = delete;
    dlib_trainer &operator=(const dlib_trainer &) = delete;

    dlib_model<Net> &model() noexcept {
        choice_.settle();
        return *now_.model;
    }

    const umbo::optimizer &optimizer() const noexcept {
        choice_.settle();
        return now_.optimizer;
    }

    Net get_net() const { return now_.model->net(); }

    // What was chosen for UMBO_AUTO, or is tried next, and why: "1 replica: a step takes 4.10 ms with ...".
    std::string choice() const { return choice_.text(); }

    // Epochs until their largest number, or until the learning rate is below the least one. Throws INVALID_ARGUMENT if there are
    // no samples, or another number of labels. What fails ends it; the steps before stay, and it resumes where it was.
    void train(const std::vector<input_type> &samples, const std::vector<label_type> &labels) {
        require(samples, labels);
        const auto rows = static_cast<std::int64_t>(samples.size());
        for (; epoch_ < max_num_epochs_ && learning_rate_ >= min_learning_rate_; ++epoch_) {
            clear_average_loss();
            for (; position_ < rows && learning_rate_ >= min_learning_rate_; position_ += mini_batch_size_) {
                step_on(samples, labels, position_, std::min(mini_batch_size_, rows - position_));
                if (std::chrono::steady_clock::now() - last_sync_ > sync_interval_) synchronise_file(mini_batch_size_);
            }
            position_ = 0;
            if (verbose_) {
                std::cout << "Epoch: " << epoch_ + 1 << "  learning rate: " << learning_rate_ << "  average loss: " << get_average_loss()
                          << std::endl;
            }
        }
        synchronise_file(0);
    }

    // One step on all samples.
    void train_one_step(const std::vector<input_type> &samples, const std::vector<label_type> &labels) {
        require(samples, labels);
        step_on(samples, labels, 0, static_cast<std::int64_t>(samples.size()));
        if (std::chrono::steady_clock::now() - last_sync_ > sync_interval_) synchronise_file(0);
    }

    // The mean loss of all samples, which changes no parameter.
    double test_one_step(const std::vector<input_type> &samples, const std::vector<label_type> &labels) {
        require(samples, labels);
        dlib_model<Net> &model = *now_.model;
        const umbo::strategy &on = model.strategy();
        on.run(model.evaluation(samples, labels), on.split(model.rows_of(0, static_cast<std::int64_t>(samples.size()))));
        return on.metric_result("loss").mean;
    }

    // Of the steps since it was cleared, which each epoch of `train` does.
    double get_average_loss() const { return losses_.current_n() == 0 ? 0 : losses_.mean(); }
    void clear_average_loss() { losses_.clear(); }

    double get_learning_rate() const noexcept { return learning_rate_; }
    void set_learning_rate(double rate) {
        now_.optimizer.set_learning_rate(rate);
        if (rate != learning_rate_) previous_.clear();
        learning_rate_ = rate;
    }

    double get_min_learning_rate() const noexcept { return min_learning_rate_; }
    void set_min_learning_rate(double rate) { min_learning_rate_ = positive("set_min_learning_rate", rate); }

    double get_learning_rate_shrink_factor() const noexcept { return shrink_; }
    // 1: the learning rate stays.
    void set_learning_rate_shrink_factor(double factor) {
        if (!(factor > 0 && factor <= 1)) throw error(status::invalid_argument, "set_learning_rate_shrink_factor: above 0, and at most 1");
        shrink_ = factor;
    }

    std::int64_t get_iterations_without_progress_threshold() const noexcept { return threshold_; }
    void set_iterations_without_progress_threshold(std::int64_t steps) {
        threshold_ = positive("set_iterations_without_progress_threshold", steps);
        previous_.clear();
    }

    std::int64_t get_mini_batch_size() const noexcept { return mini_batch_size_; }
    void set_mini_batch_size(std::int64_t size) { mini_batch_size_ = positive("set_mini_batch_size", size); }

    std::int64_t get_max_num_epochs() const noexcept { return max_num_epochs_; }
    void set_max_num_epochs(std::int64_t count) { max_num_epochs_ = positive("set_max_num_epochs", count); }

    std::int64_t get_train_one_step_calls() const noexcept { return steps_; }

    void be_verbose() noexcept { verbose_ = true; }
    void be_quiet() noexcept { verbose_ = false; }

    // Saves parameters, the optimizer's state and the place in the epochs in this file of Umbo's, at the end of `train` and where
    // that many seconds have passed. If there is such a file, the training resumes from it now. Losses that say when the learning
    // rate shrinks are collected anew. The statistics of normalisations are not in it.
    void set_synchronization_file(const std::string &path, std::chrono::seconds interval = std::chrono::minutes(15)) {
        if (std::ifstream(path)) restore(path);
        sync_path_ = path;
        sync_interval_ = interval;
        last_sync_ = std::chrono::steady_clock::now();
    }

    void save(const std::string &path) { save(path, 0); }

    void restore(const std::string &path) {
        now_.saved.restore(path);
        epoch_ = now_.saved.integer("epoch");
        position_ = now_.saved.integer("position");
        steps_ = now_.saved.integer("steps");
        learning_rate_ = now_.saved.number("learning_rate");
        previous_.clear();
    }

private:
    template <class Number>
    static Number positive(const char *function, Number number) {
        if (!(number > 0)) throw error(status::invalid_argument, std::string(function) + ": more than 0");
        return number;
    }

    static void require(const std::vector<input_type> &samples, const std::vector<label_type> &labels) {
        if (!samples.empty() && samples.size() == labels.size()) return;
        throw error(status::invalid_argument, "samples: there are " + std::to_string(samples.size()) + " and " +
                                                  std::to_string(labels.size()) + " labels; as many of both, and 1 or more");
    }

    void step_on(const std::vector<input_type> &samples, const std::vector<label_type> &labels, std::int64_t first, std::int64_t count) {
        choice_.begin();
        const double loss = now_.model->train(samples, labels, dlib_model<Net>::rows_of(first, count));
        now_.optimizer.apply(now_.model->gradients());
        choice_.end([this](std::int64_t replicas) { move_to(replicas); });
        ++steps_;
        losses_.add(loss);
        previous_.push_back(loss);
        while (static_cast<std::int64_t>(previous_.size()) > threshold_) previous_.pop_front();
        // As often as dlib looks whether the loss falls still.
        budget_ += 200;
        if (budget_ <= threshold_ || shrink_ == 1) return;
        budget_ = 0;
        shrink_without_progress();
    }

    void shrink_without_progress() {
        const auto still = static_cast<unsigned long>(threshold_);
        if (dlib::count_steps_without_decrease(previous_) < still || dlib::count_steps_without_decrease_robust(previous_) < still) return;
        learning_rate_ *= shrink_;
        now_.optimizer.set_learning_rate(learning_rate_);
        const auto dropped = std::min<std::int64_t>(400 + threshold_ / 10, static_cast<std::int64_t>(previous_.size()));
        previous_.erase(previous_.begin(), previous_.begin() + dropped);
    }

    // Lets the training continue on this many replicas.
    void move_to(std::int64_t replicas) {
        const auto state = now_.saved.save_to_memory();
        parts next(common_detail::strategy_with_shares(replicas, in_sync_), now_.model->net(), *this);
        for (const char *name : {"epoch", "position", "steps"}) next.saved.set_integer(name, 0);
        next.saved.set_number("learning_rate", 0);
        next.saved.restore_from_memory(state);
        next.optimizer.set_learning_rate(learning_rate_);
        now_ = std::move(next);
    }

    void synchronise_file(std::int64_t trained_since) {
        if (!sync_path_.empty()) save(sync_path_, trained_since);
        last_sync_ = std::chrono::steady_clock::now();
    }

    // `trained_since`: examples of the epoch that are trained and not yet in `position_`.
    void save(const std::string &path, std::int64_t trained_since) {
        note(trained_since);
        now_.saved.save(path);
    }

    void note(std::int64_t trained_since) {
        now_.saved.set_integer("epoch", epoch_);
        now_.saved.set_integer("position", position_ + trained_since);
        now_.saved.set_integer("steps", steps_);
        now_.saved.set_number("learning_rate", learning_rate_);
    }

    // What belongs to a number of replicas.
    struct parts {
        parts(const umbo::strategy &on, Net net, const dlib_trainer &trainer)
            : model(std::make_unique<dlib_model<Net>>(on, std::move(net), trainer.sample_)),
              optimizer(trainer.rule_(*model, trainer.learning_rate_)), saved(umbo::checkpoint::create(on)) {
            for (const variable &parameter : model->parameters()) saved.add(parameter);
            saved.add("optimizer", optimizer);
        }

        std::unique_ptr<dlib_model<Net>> model;
        umbo::optimizer optimizer;
        umbo::checkpoint saved;
    };

    double learning_rate_ = 1e-2, min_learning_rate_ = 1e-5, shrink_ = 0.1;
    std::int64_t threshold_ = 2000, mini_batch_size_ = 128, max_num_epochs_ = 10000;
    std::int64_t epoch_ = 0, position_ = 0, steps_ = 0, budget_ = 0;
    bool verbose_ = false;
    mutable common_detail::replica_choice choice_;
    std::int64_t in_sync_ = 0;
    input_type sample_;
    std::function<umbo::optimizer(const dlib_model<Net> &, double)> rule_;
    parts now_;
    dlib::running_stats<double> losses_;
    std::deque<double> previous_; // losses of steps
    std::string sync_path_;
    std::chrono::steady_clock::duration sync_interval_ = std::chrono::minutes(15);
    std::chrono::steady_clock::time_point last_sync_ = std::chrono::steady_clock::now();
};

} // namespace adapters
} // namespace umbo

#endif

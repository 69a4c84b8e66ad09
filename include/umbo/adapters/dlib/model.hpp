// A network of dlib's on each replica.
#ifndef UMBO_ADAPTERS_DLIB_MODEL_HPP
#define UMBO_ADAPTERS_DLIB_MODEL_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <umbo/adapters/dlib/layers.hpp>

namespace umbo {
namespace adapters {

namespace dlib_detail {

// Elements of a vector by their numbers, for dlib's functions, which take pairs of iterators.
template <class Element>
class chosen {
public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = Element;
    using difference_type = std::ptrdiff_t;
    using pointer = const Element *;
    using reference = const Element &;

    chosen(const std::vector<Element> &from, const std::int64_t *number) : from_(&from), number_(number) {}

    reference operator*() const { return (*from_)[static_cast<std::size_t>(*number_)]; }
    pointer operator->() const { return &**this; }
    reference operator[](difference_type at) const { return *(*this + at); }
    chosen &operator+=(difference_type by) { return number_ += by, *this; }
    chosen &operator-=(difference_type by) { return number_ -= by, *this; }
    chosen &operator++() { return *this += 1; }
    chosen &operator--() { return *this -= 1; }
    chosen operator++(int) { return std::exchange(*this, *this + 1); }
    chosen operator--(int) { return std::exchange(*this, *this - 1); }
    friend chosen operator+(chosen a, difference_type by) { return a += by; }
    friend chosen operator+(difference_type by, chosen a) { return a += by; }
    friend chosen operator-(chosen a, difference_type by) { return a -= by; }
    friend difference_type operator-(const chosen &a, const chosen &b) { return a.number_ - b.number_; }
    friend bool operator==(const chosen &a, const chosen &b) { return a.number_ == b.number_; }
    friend bool operator!=(const chosen &a, const chosen &b) { return a.number_ != b.number_; }
    friend bool operator<(const chosen &a, const chosen &b) { return a.number_ < b.number_; }
    friend bool operator>(const chosen &a, const chosen &b) { return b < a; }
    friend bool operator<=(const chosen &a, const chosen &b) { return !(b < a); }
    friend bool operator>=(const chosen &a, const chosen &b) { return !(a < b); }

private:
    const std::vector<Element> *from_;
    const std::int64_t *number_;
};

} // namespace dlib_detail

// A network on each replica, whose parameters are variables of the strategy: the weights of a layer and its biases, since
// dlib's rules treat them differently. Samples and labels are the program's vectors; a batch is the numbers of its rows, such as
// `rows_of(first, count)` or an element of a dataset of numbers.
//
// `Net` ends in a loss layer whose samples have labels.
template <class Net>
class dlib_model {
public:
    using input_type = typename Net::input_type;
    using label_type = typename Net::training_label_type;

    // Copies `net` for each replica of this process, with its parameters and the statistics of its normalisations; with several
    // ranks those of rank 0 are the initial parameters. A net that has no parameters yet is given them by way of `sample`, which has the
    // sizes of all samples, as the first training does it in dlib.
    //
    // Throws INVALID_ARGUMENT for a net without parameters, UNIMPLEMENTED if a replica computes on a GPU.
    dlib_model(const umbo::strategy &on, Net net, const input_type &sample) : on_(on) {
        common_detail::require_cpus(on, "dlib_model");
        dlib_detail::translated([&] {
            dlib::resizable_tensor seen;
            net.to_tensor(&sample, &sample + 1, seen);
            net.forward(seen);
            net.clean();
        });
        const auto count = static_cast<std::size_t>(on.local_replica_count());
        for (std::size_t index = 1; index < count; ++index) replicas_.push_back(std::make_shared<Net>(net));
        replicas_.insert(replicas_.begin(), std::make_shared<Net>(std::move(net)));
        parts_ = dlib_detail::parts_of(central());
        if (parts_.empty()) throw error(status::invalid_argument, "net: none of its layers has parameters");
        std::vector<std::string> names;
        std::vector<umbo_view> views;
        const auto tensors = dlib_detail::parameters_of(central());
        for (const auto &part : parts_) {
            names.push_back("layer" + std::to_string(part.layer) + (part.is_bias ? ".bias" : ".weights"));
            const auto elements = static_cast<std::int64_t>(part.count);
            views.push_back(umbo_view_of_mutable_memory(UMBO_DTYPE_FLOAT32, 1, &elements, tensors[part.layer]->host() + part.first));
        }
        parameters_ = on.create_variables_in_memory(names, views, replicas_.front());
        gradients_ = umbo::gradients::create(on, parameters_, loss_reduction::mean);
    }

    dlib_model(const dlib_model &) = delete;
    dlib_model &operator=(const dlib_model &) = delete;

    const std::vector<variable> &parameters() const noexcept { return parameters_; }
    const umbo::gradients &gradients() const noexcept { return gradients_; }
    const umbo::strategy &strategy() const noexcept { return on_; }

    // A copy of the network with the parameters as they are, and without the memory of the last computation: to save, or to
    // make a network for tests of. Outside of runs. The statistics of normalisations are those of replica 0's parts.
    Net net() const {
        Net copy = *replicas_.front();
        copy.clean();
        return copy;
    }

    // The numbers of this many rows, as a global batch.
    static value rows_of(std::int64_t first, std::int64_t count) {
        std::vector<std::int64_t> numbers(static_cast<std::size_t>(std::max<std::int64_t>(count, 0)));
        std::iota(numbers.begin(), numbers.end(), first);
        return value::from_data({count}, numbers);
    }

    // The step, for `strategy::run` and what takes its callables, on the numbers of rows. Samples and labels have to live as
    // long. The metric "loss" is its mean.
    auto step(const std::vector<input_type> &samples, const std::vector<label_type> &labels) {
        return [this, &samples, &labels](replica_context &context, const value &batch) {
            const auto numbers = numbers_of(batch, samples, labels);
            double loss = 0;
            if (numbers.size() != 0) { // a replica's part may be empty, and dlib wants a sample
                Net &own = attached(context);
                loss = dlib_detail::translated([&] {
                    return own.compute_parameter_gradients(at(samples, numbers.data()), at(samples, end_of(numbers)),
                                                           at(labels, numbers.data()));
                });
                contribute(own, context);
            }
            add_loss(context, loss, numbers.size());
            context.submit(gradients_);
        };
    }

    // The same without gradients.
    auto evaluation(const std::vector<input_type> &samples, const std::vector<label_type> &labels) {
        return [this, &samples, &labels](replica_context &context, const value &batch) {
            const auto numbers = numbers_of(batch, samples, labels);
            double loss = 0;
            if (numbers.size() != 0) {
                Net &own = attached(context);
                loss = dlib_detail::translated([&] {
                    return own.compute_loss(at(samples, numbers.data()), at(samples, end_of(numbers)), at(labels, numbers.data()));
                });
            }
            add_loss(context, loss, numbers.size());
        };
    }

    // The same with a metric of the program: `measure(net, samples, labels)` gets copies of a replica's part and gives a sum over
    // them, such as how many of `net(samples)` are right.
    template <class Measure>
    auto evaluation(std::string metric, const std::vector<input_type> &samples, const std::vector<label_type> &labels, Measure measure) {
        return [this, metric = std::move(metric), &samples, &labels, measure](replica_context &context, const value &batch) {
            const auto numbers = numbers_of(batch, samples, labels);
            double sum = 0;
            if (numbers.size() != 0) {
                Net &own = attached(context);
                const std::vector<input_type> part(at(samples, numbers.data()), at(samples, end_of(numbers)));
                const std::vector<label_type> wanted(at(labels, numbers.data()), at(labels, end_of(numbers)));
                sum = dlib_detail::translated([&] { return static_cast<double>(measure(own, part, wanted)); });
            }
            context.add_metric(metric.c_str(), sum, static_cast<double>(numbers.size()));
        };
    }

    // One step on a batch: an element of a distributed dataset, or numbers of rows, which are split over the replicas here.
    // Returns the mean loss of an example.
    double train(const std::vector<input_type> &samples, const std::vector<label_type> &labels, const value &batch) {
        on_.run(step(samples, labels), common_detail::split_over(on_, batch));
        return on_.metric_result("loss").mean;
    }

    // An optimizer with dlib's rule, and each layer's multiples of the learning rate and the weight decay. A layer whose
    // multiple of the learning rate is 0 is not trained.
    umbo::optimizer optimizer_of(const dlib::sgd &rule, double learning_rate) const {
        if (rule.get_momentum() == 0) {
            sgd_options plain;
            plain.learning_rate = learning_rate;
            return grouped(optimizer::sgd(on_, plain), static_cast<double>(rule.get_weight_decay()));
        }
        momentum_options how;
        how.learning_rate = learning_rate;
        how.momentum = static_cast<double>(rule.get_momentum());
        return grouped(optimizer::momentum(on_, how), static_cast<double>(rule.get_weight_decay()));
    }

    umbo::optimizer optimizer_of(const dlib::adam &rule, double learning_rate) const {
        adam_options how;
        how.learning_rate = learning_rate;
        how.beta1 = static_cast<double>(rule.get_momentum1());
        how.beta2 = static_cast<double>(rule.get_momentum2());
        how.epsilon = 1e-8;
        return grouped(optimizer::adam(on_, how), static_cast<double>(rule.get_weight_decay()));
    }

private:
    Net &central() const { return *replicas_.front(); }

    template <class Element>
    static dlib_detail::chosen<Element> at(const std::vector<Element> &from, const std::int64_t *number) {
        return dlib_detail::chosen<Element>(from, number);
    }

    static const std::int64_t *end_of(const view_of<const std::int64_t> &numbers) { return numbers.data() + numbers.size(); }

    // A part's numbers of rows, all of which are there.
    static view_of<const std::int64_t> numbers_of(const value &batch, const std::vector<input_type> &samples,
                                                  const std::vector<label_type> &labels) {
        view_of<const std::int64_t> numbers = batch.view_as<std::int64_t>();
        const auto rows = static_cast<std::int64_t>(std::min(samples.size(), labels.size()));
        for (const std::int64_t number : numbers) {
            if (number >= 0 && number < rows) continue;
            throw error(status::invalid_argument, "batch: there is no row " + std::to_string(number) + " among " +
                                                      std::to_string(samples.size()) + " samples with " +
                                                      std::to_string(labels.size()) + " labels");
        }
        return numbers;
    }

    // The network of the replica that calls, with the parameters as they are.
    Net &attached(const replica_context &context) {
        Net &own = *replicas_[static_cast<std::size_t>(context.local_replica_id())];
        if (&own == &central()) return own;
        const auto from = dlib_detail::parameters_of(central()), to = dlib_detail::parameters_of(own);
        for (std::size_t layer = 0; layer < to.size(); ++layer) {
            const dlib::tensor &source = *from[layer];
            if (source.size() != 0) std::memcpy(to[layer]->host_write_only(), source.host(), source.size() * sizeof(float));
        }
        return own;
    }

    // Lends the gradients that dlib has left.
    void contribute(Net &own, const replica_context &context) {
        const auto tensors = dlib_detail::gradients_of(own);
        for (std::size_t index = 0; index < parts_.size(); ++index) {
            const auto &part = parts_[index];
            if (part.rate == 0) continue; // dlib does not compute it
            const dlib::tensor &all = *tensors[part.layer];
            const auto elements = static_cast<std::int64_t>(part.count);
            context.attach(gradients_, static_cast<std::int64_t>(index),
                           umbo_view_of_memory(UMBO_DTYPE_FLOAT32, 1, &elements, all.host() + part.first));
        }
    }

    static void add_loss(const replica_context &context, double loss, std::size_t rows) {
        context.add_metric("loss", loss * static_cast<double>(rows), static_cast<double>(rows));
    }

    umbo::optimizer grouped(umbo::optimizer made, double weight_decay) const {
        optimizer_options decay;
        decay.weight_decay = weight_decay;
        made.configure(decay);
        for (std::size_t index = 0; index < parts_.size(); ++index) {
            const auto &part = parts_[index];
            group_options how;
            how.frozen = part.rate == 0;
            if (!how.frozen) how.learning_rate_factor = part.rate;
            how.weight_decay = weight_decay * part.decay;
            if (part.rate != 1 || part.decay != 1) made.add_group({parameters_[index]}, how);
        }
        return made;
    }

    umbo::strategy on_;
    std::vector<std::shared_ptr<Net>> replicas_;
    std::vector<dlib_detail::part_of_layer> parts_;
    std::vector<variable> parameters_;
    umbo::gradients gradients_;
};

} // namespace adapters
} // namespace umbo

#endif

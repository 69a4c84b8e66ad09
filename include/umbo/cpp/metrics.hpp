// Metrics that accumulate over runs.
#ifndef UMBO_CPP_METRICS_HPP
#define UMBO_CPP_METRICS_HPP

#include <cstdint>
#include <string>
#include <vector>

#include <umbo/cpp/options.hpp>
#include <umbo/cpp/replica_context.hpp>

UMBO_DETAIL_BEGIN

// Named numbers that replicas add to. They count once the run has succeeded.
class metrics : public handle<umbo_metrics> {
public:
    using handle::handle;

    static returned<metrics> create(const strategy &of) {
        umbo_metrics *out = nullptr;
        UMBO_DETAIL_TRY(umbo_metrics_create(of.get(), &out));
        return metrics(out);
    }

    returned<void> define(const std::string &name, metric_kind kind, const metric_options &how = {}) const {
        const auto options = detail::raw_options(how);
        return check(umbo_metrics_define(get(), name.c_str(), to_c(kind), &options));
    }

    // The names of all, in the order of their definitions.
    returned<std::vector<std::string>> names() const {
        std::int64_t length = 0;
        const umbo_status asked = umbo_metrics_names(get(), nullptr, 0, &length);
        if (asked != UMBO_OK && length == 0) UMBO_DETAIL_TRY(asked);
        std::vector<const char *> out(static_cast<std::size_t>(length));
        UMBO_DETAIL_TRY(umbo_metrics_names(get(), out.data(), length, &length));
        return std::vector<std::string>(out.begin(), out.end());
    }

    // In a replica's callable: a number and its weight.
    returned<void> add(const replica_context &context, const std::string &name, double sum, double weight) const {
        return check(umbo_metrics_add(get(), context.get(), name.c_str(), sum, weight));
    }

    // What was predicted for examples: class numbers, rows of scores, or, with targets as labels, numbers.
    returned<void> add_labels(const replica_context &context, const std::string &name, const umbo_view &predicted,
                    const umbo_view &labels) const {
        return check(umbo_metrics_add_labels(get(), context.get(), name.c_str(), &predicted, &labels, nullptr));
    }

    // The same, with a weight for each example.
    returned<void> add_labels(const replica_context &context, const std::string &name, const umbo_view &predicted,
                    const umbo_view &labels, const umbo_view &weights) const {
        return check(umbo_metrics_add_labels(get(), context.get(), name.c_str(), &predicted, &labels, &weights));
    }

    returned<metric_result> result(const std::string &name) const {
        umbo_metric_result out = UMBO_METRIC_RESULT_INIT;
        UMBO_DETAIL_TRY(umbo_metrics_result(get(), name.c_str(), &out));
        return detail::from_c(out);
    }

    returned<metric_class_result> class_result(const std::string &name, std::int64_t class_index) const {
        umbo_metric_class_result out = UMBO_METRIC_CLASS_RESULT_INIT;
        UMBO_DETAIL_TRY(umbo_metrics_class_result(get(), name.c_str(), class_index, &out));
        return detail::from_c(out);
    }

    // The cells of a confusion matrix or histogram, row by row.
    returned<std::vector<double>> cells(const std::string &name) const {
        std::int64_t length = 0;
        const umbo_status asked = umbo_metrics_cells(get(), name.c_str(), nullptr, 0, &length);
        if (asked != UMBO_OK && length == 0) UMBO_DETAIL_TRY(asked);
        std::vector<double> out(static_cast<std::size_t>(length));
        UMBO_DETAIL_TRY(umbo_metrics_cells(get(), name.c_str(), out.data(), length, &length));
        return out;
    }

    returned<void> reset() const { return check(umbo_metrics_reset(get())); }
};

UMBO_DETAIL_END

#endif

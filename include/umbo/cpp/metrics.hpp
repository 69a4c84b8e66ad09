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

    // Adds a metric and gives its index: 0 for the first.
    returned<std::int64_t> define(const std::string &name, metric_kind kind,
                        const metric_options &how = {}) const {
        const auto options = detail::raw_options(how);
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_metrics_define(get(), name.c_str(), to_c(kind), &options, &out));
        return out;
    }

    // How many there are, and what one of them is.
    returned<metrics_info> info(std::int64_t index = UMBO_NONE) const {
        umbo_metrics_info out = UMBO_METRICS_INFO_INIT;
        UMBO_DETAIL_TRY(umbo_metrics_get_info(get(), index, &out));
        return detail::from_c(out);
    }

    returned<std::int64_t> index(const std::string &name) const {
        std::int64_t out = 0;
        UMBO_DETAIL_TRY(umbo_metrics_index(get(), name.c_str(), &out));
        return out;
    }

    // In a replica's callable: a number and its weight.
    returned<void> add(const replica_context &context, std::int64_t index, double sum, double weight) const {
        return check(umbo_metrics_add(get(), context.get(), index, sum, weight));
    }

    // What was predicted for examples: class numbers, rows of scores, or, with targets as labels, numbers.
    returned<void> add_labels(const replica_context &context, std::int64_t index, const umbo_view &predicted,
                    const umbo_view &labels) const {
        return check(umbo_metrics_add_labels(get(), context.get(), index, &predicted, &labels, nullptr));
    }

    // The same, with a weight for each example.
    returned<void> add_labels(const replica_context &context, std::int64_t index, const umbo_view &predicted,
                    const umbo_view &labels, const umbo_view &weights) const {
        return check(umbo_metrics_add_labels(get(), context.get(), index, &predicted, &labels, &weights));
    }

    returned<metric> result(std::int64_t index) const {
        umbo_metric out = UMBO_METRIC_INIT;
        UMBO_DETAIL_TRY(umbo_metrics_result(get(), index, &out));
        return detail::from_c(out);
    }

    returned<class_metric> class_result(std::int64_t index, std::int64_t class_index) const {
        umbo_class_metric out = UMBO_CLASS_METRIC_INIT;
        UMBO_DETAIL_TRY(umbo_metrics_class_result(get(), index, class_index, &out));
        return detail::from_c(out);
    }

    // The cells of a confusion matrix or histogram, row by row.
    returned<std::vector<double>> cells(std::int64_t index) const {
        std::int64_t length = 0;
        const umbo_status asked = umbo_metrics_cells(get(), index, nullptr, 0, &length);
        if (asked != UMBO_OK && length == 0) UMBO_DETAIL_TRY(asked);
        std::vector<double> out(static_cast<std::size_t>(length));
        UMBO_DETAIL_TRY(umbo_metrics_cells(get(), index, out.data(), length, &length));
        return out;
    }

    returned<void> reset() const { return check(umbo_metrics_reset(get())); }
};

UMBO_DETAIL_END

#endif

// Datasets whose elements are split over replicas, and how.
#ifndef UMBO_CPP_DISTRIBUTION_HPP
#define UMBO_CPP_DISTRIBUTION_HPP

#include <cstdint>
#include <type_traits>

#include <umbo/cpp/dataset.hpp>

namespace umbo {

// How a dataset is distributed. The defaults are those of the C API.
struct distribute_options {
    umbo_split split = UMBO_SPLIT_CEIL;
    bool drop_partial_step = false;
    bool host_only = false;
    std::int32_t per_replica_buffer_size = 0; // 0: one step ahead; -1: none
    umbo_replication_mode replication_mode = UMBO_REPLICATION_PER_WORKER;
    bool place_dataset_on_device = false;
};

// A dataset whose elements are split over the replicas of a strategy.
class distributed_dataset : public handle<umbo_distributed_dataset> {
public:
    using handle::handle;

    // In steps. -1: endless; -2: unknown.
    std::int64_t cardinality() const {
        std::int64_t out = 0;
        check(umbo_distributed_dataset_cardinality(get(), &out));
        return out;
    }

    umbo::element_spec element_spec() const {
        umbo_element_spec *out = nullptr;
        check(umbo_distributed_dataset_element_spec(get(), &out));
        return umbo::element_spec(out);
    }

    umbo::iterator iterate() const {
        umbo_iterator *out = nullptr;
        check(umbo_distributed_dataset_iterator(get(), &out));
        return umbo::iterator(out);
    }
};

// The size of one replica's batches; throws if the replicas cannot share the global one evenly.
inline std::int64_t per_replica_batch_size(const umbo_input_context &context,
                                           std::int64_t global_batch_size) {
    std::int64_t out = 0;
    check(umbo_input_context_per_replica_batch_size(&context, global_batch_size, &out));
    return out;
}

namespace detail {

inline umbo_distribute_options raw_options(const distribute_options &how) noexcept {
    auto raw = sized<umbo_distribute_options>();
    raw.split = how.split;
    raw.drop_partial_step = how.drop_partial_step ? 1 : 0;
    raw.host_only = how.host_only ? 1 : 0;
    raw.per_replica_buffer_size = how.per_replica_buffer_size;
    raw.replication_mode = how.replication_mode;
    raw.place_dataset_on_device = how.place_dataset_on_device ? 1 : 0;
    return raw;
}

template <class Callable>
umbo_status dataset_trampoline(const umbo_input_context *context, void *callable,
                               umbo_dataset **made) noexcept {
    static_assert(
        std::is_convertible_v<std::invoke_result_t<Callable &, const umbo_input_context &>,
                              dataset>,
        "the callable returns a dataset");
    return guarded([&] {
        dataset returned = (*static_cast<Callable *>(callable))(*context);
        *made = returned.release();
    });
}

} // namespace detail
} // namespace umbo

#endif

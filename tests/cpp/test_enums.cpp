// Enums: each C constant has its counterpart, and only that is taken.
#include <umbo/tensorflow.hpp>
#include <umbo/umbo.hpp>

#include <type_traits>

#include "../c/check.h"

namespace {

// A constant that C has and C++ has not: -Wswitch says so.
constexpr bool is_known(umbo_status constant) {
    switch (constant) {
        case to_c(umbo::status::ok):
        case to_c(umbo::status::cancelled):
        case to_c(umbo::status::unknown):
        case to_c(umbo::status::invalid_argument):
        case to_c(umbo::status::deadline_exceeded):
        case to_c(umbo::status::not_found):
        case to_c(umbo::status::already_exists):
        case to_c(umbo::status::permission_denied):
        case to_c(umbo::status::resource_exhausted):
        case to_c(umbo::status::failed_precondition):
        case to_c(umbo::status::aborted):
        case to_c(umbo::status::out_of_range):
        case to_c(umbo::status::unimplemented):
        case to_c(umbo::status::internal):
        case to_c(umbo::status::unavailable):
        case to_c(umbo::status::data_loss):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_handle_type constant) {
    switch (constant) {
        case to_c(umbo::handle_type::any):
        case to_c(umbo::handle_type::tensor):
        case to_c(umbo::handle_type::value):
        case to_c(umbo::handle_type::strategy):
        case to_c(umbo::handle_type::scope):
        case to_c(umbo::handle_type::replica_context):
        case to_c(umbo::handle_type::variable):
        case to_c(umbo::handle_type::dataset):
        case to_c(umbo::handle_type::distributed_dataset):
        case to_c(umbo::handle_type::iterator):
        case to_c(umbo::handle_type::gradients):
        case to_c(umbo::handle_type::optimizer):
        case to_c(umbo::handle_type::cancellation):
        case to_c(umbo::handle_type::cluster_resolver):
        case to_c(umbo::handle_type::variable_request):
        case to_c(umbo::handle_type::element_spec):
        case to_c(umbo::handle_type::equivalence):
        case to_c(umbo::handle_type::metrics):
        case to_c(umbo::handle_type::checkpoint):
        case to_c(umbo::handle_type::checkpoint_manager):
        case to_c(umbo::handle_type::communicator):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_log_level constant) {
    switch (constant) {
        case to_c(umbo::log_level::error):
        case to_c(umbo::log_level::warning):
        case to_c(umbo::log_level::info):
        case to_c(umbo::log_level::debug):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_device_type constant) {
    switch (constant) {
        case to_c(umbo::device_type::cpu):
        case to_c(umbo::device_type::gpu):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_dtype constant) {
    switch (constant) {
        case to_c(umbo::dtype::none):
        case to_c(umbo::dtype::float16):
        case to_c(umbo::dtype::bfloat16):
        case to_c(umbo::dtype::float32):
        case to_c(umbo::dtype::float64):
        case to_c(umbo::dtype::int8):
        case to_c(umbo::dtype::int16):
        case to_c(umbo::dtype::int32):
        case to_c(umbo::dtype::int64):
        case to_c(umbo::dtype::uint8):
        case to_c(umbo::dtype::uint16):
        case to_c(umbo::dtype::uint32):
        case to_c(umbo::dtype::uint64):
        case to_c(umbo::dtype::boolean):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_value_kind constant) {
    switch (constant) {
        case to_c(umbo::value_kind::tensor):
        case to_c(umbo::value_kind::per_replica):
        case to_c(umbo::value_kind::tuple):
        case to_c(umbo::value_kind::structure):
        case to_c(umbo::value_kind::variable):
        case to_c(umbo::value_kind::indexed_slices):
        case to_c(umbo::value_kind::list):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_synchronization constant) {
    switch (constant) {
        case to_c(umbo::tensorflow::synchronization::automatic):
        case to_c(umbo::tensorflow::synchronization::none):
        case to_c(umbo::tensorflow::synchronization::on_write):
        case to_c(umbo::tensorflow::synchronization::on_read):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_aggregation constant) {
    switch (constant) {
        case to_c(umbo::aggregation::none):
        case to_c(umbo::aggregation::sum):
        case to_c(umbo::aggregation::mean):
        case to_c(umbo::aggregation::only_first_replica):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_scatter_op constant) {
    switch (constant) {
        case to_c(umbo::scatter_op::add):
        case to_c(umbo::scatter_op::sub):
        case to_c(umbo::scatter_op::mul):
        case to_c(umbo::scatter_op::div):
        case to_c(umbo::scatter_op::min):
        case to_c(umbo::scatter_op::max):
        case to_c(umbo::scatter_op::update):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_reduce_op constant) {
    switch (constant) {
        case to_c(umbo::reduce_op::sum):
        case to_c(umbo::reduce_op::mean):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_split constant) {
    switch (constant) {
        case to_c(umbo::split::ceil):
        case to_c(umbo::split::balanced):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_sharding constant) {
    switch (constant) {
        case to_c(umbo::sharding::data):
        case to_c(umbo::sharding::off):
        case to_c(umbo::sharding::file):
        case to_c(umbo::sharding::automatic):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_loss_reduction constant) {
    switch (constant) {
        case to_c(umbo::loss_reduction::unset):
        case to_c(umbo::loss_reduction::sum):
        case to_c(umbo::loss_reduction::mean):
        case to_c(umbo::loss_reduction::global_mean):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_gradient_mode constant) {
    switch (constant) {
        case to_c(umbo::gradient_mode::overwrite):
        case to_c(umbo::gradient_mode::add):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_non_finite constant) {
    switch (constant) {
        case to_c(umbo::non_finite::automatic):
        case to_c(umbo::non_finite::ignore):
        case to_c(umbo::non_finite::skip):
        case to_c(umbo::non_finite::fail):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_loss_scaling constant) {
    switch (constant) {
        case to_c(umbo::loss_scaling::none):
        case to_c(umbo::loss_scaling::fixed):
        case to_c(umbo::loss_scaling::dynamic):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_step_cause constant) {
    switch (constant) {
        case to_c(umbo::step_cause::small_step):
        case to_c(umbo::step_cause::few_processors):
        case to_c(umbo::step_cause::other_threads):
        case to_c(umbo::step_cause::input):
        case to_c(umbo::step_cause::slow_replica):
        case to_c(umbo::step_cause::serialised):
        case to_c(umbo::step_cause::update):
        case to_c(umbo::step_cause::busy_machine):
        case to_c(umbo::step_cause::uneven_steps):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_equivalence_subject constant) {
    switch (constant) {
        case to_c(umbo::equivalence_subject::step):
        case to_c(umbo::equivalence_subject::gradient):
        case to_c(umbo::equivalence_subject::metric):
        case to_c(umbo::equivalence_subject::variable):
            return true;
    }
    return false;
}

constexpr bool is_known(umbo_equivalence_verdict constant) {
    switch (constant) {
        case to_c(umbo::equivalence_verdict::equal):
        case to_c(umbo::equivalence_verdict::not_written):
        case to_c(umbo::equivalence_verdict::callback_failed):
        case to_c(umbo::equivalence_verdict::not_submitted):
        case to_c(umbo::equivalence_verdict::wrong_weight):
        case to_c(umbo::equivalence_verdict::not_overwritten):
        case to_c(umbo::equivalence_verdict::not_finite):
        case to_c(umbo::equivalence_verdict::not_repeatable):
        case to_c(umbo::equivalence_verdict::wrong_reduction):
        case to_c(umbo::equivalence_verdict::whole_batch):
        case to_c(umbo::equivalence_verdict::same_examples):
        case to_c(umbo::equivalence_verdict::partly_written):
        case to_c(umbo::equivalence_verdict::term_per_replica):
        case to_c(umbo::equivalence_verdict::different):
        case to_c(umbo::equivalence_verdict::variable_written):
        case to_c(umbo::equivalence_verdict::size_dependent):
            return true;
    }
    return false;
}

// The names are those of the constants.
static_assert(is_known(UMBO_STATUS_DATA_LOSS) && to_c(umbo::status::data_loss) == UMBO_STATUS_DATA_LOSS);
static_assert(is_known(UMBO_HANDLE_EQUIVALENCE) && to_c(umbo::handle_type::equivalence) == UMBO_HANDLE_EQUIVALENCE);
static_assert(is_known(UMBO_LOG_DEBUG) && to_c(umbo::log_level::debug) == UMBO_LOG_DEBUG);
static_assert(is_known(UMBO_DEVICE_GPU) && to_c(umbo::device_type::gpu) == UMBO_DEVICE_GPU);
static_assert(is_known(UMBO_DTYPE_BOOL) && to_c(umbo::dtype::boolean) == UMBO_DTYPE_BOOL);
static_assert(is_known(UMBO_VALUE_INDEXED_SLICES) && to_c(umbo::value_kind::indexed_slices) == UMBO_VALUE_INDEXED_SLICES);
static_assert(is_known(UMBO_SYNCHRONIZATION_ON_READ) && to_c(umbo::tensorflow::synchronization::on_read) == UMBO_SYNCHRONIZATION_ON_READ);
static_assert(is_known(UMBO_AGGREGATION_ONLY_FIRST_REPLICA) && to_c(umbo::aggregation::only_first_replica) == UMBO_AGGREGATION_ONLY_FIRST_REPLICA);
static_assert(is_known(UMBO_SCATTER_UPDATE) && to_c(umbo::scatter_op::update) == UMBO_SCATTER_UPDATE);
static_assert(is_known(UMBO_REDUCE_MEAN) && to_c(umbo::reduce_op::mean) == UMBO_REDUCE_MEAN);
static_assert(is_known(UMBO_SPLIT_BALANCED) && to_c(umbo::split::balanced) == UMBO_SPLIT_BALANCED);
static_assert(is_known(UMBO_SHARDING_AUTO) && to_c(umbo::sharding::automatic) == UMBO_SHARDING_AUTO);
static_assert(is_known(UMBO_LOSS_GLOBAL_MEAN) && to_c(umbo::loss_reduction::global_mean) == UMBO_LOSS_GLOBAL_MEAN);
static_assert(is_known(UMBO_GRADIENT_ADD) && to_c(umbo::gradient_mode::add) == UMBO_GRADIENT_ADD);
static_assert(is_known(UMBO_NON_FINITE_FAIL) && to_c(umbo::non_finite::fail) == UMBO_NON_FINITE_FAIL);
static_assert(is_known(UMBO_LOSS_SCALING_DYNAMIC) && to_c(umbo::loss_scaling::dynamic) == UMBO_LOSS_SCALING_DYNAMIC);
static_assert(is_known(UMBO_STEP_CAUSE_UNEVEN_STEPS) && to_c(umbo::step_cause::uneven_steps) == UMBO_STEP_CAUSE_UNEVEN_STEPS);
static_assert(is_known(UMBO_EQUIVALENCE_OF_VARIABLE) && to_c(umbo::equivalence_subject::variable) == UMBO_EQUIVALENCE_OF_VARIABLE);
static_assert(is_known(UMBO_EQUIVALENCE_SIZE_DEPENDENT) && to_c(umbo::equivalence_verdict::size_dependent) == UMBO_EQUIVALENCE_SIZE_DEPENDENT);

static_assert(umbo::dtype{UMBO_DTYPE_BOOL} == umbo::dtype::boolean);
static_assert(!std::is_convertible_v<umbo_dtype, umbo::dtype>);
static_assert(!std::is_convertible_v<umbo::dtype, umbo_dtype>);
static_assert(!std::is_convertible_v<int, umbo::dtype>);

void use() {
    const auto zeros = umbo::tensor::create_zeros(umbo::dtype::int16, {2});
    CHECK(zeros.view().dtype == UMBO_DTYPE_INT16);
    CHECK(umbo::value(zeros).kind() == umbo::value_kind::tensor);
    CHECK(umbo::device_get_info("CPU:3").device.type == umbo::device_type::cpu);
    try {
        umbo::tensor::create_zeros(umbo::dtype{UMBO_DTYPE_NONE}, {2});
        CHECK(!"refused");
    } catch (const umbo::error &error) {
        CHECK(error.status() == umbo::status::invalid_argument);
    }
}

} // namespace

int main() {
    use();
    return finish();
}

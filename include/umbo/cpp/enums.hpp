/* Generated from src; do not edit. */
// The enums of the C API as types of their own: `umbo::dtype::float32` is UMBO_DTYPE_FLOAT32, and
// so on. What is a keyword has another name: UMBO_DTYPE_BOOL is `boolean`, UMBO_VALUE_STRUCT
// `structure`, ..._AUTO `automatic`.
//
// Functions of this API take these and no C constants. Where C code meets C++,
// `umbo::dtype{constant}` makes the one of the other and `umbo::to_c(dtype)` the other of the one.
#ifndef UMBO_CPP_ENUMS_HPP
#define UMBO_CPP_ENUMS_HPP

#include <cstdint>

#include <umbo/cpp/mode.hpp>
#include <umbo/cluster.h>
#include <umbo/diagnose.h>
#include <umbo/expert.h>
#include <umbo/gpu.h>
#include <umbo/io.h>
#include <umbo/trainer.h>
#include <umbo/umbo.h>

UMBO_DETAIL_BEGIN

// How a call ended.
enum class status : std::int32_t {
    ok = UMBO_OK,
    cancelled = UMBO_STATUS_CANCELLED,
    unknown = UMBO_STATUS_UNKNOWN,
    invalid_argument = UMBO_STATUS_INVALID_ARGUMENT,
    deadline_exceeded = UMBO_STATUS_DEADLINE_EXCEEDED,
    not_found = UMBO_STATUS_NOT_FOUND,
    already_exists = UMBO_STATUS_ALREADY_EXISTS,
    permission_denied = UMBO_STATUS_PERMISSION_DENIED,
    resource_exhausted = UMBO_STATUS_RESOURCE_EXHAUSTED,
    failed_precondition = UMBO_STATUS_FAILED_PRECONDITION,
    aborted = UMBO_STATUS_ABORTED,
    out_of_range = UMBO_STATUS_OUT_OF_RANGE,
    unimplemented = UMBO_STATUS_UNIMPLEMENTED,
    internal = UMBO_STATUS_INTERNAL,
    unavailable = UMBO_STATUS_UNAVAILABLE,
    data_loss = UMBO_STATUS_DATA_LOSS,
};

constexpr umbo_status to_c(status which) noexcept {
    return static_cast<umbo_status>(which);
}

// Kinds of handles.
enum class handle_type : std::int32_t {
    any = UMBO_HANDLE_ANY,
    tensor = UMBO_HANDLE_TENSOR,
    value = UMBO_HANDLE_VALUE,
    strategy = UMBO_HANDLE_STRATEGY,
    scope = UMBO_HANDLE_SCOPE,
    replica_context = UMBO_HANDLE_REPLICA_CONTEXT,
    variable = UMBO_HANDLE_VARIABLE,
    dataset = UMBO_HANDLE_DATASET,
    distributed_dataset = UMBO_HANDLE_DISTRIBUTED_DATASET,
    iterator = UMBO_HANDLE_ITERATOR,
    gradients = UMBO_HANDLE_GRADIENTS,
    optimizer = UMBO_HANDLE_OPTIMIZER,
    cancellation = UMBO_HANDLE_CANCELLATION,
    cluster_resolver = UMBO_HANDLE_CLUSTER_RESOLVER,
    variable_request = UMBO_HANDLE_VARIABLE_REQUEST,
    element_spec = UMBO_HANDLE_ELEMENT_SPEC,
    equivalence = UMBO_HANDLE_EQUIVALENCE,
    metrics = UMBO_HANDLE_METRICS,
    checkpoint = UMBO_HANDLE_CHECKPOINT,
    checkpoint_manager = UMBO_HANDLE_CHECKPOINT_MANAGER,
    communicator = UMBO_HANDLE_COMMUNICATOR,
    trainer = UMBO_HANDLE_TRAINER,
};

constexpr umbo_handle_type to_c(handle_type which) noexcept {
    return static_cast<umbo_handle_type>(which);
}

// How urgent a message is.
enum class log_level : std::int32_t {
    error = UMBO_LOG_ERROR,
    warning = UMBO_LOG_WARNING,
    info = UMBO_LOG_INFO,
    debug = UMBO_LOG_DEBUG,
};

constexpr umbo_log_level to_c(log_level which) noexcept {
    return static_cast<umbo_log_level>(which);
}

// Kinds of devices.
enum class device_type : std::int32_t {
    cpu = UMBO_DEVICE_CPU,
    gpu = UMBO_DEVICE_GPU,
};

constexpr umbo_device_type to_c(device_type which) noexcept {
    return static_cast<umbo_device_type>(which);
}

// Element types.
enum class dtype : std::int32_t {
    none = UMBO_DTYPE_NONE,
    float16 = UMBO_DTYPE_FLOAT16,
    bfloat16 = UMBO_DTYPE_BFLOAT16,
    float32 = UMBO_DTYPE_FLOAT32,
    float64 = UMBO_DTYPE_FLOAT64,
    int8 = UMBO_DTYPE_INT8,
    int16 = UMBO_DTYPE_INT16,
    int32 = UMBO_DTYPE_INT32,
    int64 = UMBO_DTYPE_INT64,
    uint8 = UMBO_DTYPE_UINT8,
    uint16 = UMBO_DTYPE_UINT16,
    uint32 = UMBO_DTYPE_UINT32,
    uint64 = UMBO_DTYPE_UINT64,
    boolean = UMBO_DTYPE_BOOL,
};

constexpr umbo_dtype to_c(dtype which) noexcept {
    return static_cast<umbo_dtype>(which);
}

// What a value is.
enum class value_kind : std::int32_t {
    tensor = UMBO_VALUE_TENSOR,
    per_replica = UMBO_VALUE_PER_REPLICA,
    tuple = UMBO_VALUE_TUPLE,
    structure = UMBO_VALUE_STRUCT,
    variable = UMBO_VALUE_VARIABLE,
    indexed_slices = UMBO_VALUE_INDEXED_SLICES,
    list = UMBO_VALUE_LIST,
};

constexpr umbo_value_kind to_c(value_kind which) noexcept {
    return static_cast<umbo_value_kind>(which);
}

// What the elements of a new variable are drawn from.
enum class initial : std::int32_t {
    none = UMBO_INITIAL_NONE,
    zeros = UMBO_INITIAL_ZEROS,
    constant = UMBO_INITIAL_CONSTANT,
    uniform = UMBO_INITIAL_UNIFORM,
    normal = UMBO_INITIAL_NORMAL,
    glorot_uniform = UMBO_INITIAL_GLOROT_UNIFORM,
    glorot_normal = UMBO_INITIAL_GLOROT_NORMAL,
    he_uniform = UMBO_INITIAL_HE_UNIFORM,
    he_normal = UMBO_INITIAL_HE_NORMAL,
};

constexpr umbo_initial to_c(initial which) noexcept {
    return static_cast<umbo_initial>(which);
}

// What a metric accumulates.
enum class metric_kind : std::int32_t {
    sum = UMBO_METRIC_SUM,
    mean = UMBO_METRIC_MEAN,
    count = UMBO_METRIC_COUNT,
    accuracy = UMBO_METRIC_ACCURACY,
    confusion = UMBO_METRIC_CONFUSION,
    auc = UMBO_METRIC_AUC,
    top_k = UMBO_METRIC_TOP_K,
    squared_error = UMBO_METRIC_SQUARED_ERROR,
};

constexpr umbo_metric_kind to_c(metric_kind which) noexcept {
    return static_cast<umbo_metric_kind>(which);
}

// How the contributions of replicas to a variable become one.
enum class aggregation : std::int32_t {
    none = UMBO_AGGREGATION_NONE,
    sum = UMBO_AGGREGATION_SUM,
    mean = UMBO_AGGREGATION_MEAN,
    only_first_replica = UMBO_AGGREGATION_ONLY_FIRST_REPLICA,
};

constexpr umbo_aggregation to_c(aggregation which) noexcept {
    return static_cast<umbo_aggregation>(which);
}

// What a scatter update does with a row.
enum class scatter_op : std::int32_t {
    add = UMBO_SCATTER_ADD,
    sub = UMBO_SCATTER_SUB,
    mul = UMBO_SCATTER_MUL,
    div = UMBO_SCATTER_DIV,
    min = UMBO_SCATTER_MIN,
    max = UMBO_SCATTER_MAX,
    update = UMBO_SCATTER_UPDATE,
};

constexpr umbo_scatter_op to_c(scatter_op which) noexcept {
    return static_cast<umbo_scatter_op>(which);
}

// How several values become one.
enum class reduce_op : std::int32_t {
    sum = UMBO_REDUCE_SUM,
    mean = UMBO_REDUCE_MEAN,
    min = UMBO_REDUCE_MIN,
    max = UMBO_REDUCE_MAX,
};

constexpr umbo_reduce_op to_c(reduce_op which) noexcept {
    return static_cast<umbo_reduce_op>(which);
}

// How the rows of a batch are split.
enum class split : std::int32_t {
    ceil = UMBO_SPLIT_CEIL,
    balanced = UMBO_SPLIT_BALANCED,
};

constexpr umbo_split to_c(split which) noexcept {
    return static_cast<umbo_split>(which);
}

// The rows of batches that each rank gets.
enum class sharding : std::int32_t {
    data = UMBO_SHARDING_DATA,
    off = UMBO_SHARDING_OFF,
    file = UMBO_SHARDING_FILE,
    automatic = UMBO_SHARDING_AUTO,
};

constexpr umbo_sharding to_c(sharding which) noexcept {
    return static_cast<umbo_sharding>(which);
}

// What the gradients of a replica are gradients of.
enum class loss_reduction : std::int32_t {
    sum = UMBO_LOSS_SUM,
    mean = UMBO_LOSS_MEAN,
    global_mean = UMBO_LOSS_GLOBAL_MEAN,
};

constexpr umbo_loss_reduction to_c(loss_reduction which) noexcept {
    return static_cast<umbo_loss_reduction>(which);
}

// What a replica does to its gradient buffer.
enum class gradient_mode : std::int32_t {
    overwrite = UMBO_GRADIENT_OVERWRITE,
    add = UMBO_GRADIENT_ADD,
};

constexpr umbo_gradient_mode to_c(gradient_mode which) noexcept {
    return static_cast<umbo_gradient_mode>(which);
}

// What happens to gradients that are not finite.
enum class non_finite : std::int32_t {
    automatic = UMBO_NON_FINITE_AUTO,
    ignore = UMBO_NON_FINITE_IGNORE,
    skip = UMBO_NON_FINITE_SKIP,
    fail = UMBO_NON_FINITE_FAIL,
};

constexpr umbo_non_finite to_c(non_finite which) noexcept {
    return static_cast<umbo_non_finite>(which);
}

// How losses are scaled.
enum class loss_scaling : std::int32_t {
    none = UMBO_LOSS_SCALING_NONE,
    fixed = UMBO_LOSS_SCALING_FIXED,
    dynamic = UMBO_LOSS_SCALING_DYNAMIC,
};

constexpr umbo_loss_scaling to_c(loss_scaling which) noexcept {
    return static_cast<umbo_loss_scaling>(which);
}

// The shape of a learning rate schedule.
enum class schedule_kind : std::int32_t {
    constant = UMBO_SCHEDULE_CONSTANT,
    linear = UMBO_SCHEDULE_LINEAR,
    cosine = UMBO_SCHEDULE_COSINE,
    step = UMBO_SCHEDULE_STEP,
    one_cycle = UMBO_SCHEDULE_ONE_CYCLE,
    plateau = UMBO_SCHEDULE_PLATEAU,
};

constexpr umbo_schedule_kind to_c(schedule_kind which) noexcept {
    return static_cast<umbo_schedule_kind>(which);
}

// Whether there is a moving average of the weights.
enum class average : std::int32_t {
    none = UMBO_AVERAGE_NONE,
    exponential = UMBO_AVERAGE_EXPONENTIAL,
    mean = UMBO_AVERAGE_MEAN,
};

constexpr umbo_average to_c(average which) noexcept {
    return static_cast<umbo_average>(which);
}

// What keeps steps from being faster.
enum class step_cause : std::int32_t {
    small_step = UMBO_STEP_CAUSE_SMALL_STEP,
    few_processors = UMBO_STEP_CAUSE_FEW_PROCESSORS,
    other_threads = UMBO_STEP_CAUSE_OTHER_THREADS,
    input = UMBO_STEP_CAUSE_INPUT,
    slow_replica = UMBO_STEP_CAUSE_SLOW_REPLICA,
    serialised = UMBO_STEP_CAUSE_SERIALISED,
    update = UMBO_STEP_CAUSE_UPDATE,
    busy_machine = UMBO_STEP_CAUSE_BUSY_MACHINE,
    uneven_steps = UMBO_STEP_CAUSE_UNEVEN_STEPS,
    old_kernels = UMBO_STEP_CAUSE_OLD_KERNELS,
};

constexpr umbo_step_cause to_c(step_cause which) noexcept {
    return static_cast<umbo_step_cause>(which);
}

// What a finding is about.
enum class equivalence_subject : std::int32_t {
    step = UMBO_EQUIVALENCE_OF_STEP,
    gradient = UMBO_EQUIVALENCE_OF_GRADIENT,
    metric = UMBO_EQUIVALENCE_OF_METRIC,
    variable = UMBO_EQUIVALENCE_OF_VARIABLE,
};

constexpr umbo_equivalence_subject to_c(equivalence_subject which) noexcept {
    return static_cast<umbo_equivalence_subject>(which);
}

// What a finding says.
enum class equivalence_verdict : std::int32_t {
    equal = UMBO_EQUIVALENCE_EQUAL,
    not_written = UMBO_EQUIVALENCE_NOT_WRITTEN,
    callback_failed = UMBO_EQUIVALENCE_CALLBACK_FAILED,
    not_submitted = UMBO_EQUIVALENCE_NOT_SUBMITTED,
    wrong_weight = UMBO_EQUIVALENCE_WRONG_WEIGHT,
    not_overwritten = UMBO_EQUIVALENCE_NOT_OVERWRITTEN,
    not_finite = UMBO_EQUIVALENCE_NOT_FINITE,
    not_repeatable = UMBO_EQUIVALENCE_NOT_REPEATABLE,
    wrong_reduction = UMBO_EQUIVALENCE_WRONG_REDUCTION,
    whole_batch = UMBO_EQUIVALENCE_WHOLE_BATCH,
    same_examples = UMBO_EQUIVALENCE_SAME_EXAMPLES,
    partly_written = UMBO_EQUIVALENCE_PARTLY_WRITTEN,
    term_per_replica = UMBO_EQUIVALENCE_TERM_PER_REPLICA,
    different = UMBO_EQUIVALENCE_DIFFERENT,
    variable_written = UMBO_EQUIVALENCE_VARIABLE_WRITTEN,
    size_dependent = UMBO_EQUIVALENCE_SIZE_DEPENDENT,
};

constexpr umbo_equivalence_verdict to_c(equivalence_verdict which) noexcept {
    return static_cast<umbo_equivalence_verdict>(which);
}

UMBO_DETAIL_END

#endif

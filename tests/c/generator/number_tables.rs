//! The tables of `numbers`: good arguments of single functions, the words and the status of their
//! answers, and the uses of what they make.

/// What the caller's arrays have to hold, so that numbers for which no array can be there are all
/// that may be given: function, argument.
pub const BY_ARRAYS: &[(&str, &str)] = &[
    ("umbo_dtype_convert_from_float", "count"),
    ("umbo_dtype_convert_to_float", "count"),
    ("umbo_random_uniform", "example_count"),
    ("umbo_random_uniform", "count"),
    ("umbo_random_normal", "example_count"),
    ("umbo_random_normal", "count"),
    ("umbo_random_bernoulli", "example_count"),
    ("umbo_random_bernoulli", "count"),
    ("umbo_random_integers", "example_count"),
    ("umbo_random_integers", "count"),
    ("umbo_replica_choice_count", "step_count"),
    ("umbo_replica_choice_text", "step_count"),
];

/// Good arguments that a place needs beside those of the matrix: function, place, argument,
/// expression.
pub const RECIPES: &[(&str, &str, &str, &str)] = &[
    (
        "umbo_metrics_define",
        "class_count",
        "kind",
        "UMBO_METRIC_CONFUSION",
    ),
    (
        "umbo_metrics_define",
        "bin_count",
        "kind",
        "UMBO_METRIC_AUC",
    ),
    ("umbo_metrics_define", "top_k", "kind", "UMBO_METRIC_TOP_K"),
    ("umbo_variable_create", "shape", "initial_value", "NULL"),
    ("umbo_variable_create", "ndim", "initial_value", "NULL"),
];

/// A variable whose first value is not given, but made in the shape of the options.
pub const DRAWN: &str = "changed.dtype = UMBO_DTYPE_FLOAT32; changed.initial = UMBO_INITIAL_ZEROS;";

/// Assignments that a place in a struct needs before it: struct, place, statement.
pub const FIELDS: &[(&str, &str, &str)] = &[
    ("umbo_variable_options", "shape", "changed.ndim = 1;"),
    ("umbo_variable_options", "shape", DRAWN),
    ("umbo_variable_options", "ndim", DRAWN),
];

/// Places in structs that are not plain fields: struct, place, statements.
pub const PARTS: &[(&str, &str, &str)] = &[
    (
        "umbo_view",
        "shape",
        "changed.ndim = 1; changed.shape[0] = extreme;",
    ),
    (
        "umbo_view",
        "strides",
        "changed.ndim = 1; changed.shape[0] = 1; changed.strides[0] = extreme;",
    ),
    (
        "umbo_view",
        "type",
        "changed.device.type = (umbo_device_type)narrow(extreme);",
    ),
    (
        "DLManagedTensor",
        "ndim",
        "changed.dl_tensor.ndim = (int32_t)narrow(extreme);",
    ),
    (
        "DLManagedTensor",
        "byte_offset",
        "changed.dl_tensor.byte_offset = (uint64_t)extreme;",
    ),
    (
        "DLManagedTensor",
        "shape",
        "changed.dl_tensor.ndim = 1; changed.dl_tensor.shape = &extreme;",
    ),
    (
        "DLManagedTensorVersioned",
        "ndim",
        "changed.dl_tensor.ndim = (int32_t)narrow(extreme);",
    ),
    (
        "DLManagedTensorVersioned",
        "byte_offset",
        "changed.dl_tensor.byte_offset = (uint64_t)extreme;",
    ),
    (
        "DLManagedTensorVersioned",
        "shape",
        "changed.dl_tensor.ndim = 1; changed.dl_tensor.shape = &extreme;",
    ),
];

/// Other words by which messages name a place: function, place, words.
pub const OTHER_NAMES: &[(&str, &str, &str)] = &[
    // Memory is asked for in bytes, and rows.
    ("", "shape", "bytes on CPU:0"),
    ("umbo_gradients_add_rows", "row_count", "rows of "),
    ("umbo_trainer_dataset", "row_count", "row numbers"),
    ("umbo_trainer_epoch", "row_count", "row numbers"),
    ("umbo_trainer_evaluate", "row_count", "row numbers"),
    (
        "umbo_trainer_create_with_arrays",
        "count",
        "elements of parameters",
    ),
    ("umbo_trainer_create_with_arrays", "count", "bytes on CPU:0"),
    ("umbo_tensor_from_memory", "shape", "strides"),
    (
        "umbo_input_context_per_replica_batch_size",
        "replica_count",
        "number of replicas",
    ),
    // They say nothing where the memory has the first value.
    ("umbo_variable_create_in_memory", "ndim", "initial is set"),
    ("umbo_variable_create_in_memory", "shape", "initial is set"),
    // A kind of metric that has no scores is defined by the first call.
    ("umbo_metrics_define", "lowest_score", "there is a metric"),
    ("umbo_metrics_define", "highest_score", "there is a metric"),
    // Memory that is so large is all memory.
    ("umbo_communicator_all_to_all", "send_bytes", "overlaps"),
    ("umbo_communicator_all_to_all", "send_bytes", "sends itself"),
    ("umbo_communicator_all_gather", "bytes", "overlaps"),
];

/// Other answers than to the number itself: function, place (empty: each), status.
pub const OTHER_ANSWERS: &[(&str, &str, &str)] = &[
    // The rows are not those of a call.
    (
        "umbo_rows_new_gradient_row",
        "",
        "UMBO_STATUS_FAILED_PRECONDITION",
    ),
    ("umbo_rows_weigh", "", "UMBO_STATUS_FAILED_PRECONDITION"),
    // It leaves the errors as they are.
    ("umbo_last_error_at", "index", "UMBO_STATUS_OUT_OF_RANGE"),
    (
        "umbo_device_set_logical_count",
        "physical_ordinal",
        "UMBO_STATUS_NOT_FOUND",
    ),
    // A checkpoint of another length is damaged.
    (
        "umbo_checkpoint_restore_from_memory",
        "bytes",
        "UMBO_STATUS_DATA_LOSS",
    ),
    (
        "umbo_checkpoint_restore_from_ranks",
        "bytes",
        "UMBO_STATUS_DATA_LOSS",
    ),
    (
        "umbo_checkpoint_load_weights_from_memory",
        "bytes",
        "UMBO_STATUS_DATA_LOSS",
    ),
];

/// What is done with an object that a call has made, by its type.
pub const USES: &[&str] = &[
    "communicator",
    "dataset",
    "distributed_dataset",
    "gradients",
    "iterator",
    "optimizer",
    "strategy",
    "tensor",
    "trainer",
    "value",
    "variable",
];

/// What they make lies in memory of the program, which ends before what a large number says: it is
/// not read.
pub const UNREAD: &[&str] = &["umbo_strategy_split_arrays"];

/// What is done after a call that has succeeded: function, statement.
pub const AFTER: &[(&str, &str)] = &[
    (
        "umbo_checkpoint_manager_create",
        "use_checkpoint_manager(&good, manager);",
    ),
    ("umbo_metrics_define", "use_metrics(&good);"),
    (
        "umbo_optimizer_add_group",
        "use_optimizer(&good, good.optimizer);",
    ),
    (
        "umbo_optimizer_set_iterations",
        "use_optimizer(&good, good.optimizer);",
    ),
    (
        "umbo_optimizer_set_loss_scale",
        "use_optimizer(&good, good.optimizer);",
    ),
    ("umbo_device_set_logical_count", "use_devices();"),
    ("umbo_set_worker_count", "use_workers(&good);"),
    ("umbo_strategy_measure_steps", "use_measured(&good);"),
    ("umbo_trace_start", "use_trace(&good);"),
];

/// The functions in the tables; an empty name stands for every function.
pub fn functions_in_tables() -> impl Iterator<Item = &'static str> {
    let by_arrays = BY_ARRAYS.iter().map(|(name, _)| *name);
    let recipes = RECIPES.iter().map(|(name, ..)| *name);
    let names = OTHER_NAMES.iter().map(|(name, ..)| *name);
    let answers = OTHER_ANSWERS.iter().map(|(name, ..)| *name);
    let after = AFTER.iter().map(|(name, _)| *name);
    by_arrays
        .chain(recipes)
        .chain(names)
        .chain(answers)
        .chain(UNREAD.iter().copied())
        .chain(after)
}

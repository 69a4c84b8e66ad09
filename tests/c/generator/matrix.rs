//! Writes a C program that calls every public function in every context in which the library calls
//! back. The contexts are written by hand in the files of `matrix`; the calls are made here, from
//! the header.
//!
//! Arguments are those of the `NULL` tests, and where these would be refused in every context,
//! those of [`RECIPES`]. The program itself demands that each function succeeds in some context, so
//! that a new function whose arguments are guessed wrongly is noticed.

use std::fmt::Write;

use crate::cases::{HANDLES, argument, with_shared};
use crate::header::{Function, Header, Parameter};

/// What a function needs in the place of a parameter: function, parameter, expression.
const RECIPES: &[(&str, &str, &str)] = &[
    ("umbo_device_canonical_name", "name", "\"CPU:0\""),
    ("umbo_device_canonical_name", "capacity", "sizeof(buffer)"),
    ("umbo_device_set_logical_count", "count", "2"),
    ("umbo_device_set_logical_count", "memory_limits", "NULL"),
    ("umbo_device_set_stream", "device", "\"CPU:0\""),
    ("umbo_device_set_stream", "stream", "NULL"),
    ("umbo_device_set_memory_pool", "device", "\"CPU:0\""),
    ("umbo_device_set_memory_pool", "pool", "NULL"),
    // Replicas copy at the same time.
    ("umbo_tensor_download", "destination", "(float[1]){0}"),
    ("umbo_tensor_download", "bytes", "sizeof(float)"),
    ("umbo_tensor_upload", "bytes", "0"),
    ("umbo_view_to_dlpack", "view", "&array_view"),
    ("umbo_variable_upload", "bytes", "sizeof(numbers[0])"),
    ("umbo_variable_download", "data", "(float[1]){0}"),
    ("umbo_variable_download", "bytes", "sizeof(numbers[0])"),
    (
        "umbo_dtype_convert_from_float",
        "dtype",
        "UMBO_DTYPE_FLOAT16",
    ),
    ("umbo_dtype_convert_from_float", "to", "(float[1]){0}"),
    ("umbo_dtype_convert_to_float", "to", "(float[1]){0}"),
    ("umbo_dtype_convert_to_float", "dtype", "UMBO_DTYPE_FLOAT16"),
    ("umbo_variable_download_flat", "data", "(float[1]){0}"),
    ("umbo_variable_download_flat", "bytes", "sizeof(numbers[0])"),
    ("umbo_variable_upload_flat", "data", "numbers"),
    ("umbo_variable_upload_flat", "bytes", "sizeof(numbers[0])"),
    ("umbo_strategy_split", "value", "good.batch"),
    ("umbo_strategy_split_arrays", "views", "&array_view"),
    ("umbo_dataset_from_arrays", "views", "&array_view"),
    ("umbo_dataset_from_idx_files", "paths", "&idx_file"),
    ("umbo_value_item", "value", "good.structure"),
    ("umbo_value_field", "value", "good.structure"),
    ("umbo_value_field_name", "value", "good.structure"),
    ("umbo_value_variable", "value", "good.variable_value"),
    ("umbo_value_view", "name", "NULL"),
    ("umbo_value_text", "capacity", "sizeof(buffer)"),
    ("umbo_iterator_save_position", "capacity", "sizeof(buffer)"),
    ("umbo_iterator_restore_position", "position", "place"),
    ("umbo_value_example_count", "value", "good.per_replica"),
    (
        "umbo_value_create_indexed_slices",
        "indices",
        "good.indices",
    ),
    ("umbo_value_indexed_slices", "value", "good.slices"),
    ("umbo_cluster_resolver_from_tf_config", "text", "cluster"),
    ("umbo_cluster_resolver_task", "job", "\"worker\""),
    ("umbo_communicator_all_to_all", "receive", "(float[1]){0}"),
    ("umbo_communicator_all_gather", "receive", "(float[1]){0}"),
    ("umbo_communicator_broadcast", "data", "(float[1]){0}"),
    ("umbo_communicator_broadcast", "bytes", "sizeof(float)"),
    ("umbo_strategy_reduce", "value", "good.per_replica"),
    ("umbo_strategy_gather", "value", "good.per_replica"),
    ("umbo_strategy_reduce_to", "value", "good.per_replica"),
    (
        "umbo_strategy_batch_reduce_to",
        "values",
        "&good.per_replica",
    ),
    ("umbo_variable_scatter", "slices", "good.slices"),
    ("umbo_element_spec_item", "spec", "good.structure_spec"),
    (
        "umbo_element_spec_field_name",
        "spec",
        "good.structure_spec",
    ),
    ("umbo_dataset_from_npy_file", "path", "NPY_FILE"),
    ("umbo_dataset_shard", "shard_count", "1"),
    (
        "umbo_strategy_distribute_dataset",
        "dataset",
        "good.batches",
    ),
    ("umbo_gradients_attach", "view", "&array_view"),
    ("umbo_variable_assign_all", "views", "&array_view"),
    ("umbo_variable_create_in_memory", "views", "&array_view"),
    (
        "umbo_gradients_add_rows",
        "gradients",
        "good.sparse_gradients",
    ),
    (
        "umbo_gradients_add_indexed_slices",
        "gradients",
        "good.sparse_gradients",
    ),
    (
        "umbo_gradients_add_indexed_slices",
        "slices",
        "good.table_slices",
    ),
    ("umbo_optimizer_read_state", "name", "\"momentum\""),
    ("umbo_optimizer_setting", "variable", "NULL"),
    ("umbo_optimizer_setting", "name", "\"learning_rate\""),
    ("umbo_strategy_check_equivalence", "batch", "good.batch"),
    ("umbo_metrics_define", "name", "\"y\""),
    ("umbo_metrics_class_result", "name", "\"matrix\""),
    ("umbo_metrics_cells", "name", "\"matrix\""),
    ("umbo_metrics_cells", "cells", "cells_of_a_matrix"),
    ("umbo_metrics_cells", "capacity", "4"),
    ("umbo_metrics_names", "names", "names_of_metrics"),
    ("umbo_metrics_names", "capacity", "16"),
    ("umbo_optimizer_assign_state", "name", "\"momentum\""),
    ("umbo_replica_choice_text", "capacity", "sizeof(buffer)"),
    ("umbo_optimizer_change_rows", "kept_rows", "NULL"),
    ("umbo_optimizer_change_rows", "appended", "NULL"),
    // One behind the other, each with a name of its own.
    ("umbo_checkpoint_add_optimizer", "name", "\"optimizer\""),
    ("umbo_checkpoint_add_gradients", "name", "\"gradients\""),
    ("umbo_checkpoint_add_metrics", "name", "\"metrics\""),
    ("umbo_checkpoint_add_iterator", "name", "\"iterator\""),
    ("umbo_checkpoint_add_tensor", "name", "\"tensor\""),
    ("umbo_checkpoint_set_number", "name", "\"number\""),
    ("umbo_checkpoint_set_integer", "name", "\"integer\""),
    ("umbo_checkpoint_number", "name", "\"number\""),
    ("umbo_checkpoint_integer", "name", "\"integer\""),
    ("umbo_checkpoint_set_string", "name", "\"string\""),
    ("umbo_checkpoint_string", "name", "\"string\""),
    ("umbo_checkpoint_string", "capacity", "sizeof(buffer)"),
    ("umbo_checkpoint_read_string", "path", "CHECKPOINT_FILE"),
    ("umbo_checkpoint_read_string", "name", "\"string\""),
    ("umbo_checkpoint_read_string", "capacity", "sizeof(buffer)"),
    (
        "umbo_checkpoint_manager_create",
        "folder",
        "\"matrix_checkpoints_2\"",
    ),
    ("umbo_checkpoint_manager_path", "capacity", "sizeof(buffer)"),
    ("umbo_tensor_save", "path", "\"matrix_other.npy\""),
    ("umbo_tensor_save_all", "path", "\"matrix_other.npz\""),
    ("umbo_tensor_load", "path", "NPY_FILE"),
    ("umbo_tensor_load", "name", "NULL"),
    ("umbo_checkpoint_save", "path", "OTHER_FILE"),
    ("umbo_checkpoint_save_weights", "path", "OTHER_FILE"),
    ("umbo_checkpoint_restore", "path", "CHECKPOINT_FILE"),
    ("umbo_checkpoint_load_weights", "path", "CHECKPOINT_FILE"),
    ("umbo_checkpoint_save_to_memory", "data", "(char[8192]){0}"),
    ("umbo_checkpoint_save_to_memory", "capacity", "8192"),
    (
        "umbo_checkpoint_save_weights_to_memory",
        "data",
        "(char[8192]){0}",
    ),
    ("umbo_checkpoint_save_weights_to_memory", "capacity", "8192"),
    (
        "umbo_checkpoint_restore_from_memory",
        "data",
        "checkpoint_bytes",
    ),
    (
        "umbo_checkpoint_restore_from_memory",
        "bytes",
        "checkpoint_length",
    ),
    (
        "umbo_checkpoint_restore_from_ranks",
        "data",
        "checkpoint_bytes",
    ),
    (
        "umbo_checkpoint_restore_from_ranks",
        "bytes",
        "checkpoint_length",
    ),
    (
        "umbo_checkpoint_load_weights_from_memory",
        "data",
        "checkpoint_bytes",
    ),
    (
        "umbo_checkpoint_load_weights_from_memory",
        "bytes",
        "checkpoint_length",
    ),
    ("umbo_strategy_step_report", "capacity", "sizeof(buffer)"),
    ("umbo_trace_start", "path", "\"matrix_trace.json\""),
    ("umbo_train_epoch", "optimizer", "NULL"),
    ("umbo_train_epoch", "gradients", "NULL"),
    ("umbo_trainer_save", "path", "OTHER_FILE"),
    ("umbo_trainer_restore", "path", "OTHER_FILE"),
    ("umbo_trainer_resume", "path", "\"matrix.none\""),
    ("umbo_trainer_variable", "array", "0"),
    ("umbo_rows_new_gradient_row", "rows", "good.rows"),
    ("umbo_rows_new_gradient_row", "array", "0"),
    ("umbo_rows_new_gradient_row", "row", "0"),
    ("umbo_rows_weigh", "rows", "good.rows"),
];

/// What has to happen first, in the same context: function, statement.
const PRELUDES: &[(&str, &str)] = &[
    (
        "umbo_last_error_at",
        "umbo_set_last_error(UMBO_STATUS_ABORTED, \"x\", NULL, NULL);",
    ),
    ("umbo_strategy_metric_result", "prepare_metric(good);"),
    ("umbo_strategy_step_report", "prepare_report(good);"),
    ("umbo_strategy_step_times", "prepare_report(good);"),
    (
        "umbo_iterator_restore_position",
        "char place[4096]; place_of(good.iterator, place, sizeof(place));",
    ),
    (
        "umbo_trainer_restore",
        "umbo_ignore(umbo_trainer_save(good.trainer, OTHER_FILE));",
    ),
    ("umbo_optimizer_apply", "submit_in_place(good);"),
    ("umbo_gradients_reduced", "submit_in_place(good);"),
    ("umbo_metrics_cells", "(void)cells;"),
    ("umbo_metrics_names", "(void)names;"),
    (
        "umbo_metrics_add_labels",
        "umbo_ignore(umbo_tensor_view(good.indices, &predicted)); labels = weights = predicted;",
    ),
    ("umbo_scope_exit", "good.scope = scope_in_place(good);"),
    (
        "umbo_optimizer_add_group",
        "good.optimizer = good.fresh_optimizer;",
    ),
    (
        "umbo_optimizer_change_rows",
        "good.optimizer = good.fresh_optimizer; good.variable = good.fresh_variable;",
    ),
    (
        "umbo_optimizer_with_average",
        "good.optimizer = good.settled_optimizer;",
    ),
    (
        "umbo_optimizer_observe",
        "good.optimizer = good.settled_optimizer;",
    ),
    // Replicas write at the same time, so there is nothing to write.
    ("umbo_tensor_upload", "good.tensor = good.no_elements;"),
    (
        "umbo_dataset_unbatch",
        "umbo_dataset_release(dataset), dataset = NULL; \
         umbo_ignore(umbo_dataset_retain(good.batches, &dataset));",
    ),
    (
        "umbo_dataset_rebatch",
        "umbo_dataset_release(dataset), dataset = NULL; \
         umbo_ignore(umbo_dataset_retain(good.batches, &dataset));",
    ),
];

/// Fields that a struct needs beside what the `NULL` tests give it: struct, assignment.
const FIELDS: &[(&str, &str)] = &[
    ("umbo_shuffle_options", "buffer_capacity = 2"),
    ("umbo_variable_request_info", "name = \"renamed\""),
    ("umbo_variable_request_info", "trainable = UMBO_AUTO"),
];

/// Functions that succeed nowhere, and why that is right.
const NEVER_SUCCEED: &[(&str, &str)] = &[
    (
        "umbo_set_last_error",
        "it returns the status that it is given",
    ),
    ("umbo_shutdown", "strategies are alive"),
    (
        "umbo_dataset_from_npz_file",
        "the program writes no archive",
    ),
    (
        "umbo_communicator_create_mpi",
        "tests/mpi runs programs with MPI",
    ),
    (
        "umbo_communicator_create_nccl",
        "its device is no GPU; tests/together runs it",
    ),
];

/// Functions that succeed only where those before them in the header have not been called with the
/// same objects.
const NEED_NEW_OBJECTS: &[&str] = &[
    "umbo_gradients_attach",
    "umbo_gradients_discard",
    "umbo_checkpoint_restore",
    "umbo_checkpoint_load_weights",
    "umbo_checkpoint_restore_from_memory",
    "umbo_checkpoint_restore_from_ranks",
    "umbo_checkpoint_load_weights_from_memory",
];

/// The program without what the header says, in the order in which its parts need each other.
const FRAME: &str = concat!(
    include_str!("matrix/frame.c"),
    include_str!("matrix/given.c"),
    include_str!("matrix/report.c"),
    include_str!("matrix/callbacks.c"),
    include_str!("matrix/calls.c"),
    include_str!("matrix/objects.c"),
    include_str!("matrix/scene.c"),
    include_str!("matrix/steps.c"),
    include_str!("matrix/settings.c"),
    include_str!("matrix/input.c"),
    include_str!("matrix/communicators.c"),
    include_str!("matrix/variables.c"),
    include_str!("matrix/threads.c"),
    include_str!("matrix/contexts.c"),
    include_str!("matrix/children.c"),
);

/// The whole program, and the number of functions in it.
pub fn program(header: &Header) -> Result<(String, usize), String> {
    let frame = FRAME;
    if let Some(left_out) = header.callbacks.iter().find(|callback| {
        !frame.contains(&format!("/* {callback} */")) && callback.as_str() != "umbo_destroy_fn"
    }) {
        return Err(format!(
            "no context of the matrix is for callbacks of type {left_out}"
        ));
    }
    let mut calls = String::new();
    let mut table = String::new();
    for function in &header.functions {
        write_call(&mut calls, &mut table, header, function)
            .map_err(|problem| format!("{}: {problem}", function.name))?;
    }
    for name in RECIPES
        .iter()
        .map(|(name, ..)| name)
        .chain(PRELUDES.iter().map(|(name, _)| name))
    {
        if !header
            .functions
            .iter()
            .any(|function| function.name == *name)
        {
            return Err(format!("{name} has a recipe and is not in the header"));
        }
    }
    let program = with_shared(frame);
    let program = program
        .replace("/* CALLS */\n", &calls)
        .replace("    /* TABLE */\n", &table);
    Ok((program, header.functions.len()))
}

/// What a call of a function takes.
pub struct Prepared {
    /// Declarations.
    pub locals: String,
    /// What has to happen before the call.
    pub prelude: String,
    /// An expression for each argument.
    pub arguments: Vec<String>,
    /// What gives up what the call makes.
    pub cleanup: String,
}

/// Good arguments of a function.
pub fn prepared(header: &Header, function: &Function) -> Result<Prepared, String> {
    let mut locals = String::new();
    let mut cleanup = String::new();
    let mut arguments = Vec::new();
    for parameter in &function.parameters {
        let recipe = RECIPES
            .iter()
            .find(|(name, place, _)| *name == function.name && *place == parameter.name);
        // What the recipe stands for is still declared: another argument may speak of it.
        let usual = argument(header, parameter, &mut locals, &mut cleanup)?;
        arguments.push(recipe.map_or(usual, |(_, _, expression)| (*expression).to_owned()));
        for (kind, assignment) in FIELDS {
            if parameter.kind.contains(*kind) {
                writeln!(locals, "    {}.{assignment};", parameter.name)
                    .expect("a string takes it");
            }
        }
    }
    let prelude = PRELUDES
        .iter()
        .filter(|(known, _)| *known == function.name)
        .map(|(_, statement)| format!("    {statement}\n"))
        .collect();
    Ok(Prepared {
        locals,
        prelude,
        arguments,
        cleanup,
    })
}

/// The function that is called and its line in the table; for a release a second one, which gives
/// up the last reference.
fn write_call(
    calls: &mut String,
    table: &mut String,
    header: &Header,
    function: &Function,
) -> Result<(), String> {
    let Prepared {
        locals,
        prelude,
        arguments,
        cleanup,
    } = prepared(header, function)?;
    let name = &function.name;
    let call = format!("{name}({})", arguments.join(", "));
    let (call, never) = match function.returns.as_str() {
        "umbo_status" => (
            format!("status = {call};"),
            i32::from(NEVER_SUCCEED.iter().any(|(known, _)| known == name)),
        ),
        "void" => (format!("{call};"), 0),
        _ => (format!("(void){call};"), 0),
    };
    let released = match function.parameters.as_slice() {
        [Parameter { kind, .. }] if name.ends_with("_release") => HANDLES
            .iter()
            .find(|handle| *kind == format!("const umbo_{handle} *"))
            .ok_or("releases a type that is in no table")
            .map(Some)?,
        _ => None,
    };
    let retain = released.map_or_else(String::new, |handle| {
        format!(
            "    if (umbo_{handle}_retain(good.{handle}, &good.{handle}) != UMBO_OK) return \
             UMBO_OK;\n"
        )
    });
    // A context fails for many callers at once; the message is looked at before anything else is
    // called.
    let record = "    note(status);\n";
    writeln!(
        calls,
        "static umbo_status call_{name}(struct objects good) {{\n    umbo_status status = \
         UMBO_OK;\n{locals}{prelude}{retain}    {call}\n{record}{cleanup}    (void)good;\n    \
         return status;\n}}\n"
    )
    .expect("a string takes it");
    let needs_new = i32::from(NEED_NEW_OBJECTS.contains(&name.as_str()));
    writeln!(
        table,
        "    {{\"{name}\", call_{name}, NOTHING, {never}, {needs_new}}},"
    )
    .expect("a string takes it");
    if let Some(handle) = released {
        writeln!(
            calls,
            "static umbo_status last_{name}(struct objects good) {{\n    \
             {name}(good.{handle});\n    return UMBO_OK;\n}}\n"
        )
        .expect("a string takes it");
        writeln!(
            table,
            "    {{\"{name} (last)\", last_{name}, offsetof(struct objects, {handle}), 0, 1}},"
        )
        .expect("a string takes it");
    }
    Ok(())
}

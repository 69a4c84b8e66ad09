//! docs/from-tensorflow.md calls members and arguments what the pages of the reference call them.

use std::fs;

/// Members of tf.distribute.experimental.CentralStorageStrategy in the five editions of its page,
/// with what their texts and samples name.
const MEMBERS: [&str; 46] = [
    "CentralStorageStrategy",
    "cluster_resolver",
    "extended",
    "num_replicas_in_sync",
    "__deepcopy__",
    "distribute_datasets_from_function",
    "experimental_assign_to_logical_device",
    "experimental_distribute_dataset",
    "experimental_distribute_datasets_from_function",
    "experimental_distribute_values_from_function",
    "experimental_local_results",
    "experimental_make_numpy_dataset",
    "experimental_replicate_to_logical_devices",
    "experimental_run_v2",
    "experimental_split_to_logical_devices",
    "gather",
    "reduce",
    "run",
    "scope",
    "get_strategy",
    "has_strategy",
    "in_cross_replica_context",
    "get_replica_context",
    "variable_creator_scope",
    "StrategyExtended",
    "call_for_each_replica",
    "worker_devices",
    "all_gather",
    "all_reduce",
    "merge_call",
    "ReduceOp",
    "DistributedValues",
    "PerReplica",
    "element_spec",
    "InputContext",
    "num_input_pipelines",
    "input_pipeline_id",
    "get_per_replica_batch_size",
    "InputOptions",
    "RunOptions",
    "ValueContext",
    "replica_id_in_sync_group",
    "IndexedSlices",
    "TF_CONFIG",
    "MultiWorkerMirroredStrategy",
    "OneDeviceStrategy",
];

/// The arguments of these members.
const ARGUMENTS: [&str; 17] = [
    "compute_devices",
    "parameter_device",
    "tensor",
    "logical_device_id",
    "partition_dimensions",
    "dataset_fn",
    "options",
    "dataset",
    "value_fn",
    "value",
    "numpy_input",
    "fn",
    "args",
    "kwargs",
    "reduce_op",
    "axis",
    "global_batch_size",
];

#[test]
fn members_and_arguments_have_the_names_of_the_reference() {
    let page = super::root().join("docs/from-tensorflow.md");
    let text = fs::read_to_string(page).unwrap();
    // Everything before the samples.
    let (tables, _) = text.split_once("## The samples, in C").unwrap();
    let code: Vec<&str> = tables.split('`').skip(1).step_by(2).collect();
    for name in MEMBERS.iter().chain(&ARGUMENTS) {
        let is_named = code
            .iter()
            .any(|code| super::words(code).any(|word| word == *name));
        assert!(is_named, "docs/from-tensorflow.md does not name {name}");
    }
}

//! The closed list of steps and their fields: a case that leaves it cannot be executed.

use serde_json::Value as Json;

use crate::failure::{Result, status_named, wrong};
use crate::fields;

/// Operations, the fields that each must have, and those that it may have.
const STEPS: &[(&str, &str, &str)] = &[
    ("let", "value", "out"),
    ("component", "value replica", "out"),
    ("item", "value key", "out"),
    ("copy_to", "value device", "out"),
    ("device_of", "value", "out"),
    ("same", "a b", "out"),
    ("add", "a b", "out"),
    ("sub", "a b", "out"),
    ("mul", "a b", "out"),
    ("div", "a b", "out"),
    ("cast", "value dtype", "out"),
    ("sum", "value", "out"),
    ("mean", "value", "out"),
    ("size", "value", "out"),
    ("strategy", "compute_devices", "out parameter_device"),
    ("copy_strategy", "", "out strategy"),
    ("num_replicas_in_sync", "", "out strategy"),
    ("compute_devices", "", "out strategy"),
    ("parameter_device", "", "out strategy"),
    ("cluster_resolver", "", "out strategy"),
    ("canonical_device_name", "name", "out default"),
    ("scope_enter", "", "out strategy"),
    ("scope_exit", "scope", ""),
    ("set_strategy", "strategy", ""),
    ("has_strategy", "", "out"),
    ("in_cross_replica_context", "", "out"),
    ("in_replica_context", "", "out"),
    ("current_strategy_is", "", "out strategy"),
    ("on_thread", "steps", ""),
    ("loop", "times steps", ""),
    (
        "variable",
        "initial",
        "out scope aggregation synchronization trainable name",
    ),
    ("read", "variable", "out"),
    ("trainable", "variable", "out"),
    ("created_in_scope", "variable", "out strategy"),
    ("copy_variable", "variable", "out"),
    ("save", "variables", "out strategy"),
    ("restore", "file variables", "strategy"),
    ("assign", "variable value", ""),
    ("assign_add", "variable value", ""),
    ("assign_sub", "variable value", ""),
    ("scatter_add", "variable value", ""),
    ("scatter_sub", "variable value", ""),
    ("scatter_mul", "variable value", ""),
    ("scatter_div", "variable value", ""),
    ("scatter_min", "variable value", ""),
    ("scatter_max", "variable value", ""),
    ("scatter_update", "variable value", ""),
    ("run", "body", "args out strategy"),
    ("reduce", "reduce_op value axis", "out strategy"),
    ("gather", "value axis", "out strategy"),
    ("local_results", "value", "out strategy"),
    ("reduce_to", "reduce_op value destination", "out strategy"),
    ("batch_reduce_to", "reduce_op pairs", "out strategy"),
    ("broadcast_to", "value destination", "out strategy"),
    ("update", "variable body", "args group out strategy"),
    ("values_from_function", "body", "out strategy"),
    ("replica_id", "", "out"),
    ("on_replicas", "replicas steps", ""),
    ("all_reduce", "reduce_op value", "out"),
    ("all_gather", "value axis", "out"),
    ("merge_call", "body", "args out"),
    ("fail", "status", ""),
    ("dataset", "dataset", "out"),
    ("numpy_dataset", "value", "out strategy"),
    ("distribute_dataset", "dataset", "out options strategy"),
    (
        "distribute_from_function",
        "dataset",
        "out contexts_out options strategy",
    ),
    ("iterator", "dataset", "out"),
    ("next", "iterator", "out"),
    ("next_optional", "iterator", "out"),
    ("iterate", "dataset", "out way limit"),
    ("for_each", "dataset item steps", "way limit collect out"),
    ("element_spec", "dataset", "out"),
    ("cardinality", "dataset", "out"),
    (
        "input_context",
        "num_input_pipelines input_pipeline_id num_replicas_in_sync",
        "out",
    ),
    ("input_context_fields", "context", "out"),
    ("per_replica_batch_size", "context global", "out"),
    ("value_context", "replica_id num_replicas_in_sync", "out"),
];

/// Transformations of datasets and the fields that each may have.
const TRANSFORMATIONS: &[(&str, &str)] = &[
    ("batch", "size global_size drop_remainder"),
    ("padded_batch", "size drop_remainder"),
    ("rebatch", "sizes drop_remainder"),
    ("unbatch", ""),
    ("repeat", "count"),
    ("take", "count"),
    ("skip", "count"),
    ("shard", "shards index"),
    ("shuffle", "buffer seed reshuffle"),
    ("cache", ""),
];

const SOURCES: &str = "range from_tensor_slices from_tensors elements zip concatenate";
const CASE: &str = "id about source replicas strategy requires steps expect departs";
const OPTIONS: &str = "drop_partial_step split fetch_to_device";

fn listed(word: &str, list: &str) -> bool {
    list.split(' ').any(|listed| listed == word)
}

/// Fields that are in none of the lists.
fn unknown<'a>(json: &'a Json, lists: &[&str]) -> Option<&'a str> {
    let known = |field: &str| lists.iter().any(|list| listed(field, list));
    json.as_object()?
        .keys()
        .map(String::as_str)
        .find(|field| !known(field))
}

/// Complains if a case leaves the language.
pub fn check_case(case: &Json) -> Result<()> {
    if let Some(field) = unknown(case, &[CASE]) {
        return wrong(format!("unknown field {field} of a case"));
    }
    check_steps(fields::list(case, "steps")?)?;
    for error in fields::list(&case["expect"], "errors")? {
        for status in statuses(error)? {
            if status_named(status).is_none() {
                return wrong(format!("unknown status {status}"));
            }
        }
    }
    Ok(())
}

/// The statuses that an expected error may have.
pub fn statuses(error: &Json) -> Result<Vec<&str>> {
    match &error["status"] {
        Json::String(status) => Ok(vec![status]),
        Json::Array(all) => Ok(all.iter().filter_map(Json::as_str).collect()),
        _ => wrong(format!("an error without a status: {error}")),
    }
}

fn check_steps(steps: &[Json]) -> Result<()> {
    for step in steps {
        let op = fields::text(step, "op")?;
        let Some((_, need, may)) = STEPS.iter().find(|(name, ..)| *name == op) else {
            return wrong(format!("unknown operation {op}"));
        };
        if let Some(field) = need
            .split_whitespace()
            .find(|field| step.get(field).is_none())
        {
            return wrong(format!("{op} without {field}"));
        }
        if let Some(field) = unknown(step, &["op", need, may]) {
            return wrong(format!("unknown field {field} of {op}"));
        }
        check_steps(fields::list(step, "steps")?)?;
        if let Some(body) = step.get("body") {
            if let Some(field) = unknown(body, &["params steps return"]) {
                return wrong(format!("unknown field {field} of a body"));
            }
            check_steps(fields::list(body, "steps")?)?;
        }
        if let Some(dataset) = step.get("dataset").filter(|dataset| dataset.is_object()) {
            check_dataset(dataset)?;
        }
        if let Some(field) = step
            .get("options")
            .and_then(|options| unknown(options, &[OPTIONS]))
        {
            return wrong(format!("unknown option {field}"));
        }
    }
    Ok(())
}

fn check_dataset(dataset: &Json) -> Result<()> {
    if let Some(field) = unknown(dataset, &["source then"]) {
        return wrong(format!("unknown field {field} of a dataset"));
    }
    let source = &dataset["source"];
    if let Some(kind) = unknown(source, &[SOURCES]) {
        return wrong(format!("unknown source {kind}"));
    }
    for kind in ["zip", "concatenate"] {
        fields::list(source, kind)?
            .iter()
            .try_for_each(check_dataset)?;
    }
    for transformation in fields::list(dataset, "then")? {
        let op = fields::text(transformation, "op")?;
        let Some((_, may)) = TRANSFORMATIONS.iter().find(|(name, _)| *name == op) else {
            return wrong(format!("unknown transformation {op}"));
        };
        if let Some(field) = unknown(transformation, &["op", may]) {
            return wrong(format!("unknown field {field} of {op}"));
        }
    }
    Ok(())
}

//! Datasets of the case language, built with the library's.

use std::ptr;

use serde_json::Value as Json;
use umbo::*;

use crate::environment::Environment;
use crate::failure::{Result, check, wrong};
use crate::fields;
use crate::handle::{Handle, made, read};
use crate::literal::Literal;
use crate::{operand, values};

type Dataset = Handle<umbo_dataset>;

/// The number that stands for all elements, or no end, in the case language, as in TensorFlow.
const TENSORFLOW_ALL: i64 = -1;

/// A count of the case language as the library takes it.
fn all_or(count: i64) -> i64 {
    match count {
        TENSORFLOW_ALL => UMBO_ALL,
        count => count,
    }
}

/// An input context as the library takes it: pipelines, this pipeline, replicas.
pub fn input_context(fields: [i32; 3]) -> umbo_input_context {
    umbo_input_context {
        pipeline_count: fields[0].into(),
        pipeline_index: fields[1],
        replica_count: fields[2].into(),
        ..Default::default()
    }
}

/// The part of a global batch that each replica gets.
pub fn per_replica_batch_size(context: [i32; 3], global: i64) -> Result<i64> {
    let context = input_context(context);
    // SAFETY: the context and the output are variables.
    read(0, |size| unsafe {
        umbo_input_context_per_replica_batch_size(&raw const context, global, size)
    })
}

/// Builds a DATASET; `context` is that of the function that makes it.
pub fn build(
    json: &Json,
    environment: &Environment<'_>,
    context: Option<[i32; 3]>,
) -> Result<Dataset> {
    let Some(source) = json["source"]
        .as_object()
        .filter(|source| source.len() == 1)
    else {
        return wrong(format!("not a dataset: {json}"));
    };
    let mut dataset = None;
    for (kind, argument) in source {
        dataset = Some(self::source(kind, argument, environment, context)?);
    }
    let Some(mut dataset) = dataset else {
        return wrong("a dataset without a source");
    };
    for transformation in fields::list(json, "then")? {
        dataset = transformed(&dataset, transformation, context)?;
    }
    Ok(dataset)
}

fn source(
    kind: &str,
    argument: &Json,
    environment: &Environment<'_>,
    context: Option<[i32; 3]>,
) -> Result<Dataset> {
    if matches!(kind, "from_tensor_slices" | "from_tensors") {
        let value = operand::evaluate(argument, environment, "s")?;
        // SAFETY: the output is a variable.
        return made(|dataset| unsafe {
            match kind {
                "from_tensors" => umbo_dataset_from_tensors(value.get(), dataset),
                _ => umbo_dataset_from_tensor_slices(value.get(), dataset),
            }
        });
    }
    let Some(list) = argument.as_array() else {
        return wrong(format!("{kind} takes a list, not {argument}"));
    };
    match kind {
        "range" => {
            let numbers: Vec<i64> = list.iter().filter_map(Json::as_i64).collect();
            let [start, stop, step] = numbers[..] else {
                return wrong(format!("range takes start, stop and step, not {argument}"));
            };
            // SAFETY: the output is a variable.
            made(|dataset| unsafe { umbo_dataset_from_range(start, stop, step, dataset) })
        }
        "elements" => {
            let tensors = list
                .iter()
                .map(|literal| values::tensor(&values::make(&Literal::parse(literal)?)?));
            let tensors = tensors.collect::<Result<Vec<_>>>()?;
            let handles: Vec<_> = tensors.iter().map(|tensor| tensor.get()).collect();
            let count = handles.len() as i64;
            // SAFETY: the array has as many handles as stated, the output is a variable.
            made(|dataset| unsafe { umbo_dataset_from_elements(count, handles.as_ptr(), dataset) })
        }
        "zip" | "concatenate" => {
            let parts = list.iter().map(|part| build(part, environment, context));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let handles: Vec<_> = parts.iter().map(|part| part.get()).collect();
            let count = handles.len() as i64;
            let handles = handles.as_ptr();
            // SAFETY: the array has as many handles as stated, the output is a variable.
            made(|dataset| unsafe {
                match kind {
                    "zip" => umbo_dataset_zip(count, ptr::null(), handles, dataset),
                    _ => umbo_dataset_concatenate(count, handles, dataset),
                }
            })
        }
        _ => wrong(format!("unknown source {kind}")),
    }
}

/// What a transformation makes of `source`, which stays.
fn changed(
    source: *const umbo_dataset,
    transform: impl FnOnce(*mut *mut umbo_dataset) -> umbo_status,
) -> Result<Dataset> {
    let mut failed = None;
    // SAFETY: the handle is live, the output a variable.
    let dataset: Dataset = made(|dataset: *mut *mut umbo_dataset| unsafe {
        let status = umbo_retain(source.cast(), UMBO_HANDLE_DATASET, dataset.cast());
        if status == UMBO_OK {
            failed = Some(transform(dataset)).filter(|status| *status != UMBO_OK);
        }
        status
    })?;
    match failed {
        Some(status) => {
            check(status)?;
            Ok(dataset)
        }
        None => Ok(dataset),
    }
}

fn transformed(from: &Dataset, json: &Json, context: Option<[i32; 3]>) -> Result<Dataset> {
    let from = from.get();
    let drop_remainder = fields::flag(json, "drop_remainder", false)?.into();
    let op = fields::text(json, "op")?;
    match op {
        "batch" => {
            let size = match fields::optional_integer(json, "size")? {
                Some(size) => size,
                None => {
                    let Some(context) = context else {
                        return wrong("global_size without an input context");
                    };
                    per_replica_batch_size(context, fields::integer(json, "global_size")?)?
                }
            };
            // SAFETY: the output is a variable.
            changed(from, |to| unsafe {
                umbo_dataset_batch(to, size, drop_remainder)
            })
        }
        "padded_batch" => {
            let size = fields::integer(json, "size")?;
            // SAFETY: the output is a variable.
            changed(from, |to| unsafe {
                umbo_dataset_padded_batch(to, size, drop_remainder, ptr::null())
            })
        }
        "rebatch" => {
            let sizes = fields::integers(json, "sizes")?;
            let count = sizes.len() as i64;
            let sizes = sizes.as_ptr();
            // SAFETY: the array is as long as stated, the output is a variable.
            changed(from, |to| unsafe {
                umbo_dataset_rebatch(to, count, sizes, drop_remainder)
            })
        }
        // SAFETY: the output is a variable.
        "unbatch" => changed(from, |to| unsafe { umbo_dataset_unbatch(to) }),
        "repeat" => {
            let count = match fields::optional_integer(json, "count")? {
                None | Some(TENSORFLOW_ALL) => UMBO_INFINITE,
                Some(count) => count,
            };
            // SAFETY: the output is a variable.
            changed(from, |to| unsafe { umbo_dataset_repeat(to, count) })
        }
        "take" => {
            let count = all_or(fields::integer(json, "count")?);
            // SAFETY: the output is a variable.
            changed(from, |to| unsafe { umbo_dataset_take(to, count) })
        }
        "skip" => {
            let count = all_or(fields::integer(json, "count")?);
            // SAFETY: the output is a variable.
            changed(from, |to| unsafe { umbo_dataset_skip(to, count) })
        }
        "shard" => {
            let (shards, index) = match (fields::optional_integer(json, "shards")?, context) {
                (Some(shards), _) => (shards, fields::integer(json, "index")?),
                (None, Some([pipelines, pipeline, _])) => (pipelines.into(), pipeline.into()),
                (None, None) => return wrong("shard without numbers or an input context"),
            };
            // SAFETY: the output is a variable.
            changed(from, |to| unsafe { umbo_dataset_shard(to, shards, index) })
        }
        "shuffle" => {
            // In cases 0 stands for all elements.
            let buffer_capacity = match fields::integer(json, "buffer")? {
                0 => UMBO_ALL,
                size => size,
            };
            let options = umbo_shuffle_options {
                buffer_capacity,
                seed: fields::optional_integer(json, "seed")?.unwrap_or(0) as u64,
                keep_order_each_pass: (!fields::flag(json, "reshuffle", true)?).into(),
                ..Default::default()
            };
            // SAFETY: the options and the output are variables.
            changed(from, |to| unsafe {
                umbo_dataset_shuffle(to, &raw const options)
            })
        }
        // SAFETY: the output is a variable.
        "cache" => changed(from, |to| unsafe { umbo_dataset_cache(to) }),
        _ => wrong(format!("unknown transformation {op}")),
    }
}

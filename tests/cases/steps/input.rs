//! Datasets, their distribution, and iterating over them.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value as Json;
use umbo::*;

use super::strategies::strategy_of;
use super::{Given, block};
use crate::datasets::{build, per_replica_batch_size};
use crate::environment::{Bound, Environment};
use crate::failure::{Failure, Result, fail, told, wrong};
use crate::fields;
use crate::handle::{Handle, Value, made, maybe_made, read, read_text};
use crate::literal::{Dtype, Element, Literal};
use crate::outcome::Outcome;
use crate::{operand, values};

pub fn step(op: &str, step: &Json, environment: &Environment<'_>) -> Option<Given> {
    Some(match op {
        "dataset" => build(&step["dataset"], environment, None)
            .map(|dataset| Some(Bound::Dataset(Arc::new(dataset)))),
        "numpy_dataset" => numpy_dataset(step, environment),
        "distribute_dataset" => distribute_dataset(step, environment),
        "distribute_from_function" => distribute_from_function(step, environment),
        "iterator" => iterator_over(step, environment)
            .map(|iterator| Some(Bound::Iterator(Arc::new(iterator)))),
        "next" => iterator_of(step, environment).and_then(|iterator| match next(&iterator)? {
            Some(element) => Ok(Some(Bound::Value(element))),
            None => fail(UMBO_STATUS_OUT_OF_RANGE, "the end of the data"),
        }),
        // In C umbo_iterator_next_as_optional() is inline over the same function.
        "next_optional" => iterator_of(step, environment).and_then(|iterator| {
            let element = next(&iterator)?;
            Ok(Some(
                element.map_or(Bound::Known(Outcome::None), Bound::Value),
            ))
        }),
        "iterate" => each(step, environment, |element| Ok(Some(Bound::Value(element)))).map(Some),
        "for_each" => for_each(step, environment),
        "element_spec" => element_spec(step, environment),
        "cardinality" => cardinality(step, environment),
        "input_context" => input_context(step),
        "input_context_fields" => context_of(step, environment).and_then(|context| {
            let numbers = context.iter().map(|&number| count(number.into()));
            Ok(Some(Bound::List(numbers.collect::<Result<_>>()?)))
        }),
        "per_replica_batch_size" => context_of(step, environment).and_then(|context| {
            count(per_replica_batch_size(
                context,
                fields::integer(step, "global")?,
            )?)
            .map(Some)
        }),
        "value_context" => value_context(step),
        _ => return None,
    })
}

/// A count: an int64 scalar.
fn count(number: i64) -> Result<Bound> {
    values::fact(Literal::scalar("int64", Element::Integer(number.into())))
}

fn numpy_dataset(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let arrays = operand::evaluate(&step["value"], environment, fields::strategy(step)?)?;
    // SAFETY: the output is a variable.
    let dataset = made(|dataset| unsafe {
        umbo_strategy_make_numpy_dataset(strategy.get(), arrays.get(), dataset)
    })?;
    Ok(Some(Bound::Dataset(Arc::new(dataset))))
}

fn options_of(step: &Json) -> Result<umbo_distribute_options> {
    let mut options: umbo_distribute_options = Default::default();
    if let Some(given) = step.get("options") {
        options.split = match fields::optional_text(given, "split")? {
            None => UMBO_SPLIT_CEIL,
            Some("balanced") => UMBO_SPLIT_BALANCED,
            Some(other) => return wrong(format!("unknown split {other}")),
        };
        options.drop_partial_step = fields::flag(given, "drop_partial_step", false)?.into();
        options.host_only = (!fields::flag(given, "fetch_to_device", true)?).into();
    }
    Ok(options)
}

fn distributed(dataset: Handle<umbo_distributed_dataset>) -> Given {
    Ok(Some(Bound::Distributed(Arc::new(dataset))))
}

fn distribute_dataset(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let name = fields::text(step, "dataset")?;
    let Bound::Dataset(dataset) = environment.look(name)? else {
        return fail(
            UMBO_STATUS_INVALID_ARGUMENT,
            "only a plain dataset can be distributed",
        );
    };
    let options = options_of(step)?;
    // SAFETY: the options are a variable, and so is the output.
    distributed(made(|to| unsafe {
        umbo_strategy_distribute_dataset(strategy.get(), dataset.get(), &raw const options, to)
    })?)
}

/// What the callback of distribute_from_function is given.
struct DatasetCall<'a> {
    dataset: &'a Json,
    environment: &'a Environment<'a>,
    /// The contexts that it was called with.
    contexts: Mutex<Vec<[i32; 3]>>,
}

unsafe extern "C-unwind" fn on_dataset(
    context: *const umbo_input_context,
    user_data: *mut c_void,
    dataset: *mut *mut umbo_dataset,
) -> umbo_status {
    // SAFETY: the user data is the DatasetCall of the step that waits for this callback.
    let call = unsafe { &*user_data.cast::<DatasetCall<'_>>() };
    // SAFETY: the library gives its callback a context.
    let context = unsafe { &*context };
    let context = [
        context.pipeline_count as i32,
        context.pipeline_index,
        context.replica_count as i32,
    ];
    call.contexts.lock().push(context);
    match build(call.dataset, call.environment, Some(context)) {
        Ok(made) => {
            // SAFETY: the library gives its callback a place for the dataset.
            unsafe { dataset.write(made.into_raw()) };
            UMBO_OK
        }
        Err(Failure::Status(status, _)) => status,
        Err(Failure::Case(problem)) => {
            call.environment.world.note_mistake(problem.clone());
            told(UMBO_STATUS_INTERNAL, &problem);
            UMBO_STATUS_INTERNAL
        }
    }
}

fn distribute_from_function(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let options = options_of(step)?;
    let contexts = Mutex::default();
    let call = DatasetCall {
        dataset: &step["dataset"],
        environment,
        contexts,
    };
    let user_data = (&raw const call).cast_mut().cast();
    // SAFETY: the callback and its user data belong together and outlive the call; the options and
    // the output are variables.
    let dataset = made(|to| unsafe {
        let function = Some(on_dataset as _);
        let options = &raw const options;
        umbo_strategy_distribute_datasets_from_function(
            strategy.get(),
            function,
            user_data,
            options,
            to,
        )
    })?;
    if let Some(name) = fields::optional_text(step, "contexts_out")? {
        let calls = call.contexts.into_inner().into_iter().map(|context| {
            let numbers = context.iter().map(|&number| count(number.into()));
            numbers.collect::<Result<_>>().map(Bound::List)
        });
        environment.bind(name, Bound::List(calls.collect::<Result<_>>()?));
    }
    distributed(dataset)
}

fn iterator_over(step: &Json, environment: &Environment<'_>) -> Result<Handle<umbo_iterator>> {
    let name = fields::text(step, "dataset")?;
    let dataset = environment.look(name)?;
    match &dataset {
        Bound::Dataset(dataset) => {
            // SAFETY: the output is a variable.
            made(|iterator| unsafe { umbo_iterator_from_dataset(dataset.get(), iterator) })
        }
        Bound::Distributed(dataset) => {
            // SAFETY: the output is a variable.
            made(|iterator| unsafe {
                umbo_iterator_from_distributed_dataset(dataset.get(), iterator)
            })
        }
        other => wrong(format!("{name} is no dataset but {other:?}")),
    }
}

fn iterator_of(step: &Json, environment: &Environment<'_>) -> Result<Arc<Handle<umbo_iterator>>> {
    let name = fields::text(step, "iterator")?;
    match environment.look(name)? {
        Bound::Iterator(iterator) => Ok(iterator),
        other => wrong(format!("{name} is no iterator but {other:?}")),
    }
}

/// The next step; None at the end.
fn next(iterator: &Handle<umbo_iterator>) -> Result<Option<Value>> {
    // SAFETY: the output is a variable.
    let element = maybe_made(|element| unsafe { umbo_iterator_next(iterator.get(), element) })?;
    Ok(element.map(Arc::new))
}

/// Iterates as the step says; collects what `visit` gives of each element.
fn each(
    step: &Json,
    environment: &Environment<'_>,
    mut visit: impl FnMut(Value) -> Result<Option<Bound>>,
) -> Result<Bound> {
    match fields::optional_text(step, "way")? {
        None | Some("next" | "next_optional") => {}
        Some(other) => return wrong(format!("unknown way {other}")),
    }
    let limit = fields::optional_integer(step, "limit")?;
    let iterator = iterator_over(step, environment)?;
    let mut collected = Vec::new();
    let mut taken = 0;
    let end = loop {
        if limit == Some(taken) {
            break "limit";
        }
        let Some(element) = next(&iterator)? else {
            break "end";
        };
        taken += 1;
        collected.extend(visit(element)?);
    };
    Ok(Bound::Steps(collected, end))
}

fn for_each(step: &Json, environment: &Environment<'_>) -> Given {
    let item = fields::text(step, "item")?;
    let steps = fields::list(step, "steps")?;
    let steps = each(step, environment, |element| {
        environment.bind(item, Bound::Value(element));
        block(steps, environment)?;
        match step.get("collect") {
            None => Ok(None),
            Some(Json::String(name)) => environment.look(name).map(Some),
            Some(operand) => {
                operand::evaluate(operand, environment, "s").map(|value| Some(Bound::Value(value)))
            }
        }
    })?;
    Ok(Some(steps))
}

fn element_spec(step: &Json, environment: &Environment<'_>) -> Given {
    let name = fields::text(step, "dataset")?;
    let spec = match &environment.look(name)? {
        Bound::Dataset(dataset) => {
            // SAFETY: the output is a variable.
            made(|spec| unsafe { umbo_dataset_element_spec(dataset.get(), spec) })
        }
        Bound::Distributed(dataset) => {
            // SAFETY: the output is a variable.
            made(|spec| unsafe { umbo_distributed_dataset_element_spec(dataset.get(), spec) })
        }
        Bound::Iterator(iterator) => {
            // SAFETY: the output is a variable.
            made(|spec| unsafe { umbo_iterator_element_spec(iterator.get(), spec) })
        }
        other => wrong(format!("{name} is no dataset but {other:?}")),
    };
    Ok(Some(Bound::Known(spec_outcome(&spec?)?)))
}

fn spec_outcome(spec: &Handle<umbo_element_spec>) -> Result<Outcome> {
    // SAFETY: the output is a variable.
    let info = read(umbo_element_spec_info::default(), |info| unsafe {
        umbo_element_spec_get_info(spec.get(), info)
    })?;
    let kind = info.kind;
    let count = info.item_count;
    if kind == UMBO_VALUE_TENSOR {
        let sizes = usize::try_from(info.ndim).ok().map(|ndim| {
            let sizes = info.shape[..ndim].iter();
            sizes.map(|&size| (size >= 0).then_some(size)).collect()
        });
        return Ok(Outcome::Spec(Dtype::of_code(info.dtype)?.name, sizes));
    }
    let items = (0..count).map(|index| {
        // SAFETY: the output is a variable.
        spec_outcome(&made(|item| unsafe {
            umbo_element_spec_item(spec.get(), index, item)
        })?)
    });
    let items = items.collect::<Result<Vec<_>>>()?;
    Ok(match kind {
        UMBO_VALUE_PER_REPLICA => Outcome::PerReplica(items),
        UMBO_VALUE_TUPLE => Outcome::Tuple(items),
        UMBO_VALUE_LIST => Outcome::ListNest(items),
        UMBO_VALUE_STRUCT => {
            let names = (0..count).map(|index| {
                // SAFETY: the output is a variable.
                read_text(|name| unsafe { umbo_element_spec_field_name(spec.get(), index, name) })
            });
            let names = names.collect::<Result<Vec<_>>>()?;
            Outcome::Struct(names.into_iter().zip(items).collect::<BTreeMap<_, _>>())
        }
        other => return wrong(format!("the library gave a spec of kind {other}")),
    })
}

fn cardinality(step: &Json, environment: &Environment<'_>) -> Given {
    let name = fields::text(step, "dataset")?;
    let number = match &environment.look(name)? {
        Bound::Dataset(dataset) => {
            // SAFETY: the output is a variable.
            read(0, |number| unsafe {
                umbo_dataset_cardinality(dataset.get(), number)
            })
        }
        Bound::Distributed(dataset) => {
            // SAFETY: the output is a variable.
            read(0, |number| unsafe {
                umbo_distributed_dataset_cardinality(dataset.get(), number)
            })
        }
        other => wrong(format!("{name} is no dataset but {other:?}")),
    };
    // The case language has TensorFlow's numbers.
    let number = match number? {
        UMBO_INFINITE => -1,
        UMBO_CARDINALITY_UNKNOWN => -2,
        number => number,
    };
    count(number).map(Some)
}

fn input_context(step: &Json) -> Given {
    Ok(Some(Bound::InputContext([
        fields::small_integer(step, "num_input_pipelines")?,
        fields::small_integer(step, "input_pipeline_id")?,
        fields::small_integer(step, "num_replicas_in_sync")?,
    ])))
}

fn context_of(step: &Json, environment: &Environment<'_>) -> Result<[i32; 3]> {
    let name = fields::text(step, "context")?;
    match environment.look(name)? {
        Bound::InputContext(context) => Ok(context),
        other => wrong(format!("{name} is no input context but {other:?}")),
    }
}

/// A value context is a plain struct in C: made, and read back.
fn value_context(step: &Json) -> Given {
    let context = umbo_value_context {
        struct_size: size_of::<umbo_value_context>(),
        replica_id: fields::small_integer(step, "replica_id")?,
        replica_count: fields::integer(step, "num_replicas_in_sync")?,
    };
    Ok(Some(Bound::List(vec![
        count(context.replica_id.into())?,
        count(context.replica_count)?,
    ])))
}

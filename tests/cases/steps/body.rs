//! Bodies, and the C callbacks that run them.

use std::ffi::c_void;
use std::sync::Arc;

use serde_json::Value as Json;
use umbo::*;

use super::block;
use crate::environment::{Bound, Environment};
use crate::failure::{Failure, Result, told, wrong};
use crate::fields;
use crate::handle::{Handle, Value};
use crate::{operand, values};

/// What a callback is given as user data: the body and the level around it. Lives as long as the
/// call that runs the callback.
pub struct Call<'a> {
    /// The BODY.
    pub body: &'a Json,
    /// The level that it is inside of.
    pub outer: &'a Environment<'a>,
}

impl Call<'_> {
    /// To be given to the library.
    pub fn user_data(&self) -> *mut c_void {
        (&raw const *self).cast_mut().cast()
    }

    /// Runs the body; gives what it returns, None for null.
    fn run(
        &self,
        parameters: Vec<Bound>,
        value_context: Option<(i32, i32)>,
    ) -> Result<Option<Handle<umbo_value>>> {
        let mut level = Environment::inside(self.outer);
        level.value_context = value_context;
        let names = fields::list(self.body, "params")?;
        if names.len() != parameters.len() {
            return Err(told(
                UMBO_STATUS_INVALID_ARGUMENT,
                "the body has another number of parameters",
            ));
        }
        for (name, bound) in names.iter().zip(parameters) {
            let Some(name) = name.as_str() else {
                return wrong("a parameter without a name");
            };
            level.bind(name, bound);
        }
        let depth = level.world.open_scopes();
        let ran = block(fields::list(self.body, "steps")?, &level);
        if level.world.open_scopes() > depth {
            level.world.leave_down_to(depth);
            if let Err(Failure::Status(status, message)) = &ran {
                told(*status, message);
            }
        }
        ran?;
        match &self.body["return"] {
            Json::Null => Ok(None),
            operand => {
                // The library takes over what it is given, so it gets a handle of its own.
                let value = operand::evaluate(operand, &level, "s")?;
                Arc::try_unwrap(value)
                    .or_else(|shared| values::clone(&shared))
                    .map(Some)
            }
        }
    }

    /// Runs the body for a callback.
    fn answer(
        &self,
        parameters: Result<Vec<Bound>>,
        value_context: Option<(i32, i32)>,
        result: *mut *mut umbo_value,
    ) -> umbo_status {
        match parameters.and_then(|parameters| self.run(parameters, value_context)) {
            Ok(None) => UMBO_OK,
            Ok(Some(value)) => {
                // SAFETY: the library gives callbacks a place for their result.
                unsafe { result.write(value.into_raw()) };
                UMBO_OK
            }
            Err(Failure::Status(status, _)) => status,
            Err(Failure::Case(problem)) => {
                self.outer.world.note_mistake(problem.clone());
                told(UMBO_STATUS_INTERNAL, &problem);
                UMBO_STATUS_INTERNAL
            }
        }
    }
}

/// The operands that a step passes, as one tuple; None if it passes none.
pub fn arguments(
    step: &Json,
    environment: &Environment<'_>,
    strategy: &str,
) -> Result<Option<Value>> {
    let args = fields::list(step, "args")?;
    if args.is_empty() {
        return Ok(None);
    }
    let args = args
        .iter()
        .map(|operand| operand::evaluate(operand, environment, strategy));
    Ok(Some(Arc::new(values::tuple(
        &args.collect::<Result<Vec<_>>>()?,
    )?)))
}

/// NULL for no value.
pub fn pointer(value: Option<&Value>) -> *const umbo_value {
    value.map_or(std::ptr::null(), |value| value.get().cast_const())
}

/// What a callback was given, one bound value for each item.
fn parameters(args: *const umbo_value) -> Result<Vec<Bound>> {
    if args.is_null() {
        return Ok(Vec::new());
    }
    // Borrowed for the call: neither retained nor released.
    let args = std::mem::ManuallyDrop::new(Handle::own(args.cast_mut()));
    let items = values::items(&args)?;
    Ok(items
        .into_iter()
        .map(|item| Bound::Value(Arc::new(item)))
        .collect())
}

/// The body of `run`, with a replica's context, and of `merge_call`, with a strategy.
pub unsafe extern "C-unwind" fn on_values<T>(
    _of: *mut T,
    args: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the user data is the Call of the step that waits for this callback.
    let call = unsafe { &*user_data.cast::<Call<'_>>() };
    call.answer(parameters(args), None, result)
}

/// The body of `update`: its first parameter is the variable.
pub unsafe extern "C-unwind" fn on_update(
    variable: *mut umbo_variable,
    args: *const umbo_value,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the user data is the Call of the step that waits for this callback.
    let call = unsafe { &*user_data.cast::<Call<'_>>() };
    let all = values::from_variable(variable).and_then(|first| {
        let mut all = vec![Bound::Value(Arc::new(first))];
        all.extend(parameters(args)?);
        Ok(all)
    });
    call.answer(all, None, result)
}

/// The body of `values_from_function`.
pub unsafe extern "C-unwind" fn on_value(
    context: *const umbo_value_context,
    user_data: *mut c_void,
    result: *mut *mut umbo_value,
) -> umbo_status {
    // SAFETY: the user data is the Call of the step that waits for this callback.
    let call = unsafe { &*user_data.cast::<Call<'_>>() };
    // SAFETY: the library gives its callback a context.
    let context = unsafe { &*context };
    let context = (context.replica_id, context.replica_count as i32);
    call.answer(Ok(Vec::new()), Some(context), result)
}

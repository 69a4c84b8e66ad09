//! Variables.

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;

use serde_json::Value as Json;
use umbo::*;

use super::Given;
use super::strategies::strategy_of;
use crate::environment::{Bound, Environment};
use crate::failure::{Result, check, wrong};
use crate::fields;
use crate::handle::{Handle, c_text, made, read};
use crate::literal::{Element, Literal};
use crate::{operand, values};

type Assign = unsafe extern "C" fn(*mut umbo_variable, *const umbo_value) -> umbo_status;

pub fn step(op: &str, step: &Json, environment: &Environment<'_>) -> Option<Given> {
    let assign: Assign = match op {
        "variable" => return Some(create(step, environment)),
        "read" => return Some(read_value(step, environment)),
        "trainable" => return Some(trainable(step, environment)),
        "created_in_scope" => return Some(created_in_scope(step, environment)),
        "copy_variable" => return Some(copy(step, environment)),
        "assign" => umbo_variable_assign,
        "assign_add" => umbo_variable_assign_add,
        "assign_sub" => umbo_variable_assign_sub,
        "scatter_add" => return Some(scattered(UMBO_SCATTER_ADD, step, environment)),
        "scatter_sub" => return Some(scattered(UMBO_SCATTER_SUB, step, environment)),
        "scatter_mul" => return Some(scattered(UMBO_SCATTER_MUL, step, environment)),
        "scatter_div" => return Some(scattered(UMBO_SCATTER_DIV, step, environment)),
        "scatter_min" => return Some(scattered(UMBO_SCATTER_MIN, step, environment)),
        "scatter_max" => return Some(scattered(UMBO_SCATTER_MAX, step, environment)),
        "scatter_update" => return Some(scattered(UMBO_SCATTER_UPDATE, step, environment)),
        _ => return None,
    };
    Some(assigned(assign, step, environment))
}

/// The variable that a step is about.
pub fn variable_of(step: &Json, environment: &Environment<'_>) -> Result<Handle<umbo_variable>> {
    values::variable(&*environment.value(fields::text(step, "variable")?)?)
}

fn assigned(assign: Assign, step: &Json, environment: &Environment<'_>) -> Given {
    let variable = variable_of(step, environment)?;
    let value = operand::evaluate(&step["value"], environment, "s")?;
    // SAFETY: both are handles.
    check(unsafe { assign(variable.get(), value.get()) })?;
    Ok(None)
}

fn scattered(op: umbo_scatter_op, step: &Json, environment: &Environment<'_>) -> Given {
    let variable = variable_of(step, environment)?;
    let value = operand::evaluate(&step["value"], environment, "s")?;
    // SAFETY: both are handles.
    check(unsafe { umbo_variable_scatter(variable.get(), value.get(), op) })?;
    Ok(None)
}

/// What the creation needs, for a callback.
struct Creation {
    name: *const std::ffi::c_char,
    initial: *const umbo_tensor,
    options: umbo_variable_options,
    synchronization: umbo_synchronization,
    variable: *mut umbo_variable,
}

impl Creation {
    /// Makes the variable in the strategy that is current. What its synchronisation is to be, a
    /// creator says.
    fn run(&mut self) -> umbo_status {
        if self.synchronization == UMBO_SYNCHRONIZATION_AUTO {
            return self.create();
        }
        let mut scope = ptr::null_mut();
        // SAFETY: the user data is what the creator expects and outlives the scope.
        unsafe {
            let which = (&raw mut self.synchronization).cast();
            let entered =
                umbo_variable_creator_scope_enter(Some(synchronize), which, None, &raw mut scope);
            if entered != UMBO_OK {
                return entered;
            }
            let created = self.create();
            let left = umbo_scope_exit(scope);
            if created == UMBO_OK { left } else { created }
        }
    }

    fn create(&mut self) -> umbo_status {
        // SAFETY: the texts and handles outlive the creation, the output is a field.
        unsafe {
            umbo_variable_create(
                ptr::null_mut(),
                self.name,
                self.initial,
                &raw const self.options,
                &raw mut self.variable,
            )
        }
    }
}

unsafe extern "C-unwind" fn synchronize(
    request: *mut umbo_variable_request,
    which: *mut c_void,
    _: *mut *mut umbo_variable,
) -> umbo_status {
    let mut info = umbo_variable_request_info::default();
    // SAFETY: the request is lent for the call, and the user data is the synchronisation of the
    // Creation that has entered the scope.
    unsafe {
        let status = umbo_variable_request_get_info(request, &raw mut info);
        info.synchronization = which.cast::<i32>().read();
        if status == UMBO_OK {
            umbo_variable_request_set_info(request, &raw const info)
        } else {
            status
        }
    }
}

unsafe extern "C-unwind" fn create_in_scope(
    _strategy: *mut umbo_strategy,
    user_data: *mut c_void,
) -> umbo_status {
    // SAFETY: the user data is the Creation of the step that waits for this callback.
    unsafe { &mut *user_data.cast::<Creation>() }.run()
}

fn create(step: &Json, environment: &Environment<'_>) -> Given {
    let aggregation = match fields::optional_text(step, "aggregation")? {
        None | Some("NONE") => UMBO_AGGREGATION_NONE,
        Some("SUM") => UMBO_AGGREGATION_SUM,
        Some("MEAN") => UMBO_AGGREGATION_MEAN,
        Some("ONLY_FIRST_REPLICA") => UMBO_AGGREGATION_ONLY_FIRST_REPLICA,
        Some(other) => return wrong(format!("unknown aggregation {other}")),
    };
    let mut options = umbo_variable_options {
        aggregation,
        ..Default::default()
    };
    let synchronization = match fields::optional_text(step, "synchronization")? {
        None | Some("AUTO") => UMBO_SYNCHRONIZATION_AUTO,
        Some("NONE") => UMBO_SYNCHRONIZATION_NONE,
        Some("ON_WRITE") => UMBO_SYNCHRONIZATION_ON_WRITE,
        Some("ON_READ") => UMBO_SYNCHRONIZATION_ON_READ,
        Some(other) => return wrong(format!("unknown synchronization {other}")),
    };
    options.trainable = match step.get("trainable") {
        None => UMBO_AUTO as i32,
        Some(_) => fields::flag(step, "trainable", true)?.into(),
    };
    let name = fields::optional_text(step, "name")?
        .map(c_text)
        .transpose()?;
    let initial = values::tensor(&*operand::evaluate(&step["initial"], environment, "s")?)?;
    let mut creation = Creation {
        name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
        initial: initial.get(),
        options,
        synchronization,
        variable: ptr::null_mut(),
    };
    check(match fields::optional_text(step, "scope")? {
        None => creation.run(),
        Some(strategy) => {
            let strategy = environment.strategy(strategy)?;
            // SAFETY: the user data is what the callback expects and outlives the call.
            unsafe {
                umbo_strategy_scope(
                    strategy.get(),
                    Some(create_in_scope),
                    (&raw mut creation).cast(),
                )
            }
        }
    })?;
    let variable = Handle::own(creation.variable);
    Ok(Some(Bound::Value(Arc::new(values::from_variable(
        variable.get(),
    )?))))
}

fn read_value(step: &Json, environment: &Environment<'_>) -> Given {
    let value = environment.value(fields::text(step, "variable")?)?;
    let tensor = values::variable_now(&value)?;
    Ok(Some(Bound::Value(Arc::new(values::from_tensor(&tensor)?))))
}

fn truth(result: i32) -> Given {
    values::fact(Literal::scalar("bool", Element::Bool(result != 0))).map(Some)
}

fn trainable(step: &Json, environment: &Environment<'_>) -> Given {
    let variable = variable_of(step, environment)?;
    truth(values::variable_info(&variable)?.trainable)
}

fn created_in_scope(step: &Json, environment: &Environment<'_>) -> Given {
    let strategy = strategy_of(step, environment)?;
    let variable = variable_of(step, environment)?;
    // SAFETY: the output is a variable.
    truth(read(0, |result| unsafe {
        umbo_strategy_created_variable(strategy.get(), variable.get(), result)
    })?)
}

fn copy(step: &Json, environment: &Environment<'_>) -> Given {
    let variable = variable_of(step, environment)?;
    // SAFETY: the output is a variable.
    let copy = made(|copy| unsafe { umbo_variable_copy(variable.get(), copy) })?;
    Ok(Some(Bound::Value(Arc::new(values::from_variable(
        copy.get(),
    )?))))
}

//! Reducing and gathering in cross-replica context.

use std::ffi::c_char;

use super::boundary::{array, boundary, constant, out};
use super::handle::{get, get_optional, make};
use super::object::{umbo_strategy, umbo_tensor, umbo_value, umbo_variable};
use super::options::{self, Extensible};
use super::status::umbo_status;
use super::text::optional_text;
use crate::collectives::ReduceOp;
use crate::device::registry;
use crate::error::{Error, Result};
use crate::strategy::collective::{Destination, Output, Reduction};
use crate::values::Value;

/// How values are reduced.
pub type umbo_reduce_op = i32;

/// The sum. Integers wrap; 16-bit floats add up in 32 bits and 32-bit ones in 64, in replica
/// order, rounded once.
pub const UMBO_REDUCE_SUM: umbo_reduce_op = 1;
/// The sum divided by the count. Integers of 8 and 16 bits give float32, wider ones float64.
pub const UMBO_REDUCE_MEAN: umbo_reduce_op = 2;

pub(super) fn op_from(code: umbo_reduce_op) -> Result<ReduceOp> {
    constant(code, ReduceOp::from_code(code), "op", "UMBO_REDUCE_SUM (1) and UMBO_REDUCE_MEAN (2)")
}

/// How a reduction or a gathering is done. Start from UMBO_REDUCE_OPTIONS_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_reduce_options {
    /// sizeof(umbo_reduce_options).
    pub struct_size: usize,
    /// Axes that are reduced within each replica too; negative ones count from the back. NULL:
    /// reduce over the replicas only.
    pub axes: *const i32,
    /// How many axes there are. With `axes` not NULL, 0 reduces over the replicas only.
    pub axis_count: i64,
    /// The device of the result. NULL: CPU:0; plain values, which are copied to a device that is
    /// named, then stay where they are.
    pub destination: *const c_char,
    /// A tensor of the result's dtype and shape to write the result into, which must not share
    /// memory with the value. NULL: a fresh one. Not for nests.
    pub output: *mut umbo_tensor,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_reduce_options {}

impl Default for umbo_reduce_options {
    fn default() -> Self {
        umbo_reduce_options {
            struct_size: size_of::<Self>(),
            axes: std::ptr::null(),
            axis_count: 0,
            destination: std::ptr::null(),
            output: std::ptr::null_mut(),
        }
    }
}

/// # Safety
/// As for [`options::read`]; texts and arrays in the struct are what the header says.
unsafe fn reduction_from(pointer: *const umbo_reduce_options) -> Result<Reduction> {
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, "options") }?;
    // SAFETY: the caller promises an array, or NULL.
    let axes = unsafe { array(given.axes, given.axis_count, "options.axes") }?;
    // SAFETY: the caller promises NULL or a text.
    let destination = unsafe { optional_text(given.destination, "options.destination") }?;
    let output = get_optional(given.output, "options.output")?;
    Ok(Reduction {
        axes: (!given.axes.is_null()).then(|| axes.iter().copied().map(i64::from).collect()),
        destination: destination
            .map(|name| registry::resolve(name, "options.destination"))
            .transpose()?,
        // SAFETY: the caller gives a tensor that nothing but the call touches as long as that
        // lasts.
        output: output.map(|tensor| unsafe { Output::new(tensor) }),
        over_replicas_only: false,
    })
}

/// Reduces a value over the replicas and, if `options` names axes, within each replica along them.
/// `options` may be NULL. Nests are reduced leaf by leaf.
///
/// Without axes the components of a per-replica value, which must agree in shape and dtype, are
/// added element by element; MEAN divides by their number. With axes each component is summed
/// along them and the sums are added, so components may differ in those dimensions: axis 0 is
/// right for the last, partial batch. MEAN then divides by the number of elements that were added,
/// over all replicas. Empty components count as nothing; the mean of nothing is NaN.
///
/// A plain tensor or variable without axes is its own mean (of integers a float all the same, so that
/// the dtype does not depend on the number of replicas); its SUM over several replicas is
/// INVALID_ARGUMENT. With axes it counts once for each replica.
///
/// Indexed slices without axes are concatenated in replica order, values and indices, with
/// duplicates kept: a row's sum is the sum of its slices. MEAN divides the values by the number of
/// components. Their dense shapes must agree. Where some components are tensors, and with axes,
/// indexed slices count as the dense tensors that they stand for, and so does the result.
///
/// INVALID_ARGUMENT for shapes that differ (the message lists all of them), for bool and for an
/// output that does not fit; OUT_OF_RANGE for an axis that is not there, and for an index outside
/// of the dense shape; FAILED_PRECONDITION in a
/// replica's callback (use umbo_replica_context_all_reduce()) and in another strategy's scope.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_reduce(
    strategy: *mut umbo_strategy,
    op: umbo_reduce_op,
    value: *const umbo_value,
    options: *const umbo_reduce_options,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_reduce", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (result, how) = unsafe { (out(result, "result")?, reduction_from(options)?) };
        let strategy = get(strategy, "strategy")?;
        result.write(make(strategy.reduce(op_from(op)?, &get(value, "value")?, &how)?)?);
        Ok(())
    })
}

/// Concatenates the components of a per-replica value along `axis`, in replica order; a negative
/// axis counts from the back. `options` may be NULL; of its fields destination and output count.
/// Nests are gathered leaf by leaf; plain values, and values of one component, come back as they
/// are. Indexed slices in a per-replica value are made dense first; a plain one is UNIMPLEMENTED.
///
/// The components must agree in rank, dtype and all other dimensions (INVALID_ARGUMENT, naming the
/// replicas); they may be empty. Scalars are INVALID_ARGUMENT; OUT_OF_RANGE for an axis that is
/// not there. Contexts as for umbo_strategy_reduce().
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_gather(
    strategy: *mut umbo_strategy,
    value: *const umbo_value,
    axis: i32,
    options: *const umbo_reduce_options,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_gather", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (result, how) = unsafe { (out(result, "result")?, reduction_from(options)?) };
        if how.axes.is_some() {
            let problem = "a gathering has one axis, its own argument; leave options.axes NULL";
            return Err(Error::invalid("options.axes", problem));
        }
        let strategy = get(strategy, "strategy")?;
        result.write(make(strategy.gather(&get(value, "value")?, axis.into(), &how)?)?);
        Ok(())
    })
}

/// The local results of a value, as a tuple: the components of a per-replica value; for a nest one
/// nest for each replica; anything else alone. In every context.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_local_results(
    strategy: *const umbo_strategy,
    value: *const umbo_value,
    results: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_local_results", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let results = unsafe { out(results, "results") }?;
        let strategy = get(strategy, "strategy")?;
        results.write(make(strategy.local_results(&get(value, "value")?)?)?);
        Ok(())
    })
}

/// Where a reduction goes: exactly one of the fields is set. Start from UMBO_DESTINATION_INIT.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_destination {
    /// sizeof(umbo_destination).
    pub struct_size: usize,
    /// A device.
    pub device: *const c_char,
    /// The device of a tensor or of indexed slices; of a per-replica value the devices of all
    /// components, each of which gets a copy.
    pub like: *const umbo_value,
    /// The device of a variable.
    pub variable: *const umbo_variable,
}

// SAFETY: `repr(C)`, `struct_size` first, then numbers, pointers and optional functions.
unsafe impl Extensible for umbo_destination {}

impl Default for umbo_destination {
    fn default() -> Self {
        umbo_destination {
            struct_size: size_of::<Self>(),
            device: std::ptr::null(),
            like: std::ptr::null(),
            variable: std::ptr::null(),
        }
    }
}

/// # Safety
/// As for [`options::read`]; texts in the struct are what the header says.
pub(super) unsafe fn destination_from(pointer: *const umbo_destination) -> Result<Destination> {
    if pointer.is_null() {
        return Err(Error::invalid("destination", "is NULL; a destination is expected"));
    }
    // SAFETY: the caller's promise is the same.
    let given = unsafe { options::read(pointer, "destination") }?;
    // SAFETY: the caller promises NULL or a text.
    let device = unsafe { optional_text(given.device, "destination.device") }?;
    let like = get_optional(given.like, "destination.like")?;
    let variable = get_optional(given.variable, "destination.variable")?;
    match (device, like, variable) {
        (Some(""), None, None) => {
            Err(Error::invalid("destination.device", "is empty; name a device, such as CPU:0"))
        }
        (Some(name), None, None) => {
            Ok(Destination::Device(registry::resolve(name, "destination.device")?))
        }
        (None, Some(like), None) => Ok(Destination::Like(like)),
        (None, None, Some(variable)) => Ok(Destination::Like(Value::Variable(variable))),
        _ => Err(Error::invalid("destination", "set exactly one of device, like and variable")),
    }
}

/// Reduces a value over the replicas onto a destination: a plain value on one device, or a
/// per-replica value with one copy for each component of a per-replica destination. Otherwise as
/// umbo_strategy_reduce() without axes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_reduce_to(
    strategy: *mut umbo_strategy,
    op: umbo_reduce_op,
    value: *const umbo_value,
    destination: *const umbo_destination,
    result: *mut *mut umbo_value,
) -> umbo_status {
    boundary("umbo_strategy_reduce_to", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let result = unsafe { out(result, "result") }?;
        // SAFETY: the caller keeps the header's promise on pointers.
        let destination = unsafe { destination_from(destination) }?;
        let strategy = get(strategy, "strategy")?;
        result.write(make(strategy.reduce_to(
            op_from(op)?,
            &get(value, "value")?,
            &destination,
        )?)?);
        Ok(())
    })
}

//! Values of several variables as one array, in the program's memory: `umbo/variable.h`.

use crate::machinery::prelude::*;
use umbo_core::collectives::copy_into;
use umbo_core::strategy::variables::flat::{download_flat, flat_elements, upload_flat};
use umbo_core::tensor::Shape;

/// Gets how many elements variables have together, for umbo_variable_download_flat().
///
/// @param[in] variables Variables of one strategy and one dtype.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: variables of several strategies or dtypes.
#[c_call(out(element_count), handles(variables, count))]
pub fn umbo_variable_element_count(
    count: i64,
    variables: *const *mut umbo_variable,
    element_count: *mut i64,
) {
    let elements = flat_elements(&variables)?.map_or(0, |(_, elements)| elements);
    element_count.write(elements as i64);
}

/// Copies the values of variables into one array: those of the first in row-major order, then those
/// of the second, and so on.
///
/// @param[in] variables Variables of one strategy and one dtype.
/// @param[out] data Host memory at a multiple of an element's size. `data` may be NULL if there are
///   no elements.
/// @param[in] bytes The size of `data`, which must be that of all elements.
/// @return As umbo_variable_element_count(), or UMBO_STATUS_INVALID_ARGUMENT: another size.
///
/// The values are as between two steps. In a run and in a merge call they have what the step has
/// written so far.
#[c_call(handles(variables, count))]
pub fn umbo_variable_download_flat(
    count: i64,
    variables: *const *mut umbo_variable,
    data: *mut c_void,
    bytes: usize,
) {
    let dtype = check_flat(&variables, data, bytes)?;
    if !data.addr().is_multiple_of(dtype.map_or(1, DType::size)) {
        return Err(invalid!(
            "data",
            "{data:p} is not a multiple of the size of an element"
        ));
    }
    let mut offset = 0;
    download_flat(&variables, |index, value| {
        let variable = &variables[index];
        let dtype = variable.dtype();
        let shape = variable.shape();
        let bytes = shape.bytes(dtype)?;
        let target = data.wrapping_byte_add(offset);
        offset += bytes;
        // SAFETY: the caller promises memory for all elements, of which these are a part.
        unsafe {
            write_to_host(dtype, shape, target, bytes, "data", |to| {
                copy_into(value, to)
            })
        }
    })
}

/// Gives variables new values from one array, in the order of umbo_variable_download_flat().
///
/// @param[in] variables Variables of one strategy and one dtype.
/// @param[in] data All elements. `data` may be NULL if there are none.
/// @param[in] bytes The size of `data`, which must be that of all elements.
/// @return As umbo_variable_assign().
///
/// Outside of callbacks all variables get their values between two steps. In a replica's callback
/// this is one synchronising call after the other, as umbo_variable_assign() for each variable.
#[c_call(handles(variables, count))]
pub fn umbo_variable_upload_flat(
    count: i64,
    variables: *const *mut umbo_variable,
    data: *const c_void,
    bytes: usize,
) {
    check_flat(&variables, data, bytes)?;
    // SAFETY: the caller promises as many bytes.
    let mut rest = unsafe { array(data.cast::<u8>(), Count::new(bytes as i64, "bytes"), "data") }?;
    let values = variables.iter().map(|variable| {
        let dtype = variable.dtype();
        let shape = variable.shape();
        let (elements, behind) = rest.split_at(shape.bytes(dtype)?);
        rest = behind;
        Tensor::from_bytes(dtype, shape, elements, variable.device())
    });
    let values = collect(values, "variables")?;
    upload_flat(&variables, values)
}

/// Checks that the array has the size of all elements. Returns their dtype, if there are variables.
fn check_flat(variables: &[Variable], data: *const c_void, bytes: usize) -> Result<Option<DType>> {
    if bytes > 0 {
        check(
            data.cast::<u8>(),
            "data",
            "memory for the elements is expected",
        )?;
    }
    let found = flat_elements(variables)?;
    match found {
        Some((dtype, elements)) => check_bytes(dtype, Shape::new(&[elements])?, bytes)?,
        None if bytes > 0 => {
            return Err(invalid!("bytes", "{bytes}; no variables have elements"));
        }
        None => {}
    }
    Ok(found.map(|(dtype, _)| dtype))
}

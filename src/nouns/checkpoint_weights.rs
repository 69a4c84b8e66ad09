//! Weights: variables alone, for other programs and from them.

use std::ffi::{CStr, CString};
use std::num::NonZeroU64;

use crate::machinery::prelude::*;
use umbo_core::checkpoint::reader::CheckpointFile;
use umbo_core::checkpoint::{Checkpoint, LoadWeightsOptions, LoadedWeights, SaveWeightsOptions};

/// How weights are saved. By default each variable has its own type, and all are in one file.
#[c_struct]
pub struct umbo_save_weights_options {
    /// UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16, UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64: all
    /// floating-point variables are saved as this type, each number rounded to the nearest, ties to
    /// even. A finite number that would become infinite is refused. 0: each as it is.
    pub float_dtype: umbo_dtype,
    /// The most bytes of elements in a file of several, unless a single variable has more. It needs
    /// a path that ends with ".json". 0: no limit.
    pub max_file_bytes: usize,
}

/// Saves only the variables that were added, for other programs, as umbo_checkpoint_save() does.
///
/// @param[in] path The file. If it ends with ".json", as "model.safetensors.index.json" does, it is
///   an index, in the form of Hugging Face's libraries: the variables are in files next to it,
///   whose names are that of the index with a number of the save and of the file. Those of the
///   index before are removed.
/// @param[in] options `options` may be NULL.
/// @return As umbo_checkpoint_save(), or:
/// - UMBO_STATUS_INVALID_ARGUMENT: also a number too large for `float_dtype`, or more than 1000
///   files.
///
/// Whatever fails, the path leads to the old weights or to the new ones, complete. If `float_dtype`
/// is a type other than that of variables, the call needs memory for all of them in that type.
#[c_call(part(checkpoints), path(path), options(options), get(checkpoint))]
pub fn umbo_checkpoint_save_weights(
    checkpoint: *const umbo_checkpoint,
    path: *const c_char,
    options: *const umbo_save_weights_options,
) {
    checkpoint.save_weights_as(path, save_options(&options)?)
}

/// Saves only the variables that were added, as umbo_checkpoint_save_to_memory() does.
///
/// @param[in] options `options` may be NULL. There is no `max_file_bytes`: memory has one file.
#[c_call(
    part(checkpoints),
    out(length),
    array_out(data, capacity),
    options(options),
    get(checkpoint)
)]
pub fn umbo_checkpoint_save_weights_to_memory(
    checkpoint: *const umbo_checkpoint,
    options: *const umbo_save_weights_options,
    data: *mut c_void,
    capacity: usize,
    length: *mut usize,
) {
    // SAFETY: the caller gives room for `capacity` bytes.
    let memory = unsafe { bytes_out(data, capacity, "capacity") }?;
    let written = checkpoint.save_weights_to_memory(memory, save_options(&options)?)?;
    length.write(written);
    check_capacity(written, capacity)
}

fn save_options(options: &umbo_save_weights_options) -> Result<SaveWeightsOptions> {
    Ok(SaveWeightsOptions {
        float_dtype: dtype_or_any(options.float_dtype, "options.float_dtype")?,
        max_file_bytes: NonZeroU64::new(options.max_file_bytes as u64),
    })
}

/// Names the variable that a tensor of a file is for.
///
/// @param[in] tensor_name The tensor's name in the file. Valid for the call.
/// @param[out] variable_name The name by which a variable was added, which has to stay until the
///   next call or the end of the load, such as a part of `tensor_name`. It is NULL at first, and if
///   it stays so, the tensor is used for none.
/// @return UMBO_OK, or another status, which fails the load.
///
/// It is called for each tensor, in the order of their names, on the thread that loads. A name that
/// no variable has counts as none.
pub type umbo_map_name_fn = Option<
    unsafe extern "C-unwind" fn(
        tensor_name: *const c_char,
        user_data: *mut c_void,
        variable_name: *mut *const c_char,
    ) -> umbo_status,
>;

/// Reports what became of a variable, or of a tensor of the file.
///
/// @param[in] variable_name The variable. `variable_name` is NULL if the tensor is used for none.
///   Valid for the call.
/// @param[in] tensor_name The tensor from which the variable was loaded. `tensor_name` is NULL if
///   the file has none for it, so that it has kept its value. Valid for the call.
///
/// It is called when all is loaded, on the thread that loads: for the variables in the order in
/// which they are listed or were added, then for the tensors that are left.
pub type umbo_loaded_weight_fn = Option<
    unsafe extern "C-unwind" fn(
        variable_name: *const c_char,
        tensor_name: *const c_char,
        user_data: *mut c_void,
    ),
>;

/// The weights that are loaded, and from which tensors. By default all variables are, from tensors
/// that have their names, dtypes and shapes.
#[c_struct]
pub struct umbo_load_weights_options {
    /// How many names there are in `names`, and in `tensor_names`.
    pub count: i64,
    /// The names by which the variables to load were added. NULL: all.
    #[counted_by(count)]
    pub names: *const *const c_char,
    /// For each of `names` the name of its tensor in the file. NULL: the same names.
    #[counted_by(count, optional)]
    pub tensor_names: *const *const c_char,
    /// The beginning of all these names of tensors in the file, such as "model.". NULL: none.
    pub prefix: *const c_char,
    /// Names the variables of tensors, in place of `tensor_names` and `prefix`. NULL: none.
    pub map_name: umbo_map_name_fn,
    /// Passed to `map_name`.
    pub map_name_user_data: *mut c_void,
    /// 1: a tensor and its variable may have different types of float16, bfloat16, float32 and
    /// float64. Numbers are rounded once, to the nearest, ties to even; too large ones become
    /// infinite, and NaN stays NaN. 0: another type is refused.
    pub convert_floats: i32,
    /// 1: variables for which the file has no tensor keep their values. 0: they are refused.
    pub allow_missing: i32,
    /// Reports what was loaded, what the file lacks, and which of its tensors are not used. NULL:
    /// no report.
    pub report: umbo_loaded_weight_fn,
    /// Passed to `report`.
    pub report_user_data: *mut c_void,
}

/// Loads values of variables from a safetensors file of any program. All other state stays as it
/// is.
///
/// @param[in] path A safetensors file, or the index of several in its folder: a path that ends with
///   ".json", as "model.safetensors.index.json" does.
/// @param[in] options `options` may be NULL.
/// @return As umbo_checkpoint_restore(), the status of `map_name`, or:
/// - UMBO_STATUS_NOT_FOUND: also no variable of a name in `names`.
/// - UMBO_STATUS_INVALID_ARGUMENT: also two tensors that `map_name` gives one name.
///
/// Either all that was chosen is loaded, or nothing. Other tensors of the file are ignored.
#[c_call(part(checkpoints), path(path), options(options), get(checkpoint))]
pub fn umbo_checkpoint_load_weights(
    checkpoint: *mut umbo_checkpoint,
    path: *const c_char,
    options: *const umbo_load_weights_options,
) {
    load(&checkpoint, || CheckpointFile::open(path), &options)
}

/// Loads values of variables from the bytes of a safetensors file, as
/// umbo_checkpoint_load_weights() does.
///
/// @param[in] data The bytes, which nobody writes during the call.
/// @param[in] bytes How many they are.
/// @param[in] options `options` may be NULL.
#[c_call(part(checkpoints), options(options), get(checkpoint))]
pub fn umbo_checkpoint_load_weights_from_memory(
    checkpoint: *mut umbo_checkpoint,
    data: *const c_void,
    bytes: usize,
    options: *const umbo_load_weights_options,
) {
    // SAFETY: the caller promises as many bytes.
    let data = unsafe { array(data.cast::<u8>(), Count::new(bytes as i64, "bytes"), "data") }?;
    load(&checkpoint, || CheckpointFile::in_memory(data), &options)
}

fn load<'m>(
    checkpoint: &Checkpoint,
    open: impl FnOnce() -> Result<CheckpointFile<'m>>,
    options: &umbo_load_weights_options,
) -> Result<()> {
    // SAFETY: the caller gives NULL, texts, and arrays of texts of this length.
    let (names, tensors, prefix) = unsafe {
        let count = Count::new(options.count, "options.count");
        (
            optional_texts(options.names, count, "options.names")?,
            optional_texts(options.tensor_names, count, "options.tensor_names")?,
            optional_text(options.prefix, "options.prefix")?,
        )
    };
    if tensors.is_some() && names.is_none() {
        return Err(invalid!(
            "options.tensor_names",
            "are given, but options.names is NULL; list the variables, too"
        ));
    }
    if options.map_name.is_some() && (tensors.is_some() || prefix.is_some()) {
        return Err(invalid!(
            "options.map_name",
            "is given along with options.tensor_names or options.prefix; give it alone"
        ));
    }
    let mut map_name = options
        .map_name
        .map(|function| move |tensor: &str| mapped(function, options.map_name_user_data, tensor));
    let pairs = names.map(|names| {
        let pairs = names.iter().enumerate().map(|(at, &name)| {
            let tensor = tensors.as_ref().map_or(name, |tensors| tensors[at]);
            Ok((name, tensor))
        });
        collect(pairs, "options.names")
    });
    let pairs = pairs.transpose()?;
    let core = LoadWeightsOptions {
        pairs: pairs.as_deref(),
        prefix: prefix.unwrap_or_default(),
        map_name: map_name.as_mut().map(|map_name| map_name as _),
        convert_floats: flag(options.convert_floats, "options.convert_floats")?,
        allow_missing: flag(options.allow_missing, "options.allow_missing")?,
    };
    let loaded = checkpoint.load_weights_from(&open()?, core)?;
    report(options, &loaded);
    Ok(())
}

/// The name of the variable that the program's function gives for a tensor.
fn mapped(
    function: unsafe extern "C-unwind" fn(
        *const c_char,
        *mut c_void,
        *mut *const c_char,
    ) -> umbo_status,
    user_data: *mut c_void,
    tensor: &str,
) -> Result<Option<String>> {
    let tensor = c_name(tensor);
    let mut name = ptr::null();
    // SAFETY: the caller gives a function of this type and its user data.
    callback::run(|| unsafe { function(tensor.as_ptr(), user_data, &raw mut name) })?;
    // SAFETY: the function leaves NULL or stores a text, which stays until its next call.
    let name = unsafe { optional_text(name, "variable_name") }?;
    Ok(name.map(str::to_owned))
}

fn report(options: &umbo_load_weights_options, loaded: &LoadedWeights) {
    let Some(function) = options.report else {
        return;
    };
    let tell = |variable: Option<&str>, tensor: Option<&str>| {
        let names = [variable, tensor].map(|name| name.map(c_name));
        let [variable, tensor] = names
            .each_ref()
            .map(|name| name.as_deref().map_or(ptr::null(), CStr::as_ptr));
        // SAFETY: the caller gives a function of this type and its user data.
        callback::run_infallible(|| unsafe {
            function(variable, tensor, options.report_user_data)
        });
    };
    for (variable, tensor) in &loaded.variables {
        tell(Some(variable), tensor.as_deref());
    }
    for tensor in &loaded.unused {
        tell(None, Some(tensor));
    }
}

/// A name of a file as a text of C. A NUL in it, which no program writes, becomes U+FFFD.
fn c_name(name: &str) -> CString {
    CString::new(name.replace('\0', "\u{fffd}")).unwrap_or_default()
}

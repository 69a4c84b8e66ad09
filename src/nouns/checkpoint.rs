//! Checkpoints: saving what training needs, and resuming from it.

use crate::machinery::prelude::*;
use umbo_core::checkpoint::{CallersTensor, Checkpoint, Number, SavedIterator, saved_string};

/// Makes a checkpoint of a strategy's training; at first it has only the strategy's step number.
/// The objects that are added are of this strategy; variables may also be of the default one.
#[c_call(part(checkpoints), out(checkpoint), get(strategy))]
pub fn umbo_checkpoint_create(
    strategy: *const umbo_strategy,
    checkpoint: *mut *mut umbo_checkpoint,
) {
    checkpoint.write(make(Checkpoint::new(&strategy))?);
}

/// Adds a variable: its value is saved and restored.
///
/// @param[in] name NULL: the variable's own name.
#[c_call(part(checkpoints), optional_text(name), get(variable))]
pub fn umbo_checkpoint_add_variable(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    variable: *mut umbo_variable,
) {
    let own_name = variable.name().clone();
    let name = name.unwrap_or(own_name.as_str());
    get(checkpoint, "checkpoint")?.add(name, Arc::new(variable))
}

/// Adds an optimizer: its learning rate, iterations and loss scale, and for each variable its state
/// and step counts, by the name by which the variable was added, or its own.
///
/// The rule's numbers, settings, groups and schedule are not saved: a program sets them again.
/// Adam's correction of bias goes by the betas that each update has used: other betas after
/// restoring are right for the updates that follow.
/// Gradients are added on their own; without them, saving fails while they hold anything.
#[c_call(part(checkpoints), text(name), get(optimizer), get(checkpoint))]
pub fn umbo_checkpoint_add_optimizer(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    optimizer: *mut umbo_optimizer,
) {
    checkpoint.add(name, optimizer)
}

/// Adds gradients: what several runs have accumulated with `accumulation_steps`.
#[c_call(part(checkpoints), text(name), get(gradients), get(checkpoint))]
pub fn umbo_checkpoint_add_gradients(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    gradients: *mut umbo_gradients,
) {
    checkpoint.add(name, gradients)
}

/// Adds metrics: what they have accumulated.
#[c_call(part(checkpoints), text(name), get(metrics), get(checkpoint))]
pub fn umbo_checkpoint_add_metrics(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    metrics: *mut umbo_metrics,
) {
    checkpoint.add(name, metrics)
}

/// Adds an iterator: its position, as umbo_iterator_save_position() has it. It is restored into an
/// iterator over a pipeline that was made in the same way, over the same data.
///
/// Save on the thread that takes the elements, between two steps: the saved position is then just
/// after the batch of the last step that took effect.
///
/// If the ranks' iterators read data of their own (UMBO_SHARDING_OFF, UMBO_SHARDING_FILE, or a
/// dataset from a function), the checkpoint has the position of each rank, and each rank resumes at
/// its own. Another number of ranks can restore it only if all were at the same position; otherwise
/// umbo_checkpoint_restore() returns UMBO_STATUS_INVALID_ARGUMENT on all ranks.
#[c_call(part(checkpoints), text(name), get(iterator), get(checkpoint))]
pub fn umbo_checkpoint_add_iterator(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    iterator: *mut umbo_iterator,
) {
    checkpoint.add(name, Arc::new(SavedIterator(iterator)))
}

/// Adds a tensor of the program, whose memory can be written. Nobody writes it during a save, or
/// uses it during a restore.
#[c_call(part(checkpoints), text(name), get(tensor))]
pub fn umbo_checkpoint_add_tensor(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    tensor: *mut umbo_tensor,
) {
    // SAFETY: the caller promises what the documentation says.
    let tensor = unsafe { CallersTensor::new(tensor) }?;
    get(checkpoint, "checkpoint")?.add(name, Arc::new(tensor))
}

/// Sets a number of the program, such as a loss, and adds it if it was not there.
#[c_call(part(checkpoints), text(name), get(checkpoint))]
pub fn umbo_checkpoint_set_number(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    number: f64,
) {
    checkpoint.set_number(name, Number::Float(number))
}

/// Sets a whole number of the program, such as an epoch, and adds it if it was not there.
#[c_call(part(checkpoints), text(name), get(checkpoint))]
pub fn umbo_checkpoint_set_integer(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    integer: i64,
) {
    checkpoint.set_number(name, Number::Integer(integer))
}

/// Gets a number as it was set or restored last.
///
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no number of this name was set.
#[c_call(part(checkpoints), out(number), text(name), get(checkpoint))]
pub fn umbo_checkpoint_number(
    checkpoint: *const umbo_checkpoint,
    name: *const c_char,
    number: *mut f64,
) {
    let Number::Float(value) = checkpoint.number(name)? else {
        let problem = format!("'{name}' was set as a whole number; ask umbo_checkpoint_integer()");
        return Err(Error::invalid("name", problem));
    };
    number.write(value);
}

/// Gets a whole number as it was set or restored last.
///
/// @return As umbo_checkpoint_number().
#[c_call(part(checkpoints), out(integer), text(name), get(checkpoint))]
pub fn umbo_checkpoint_integer(
    checkpoint: *const umbo_checkpoint,
    name: *const c_char,
    integer: *mut i64,
) {
    let Number::Integer(value) = checkpoint.number(name)? else {
        let problem =
            format!("'{name}' was not set as a whole number; ask umbo_checkpoint_number()");
        return Err(Error::invalid("name", problem));
    };
    integer.write(value);
}

/// Sets a string of the program, such as a configuration or a vocabulary, and adds it if it was not
/// there.
///
/// @param[in] string UTF-8 of at most 1,048,576 bytes. It is copied.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a string that is too long, or another object
///   of this name.
#[c_call(part(checkpoints), text(name), long_text(string), get(checkpoint))]
pub fn umbo_checkpoint_set_string(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    string: *const c_char,
) {
    checkpoint.set_string(name, string)
}

/// Gets a string as it was set or restored last.
///
/// @param[out] buffer The string. `buffer` may be NULL if `capacity` is 0.
/// @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no string of this name was set.
#[c_call(
    part(checkpoints),
    out(length),
    buffer(buffer, capacity),
    text(name),
    get(checkpoint)
)]
pub fn umbo_checkpoint_string(
    checkpoint: *const umbo_checkpoint,
    name: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    buffer.write(&checkpoint.string(name)?, length)
}

/// Reads a string from a checkpoint's file, of which only the header is read: before there is a
/// strategy or a model, so that the string may say what to make.
///
/// @param[out] buffer The string. `buffer` may be NULL if `capacity` is 0.
/// @return As umbo_checkpoint_restore() of the file, or:
/// - UMBO_STATUS_NOT_FOUND: no such file, or nothing of this name in it.
/// - UMBO_STATUS_INVALID_ARGUMENT: not a string, or not a checkpoint.
#[c_call(
    part(checkpoints),
    out(length),
    buffer(buffer, capacity),
    path(path),
    text(name)
)]
pub fn umbo_checkpoint_read_string(
    path: *const c_char,
    name: *const c_char,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    buffer.write(&saved_string(path, name)?, length)
}

/// Saves everything that was added, and the strategy's step number, to a file.
///
/// @return UMBO_OK, or, and then the file is as it was, UMBO_STATUS_INVALID_ARGUMENT: not a regular
///   file, or two tensors that would have one name. UMBO_STATUS_FAILED_PRECONDITION: inside a run,
///   while the strategy is draining, or gradients hold what would be lost: it was submitted and not
///   applied, or they were not added. What the file system returns (see above).
///
/// Waits for a step in progress. The file is replaced as a whole: whenever the process or the
/// machine stops, `path` leads to the old file or to the new one. When the call returns, it is on
/// the disk. If only its folder could not be synchronised, the call succeeds and logs a warning.
/// Of a symbolic link the target is replaced, or made. The new file has the mode of the old one,
/// and its owner and group if the system permits that.
/// A NaN in a variable is logged as a warning; a strict strategy fails.
///
/// Collective: each rank writes its part of the state next to the file, in a folder that all see.
#[c_call(part(checkpoints), path(path), get(checkpoint))]
pub fn umbo_checkpoint_save(checkpoint: *const umbo_checkpoint, path: *const c_char) {
    checkpoint.save(path)
}

/// Restores everything that was added, and the strategy's step number, from a file. Replicas and
/// ranks may be more or fewer than when it was saved.
///
/// @return UMBO_OK, or, and then nothing has changed, UMBO_STATUS_INVALID_ARGUMENT: not a regular
///   file, or objects that do not fit; the message lists all that is missing, unexpected or of
///   another dtype or shape. UMBO_STATUS_FAILED_PRECONDITION: a step is in progress, or the
///   strategy is draining. UMBO_STATUS_DATA_LOSS: the file is damaged. UMBO_STATUS_UNIMPLEMENTED: a
///   later version of Umbo has written it. What the file system or a function of an
///   iterator's pipeline returns.
///
/// Collective: all ranks restore, or none.
#[c_call(part(checkpoints), path(path), get(checkpoint))]
pub fn umbo_checkpoint_restore(checkpoint: *mut umbo_checkpoint, path: *const c_char) {
    checkpoint.restore(path)
}

/// Saves to memory of the program the bytes that umbo_checkpoint_save() would write to a file.
///
/// @param[out] data Gets the bytes. `data` may be NULL if `capacity` is 0.
/// @param[out] length How many bytes they are, even if they do not fit.
/// @return As umbo_checkpoint_save(), or:
/// - UMBO_STATUS_OUT_OF_RANGE: they are more than `capacity`, and nothing is written.
/// - UMBO_STATUS_UNIMPLEMENTED: there are several ranks, each of which writes a file, and the
///   strategy is not `elastic`; or it is, and an iterator has a position of its own on each rank.
///
/// With `elastic` of umbo_strategy_options each rank calls it for itself, also after a failure of
/// the communicator, and gets all state as it is after the last step that has counted.
///
/// A call with a capacity of 0 asks for the size. It changes with what is saved: what gradients
/// have accumulated, and strings.
#[c_call(
    part(checkpoints),
    out(length),
    array_out(data, capacity),
    get(checkpoint)
)]
pub fn umbo_checkpoint_save_to_memory(
    checkpoint: *const umbo_checkpoint,
    data: *mut c_void,
    capacity: usize,
    length: *mut usize,
) {
    // SAFETY: the caller gives room for `capacity` bytes.
    let memory = unsafe { bytes_out(data, capacity, "capacity") }?;
    let written = checkpoint.save_to_memory(memory)?;
    length.write(written);
    check_capacity(written, capacity)
}

/// Restores everything that was added from the bytes of a file, as umbo_checkpoint_restore() does.
///
/// @param[in] data The bytes, which nobody writes during the call. All ranks give the same.
/// @param[in] bytes How many they are.
#[c_call(part(checkpoints), get(checkpoint))]
pub fn umbo_checkpoint_restore_from_memory(
    checkpoint: *mut umbo_checkpoint,
    data: *const c_void,
    bytes: usize,
) {
    // SAFETY: the caller promises as many bytes.
    let data = unsafe { array(data.cast::<u8>(), Count::new(bytes as i64, "bytes"), "data") }?;
    checkpoint.restore_from_memory(data)
}

/// Restores everything that was added from what ranks have in memory: that of the rank with the
/// most steps, which is sent to those that have less or nothing.
///
/// @param[in] data What umbo_checkpoint_save_to_memory() has written on this rank. NULL if it has
///   nothing, as one that joins.
/// @param[in] bytes How many bytes they are.
/// @return As umbo_checkpoint_restore(), or UMBO_STATUS_NOT_FOUND: no rank has anything, as at the
///   beginning of a training; nothing has changed.
///
/// Collective. The ranks and their replicas may be others, and more or fewer, than when it was
/// saved.
#[c_call(part(checkpoints), get(checkpoint))]
pub fn umbo_checkpoint_restore_from_ranks(
    checkpoint: *mut umbo_checkpoint,
    data: *const c_void,
    bytes: usize,
) {
    // SAFETY: the caller promises as many bytes.
    let data = unsafe { array(data.cast::<u8>(), Count::new(bytes as i64, "bytes"), "data") }?;
    checkpoint.restore_from_ranks(data)
}

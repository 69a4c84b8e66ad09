//! Checkpoints: saving what training needs, and going on from it.

use std::path::Path;

use super::prelude::*;
use crate::checkpoint::{CallersTensor, Checkpoint, Number, SavedIterator};

/// Makes a checkpoint, which holds nothing but the strategy's step number yet.
///
/// @param[in] strategy The strategy whose training is saved. All that is added is of this strategy;
///   variables may also be of the default one.
///
/// The checkpoint keeps all objects that are added alive.
#[c_call(out(checkpoint), get(strategy))]
pub fn umbo_checkpoint_create(
    strategy: *const umbo_strategy,
    checkpoint: *mut *mut umbo_checkpoint,
) {
    checkpoint.write(make(Checkpoint::new(&strategy))?);
}

/// Adds a variable: its value.
///
/// @param[in] name By which name it is saved; copied. Names in a checkpoint differ. `name` may be
///   NULL: the variable's own name.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a name that is empty or that something has already (the
///   message names both), or a variable of another strategy.
#[c_call(optional_text(name), get(variable))]
pub fn umbo_checkpoint_add_variable(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    variable: *mut umbo_variable,
) {
    let own = variable.name().clone();
    let name = name.unwrap_or(own.as_str());
    get(checkpoint, "checkpoint")?.add(name, Arc::new(variable))
}

/// Adds an optimizer: its learning rate, iterations and loss scale, and for each variable the state and
/// the step counts of its rule. Gradients that it applies are objects of their own
/// (umbo_checkpoint_add_gradients()): without them, saving fails while they hold what was submitted or
/// accumulated.
///
/// The state of a variable is saved by the name by which the variable was added, or by its own name if it
/// was not.
///
/// @param[in] name By which name it is saved; copied.
/// @param[in] optimizer The optimizer. Its rule's numbers, settings, groups and schedule are not
///   saved: a program sets them again.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
#[c_call(text(name), get(optimizer), get(checkpoint))]
pub fn umbo_checkpoint_add_optimizer(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    optimizer: *mut umbo_optimizer,
) {
    checkpoint.add(name, optimizer)
}

/// Adds gradients: what several runs have accumulated with `accumulation_steps`.
///
/// @param[in] name By which name they are saved; copied.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
#[c_call(text(name), get(gradients), get(checkpoint))]
pub fn umbo_checkpoint_add_gradients(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    gradients: *mut umbo_gradients,
) {
    checkpoint.add(name, gradients)
}

/// Adds metrics: what they have accumulated.
///
/// @param[in] name By which name they are saved; copied.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
#[c_call(text(name), get(metrics), get(checkpoint))]
pub fn umbo_checkpoint_add_metrics(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    metrics: *mut umbo_metrics,
) {
    checkpoint.add(name, metrics)
}

/// Adds an iterator: how far its pass over the data has come. See umbo_iterator_save_position().
///
/// Save on the thread that takes the elements, between two steps: then the place is the one behind the
/// element of the last step that took effect in umbo_train_epoch(), or that umbo_iterator_next() gave last.
///
/// @param[in] name By which name it is saved; copied.
/// @param[in] iterator The iterator. When it is restored, it is one over a pipeline that was made in
///   the same way, over the same data.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
#[c_call(text(name), get(iterator), get(checkpoint))]
pub fn umbo_checkpoint_add_iterator(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    iterator: *mut umbo_iterator,
) {
    checkpoint.add(name, Arc::new(SavedIterator(iterator)))
}

/// Adds a tensor of the program's. It is saved with the elements that it has then, and restored into
/// the same memory. Nobody writes it while the checkpoint is saved, or reads or writes it while it is
/// restored.
///
/// @param[in] name By which name it is saved; copied.
/// @param[in] tensor The tensor, whose memory can be written.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable(), or a tensor that
///   can only be read.
#[c_call(text(name), get(tensor))]
pub fn umbo_checkpoint_add_tensor(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    tensor: *mut umbo_tensor,
) {
    // SAFETY: the caller promises what the documentation says.
    let tensor = unsafe { CallersTensor::new(tensor) }?;
    get(checkpoint, "checkpoint")?.add(name, Arc::new(tensor))
}

/// Sets a number of the program's, such as a loss, and adds it if it was not there. It is saved with the
/// value that was set last.
///
/// @param[in] name Its name; copied.
/// @param[in] number Its value, of which every bit is kept.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a name that is empty or that something else has.
#[c_call(text(name), get(checkpoint))]
pub fn umbo_checkpoint_set_number(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    number: f64,
) {
    checkpoint.set_number(name, Number::Float(number))
}

/// Sets a whole number of the program's, such as an epoch, and adds it if it was not there. It is saved
/// with the value that was set last.
///
/// @param[in] name Its name; copied.
/// @param[in] integer Its value.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_set_number().
#[c_call(text(name), get(checkpoint))]
pub fn umbo_checkpoint_set_integer(
    checkpoint: *mut umbo_checkpoint,
    name: *const c_char,
    integer: i64,
) {
    checkpoint.set_number(name, Number::Integer(integer))
}

/// Tells a number of the program's: as it was set or restored last.
///
/// @param[in] name Its name.
/// @param[out] number Gets its value.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: no number of this name was set.
/// - UMBO_STATUS_INVALID_ARGUMENT: a whole number.
#[c_call(out(number), text(name), get(checkpoint))]
pub fn umbo_checkpoint_number(
    checkpoint: *const umbo_checkpoint,
    name: *const c_char,
    number: *mut f64,
) {
    match checkpoint.number(name)? {
        Number::Float(value) => number.write(value),
        Number::Integer(_) => {
            let problem =
                format!("'{name}' was set as a whole number; ask umbo_checkpoint_integer()");
            return Err(Error::invalid("name", problem));
        }
    }
    Ok(())
}

/// Tells a whole number of the program's: as it was set or restored last.
///
/// @param[in] name Its name.
/// @param[out] integer Gets its value.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: no number of this name was set.
/// - UMBO_STATUS_INVALID_ARGUMENT: a number that umbo_checkpoint_set_number() has set.
#[c_call(out(integer), text(name), get(checkpoint))]
pub fn umbo_checkpoint_integer(
    checkpoint: *const umbo_checkpoint,
    name: *const c_char,
    integer: *mut i64,
) {
    match checkpoint.number(name)? {
        Number::Integer(value) => integer.write(value),
        Number::Float(_) => {
            let problem =
                format!("'{name}' was not set as a whole number; ask umbo_checkpoint_number()");
            return Err(Error::invalid("name", problem));
        }
    }
    Ok(())
}

/// Saves everything that was added, and the strategy's step number, to a file.
///
/// It is saved as it is between two steps: the call waits for a step in progress. The file is replaced as
/// a whole: whatever fails, and whenever the process is killed or the machine stops, `path` leads to the
/// file that was there before or to the new one. Once the call has succeeded, the new one is on the disk.
/// Steps of other threads wait until it is written, though not until it is on the disk.
/// With several ranks a call that all make: each writes the state that it keeps, to files beside that of the
/// first, in a folder that all see.
///
/// @param[in] path The file, in the safetensors format.
/// @return UMBO_OK, or, and then the file is as it was:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, a folder, a path that leads through a file,
///   or two tensors that would have one name (the message says of which objects).
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a run, while the strategy is draining, with gradients
///   that were submitted and not applied, or with gradients that were not added although an optimizer that
///   was has applied them and they hold something (the message names their variables).
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: no memory for a copy of the state, no room on the disk, or too many open
///   files.
/// - UMBO_STATUS_UNAVAILABLE: another failure of the system's.
///
/// A variable with a NaN in it is saved, and the log gets a warning; of a strict strategy the call is
/// UMBO_STATUS_FAILED_PRECONDITION.
#[c_call(text(path), get(checkpoint))]
pub fn umbo_checkpoint_save(checkpoint: *const umbo_checkpoint, path: *const c_char) {
    checkpoint.save(Path::new(path))
}

/// Makes everything that was added what it was when a file was saved, and lets the strategy count its
/// steps from there.
///
/// Replicas may be more or fewer than when it was saved, and so may ranks. With several ranks a call that all
/// make: all of them restore, or none.
///
/// @param[in] checkpoint The checkpoint, with objects of the same names, kinds, dtypes and shapes
///   as those that were saved.
/// @param[in] path The file.
/// @return UMBO_OK, or, and then nothing has changed:
/// - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, a path that leads to no regular file, or
///   objects and file do not fit: the message lists all that is missing, unexpected, or of another dtype or shape, and iterators over
///   other data.
/// - UMBO_STATUS_FAILED_PRECONDITION: a step is in progress, on whatever thread (the message names it),
///   or the strategy is draining.
/// - UMBO_STATUS_DATA_LOSS: the file is damaged, or not in the safetensors format, whose headers have at most
///   100,000,000 bytes.
/// - UMBO_STATUS_UNIMPLEMENTED: a later version of Umbo has written the file.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: as the system says.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED: no memory for a copy of the state, or too many open files.
/// - UMBO_STATUS_UNAVAILABLE: another failure of the system's, such as a disk that cannot be read.
/// - what functions of an iterator's pipeline return, if elements have to be made again.
#[c_call(text(path), get(checkpoint))]
pub fn umbo_checkpoint_restore(checkpoint: *mut umbo_checkpoint, path: *const c_char) {
    checkpoint.restore(Path::new(path))
}

/// Saves the variables that were added, and nothing else, for other programs.
///
/// @param[in] path The file, in the safetensors format, replaced as by umbo_checkpoint_save().
/// @return UMBO_OK, or the statuses of umbo_checkpoint_save().
#[c_call(text(path), get(checkpoint))]
pub fn umbo_checkpoint_save_weights(checkpoint: *const umbo_checkpoint, path: *const c_char) {
    checkpoint.save_weights(Path::new(path))
}

/// Gives variables the values of tensors in a safetensors file, whichever program has written it. All
/// other state stays as it is, and what else is in the file is left alone.
///
/// @param[in] checkpoint The checkpoint that the variables were added to.
/// @param[in] path The file.
/// @param[in] count How many names there are.
/// @param[in] names By which names the variables were added. `names` may be NULL: all of them, from
///   tensors of the same names; then `count` is 0.
/// @param[in] tensor_names For each the name of its tensor in the file. `tensor_names` may be NULL: the
///   same names.
/// @return UMBO_OK, or, and then nothing has changed:
/// - UMBO_STATUS_NOT_FOUND: no variable of a name was added; or no file.
/// - what else umbo_checkpoint_restore() returns.
#[c_call(text(path), get(checkpoint))]
pub fn umbo_checkpoint_load_weights(
    checkpoint: *mut umbo_checkpoint,
    path: *const c_char,
    count: i64,
    names: *const *const c_char,
    tensor_names: *const *const c_char,
) {
    if names.is_null() {
        if count != 0 {
            let problem = format!("{count}, but no variables are listed; list them, or pass 0");
            return Err(Error::invalid("count", problem));
        }
        return checkpoint.load_weights(Path::new(path), None);
    }
    // SAFETY: the caller gives arrays of texts, of this length.
    let (names, tensors) = unsafe {
        let names = texts(names, (count, "count"), "names")?;
        (names, optional_texts(tensor_names, (count, "count"), "tensor_names")?)
    };
    let tensors = tensors.unwrap_or_else(|| names.clone());
    let pairs: Vec<(&str, &str)> = names.into_iter().zip(tensors).collect();
    checkpoint.load_weights(Path::new(path), Some(&pairs))
}

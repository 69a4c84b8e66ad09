//! Which checkpoints of a training are kept, and when they are written.

use std::path::Path;

use super::prelude::*;
use crate::checkpoint::{Manager, ManagerOptions};

/// Which checkpoints are kept, and when one is due. Start from UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT.
#[c_struct(keep = 5, in_background = 1, every_steps = 1, every_seconds = UMBO_INFINITE as f64)]
#[repr(C)]
pub struct umbo_checkpoint_manager_options {
    /// sizeof(umbo_checkpoint_manager_options).
    pub struct_size: usize,
    /// How many of the newest are kept; at least 1. By default 5.
    pub keep: i64,
    /// How many of those with the best metric are kept beside the newest. By default 0.
    pub keep_best: i64,
    /// 1: a larger metric is better. 0, the default: a smaller one.
    pub larger_is_better: i32,
    /// 1, the default: a thread of the library's writes files while training goes on. 0: the calls
    /// that save do.
    pub in_background: i32,
    /// A checkpoint is due when so many steps have passed since the last one; at least 1, which is
    /// the default. UMBO_INFINITE: steps do not matter.
    pub every_steps: i64,
    /// A checkpoint is due when so many seconds have passed since the last one, or since the manager
    /// was made. UMBO_INFINITE, the default: time does not matter.
    pub every_seconds: f64,
    /// 0, the default: the checkpoints in the folder are those of this training. 1: they are another
    /// one's, and this one begins anew. They are as if they were not there: not found, not restored, not
    /// counted; and the first save moves them to a folder of their own in the folder, `before-1` or the next
    /// name that is free. None is deleted.
    pub begin_anew: i32,
}

/// Makes a manager, which keeps the checkpoints of one training in a folder: the newest ones, and the
/// best by a metric. What is known of a file is in its name and in the file itself.
///
/// Only one manager, in whatever process, writes to a folder at a time. A folder is for one training: a manager
/// saves where its checkpoint was restored from a file of the folder, by whatever manager or by
/// umbo_checkpoint_restore(), or where there is none when it is first asked to save. So a program that may be
/// started again calls umbo_checkpoint_manager_restore_latest() first, which changes nothing in an empty
/// folder. Looking and restoring need none of that.
///
/// @param[in] checkpoint What is saved. The manager keeps it alive.
/// @param[in] folder The folder, which is made if it is not there.
/// @param[in] options Which are kept, and when one is due; `options` may be NULL: all defaults.
/// @param[out] manager A new handle. The caller releases it; the last release waits for what is being
///   written.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: options out of range, or a path that leads to a file or through one.
/// - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
/// - UMBO_STATUS_RESOURCE_EXHAUSTED, UMBO_STATUS_UNAVAILABLE: another failure of the system's.
#[c_call(out(manager), text(folder), options(options), get(checkpoint))]
pub fn umbo_checkpoint_manager_create(
    checkpoint: *mut umbo_checkpoint,
    folder: *const c_char,
    options: *const umbo_checkpoint_manager_options,
    manager: *mut *mut umbo_checkpoint_manager,
) {
    if folder.is_empty() {
        return Err(Error::invalid("folder", "empty; name a folder, such as \".\""));
    }
    let options = options_from(&options)?;
    manager.write(make(Manager::new(checkpoint, Path::new(folder), options)?)?);
}

fn options_from(options: &umbo_checkpoint_manager_options) -> Result<ManagerOptions> {
    let every_steps = match options.every_steps {
        UMBO_INFINITE => None,
        steps @ 1.. => Some(steps as u64),
        steps => {
            let problem = format!("{steps}; must be at least 1, or UMBO_INFINITE (-1)");
            return Err(Error::invalid("options.every_steps", problem));
        }
    };
    Ok(ManagerOptions {
        keep: positive(options.keep, "options.keep")?,
        keep_best: natural(options.keep_best, "options.keep_best")?,
        larger_is_better: flag(options.larger_is_better, "options.larger_is_better")?,
        every_steps,
        every: duration(options.every_seconds, "options.every_seconds", true)?,
        in_background: flag(options.in_background, "options.in_background")?,
        begin_anew: flag(options.begin_anew, "options.begin_anew")?,
    })
}

/// Saves a checkpoint if one is due, and removes what is not kept any more.
///
/// The state is copied as it is between two steps. In the background the call returns then. At most two
/// copies are on their way to the disk, one that is being written and one that waits; if there are two
/// already the call waits first. A failure in the background is returned by the next call. With several ranks
/// a call that all make, each with a manager of the same folder; they write in the call. A checkpoint is due
/// for all if it is for one.
///
/// @param[in] step Which step, epoch, or whatever the program counts; 0 or more. It names the file.
/// @param[in] metric What the best checkpoints are the best by. One that is NaN is never among the best.
///   `metric` may be NULL: the checkpoint has none.
/// @param[in] force 1: save in any case. 0: if one is due.
/// @param[out] saved Gets 1 if it was saved, 0 if none was due; `saved` may be NULL.
/// @return UMBO_OK, or what umbo_checkpoint_save() returns, also for an earlier checkpoint that could
///   not be written in the background: the message names its step. UMBO_STATUS_FAILED_PRECONDITION: the
///   folder has checkpoints of another training, also if none is due; the message names the ways out.
#[c_call(optional_out(saved), natural(step), get(manager), flag(force))]
pub fn umbo_checkpoint_manager_save(
    manager: *mut umbo_checkpoint_manager,
    step: i64,
    metric: *const f64,
    force: i32,
    saved: *mut i32,
) {
    // SAFETY: the caller gives NULL or a number.
    let metric = unsafe { metric.as_ref() }.copied();
    saved.write(manager.save(step, metric, force)?.into());
}

/// Waits until all checkpoints are on the disk.
///
/// @return UMBO_OK, or the failure of one that could not be written.
#[c_call(get(manager))]
pub fn umbo_checkpoint_manager_wait(manager: *mut umbo_checkpoint_manager) {
    manager.wait()
}

/// Restores the newest checkpoint, if there is one. One that is damaged is passed over for the one before it,
/// with a warning in the log that names it; of a strict strategy that is UMBO_STATUS_DATA_LOSS. One that the
/// system does not open or read is not passed over: the call fails, and may succeed the next time.
///
/// @param[out] step Gets its step, or UMBO_NONE if there is none; then nothing has changed.
/// @return UMBO_OK, or what umbo_checkpoint_restore() returns, and then nothing has changed.
///   UMBO_STATUS_DATA_LOSS: all are damaged.
///
/// With several ranks a call that all of them make.
#[c_call(out(step), get(manager))]
pub fn umbo_checkpoint_manager_restore_latest(
    manager: *mut umbo_checkpoint_manager,
    step: *mut i64,
) {
    step.write(step_or_none(manager.restore_latest()?));
}

/// Restores the checkpoint with the best metric, if there is one. One that is damaged, so that its metric is not
/// known, is passed over as by umbo_checkpoint_manager_restore_latest().
///
/// @param[out] step Gets its step, or UMBO_NONE if none has a metric; then nothing has
///   changed.
/// @return UMBO_OK, or what umbo_checkpoint_restore() returns.
///
/// With several ranks a call that all of them make.
#[c_call(out(step), get(manager))]
pub fn umbo_checkpoint_manager_restore_best(manager: *mut umbo_checkpoint_manager, step: *mut i64) {
    step.write(step_or_none(manager.restore_best()?));
}

/// Tells which checkpoint is the newest. It waits for what is being written.
///
/// @param[out] step Gets its step, or UMBO_NONE if there is none.
/// @return UMBO_OK, or:
/// - the failure of a checkpoint that could not be written, or of reading the folder or a file.
#[c_call(out(step), get(manager))]
pub fn umbo_checkpoint_manager_latest(manager: *const umbo_checkpoint_manager, step: *mut i64) {
    step.write(step_or_none(manager.latest()?));
}

/// Tells which checkpoint has the best metric. It waits for what is being written. One that is damaged is passed
/// over as by umbo_checkpoint_manager_restore_latest().
///
/// @param[out] step Gets its step, or UMBO_NONE if none has a metric.
/// @return UMBO_OK, or the statuses of umbo_checkpoint_manager_latest().
#[c_call(out(step), get(manager))]
pub fn umbo_checkpoint_manager_best(manager: *const umbo_checkpoint_manager, step: *mut i64) {
    step.write(step_or_none(manager.best()?));
}

fn step_or_none(step: Option<u64>) -> i64 {
    step.map_or(UMBO_NONE, |step| step as i64)
}

/// Tells where the checkpoint of a step is, or would be.
///
/// @param[in] step The step; 0 or more.
/// @param[out] buffer Gets the path and its NUL, if there is room. `buffer` may be NULL if `capacity` is 0,
///   to ask for the length.
/// @param[in] capacity The bytes of `buffer`.
/// @param[out] length Gets the bytes of the path, without the NUL, also if there is too little room.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: a step below 0.
/// - UMBO_STATUS_OUT_OF_RANGE: too little room.
#[c_call(out(length), buffer(buffer, capacity), natural(step), get(manager))]
pub fn umbo_checkpoint_manager_path(
    manager: *const umbo_checkpoint_manager,
    step: i64,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    let path = manager.path(step);
    let path = path.to_str().ok_or_else(|| Error::Internal("a path is not a text".into()))?;
    buffer.write(path, length)
}

//! Managers of checkpoints, which say when to write one and which are kept.

use crate::machinery::prelude::*;
use umbo_core::checkpoint::{Manager, ManagerOptions};
use umbo_core::system::names;

/// The checkpoints that are kept, and when one is due.
#[c_struct(
    max_to_keep = 5, every_steps = 1, every_seconds = UMBO_INFINITE as f64
)]
pub struct umbo_checkpoint_manager_options {
    /// How many of the newest, those that were saved last, are kept; at least 1.
    pub max_to_keep: i64,
    /// How many of those with the best metric are kept in addition to the newest.
    pub max_best_to_keep: i64,
    /// 1: a larger metric is better. 0: a smaller one.
    pub larger_is_better: i32,
    /// 0: umbo_checkpoint_manager_save() writes the file before it returns. 1: a thread of the
    /// library writes it while training continues; the program then calls
    /// umbo_checkpoint_manager_wait(), or releases the manager, before it ends, or loses what is
    /// not written yet.
    pub asynchronous: i32,
    /// A checkpoint is due this many steps after the last one; at least 1, or UMBO_INFINITE.
    pub every_steps: i64,
    /// A checkpoint is due this many seconds after the last one, or UMBO_INFINITE.
    pub every_seconds: f64,
    /// 1: this training starts fresh. Checkpoints in the folder count as if they were not there,
    /// and the first save moves them to a folder in it: `before-1`, or the next free name.
    pub start_fresh: i32,
}

/// Makes a manager, which keeps the newest checkpoints of one training in a folder, and the best by
/// a metric.
///
/// @param[in] folder Made if it is not there.
/// @return UMBO_OK, or what the system says.
///
/// The folder is the one that the path names now: a later change of the working directory or of a
/// link has no effect.
///
/// A folder is for one training, and one process saves to it at a time: the first save locks it,
/// until the manager is released or the process ends. If it has checkpoints, a manager saves only
/// if its checkpoint was restored from one of them. So a program that may be started again calls
/// umbo_checkpoint_manager_restore_latest() first.
#[c_call(
    part(checkpoints),
    out(manager),
    path(folder),
    options(options),
    get(checkpoint)
)]
pub fn umbo_checkpoint_manager_create(
    checkpoint: *mut umbo_checkpoint,
    folder: *const c_char,
    options: *const umbo_checkpoint_manager_options,
    manager: *mut *mut umbo_checkpoint_manager,
) {
    if folder.as_os_str().is_empty() {
        return Err(invalid!("folder", "empty; name a folder, such as \".\""));
    }
    let options = options_from(&options)?;
    manager.write(make(Manager::new(checkpoint, folder, options)?)?);
}

fn options_from(options: &umbo_checkpoint_manager_options) -> Result<ManagerOptions> {
    let every_steps = least_unless(options.every_steps, 1, UMBO_INFINITE, "options.every_steps")?;
    Ok(ManagerOptions {
        max_to_keep: positive(options.max_to_keep, "options.max_to_keep")?,
        max_best_to_keep: natural(options.max_best_to_keep, "options.max_best_to_keep")?,
        larger_is_better: flag(options.larger_is_better, "options.larger_is_better")?,
        every_steps: every_steps.map(|steps| steps as u64),
        every: duration(options.every_seconds, "options.every_seconds", true)?,
        asynchronous: flag(options.asynchronous, "options.asynchronous")?,
        start_fresh: flag(options.start_fresh, "options.start_fresh")?,
    })
}

/// Saves a checkpoint if one is due, and removes those that are not kept any more.
///
/// @param[in] step The number of a step or an epoch, as the program counts them; 0 or more. It is a
///   part of the file's name.
/// @param[in] metric The metric by which the best are chosen; a NaN is never among them. NULL:
///   none.
/// @param[in] force 1: saves even if none is due. 0: if one is due.
/// @param[out] saved 1: it was saved. 0: none was due. May be NULL.
/// @return As umbo_checkpoint_save(). UMBO_STATUS_FAILED_PRECONDITION: also if the folder has
///   checkpoints of another training, if another process saves there, or if another folder has
///   taken its place. Also the failure of an earlier asynchronous checkpoint that no call has
///   returned yet; the message names its step. This call has done its work then, and `saved` says
///   whether it saved.
///
/// The checkpoint is saved if its file is in place. An old file that cannot be removed then is a
/// warning in the log, once; the other files are removed, and later saves try again.
///
/// Saves the state between two steps. An asynchronous call copies it and returns then; it waits
/// first if a copy is on its way to the disk already.
///
/// Collective, and never asynchronous with several ranks: one is due for all if it is for one.
#[c_call(
    part(checkpoints),
    optional_out(saved),
    natural(step),
    get(manager),
    flag(force)
)]
pub fn umbo_checkpoint_manager_save(
    manager: *mut umbo_checkpoint_manager,
    step: i64,
    metric: *const f64,
    force: i32,
    saved: *mut i32,
) {
    // SAFETY: the caller gives NULL or a number.
    let metric = unsafe { metric.as_ref() }.copied();
    let outcome = manager.save_telling(step, metric, force)?;
    saved.write(outcome.saved.into());
    outcome.into_result()?;
}

/// Waits until all checkpoints are on the disk.
///
/// @return UMBO_OK, or the failure of one that could not be written.
#[c_call(part(checkpoints), get(manager))]
pub fn umbo_checkpoint_manager_wait(manager: *mut umbo_checkpoint_manager) {
    manager.wait()
}

/// Restores the newest checkpoint that is not damaged. Damaged ones are logged as warnings. The
/// newest is the one that was saved last, whatever its step: after going back to an earlier one,
/// too.
///
/// @param[out] step Its step, or UMBO_NONE: there is none, and nothing has changed.
/// @return As umbo_checkpoint_restore(). UMBO_STATUS_DATA_LOSS: all are damaged, or one is and the
///   strategy is strict.
///
/// Collective.
#[c_call(part(checkpoints), out(step), get(manager))]
pub fn umbo_checkpoint_manager_restore_latest(
    manager: *mut umbo_checkpoint_manager,
    step: *mut i64,
) {
    step.write(step_or_none(manager.restore_latest()?));
}

/// Restores the checkpoint with the best metric, as umbo_checkpoint_manager_restore_latest() does.
///
/// @param[out] step Its step, or UMBO_NONE: none has a metric, and nothing has changed.
///
/// Newer checkpoints stay until they are not kept any more. Those that are saved from here on are
/// newer than they are.
#[c_call(part(checkpoints), out(step), get(manager))]
pub fn umbo_checkpoint_manager_restore_best(manager: *mut umbo_checkpoint_manager, step: *mut i64) {
    step.write(step_or_none(manager.restore_best()?));
}

/// Gets the step of the newest checkpoint, or UMBO_NONE. Waits for what is being written.
///
/// @return UMBO_OK, or the failure of a checkpoint that could not be written, or of reading.
#[c_call(part(checkpoints), out(step), get(manager))]
pub fn umbo_checkpoint_manager_latest(manager: *const umbo_checkpoint_manager, step: *mut i64) {
    step.write(step_or_none(manager.latest()?));
}

/// Gets the step of the checkpoint with the best metric, or UMBO_NONE; otherwise as
/// umbo_checkpoint_manager_latest(). Damaged ones are skipped.
#[c_call(part(checkpoints), out(step), get(manager))]
pub fn umbo_checkpoint_manager_best(manager: *const umbo_checkpoint_manager, step: *mut i64) {
    step.write(step_or_none(manager.best()?));
}

fn step_or_none(step: Option<u64>) -> i64 {
    step.map_or(UMBO_NONE, |step| step as i64)
}

/// Gets the absolute path of the checkpoint of a step, whether it is there or not.
#[c_call(
    part(checkpoints),
    out(length),
    buffer(buffer, capacity),
    natural(step),
    get(manager)
)]
pub fn umbo_checkpoint_manager_path(
    manager: *const umbo_checkpoint_manager,
    step: i64,
    buffer: *mut c_char,
    capacity: usize,
    length: *mut usize,
) {
    let path = manager.path(step);
    buffer.write(names::bytes(path.as_os_str()), length)
}

//! The calls of a trainer: epochs, steps, evaluations, saving and restoring.

use crate::machinery::prelude::*;
use crate::nouns::trainer_rows::owned_learn;

/// Trains over the rows 0 to `row_count` less one, once, in batches. Each epoch has another order,
/// which depends on `seed` and the number of the epoch alone.
///
/// @param[in] row_count 1 or more.
/// @param[in] batch_size The rows of a step, 1 or more; the last batch may have fewer, and none
///   has more than 268,435,456. They are split over the replicas: the first one gets the first
///   ceil(batch_size / replica_count), and so on.
/// @param[in] learn Called on each replica that has rows.
/// @param[out] loss The mean loss of a row, each with the weights that its step had. `loss` may be
///   NULL.
/// @return UMBO_OK, or:
/// - What `learn` returned; the message names the step, the replica and the rows.
/// - UMBO_STATUS_INVALID_ARGUMENT: a number out of range; or a gradient that is not finite, with
///   `global_clip_norm`.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a step, or while a callback of an earlier step, which
///   ran out of time, has not returned: umbo_strategy_synchronize() of umbo_trainer_strategy()
///   waits for it.
/// - UMBO_STATUS_CANCELLED: an interrupt, after which the training is in `interrupt_path`; or the
///   token of `cancellation`.
/// - UMBO_STATUS_DEADLINE_EXCEEDED: `timeout_seconds` are over.
///
/// A step takes effect as a whole, or changes nothing. An epoch that has ended early is continued
/// by the next call with the same numbers, from the batch whose step did not take effect; with
/// other numbers or another `seed` or `shuffle` it begins again. Its loss is that of the whole
/// epoch. What is accumulated at the end of an epoch is applied.
///
/// Serialised with all calls of this trainer. Collective.
#[c_call(
    optional_out(loss),
    positive(row_count),
    positive(batch_size),
    get(trainer),
    present(learn)
)]
pub fn umbo_trainer_epoch(
    trainer: *mut umbo_trainer,
    row_count: i64,
    batch_size: i64,
    learn: umbo_learn_fn,
    user_data: *mut c_void,
    loss: *mut f64,
) {
    loss.write(trainer.epoch(row_count, batch_size, &owned_learn(learn, user_data))?);
}

/// Trains one batch: the rows from `first_row` on, whatever a program with its own input means by
/// these numbers. Rows of an epoch that has ended early are not affected.
///
/// @param[in] first_row 0 or more. Ranks do not compare it, since each may have numbers of its own.
/// @param[in] row_count How many rows the batch has, 1 to 268,435,456.
/// @param[in] learn Called on each replica that has rows.
/// @param[out] loss The mean loss of a row. `loss` may be NULL.
/// @return As umbo_trainer_epoch().
///
/// With `accumulation_steps` an update is made after that many steps.
#[c_call(
    optional_out(loss),
    natural(first_row),
    positive(row_count),
    get(trainer),
    present(learn)
)]
pub fn umbo_trainer_step(
    trainer: *mut umbo_trainer,
    first_row: i64,
    row_count: i64,
    learn: umbo_learn_fn,
    user_data: *mut c_void,
    loss: *mut f64,
) {
    let id = [learn as usize, user_data.addr()];
    let learn = || owned_learn(learn, user_data);
    loss.write(trainer.step(first_row, row_count, id, &learn)?);
}

/// Calls a function for the rows 0 to `row_count` less one, in order, in batches on all replicas,
/// without gradients: nothing is updated.
///
/// @param[in] learn Gets rows whose `training` is 0.
/// @param[out] loss The mean loss of a row. `loss` may be NULL.
/// @return As umbo_trainer_epoch().
///
/// With `average_decay` the arrays have the averages of the weights as values during the call. Its
/// steps are not counted: what later steps draw by umbo_replica_context_random_key() is as
/// without it. umbo_strategy_metric_result() has the totals of metrics that `learn` adds to
/// (`rows->context`), such as an accuracy.
#[c_call(
    optional_out(loss),
    positive(row_count),
    positive(batch_size),
    get(trainer),
    present(learn)
)]
pub fn umbo_trainer_evaluate(
    trainer: *mut umbo_trainer,
    row_count: i64,
    batch_size: i64,
    learn: umbo_learn_fn,
    user_data: *mut c_void,
    loss: *mut f64,
) {
    loss.write(trainer.evaluate(row_count, batch_size, &owned_learn(learn, user_data))?);
}

/// Sets the learning rate from the next update on, such as before each step or epoch, and ends the
/// `schedule` of the options.
///
/// @param[in] learning_rate Finite and 0 or more; for FTRL, which divides by it, more than 0.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_INVALID_ARGUMENT: the rate is not such a number.
/// - UMBO_STATUS_FAILED_PRECONDITION: inside a step.
#[c_call(get(trainer))]
pub fn umbo_trainer_set_learning_rate(trainer: *mut umbo_trainer, learning_rate: f64) {
    trainer.set_learning_rate(learning_rate)
}

/// Saves the training to a file: arrays, optimizer, how many epochs there were, and where in an
/// epoch it is.
///
/// @return As umbo_checkpoint_save(); UMBO_STATUS_NOT_FOUND: no such folder.
#[c_call(part(checkpoints), path(path), get(trainer))]
pub fn umbo_trainer_save(trainer: *const umbo_trainer, path: *const c_char) {
    trainer.save(path)
}

/// Restores a training from a file. The arrays get the saved values. The learning rate follows the
/// schedule of this trainer's options, if they have one, and the log warns if the training had
/// another; else that of the training.
///
/// @return As umbo_checkpoint_restore(); UMBO_STATUS_NOT_FOUND: no such file.
#[c_call(part(checkpoints), path(path), get(trainer))]
pub fn umbo_trainer_restore(trainer: *mut umbo_trainer, path: *const c_char) {
    trainer.restore(path)
}

/// Restores a training from a file if there is one, so that a program that is started again
/// continues where it was.
///
/// @param[out] epoch_count How many epochs have ended: the number of the one to begin with, from 0.
///   `epoch_count` may be NULL.
/// @return As umbo_trainer_restore(), but UMBO_OK if there is no such file in a folder that exists.
#[c_call(optional_out(epoch_count), path(path), get(trainer))]
pub fn umbo_trainer_resume(trainer: *mut umbo_trainer, path: *const c_char, epoch_count: *mut i64) {
    epoch_count.write(trainer.resume(path)? as i64);
}

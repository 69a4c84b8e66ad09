//! How far a trainer is, and handles to its parts.

use crate::machinery::prelude::*;

/// How far a training is.
#[c_struct]
pub struct umbo_trainer_info {
    /// How many arrays it has.
    pub array_count: i64,
    /// The number of replicas in this process: one more than the largest `replica_id`.
    pub replica_count: i64,
    /// How many epochs have ended.
    pub epoch_count: i64,
    /// How many steps have taken effect, of epochs and of umbo_trainer_step().
    pub step_count: i64,
    /// How many steps took effect in an epoch that has ended early and is to be continued; else 0.
    pub epoch_step_count: i64,
}

/// Gets how far a training is. It may be called during a call of another thread.
#[c_call(result(info), get(trainer))]
pub fn umbo_trainer_get_info(trainer: *const umbo_trainer, info: *mut umbo_trainer_info) {
    let state = trainer.state()?;
    let parts = trainer.parts();
    info.write(umbo_trainer_info {
        array_count: parts.variables().len() as i64,
        replica_count: parts.strategy.num_replicas() as i64,
        epoch_count: state.epochs as i64,
        step_count: state.steps as i64,
        epoch_step_count: state.part.steps as i64,
        ..Default::default()
    });
}

/// Gets a new handle to the strategy: for metrics, other steps on the same arrays, reports.
#[c_call(out(strategy), get(trainer))]
pub fn umbo_trainer_strategy(trainer: *const umbo_trainer, strategy: *mut *mut umbo_strategy) {
    strategy.write(make(trainer.settled_parts()?.strategy.clone())?);
}

/// Gets a new handle to the variable over an array.
///
/// @return UMBO_OK, or UMBO_STATUS_OUT_OF_RANGE: no such array.
///
/// umbo_variable_upload() changes an array between two calls.
#[c_call(out(variable), get(trainer))]
pub fn umbo_trainer_variable(
    trainer: *const umbo_trainer,
    array: i64,
    variable: *mut *mut umbo_variable,
) {
    let parts = trainer.settled_parts()?;
    let variables = parts.variables();
    let arrays = Listed {
        count: variables.len(),
        elements: "the arrays of the trainer",
    };
    variable.write(make(at(array, "array", arrays, |at| {
        variables.get(at).cloned()
    })?)?);
}

/// Gets a new handle to the gradients of all arrays.
#[c_call(out(gradients), get(trainer))]
pub fn umbo_trainer_gradients(trainer: *const umbo_trainer, gradients: *mut *mut umbo_gradients) {
    gradients.write(make(Arc::clone(trainer.settled_parts()?.gradients()))?);
}

/// Gets a new handle to the optimizer: for its learning rate, a schedule, and all settings that the
/// trainer's options do not have.
#[c_call(out(optimizer), get(trainer))]
pub fn umbo_trainer_optimizer(trainer: *const umbo_trainer, optimizer: *mut *mut umbo_optimizer) {
    optimizer.write(make(Arc::clone(&trainer.settled_parts()?.optimizer))?);
}

/// Gets a new handle to what umbo_trainer_save() saves, to which the program can add what is its
/// own, such as a vocabulary.
#[c_call(out(checkpoint), get(trainer))]
pub fn umbo_trainer_checkpoint(
    trainer: *const umbo_trainer,
    checkpoint: *mut *mut umbo_checkpoint,
) {
    checkpoint.write(make(Arc::clone(&trainer.settled_parts()?.checkpoint))?);
}

/// Makes the dataset of the next epoch: batches of the numbers of rows, in its order.
///
/// @param[in] row_count As for umbo_trainer_epoch().
/// @param[in] batch_size As for umbo_trainer_epoch().
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a number out of range.
#[c_call(out(dataset), positive(row_count), positive(batch_size), get(trainer))]
pub fn umbo_trainer_dataset(
    trainer: *const umbo_trainer,
    row_count: i64,
    batch_size: i64,
    dataset: *mut *mut umbo_dataset,
) {
    dataset.write(make(trainer.dataset(row_count, batch_size)?)?);
}

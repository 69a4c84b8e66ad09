/* Generated from src/ffi; do not edit. */
#ifndef UMBO_CHECKPOINT_H
#define UMBO_CHECKPOINT_H

/**
 * @file checkpoint.h
 * @brief Checkpoints: what training needs to go on later, in one file.
 *
 * Objects are added by name: variables, optimizers, gradients, metrics, iterators, and the
 * program's own tensors and numbers. A program that begins makes the same objects, adds them by
 * the same names, and restores the file: training then goes on with the bits that it would have
 * had. Files are in the safetensors format, which other programs read. docs/checkpoints.md
 * describes what Umbo says in them. A manager keeps several files in a folder and can write them
 * in the background. The caller releases checkpoints, which keep what was added alive, and
 * managers.
 *
 * Threads: all functions on one checkpoint or manager may be called at the same time. Saving waits
 * for the strategy's step; restoring is refused while there is one.
 *
 * Example:
 * ```c
 * // Goes on from a file if there is one.
 * static umbo_status resume(umbo_checkpoint *checkpoint, umbo_variable *weights,
 *                           umbo_optimizer *optimizer, int64_t *epoch) {
 *   UMBO_TRY(umbo_checkpoint_add_variable(checkpoint, "weights", weights));
 *   UMBO_TRY(umbo_checkpoint_add_optimizer(checkpoint, "optimizer", optimizer));
 *   UMBO_TRY(umbo_checkpoint_set_integer(checkpoint, "epoch", 0));
 *   umbo_status status = umbo_checkpoint_restore(checkpoint, "training.safetensors");
 *   if (status != UMBO_OK && status != UMBO_STATUS_NOT_FOUND) return status;
 *   return umbo_checkpoint_integer(checkpoint, "epoch", epoch);
 * }
 * ```
 */

#include <umbo/dataset.h>
#include <umbo/metrics.h>
#include <umbo/optimizer.h>

#ifdef __cplusplus
extern "C" {
#endif


/**
 * Makes a checkpoint, which holds nothing but the strategy's step number yet.
 *
 * @param[in] strategy The strategy whose training is saved. All that is added is of this strategy;
 *   variables may also be of the default one.
 *
 * The checkpoint keeps all objects that are added alive.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_create(
    const umbo_strategy *strategy, umbo_checkpoint **checkpoint);

/**
 * Adds a variable: its value.
 *
 * @param[in] name By which name it is saved; copied. Names in a checkpoint differ. `name` may be
 *   NULL: the variable's own name.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a name that is empty or that something has
 *   already (the message names both), or a variable of another strategy.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_variable(
    umbo_checkpoint *checkpoint, const char *name, umbo_variable *variable);

/**
 * Adds an optimizer: its learning rate, iterations and loss scale, and for each variable the state
 * and the step counts of its rule. Gradients that it applies are objects of their own
 * (umbo_checkpoint_add_gradients()): without them, saving fails while they hold what was submitted
 * or accumulated.
 *
 * The state of a variable is saved by the name by which the variable was added, or by its own name
 * if it was not.
 *
 * @param[in] name By which name it is saved; copied.
 * @param[in] optimizer The optimizer. Its rule's numbers, settings, groups and schedule are not
 *   saved: a program sets them again.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_optimizer(
    umbo_checkpoint *checkpoint, const char *name, umbo_optimizer *optimizer);

/**
 * Adds gradients: what several runs have accumulated with `accumulation_steps`.
 *
 * @param[in] name By which name they are saved; copied.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_gradients(
    umbo_checkpoint *checkpoint, const char *name, umbo_gradients *gradients);

/**
 * Adds metrics: what they have accumulated.
 *
 * @param[in] name By which name they are saved; copied.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_metrics(
    umbo_checkpoint *checkpoint, const char *name, umbo_metrics *metrics);

/**
 * Adds an iterator: how far its pass over the data has come. See umbo_iterator_save_position().
 *
 * Save on the thread that takes the elements, between two steps: then the place is the one behind
 * the element of the last step that took effect in umbo_train_epoch(), or that umbo_iterator_next()
 * gave last.
 *
 * @param[in] name By which name it is saved; copied.
 * @param[in] iterator The iterator. When it is restored, it is one over a pipeline that was made in
 *   the same way, over the same data.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_iterator(
    umbo_checkpoint *checkpoint, const char *name, umbo_iterator *iterator);

/**
 * Adds a tensor of the program's. It is saved with the elements that it has then, and restored into
 * the same memory. Nobody writes it while the checkpoint is saved, or reads or writes it while it
 * is restored.
 *
 * @param[in] name By which name it is saved; copied.
 * @param[in] tensor The tensor, whose memory can be written.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_add_variable(), or a
 *   tensor that can only be read.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_tensor(
    umbo_checkpoint *checkpoint, const char *name, umbo_tensor *tensor);

/**
 * Sets a number of the program's, such as a loss, and adds it if it was not there. It is saved with
 * the value that was set last.
 *
 * @param[in] name Its name; copied.
 * @param[in] number Its value, of which every bit is kept.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a name that is empty or that something else
 *   has.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_set_number(
    umbo_checkpoint *checkpoint, const char *name, double number);

/**
 * Sets a whole number of the program's, such as an epoch, and adds it if it was not there. It is
 * saved with the value that was set last.
 *
 * @param[in] name Its name; copied.
 * @param[in] integer Its value.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: as for umbo_checkpoint_set_number().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_set_integer(
    umbo_checkpoint *checkpoint, const char *name, int64_t integer);

/**
 * Tells a number of the program's: as it was set or restored last.
 *
 * @param[in] name Its name.
 * @param[out] number Gets its value.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: no number of this name was set.
 * - UMBO_STATUS_INVALID_ARGUMENT: a whole number.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_number(
    const umbo_checkpoint *checkpoint, const char *name, double *number);

/**
 * Tells a whole number of the program's: as it was set or restored last.
 *
 * @param[in] name Its name.
 * @param[out] integer Gets its value.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: no number of this name was set.
 * - UMBO_STATUS_INVALID_ARGUMENT: a number that umbo_checkpoint_set_number() has set.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_integer(
    const umbo_checkpoint *checkpoint, const char *name, int64_t *integer);

/**
 * Saves everything that was added, and the strategy's step number, to a file.
 *
 * It is saved as it is between two steps: the call waits for a step in progress. The file is
 * replaced as a whole: whatever fails, and whenever the process is killed or the machine stops,
 * `path` leads to the file that was there before or to the new one. Once the call has succeeded,
 * the new one is on the disk. Steps of other threads wait until it is written, though not until it
 * is on the disk. With several ranks a call that all make: each writes the state that it keeps, to
 * files beside that of the first, in a folder that all see.
 *
 * @param[in] path The file, in the safetensors format.
 * @return UMBO_OK, or, and then the file is as it was:
 * - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, a folder, a path that leads through
 *   a file, or two tensors that would have one name (the message says of which objects).
 * - UMBO_STATUS_FAILED_PRECONDITION: inside a run, while the strategy is draining, with gradients
 *   that were submitted and not applied, or with gradients that were not added although an
 *   optimizer that was has applied them and they hold something (the message names their
 *   variables).
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: no memory for a copy of the state, no room on the disk, or too
 *   many open files.
 * - UMBO_STATUS_UNAVAILABLE: another failure of the system's.
 *
 * A variable with a NaN in it is saved, and the log gets a warning; of a strict strategy the call
 * is UMBO_STATUS_FAILED_PRECONDITION.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_save(
    const umbo_checkpoint *checkpoint, const char *path);

/**
 * Makes everything that was added what it was when a file was saved, and lets the strategy count
 * its steps from there.
 *
 * Replicas may be more or fewer than when it was saved, and so may ranks. With several ranks a call
 * that all make: all of them restore, or none.
 *
 * @param[in] checkpoint The checkpoint, with objects of the same names, kinds, dtypes and shapes
 *   as those that were saved.
 * @param[in] path The file.
 * @return UMBO_OK, or, and then nothing has changed:
 * - UMBO_STATUS_INVALID_ARGUMENT: an invalid handle or pointer, a path that leads to no regular
 *   file, or objects and file do not fit: the message lists all that is missing, unexpected, or of
 *   another dtype or shape, and iterators over other data.
 * - UMBO_STATUS_FAILED_PRECONDITION: a step is in progress, on whatever thread (the message names
 *   it), or the strategy is draining.
 * - UMBO_STATUS_DATA_LOSS: the file is damaged, or not in the safetensors format, whose headers
 *   have at most 100,000,000 bytes.
 * - UMBO_STATUS_UNIMPLEMENTED: a later version of Umbo has written the file.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: as the system says.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: no memory for a copy of the state, or too many open files.
 * - UMBO_STATUS_UNAVAILABLE: another failure of the system's, such as a disk that cannot be read.
 * - what functions of an iterator's pipeline return, if elements have to be made again.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_restore(
    umbo_checkpoint *checkpoint, const char *path);

/**
 * Saves the variables that were added, and nothing else, for other programs.
 *
 * @param[in] path The file, in the safetensors format, replaced as by umbo_checkpoint_save().
 * @return UMBO_OK, or the statuses of umbo_checkpoint_save().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_save_weights(
    const umbo_checkpoint *checkpoint, const char *path);

/**
 * Gives variables the values of tensors in a safetensors file, whichever program has written it.
 * All other state stays as it is, and what else is in the file is left alone.
 *
 * @param[in] checkpoint The checkpoint that the variables were added to.
 * @param[in] path The file.
 * @param[in] count How many names there are.
 * @param[in] names By which names the variables were added. `names` may be NULL: all of them, from
 *   tensors of the same names; then `count` is 0.
 * @param[in] tensor_names For each the name of its tensor in the file. `tensor_names` may be NULL:
 *   the same names.
 * @return UMBO_OK, or, and then nothing has changed:
 * - UMBO_STATUS_NOT_FOUND: no variable of a name was added; or no file.
 * - what else umbo_checkpoint_restore() returns.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_load_weights(
    umbo_checkpoint *checkpoint, const char *path, int64_t count, const char *const *names,
    const char *const *tensor_names);

/** Makes another handle to the same checkpoint: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_checkpoint_retain(
    const umbo_checkpoint *checkpoint, umbo_checkpoint **retained) {
  return umbo_retain(checkpoint, UMBO_HANDLE_CHECKPOINT, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_checkpoint_release(const umbo_checkpoint *checkpoint) {
  umbo_release(checkpoint, UMBO_HANDLE_CHECKPOINT);
}

/**
 * Which checkpoints are kept, and when one is due. Start from UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT.
 */
typedef struct umbo_checkpoint_manager_options {
  size_t struct_size;
  /** How many of the newest are kept; at least 1. By default 5. */
  int64_t keep;
  /** How many of those with the best metric are kept beside the newest. By default 0. */
  int64_t keep_best;
  /** 1: a larger metric is better. 0, the default: a smaller one. */
  int32_t larger_is_better;
  /**
   * 1, the default: a thread of the library's writes files while training goes on. 0: the calls
   * that save do.
   */
  int32_t in_background;
  /**
   * A checkpoint is due when so many steps have passed since the last one; at least 1, which is
   * the default. UMBO_INFINITE: steps do not matter.
   */
  int64_t every_steps;
  /**
   * A checkpoint is due when so many seconds have passed since the last one, or since the manager
   * was made. UMBO_INFINITE, the default: time does not matter.
   */
  double every_seconds;
  /**
   * 0, the default: the checkpoints in the folder are those of this training. 1: they are another
   * one's, and this one begins anew. They are as if they were not there: not found, not restored,
   * not counted; and the first save moves them to a folder of their own in the folder, `before-1`
   * or the next name that is free. None is deleted.
   */
  int32_t begin_anew;
} umbo_checkpoint_manager_options;

#define UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT \
  { sizeof(umbo_checkpoint_manager_options), 5, 0, 0, 1, 1, UMBO_INFINITE, 0 }
UMBO_DEFAULT(umbo_checkpoint_manager_options, UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT)

/**
 * Makes a manager, which keeps the checkpoints of one training in a folder: the newest ones, and
 * the best by a metric. What is known of a file is in its name and in the file itself.
 *
 * Only one manager, in whatever process, writes to a folder at a time. A folder is for one
 * training: a manager saves where its checkpoint was restored from a file of the folder, by
 * whatever manager or by umbo_checkpoint_restore(), or where there is none when it is first asked
 * to save. So a program that may be started again calls umbo_checkpoint_manager_restore_latest()
 * first, which changes nothing in an empty folder. Looking and restoring need none of that.
 *
 * @param[in] checkpoint What is saved. The manager keeps it alive.
 * @param[in] folder The folder, which is made if it is not there.
 * @param[in] options Which are kept, and when one is due; `options` may be NULL: all defaults.
 * @param[out] manager A new handle. The caller releases it; the last release waits for what is
 *   being written.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: options out of range, or a path that leads to a file or through
 *   one.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED, UMBO_STATUS_UNAVAILABLE: another failure of the system's.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_create(
    umbo_checkpoint *checkpoint, const char *folder,
    const umbo_checkpoint_manager_options *options, umbo_checkpoint_manager **manager);

/**
 * Saves a checkpoint if one is due, and removes what is not kept any more.
 *
 * The state is copied as it is between two steps. In the background the call returns then. At most
 * two copies are on their way to the disk, one that is being written and one that waits; if there
 * are two already the call waits first. A failure in the background is returned by the next call.
 * With several ranks a call that all make, each with a manager of the same folder; they write in
 * the call. A checkpoint is due for all if it is for one.
 *
 * @param[in] step Which step, epoch, or whatever the program counts; 0 or more. It names the file.
 * @param[in] metric What the best checkpoints are the best by. One that is NaN is never among the
 *   best. `metric` may be NULL: the checkpoint has none.
 * @param[in] force 1: save in any case. 0: if one is due.
 * @param[out] saved Gets 1 if it was saved, 0 if none was due; `saved` may be NULL.
 * @return UMBO_OK, or what umbo_checkpoint_save() returns, also for an earlier checkpoint that
 *   could not be written in the background: the message names its step.
 *   UMBO_STATUS_FAILED_PRECONDITION: the folder has checkpoints of another training, also if none
 *   is due; the message names the ways out.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_save(
    umbo_checkpoint_manager *manager, int64_t step, const double *metric, int32_t force,
    int32_t *saved);

/**
 * Waits until all checkpoints are on the disk.
 *
 * @return UMBO_OK, or the failure of one that could not be written.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_wait(umbo_checkpoint_manager *manager);

/**
 * Restores the newest checkpoint, if there is one. One that is damaged is passed over for the one
 * before it, with a warning in the log that names it; of a strict strategy that is
 * UMBO_STATUS_DATA_LOSS. One that the system does not open or read is not passed over: the call
 * fails, and may succeed the next time.
 *
 * @param[out] step Gets its step, or UMBO_NONE if there is none; then nothing has changed.
 * @return UMBO_OK, or what umbo_checkpoint_restore() returns, and then nothing has changed.
 *   UMBO_STATUS_DATA_LOSS: all are damaged.
 *
 * With several ranks a call that all of them make.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_restore_latest(
    umbo_checkpoint_manager *manager, int64_t *step);

/**
 * Restores the checkpoint with the best metric, if there is one. One that is damaged, so that its
 * metric is not known, is passed over as by umbo_checkpoint_manager_restore_latest().
 *
 * @param[out] step Gets its step, or UMBO_NONE if none has a metric; then nothing has
 *   changed.
 * @return UMBO_OK, or what umbo_checkpoint_restore() returns.
 *
 * With several ranks a call that all of them make.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_restore_best(
    umbo_checkpoint_manager *manager, int64_t *step);

/**
 * Tells which checkpoint is the newest. It waits for what is being written.
 *
 * @param[out] step Gets its step, or UMBO_NONE if there is none.
 * @return UMBO_OK, or:
 * - the failure of a checkpoint that could not be written, or of reading the folder or a file.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_latest(
    const umbo_checkpoint_manager *manager, int64_t *step);

/**
 * Tells which checkpoint has the best metric. It waits for what is being written. One that is
 * damaged is passed over as by umbo_checkpoint_manager_restore_latest().
 *
 * @param[out] step Gets its step, or UMBO_NONE if none has a metric.
 * @return UMBO_OK, or the statuses of umbo_checkpoint_manager_latest().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_best(
    const umbo_checkpoint_manager *manager, int64_t *step);

/**
 * Tells where the checkpoint of a step is, or would be.
 *
 * @param[in] step The step; 0 or more.
 * @param[out] buffer Gets the path and its NUL, if there is room. `buffer` may be NULL if
 *   `capacity` is 0, to ask for the length.
 * @param[in] capacity The bytes of `buffer`.
 * @param[out] length Gets the bytes of the path, without the NUL, also if there is too little room.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a step below 0.
 * - UMBO_STATUS_OUT_OF_RANGE: too little room.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_path(
    const umbo_checkpoint_manager *manager, int64_t step, char *buffer, size_t capacity,
    size_t *length);

/** Makes another handle to the same checkpoint manager: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_checkpoint_manager_retain(
    const umbo_checkpoint_manager *checkpoint_manager, umbo_checkpoint_manager **retained) {
  return umbo_retain(checkpoint_manager, UMBO_HANDLE_CHECKPOINT_MANAGER, retained);
}

/**
 * Releases a handle: umbo_release().
 *
 * The release of the last handle waits for what is being written.
 */
static inline void umbo_checkpoint_manager_release(
    const umbo_checkpoint_manager *checkpoint_manager) {
  umbo_release(checkpoint_manager, UMBO_HANDLE_CHECKPOINT_MANAGER);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

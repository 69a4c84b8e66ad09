/* Generated from src; do not edit. */
#ifndef UMBO_IO_H
#define UMBO_IO_H

/**
 * @file io.h
 * @brief Files: checkpoints, from which training resumes bit-identically; arrays; positions.
 *
 * Objects are added to a checkpoint by names, which differ. A program that resumes makes the same
 * objects, adds them by the same names, and restores the file (docs/checkpoints.md).
 * Threads: all functions are *concurrent*. Saving waits for the strategy's step; restoring is
 * refused while there is one. What would wait for a save that calls it is
 * UMBO_STATUS_FAILED_PRECONDITION. Files fail as the system says: UMBO_STATUS_NOT_FOUND,
 * UMBO_STATUS_PERMISSION_DENIED, UMBO_STATUS_RESOURCE_EXHAUSTED, UMBO_STATUS_INVALID_ARGUMENT (of
 * the path), else UMBO_STATUS_UNAVAILABLE. Paths are bytes, and need not be UTF-8.
 *
 * Example:
 * ```c
 * static umbo_status resume(umbo_checkpoint *checkpoint, umbo_variable *weights,
 *                           int64_t *epoch) {
 *   UMBO_TRY(umbo_checkpoint_add_variable(checkpoint, "weights", weights));
 *   UMBO_TRY(umbo_checkpoint_set_integer(checkpoint, "epoch", 0));
 *   umbo_status status = umbo_checkpoint_restore(checkpoint, "training.safetensors");
 *   if (status != UMBO_OK && status != UMBO_STATUS_NOT_FOUND) return status;
 *   return umbo_checkpoint_integer(checkpoint, "epoch", epoch);
 * }
 * ```
 */

#include <umbo/umbo.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a checkpoint of a strategy's training; at first it has only the strategy's step number.
 * The objects that are added are of this strategy; variables may also be of the default one.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_create(
    const umbo_strategy *strategy, umbo_checkpoint **checkpoint);

/**
 * Adds a variable: its value is saved and restored.
 *
 * @param[in] name NULL: the variable's own name.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_variable(
    umbo_checkpoint *checkpoint, const char *name, umbo_variable *variable);

/**
 * Adds an optimizer: its learning rate, iterations and loss scale, and for each variable its state
 * and step counts, by the name by which the variable was added, or its own.
 *
 * The rule's numbers, settings, groups and schedule are not saved: a program sets them again.
 * Adam's correction of bias goes by the betas that each update has used: other betas after
 * restoring are right for the updates that follow.
 * Gradients are added on their own; without them, saving fails while they hold anything.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_optimizer(
    umbo_checkpoint *checkpoint, const char *name, umbo_optimizer *optimizer);

/** Adds gradients: what several runs have accumulated with `accumulation_steps`. */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_gradients(
    umbo_checkpoint *checkpoint, const char *name, umbo_gradients *gradients);

/** Adds metrics: what they have accumulated. */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_metrics(
    umbo_checkpoint *checkpoint, const char *name, umbo_metrics *metrics);

/**
 * Adds an iterator: its position, as umbo_iterator_save_position() has it. It is restored into an
 * iterator over a pipeline that was made in the same way, over the same data.
 *
 * Save on the thread that takes the elements, between two steps: the saved position is then just
 * after the batch of the last step that took effect.
 *
 * If the ranks' iterators read data of their own (UMBO_SHARDING_OFF, UMBO_SHARDING_FILE, or a
 * dataset from a function), the checkpoint has the position of each rank, and each rank resumes at
 * its own. Another number of ranks can restore it only if all were at the same position; otherwise
 * umbo_checkpoint_restore() returns UMBO_STATUS_INVALID_ARGUMENT on all ranks.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_iterator(
    umbo_checkpoint *checkpoint, const char *name, umbo_iterator *iterator);

/**
 * Adds a tensor of the program, whose memory can be written. Nobody writes it during a save, or
 * uses it during a restore.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_add_tensor(
    umbo_checkpoint *checkpoint, const char *name, umbo_tensor *tensor);

/** Sets a number of the program, such as a loss, and adds it if it was not there. */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_set_number(
    umbo_checkpoint *checkpoint, const char *name, double number);

/** Sets a whole number of the program, such as an epoch, and adds it if it was not there. */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_set_integer(
    umbo_checkpoint *checkpoint, const char *name, int64_t integer);

/**
 * Gets a number as it was set or restored last.
 *
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no number of this name was set.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_number(
    const umbo_checkpoint *checkpoint, const char *name, double *number);

/**
 * Gets a whole number as it was set or restored last.
 *
 * @return As umbo_checkpoint_number().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_integer(
    const umbo_checkpoint *checkpoint, const char *name, int64_t *integer);

/**
 * Sets a string of the program, such as a configuration or a vocabulary, and adds it if it was not
 * there.
 *
 * @param[in] string UTF-8 of at most 1,048,576 bytes. It is copied.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a string that is too long, or another object
 *   of this name.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_set_string(
    umbo_checkpoint *checkpoint, const char *name, const char *string);

/**
 * Gets a string as it was set or restored last.
 *
 * @param[out] buffer The string. `buffer` may be NULL if `capacity` is 0.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: no string of this name was set.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_string(
    const umbo_checkpoint *checkpoint, const char *name, char *buffer, size_t capacity,
    size_t *length);

/**
 * Reads a string from a checkpoint's file, of which only the header is read: before there is a
 * strategy or a model, so that the string may say what to make.
 *
 * @param[out] buffer The string. `buffer` may be NULL if `capacity` is 0.
 * @return As umbo_checkpoint_restore() of the file, or:
 * - UMBO_STATUS_NOT_FOUND: no such file, or nothing of this name in it.
 * - UMBO_STATUS_INVALID_ARGUMENT: not a string, or not a checkpoint.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_read_string(
    const char *path, const char *name, char *buffer, size_t capacity, size_t *length);

/**
 * Saves everything that was added, and the strategy's step number, to a file.
 *
 * @return UMBO_OK, or, and then the file is as it was, UMBO_STATUS_INVALID_ARGUMENT: not a regular
 *   file, or two tensors that would have one name. UMBO_STATUS_FAILED_PRECONDITION: inside a run,
 *   while the strategy is draining, or gradients hold what would be lost: it was submitted and not
 *   applied, or they were not added. What the file system returns (see above).
 *
 * Waits for a step in progress. The file is replaced as a whole: whenever the process or the
 * machine stops, `path` leads to the old file or to the new one. When the call returns, it is on
 * the disk. If only its folder could not be synchronised, the call succeeds and logs a warning.
 * Of a symbolic link the target is replaced, or made. The new file has the mode of the old one,
 * and its owner and group if the system permits that.
 * A NaN in a variable is logged as a warning; a strict strategy fails.
 *
 * Collective: each rank writes its part of the state next to the file, in a folder that all see.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_save(
    const umbo_checkpoint *checkpoint, const char *path);

/**
 * Restores everything that was added, and the strategy's step number, from a file. Replicas and
 * ranks may be more or fewer than when it was saved.
 *
 * @return UMBO_OK, or, and then nothing has changed, UMBO_STATUS_INVALID_ARGUMENT: not a regular
 *   file, or objects that do not fit; the message lists all that is missing, unexpected or of
 *   another dtype or shape. UMBO_STATUS_FAILED_PRECONDITION: a step is in progress, or the
 *   strategy is draining. UMBO_STATUS_DATA_LOSS: the file is damaged. UMBO_STATUS_UNIMPLEMENTED: a
 *   later version of Umbo has written it. What the file system or a function of an
 *   iterator's pipeline returns.
 *
 * Collective: all ranks restore, or none.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_restore(
    umbo_checkpoint *checkpoint, const char *path);

/**
 * Saves to memory of the program the bytes that umbo_checkpoint_save() would write to a file.
 *
 * @param[out] data Gets the bytes. `data` may be NULL if `capacity` is 0.
 * @param[out] length How many bytes they are, even if they do not fit.
 * @return As umbo_checkpoint_save(), or:
 * - UMBO_STATUS_OUT_OF_RANGE: they are more than `capacity`, and nothing is written.
 * - UMBO_STATUS_UNIMPLEMENTED: there are several ranks, each of which writes a file, and the
 *   strategy is not `elastic`; or it is, and an iterator has a position of its own on each rank.
 *
 * With `elastic` of umbo_strategy_options each rank calls it for itself, also after a failure of
 * the communicator, and gets all state as it is after the last step that has counted.
 *
 * A call with a capacity of 0 asks for the size. It changes with what is saved: what gradients
 * have accumulated, and strings.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_save_to_memory(
    const umbo_checkpoint *checkpoint, void *data, size_t capacity, size_t *length);

/**
 * Restores everything that was added from the bytes of a file, as umbo_checkpoint_restore() does.
 *
 * @param[in] data The bytes, which nobody writes during the call. All ranks give the same.
 * @param[in] bytes How many they are.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_restore_from_memory(
    umbo_checkpoint *checkpoint, const void *data, size_t bytes);

/**
 * Restores everything that was added from what ranks have in memory: that of the rank with the
 * most steps, which is sent to those that have less or nothing.
 *
 * @param[in] data What umbo_checkpoint_save_to_memory() has written on this rank. NULL if it has
 *   nothing, as one that joins.
 * @param[in] bytes How many bytes they are.
 * @return As umbo_checkpoint_restore(), or UMBO_STATUS_NOT_FOUND: no rank has anything, as at the
 *   beginning of a training; nothing has changed.
 *
 * Collective. The ranks and their replicas may be others, and more or fewer, than when it was
 * saved.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_restore_from_ranks(
    umbo_checkpoint *checkpoint, const void *data, size_t bytes);

/** How weights are saved. By default each variable has its own type, and all are in one file. */
typedef struct umbo_save_weights_options {
  size_t struct_size;
  /**
   * UMBO_DTYPE_FLOAT16, UMBO_DTYPE_BFLOAT16, UMBO_DTYPE_FLOAT32 or UMBO_DTYPE_FLOAT64: all
   * floating-point variables are saved as this type, each number rounded to the nearest, ties to
   * even. A finite number that would become infinite is refused. 0: each as it is.
   */
  umbo_dtype float_dtype;
  /**
   * The most bytes of elements in a file of several, unless a single variable has more. It needs
   * a path that ends with ".json". 0: no limit.
   */
  size_t max_file_bytes;
} umbo_save_weights_options;

#define umbo_save_weights_options_defaults \
  UMBO_STRUCT_SIZE(umbo_save_weights_options), UMBO_DTYPE_NONE, 0
#define UMBO_SAVE_WEIGHTS_OPTIONS_INIT { umbo_save_weights_options_defaults }

/**
 * Names the variable that a tensor of a file is for.
 *
 * @param[in] tensor_name The tensor's name in the file. Valid for the call.
 * @param[out] variable_name The name by which a variable was added, which has to stay until the
 *   next call or the end of the load, such as a part of `tensor_name`. It is NULL at first, and if
 *   it stays so, the tensor is used for none.
 * @return UMBO_OK, or another status, which fails the load.
 *
 * It is called for each tensor, in the order of their names, on the thread that loads. A name that
 * no variable has counts as none.
 */
typedef umbo_status (*umbo_map_name_fn)(
    const char *tensor_name, void *user_data, const char **variable_name);

/**
 * Reports what became of a variable, or of a tensor of the file.
 *
 * @param[in] variable_name The variable. `variable_name` is NULL if the tensor is used for none.
 *   Valid for the call.
 * @param[in] tensor_name The tensor from which the variable was loaded. `tensor_name` is NULL if
 *   the file has none for it, so that it has kept its value. Valid for the call.
 *
 * It is called when all is loaded, on the thread that loads: for the variables in the order in
 * which they are listed or were added, then for the tensors that are left.
 */
typedef void (*umbo_loaded_weight_fn)(
    const char *variable_name, const char *tensor_name, void *user_data);

/**
 * The weights that are loaded, and from which tensors. By default all variables are, from tensors
 * that have their names, dtypes and shapes.
 */
typedef struct umbo_load_weights_options {
  size_t struct_size;
  /** How many names there are in `names`, and in `tensor_names`. */
  int64_t count;
  /** The names by which the variables to load were added. NULL: all. */
  const char *const *names;
  /** For each of `names` the name of its tensor in the file. NULL: the same names. */
  const char *const *tensor_names;
  /** The beginning of all these names of tensors in the file, such as "model.". NULL: none. */
  const char *prefix;
  /** Names the variables of tensors, in place of `tensor_names` and `prefix`. NULL: none. */
  umbo_map_name_fn map_name;
  /** Passed to `map_name`. */
  void *map_name_user_data;
  /**
   * 1: a tensor and its variable may have different types of float16, bfloat16, float32 and
   * float64. Numbers are rounded once, to the nearest, ties to even; too large ones become
   * infinite, and NaN stays NaN. 0: another type is refused.
   */
  int32_t convert_floats;
  /** 1: variables for which the file has no tensor keep their values. 0: they are refused. */
  int32_t allow_missing;
  /**
   * Reports what was loaded, what the file lacks, and which of its tensors are not used. NULL:
   * no report.
   */
  umbo_loaded_weight_fn report;
  /** Passed to `report`. */
  void *report_user_data;
} umbo_load_weights_options;

#define umbo_load_weights_options_defaults \
  UMBO_STRUCT_SIZE(umbo_load_weights_options), 0, NULL, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL
#define UMBO_LOAD_WEIGHTS_OPTIONS_INIT { umbo_load_weights_options_defaults }

/**
 * Saves only the variables that were added, for other programs, as umbo_checkpoint_save() does.
 *
 * @param[in] path The file. If it ends with ".json", as "model.safetensors.index.json" does, it is
 *   an index, in the form of Hugging Face's libraries: the variables are in files next to it,
 *   whose names are that of the index with a number of the save and of the file. Those of the
 *   index before are removed.
 * @param[in] options `options` may be NULL.
 * @return As umbo_checkpoint_save(), or:
 * - UMBO_STATUS_INVALID_ARGUMENT: also a number too large for `float_dtype`, or more than 1000
 *   files.
 *
 * Whatever fails, the path leads to the old weights or to the new ones, complete. If `float_dtype`
 * is a type other than that of variables, the call needs memory for all of them in that type.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_save_weights(
    const umbo_checkpoint *checkpoint, const char *path, const umbo_save_weights_options *options);

/**
 * Saves only the variables that were added, as umbo_checkpoint_save_to_memory() does.
 *
 * @param[in] options `options` may be NULL. There is no `max_file_bytes`: memory has one file.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_save_weights_to_memory(
    const umbo_checkpoint *checkpoint, const umbo_save_weights_options *options, void *data,
    size_t capacity, size_t *length);

/**
 * Loads values of variables from a safetensors file of any program. All other state stays as it
 * is.
 *
 * @param[in] path A safetensors file, or the index of several in its folder: a path that ends with
 *   ".json", as "model.safetensors.index.json" does.
 * @param[in] options `options` may be NULL.
 * @return As umbo_checkpoint_restore(), the status of `map_name`, or:
 * - UMBO_STATUS_NOT_FOUND: also no variable of a name in `names`.
 * - UMBO_STATUS_INVALID_ARGUMENT: also two tensors that `map_name` gives one name.
 *
 * Either all that was chosen is loaded, or nothing. Other tensors of the file are ignored.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_load_weights(
    umbo_checkpoint *checkpoint, const char *path, const umbo_load_weights_options *options);

/**
 * Loads values of variables from the bytes of a safetensors file, as
 * umbo_checkpoint_load_weights() does.
 *
 * @param[in] data The bytes, which nobody writes during the call.
 * @param[in] bytes How many they are.
 * @param[in] options `options` may be NULL.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_load_weights_from_memory(
    umbo_checkpoint *checkpoint, const void *data, size_t bytes,
    const umbo_load_weights_options *options);

/** Makes another handle to the same checkpoint: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_checkpoint_retain(
    const umbo_checkpoint *checkpoint, umbo_checkpoint **retained) {
  return umbo_retain(checkpoint, UMBO_HANDLE_CHECKPOINT, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_checkpoint_release(const umbo_checkpoint *checkpoint) {
  umbo_release(checkpoint, UMBO_HANDLE_CHECKPOINT);
}

/** The checkpoints that are kept, and when one is due. */
typedef struct umbo_checkpoint_manager_options {
  size_t struct_size;
  /** How many of the newest, those that were saved last, are kept; at least 1. */
  int64_t max_to_keep;
  /** How many of those with the best metric are kept in addition to the newest. */
  int64_t max_best_to_keep;
  /** 1: a larger metric is better. 0: a smaller one. */
  int32_t larger_is_better;
  /**
   * 0: umbo_checkpoint_manager_save() writes the file before it returns. 1: a thread of the
   * library writes it while training continues; the program then calls
   * umbo_checkpoint_manager_wait(), or releases the manager, before it ends, or loses what is
   * not written yet.
   */
  int32_t asynchronous;
  /** A checkpoint is due this many steps after the last one; at least 1, or UMBO_INFINITE. */
  int64_t every_steps;
  /** A checkpoint is due this many seconds after the last one, or UMBO_INFINITE. */
  double every_seconds;
  /**
   * 1: this training starts fresh. Checkpoints in the folder count as if they were not there,
   * and the first save moves them to a folder in it: `before-1`, or the next free name.
   */
  int32_t start_fresh;
} umbo_checkpoint_manager_options;

#define umbo_checkpoint_manager_options_defaults \
  UMBO_STRUCT_SIZE(umbo_checkpoint_manager_options), 5, 0, 0, 0, 1, UMBO_INFINITE, 0
#define UMBO_CHECKPOINT_MANAGER_OPTIONS_INIT { umbo_checkpoint_manager_options_defaults }

/**
 * Makes a manager, which keeps the newest checkpoints of one training in a folder, and the best by
 * a metric.
 *
 * @param[in] folder Made if it is not there.
 * @return UMBO_OK, or what the system says.
 *
 * The folder is the one that the path names now: a later change of the working directory or of a
 * link has no effect.
 *
 * A folder is for one training, and one process saves to it at a time: the first save locks it,
 * until the manager is released or the process ends. If it has checkpoints, a manager saves only
 * if its checkpoint was restored from one of them. So a program that may be started again calls
 * umbo_checkpoint_manager_restore_latest() first.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_create(
    umbo_checkpoint *checkpoint, const char *folder,
    const umbo_checkpoint_manager_options *options, umbo_checkpoint_manager **manager);

/**
 * Saves a checkpoint if one is due, and removes those that are not kept any more.
 *
 * @param[in] step The number of a step or an epoch, as the program counts them; 0 or more. It is a
 *   part of the file's name.
 * @param[in] metric The metric by which the best are chosen; a NaN is never among them. NULL:
 *   none.
 * @param[in] force 1: saves even if none is due. 0: if one is due.
 * @param[out] saved 1: it was saved. 0: none was due. May be NULL.
 * @return As umbo_checkpoint_save(). UMBO_STATUS_FAILED_PRECONDITION: also if the folder has
 *   checkpoints of another training, if another process saves there, or if another folder has
 *   taken its place. Also the failure of an earlier asynchronous checkpoint that no call has
 *   returned yet; the message names its step. This call has done its work then, and `saved` says
 *   whether it saved.
 *
 * The checkpoint is saved if its file is in place. An old file that cannot be removed then is a
 * warning in the log, once; the other files are removed, and later saves try again.
 *
 * Saves the state between two steps. An asynchronous call copies it and returns then; it waits
 * first if a copy is on its way to the disk already.
 *
 * Collective, and never asynchronous with several ranks: one is due for all if it is for one.
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
 * Restores the newest checkpoint that is not damaged. Damaged ones are logged as warnings. The
 * newest is the one that was saved last, whatever its step: after going back to an earlier one,
 * too.
 *
 * @param[out] step Its step, or UMBO_NONE: there is none, and nothing has changed.
 * @return As umbo_checkpoint_restore(). UMBO_STATUS_DATA_LOSS: all are damaged, or one is and the
 *   strategy is strict.
 *
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_restore_latest(
    umbo_checkpoint_manager *manager, int64_t *step);

/**
 * Restores the checkpoint with the best metric, as umbo_checkpoint_manager_restore_latest() does.
 *
 * @param[out] step Its step, or UMBO_NONE: none has a metric, and nothing has changed.
 *
 * Newer checkpoints stay until they are not kept any more. Those that are saved from here on are
 * newer than they are.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_restore_best(
    umbo_checkpoint_manager *manager, int64_t *step);

/**
 * Gets the step of the newest checkpoint, or UMBO_NONE. Waits for what is being written.
 *
 * @return UMBO_OK, or the failure of a checkpoint that could not be written, or of reading.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_latest(
    const umbo_checkpoint_manager *manager, int64_t *step);

/**
 * Gets the step of the checkpoint with the best metric, or UMBO_NONE; otherwise as
 * umbo_checkpoint_manager_latest(). Damaged ones are skipped.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_checkpoint_manager_best(
    const umbo_checkpoint_manager *manager, int64_t *step);

/** Gets the absolute path of the checkpoint of a step, whether it is there or not. */
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

/**
 * Saves a tensor as a `.npy` file, which numpy.load() reads.
 *
 * @param[in] path The file. It is replaced as a whole, or stays as it is if the call fails.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a folder, or another file that is not regular.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the folder, as the system says.
 * - UMBO_STATUS_RESOURCE_EXHAUSTED: the disk is full.
 * - UMBO_STATUS_UNAVAILABLE: another failure of the system.
 * - UMBO_STATUS_UNIMPLEMENTED: the library was built without the feature "files".
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_save(const umbo_tensor *tensor, const char *path);

/**
 * Saves tensors by name as a `.npz` file, which numpy.load() reads.
 *
 * @param[in] count How many tensors there are, 1 or more.
 * @param[in] names All different.
 * @param[in] path As for umbo_tensor_save().
 * @return As umbo_tensor_save().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_save_all(
    int64_t count, const char *const *names, umbo_tensor *const *tensors, const char *path);

/**
 * Loads a tensor from a `.npy` file, or an array from a `.npz` file, to CPU:0.
 *
 * @param[in] name The array of a `.npz` file. `name` may be NULL: a `.npy` file.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: not a file of that kind.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the file, or an array of this name.
 * - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo does not have, a compression other than DEFLATE,
 *   or the library was built without the feature "files".
 * - UMBO_STATUS_DATA_LOSS: the file is damaged.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_tensor_load(
    const char *path, const char *name, umbo_tensor **tensor);

/**
 * Makes a dataset of the rows of the array in a NumPy `.npy` file.
 *
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: not such a file, or a scalar.
 * - UMBO_STATUS_NOT_FOUND, UMBO_STATUS_PERMISSION_DENIED: the file, as the system says.
 * - UMBO_STATUS_UNIMPLEMENTED: a dtype that Umbo does not have, or the library was built without
 *   the feature "files".
 * - UMBO_STATUS_DATA_LOSS: the file is damaged.
 *
 * A file in C order and the machine's byte order, of any dtype but bool, is mapped into memory:
 * nobody may rewrite or shorten it while the dataset or an element is in use. Others are read by
 * this call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_npy_file(
    const char *path, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of arrays in a NumPy `.npz` file: structs, with a field for each
 * array.
 *
 * @param[in] names The arrays. `names` may be NULL: all, in the order of the file.
 * @return As umbo_dataset_from_npy_file(), or:
 * - UMBO_STATUS_NOT_FOUND: no array of a name.
 * - UMBO_STATUS_UNIMPLEMENTED: the file is encrypted, or compressed in a way other than by
 *   DEFLATE.
 * - UMBO_STATUS_INVALID_ARGUMENT: the arrays differ in the size of dimension 0.
 *
 * The call reads the arrays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_npz_file(
    const char *path, int64_t count, const char *const *names, umbo_dataset **dataset);

/**
 * Makes a dataset of the rows of the arrays in IDX files, the format of MNIST.
 *
 * @param[in] count How many files there are, 1 or more.
 * @param[in] names As for umbo_dataset_from_arrays(). `names` may be NULL.
 * @param[in] paths The files, plain or compressed by gzip. Their arrays have the same size of
 *   dimension 0.
 * @return As umbo_dataset_from_npy_file().
 *
 * A plain file of 8-bit elements is mapped into memory: nobody may rewrite or shorten it while the
 * dataset or an element is in use. Others are read by this call.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_idx_files(
    int64_t count, const char *const *names, const char *const *paths, umbo_dataset **dataset);

/**
 * Opens a file: makes the dataset of its elements.
 *
 * @param[in] path The file, as it was given to umbo_dataset_from_files(). Valid for the call.
 * @param[in] index Its place in the list.
 * @param[out] dataset The dataset, which the library takes over. It is NULL before, and must be
 *   set.
 * @return UMBO_OK, or another status, which umbo_iterator_next() then returns. The file is left
 *   out; but after UMBO_STATUS_RESOURCE_EXHAUSTED the next call opens it again.
 *
 * Calls for several iterators may run at the same time, on threads of the library too.
 */
typedef umbo_status (*umbo_open_file_fn)(
    const char *path, int64_t index, void *user_data, umbo_dataset **dataset);

/** How a dataset reads files. Start from UMBO_FILES_OPTIONS_INIT. */
typedef struct umbo_files_options {
  size_t struct_size;
  /**
   * The spec of the elements of all files. NULL: that of the first file, which
   * umbo_dataset_from_files() opens to see it.
   */
  const umbo_element_spec *element_spec;
  /** How many files are read at once, by turns, 1 to 4096. */
  int64_t open_file_count;
  /**
   * How many elements come from one file before it is the next one's turn. The file that follows
   * one that has ended takes its place.
   */
  int64_t consecutive_count;
  /** The seed of the order of the files. */
  uint64_t seed;
  /** 1: the order of the files is random, another one in each pass and each repetition. */
  int32_t shuffle_files;
} umbo_files_options;

#define umbo_files_options_defaults UMBO_STRUCT_SIZE(umbo_files_options), NULL, 1, 1, 0, 0
#define UMBO_FILES_OPTIONS_INIT { umbo_files_options_defaults }

/**
 * Makes a dataset of the elements of files.
 *
 * @param[in] count How many files there are, 1 or more.
 * @param[in] paths Their names, which need not be UTF-8. Only `function` looks at the files.
 * @param[in] destroy Releases `user_data`. NULL: nothing to release.
 * @param[in] options `options` may be NULL.
 * @return UMBO_OK, or the status of `function` for the first file.
 *
 * A file is opened when its first element is asked for, in each pass again. A shuffle inside a
 * file's dataset repeats the same order every pass; one of the dataset of all files has another
 * order each time. The number of elements is unknown. A file's dataset has at most 127
 * transformations; the dataset of files counts as 128.
 *
 * With UMBO_SHARDING_FILE each rank reads its own files; all ranks give the same names in the same
 * order.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_dataset_from_files(
    int64_t count, const char *const *paths, umbo_open_file_fn function, void *user_data,
    umbo_destroy_fn destroy, const umbo_files_options *options, umbo_dataset **dataset);

/**
 * Writes down the position of an iterator, a JSON text that can be kept in a file.
 *
 * @param[out] buffer The position. `buffer` may be NULL if `capacity` is 0.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION, as for umbo_iterator_next().
 *
 * The position is just after the element that umbo_iterator_next() gave last, or its failure, but
 * before an element that umbo_train_epoch() repeats. It does not contain the data.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_save_position(
    umbo_iterator *iterator, char *buffer, size_t capacity, size_t *length);

/**
 * Takes an iterator, new or in use, to a position.
 *
 * @param[in] position The text, of any length, that umbo_iterator_save_position() wrote for an
 *   iterator of the same pipeline, in this process or another.
 * @return As umbo_iterator_next(), and the iterator stays where it was, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a position of another pipeline (the message names the first
 *   stage that differs) or another version, a damaged text, or data that have become fewer.
 *
 * Pipelines may differ in the seed of a shuffle, in what is made ahead, in parallel calls and,
 * where whole batches are split over the replicas, in their number and in how they are split; a
 * dataset from a function gives each replica elements of its own, so that the numbers must be the
 * same. The elements that follow are those that followed the saved position, also in later passes.
 *
 * The library makes again what stages hold, a batch that is being re-split or a cache, and what a
 * shuffle has taken in its round; a map right in front of a shuffle is called for the shuffle's
 * buffer only. Of a generator it calls `begin`, `reset` as often as before, and `next` for each
 * element of the pass. It does not compare the data.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_iterator_restore_position(
    umbo_iterator *iterator, const char *position);

/**
 * How often an optimizer has updated a variable, and the numbers that its rule carries from one
 * update to the next.
 */
typedef struct umbo_variable_progress {
  size_t struct_size;
  /** How often it was updated. With 0 there is no state that could be read. */
  int64_t update_count;
  /**
   * Rules that correct their moments: the power of beta1, of NAdam the product of its momenta.
   * Custom rules, Adafactor, and Adagrad with `learning_rate_decay`: the number of updates.
   * Momentum with dampening: 1 once it was updated. Other rules: 0.
   */
  double first_running;
  /** Rules that correct their moments: the power of beta2. Other rules: 0. */
  double second_running;
} umbo_variable_progress;

#define UMBO_VARIABLE_PROGRESS_INIT { UMBO_STRUCT_SIZE(umbo_variable_progress), 0, 0.0, 0.0 }

/**
 * Sets a state that an optimizer keeps for a variable, as if an update had left it.
 *
 * @param[in] state Copied; of the variable's dtype and shape, or of the shape of Adafactor's
 *   states.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: the rule has no such state.
 *   UMBO_STATUS_FAILED_PRECONDITION: inside a run.
 *
 * A variable that was not updated yet counts as updated once: see
 * umbo_optimizer_set_variable_progress().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_assign_state(
    umbo_optimizer *optimizer, const umbo_variable *variable, const char *name,
    const umbo_tensor *state);

/** Gets how often an optimizer has updated a variable, and what its rule carries along. */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_variable_progress(
    const umbo_optimizer *optimizer, const umbo_variable *variable,
    umbo_variable_progress *progress);

/**
 * Sets how often an optimizer has updated a variable, and what its rule carries along.
 *
 * @param[in] progress Numbers of 0 or more, and at most 2^52 updates.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: inside a run.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_variable_progress(
    umbo_optimizer *optimizer, const umbo_variable *variable,
    const umbo_variable_progress *progress);

/**
 * Sets how many applies have taken effect: the `step` of a schedule.
 *
 * @param[in] iterations 0 to 2^52.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: inside a run.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_iterations(
    umbo_optimizer *optimizer, int64_t iterations);

/**
 * Sets the loss scale from the next run on.
 *
 * @param[in] loss_scale More than 0, and finite as a float32.
 * @param[in] applies How many applies in a row took effect with it; 0 to 2^52.
 * @return UMBO_OK, or UMBO_STATUS_FAILED_PRECONDITION: inside a run.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_optimizer_set_loss_scale(
    umbo_optimizer *optimizer, double loss_scale, int64_t applies);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

/* Generated from src; do not edit. */
#ifndef UMBO_CLUSTER_H
#define UMBO_CLUSTER_H

/**
 * @file cluster.h
 * @brief Several processes: communicators, which join them; resolvers, which know of them.
 *
 * Each process is a *rank* and creates its communicator once: of functions of its own, or of MPI;
 * NCCL moves what lies on GPUs, together with either. A communicator moves bytes and never sums:
 * the library adds contributions in rank order, so the bits of a result do not depend on what moved
 * them. A call that has failed makes all later calls UMBO_STATUS_UNAVAILABLE.
 *
 * A cluster resolver knows jobs with names, such as "worker", and their tasks, which are processes.
 *
 * Threads: getters are *concurrent*. A second call that moves bytes at the same time is
 * UMBO_STATUS_FAILED_PRECONDITION.
 *
 * Example:
 * ```c
 * // The largest of a number of each rank.
 * static umbo_status largest(umbo_communicator *communicator, int64_t number, int64_t *result) {
 *   int64_t least;
 *   return umbo_communicator_vote(communicator, number, &least, result);
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * The functions may be called on any thread, one at a time; else on the thread that made the
 * communicator.
 */
#define UMBO_COMMUNICATOR_ANY_THREAD (1)

/**
 * `all_to_all` and `all_gather` take addresses of GPU memory, too, for gradients on GPUs if all
 * ranks have theirs there: of the GPU of this rank's variables, whose context is current. Nothing
 * that is queued uses the memory; when they return, what was received has arrived. All ranks set
 * the flag, or none.
 */
#define UMBO_COMMUNICATOR_DEVICE_POINTERS (2)

/**
 * Sends a part of `send` to each rank, and receives one from each. See
 * umbo_communicator_all_to_all().
 *
 * The part for this rank itself is copied.
 */
typedef umbo_status (*umbo_communicator_all_to_all_fn)(
    const size_t *send_bytes, const void *send, const size_t *receive_bytes, void *user_data,
    void *receive);

/** Receives what each rank sends, this one too. See umbo_communicator_all_gather(). */
typedef umbo_status (*umbo_communicator_all_gather_fn)(
    const size_t *bytes, const void *send, void *user_data, void *receive);

/** Sends what rank `root` has to all others. See umbo_communicator_broadcast(). */
typedef umbo_status (*umbo_communicator_broadcast_fn)(
    int64_t root, size_t bytes, void *user_data, void *data);

/** Gets the least and the greatest of the numbers of all ranks. */
typedef umbo_status (*umbo_communicator_vote_fn)(
    int64_t number, void *user_data, int64_t *least, int64_t *greatest);

/** Returns when all ranks have called it. */
typedef umbo_status (*umbo_communicator_barrier_fn)(void *user_data);

/** Announces to the other ranks that this one cannot continue. It may end the process. */
typedef void (*umbo_communicator_abort_fn)(const char *message, void *user_data);

/**
 * The functions of a communicator, which move bytes and never sum.
 *
 * All ranks call each but `abort` in the same order, and it returns when it has what it needs of
 * the others. It must not wait without limit for a rank that is lost. After a failure only `abort`
 * is called. They must not use the communicator that calls them.
 */
typedef struct umbo_communicator_functions {
  size_t struct_size;
  /**
   * The sum of UMBO_COMMUNICATOR_ANY_THREAD and UMBO_COMMUNICATOR_DEVICE_POINTERS, whichever
   * hold.
   */
  int64_t flags;
  /** The rank of this process, from 0. */
  int64_t rank;
  /** The number of ranks, at most 65536. */
  int64_t rank_count;
  /** The position of this rank among those of its machine, from 0. */
  int64_t node_rank;
  /** The number of ranks on this machine. */
  int64_t node_rank_count;
  /** Must be set. */
  umbo_communicator_all_to_all_fn all_to_all;
  /** Must be set. */
  umbo_communicator_all_gather_fn all_gather;
  /** NULL: done by `all_gather`. */
  umbo_communicator_broadcast_fn broadcast;
  /** NULL: done by `all_gather`. */
  umbo_communicator_vote_fn vote;
  /** NULL: done by a vote. */
  umbo_communicator_barrier_fn barrier;
  /** NULL: the other ranks notice by their own means. */
  umbo_communicator_abort_fn abort;
} umbo_communicator_functions;

#define UMBO_COMMUNICATOR_FUNCTIONS_INIT \
  { UMBO_STRUCT_SIZE(umbo_communicator_functions), 0, 0, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, \
    NULL }

/** The place of this process among the ranks. */
typedef struct umbo_communicator_info {
  size_t struct_size;
  /** The rank of this process, from 0. */
  int64_t rank;
  /** The number of ranks, 1 or more. */
  int64_t rank_count;
  /** The position of this rank among those of its machine, from 0. */
  int64_t node_rank;
  /** The number of ranks on this machine, 1 or more. */
  int64_t node_rank_count;
} umbo_communicator_info;

#define UMBO_COMMUNICATOR_INFO_INIT { UMBO_STRUCT_SIZE(umbo_communicator_info), 0, 0, 0, 0 }

/**
 * Creates a communicator of functions of the program.
 *
 * @param[in] functions The functions, and the place of this process. The struct is copied.
 * @param[in] destroy Releases `user_data` when the communicator has ended. May be NULL.
 * @return UMBO_STATUS_INVALID_ARGUMENT: a function that must be set is NULL, an unknown flag, or a
 *   rank that is not less than its number of ranks.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create(
    const umbo_communicator_functions *functions, void *user_data, umbo_destroy_fn destroy,
    umbo_communicator **communicator);

/** Gets the place of this process among the ranks. */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_get_info(
    const umbo_communicator *communicator, umbo_communicator_info *info);

/**
 * Sends a part of `send` to each rank, and receives one from each.
 *
 * @param[in] send_bytes The size of each part; as many numbers as ranks.
 * @param[in] send The parts in rank order, one after the other. NULL if all are empty.
 * @param[in] receive_bytes The size of each part to receive. This rank's own is the same on both
 *   sides.
 * @param[out] receive Gets the parts in the order of the ranks that sent them; apart from `send`.
 *   NULL if all are empty.
 * @return
 * - UMBO_STATUS_INVALID_ARGUMENT: sizes that do not fit, or memory that overlaps.
 * - UMBO_STATUS_FAILED_PRECONDITION: another call of the communicator is in progress, or this is
 *   not its thread.
 * - UMBO_STATUS_UNAVAILABLE: an earlier call has failed.
 * - What the engine returns, such as UMBO_STATUS_DEADLINE_EXCEEDED.
 *
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_all_to_all(
    umbo_communicator *communicator, const size_t *send_bytes, const void *send,
    const size_t *receive_bytes, void *receive);

/**
 * Receives what each rank sends.
 *
 * @param[in] bytes How much each rank sends; as many numbers as ranks, the same on all.
 * @param[in] send What this rank sends. NULL if it is empty.
 * @param[out] receive Gets what the ranks send, in rank order, one after the other; apart from
 *   `send`. NULL if all is empty.
 * @return That of umbo_communicator_all_to_all().
 *
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_all_gather(
    umbo_communicator *communicator, const size_t *bytes, const void *send, void *receive);

/**
 * Sends what one rank has to all others.
 *
 * @param[in] root The rank that sends.
 * @param[in] bytes The size of `data`, the same on all ranks.
 * @param[in,out] data What `root` sends, and where the others get it. NULL if it is empty.
 * @return That of umbo_communicator_all_to_all().
 *
 * Collective.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_broadcast(
    umbo_communicator *communicator, int64_t root, size_t bytes, void *data);

/**
 * Gets the least and the greatest of the numbers of all ranks. Collective.
 *
 * @return That of umbo_communicator_all_to_all().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_vote(
    umbo_communicator *communicator, int64_t number, int64_t *least, int64_t *greatest);

/**
 * Waits until all ranks have called it. Collective.
 *
 * @return That of umbo_communicator_all_to_all().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_barrier(umbo_communicator *communicator);

/**
 * Announces to the other ranks that this one cannot continue, so that they need not wait for it.
 *
 * @param[in] message Why. The engine may pass it on or print it.
 *
 * MPI and other engines whose jobs end as one end this process and the others. If it returns, the
 * communicator can no longer be used on this rank.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_abort(
    umbo_communicator *communicator, const char *message);

/** Makes another handle to the same communicator: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_communicator_retain(
    const umbo_communicator *communicator, umbo_communicator **retained) {
  return umbo_retain(communicator, UMBO_HANDLE_COMMUNICATOR, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_communicator_release(const umbo_communicator *communicator) {
  umbo_release(communicator, UMBO_HANDLE_COMMUNICATOR);
}

/**
 * Finds a function of an MPI.
 *
 * @param[in] name Its name, such as "MPI_Isend".
 * @return The function, which behaves as that of the standard ABI and stays, cast to `void *`;
 *   NULL if there is none.
 */
typedef void * (*umbo_mpi_find_fn)(const char *name, void *user_data);

/** The options of a communicator over MPI. */
typedef struct umbo_mpi_options {
  size_t struct_size;
  /** How long a call waits for the other ranks; more than 0, or UMBO_INFINITE. */
  double timeout_seconds;
  /**
   * The path of an MPI library with the standard ABI. NULL: that of the environment variable
   * UMBO_MPI_LIBRARY, else libmpi_abi.so.1. The first communicator of a process opens it.
   */
  const char *library;
  /** The size of the largest message, 1 to 1073741824. More bytes go in several. */
  size_t max_message_bytes;
  /**
   * Finds the functions of an MPI of the program in place of a library; called before
   * umbo_communicator_create_mpi() returns. May be NULL.
   */
  umbo_mpi_find_fn find;
  /** Passed to `find`. */
  void *find_user_data;
} umbo_mpi_options;

#define umbo_mpi_options_defaults \
  UMBO_STRUCT_SIZE(umbo_mpi_options), 600.0, NULL, 1 << 30, NULL, NULL
#define UMBO_MPI_OPTIONS_INIT { umbo_mpi_options_defaults }

/**
 * Joins all processes that were started together, or the ranks of a communicator of MPI.
 *
 * @param[in] mpi_communicator NULL: all processes. Else an MPI_Comm of an MPI with the standard
 *   ABI, or as `options->find` takes it, whose ranks are one group; it is duplicated.
 * @param[in] options May be NULL.
 * @return
 * - UMBO_STATUS_UNAVAILABLE: no MPI library with the standard ABI, a function is missing, or MPI
 *   reports an error.
 * - UMBO_STATUS_UNIMPLEMENTED: the library was built without the feature "mpi".
 * - UMBO_STATUS_FAILED_PRECONDITION: the program has an MPI without the standard ABI (use
 *   umbo_mpi.c), MPI was finalised, or this is not its main thread, if it was initialised for that
 *   alone.
 * - UMBO_STATUS_DEADLINE_EXCEEDED: a process did not call this in time.
 *
 * All these ranks call it. The library is found at run time, and nothing of MPI is needed to
 * build; for other MPIs umbo_mpi.c, the source of the CMake target `umbo::mpi`, sets `find`. If
 * MPI is not initialised, this function does it, for one thread at a time, and the release of the
 * last communicator finalises it: create the communicator early and keep it. Only threads that
 * call this library call MPI. A rank that cannot continue calls umbo_communicator_abort(), or ends
 * without a release; the launcher then ends the job.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create_mpi(
    void *mpi_communicator, const umbo_mpi_options *options, umbo_communicator **communicator);

/** A cluster, and the place of this process in it. */
typedef struct umbo_cluster_resolver_info {
  size_t struct_size;
  /** The number of jobs. */
  int64_t job_count;
  /**
   * The job that this process is a task of; NULL if the configuration names none. Lives as long
   * as the resolver.
   */
  const char *task_type;
  /** The number of this process in its job; UMBO_NONE if the configuration gives none. */
  int64_t task_index;
  /**
   * The rank of this process; UMBO_NONE if nothing gives one. With TF_CONFIG the tasks of
   * "chief" come first, then those of "worker"; other tasks have no rank.
   */
  int64_t rank;
  /** The number of ranks; 0 if nothing gives it. */
  int64_t rank_count;
} umbo_cluster_resolver_info;

#define UMBO_CLUSTER_RESOLVER_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_cluster_resolver_info), 0, NULL, 0, 0, 0 }

/**
 * Creates a resolver from JSON in the form of TF_CONFIG.
 *
 * @param[in] text JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type":
 *   "worker", "index": 0}}, of any length. NULL: the environment variable TF_CONFIG; if it is
 *   missing or empty, an empty cluster.
 * @return UMBO_STATUS_INVALID_ARGUMENT: not JSON of this form, or a task that the cluster does not
 *   have; the message names the place.
 *
 * The tasks of a job are an array of addresses, or an object that maps numbers to addresses.
 * Fields other than "cluster" and "task" are ignored. A task of type "evaluator" need not be in
 * the cluster.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_from_tf_config(
    const char *text, umbo_cluster_resolver **resolver);

/**
 * Creates a resolver from TF_CONFIG and from what launchers set: OMPI_COMM_WORLD_RANK and _SIZE,
 * PMI_RANK and PMI_SIZE, SLURM_PROCID and SLURM_STEP_NUM_TASKS. The first pair of them that is set
 * is used.
 *
 * @return UMBO_STATUS_INVALID_ARGUMENT: a variable is malformed, or TF_CONFIG and a launcher
 *   disagree; the message names them.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_from_environment(
    umbo_cluster_resolver **resolver);

/** Gets a cluster, and the place of this process in it. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_get_info(
    const umbo_cluster_resolver *resolver, umbo_cluster_resolver_info *info);

/**
 * Gets a job.
 *
 * @param[in] index Its position in alphabetical order.
 * @param[out] name Its name. Lives as long as the resolver.
 * @param[out] task_count The number of its tasks.
 * @return UMBO_STATUS_OUT_OF_RANGE: no such job.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_job(
    const umbo_cluster_resolver *resolver, int64_t index, const char **name, int64_t *task_count);

/**
 * Gets a task of a job.
 *
 * @param[in] index Its position in the order of the numbers.
 * @param[out] number Its number: `index` if the tasks were an array.
 * @param[out] address Its address. Lives as long as the resolver.
 * @return UMBO_STATUS_NOT_FOUND: no such job; UMBO_STATUS_OUT_OF_RANGE: no such task.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task(
    const umbo_cluster_resolver *resolver, const char *job, int64_t index, int64_t *number,
    const char **address);

/** Makes another handle to the same cluster resolver: umbo_retain(). */
UMBO_MUST_USE static inline umbo_status umbo_cluster_resolver_retain(
    const umbo_cluster_resolver *cluster_resolver, umbo_cluster_resolver **retained) {
  return umbo_retain(cluster_resolver, UMBO_HANDLE_CLUSTER_RESOLVER, retained);
}

/** Releases a handle: umbo_release(). */
static inline void umbo_cluster_resolver_release(const umbo_cluster_resolver *cluster_resolver) {
  umbo_release(cluster_resolver, UMBO_HANDLE_CLUSTER_RESOLVER);
}

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

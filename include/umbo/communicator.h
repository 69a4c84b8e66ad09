/* Generated from src/ffi; do not edit. */
#ifndef UMBO_COMMUNICATOR_H
#define UMBO_COMMUNICATOR_H

/**
 * @file communicator.h
 * @brief Communicators: what joins the processes of a training.
 *
 * Each process is a *rank*, a number from 0 on, and makes its communicator once: of functions of
 * its own, or of MPI's; NCCL moves what lies on GPUs beside either. A communicator moves bytes and
 * never sums. Contributions of several processes are added by the library in the order of the
 * ranks, so that the bits of a result do not depend on what moved them.
 *
 * Functions that move bytes are collective: all ranks call them, in the same order. A call that
 * has failed makes all later calls of its communicator UMBO_STATUS_UNAVAILABLE, since ranks may
 * have come to different places.
 *
 * Threads: getters, retain and release are *concurrent*. Of the calls of a communicator that move
 * bytes one is made at a time; a second one is UMBO_STATUS_FAILED_PRECONDITION.
 *
 * Example:
 * ```c
 * // The sum of a number of each rank.
 * static umbo_status sum(umbo_communicator *communicator, double number, double *total) {
 *   double numbers[64];
 *   umbo_communicator_info here = UMBO_COMMUNICATOR_INFO_INIT;
 *   int64_t counts[64], rank;
 *   UMBO_TRY(umbo_communicator_get_info(communicator, &here));
 *   if (here.size > 64) return UMBO_STATUS_UNIMPLEMENTED;
 *   for (rank = 0; rank < here.size; rank++) counts[rank] = sizeof(number);
 *   UMBO_TRY(umbo_communicator_all_gather(communicator, &number, numbers, counts));
 *   for (*total = 0, rank = 0; rank < here.size; rank++) *total += numbers[rank];
 *   return UMBO_OK;
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif


/**
 * The functions may be called on any thread; without it, only on the thread that made the
 * communicator. One call is made at a time in any case.
 */
#define UMBO_COMMUNICATOR_ANY_THREAD (1)

/**
 * The functions take addresses of GPU memory, too. `all_to_all` and `all_gather` then get such, for
 * gradients of variables on GPUs where all ranks have theirs on GPUs: both addresses are of the GPU
 * of this rank's variables, whose context is current, and nothing that is queued there uses the
 * memory. When they return, what was received has arrived. All ranks set the flag, or none.
 */
#define UMBO_COMMUNICATOR_DEVICE_POINTERS (2)

/**
 * Sends a part of `send` to each rank, and receives one from each.
 *
 * @param[in] send The parts to send, one behind the other in the order of the ranks. NULL if all
 *   are empty.
 * @param[in] send_counts How many bytes each part has; as many numbers as there are ranks.
 * @param[out] receive Gets the parts in the order of the ranks that sent them. NULL if all are
 *   empty.
 * @param[in] receive_counts How many bytes each part has; as many numbers as there are ranks.
 * @param[in] user_data What was given to umbo_communicator_create().
 * @return UMBO_OK, or why it fails.
 *
 * The part for this rank itself is copied.
 */
typedef umbo_status (*umbo_communicator_all_to_all_fn)(
    const void *send, const int64_t *send_counts, void *receive, const int64_t *receive_counts,
    void *user_data);

/**
 * Receives what every rank sends.
 *
 * @param[in] send What this rank sends. NULL if it is empty.
 * @param[out] receive Gets what the ranks send, one behind the other in their order, this rank's
 *   own part too. NULL if all are empty.
 * @param[in] counts How many bytes each rank sends; as many numbers as there are ranks, the same
 *   on all of them.
 * @param[in] user_data What was given to umbo_communicator_create().
 * @return UMBO_OK, or why it fails.
 */
typedef umbo_status (*umbo_communicator_all_gather_fn)(
    const void *send, void *receive, const int64_t *counts, void *user_data);

/**
 * Sends what a rank has to all others.
 *
 * @param[in,out] data What rank `root` sends and the others get. NULL if it is empty.
 * @param[in] bytes How many bytes it has, on all ranks.
 * @param[in] root The rank that sends.
 * @param[in] user_data What was given to umbo_communicator_create().
 * @return UMBO_OK, or why it fails.
 */
typedef umbo_status (*umbo_communicator_broadcast_fn)(
    void *data, int64_t bytes, int64_t root, void *user_data);

/**
 * Finds the least and the greatest of the ranks' numbers.
 *
 * @param[in] number This rank's number.
 * @param[out] least The least of all.
 * @param[out] greatest The greatest of all.
 * @param[in] user_data What was given to umbo_communicator_create().
 * @return UMBO_OK, or why it fails.
 */
typedef umbo_status (*umbo_communicator_vote_fn)(
    int64_t number, int64_t *least, int64_t *greatest, void *user_data);

/**
 * Returns once all ranks have called it.
 *
 * @param[in] user_data What was given to umbo_communicator_create().
 * @return UMBO_OK, or why it fails.
 */
typedef umbo_status (*umbo_communicator_barrier_fn)(void *user_data);

/**
 * Tells the other ranks that this one cannot go on.
 *
 * @param[in] message Why.
 * @param[in] user_data What was given to umbo_communicator_create().
 *
 * It may end the process.
 */
typedef void (*umbo_communicator_abort_fn)(const char *message, void *user_data);

/**
 * The functions of a communicator, which moves bytes and never sums. Start from
 * UMBO_COMMUNICATOR_FUNCTIONS_INIT.
 *
 * Every function but `abort` is collective: all ranks call it in the same order, and it returns
 * once it has what it needs of the others. It must not wait forever: an engine whose ranks can be
 * lost returns an error after a time. After a failure no function but `abort` is called again. The
 * functions must not use the communicator that calls them.
 */
typedef struct umbo_communicator_functions {
  size_t struct_size;
  /** 0, or UMBO_COMMUNICATOR_ANY_THREAD and UMBO_COMMUNICATOR_DEVICE_POINTERS added up. */
  int64_t flags;
  /** The number of this rank, from 0. */
  int64_t rank;
  /** How many ranks there are. By default 1. */
  int64_t size;
  /** The number of this rank among those of its machine, from 0. */
  int64_t node_rank;
  /** How many ranks are on this machine. By default 1. */
  int64_t node_size;
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
  { sizeof(umbo_communicator_functions), 0, 0, 1, 0, 1, NULL, NULL, NULL, NULL, NULL, NULL }
UMBO_DEFAULT(umbo_communicator_functions, UMBO_COMMUNICATOR_FUNCTIONS_INIT)

/** Where this process stands among the ranks. Start from UMBO_COMMUNICATOR_INFO_INIT. */
typedef struct umbo_communicator_info {
  size_t struct_size;
  /** The number of this rank, from 0. */
  int64_t rank;
  /** How many ranks there are, 1 or more. */
  int64_t size;
  /** The number of this rank among those of its machine, from 0. */
  int64_t node_rank;
  /** How many ranks are on this machine, 1 or more. */
  int64_t node_size;
} umbo_communicator_info;

#define UMBO_COMMUNICATOR_INFO_INIT { sizeof(umbo_communicator_info), 0, 0, 0, 0 }
UMBO_DEFAULT(umbo_communicator_info, UMBO_COMMUNICATOR_INFO_INIT)

/**
 * Makes a communicator of functions of the program's.
 *
 * @param[in] functions The functions, and where this process stands. The struct is copied.
 * @param[in] user_data What the functions are given.
 * @param[in] destroy Releases `user_data` when the communicator is gone, exactly once, on any
 *   thread, also if this function fails. NULL: nothing to release.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a function that must be set is not, a flag is
 *   unknown, or a rank is not among the ranks; or a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create(
    const umbo_communicator_functions *functions, void *user_data, umbo_destroy_fn destroy,
    umbo_communicator **communicator);

/**
 * Gets where this process stands among the ranks.
 *
 * @param[out] info Its place. Start from UMBO_COMMUNICATOR_INFO_INIT, which sets its size.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_get_info(
    const umbo_communicator *communicator, umbo_communicator_info *info);

/**
 * Sends a part of `send` to each rank, and receives one from each.
 *
 * @param[in] send The parts to send, one behind the other in the order of the ranks. `send` may be
 *   NULL if all are empty.
 * @param[in] send_counts How many bytes each part has; as many numbers as there are ranks.
 * @param[out] receive Gets the parts in the order of the ranks that sent them. Other memory than
 *   `send`. `receive` may be NULL if all are empty.
 * @param[in] receive_counts How many bytes each part has; as many numbers as there are ranks.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: a negative count, a count of this rank for itself that is not
 *   the same on both sides, memory that overlaps, an invalid handle, or a null pointer.
 * - UMBO_STATUS_FAILED_PRECONDITION: another call of the communicator is in progress, or this is
 *   not the thread that it is for.
 * - UMBO_STATUS_UNAVAILABLE: an earlier call has failed.
 * - What the engine says, such as UMBO_STATUS_DEADLINE_EXCEEDED.
 *
 * Collective: all ranks call it, in the same order among their calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_all_to_all(
    umbo_communicator *communicator, const void *send, const int64_t *send_counts, void *receive,
    const int64_t *receive_counts);

/**
 * Receives what every rank sends.
 *
 * @param[in] send What this rank sends. `send` may be NULL if it is empty.
 * @param[out] receive Gets what the ranks send, one behind the other in their order. Other memory
 *   than `send`. `receive` may be NULL if all are empty.
 * @param[in] counts How many bytes each rank sends; as many numbers as there are ranks, the same
 *   on all of them.
 * @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
 *
 * Collective: all ranks call it, in the same order among their calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_all_gather(
    umbo_communicator *communicator, const void *send, void *receive, const int64_t *counts);

/**
 * Sends what a rank has to all others.
 *
 * @param[in,out] data What rank `root` sends, and where the others get it. `data` may be NULL if
 *   `bytes` is 0.
 * @param[in] bytes How many bytes it has, on all ranks.
 * @param[in] root The rank that sends.
 * @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
 *
 * Collective: all ranks call it, in the same order among their calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_broadcast(
    umbo_communicator *communicator, void *data, int64_t bytes, int64_t root);

/**
 * Finds the least and the greatest of the ranks' numbers.
 *
 * @param[in] number This rank's number.
 * @param[out] least The least of all.
 * @param[out] greatest The greatest of all.
 * @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
 *
 * Collective: all ranks call it, in the same order among their calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_vote(
    umbo_communicator *communicator, int64_t number, int64_t *least, int64_t *greatest);

/**
 * Waits until all ranks have called it.
 *
 * @return UMBO_OK, or an error as of umbo_communicator_all_to_all().
 *
 * Collective: all ranks call it, in the same order among their calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_barrier(umbo_communicator *communicator);

/**
 * Tells the other ranks that this one cannot go on, so that they need not wait for it.
 *
 * @param[in] message Why. The engine may pass it on or print it.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `communicator` is not a valid handle, or
 *   `message` is a null pointer.
 *
 * Engines whose jobs end as one, such as MPI, end this process and the others. Where the function
 * returns, the communicator is of no further use on this rank.
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

/** How a communicator over MPI is made. Start from UMBO_MPI_OPTIONS_INIT. */
typedef struct umbo_mpi_options {
  size_t struct_size;
  /**
   * How long a call waits for the other ranks, in seconds; UMBO_INFINITE: for
   * ever. By default 600.
   */
  double timeout_seconds;
  /**
   * The path of an MPI library with the standard ABI. NULL, the default: the one that the
   * environment variable UMBO_MPI_LIBRARY names, else libmpi_abi.so.1 where libraries are looked
   * for. Only the first communicator of a process opens it.
   */
  const char *library;
  /** The most bytes of a message, 1 to 1073741824, which is the default; more go in several. */
  int64_t longest_message;
} umbo_mpi_options;

#define UMBO_MPI_OPTIONS_INIT { sizeof(umbo_mpi_options), 600.0, NULL, 1 << 30 }
UMBO_DEFAULT(umbo_mpi_options, UMBO_MPI_OPTIONS_INIT)

/**
 * Gives a function of the program's MPI, for umbo_communicator_create_mpi_of().
 *
 * @param[in] name The function's name, such as "MPI_Isend".
 * @param[in] user_data What was given to umbo_communicator_create_mpi_of().
 * @return The function, cast to `void *`, which behaves as that of MPI's standard ABI of this name
 *   and stays; NULL if there is none.
 */
typedef void * (*umbo_mpi_find_fn)(const char *name, void *user_data);

/**
 * Joins all processes that were started together, over MPI.
 *
 * @param[in] options The options. `options` may be NULL: all defaults.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_UNAVAILABLE: there is no MPI library with the standard ABI, or MPI reports an
 *   error.
 * - UMBO_STATUS_FAILED_PRECONDITION: the program has an MPI library without the standard ABI, for
 *   which there is umbo_mpi.c; or MPI was finalised; or this is not its main thread, if it was
 *   initialised for that alone.
 * - UMBO_STATUS_DEADLINE_EXCEEDED: a process did not call this in time.
 * - UMBO_STATUS_INVALID_ARGUMENT: an option is out of range, or `communicator` is a null pointer.
 *
 * Collective: all processes call it. The library is found at run time; MPI 5.0 says how its
 * functions look in memory, so that nothing of MPI is needed to build. If the program has not
 * initialised MPI, this function does, for one thread at a time, and the release of the last
 * communicator finalises it. A process can do that once: make the communicator early and keep it.
 * MPI is called by the threads that call this library and by no other.
 *
 * A rank that cannot go on calls umbo_communicator_abort() or ends without releasing its
 * communicator; the launcher then ends the job.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create_mpi_world(
    const umbo_mpi_options *options, umbo_communicator **communicator);

/**
 * Joins the ranks of a communicator of MPI's.
 *
 * @param[in] mpi_communicator An MPI_Comm of a library with MPI's standard ABI, whose ranks are one
 *   group. It is duplicated, and stays the program's.
 * @param[in] options The options. `options` may be NULL: all defaults.
 * @return UMBO_OK, or an error as of umbo_communicator_create_mpi_world().
 *
 * Collective over the ranks of `mpi_communicator`. A program that was built with an mpi.h of
 * another ABI uses umbo_mpi.c: it links `umbo::mpi`, of find_package(umbo COMPONENTS mpi).
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create_mpi(
    void *mpi_communicator, const umbo_mpi_options *options, umbo_communicator **communicator);

/**
 * Joins the ranks of a communicator of an MPI of the program's own, whose functions it brings.
 *
 * @param[in] mpi_communicator A communicator as the functions take it, whose ranks are one group.
 *   It is duplicated, and stays the program's.
 * @param[in] find Gives the functions, which take the constants of the standard ABI. It is called
 *   before this function returns.
 * @param[in] user_data What `find` is given.
 * @param[in] options The options. `options` may be NULL: all defaults.
 * @return UMBO_OK, or an error as of umbo_communicator_create_mpi_world(); UMBO_STATUS_UNAVAILABLE
 *   also if a function is missing.
 *
 * umbo_mpi.c, the source of the CMake target `umbo::mpi`, calls this for every MPI that has an
 * mpi.h.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create_mpi_of(
    void *mpi_communicator, umbo_mpi_find_fn find, void *user_data,
    const umbo_mpi_options *options, umbo_communicator **communicator);

/** How a communicator over NCCL is made. Start from UMBO_NCCL_OPTIONS_INIT. */
typedef struct umbo_nccl_options {
  size_t struct_size;
  /**
   * How long a call waits for NCCL, in seconds; UMBO_INFINITE: for ever. By default 300. With
   * less than `base` waits, ranks can still tell each other that they have waited in vain.
   */
  double timeout_seconds;
  /**
   * The path of NCCL's library, 2.14 or newer. NULL, the default: the one that the environment
   * variable UMBO_NCCL_LIBRARY names, else libnccl.so.2 where libraries are looked for.
   */
  const char *library;
} umbo_nccl_options;

#define UMBO_NCCL_OPTIONS_INIT { sizeof(umbo_nccl_options), 300.0, NULL }
UMBO_DEFAULT(umbo_nccl_options, UMBO_NCCL_OPTIONS_INIT)

/**
 * Joins the ranks of another communicator by NCCL, too, which then moves what lies on GPUs.
 *
 * @param[in] base A communicator of any kind. Memory of the host goes over it, and it tells the
 *   ranks of each other's failures. The new communicator keeps it; the handle stays the program's,
 *   which uses it no more while the new one is used.
 * @param[in] device The GPU of this rank's variables, such as "GPU:0". Each rank has its own
 *   physical GPU.
 * @param[in] options The options. `options` may be NULL: all defaults.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_UNAVAILABLE: NCCL was not found (install it, and put its folder into
 *   LD_LIBRARY_PATH or its path into UMBO_NCCL_LIBRARY), is older than 2.14, or reports an error,
 *   as it does where two ranks are on one physical GPU.
 * - UMBO_STATUS_INVALID_ARGUMENT: `device` is no GPU, an option is out of range, an invalid handle,
 *   or a null pointer.
 * - UMBO_STATUS_NOT_FOUND: there is no such device.
 * - UMBO_STATUS_DEADLINE_EXCEEDED: a rank did not come in time.
 * - UMBO_STATUS_FAILED_PRECONDITION: another call of `base` is in progress, or this is not the
 *   thread that it is for.
 * - What `base` says.
 *
 * Collective: all ranks of `base` call it, with devices of their own. What fails on one rank
 * because of NCCL or its device fails on all, whose message names the rank, and `base` stays of
 * use, such as for training without NCCL. An argument that is refused before, such as an option, is
 * this rank's alone: it calls again, since the others wait for it.
 *
 * Gradients of variables on GPUs then go from GPU to GPU where all ranks have theirs on GPUs; they
 * are summed as ever, in the order of the ranks, with the same bits. Both exchanges of a step wait
 * until the ranks have told each other that they went well. After a timeout or an error of NCCL's
 * its communicator is ended, and this one says UMBO_STATUS_UNAVAILABLE to every call. NCCL is
 * called by the threads that call this library. Releasing the last handle ends NCCL's communicator,
 * for which the ranks of a machine may wait for each other.
 *
 * This was run over the library's own stand-in for NCCL in tests, never on GPUs.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create_nccl(
    umbo_communicator *base, const char *device, const umbo_nccl_options *options,
    umbo_communicator **communicator);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

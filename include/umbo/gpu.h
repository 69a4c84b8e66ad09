/* Generated from src; do not edit. */
#ifndef UMBO_GPU_H
#define UMBO_GPU_H

/**
 * @file gpu.h
 * @brief Experimental: streams and memory pools of the program, and NCCL.
 *
 * One GPU has run the tests, NCCL none. This and umbo_gpu_update (optimizer.h) may change in 0.1.x.
 *
 * Example:
 * ```c
 * static umbo_status share_stream(void *stream) {
 *   return umbo_device_set_stream("GPU:0", stream);
 * }
 * ```
 */

#include <umbo/cluster.h>
#include <umbo/device.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a GPU work on a stream of the program.
 *
 * @param[in] device A GPU that was not used yet.
 * @param[in] stream A CUstream of the GPU's primary context, not the default stream of each
 *   thread. It lives as long as the process. `stream` may be NULL: a stream of the library, the
 *   default.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_FAILED_PRECONDITION: the device was used already.
 * - UMBO_STATUS_UNAVAILABLE: the driver does not say whose stream it is.
 *
 * All that the library does with the GPU's memory goes through this stream. It stays with this
 * part of the physical GPU if umbo_device_set_logical_count() gives that another ordinal.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_set_stream(const char *device, void *stream);

/**
 * Makes a GPU allocate from a memory pool of the program.
 *
 * @param[in] device A GPU that was not used yet.
 * @param[in] pool A CUmemoryPool of the GPU, or of one whose memory this GPU may use
 *   (cuMemPoolSetAccess). It lives as long as the process. `pool` may be NULL: the GPU's own pool,
 *   the default.
 * @return As umbo_device_set_stream().
 *
 * The library allocates and frees in the order of the GPU's stream. A GPU that has no memory pools
 * is UMBO_STATUS_UNIMPLEMENTED at its first use. The pool stays with this part of the physical
 * GPU, as streams do.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_set_memory_pool(const char *device, void *pool);

/** The options of a communicator over NCCL. */
typedef struct umbo_nccl_options {
  size_t struct_size;
  /**
   * How long a call waits for NCCL; more than 0, or UMBO_INFINITE. Keep it below the timeout of
   * `base`, so that a timeout here can still be reported to all ranks.
   */
  double timeout_seconds;
  /**
   * The path of NCCL's library, 2.14 or newer. NULL: that of the environment variable
   * UMBO_NCCL_LIBRARY, else libnccl.so.2.
   */
  const char *library;
} umbo_nccl_options;

#define umbo_nccl_options_defaults UMBO_STRUCT_SIZE(umbo_nccl_options), 300.0, NULL
#define UMBO_NCCL_OPTIONS_INIT { umbo_nccl_options_defaults }

/**
 * Joins the ranks of another communicator by NCCL, too, which then moves what lies on GPUs.
 *
 * @param[in] base Moves memory of the host and reports failures. The new communicator keeps it; do
 *   not use it while the new one is used.
 * @param[in] device The GPU of this rank's variables, such as "GPU:0". Each rank has its own
 *   physical GPU.
 * @param[in] options May be NULL.
 * @return
 * - UMBO_STATUS_UNAVAILABLE: NCCL was not found, is older than 2.14, or reports an error (two
 *   ranks on one GPU).
 * - UMBO_STATUS_UNIMPLEMENTED: the library was built without the feature "nccl".
 * - UMBO_STATUS_INVALID_ARGUMENT: `device` is not a GPU, or an option out of range.
 * - UMBO_STATUS_NOT_FOUND: no such device.
 * - UMBO_STATUS_DEADLINE_EXCEEDED: a rank did not call this in time.
 * - The others of umbo_communicator_all_to_all() for `base`.
 *
 * Collective over `base`, which stays usable if NCCL or a device fails. Invalid arguments fail on
 * this rank only, before anything is exchanged. Call again: the other ranks are waiting.
 *
 * Gradients of variables on GPUs then go from GPU to GPU if all ranks have theirs there, and are
 * summed in rank order: all ranks have bit-identical results. After a timeout or an error of NCCL
 * every call is UMBO_STATUS_UNAVAILABLE. Only threads that call this library call NCCL. The
 * release of the last handle may wait for the ranks of this machine. This was run with a stand-in
 * for NCCL, never on GPUs.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_communicator_create_nccl(
    umbo_communicator *base, const char *device, const umbo_nccl_options *options,
    umbo_communicator **communicator);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

/* Generated from src/ffi; do not edit. */
#ifndef UMBO_DEVICE_H
#define UMBO_DEVICE_H

/**
 * @file device.h
 * @brief Devices: which there are, their names, their memory, and splitting the host into several.
 *
 * Functions take a device by its name, such as "CPU:0" or
 * "/job:localhost/replica:0/task:0/device:GPU:0". Parts may be left out, and "cpu:0" is the same
 * as "CPU:0". Physical devices are what the machine has. Each is split into one or more logical
 * devices, which strategies use. Nothing here is to be released.
 *
 * Threads: all functions are *concurrent*, except umbo_set_logical_device_count(),
 * umbo_set_device_stream() and umbo_set_device_memory_pool(), which are *serialised*.
 *
 * Example:
 * ```c
 * // Splits the host into four devices, for as many replicas.
 * static umbo_status four_devices(void) {
 *   int64_t count = 0;
 *   UMBO_TRY(umbo_set_logical_device_count(UMBO_DEVICE_CPU, 0, 4, NULL));
 *   UMBO_TRY(umbo_logical_device_count(UMBO_DEVICE_CPU, &count));
 *   return count == 4 ? UMBO_OK : UMBO_STATUS_INTERNAL;
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A type of device. */
UMBO_ENUM(umbo_device_type) {
  /** A share of the host's processors, with host memory. */
  UMBO_DEVICE_CPU = 1,
  /** A CUDA device, or a share of one. */
  UMBO_DEVICE_GPU = 2
};

/** A logical device of this process. */
typedef struct umbo_device {
  /** UMBO_DEVICE_CPU or UMBO_DEVICE_GPU. */
  umbo_device_type type;
  /** Its number among the logical devices of its type, from 0 on. */
  int32_t ordinal;
} umbo_device;

/**
 * The memory of a physical device.
 *
 * umbo_device_memory_info() fills it. Start from UMBO_MEMORY_INFO_INIT.
 */
typedef struct umbo_memory_info {
  size_t struct_size;
  /** The whole memory, in bytes. */
  uint64_t total_bytes;
  /** How many bytes could be allocated now, if nobody else allocates any. */
  uint64_t available_bytes;
} umbo_memory_info;

#define UMBO_MEMORY_INFO_INIT { sizeof(umbo_memory_info), 0, 0 }
UMBO_DEFAULT(umbo_memory_info, UMBO_MEMORY_INFO_INIT)

/**
 * Counts the physical devices of a type.
 *
 * @param[in] type UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
 * @param[out] count How many there are; 0 GPUs if there is no driver.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `type` is none of the constants, or `count` is
 *   a null pointer.
 *
 * There is one CPU, the host. GPUs are those that the CUDA driver shows to this process. The first
 * call that asks about GPUs starts the driver.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_physical_device_count(
    umbo_device_type type, int64_t *count);

/**
 * Counts the logical devices of a type.
 *
 * @param[in] type UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
 * @param[out] count How many there are. Their numbers are 0 to `count` - 1.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `type` is none of the constants, or `count` is
 *   a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_logical_device_count(umbo_device_type type, int64_t *count);

/**
 * Splits a physical device into several logical devices.
 *
 * @param[in] type UMBO_DEVICE_CPU or UMBO_DEVICE_GPU.
 * @param[in] physical_ordinal Which physical device of this type, from 0 on.
 * @param[in] count How many logical devices it becomes: 1 to 4096 for the host, 1 to 64 for a GPU.
 * @param[in] memory_limits How many bytes each logical GPU may allocate, `count` numbers of 1 or
 *   more. `memory_limits` may be NULL: equal shares of the memory, or all of it for one. The host
 *   has no limits.
 * @return UMBO_OK, or one of these, and then nothing changes:
 * - UMBO_STATUS_NOT_FOUND: there is no such physical device.
 * - UMBO_STATUS_INVALID_ARGUMENT: `type` is none of the constants, `physical_ordinal` is negative,
 *   `count` is less than 1 or too large, or a limit is less than 1 or given for the host.
 * - UMBO_STATUS_FAILED_PRECONDITION: a device would go away that a strategy uses; or a GPU would
 *   get another number or share that was used already.
 *
 * The new split takes the place of the one before. The host is physical CPU 0; its logical devices
 * share its processors. Strategies that exist keep the processors that they have. Each of several
 * logical GPUs may allocate an equal share of the memory of its GPU, and has a stream of its own.
 * GPUs are split before they are first used.
 *
 * Logical GPUs are numbered through all physical GPUs, so that those of GPUs with higher ordinals
 * may get other numbers. Each keeps the stream of umbo_set_device_stream() and the pool of
 * umbo_set_device_memory_pool() under its new number. Of this GPU, the first `count` logical GPUs
 * keep theirs, and what was set for others is forgotten.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_logical_device_count(
    umbo_device_type type, int32_t physical_ordinal, int64_t count, const int64_t *memory_limits);

/**
 * Has a GPU work on a stream of the program's.
 *
 * @param[in] device The name of a device that was not used yet.
 * @param[in] stream A CUstream of the GPU's primary context, which must live as long as the
 *   process. `stream` may be NULL: a stream that the library makes, as if this were not called.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `device` is no device name, a CPU is given a stream, or `stream`
 *   is not of the GPU's primary context, is the default stream of each thread, or no stream.
 * - UMBO_STATUS_NOT_FOUND: there is no such device.
 * - UMBO_STATUS_FAILED_PRECONDITION: the device was used already.
 * - UMBO_STATUS_UNAVAILABLE: the driver does not tell whose stream it is.
 *
 * All that the library does with the GPU's memory then goes through this stream, and
 * umbo_replica_context_get_info() has it. It stays with this part of its physical GPU when
 * umbo_set_logical_device_count() gives that another number.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_device_stream(const char *device, void *stream);

/**
 * Has the memory of a GPU come from a memory pool of the program's.
 *
 * @param[in] device The name of a device that was not used yet.
 * @param[in] pool A CUmemoryPool of the GPU, which must live as long as the process. `pool` may be
 *   NULL: the GPU's default pool, as if this were not called.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_INVALID_ARGUMENT: `device` is no device name, a CPU is given a pool, or `pool` is
 *   no pool, or one of another GPU, whose memory this one was not let use (cuMemPoolSetAccess).
 * - UMBO_STATUS_NOT_FOUND: there is no such device.
 * - UMBO_STATUS_FAILED_PRECONDITION: the device was used already.
 * - UMBO_STATUS_UNAVAILABLE: the driver does not tell whose pool it is.
 *
 * All that the library allocates on the GPU then comes from the pool, in the order of the GPU's
 * stream, and goes back to it. A pool that has no more gives UMBO_STATUS_RESOURCE_EXHAUSTED to the
 * call that needs memory. GPUs that have no memory pools are UMBO_STATUS_UNIMPLEMENTED at their
 * first use. The pool stays with this part of its physical GPU when umbo_set_logical_device_count()
 * gives that another number.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_device_memory_pool(const char *device, void *pool);

/**
 * Writes the canonical form of a device name.
 *
 * @param[in] name The name of a device, in part or in full.
 * @param[in] defaults Gives the parts that `name` does not have. `defaults` may be NULL: then
 *   CPU:0 of this process gives them, as it gives parts that `defaults` does not have.
 * @param[out] buffer The canonical name, ended by a NUL. `buffer` may be NULL if `capacity` is 0.
 * @param[in] capacity The size of `buffer` in bytes.
 * @param[out] length The length of the canonical name in bytes, without the NUL.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: `capacity` is too small. `buffer` is not written, but `length` is.
 * - UMBO_STATUS_INVALID_ARGUMENT: `name` or `defaults` is not a device name, or an output is a
 *   null pointer.
 *
 * A canonical name is, for example, "/job:localhost/replica:0/task:0/device:CPU:0". The device
 * need not exist.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_canonical_name(
    const char *name, const char *defaults, char *buffer, size_t capacity, size_t *length);

/**
 * Finds out which device of this process a name means.
 *
 * @param[in] name The name of a device, in part or in full. Missing parts are those of CPU:0 of
 *   this process.
 * @param[out] device Its type and its number.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: the name is that of a device of another process.
 * - UMBO_STATUS_INVALID_ARGUMENT: `name` is not a device name, or `device` is a null pointer.
 *
 * The device need not exist.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_parse(const char *name, umbo_device *device);

/**
 * Gives the memory of a physical device, in all and free.
 *
 * @param[in] device The name of a logical device, which is a part of the physical one. `device`
 *   may be NULL: CPU:0.
 * @param[out] info The memory. Start from UMBO_MEMORY_INFO_INIT.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: there is no such device.
 * - UMBO_STATUS_UNAVAILABLE: the system or the driver does not tell, or the GPU is lost to this
 *   process.
 * - UMBO_STATUS_INVALID_ARGUMENT: `device` is not a device name, or `info` is a null pointer, or
 *   its `struct_size` is not set.
 *
 * For a GPU the call can be slow if nothing else in the process is using that GPU.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_memory_info(
    const char *device, umbo_memory_info *info);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

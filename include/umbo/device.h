/* Generated from src; do not edit. */
#ifndef UMBO_DEVICE_H
#define UMBO_DEVICE_H

/**
 * @file device.h
 * @brief Devices: their names and their memory.
 *
 * Physical devices are what the machine has: one CPU, which is all its processors, and GPUs. Each
 * is split into one or more logical devices, which strategies use; `cpu_replicas` of
 * umbo_strategy_options splits the CPU. Functions take a logical device by its name: "GPU:1",
 * "cpu:0", or in full "/job:localhost/replica:0/task:0/device:GPU:1". A part that a name does not
 * have is that of CPU:0 of this process. Where the name may be NULL, the device is the replica's in
 * a replica's callback, elsewhere CPU:0. Any function returns UMBO_STATUS_NOT_FOUND for a device
 * that does not exist, UMBO_STATUS_UNAVAILABLE for a GPU that cannot be used or is lost.
 *
 * Threads: all functions are *concurrent*. Those of expert.h and gpu.h that set something are
 * *serialised*.
 *
 * Example:
 * ```c
 * // Whether this process has a GPU.
 * static umbo_status find_gpu(int *found) {
 *   umbo_device_info info = UMBO_DEVICE_INFO_INIT;
 *   UMBO_TRY(umbo_device_get_info("GPU:0", &info));
 *   *found = info.name != NULL;
 *   return UMBO_OK;
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A type of device. */
typedef enum umbo_device_type UMBO_INT32 {
  /** A share of the host's processors, with host memory. */
  UMBO_DEVICE_CPU = 401,
  /** A CUDA device, or a share of one. */
  UMBO_DEVICE_GPU = 402
} umbo_device_type;

/** A logical device of this process. */
typedef struct umbo_device {
  /** Whether it is a CPU or a GPU. */
  umbo_device_type type;
  /** Its number among the logical devices of its type, from 0. */
  int32_t ordinal;
} umbo_device;

/** The properties of a device. Start from UMBO_DEVICE_INFO_INIT. */
typedef struct umbo_device_info {
  size_t struct_size;
  /** Its type, and its number among the logical devices of that type. */
  umbo_device device;
  /** The canonical name, which lives as long as the process. NULL: the device does not exist. */
  const char *name;
  /**
   * How many physical devices of its type there are: one CPU, which is the host, and the GPUs
   * that the CUDA driver shows to this process.
   */
  int64_t physical_count;
  /**
   * How many logical devices of its type there are. Their ordinals are 0 to `logical_count` - 1.
   */
  int64_t logical_count;
  /**
   * The memory of its physical device, or its own memory limit. 0: not known, because the device
   * does not exist or is lost.
   */
  size_t total_bytes;
  /** How much of this memory could be allocated now; 0 if that is not known. */
  size_t available_bytes;
  /**
   * The number of its physical device, from 0: for a GPU the ordinal that the CUDA driver
   * gives it in this process. UMBO_NONE: the device does not exist.
   */
  int64_t physical_ordinal;
} umbo_device_info;

#define UMBO_DEVICE_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_device_info), { UMBO_ENUM_VALUE(umbo_device_type, 0), 0 }, NULL, 0, 0, \
    0, 0, 0 }

/**
 * Gets what is known of a device, and how many devices of its type there are.
 *
 * @param[in] device The name. The device need not exist. `device` may be NULL: CPU:0.
 * @return UMBO_OK, or UMBO_STATUS_NOT_FOUND: a device of another process.
 *
 * The first call for a GPU starts the CUDA driver. A call for a GPU that nothing in the process
 * uses can be slow.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_get_info(const char *device, umbo_device_info *info);

/**
 * Gets how many processors this process may use.
 *
 * @param[out] count Those that it may run on (its affinity), but no more than it has the time of
 *   (the quota of a cgroup); 1 or more.
 *
 * `cpu_replicas` UMBO_AUTO of umbo_strategy_options makes as many replicas.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_processor_count(int64_t *count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

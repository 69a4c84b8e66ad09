/* Generated from src/ffi; do not edit. */
#ifndef UMBO_DEVICE_H
#define UMBO_DEVICE_H

/**
 * @file device.h
 * @brief Devices: which there are, their names, their memory, and splitting the host into several.
 *
 * A device is told by its name, such as "CPU:0" or "/job:localhost/replica:0/task:0/device:GPU:0".
 * Physical devices are what the machine has; each is split into one or more logical devices, which
 * strategies use. Nothing here is owned: names that are given out live as long as the process.
 *
 * Threads: all functions are *concurrent*, but umbo_set_logical_device_count() is *serialised*.
 *
 * Functions:
 * - umbo_physical_device_count(): How many physical devices of a type there are: one CPU, which is
 *   the host, and the GPUs that the CUDA driver shows to this process; 0 GPUs if there is no
 *   driver.
 * - umbo_logical_device_count(): How many logical devices of a type there are; their indices are 0
 *   to one less.
 * - umbo_set_logical_device_count(): Splits a physical device into `count` logical ones, in place
 *   of the split before.
 * - umbo_device_canonical_name(): The canonical form of a device name, such as
 *   "/job:localhost/replica:0/task:0/device:CPU:0".
 * - umbo_device_parse(): The device of this process that a name means.
 * - umbo_device_memory_info(): The memory of the physical device that `device` (NULL: CPU:0) is a
 *   part of.
 *
 * Example:
 * ```c
 * // Splits the host into four devices, for as many replicas.
 * static umbo_status four_devices(void) {
 *   int64_t count = 0;
 *   UMBO_TRY(umbo_set_logical_device_count(UMBO_DEVICE_CPU, 0, 4));
 *   UMBO_TRY(umbo_logical_device_count(UMBO_DEVICE_CPU, &count));
 *   return count == 4 ? UMBO_OK : UMBO_STATUS_INTERNAL;
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A kind of device. */
UMBO_ENUM(umbo_device_type) {
  /** A share of the host's processors, with host memory. */
  UMBO_DEVICE_CPU = 1,
  /** A CUDA device or a share of one. */
  UMBO_DEVICE_GPU = 2
};

/** A logical device of this process. */
typedef struct umbo_device {
  /** UMBO_DEVICE_CPU or UMBO_DEVICE_GPU. */
  umbo_device_type type;
  /** Its number among the logical devices of its type. */
  int32_t ordinal;
} umbo_device;

/** The memory of the physical device that a logical device is a part of. */
typedef struct umbo_memory_info {
  /** `sizeof(umbo_memory_info)`; set by the caller. */
  size_t struct_size;
  /** All of it. */
  uint64_t total_bytes;
  /** What could be allocated now, if nobody else asks. */
  uint64_t available_bytes;
} umbo_memory_info;

/** The starting value of a umbo_memory_info. */
#define UMBO_MEMORY_INFO_INIT { sizeof(umbo_memory_info), 0, 0 }

/** UMBO_MEMORY_INFO_INIT, to be assigned. */
static inline umbo_memory_info umbo_memory_info_default(void) {
  umbo_memory_info value = UMBO_MEMORY_INFO_INIT;
  return value;
}

/**
 * How many physical devices of a type there are: one CPU, which is the host, and the GPUs that
 * the CUDA driver shows to this process; 0 GPUs if there is no driver.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_physical_device_count(
    umbo_device_type type, int64_t *count);

/** How many logical devices of a type there are; their indices are 0 to one less. */
UMBO_MUST_USE UMBO_API umbo_status umbo_logical_device_count(umbo_device_type type, int64_t *count);

/**
 * Splits a physical device into `count` logical ones, in place of the split before. The host is
 * physical CPU 0; its logical devices share its processors out.
 *
 * NOT_FOUND if there is no such physical device, INVALID_ARGUMENT for a count that is less than 1
 * or too large, UNIMPLEMENTED for a GPU and more than one, FAILED_PRECONDITION while a strategy
 * lives that uses a device which would vanish; then nothing changes.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_logical_device_count(
    umbo_device_type type, int32_t physical_ordinal, int64_t count);

/**
 * The canonical form of a device name, such as "/job:localhost/replica:0/task:0/device:CPU:0".
 * Parts that `name` lacks come from `defaults`, whose own come from CPU:0 of this process, as
 * they do if `defaults` is NULL. The device need not exist.
 *
 * `length` gets the length without the NUL, also if `capacity`, the size of `buffer` in bytes, is
 * not enough: then the result is OUT_OF_RANGE and `buffer`, which may be NULL if `capacity` is 0,
 * is not written.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_canonical_name(
    const char *name, const char *defaults, char *buffer, size_t capacity, size_t *length);

/**
 * The device of this process that a name means. It need not exist. NOT_FOUND if the name is of
 * another process.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_parse(const char *name, umbo_device *device);

/**
 * The memory of the physical device that `device` (NULL: CPU:0) is a part of. NOT_FOUND if there
 * is no such device, UNAVAILABLE if the system or the driver does not tell.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_device_memory_info(
    const char *device, umbo_memory_info *info);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

/* Generated from src; do not edit. */
#ifndef UMBO_DLPACK_H
#define UMBO_DLPACK_H

/**
 * @file dlpack.h
 * @brief The structs of DLPack 1.0, for programs that have no header of DLPack.
 *
 * expert.h knows the structs by name only. A program that looks into them includes this header, or
 * that of DLPack (`dlpack/dlpack.h`), or both: the definitions of the first one are used. A later
 * version of DLPack comes first.
 *
 * Example:
 * ```c
 * // The first element of another library's float32 vector, which is released.
 * static umbo_status first_of(struct DLManagedTensorVersioned *managed, float *first) {
 *   umbo_tensor *tensor = NULL;
 *   umbo_view view;
 *   umbo_status status = umbo_tensor_from_dlpack(managed, &tensor);
 *   if (status != UMBO_OK) managed->deleter(managed); // it was not taken over
 *   if (status == UMBO_OK) status = umbo_tensor_view(tensor, &view);
 *   if (status == UMBO_OK) *first = *(const float *)view.data;
 *   umbo_tensor_release(tensor); // calls the deleter
 *   return status;
 * }
 * ```
 */

#include <umbo/expert.h>

#ifndef DLPACK_DLPACK_H_
#define DLPACK_DLPACK_H_

#include <stddef.h>
#include <stdint.h>

/** The version of the layout. */
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 0

/** Flags of a DLManagedTensorVersioned. */
#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif

#ifdef _WIN32
#ifdef DLPACK_EXPORTS
#define DLPACK_DLL __declspec(dllexport)
#else
#define DLPACK_DLL __declspec(dllimport)
#endif
#else
#define DLPACK_DLL
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** The version of a DLManagedTensorVersioned. Another `major` means another layout. */
typedef struct {
  uint32_t major;
  uint32_t minor;
} DLPackVersion;

/** The kinds of devices. Umbo takes and gives kDLCPU and kDLCUDA, and takes kDLCUDAHost. */
typedef enum UMBO_INT32 {
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17
} DLDeviceType;

/** A device. */
typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

/** What numbers are. */
typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U,
  kDLBool = 6U
} DLDataTypeCode;

/** The type of elements: `lanes` numbers of `bits` bits. */
typedef struct {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

/** The place of elements in memory. Strides are in elements; NULL means row-major order. */
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;
  int64_t *strides;
  uint64_t byte_offset;
} DLTensor;

/** A tensor and how to release it, before version 1. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

/** A tensor and how to release it, since version 1. */
typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self);
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* DLPACK_DLPACK_H_ */

#endif

/* Generated from src/ffi; do not edit. */
#ifndef UMBO_CORE_H
#define UMBO_CORE_H

/**
 * @file core.h
 * @brief What all headers use: status and last error, the types of handles, version, log, threads.
 *
 * What is said here holds for the functions of all headers.
 *
 * Status. A function that can fail returns a umbo_status: UMBO_OK (0), or why it failed. It writes
 * its outputs only if it succeeds. UMBO_TRY(call) returns from the calling function if the call
 * fails.
 *
 * Last error. umbo_last_error_message() says what went wrong in the last function that failed on
 * the calling thread. What fails on a replica's thread is carried to the thread that called.
 * Functions that succeed leave it as it is.
 *
 * Ownership. Objects are handles: pointers that are never to be dereferenced. NULL, a released
 * handle, one of another type and a number that never was a handle are recognised and give
 * UMBO_STATUS_INVALID_ARGUMENT. Whoever gets a handle from a function owns a reference and releases
 * it with umbo_X_release(), which accepts NULL; umbo_X_retain() makes one more handle to the same
 * object, which is released by itself. What a callback is given is lent for the call: it cannot be
 * released, and is stale afterwards; retaining it is how a callback keeps it.
 *
 * Pointers. Every pointer must lead to what its type and the function's description say, or be
 * NULL; NULL where something is expected is UMBO_STATUS_INVALID_ARGUMENT. Texts are UTF-8, ended by
 * a NUL, and have at most 4095 bytes, as paths have.
 *
 * Callbacks. They return a umbo_status and get `user_data` back, last. umbo_set_last_error() says
 * why one fails. They may call functions of the library. A C++ exception must not leave them
 * (umbo.hpp takes care of that), nor a longjmp. Where the library keeps a callback it also takes a
 * `destroy`, which runs exactly once, on any thread, also if the call that took it fails.
 *
 * Threads. Any thread may call any function. A function that takes `const umbo_X *` does not change
 * the object and may run at the same time as others on it. While a call reads or writes a tensor,
 * nobody else may write it.
 *
 * Memory. Without memory, or a thread, for what it is to do a function returns
 * UMBO_STATUS_RESOURCE_EXHAUSTED, and variables, gradients and optimizers are as they were before
 * it. What has been committed is never reported as failed. Small memory is set aside, so that what
 * has begun can be ended in order: releases work without memory, and so do the functions of the
 * last error, umbo_scope_exit(), umbo_set_strategy(), umbo_cancellation_cancel(),
 * umbo_strategy_synchronize() and umbo_live_handles(). Give memory back and go on. What still ends
 * the process for want of memory:
 * - the C library's and Rust's own records of a thread, less than 100 bytes each, when a thread
 *   first calls the library or one of the library's threads starts, if another thread takes the
 *   last memory right after the library has asked for 64 KiB and got it; and the thread-local data
 *   of a library that was loaded by dlopen(), which the C library makes at a thread's first call;
 * - the directory of a .npz file, if it names so many arrays that a table of them takes more than
 *   64 KiB;
 * - the system itself, if it has promised memory that it does not have.
 *
 * Options. Structs of options start with `struct_size`; the UMBO_X_INIT macros set it and give
 * every other field its default. What a field says counts as it stands: 0 is 0. NULL in place of a
 * struct means all defaults. A program that was built with an older or newer header works as long
 * as it does not use what this library does not know.
 *
 * Threads: all functions here are *concurrent*: any thread may call them at any time. Other headers
 * also call functions *serialised* (any thread may call them; the library takes turns) and say
 * where the *caller locks* (no two threads may call them on one object at the same time). The last
 * error belongs to its thread.
 *
 * Functions:
 * - umbo_status_name(): The name of a status, such as "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for a
 *   number that is none.
 * - umbo_last_error_message(): What went wrong in the last umbo function that failed on this
 *   thread, in UTF-8: one line that begins with the function's name ("umbo_strategy_reduce: axis:
 *   ..."), or one line for each replica that failed, which begins with the replica.
 * - umbo_last_error_count(): How many failures the last error consists of: one for each replica
 *   that failed or was stopped, in replica order; 1 if the failure is not a replica's; 0 if there
 *   is none.
 * - umbo_last_error_at(): One failure of the last error.
 * - umbo_set_last_error(): Says why a callback is about to fail; to be called in it, as `return
 *   umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "...", NULL, NULL);`.
 * - umbo_clear_last_error(): Forgets this thread's last error and releases its payload.
 * - umbo_version(): The version of the library that is loaded, such as "0.1.0".
 * - umbo_version_number(): The version of the library that is loaded as one number, major *
 *   1000000 + minor * 1000 + patch.
 * - umbo_build_info(): How the library was built, as one JSON object: "version", "target",
 *   "profile".
 * - umbo_has_feature(): Whether a feature works here and now: `result` gets 1 or 0.
 * - umbo_set_log_callback(): Sends log messages up to the level `most_verbose` to `callback`, in
 *   place of the one before.
 * - umbo_set_worker_count(): Sets how many threads do central work (reductions, updates, copies),
 *   the calling one included.
 * - umbo_worker_count(): How many threads do central work.
 * - umbo_shutdown(): Ends the threads of the library that no object needs (those for central work,
 *   and those that share heavy computations such as the equivalence check's), waits for their
 *   end, and gives kept memory back: for programs that look for leaks or are about to unload the
 *   library.
 * - umbo_live_handles(): How many handles of a type are in use: made and not yet released.
 *
 * Example:
 * ```c
 * #include <stdio.h>
 *
 * // Prints all that went wrong in the last call that failed on this thread.
 * static void print_last_error(void) {
 *   int64_t index, count = umbo_last_error_count();
 *   for (index = 0; index < count; index++) {
 *     umbo_error_info info = UMBO_ERROR_INFO_INIT;
 *     if (umbo_last_error_at(index, &info) != UMBO_OK) return;
 *     printf("%s: %s\n", umbo_status_name(info.status), info.message);
 *   }
 * }
 * ```
 */

#include <stddef.h>
#include <stdint.h>

/** The version of this header; umbo_version() tells the library's. */
#define UMBO_VERSION "0.1.0"
#define UMBO_VERSION_MAJOR 0
#define UMBO_VERSION_MINOR 1
#define UMBO_VERSION_PATCH 0
#define UMBO_VERSION_NUMBER \
  (UMBO_VERSION_MAJOR * 1000000 + UMBO_VERSION_MINOR * 1000 + UMBO_VERSION_PATCH)

/** Marks the functions of the library. Define UMBO_STATIC to link the static library on Windows. */
#if defined(_WIN32) && defined(UMBO_STATIC)
#define UMBO_API
#elif defined(_WIN32)
#define UMBO_API __declspec(dllimport)
#elif defined(__GNUC__)
#define UMBO_API __attribute__((visibility("default")))
#else
#define UMBO_API
#endif

/** Has the compiler warn where a status is thrown away. Who means it calls umbo_ignore(). */
#if defined(__cplusplus)
#if __cplusplus >= 201703L || (defined(_MSVC_LANG) && _MSVC_LANG >= 201703L)
#define UMBO_MUST_USE [[nodiscard]]
#endif
#elif defined(__STDC_VERSION__) && __STDC_VERSION__ > 201710L && defined(__has_c_attribute)
#if __has_c_attribute(nodiscard)
#define UMBO_MUST_USE [[nodiscard]]
#endif
#endif
#if defined(UMBO_MUST_USE)
#elif defined(__GNUC__)
#define UMBO_MUST_USE __attribute__((warn_unused_result))
#elif defined(_MSC_VER)
#include <sal.h>
#define UMBO_MUST_USE _Check_return_
#else
#define UMBO_MUST_USE
#endif

/**
 * Begins an enum, whose constants follow in braces: a type of its own, with 32 bits, in C++ and
 * C23; in older C another name of int32_t. The binary interface is the same.
 */
#if (defined(__cplusplus) && (__cplusplus >= 201103L || defined(_MSVC_LANG))) || \
    (!defined(__cplusplus) && defined(__STDC_VERSION__) && \
     (__STDC_VERSION__ >= 202311L || (__STDC_VERSION__ > 201710L && __GNUC__ >= 13)))
#define UMBO_ENUM(name) enum name : int32_t; typedef enum name name; enum name : int32_t
#else
#define UMBO_ENUM(name) typedef int32_t name; enum name##_constants
#endif

/** A number as an enum, for numbers that no constant stands for. */
#ifdef __cplusplus
#define UMBO_ENUM_VALUE(type, number) static_cast<type>(number)
#else
#define UMBO_ENUM_VALUE(type, number) ((type)(number))
#endif

/** Returns from the calling function with the status of a call, if it failed. */
#define UMBO_TRY(call)                                      \
  do {                                                      \
    const umbo_status umbo_try_status = (call);             \
    if (umbo_try_status != UMBO_OK) return umbo_try_status; \
  } while (0)

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Releases `user_data`. Runs exactly once, on any thread, also when the call that took the user
 * data fails; the library does not use the user data afterwards. May be NULL.
 */
typedef void (*umbo_destroy_fn)(void *user_data);

/**
 * The result of a function: `UMBO_OK`, or why it failed. The codes are the canonical ones with
 * their usual numbers.
 */
UMBO_ENUM(umbo_status) {
  /** Success. */
  UMBO_OK = 0,
  /** Stopped on request, or because another replica failed. */
  UMBO_STATUS_CANCELLED = 1,
  /** A callback failed with a status that is none of these. */
  UMBO_STATUS_UNKNOWN = 2,
  /** An argument has a wrong value, shape, dtype or name, or is NULL or a stale handle. */
  UMBO_STATUS_INVALID_ARGUMENT = 3,
  /** Not finished when the deadline came. */
  UMBO_STATUS_DEADLINE_EXCEEDED = 4,
  /** A device, file or name that is not there. */
  UMBO_STATUS_NOT_FOUND = 5,
  /** Something that is to be made is there already. */
  UMBO_STATUS_ALREADY_EXISTS = 6,
  /** The operating system refused access. */
  UMBO_STATUS_PERMISSION_DENIED = 7,
  /** Memory, threads or handles could not be had. */
  UMBO_STATUS_RESOURCE_EXHAUSTED = 8,
  /** The call is right but not now or not here: wrong context, wrong order, draining. */
  UMBO_STATUS_FAILED_PRECONDITION = 9,
  /** Given up because of a conflict with something that ran at the same time. */
  UMBO_STATUS_ABORTED = 10,
  /** An axis, index or position lies outside of what there is. */
  UMBO_STATUS_OUT_OF_RANGE = 11,
  /** Not offered by this strategy, or not by this version. */
  UMBO_STATUS_UNIMPLEMENTED = 12,
  /** A defect of the library. */
  UMBO_STATUS_INTERNAL = 13,
  /** Offered, but what it needs is not here now (a driver, a device). */
  UMBO_STATUS_UNAVAILABLE = 14,
  /** A file or stream is damaged. */
  UMBO_STATUS_DATA_LOSS = 15
};

/** One failure: of the call, or of one replica of it. */
typedef struct umbo_error_info {
  /** `sizeof(umbo_error_info)`; set by the caller. */
  size_t struct_size;
  /** Why it failed. */
  umbo_status status;
  /** The replica that failed; -1 if the failure is not a replica's. */
  int32_t replica;
  /** The canonical name of the replica's compute device; "" if the failure is not a replica's. */
  const char *device;
  /** What went wrong, in UTF-8. */
  const char *message;
  /**
   * What the failing callback attached with umbo_set_last_error(); NULL if nothing. It stays
   * the library's: look at it, do not destroy it.
   */
  void *payload;
  /** The `destroy` that came with the payload, by which its owner can recognise it. */
  umbo_destroy_fn payload_destroy;
} umbo_error_info;

/** The starting value of a umbo_error_info. */
#define UMBO_ERROR_INFO_INIT { sizeof(umbo_error_info), UMBO_OK, 0, NULL, NULL, NULL, NULL }

/** UMBO_ERROR_INFO_INIT, to be assigned. */
static inline umbo_error_info umbo_error_info_default(void) {
  umbo_error_info value = UMBO_ERROR_INFO_INIT;
  return value;
}

/**
 * The name of a status, such as "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for a number that is none.
 * Lives as long as the process.
 */
UMBO_API const char *umbo_status_name(umbo_status status);

/**
 * What went wrong in the last umbo function that failed on this thread, in UTF-8: one line that
 * begins with the function's name ("umbo_strategy_reduce: axis: ..."), or one line for each replica
 * that failed, which begins with the replica. If a callback has passed on a failure of another umbo
 * function, it is that one's name. Never NULL; "" if nothing has failed since the last
 * umbo_clear_last_error(). Lives until the next umbo function on this thread that fails or runs
 * a callback.
 */
UMBO_API const char *umbo_last_error_message(void);

/**
 * How many failures the last error consists of: one for each replica that failed or was stopped,
 * in replica order; 1 if the failure is not a replica's; 0 if there is none.
 */
UMBO_API int64_t umbo_last_error_count(void);

/**
 * One failure of the last error. The texts and the payload live as long as
 * umbo_last_error_message().
 *
 * The functions of this section do not change the last error when they fail: OUT_OF_RANGE if
 * there is no failure at `index`, INVALID_ARGUMENT if `info` is NULL or its `struct_size` unset.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_last_error_at(int64_t index, umbo_error_info *info);

/**
 * Says why a callback is about to fail; to be called in it, as
 * `return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "...", NULL, NULL);`.
 *
 * `message` is copied, up to 16 KiB of it; NULL means none. `payload` is taken over, travels to the
 * thread that called the library and can be read there with umbo_last_error_at(); `destroy` (or
 * NULL) releases it, exactly once, when the error is forgotten.
 *
 * Returns `status`; UNKNOWN if that is not a status; INVALID_ARGUMENT if it is UMBO_OK, which is
 * no failure.
 */
UMBO_API umbo_status umbo_set_last_error(
    umbo_status status, const char *message, void *payload, umbo_destroy_fn destroy);

/** Forgets this thread's last error and releases its payload. */
UMBO_API void umbo_clear_last_error(void);

/** Does nothing with a status, on purpose. */
static inline void umbo_ignore(umbo_status status) { (void)status; }

/** A request to stop, which any thread may make. */
typedef struct umbo_cancellation umbo_cancellation;

/** A cluster of processes and this one's place in it. */
typedef struct umbo_cluster_resolver umbo_cluster_resolver;

/** A sequence of elements, described but not yet produced. */
typedef struct umbo_dataset umbo_dataset;

/** A dataset whose elements are split over the replicas of a strategy. */
typedef struct umbo_distributed_dataset umbo_distributed_dataset;

/** The structure, dtypes and shapes of the elements of a dataset. */
typedef struct umbo_element_spec umbo_element_spec;

/** What a check of one replica against all has found. */
typedef struct umbo_equivalence umbo_equivalence;

/** Gradient buffers, one per variable and replica. */
typedef struct umbo_gradients umbo_gradients;

/** A pass through a dataset or a distributed dataset. */
typedef struct umbo_iterator umbo_iterator;

/** A rule that changes variables by gradients, and its state. */
typedef struct umbo_optimizer umbo_optimizer;

/**
 * A replica's part in the step in progress. Borrowed: it lives as long as the callback that was
 * given it.
 */
typedef struct umbo_replica_context umbo_replica_context;

/** A strategy's scope that a thread has entered. */
typedef struct umbo_scope umbo_scope;

/** How a training step is replicated over devices, and where its variables live. */
typedef struct umbo_strategy umbo_strategy;

/** Elements of one type on one device, strided, with shared ownership. */
typedef struct umbo_tensor umbo_tensor;

/** A nest: a tensor, a variable, a per-replica value, or a tuple or struct of nests. */
typedef struct umbo_value umbo_value;

/** A value on the parameter device that steps read and change. */
typedef struct umbo_variable umbo_variable;

/**
 * A variable that is about to be made, for a variable creator. Borrowed: it lives as long as the
 * call of the creator.
 */
typedef struct umbo_variable_request umbo_variable_request;

/** A type of handle: one of the `UMBO_HANDLE_` constants. */
UMBO_ENUM(umbo_handle_type) {
  /** Handles of all types together. */
  UMBO_HANDLE_ANY = 0,
  /** `umbo_tensor`. */
  UMBO_HANDLE_TENSOR = 1,
  /** `umbo_value`. */
  UMBO_HANDLE_VALUE = 2,
  /** `umbo_strategy`. */
  UMBO_HANDLE_STRATEGY = 3,
  /** `umbo_scope`. */
  UMBO_HANDLE_SCOPE = 4,
  /** `umbo_replica_context`. */
  UMBO_HANDLE_REPLICA_CONTEXT = 5,
  /** `umbo_variable`. */
  UMBO_HANDLE_VARIABLE = 6,
  /** `umbo_dataset`. */
  UMBO_HANDLE_DATASET = 7,
  /** `umbo_distributed_dataset`. */
  UMBO_HANDLE_DISTRIBUTED_DATASET = 8,
  /** `umbo_iterator`. */
  UMBO_HANDLE_ITERATOR = 9,
  /** `umbo_gradients`. */
  UMBO_HANDLE_GRADIENTS = 10,
  /** `umbo_optimizer`. */
  UMBO_HANDLE_OPTIMIZER = 11,
  /** `umbo_cancellation`. */
  UMBO_HANDLE_CANCELLATION = 12,
  /** `umbo_cluster_resolver`. */
  UMBO_HANDLE_CLUSTER_RESOLVER = 13,
  /** `umbo_variable_request`. */
  UMBO_HANDLE_VARIABLE_REQUEST = 14,
  /** `umbo_element_spec`. */
  UMBO_HANDLE_ELEMENT_SPEC = 15,
  /** `umbo_equivalence`. */
  UMBO_HANDLE_EQUIVALENCE = 16
};

/** How important a log message is. */
UMBO_ENUM(umbo_log_level) {
  /** Something failed that no caller hears of otherwise. */
  UMBO_LOG_ERROR = 1,
  /** It works, but probably not as meant. */
  UMBO_LOG_WARNING = 2,
  /** What was set up and how. */
  UMBO_LOG_INFO = 3,
  /** Details, for a search for a fault. */
  UMBO_LOG_DEBUG = 4
};

/**
 * Receives a log message, which lives as long as the call. May be called from several threads at
 * the same time.
 */
typedef void (*umbo_log_fn)(umbo_log_level level, const char *message, void *user_data);

/**
 * The version of the library that is loaded, such as "0.1.0". Compare with UMBO_VERSION, the
 * header's. Lives as long as the process.
 */
UMBO_API const char *umbo_version(void);

/**
 * The version of the library that is loaded as one number, major * 1000000 + minor * 1000 +
 * patch. Compare with UMBO_VERSION_NUMBER, the header's.
 */
UMBO_API uint32_t umbo_version_number(void);

/**
 * How the library was built, as one JSON object: "version", "target", "profile". Lives as long
 * as the process.
 */
UMBO_API const char *umbo_build_info(void);

/**
 * Whether a feature works here and now: `result` gets 1 or 0. "cuda": GPUs can be devices of a
 * strategy, which they cannot in this version, whatever driver and devices there are
 * (umbo_device_count() counts them). 0 for a name that this version does not know.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_has_feature(const char *name, int32_t *result);

/**
 * Sends log messages up to the level `most_verbose` to `callback`, in place of the one before.
 * NULL sends them nowhere, as it is at the start. `destroy` (or NULL) releases `user_data` when
 * the callback is replaced and its last call is over, and also if this function fails.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_log_callback(
    umbo_log_level most_verbose, umbo_log_fn callback, void *user_data, umbo_destroy_fn destroy);

/**
 * Sets how many threads do central work (reductions, updates, copies), the calling one included.
 * The start is the number of processors that the process may use. Results do not depend on it.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_worker_count(int64_t count);

/** How many threads do central work. */
UMBO_MUST_USE UMBO_API umbo_status umbo_worker_count(int64_t *count);

/**
 * Ends the threads of the library that no object needs (those for central work, and those that
 * share heavy computations such as the equivalence check's), waits for their end, and gives kept
 * memory back: for programs that look for leaks or are about to unload the library. Whatever is
 * called afterwards starts what it needs anew. The threads of replicas, of prefetching and of
 * parallel maps end with the strategies and iterators that have them.
 *
 * FAILED_PRECONDITION, and nothing has ended, while strategies or iterators have threads (the
 * message says how many; release them first), while another call uses the threads that would be
 * ended, and in a function that central work calls.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_shutdown(void);

/**
 * How many handles of a type are in use: made and not yet released. UMBO_HANDLE_ANY counts all.
 * A program that releases all it makes sees 0 at its end.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_live_handles(umbo_handle_type type, int64_t *count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

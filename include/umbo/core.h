/* Generated from src; do not edit. */
#ifndef UMBO_CORE_H
#define UMBO_CORE_H

/**
 * @file core.h
 * @brief Rules of all functions; status and last error, handles, version, log.
 *
 * Language. The headers are C99 (and gnu89), and C++98; umbo.hpp is C++17.
 *
 * Status. A function that can fail returns a umbo_status: UMBO_OK (0), or why it failed. It writes
 * its outputs only if it succeeds, unless its description says otherwise. Each can return the
 * *usual errors*, which the descriptions do not repeat: UMBO_STATUS_INVALID_ARGUMENT for an invalid
 * handle, a NULL, a negative count or an undefined constant; UMBO_STATUS_RESOURCE_EXHAUSTED where
 * there is no memory, thread or handle left; UMBO_STATUS_FAILED_PRECONDITION in a forked child.
 *
 * Last error. umbo_last_error_message() says what went wrong in the last function that failed on
 * this thread. Errors of a replica's thread are carried to the thread that called. In messages,
 * control characters of names are escaped.
 *
 * Names. A function begins with the noun of its first argument: umbo_dataset_batch(). Those of the
 * whole library and of the thread have none: umbo_shutdown(). read and assign have tensors and
 * values, download and upload copy to and from memory of the program.
 *
 * Handles. Objects are used by handles. The caller owns each handle that a function returns, and
 * releases it once, with umbo_X_release(); a getter that returns one says "new handle".
 * umbo_X_retain() makes another handle to the same object. An object ends with its last handle,
 * unless another object needs it. The library recognises a handle that is released, of another
 * type, or an arbitrary value. A callback borrows the handles that it gets: they are
 * valid until it returns, and it does not release them. The tensors and values that it makes are
 * released when it returns, however it returns. To keep one of either, it retains it.
 *
 * Pointers. NULL is valid only where the description says so. An output may be NULL only there,
 * too. Arrays come as (count, array), and names before what they name. A function that fills a
 * buffer takes (buffer, capacity, length) and writes the full length; one that is too small is
 * UMBO_STATUS_OUT_OF_RANGE, and the length is written. A value comes before what is done with it,
 * an operation or an axis. Texts are UTF-8, end with a NUL, and have at most 4095 bytes: names and
 * paths. Messages have at most 16 KiB.
 *
 * Callbacks. A callback gets `user_data` as its last input, before its outputs, and a function that
 * calls it takes the callback, its arguments and `user_data` in the same order. It returns UMBO_OK,
 * or another status; umbo_set_last_error() sets the message. It may call functions of the library.
 * No C++ exception and no longjmp() may leave it, and pthread_exit() and pthread_cancel() may not
 * end its thread: they end the process. A function that keeps a callback also takes a `destroy`,
 * which runs exactly once, on any thread, even if that function fails. A thread that ends, or the
 * process, runs no code of the program: what the thread still has then is released by a later call
 * (umbo_set_last_error(), umbo_scope_exit(), umbo_shutdown()).
 *
 * Threads. *Concurrent*: any thread may call the function at any time. *Serialised*: any thread may
 * call it; the library runs one call after the other. *The caller locks*: the program makes no two
 * such calls on one object at the same time. A function that takes `const umbo_X *` does not
 * change the object. While a call reads or writes a tensor's elements, nobody else may write them.
 * A thread that calls the library needs a stack of 64 KiB beyond what its callbacks need.
 *
 * Floating point. Rounding, denormal numbers and traps, as fesetround(), -ffast-math or
 * feenableexcept() set them, do not change what the library computes. Callbacks run with the
 * settings of the program: those of the calling thread, and on a thread of the library those of
 * the thread that started it; what they change there stays. Update rules of the program run with
 * the default settings.
 *
 * Collective. With several ranks (cluster.h), all of them make a *collective* call, in the
 * same order. If it fails on one, it fails on all; UMBO_STATUS_FAILED_PRECONDITION is then also for
 * ranks that make different calls, UMBO_STATUS_UNAVAILABLE for one that has ended.
 *
 * Options. NULL in place of options means all defaults. UMBO_OPTIONS() gives options with some
 * fields changed, in one expression; UMBO_X_INIT begins a variable, of options as of information.
 * Both set the first field, `struct_size`, to UMBO_STRUCT_SIZE(), which marks a struct that has
 * its defaults; any other number there, such as a bare sizeof, is
 * UMBO_STATUS_INVALID_ARGUMENT. A struct that has this field and no INIT macro is made by the
 * library alone, for a callback: there it is the plain size of the struct in the library. Later
 * versions append fields whose default is 0, so a program works with an older or newer library as
 * long as it sets no field that the library does not know. 0 is the number 0, except where it can
 * mean nothing: there it is "not given", and the field's description says so.
 *
 * Memory. If there is not enough memory for what has a size that the caller decides (tensors,
 * gradients, state, buffers, lists, files), the call fails and nothing is lost. The library's own
 * small records are not covered: if the system refuses one, the process ends.
 *
 * Forks. In the child of a process that has used the library every function is
 * UMBO_STATUS_FAILED_PRECONDITION, except those of the version, the names of statuses and the last
 * error; releases do nothing. Fork before the first use, or use exec. A child that is forked inside
 * a callback may only call exec or _exit.
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

#if !defined(__cplusplus) && defined(__STRICT_ANSI__) && !defined(_MSC_VER) && \
    (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 199901L)
#error "Umbo needs C99: compile with -std=c99 or a later standard, or with -std=gnu89"
#endif

#include <stddef.h>
#include <stdint.h>

/** The version of this header; umbo_version() gives the library's. */
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

/** Lets the compiler warn where a status is not used. umbo_ignore() says that it is on purpose. */
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

/** Marks a function from which no call returns. */
#if defined(__GNUC__)
#define UMBO_NO_RETURN __attribute__((noreturn))
#elif defined(_MSC_VER)
#define UMBO_NO_RETURN __declspec(noreturn)
#else
#define UMBO_NO_RETURN
#endif

/**
 * The type of the numbers of enums, where the language lets an enum say it: in C++11 and C23. In
 * older C an enum has 32 bits, too, unless the compiler is told otherwise (-fshort-enums).
 */
#if (defined(__cplusplus) && (__cplusplus >= 201103L || defined(_MSVC_LANG))) || \
    (!defined(__cplusplus) && defined(__STDC_VERSION__) && \
     (__STDC_VERSION__ >= 202311L || (__STDC_VERSION__ > 201710L && __GNUC__ >= 13)))
#define UMBO_INT32 : int32_t
#else
#define UMBO_INT32
#endif

/** Makes a value of an enum from a number, also from one that has no constant. */
#ifdef __cplusplus
#define UMBO_ENUM_VALUE(type, number) static_cast<type>(number)
#else
#define UMBO_ENUM_VALUE(type, number) ((type)(number))
#endif

/** The first field, `struct_size`, of a struct that has its defaults: its size and a mark. */
#define UMBO_STRUCT_SIZE(type) (UMBO_STRUCT_MARK + sizeof(type))

#if (defined(__STDC_VERSION__) && __STDC_VERSION__ >= 199901L) || \
    (defined(_MSC_VER) && !defined(__cplusplus))
#if (defined(__GNUC__) || defined(__clang__)) && !defined(__TINYC__)
/* Around fields that are given twice, which is the purpose here: no warning. */
#define UMBO_FIELDS_BEGIN                                    \
  __extension__({                                            \
    _Pragma("GCC diagnostic push")                           \
    _Pragma("GCC diagnostic ignored \"-Woverride-init\"") 0; \
  })
#define UMBO_FIELDS_END __extension__({ _Pragma("GCC diagnostic pop") 0; })
#else
#define UMBO_FIELDS_BEGIN 0
#define UMBO_FIELDS_END 0
#endif

/**
 * Options in one expression of C99: the defaults, with the named fields changed. For example,
 * &UMBO_OPTIONS(umbo_adamw, .learning_rate = 1e-3, .beta1 = 0.8) is an argument of
 * umbo_optimizer_create_adamw().
 *
 * `name` is the type without `_options`. The expression is an lvalue, which lives until the end of
 * the block around it, and so do arrays that are written in it: .axes = (int32_t[]){0}. In C++, the
 * structs of umbo.hpp have the defaults.
 */
#define UMBO_OPTIONS(name, ...)                                                       \
  (((void)UMBO_FIELDS_BEGIN, &(name##_options){name##_options_defaults, __VA_ARGS__}) \
       [UMBO_FIELDS_END])
#endif

/** Makes a call and, if it fails, returns its status from the calling function. */
#define UMBO_TRY(call)                                      \
  do {                                                      \
    const umbo_status umbo_try_status = (call);             \
    if (umbo_try_status != UMBO_OK) return umbo_try_status; \
  } while (0)

/**
 * Keeps the status of a call in `status`, a variable of the caller's, and goes to `label` if it
 * failed: for functions that have something to release on all ways out.
 */
#define UMBO_TRY_ELSE(status, call, label)  \
  do {                                      \
    (status) = (call);                      \
    if ((status) != UMBO_OK) goto label;    \
  } while (0)

/** Makes a call and, if it fails, ends the program by umbo_check_failed(). */
#define UMBO_CHECK(call)                                            \
  do {                                                              \
    const umbo_status umbo_check_status = (call);                   \
    if (umbo_check_status != UMBO_OK) {                             \
      umbo_check_failed(umbo_check_status, __FILE__, __LINE__);     \
    }                                                               \
  } while (0)

#ifdef __cplusplus
extern "C" {
#endif

/** The mark that UMBO_STRUCT_SIZE() adds to the size of a struct. */
#define UMBO_STRUCT_MARK (1431109632)

/** All of them: of the steps, of the elements, of the elements from which a shuffle draws. */
#define UMBO_ALL (-11)

/** Without end or bound: time-outs, intervals, repetitions, cardinalities, limits of clipping. */
#define UMBO_INFINITE (-12)

/** The library decides, as the description says. */
#define UMBO_AUTO (-13)

/** No such thing: no replica, no variable, no checkpoint. */
#define UMBO_NONE (-14)

/** The size of a dimension in which elements differ. */
#define UMBO_SIZE_UNKNOWN (-15)

/** A number of elements or steps that is not known before a pass has ended. */
#define UMBO_CARDINALITY_UNKNOWN (-16)

/**
 * Releases `user_data`.
 *
 * @param[in] user_data What the program gave together with this function.
 *
 * The library calls it exactly once, on any thread, even if the function that took the user data
 * fails. It does not use the user data afterwards. NULL in its place means that there is nothing
 * to release.
 */
typedef void (*umbo_destroy_fn)(void *user_data);

/** The result of a function: UMBO_OK, or why it failed. The codes are the canonical ones. */
typedef enum umbo_status UMBO_INT32 {
  /** Success. */
  UMBO_OK = 0,
  /** The call was stopped by a token, or because another replica failed. */
  UMBO_STATUS_CANCELLED = 1,
  /** A callback returned this, or an undefined status. */
  UMBO_STATUS_UNKNOWN = 2,
  /** An argument has a wrong value, shape, dtype or name, or is an invalid pointer or handle. */
  UMBO_STATUS_INVALID_ARGUMENT = 3,
  /** The call did not finish before its deadline. */
  UMBO_STATUS_DEADLINE_EXCEEDED = 4,
  /** A device, file or name does not exist. */
  UMBO_STATUS_NOT_FOUND = 5,
  /** The thing that the call is to make exists already. */
  UMBO_STATUS_ALREADY_EXISTS = 6,
  /** The operating system refused access. */
  UMBO_STATUS_PERMISSION_DENIED = 7,
  /** No memory, thread or handle is left. */
  UMBO_STATUS_RESOURCE_EXHAUSTED = 8,
  /** The call is not allowed now or here: context, order, or late callbacks. */
  UMBO_STATUS_FAILED_PRECONDITION = 9,
  /** The call conflicts with something that ran at the same time. */
  UMBO_STATUS_ABORTED = 10,
  /** An axis, index or position is out of range, or a buffer is too small. */
  UMBO_STATUS_OUT_OF_RANGE = 11,
  /** This strategy or this version does not offer it. */
  UMBO_STATUS_UNIMPLEMENTED = 12,
  /** There is a defect in the library. */
  UMBO_STATUS_INTERNAL = 13,
  /** Something that the call needs is missing now: a driver, a device, another rank. */
  UMBO_STATUS_UNAVAILABLE = 14,
  /** A file or stream is damaged. */
  UMBO_STATUS_DATA_LOSS = 15
} umbo_status;

/** A failure: of the whole call, or of one replica. umbo_last_error_at() gets it. */
typedef struct umbo_error_info {
  size_t struct_size;
  /** Why it failed. */
  umbo_status status;
  /** The id of the replica that failed; UMBO_NONE for a failure of the whole call. */
  int32_t replica;
  /** The canonical name of its compute device, or "". */
  const char *device;
  /** The message. */
  const char *message;
  /**
   * The object that the callback attached with umbo_set_last_error(), or NULL. The library owns
   * it.
   */
  void *payload;
  /** The `destroy` of the payload, by which a program knows its own. */
  umbo_destroy_fn payload_destroy;
} umbo_error_info;

#define UMBO_ERROR_INFO_INIT \
  { UMBO_STRUCT_SIZE(umbo_error_info), UMBO_OK, 0, NULL, NULL, NULL, NULL }

/**
 * Gets the name of a status, such as "INVALID_ARGUMENT"; "UNKNOWN_STATUS" for an undefined number.
 */
UMBO_API const char *umbo_status_name(umbo_status status);

/**
 * Gets the message of this thread's last error.
 *
 * @return "" if nothing has failed since the last umbo_clear_last_error(). It lives until the next
 *   function on this thread that fails or runs a callback.
 *
 * The line begins with the function that failed ("umbo_strategy_reduce: axis: ..."). If replicas
 * failed, there is a line for each: "replica 1 (CPU:1): NOT_FOUND: ...". umbo_train_epoch() writes
 * a line before them that names the step.
 */
UMBO_API const char *umbo_last_error_message(void);

/**
 * Gets the number of failures of this thread's last error.
 *
 * @return The number of replicas that failed or were stopped; 1 for a failure of the whole call; 0
 *   for none.
 */
UMBO_API int64_t umbo_last_error_count(void);

/**
 * Gets a failure of this thread's last error.
 *
 * @param[in] index 0 to umbo_last_error_count() - 1, in the order of the replicas.
 * @param[out] info Its texts and its payload live as long as umbo_last_error_message().
 * @return UMBO_STATUS_OUT_OF_RANGE: no failure at `index`.
 *
 * If it fails, also because `info` is NULL, the last error stays as it is.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_last_error_at(int64_t index, umbo_error_info *info);

/**
 * Sets why a callback fails: `return umbo_set_last_error(UMBO_STATUS_DATA_LOSS, "...", NULL,
 * NULL);`
 *
 * @param[in] message Up to 16 KiB are copied. `message` may be NULL.
 * @param[in] payload Any object, such as an exception. The library takes it over and carries it to
 *   the thread that called the library, where umbo_last_error_at() gets it. May be NULL.
 * @param[in] destroy Releases the payload once, when the error is forgotten: when this thread's
 *   last error is replaced or cleared. If the thread ends before, that is done by the next call of
 *   this function with the same `destroy`, or by umbo_shutdown(), on any thread, and not at all if
 *   the process ends. May be NULL.
 * @return `status`; UMBO_STATUS_UNKNOWN for an undefined one, UMBO_STATUS_INVALID_ARGUMENT for
 *   UMBO_OK.
 */
UMBO_API umbo_status umbo_set_last_error(
    umbo_status status, const char *message, void *payload, umbo_destroy_fn destroy);

/**
 * Ends the program after a call that failed, as UMBO_CHECK() does.
 *
 * @param[in] status What the call returned.
 * @param[in] file The name of the source file. May be NULL.
 * @param[in] line The number of the line.
 *
 * It flushes stdout, prints the place and this thread's last error message (the name of `status`,
 * if there is none) to standard error, "main.c:12: umbo_strategy_reduce: axis: ...", and calls
 * exit() with EXIT_FAILURE.
 */
UMBO_API UMBO_NO_RETURN void umbo_check_failed(umbo_status status, const char *file, int32_t line);

/**
 * Ignores a status on purpose, without a warning from the compiler.
 *
 * @param[in] status The status.
 */
static inline void umbo_ignore(umbo_status status);

/** A type of handle. */
typedef enum umbo_handle_type UMBO_INT32 {
  /** Handles of all types together. */
  UMBO_HANDLE_ANY = 0,
  /** `umbo_tensor`. */
  UMBO_HANDLE_TENSOR = 101,
  /** `umbo_value`. */
  UMBO_HANDLE_VALUE = 102,
  /** `umbo_strategy`. */
  UMBO_HANDLE_STRATEGY = 103,
  /** `umbo_scope`. */
  UMBO_HANDLE_SCOPE = 104,
  /** `umbo_replica_context`. */
  UMBO_HANDLE_REPLICA_CONTEXT = 105,
  /** `umbo_variable`. */
  UMBO_HANDLE_VARIABLE = 106,
  /** `umbo_dataset`. */
  UMBO_HANDLE_DATASET = 107,
  /** `umbo_distributed_dataset`. */
  UMBO_HANDLE_DISTRIBUTED_DATASET = 108,
  /** `umbo_iterator`. */
  UMBO_HANDLE_ITERATOR = 109,
  /** `umbo_gradients`. */
  UMBO_HANDLE_GRADIENTS = 110,
  /** `umbo_optimizer`. */
  UMBO_HANDLE_OPTIMIZER = 111,
  /** `umbo_cancellation`. */
  UMBO_HANDLE_CANCELLATION = 112,
  /** `umbo_cluster_resolver`. */
  UMBO_HANDLE_CLUSTER_RESOLVER = 113,
  /** `umbo_variable_request`. */
  UMBO_HANDLE_VARIABLE_REQUEST = 114,
  /** `umbo_element_spec`. */
  UMBO_HANDLE_ELEMENT_SPEC = 115,
  /** `umbo_equivalence`. */
  UMBO_HANDLE_EQUIVALENCE = 116,
  /** `umbo_metrics`. */
  UMBO_HANDLE_METRICS = 117,
  /** `umbo_checkpoint`. */
  UMBO_HANDLE_CHECKPOINT = 118,
  /** `umbo_checkpoint_manager`. */
  UMBO_HANDLE_CHECKPOINT_MANAGER = 119,
  /** `umbo_communicator`. */
  UMBO_HANDLE_COMMUNICATOR = 120,
  /** `umbo_trainer`. */
  UMBO_HANDLE_TRAINER = 121
} umbo_handle_type;

/** Elements of one type on one device, with strides. */
typedef struct umbo_tensor umbo_tensor;

/**
 * A tensor, a variable, a per-replica value, indexed slices, or a tuple, list or struct of values.
 */
typedef struct umbo_value umbo_value;

/** How a training step is replicated over devices, and where its variables live. */
typedef struct umbo_strategy umbo_strategy;

/** A scope of a strategy that a thread has entered. */
typedef struct umbo_scope umbo_scope;

/** A replica's part in the step in progress. It is lent to the replica's callback. */
typedef struct umbo_replica_context umbo_replica_context;

/** A value on the parameter device that steps read and change. */
typedef struct umbo_variable umbo_variable;

/** A sequence of elements, described but not yet produced. */
typedef struct umbo_dataset umbo_dataset;

/** A dataset whose elements are split over the replicas of a strategy. */
typedef struct umbo_distributed_dataset umbo_distributed_dataset;

/** A pass over a dataset or a distributed dataset. */
typedef struct umbo_iterator umbo_iterator;

/** Gradient buffers, one per variable and replica. */
typedef struct umbo_gradients umbo_gradients;

/** A rule that changes variables by gradients, with the state that the rule keeps. */
typedef struct umbo_optimizer umbo_optimizer;

/** A request to stop, which any thread may make. */
typedef struct umbo_cancellation umbo_cancellation;

/** The processes of a cluster, and which of them this one is. */
typedef struct umbo_cluster_resolver umbo_cluster_resolver;

/** A variable that is about to be made. It is lent to a variable creator. */
typedef struct umbo_variable_request umbo_variable_request;

/** The structure, dtypes and shapes of the elements of a dataset. */
typedef struct umbo_element_spec umbo_element_spec;

/** The result of a check of one replica against all. */
typedef struct umbo_equivalence umbo_equivalence;

/** Named numbers that accumulate over runs. */
typedef struct umbo_metrics umbo_metrics;

/** Objects that are saved and restored together, by name. */
typedef struct umbo_checkpoint umbo_checkpoint;

/**
 * A manager of the checkpoints of a training: it writes them, and keeps the newest and the best.
 */
typedef struct umbo_checkpoint_manager umbo_checkpoint_manager;

/** The link of the processes of a training: it moves bytes from each to each. */
typedef struct umbo_communicator umbo_communicator;

/** All that a training over arrays of the program has. */
typedef struct umbo_trainer umbo_trainer;

/**
 * Makes another handle to the same object, also of a borrowed one. The typed umbo_X_retain() call
 * it.
 *
 * @param[out] retained The address of a pointer to the handle's type.
 * @return UMBO_STATUS_INVALID_ARGUMENT also for UMBO_HANDLE_SCOPE, UMBO_HANDLE_REPLICA_CONTEXT and
 *   UMBO_HANDLE_VARIABLE_REQUEST, which are not retained.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_retain(
    const void *handle, umbo_handle_type type, void *retained);

/**
 * Releases a handle; NULL does nothing. The typed umbo_X_release() call it.
 *
 * An invalid handle, or one of a type that is not retained, changes nothing, and the log gets an
 * error.
 */
UMBO_API void umbo_release(const void *handle, umbo_handle_type type);

/** How important a log message is. */
typedef enum umbo_log_level UMBO_INT32 {
  /** A failure that no call returns. */
  UMBO_LOG_ERROR = 201,
  /** It works, but probably not as intended. */
  UMBO_LOG_WARNING = 202,
  /** The library's set-up. */
  UMBO_LOG_INFO = 203,
  /** Details for finding a fault. */
  UMBO_LOG_DEBUG = 204
} umbo_log_level;

/**
 * Receives a log message, which lives until the function returns. Several threads may call it at
 * the same time.
 */
typedef void (*umbo_log_fn)(umbo_log_level level, const char *message, void *user_data);

/** Gets the version of the loaded library, such as "0.1.0". UMBO_VERSION is that of the header. */
UMBO_API const char *umbo_version(void);

/**
 * Sets where log messages go, in place of standard error.
 *
 * @param[in] level The last level that is sent: UMBO_LOG_WARNING sends warnings and errors.
 * @param[in] callback `callback` may be NULL: standard error again.
 * @param[in] destroy Releases `user_data` after the last call of the callback, and if this
 *   function fails. May be NULL.
 *
 * Without a callback, warnings and errors that no call returns go to standard error: lines that
 * begin with "umbo: ", each message once, 65 at most. The environment variable UMBO_LOG (off,
 * error, warning, info, debug, or 0 to 4) replaces `level`; without a callback it has all messages
 * up to that level written. It is read when the first strategy is made or the first message comes.
 * A strict strategy turns warnings into failures.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_set_log_callback(
    umbo_log_level level, umbo_log_fn callback, void *user_data, umbo_destroy_fn destroy);

/**
 * Ends the threads that no object needs, and frees memory that the library keeps for reuse.
 *
 * @return UMBO_STATUS_FAILED_PRECONDITION: strategies or iterators have threads (the message says
 *   how many; release them first, and before that umbo_strategy_synchronize() waits for late
 *   callbacks), or another call uses the threads. Then none has ended.
 *
 * It is meant for programs that look for leaks, and for plugins before they are unloaded. It waits
 * until the threads have ended and GPUs have finished what was queued. Later calls start threads
 * again.
 *
 * Before all else, and even if it fails, it forgets this thread's last error, and releases what
 * ended threads have left behind: the payloads of their last errors, and the scopes that they had
 * not left. A thread that ends itself runs no code of the program: that may be gone by then. Other
 * threads that use a plugin call umbo_clear_last_error().
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_shutdown(void);

/**
 * Gets the number of handles that are not released, without those that callbacks borrow.
 *
 * @param[in] type UMBO_HANDLE_ANY counts all.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_live_handles(umbo_handle_type type, int64_t *count);

#ifdef __cplusplus
} /* extern "C" */
#endif

#include <umbo/inline/core.h>

#endif

/* Generated from src/ffi; do not edit. */
#ifndef UMBO_CLUSTER_RESOLVER_H
#define UMBO_CLUSTER_RESOLVER_H

/**
 * @file cluster_resolver.h
 * @brief Cluster resolvers: which processes a cluster has, and which of them this one is.
 *
 * A cluster consists of jobs with names, such as "worker", and a job of tasks with numbers. A task
 * is a process and has an address. The caller releases each resolver that a function gives; a
 * strategy keeps the one that it was made with.
 *
 * Threads: all functions are *concurrent*, also on one resolver.
 *
 * Example:
 * ```c
 * // How many workers the environment variable TF_CONFIG names.
 * static umbo_status workers(int64_t *count) {
 *   umbo_cluster_resolver *resolver = NULL;
 *   umbo_status status;
 *   UMBO_TRY(umbo_cluster_resolver_from_tf_config(NULL, &resolver));
 *   status = umbo_cluster_resolver_task_count(resolver, "worker", count);
 *   umbo_cluster_resolver_release(resolver);
 *   return status;
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Makes a resolver from JSON in the form of TF_CONFIG.
 *
 * @param[in] text JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type":
 *   "worker", "index": 0}}, of any length. `text` may be NULL: the environment variable TF_CONFIG
 *   is read, and a variable that is missing or empty stands for an empty cluster without a task.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the text is not JSON, does not have this form,
 *   or names a task that the cluster does not have; the message names the place. Also if `resolver`
 *   is a null pointer.
 *
 * The tasks of a job are an array of addresses, or an object that gives each task's number its
 * address. Fields other than "cluster" and "task" are ignored. A task of type "evaluator" need not
 * be in the cluster.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_from_tf_config(
    const char *text, umbo_cluster_resolver **resolver);

/**
 * Makes a resolver from all that the environment says.
 *
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a variable is malformed, or two of them
 *   disagree; the message names both. Also if `resolver` is a null pointer.
 *
 * It reads TF_CONFIG as umbo_cluster_resolver_from_tf_config() does, and what launchers set:
 * OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE, PMIX_RANK, and where none of these is
 * set, SLURM_PROCID with SLURM_STEP_NUM_TASKS.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_from_environment(
    umbo_cluster_resolver **resolver);

/**
 * Counts the jobs of a cluster.
 *
 * @param[out] count How many jobs there are.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `count` is
 *   a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_job_count(
    const umbo_cluster_resolver *resolver, int64_t *count);

/**
 * Gives the name of a job.
 *
 * @param[in] index Which job, from 0 on, in alphabetical order.
 * @param[out] name The name, a text that lives as long as the resolver.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_OUT_OF_RANGE: there is no job at `index`.
 * - UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `name` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_job_name(
    const umbo_cluster_resolver *resolver, int64_t index, const char **name);

/**
 * Counts the tasks of a job.
 *
 * @param[in] job The name of the job.
 * @param[out] count How many tasks there are.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: there is no such job.
 * - UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `job` or `count` is a null
 *   pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task_count(
    const umbo_cluster_resolver *resolver, const char *job, int64_t *count);

/**
 * Gives the number and the address of a task.
 *
 * @param[in] job The name of the task's job.
 * @param[in] position Which task of the job, from 0 on, in the order of their numbers.
 * @param[out] index The task's number. It is the same as `position` if the tasks were given as an
 *   array.
 * @param[out] address The task's address, a text that lives as long as the resolver.
 * @return UMBO_OK, or:
 * - UMBO_STATUS_NOT_FOUND: there is no such job.
 * - UMBO_STATUS_OUT_OF_RANGE: the job has no task at `position`.
 * - UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, `job` is a null pointer, or an
 *   output is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task(
    const umbo_cluster_resolver *resolver, const char *job, int64_t position, int64_t *index,
    const char **address);

/**
 * Tells which job this process is a task of.
 *
 * @param[out] task_type The name of the job, a text that lives as long as the resolver. It gets
 *   NULL if the configuration does not name a job.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or
 *   `task_type` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task_type(
    const umbo_cluster_resolver *resolver, const char **task_type);

/**
 * Tells which task of its job this process is.
 *
 * @param[out] task_index The task's number; -1 if the configuration does not give one.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or
 *   `task_index` is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task_index(
    const umbo_cluster_resolver *resolver, int64_t *task_index);

/**
 * Tells which of the processes that train this one is.
 *
 * @param[out] rank The number of this process; -1 if nothing says.
 * @param[out] size How many there are; 0 if nothing says.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or an output
 *   is a null pointer.
 *
 * In a cluster of TF_CONFIG the tasks of the job "chief" come first, then those of "worker"; no
 * other task has a rank.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_rank(
    const umbo_cluster_resolver *resolver, int64_t *rank, int64_t *size);

/**
 * Gives the resolver that a strategy was made with.
 *
 * @param[out] resolver A new handle to the resolver. Release it with
 *   umbo_cluster_resolver_release(). It gets NULL if the strategy was made without one, whatever
 *   TF_CONFIG says.
 * @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `strategy` is not a valid handle, or `resolver`
 *   is a null pointer.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_cluster_resolver(
    const umbo_strategy *strategy, umbo_cluster_resolver **resolver);

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

/* Generated from src/ffi; do not edit. */
#ifndef UMBO_CLUSTER_RESOLVER_H
#define UMBO_CLUSTER_RESOLVER_H

/**
 * @file cluster_resolver.h
 * @brief Cluster resolvers: the processes of a cluster, and which of them this one is.
 *
 * A cluster has jobs with names, such as "worker", and a job has tasks with numbers. A task is a
 * process with an address. Threads: all functions are *concurrent*.
 *
 * Example:
 * ```c
 * // The rank of this process, by what its launcher has set; UMBO_NONE if that is nothing.
 * static umbo_status find_rank(int64_t *rank) {
 *   umbo_cluster_resolver_info here = UMBO_CLUSTER_RESOLVER_INFO_INIT;
 *   umbo_cluster_resolver *resolver = NULL;
 *   umbo_status status;
 *   UMBO_TRY(umbo_cluster_resolver_from_environment(&resolver));
 *   status = umbo_cluster_resolver_get_info(resolver, &here);
 *   *rank = here.rank;
 *   umbo_cluster_resolver_release(resolver);
 *   return status;
 * }
 * ```
 */

#include <umbo/core.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A cluster, and the place of this process in it. */
typedef struct umbo_cluster_resolver_info {
  size_t struct_size;
  /** The number of jobs. */
  int64_t job_count;
  /**
   * The job that this process is a task of; NULL if the configuration names none. Lives as long as
   * the resolver.
   */
  const char *task_type;
  /** The number of this process in its job; UMBO_NONE if the configuration gives none. */
  int64_t task_index;
  /**
   * The rank of this process; UMBO_NONE if nothing gives one. With TF_CONFIG the tasks of "chief"
   * come first, then those of "worker"; other tasks have no rank.
   */
  int64_t rank;
  /** The number of ranks; 0 if nothing gives it. */
  int64_t rank_count;
} umbo_cluster_resolver_info;

#define UMBO_CLUSTER_RESOLVER_INFO_INIT { sizeof(umbo_cluster_resolver_info), 0, NULL, 0, 0, 0 }
UMBO_DEFAULT(umbo_cluster_resolver_info, UMBO_CLUSTER_RESOLVER_INFO_INIT)

/**
 * Creates a resolver from JSON in the form of TF_CONFIG.
 *
 * @param[in] text JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type":
 *   "worker", "index": 0}}, of any length. NULL: the environment variable TF_CONFIG; if it is
 *   missing or empty, an empty cluster.
 * @return UMBO_STATUS_INVALID_ARGUMENT: not JSON of this form, or a task that the cluster does not
 *   have; the message names the place.
 *
 * The tasks of a job are an array of addresses, or an object that maps numbers to addresses. Fields
 * other than "cluster" and "task" are ignored. A task of type "evaluator" need not be in the
 * cluster.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_from_tf_config(
    const char *text, umbo_cluster_resolver **resolver);

/**
 * Creates a resolver from TF_CONFIG and from what launchers set: OMPI_COMM_WORLD_RANK and _SIZE,
 * PMI_RANK and PMI_SIZE, PMIX_RANK; if none is set, SLURM_PROCID with SLURM_STEP_NUM_TASKS.
 *
 * @return UMBO_STATUS_INVALID_ARGUMENT: a variable is malformed, or two of them disagree; the
 *   message names them.
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

/* Generated from src/ffi; do not edit. */
#ifndef UMBO_CLUSTER_RESOLVER_H
#define UMBO_CLUSTER_RESOLVER_H

/**
 * @file cluster_resolver.h
 * @brief Cluster resolvers: which processes a cluster has, and which of them this one is.
 *
 * The caller releases a resolver; a strategy that was given one keeps it. Texts that are given out
 * live as long as the resolver.
 *
 * Threads: all functions are *concurrent*, also on one resolver.
 *
 * Functions:
 * - umbo_cluster_resolver_from_tf_config(): A resolver from `text`, JSON in the form of the
 *   environment variable TF_CONFIG: {"cluster": {"worker": ["a:2222", "b:2222"]}, "task":
 *   {"type": "worker", "index": 0}}.
 * - umbo_cluster_resolver_job_count(): How many jobs the cluster has.
 * - umbo_cluster_resolver_job_name(): The name of the job at `index`, in alphabetical order.
 * - umbo_cluster_resolver_task_count(): How many tasks a job has.
 * - umbo_cluster_resolver_task(): The number and the address of the task of `job` at `position`,
 *   in the order of their numbers (which are the positions if the tasks were given as an array).
 * - umbo_cluster_resolver_task_type(): The job that this process is a task of; NULL if the
 *   configuration does not say.
 * - umbo_cluster_resolver_task_index(): Which task of its job this process is; -1 if the
 *   configuration does not say.
 * - umbo_strategy_cluster_resolver(): The resolver that the strategy was made with; NULL if it was
 *   made without one, whatever the environment says.
 * - umbo_cluster_resolver_retain(): Another handle to the same object, to be released like the
 *   first; also of what a callback was only lent, which then stays.
 * - umbo_cluster_resolver_release(): Releases a reference.
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
 * A resolver from `text`, JSON in the form of the environment variable TF_CONFIG:
 * {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}. `text` may
 * be NULL: then the variable itself is read, and there is an empty cluster if it is not set. The
 * tasks of a job are an array of addresses or an object from numbers to addresses; other fields
 * make no difference.
 *
 * INVALID_ARGUMENT, with the place, for what is not JSON or not of this form, and for a task that
 * the cluster does not have (but the task type "evaluator" need not be in it).
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_from_tf_config(
    const char *text, umbo_cluster_resolver **resolver);

/** How many jobs the cluster has. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_job_count(
    const umbo_cluster_resolver *resolver, int64_t *count);

/** The name of the job at `index`, in alphabetical order. Lives as long as the resolver. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_job_name(
    const umbo_cluster_resolver *resolver, int64_t index, const char **name);

/** How many tasks a job has. NOT_FOUND if there is no such job. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task_count(
    const umbo_cluster_resolver *resolver, const char *job, int64_t *count);

/**
 * The number and the address of the task of `job` at `position`, in the order of their numbers
 * (which are the positions if the tasks were given as an array). The address lives as long as the
 * resolver. NOT_FOUND if there is no such job, OUT_OF_RANGE if it has no such task.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task(
    const umbo_cluster_resolver *resolver, const char *job, int64_t position, int64_t *index,
    const char **address);

/**
 * The job that this process is a task of; NULL if the configuration does not say. Lives as long
 * as the resolver.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task_type(
    const umbo_cluster_resolver *resolver, const char **task_type);

/** Which task of its job this process is; -1 if the configuration does not say. */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_task_index(
    const umbo_cluster_resolver *resolver, int64_t *task_index);

/**
 * The resolver that the strategy was made with; NULL if it was made without one, whatever the
 * environment says. A new handle, to be released.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_strategy_cluster_resolver(
    const umbo_strategy *strategy, umbo_cluster_resolver **resolver);

/**
 * Another handle to the same object, to be released like the first; also of what a callback was
 * only lent, which then stays.
 */
UMBO_MUST_USE UMBO_API umbo_status umbo_cluster_resolver_retain(
    const umbo_cluster_resolver *resolver, umbo_cluster_resolver **retained);

/** Releases a reference. NULL is fine. */
UMBO_API void umbo_cluster_resolver_release(const umbo_cluster_resolver *resolver);

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif

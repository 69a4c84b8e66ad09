//! Cluster resolvers.

use super::prelude::*;
use crate::cluster::resolver::ClusterResolver;

/// Makes a resolver from JSON in the form of TF_CONFIG.
///
/// @param[in] text JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type":
///   "worker", "index": 0}}, of any length. `text` may be NULL: the environment variable TF_CONFIG
///   is read, and a variable that is missing or empty stands for an empty cluster without a task.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: the text is not JSON, does not have this form, or names
///   a task that the cluster does not have; the message names the place. Also if `resolver` is a null
///   pointer.
///
/// The tasks of a job are an array of addresses, or an object that gives each task's number its
/// address. Fields other than "cluster" and "task" are ignored. A task of type "evaluator" need not
/// be in the cluster.
#[c_call(out(resolver))]
pub fn umbo_cluster_resolver_from_tf_config(
    text: *const c_char,
    resolver: *mut *mut umbo_cluster_resolver,
) {
    let read = match text.is_null() {
        // SAFETY: not NULL, so the caller promises a text.
        false => ClusterResolver::parse(unsafe { long_text(text, "text") }?, "text"),
        true => ClusterResolver::from_environment(),
    };
    resolver.write(make(Arc::new(read?))?);
}

/// Makes a resolver from all that the environment says.
///
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: a variable is malformed, or two of them disagree; the
///   message names both. Also if `resolver` is a null pointer.
///
/// It reads TF_CONFIG as umbo_cluster_resolver_from_tf_config() does, and what launchers set:
/// OMPI_COMM_WORLD_RANK and _SIZE, PMI_RANK and PMI_SIZE, PMIX_RANK, and where none of these is
/// set, SLURM_PROCID with SLURM_STEP_NUM_TASKS.
#[c_call(out(resolver))]
pub fn umbo_cluster_resolver_from_environment(resolver: *mut *mut umbo_cluster_resolver) {
    resolver.write(make(Arc::new(ClusterResolver::of_this_process()?))?);
}

/// Counts the jobs of a cluster.
///
/// @param[out] count How many jobs there are.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `count` is a null
///   pointer.
#[c_call(out(count), borrow(resolver))]
pub fn umbo_cluster_resolver_job_count(resolver: *const umbo_cluster_resolver, count: *mut i64) {
    count.write(resolver.jobs().len() as i64);
}

/// Gives the name of a job.
///
/// @param[in] index Which job, from 0 on, in alphabetical order.
/// @param[out] name The name, a text that lives as long as the resolver.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_OUT_OF_RANGE: there is no job at `index`.
/// - UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `name` is a null pointer.
#[c_call(out(name), borrow(resolver))]
pub fn umbo_cluster_resolver_job_name(
    resolver: *const umbo_cluster_resolver,
    index: i64,
    name: *mut *const c_char,
) {
    let jobs = (resolver.jobs().len(), "the jobs");
    name.write(at(index, "index", jobs, |index| resolver.jobs().nth(index))?.as_c_str().as_ptr());
}

/// Counts the tasks of a job.
///
/// @param[in] job The name of the job.
/// @param[out] count How many tasks there are.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: there is no such job.
/// - UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `job` or `count` is a null
///   pointer.
#[c_call(out(count), text(job), borrow(resolver))]
pub fn umbo_cluster_resolver_task_count(
    resolver: *const umbo_cluster_resolver,
    job: *const c_char,
    count: *mut i64,
) {
    count.write(resolver.tasks(job)?.len() as i64);
}

/// Gives the number and the address of a task.
///
/// @param[in] job The name of the task's job.
/// @param[in] position Which task of the job, from 0 on, in the order of their numbers.
/// @param[out] index The task's number. It is the same as `position` if the tasks were given as an
///   array.
/// @param[out] address The task's address, a text that lives as long as the resolver.
/// @return UMBO_OK, or:
/// - UMBO_STATUS_NOT_FOUND: there is no such job.
/// - UMBO_STATUS_OUT_OF_RANGE: the job has no task at `position`.
/// - UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, `job` is a null pointer, or an
///   output is a null pointer.
#[c_call(out(index), out(address), text(job), borrow(resolver))]
pub fn umbo_cluster_resolver_task(
    resolver: *const umbo_cluster_resolver,
    job: *const c_char,
    position: i64,
    index: *mut i64,
    address: *mut *const c_char,
) {
    let mut tasks = resolver.tasks(job)?;
    let (count, elements) = (tasks.len(), format!("the tasks of '{job}'"));
    let found = at(position, "position", (count, &elements), |position| tasks.nth(position))?;
    index.write(found.0 as i64);
    address.write(found.1.as_c_str().as_ptr());
}

/// Tells which job this process is a task of.
///
/// @param[out] task_type The name of the job, a text that lives as long as the resolver. It gets
///   NULL if the configuration does not name a job.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `task_type` is a
///   null pointer.
#[c_call(out(task_type), borrow(resolver))]
pub fn umbo_cluster_resolver_task_type(
    resolver: *const umbo_cluster_resolver,
    task_type: *mut *const c_char,
) {
    task_type.write(resolver.task_type().map_or(ptr::null(), |job| job.as_c_str().as_ptr()));
}

/// Tells which task of its job this process is.
///
/// @param[out] task_index The task's number; -1 if the configuration does not give one.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or `task_index` is a
///   null pointer.
#[c_call(out(task_index), borrow(resolver))]
pub fn umbo_cluster_resolver_task_index(
    resolver: *const umbo_cluster_resolver,
    task_index: *mut i64,
) {
    task_index.write(resolver.task_index().map_or(-1, |index| index as i64));
}

/// Tells which of the processes that train this one is.
///
/// @param[out] rank The number of this process; -1 if nothing says.
/// @param[out] size How many there are; 0 if nothing says.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `resolver` is not a valid handle, or an output is a null
///   pointer.
///
/// In a cluster of TF_CONFIG the tasks of the job "chief" come first, then those of "worker"; no
/// other task has a rank.
#[c_call(out(rank), out(size), borrow(resolver))]
pub fn umbo_cluster_resolver_rank(
    resolver: *const umbo_cluster_resolver,
    rank: *mut i64,
    size: *mut i64,
) {
    rank.write(resolver.place().map_or(-1, |place| place.rank as i64));
    size.write(resolver.place().map_or(0, |place| place.size as i64));
}

/// Gives the resolver that a strategy was made with.
///
/// @param[out] resolver A new handle to the resolver. Release it with
///   umbo_cluster_resolver_release(). It gets NULL if the strategy was made without one, whatever
///   TF_CONFIG says.
/// @return UMBO_OK, or UMBO_STATUS_INVALID_ARGUMENT: `strategy` is not a valid handle, or `resolver` is a
///   null pointer.
#[c_call(out(resolver), borrow(strategy))]
pub fn umbo_strategy_cluster_resolver(
    strategy: *const umbo_strategy,
    resolver: *mut *mut umbo_cluster_resolver,
) {
    resolver.write(strategy.cluster_resolver().cloned().map_or(Ok(ptr::null_mut()), make)?);
}

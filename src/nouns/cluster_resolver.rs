//! Cluster resolvers.

use crate::machinery::prelude::*;
use umbo_core::cluster::resolver::ClusterResolver;

/// Creates a resolver from JSON in the form of TF_CONFIG.
///
/// @param[in] text JSON such as {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type":
///   "worker", "index": 0}}, of any length. NULL: the environment variable TF_CONFIG; if it is
///   missing or empty, an empty cluster.
/// @return UMBO_STATUS_INVALID_ARGUMENT: not JSON of this form, or a task that the cluster does not
///   have; the message names the place.
///
/// The tasks of a job are an array of addresses, or an object that maps numbers to addresses.
/// Fields other than "cluster" and "task" are ignored. A task of type "evaluator" need not be in
/// the cluster.
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

/// Creates a resolver from TF_CONFIG and from what launchers set: OMPI_COMM_WORLD_RANK and _SIZE,
/// PMI_RANK and PMI_SIZE, SLURM_PROCID and SLURM_STEP_NUM_TASKS. The first pair of them that is set
/// is used.
///
/// @return UMBO_STATUS_INVALID_ARGUMENT: a variable is malformed, or TF_CONFIG and a launcher
///   disagree; the message names them.
#[c_call(out(resolver))]
pub fn umbo_cluster_resolver_from_environment(resolver: *mut *mut umbo_cluster_resolver) {
    resolver.write(make(Arc::new(ClusterResolver::of_this_process()?))?);
}

/// A cluster, and the place of this process in it.
#[c_struct]
pub struct umbo_cluster_resolver_info {
    /// The number of jobs.
    pub job_count: i64,
    /// The job that this process is a task of; NULL if the configuration names none. Lives as long
    /// as the resolver.
    pub task_type: *const c_char,
    /// The number of this process in its job; UMBO_NONE if the configuration gives none.
    pub task_index: i64,
    /// The rank of this process; UMBO_NONE if nothing gives one. With TF_CONFIG the tasks of
    /// "chief" come first, then those of "worker"; other tasks have no rank.
    pub rank: i64,
    /// The number of ranks; 0 if nothing gives it.
    pub rank_count: i64,
}

/// Gets a cluster, and the place of this process in it.
#[c_call(result(info), borrow(resolver))]
pub fn umbo_cluster_resolver_get_info(
    resolver: *const umbo_cluster_resolver,
    info: *mut umbo_cluster_resolver_info,
) {
    let place = resolver.place();
    let number = |number: usize| number as i64;
    info.write(umbo_cluster_resolver_info {
        job_count: number(resolver.jobs().len()),
        task_type: resolver
            .task_type()
            .map_or(ptr::null(), |job| job.as_c_str().as_ptr()),
        task_index: resolver.task_index().map_or(UMBO_NONE, number),
        rank: place.map_or(UMBO_NONE, |place| number(place.rank)),
        rank_count: place.map_or(0, |place| number(place.size)),
        ..Default::default()
    });
}

/// Gets a job.
///
/// @param[in] index Its position in alphabetical order.
/// @param[out] name Its name. Lives as long as the resolver.
/// @param[out] task_count The number of its tasks.
/// @return UMBO_STATUS_OUT_OF_RANGE: no such job.
#[c_call(out(name), out(task_count), borrow(resolver))]
pub fn umbo_cluster_resolver_job(
    resolver: *const umbo_cluster_resolver,
    index: i64,
    name: *mut *const c_char,
    task_count: *mut i64,
) {
    let jobs = Listed {
        count: resolver.jobs().len(),
        elements: "the jobs",
    };
    let job = at(index, "index", jobs, |index| resolver.jobs().nth(index))?;
    task_count.write(resolver.tasks(job)?.len() as i64);
    name.write(job.as_c_str().as_ptr());
}

/// Gets a task of a job.
///
/// @param[in] index Its position in the order of the numbers.
/// @param[out] number Its number: `index` if the tasks were an array.
/// @param[out] address Its address. Lives as long as the resolver.
/// @return UMBO_STATUS_NOT_FOUND: no such job; UMBO_STATUS_OUT_OF_RANGE: no such task.
#[c_call(out(number), out(address), text(job), borrow(resolver))]
pub fn umbo_cluster_resolver_task(
    resolver: *const umbo_cluster_resolver,
    job: *const c_char,
    index: i64,
    number: *mut i64,
    address: *mut *const c_char,
) {
    let mut tasks = resolver.tasks(job)?;
    let list = Listed {
        count: tasks.len(),
        elements: &format!("the tasks of '{job}'"),
    };
    let task = at(index, "index", list, |index| tasks.nth(index))?;
    number.write(task.0 as i64);
    address.write(task.1.as_c_str().as_ptr());
}

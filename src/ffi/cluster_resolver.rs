//! Cluster resolvers.

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use super::boundary::{boundary, out, quietly};
use super::handle::{self, borrow, make};
use super::object::{umbo_cluster_resolver, umbo_strategy};
use super::status::umbo_status;
use super::text::{long_text, text};
use crate::cluster::resolver::ClusterResolver;
use crate::error::Error;

/// A resolver from `text`, JSON in the form of the environment variable TF_CONFIG:
/// {"cluster": {"worker": ["a:2222", "b:2222"]}, "task": {"type": "worker", "index": 0}}. `text` may
/// be NULL: then the variable itself is read, and there is an empty cluster if it is not set. The
/// tasks of a job are an array of addresses or an object from numbers to addresses; other fields
/// make no difference.
///
/// INVALID_ARGUMENT, with the place, for what is not JSON or not of this form, and for a task that
/// the cluster does not have (but the task type "evaluator" need not be in it).
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_from_tf_config(
    text: *const c_char,
    resolver: *mut *mut umbo_cluster_resolver,
) -> umbo_status {
    boundary("umbo_cluster_resolver_from_tf_config", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let resolver = unsafe { out(resolver, "resolver") }?;
        let read = match text.is_null() {
            // SAFETY: not NULL, so the caller promises a text.
            false => ClusterResolver::parse(unsafe { long_text(text, "text") }?, "text"),
            true => ClusterResolver::from_environment(),
        };
        resolver.write(make(Arc::new(read?))?);
        Ok(())
    })
}

/// How many jobs the cluster has.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_job_count(
    resolver: *const umbo_cluster_resolver,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_cluster_resolver_job_count", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let count = unsafe { out(count, "count") }?;
        count.write(borrow(resolver, "resolver", |resolver| resolver.jobs().len())? as i64);
        Ok(())
    })
}

/// The name of the job at `index`, in alphabetical order. Lives as long as the resolver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_job_name(
    resolver: *const umbo_cluster_resolver,
    index: i64,
    name: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_cluster_resolver_job_name", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let name = unsafe { out(name, "name") }?;
        name.write(borrow(resolver, "resolver", |resolver| {
            let found = usize::try_from(index).ok().and_then(|index| resolver.jobs().nth(index));
            found.map(|name| name.as_c_str().as_ptr()).ok_or_else(|| {
                let problem = format!("{index} is not in [0, {}), the jobs", resolver.jobs().len());
                Error::out_of_range("index", problem)
            })
        })??);
        Ok(())
    })
}

/// How many tasks a job has. NOT_FOUND if there is no such job.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_task_count(
    resolver: *const umbo_cluster_resolver,
    job: *const c_char,
    count: *mut i64,
) -> umbo_status {
    boundary("umbo_cluster_resolver_task_count", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (count, job) = unsafe { (out(count, "count")?, text(job, "job")?) };
        let tasks =
            borrow(resolver, "resolver", |resolver| resolver.tasks(job).map(|tasks| tasks.len()))??;
        count.write(tasks as i64);
        Ok(())
    })
}

/// The number and the address of the task of `job` at `position`, in the order of their numbers
/// (which are the positions if the tasks were given as an array). The address lives as long as the
/// resolver. NOT_FOUND if there is no such job, OUT_OF_RANGE if it has no such task.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_task(
    resolver: *const umbo_cluster_resolver,
    job: *const c_char,
    position: i64,
    index: *mut i64,
    address: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_cluster_resolver_task", || {
        // SAFETY: the caller keeps the header's promise on pointers.
        let (index, address, job) =
            unsafe { (out(index, "index")?, out(address, "address")?, text(job, "job")?) };
        let found = borrow(resolver, "resolver", |resolver| {
            let mut tasks = resolver.tasks(job)?;
            let count = tasks.len();
            let found = usize::try_from(position).ok().and_then(|position| tasks.nth(position));
            found.map(|(index, address)| (index, address.as_c_str().as_ptr())).ok_or_else(|| {
                let problem = format!("{position} is not in [0, {count}), the tasks of '{job}'");
                Error::out_of_range("position", problem)
            })
        })??;
        index.write(found.0 as i64);
        address.write(found.1);
        Ok(())
    })
}

/// The job that this process is a task of; NULL if the configuration does not say. Lives as long
/// as the resolver.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_task_type(
    resolver: *const umbo_cluster_resolver,
    task_type: *mut *const c_char,
) -> umbo_status {
    boundary("umbo_cluster_resolver_task_type", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let task_type = unsafe { out(task_type, "task_type") }?;
        task_type.write(borrow(resolver, "resolver", |resolver| {
            resolver.task_type().map_or(ptr::null(), |job| job.as_c_str().as_ptr())
        })?);
        Ok(())
    })
}

/// Which task of its job this process is; -1 if the configuration does not say.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_task_index(
    resolver: *const umbo_cluster_resolver,
    task_index: *mut i64,
) -> umbo_status {
    boundary("umbo_cluster_resolver_task_index", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let task_index = unsafe { out(task_index, "task_index") }?;
        task_index.write(borrow(resolver, "resolver", |resolver| {
            resolver.task_index().map_or(-1, |index| index as i64)
        })?);
        Ok(())
    })
}

/// The resolver that the strategy was made with; NULL if it was made without one, whatever the
/// environment says. A new handle, to be released.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_strategy_cluster_resolver(
    strategy: *const umbo_strategy,
    resolver: *mut *mut umbo_cluster_resolver,
) -> umbo_status {
    boundary("umbo_strategy_cluster_resolver", || {
        // SAFETY: the caller gives NULL or a place for the output.
        let resolver = unsafe { out(resolver, "resolver") }?;
        let own = borrow(strategy, "strategy", |strategy| strategy.cluster_resolver().cloned())?;
        resolver.write(own.map_or(Ok(ptr::null_mut()), make)?);
        Ok(())
    })
}

/// Another handle to the same object, to be released like the first; also of what a callback was
/// only lent, which then stays.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_retain(
    resolver: *const umbo_cluster_resolver,
    retained: *mut *mut umbo_cluster_resolver,
) -> umbo_status {
    boundary("umbo_cluster_resolver_retain", || {
        // SAFETY: the caller gives NULL or a place for the output.
        unsafe { handle::retain(resolver, "resolver", retained) }
    })
}

/// Releases a reference. NULL is fine.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn umbo_cluster_resolver_release(resolver: *const umbo_cluster_resolver) {
    quietly("umbo_cluster_resolver_release", || handle::release(resolver, "resolver"));
}

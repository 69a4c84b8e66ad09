//! Pools of threads of other libraries in the process: what they compute in a replica's callback, they
//! compute with as many threads as they think that the machine has processors, for each replica.

use std::ffi::{CStr, c_int};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::observe::log::{self, Level};

/// A library with such a pool.
struct Pool {
    name: &'static str,
    /// The function that tells how many threads a call from this thread would use: C's `int f(void)`.
    size: &'static CStr,
    /// What to do about it.
    remedy: &'static str,
}

const POOLS: [Pool; 4] = [
    Pool {
        name: "OpenBLAS",
        size: c"openblas_get_num_threads",
        remedy: "openblas_set_num_threads(), or OPENBLAS_NUM_THREADS in the environment",
    },
    Pool {
        name: "MKL",
        size: c"MKL_Get_Max_Threads",
        remedy: "MKL_Set_Num_Threads(), or MKL_NUM_THREADS in the environment",
    },
    Pool {
        name: "BLIS",
        size: c"bli_thread_get_num_threads",
        remedy: "bli_thread_set_num_threads(), or BLIS_NUM_THREADS in the environment",
    },
    Pool {
        name: "OpenMP",
        size: c"omp_get_max_threads",
        remedy: "omp_set_num_threads() on each replica's thread, or OMP_NUM_THREADS in the environment",
    },
];

/// Says in the log, once in a process, if a library would compute with so many threads for each of
/// `replicas` replicas at a time that all together are more than there are processors. To be called on a replica's
/// thread.
pub fn warn_of_too_many(replicas: usize, processors: usize) {
    static HAS_WARNED: AtomicBool = AtomicBool::new(false);
    if HAS_WARNED.load(Ordering::Relaxed) {
        return;
    }
    let each = (processors / replicas).max(1);
    for pool in &POOLS {
        let Some(threads) = pool.threads().filter(|&threads| threads > each) else { continue };
        if HAS_WARNED.swap(true, Ordering::Relaxed) {
            return;
        }
        log::log(Level::Warning, || {
            format!(
                "{} computes with {threads} threads in each of {replicas} replicas, and there are \
                 {processors} processors: replicas get in each other's way, and a step may take several \
                 times as long. Let it use {each}: {}; replica_thread_start of the strategy's options \
                 is the place",
                pool.name, pool.remedy
            )
        });
        return;
    }
}

impl Pool {
    /// How many threads it would use; `None` if the process has not loaded it.
    fn threads(&self) -> Option<usize> {
        // SAFETY: a lookup of a name, which is a C string.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, self.size.as_ptr()) };
        if found.is_null() {
            return None;
        }
        // SAFETY: a symbol of one of these names is that library's function, which has had this type in
        // all of its versions.
        let size = unsafe { mem::transmute::<*mut libc::c_void, extern "C" fn() -> c_int>(found) };
        usize::try_from(size()).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_that_is_not_there_has_no_threads() {
        let absent = Pool { name: "none", size: c"nobody_has_such_a_function", remedy: "" };
        assert_eq!(absent.threads(), None);
    }
}

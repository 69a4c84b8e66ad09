//! Functions of the program that run on the threads which serve as replicas.

use crate::machinery::prelude::*;
use umbo_core::strategy::context::replica_threads::{ReplicaThread, ThreadHook};

/// A thread that serves as a replica. The library fills it; later versions may append fields.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_replica_thread {
    /// sizeof(umbo_replica_thread), as the library knows it.
    pub struct_size: usize,
    /// The local id of the replica.
    pub replica_id: i32,
    /// 1: the program's thread, which calls umbo_strategy_run(). 0: a thread of the library.
    pub is_caller: i32,
    /// The number of replicas in this process.
    pub replica_count: i64,
    /// The canonical name of the replica's device. Lives as long as the process.
    pub device: *const c_char,
    /// The number of elements of `processors`.
    pub processor_count: i64,
    /// The numbers of the replica's processors, ascending: those of its device if threads are
    /// bound; else, and for a GPU, all that this rank may use.
    pub processors: *const i32,
    /// How many threads OpenMP, a BLAS and the like should use for this replica, so that all
    /// replicas of this rank together use its processors once; 1 or more. Ranks that the launcher
    /// has not bound share the machine.
    pub computing_thread_count: i32,
}

/// Called on a thread that begins or ceases to serve as a replica.
///
/// @param[in] thread The thread; valid until the function returns.
pub type umbo_replica_thread_fn =
    Option<unsafe extern "C-unwind" fn(thread: *const umbo_replica_thread, user_data: *mut c_void)>;

/// The hook that options ask for, and what releases its user data, whatever else is wrong with the
/// options. Without functions there is no hook, and the user data lives until the result is
/// dropped.
///
/// # Safety
/// The functions are of their types, and the user data is given away.
pub(crate) unsafe fn hook_from(
    options: &umbo_strategy_options,
) -> (Option<ThreadHook>, Arc<UserData>) {
    let user_data = options.replica_thread_user_data;
    let destroy = options.replica_thread_user_data_destroy;
    let start = options.replica_thread_start;
    let stop = options.replica_thread_stop;
    // SAFETY: the caller's promise.
    let user_data = Arc::new(unsafe { UserData::new(user_data, destroy) });
    if start.is_none() && stop.is_none() && destroy.is_none() {
        return (None, user_data);
    }
    let kept = Arc::clone(&user_data);
    let hook = move |thread: &ReplicaThread, begins: bool| {
        let Some(function) = (if begins { start } else { stop }) else {
            return;
        };
        let processors: Vec<i32> = thread
            .processors
            .processors()
            .map(|processor| processor as i32)
            .collect();
        let thread = umbo_replica_thread {
            struct_size: size_of::<umbo_replica_thread>(),
            replica_id: thread.replica as i32,
            is_caller: i32::from(thread.is_callers),
            replica_count: thread.replicas as i64,
            device: device_name(thread.device),
            processor_count: processors.len() as i64,
            processors: processors.as_ptr(),
            computing_thread_count: thread.computing_threads as i32,
        };
        // SAFETY: the program gave a function of this type with its user data.
        callback::run_infallible(|| unsafe { function(&thread, kept.pointer()) });
    };
    (Some(Arc::new(hook)), user_data)
}

//! What a program does on the threads that serve as replicas.

use super::prelude::*;
use crate::strategy::replica_threads::{Hooks, ReplicaThread, ThreadHooks};

/// A thread that serves as a replica. It is filled by the library; later versions may add fields at the
/// end.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct umbo_replica_thread {
    /// sizeof(umbo_replica_thread), as the library knows it.
    pub struct_size: usize,
    /// The replica's id.
    pub replica: i32,
    /// 1: a thread of the program's, from which it calls umbo_strategy_run(). 0: one of the library's.
    pub is_callers: i32,
    /// How many replicas the strategy has.
    pub replica_count: i64,
    /// The canonical name of the replica's device. Lives as long as the process.
    pub device: *const c_char,
    /// The numbers of the processors that are this replica's, ascending: those of its device if threads
    /// are bound, else (and for a GPU, which has none) all that this rank may use.
    pub processors: *const i32,
    /// How many there are.
    pub processor_count: i64,
    /// With how many threads to compute for this replica, so that all replicas of this rank together have no
    /// more than it may use processors; 1 or more. This is what OpenMP, a BLAS and the like should be set to.
    /// A rank that the launcher has bound uses the processors that it is bound to; ranks that may use the whole
    /// machine divide it among themselves. Other processes of the machine do not count.
    pub computing_threads: i32,
}

/// A thread begins or ceases to serve as a replica. Called on that thread.
///
/// @param[in] thread The thread. The struct and what it points to live until the function returns.
/// @param[in] user_data What the options of the strategy give.
pub type umbo_replica_thread_fn =
    Option<unsafe extern "C-unwind" fn(thread: *const umbo_replica_thread, user_data: *mut c_void)>;

/// The program's functions.
struct Functions {
    start: umbo_replica_thread_fn,
    stop: umbo_replica_thread_fn,
    user_data: Arc<UserData>,
}

/// The hooks that options ask for, and what releases their user data, whatever else is wrong with the
/// options. Without functions there are no hooks, and the user data lives until the result is dropped.
///
/// # Safety
/// The functions are of their types, and the user data is given away.
pub(super) unsafe fn hooks_from(options: Option<&umbo_strategy_options>) -> (Option<Hooks>, Keeps) {
    let (user_data, destroy): (_, umbo_destroy_fn) = match options {
        Some(options) => {
            (options.replica_thread_user_data, options.replica_thread_user_data_destroy)
        }
        None => (std::ptr::null_mut(), None),
    };
    // SAFETY: the caller's promise.
    let user_data = Arc::new(unsafe { UserData::new(user_data, destroy) });
    let functions = options.map(|options| Functions {
        start: options.replica_thread_start,
        stop: options.replica_thread_stop,
        user_data: Arc::clone(&user_data),
    });
    let functions = functions.filter(|them| {
        them.start.is_some() || them.stop.is_some() || them.user_data.destroy().is_some()
    });
    (functions.map(Hooks::new), Keeps { _user_data: user_data })
}

/// Keeps the user data of hooks that no strategy has yet.
pub(super) struct Keeps {
    _user_data: Arc<UserData>,
}

impl Functions {
    fn call(&self, function: umbo_replica_thread_fn, thread: &ReplicaThread) {
        let Some(function) = function else { return };
        let processors: Vec<i32> =
            thread.processors.processors().map(|processor| processor as i32).collect();
        let told = umbo_replica_thread {
            struct_size: size_of::<umbo_replica_thread>(),
            replica: thread.replica as i32,
            is_callers: i32::from(thread.is_callers),
            replica_count: thread.replicas as i64,
            device: device_name(thread.device),
            processors: processors.as_ptr(),
            processor_count: processors.len() as i64,
            computing_threads: thread.computing_threads as i32,
        };
        // SAFETY: the program gave a function of this type with its user data.
        unsafe { function(&told, self.user_data.pointer()) }
    }
}

impl ThreadHooks for Functions {
    fn start(&self, thread: &ReplicaThread) {
        self.call(self.start, thread);
    }

    fn stop(&self, thread: &ReplicaThread) {
        self.call(self.stop, thread);
    }
}

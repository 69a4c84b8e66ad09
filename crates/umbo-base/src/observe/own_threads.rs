//! The threads that belong to the library.

use parking_lot::Mutex;

use umbo_system::threads;

/// The system's ids of those that are alive.
static ALIVE: Mutex<Vec<u32>> = Mutex::new(Vec::new());

/// The system's ids of the threads that belong to the library and are alive.
pub fn numbers() -> Vec<u32> {
    ALIVE.lock().clone()
}

/// The calling thread, as one that belongs to the library, until this is dropped there.
#[derive(Debug)]
pub struct OwnThread(u32);

impl OwnThread {
    /// Notes the calling thread.
    pub fn note() -> OwnThread {
        let thread = threads::number();
        ALIVE.lock().push(thread);
        OwnThread(thread)
    }
}

impl Drop for OwnThread {
    fn drop(&mut self) {
        ALIVE.lock().retain(|thread| *thread != self.0);
    }
}

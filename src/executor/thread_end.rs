//! What is done when a thread ends.
//!
//! Rust's thread-local values are destroyed before the destructors of the program's thread-specific
//! data (`pthread_key_create`) run, and what such a destructor makes anew is never destroyed. What the
//! library keeps for a thread lies therefore in places without destructors, and is let go of by a
//! destructor of thread-specific data of its own, which the system calls again if there is more.

use std::ffi::c_void;
use std::ptr;
use std::sync::OnceLock;

/// Something that is done at the end of each thread that asks for it.
pub struct AtThreadEnd {
    key: OnceLock<Option<libc::pthread_key_t>>,
    /// Lets go of what the calling thread has kept.
    let_go: unsafe extern "C" fn(*mut c_void),
}

impl AtThreadEnd {
    /// Has `let_go` called, with an argument that means nothing, on threads that ask for it.
    pub const fn new(let_go: unsafe extern "C" fn(*mut c_void)) -> AtThreadEnd {
        AtThreadEnd { key: OnceLock::new(), let_go }
    }

    /// Has it called at the end of the calling thread; also if this is the end, and also if it was
    /// called before. If the system has no more keys, what the thread keeps stays.
    pub fn arm(&self) {
        let key = self.key.get_or_init(|| {
            let mut key = 0;
            // SAFETY: there is a place for the key, and the function lives as long as the process,
            // from which the library is never unloaded.
            let made = unsafe { libc::pthread_key_create(&mut key, Some(self.let_go)) };
            (made == 0).then_some(key)
        });
        if let Some(key) = *key {
            // SAFETY: the key was made and is never deleted; the value is not NULL, for which the
            // function would not be called, and nobody looks at what it is.
            unsafe { libc::pthread_setspecific(key, ptr::dangling::<u8>().cast()) };
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn threads_let_go_once_for_each_time_they_ask() {
        static CALLS: AtomicUsize = AtomicUsize::new(0);
        static END: AtThreadEnd = AtThreadEnd::new(count);
        unsafe extern "C" fn count(_: *mut c_void) {
            // The first call asks again, as what is called back may.
            if CALLS.fetch_add(1, Ordering::SeqCst) == 0 {
                END.arm();
            }
        }
        let thread = std::thread::spawn(|| {
            END.arm();
            END.arm();
            assert_eq!(CALLS.load(Ordering::SeqCst), 0);
        });
        thread.join().unwrap();
        assert_eq!(CALLS.load(Ordering::SeqCst), 2);
        std::thread::spawn(|| ()).join().unwrap();
        assert_eq!(CALLS.load(Ordering::SeqCst), 2);
    }
}

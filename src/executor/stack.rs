//! How large stacks are: those that threads of the library get, and those of the threads that start them.

use std::io;
use std::mem::MaybeUninit;

/// The smallest stack that a thread gets which is to have its starter's.
pub const LEAST_STACK_BYTES: usize = 2 << 20;

/// The largest stack that a thread gets which is to have its starter's.
pub const MOST_INHERITED_STACK_BYTES: usize = 1 << 30;

/// The stack of threads where that of the process has no limit.
const USUAL_STACK_BYTES: usize = 8 << 20;

/// How a thread is to be made, or is.
pub(super) struct Attributes(pub libc::pthread_attr_t);

impl Attributes {
    pub fn new() -> io::Result<Attributes> {
        let mut attributes = MaybeUninit::uninit();
        // SAFETY: the pointer is to room for attributes.
        match unsafe { libc::pthread_attr_init(attributes.as_mut_ptr()) } {
            // SAFETY: initialised by the call.
            0 => Ok(Attributes(unsafe { attributes.assume_init() })),
            code => Err(io::Error::from_raw_os_error(code)),
        }
    }
}

impl Drop for Attributes {
    fn drop(&mut self) {
        // SAFETY: initialised, and not used afterwards.
        unsafe { libc::pthread_attr_destroy(&mut self.0) };
    }
}

pub(super) fn page_bytes() -> usize {
    // SAFETY: it only answers.
    usize::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).unwrap_or(4096).max(1)
}

/// How large the stack of the process's first thread may grow, as far as a thread of the library is
/// given as much: between [`LEAST_STACK_BYTES`] and [`MOST_INHERITED_STACK_BYTES`]; 8 MiB where it has
/// no limit.
pub fn process_stack_bytes() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the limits have a place.
    let failed = unsafe { libc::getrlimit(libc::RLIMIT_STACK, &mut limit) } != 0;
    if failed || limit.rlim_cur == libc::RLIM_INFINITY {
        return USUAL_STACK_BYTES;
    }
    inherited(usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX))
}

/// How large the calling thread's stack is or may grow, within the same bounds as
/// [`process_stack_bytes`].
pub fn current_stack_bytes() -> usize {
    // SAFETY: both only answer.
    if unsafe { libc::gettid() == libc::getpid() } {
        return process_stack_bytes();
    }
    let Some(attributes) = current_attributes() else { return process_stack_bytes() };
    let mut bytes = 0;
    // SAFETY: the attributes are initialised and the size has a place.
    match unsafe { libc::pthread_attr_getstacksize(&attributes.0, &mut bytes) } {
        0 => inherited(bytes),
        _ => process_stack_bytes(),
    }
}

/// Those of the calling thread.
pub(super) fn current_attributes() -> Option<Attributes> {
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: the thread exists and the attributes have room.
    match unsafe { libc::pthread_getattr_np(libc::pthread_self(), attributes.as_mut_ptr()) } {
        // SAFETY: initialised by the call.
        0 => Some(Attributes(unsafe { attributes.assume_init() })),
        _ => None,
    }
}

fn inherited(bytes: usize) -> usize {
    bytes.clamp(LEAST_STACK_BYTES, MOST_INHERITED_STACK_BYTES)
}

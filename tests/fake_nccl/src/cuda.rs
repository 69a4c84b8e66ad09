//! The functions of the CUDA driver that the process has loaded.

use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;
use std::sync::OnceLock;

/// Something of the driver's.
pub type Raw = *mut c_void;

/// `ncclUnhandledCudaError`.
pub struct Unhandled;

macro_rules! functions {
    ($($field:ident = $name:literal ($($argument:ty),*);)*) => {
        struct Driver {
            $($field: unsafe extern "C" fn($($argument),*) -> c_int,)*
        }

        impl Driver {
            fn find() -> Option<Driver> {
                Some(Driver {
                    $($field: {
                        let found = symbol($name)?;
                        // SAFETY: the driver's function of this name has this type.
                        unsafe {
                            std::mem::transmute::<
                                *mut c_void,
                                unsafe extern "C" fn($($argument),*) -> c_int,
                            >(found)
                        }
                    },)*
                })
            }
        }
    };
}

functions! {
    get_current = c"cuCtxGetCurrent"(*mut Raw);
    set_current = c"cuCtxSetCurrent"(Raw);
    event_create = c"cuEventCreate"(*mut Raw, c_uint);
    event_record = c"cuEventRecord"(Raw, Raw);
    event_destroy = c"cuEventDestroy_v2"(Raw);
    wait_event = c"cuStreamWaitEvent"(Raw, Raw, c_uint);
    copy = c"cuMemcpyPeerAsync"(u64, Raw, u64, Raw, usize, Raw);
    host_function = c"cuLaunchHostFunc"(Raw, unsafe extern "C" fn(*mut c_void), *mut c_void);
}

fn symbol(name: &CStr) -> Option<*mut c_void> {
    // SAFETY: the names end with a zero.
    let found = unsafe {
        let library = libc::dlopen(c"libcuda.so.1".as_ptr(), libc::RTLD_LAZY);
        if library.is_null() {
            ptr::null_mut()
        } else {
            libc::dlsym(library, name.as_ptr())
        }
    };
    (!found.is_null()).then_some(found)
}

fn driver() -> Result<&'static Driver, Unhandled> {
    static DRIVER: OnceLock<Option<Driver>> = OnceLock::new();
    DRIVER.get_or_init(Driver::find).as_ref().ok_or(Unhandled)
}

fn ok(code: c_int) -> Result<(), Unhandled> {
    if code == 0 { Ok(()) } else { Err(Unhandled) }
}

/// The context that is current on this thread.
pub fn current() -> Result<Raw, Unhandled> {
    let mut context = ptr::null_mut();
    // SAFETY: there is room for a handle.
    ok(unsafe { (driver()?.get_current)(&raw mut context) })?;
    if context.is_null() {
        Err(Unhandled)
    } else {
        Ok(context)
    }
}

/// Runs `body` with `context` current on this thread.
pub fn within<T>(
    context: Raw,
    body: impl FnOnce() -> Result<T, Unhandled>,
) -> Result<T, Unhandled> {
    let driver = driver()?;
    let mut before = ptr::null_mut();
    // SAFETY: there is room for a handle, and the context was current when it was noted.
    unsafe {
        ok((driver.get_current)(&raw mut before))?;
        ok((driver.set_current)(context))?;
    }
    let result = body();
    // SAFETY: it was current before, or none was.
    unsafe { (driver.set_current)(before) };
    result
}

/// A point in the work of a stream.
pub struct Event(Raw);

// SAFETY: a handle of the driver's may be used by every thread.
unsafe impl Send for Event {}

impl Event {
    /// All that was put on `stream` so far.
    pub fn on(stream: Raw) -> Result<Event, Unhandled> {
        let driver = driver()?;
        let mut event = ptr::null_mut();
        // SAFETY: there is room for a handle; the stream is the program's.
        unsafe {
            ok((driver.event_create)(&raw mut event, 2))?;
            let made = Event(event);
            ok((driver.event_record)(event, stream))?;
            Ok(made)
        }
    }

    /// What is put on `stream` from now on comes after it.
    pub fn before(&self, stream: Raw) -> Result<(), Unhandled> {
        // SAFETY: event and stream are alive.
        ok(unsafe { (driver()?.wait_event)(stream, self.0, 0) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(driver) = driver() {
            // SAFETY: it was made here and is used no more; the driver keeps it while streams wait
            // for it.
            unsafe { (driver.event_destroy)(self.0) };
        }
    }
}

/// Puts a copy on a stream, between memory of two contexts.
pub fn copy(
    (to, to_context): (u64, Raw),
    (from, from_context): (u64, Raw),
    bytes: usize,
    stream: Raw,
) -> Result<(), Unhandled> {
    // SAFETY: the program has named the memory, which the driver checks.
    ok(unsafe { (driver()?.copy)(to, to_context, from, from_context, bytes, stream) })
}

/// Puts a function on a stream.
///
/// # Safety
/// `function` may be called with `data` on any thread, once.
pub unsafe fn call(
    stream: Raw,
    function: unsafe extern "C" fn(*mut c_void),
    data: *mut c_void,
) -> Result<(), Unhandled> {
    // SAFETY: the caller's promise.
    ok(unsafe { (driver()?.host_function)(stream, function, data) })
}

//! The functions of NCCL that this library uses, as NCCL's public header declares them. They come
//! from the library that is found at run time, so that building needs nothing of NCCL.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Display;

use super::VARIABLE;
use crate::functions::{self, functions};
use umbo_base::error::{Error, Result, Status};
use umbo_system::libraries::Scope;

/// A communicator of NCCL.
pub type Comm = *mut c_void;

/// The id that the ranks of one communicator share. It is passed by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// How a communicator is made, as in NCCL 2.14. Later versions accept this shorter struct, and
/// treat their other fields as not set.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    /// The configuration in which no call waits for other ranks. `ncclCommGetAsyncError` reports
    /// whether a call is complete.
    pub fn without_waiting() -> Config {
        Config {
            size: size_of::<Config>(),
            magic: 0xcafe_beef,
            version: OLDEST,
            blocking: 0,
        }
    }
}

pub const SUCCESS: c_int = 0;
pub const INVALID_USAGE: c_int = 5;
pub const REMOTE_ERROR: c_int = 6;
pub const IN_PROGRESS: c_int = 7;
/// The code of bytes among NCCL's types.
pub const UINT8: c_int = 1;

/// The first version with calls that do not wait, 2.14.
const OLDEST: c_uint = 21400;

/// The usual name of the library.
const NAME: &str = "libnccl.so.2";

functions! {
    "; NCCL 2.14 or newer is expected";
    get_version = c"ncclGetVersion"(*mut c_int) -> c_int;
    get_error_string = c"ncclGetErrorString"(c_int) -> *const c_char;
    get_last_error = c"ncclGetLastError"(Comm) -> *const c_char;
    get_unique_id = c"ncclGetUniqueId"(*mut UniqueId) -> c_int;
    comm_init_rank_config = c"ncclCommInitRankConfig"(
        *mut Comm, c_int, UniqueId, c_int, *mut Config
    ) -> c_int;
    comm_destroy = c"ncclCommDestroy"(Comm) -> c_int;
    comm_abort = c"ncclCommAbort"(Comm) -> c_int;
    comm_get_async_error = c"ncclCommGetAsyncError"(Comm, *mut c_int) -> c_int;
    group_start = c"ncclGroupStart"() -> c_int;
    group_end = c"ncclGroupEnd"() -> c_int;
    send = c"ncclSend"(*const c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    recv = c"ncclRecv"(*mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
}

impl Functions {
    /// The functions of the library at `path`. Without a path it is the library that the variable
    /// names, and without the variable the one with the usual name.
    pub fn of_a_library(path: Option<&str>) -> Result<Functions> {
        // SAFETY: the initialisers of NCCL are written to be run.
        let opened = unsafe { functions::open(path, VARIABLE, &[NAME], Scope::Opener) };
        let (library, name) = opened.map_err(|why| {
            Error::Unavailable(format!(
                "NCCL was not found: {why}. Install NCCL 2.14 or newer, and put its folder into \
                 LD_LIBRARY_PATH or its path into {VARIABLE}"
            ))
        })?;
        // SAFETY: the library has NCCL's names, and stays loaded (see the end of this function).
        let functions = unsafe { Functions::new(&|symbol| library.symbol(symbol), &name) }?;
        // NCCL has its own threads and must not be unloaded. Opening it again returns the same
        // library.
        std::mem::forget(library);
        functions.check_version(&name)?;
        Ok(functions)
    }

    fn check_version(&self, name: &str) -> Result<()> {
        let mut version = 0;
        // SAFETY: it may be called at any time.
        let code = unsafe { (self.get_version)(&raw mut version) };
        self.check(code, "ncclGetVersion")?;
        if version >= OLDEST as c_int {
            return Ok(());
        }
        Err(Error::Unavailable(format!(
            "{name} is NCCL by the version number {version}; 2.14 ({OLDEST}) or newer is expected"
        )))
    }

    /// Converts a code to an error that begins with `operation`, unless the code is success or
    /// means that the call continues.
    pub fn check(&self, code: c_int, operation: impl Display) -> Result<()> {
        if code == SUCCESS || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: both return NULL or a text that stays at least until this thread's next call.
        let (meaning, last) = unsafe {
            let last = (self.get_last_error)(std::ptr::null_mut());
            (text_of((self.get_error_string)(code)), text_of(last))
        };
        let mut message = format!("{operation}: NCCL says {code}");
        for part in [meaning, last].into_iter().flatten() {
            message.push_str(", ");
            message.push_str(&part);
        }
        if code == INVALID_USAGE {
            message.push_str(
                "; it says so, too, of two ranks on one card: each needs a physical GPU of its own",
            );
        }
        message.push_str("; NCCL_DEBUG=WARN has NCCL print why");
        match code {
            // Another rank has failed first.
            REMOTE_ERROR => Err(Error::Rank {
                rank: None,
                status: Status::Unavailable,
                message,
            }),
            _ => Err(Error::Unavailable(message)),
        }
    }
}

/// # Safety
/// `text` is NULL or a text that stays during this call.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

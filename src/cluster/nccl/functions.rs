//! The functions of NCCL that are used, as its public header declares them. They come from the library that
//! is found at run time, so that nothing of NCCL is needed to build.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::fmt::Display;

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

use crate::cluster::functions::{functions, symbol_of, why_not_opened};
use crate::error::{Error, Result, Status};

/// A communicator of NCCL's.
pub type Comm = *mut c_void;

/// What ranks that belong together have in common, given by value.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct UniqueId(pub [u8; 128]);

/// How a communicator is made, as NCCL 2.14 has it. Later ones take a shorter struct for one whose other fields
/// are not set.
#[repr(C)]
pub struct Config {
    size: usize,
    magic: c_uint,
    version: c_uint,
    blocking: c_int,
}

impl Config {
    /// No call waits for other ranks: what is not done yet is asked for with `ncclCommGetAsyncError`.
    pub fn without_waiting() -> Config {
        Config { size: size_of::<Config>(), magic: 0xcafe_beef, version: OLDEST, blocking: 0 }
    }
}

pub const SUCCESS: c_int = 0;
pub const INVALID_USAGE: c_int = 5;
pub const REMOTE_ERROR: c_int = 6;
pub const IN_PROGRESS: c_int = 7;
/// Bytes, among NCCL's types.
pub const UINT8: c_int = 1;

/// The first version whose calls need not wait, 2.14.
const OLDEST: c_uint = 21400;

/// The name of the library.
const NAME: &str = "libnccl.so.2";
/// The environment variable that names it.
pub const VARIABLE: &str = "UMBO_NCCL_LIBRARY";

functions! {
    "; NCCL 2.14 or newer is expected";
    get_version = c"ncclGetVersion"(*mut c_int) -> c_int;
    get_error_string = c"ncclGetErrorString"(c_int) -> *const c_char;
    get_last_error = c"ncclGetLastError"(Comm) -> *const c_char;
    get_unique_id = c"ncclGetUniqueId"(*mut UniqueId) -> c_int;
    comm_init_rank_config = c"ncclCommInitRankConfig"(*mut Comm, c_int, UniqueId, c_int, *mut Config) -> c_int;
    comm_destroy = c"ncclCommDestroy"(Comm) -> c_int;
    comm_abort = c"ncclCommAbort"(Comm) -> c_int;
    comm_get_async_error = c"ncclCommGetAsyncError"(Comm, *mut c_int) -> c_int;
    group_start = c"ncclGroupStart"() -> c_int;
    group_end = c"ncclGroupEnd"() -> c_int;
    send = c"ncclSend"(*const c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
    recv = c"ncclRecv"(*mut c_void, usize, c_int, c_int, Comm, *mut c_void) -> c_int;
}

impl Functions {
    /// The functions of the library at `path`, else of the one that the variable names, else of the one by the
    /// usual name.
    pub fn of_a_library(path: Option<&str>) -> Result<Functions> {
        let variable = std::env::var(VARIABLE).ok().filter(|name| !name.is_empty());
        let name = path.or(variable.as_deref()).unwrap_or(NAME);
        // SAFETY: the initialisers of NCCL are made to be run.
        let opened = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) };
        let library = opened.map_err(|error| {
            let why = why_not_opened(name, &error);
            Error::Unavailable(format!(
                "NCCL was not found: {why}. Install NCCL 2.14 or newer, and put its folder into LD_LIBRARY_PATH \
                 or its path into {VARIABLE}"
            ))
        })?;
        // SAFETY: the library has NCCL's names, and is kept below.
        let functions = unsafe { Functions::new(&|symbol| symbol_of(&library, symbol), name) }?;
        // NCCL has threads of its own and is not to be unloaded; opening it again gives the same one.
        std::mem::forget(library);
        functions.check_version(name)?;
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

    /// What a code means: an error that begins with `what`, unless it is success or says that the call goes on.
    pub fn check(&self, code: c_int, what: impl Display) -> Result<()> {
        if code == SUCCESS || code == IN_PROGRESS {
            return Ok(());
        }
        // SAFETY: both give NULL or a text that stays at least until this thread's next call.
        let (meaning, last) = unsafe {
            let last = (self.get_last_error)(std::ptr::null_mut());
            (text_of((self.get_error_string)(code)), text_of(last))
        };
        let mut message = format!("{what}: NCCL says {code}");
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
            REMOTE_ERROR => Err(Error::Rank { rank: None, status: Status::Unavailable, message }),
            _ => Err(Error::Unavailable(message)),
        }
    }
}

/// # Safety
/// `text` is NULL or a text that stays for now.
unsafe fn text_of(text: *const c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

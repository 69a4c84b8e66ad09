//! The library's own functions as tests call them.

use std::env;
use std::ffi::{CString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

/// The shared library that cargo built beside this program.
///
/// # Panics
///
/// If it is not there.
pub fn library() -> PathBuf {
    let program = env::current_exe().expect("the program knows where it is");
    let folder = program.parent().expect("a program lies in a folder");
    // Tests lie in deps; programs and the copy of the library one folder above.
    let names = [
        "libfake_nccl.so",
        "deps/libfake_nccl.so",
        "../libfake_nccl.so",
    ];
    names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| {
            panic!(
                "libfake_nccl.so is not in {}: build the package fake-nccl",
                folder.display()
            )
        })
}

/// The fake NCCL, which this process has loaded or is about to.
pub struct Control(*mut c_void);

// SAFETY: a handle of a loaded library may be used by every thread.
unsafe impl Send for Control {}
// SAFETY: as above.
unsafe impl Sync for Control {}

impl Control {
    /// Opens it where it was built.
    ///
    /// # Panics
    ///
    /// If it cannot be opened.
    pub fn open() -> Control {
        let path = CString::new(library().as_os_str().as_bytes()).expect("a path has no zero");
        // SAFETY: the name ends with a zero; the library's start runs no code.
        let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW) };
        assert!(!library.is_null(), "{path:?} cannot be opened");
        Control(library)
    }

    fn need(&self, name: &str) -> *mut c_void {
        let symbol = CString::new(name).expect("a name has no zero");
        // SAFETY: the library is open and the name ends with a zero.
        let found = unsafe { libc::dlsym(self.0, symbol.as_ptr()) };
        assert!(!found.is_null(), "the fake NCCL lacks {name}");
        found
    }

    /// Lets things go wrong, `NAME:NUMBER:CODE,...`, and counts from zero; an empty text ends it.
    /// NUMBER 0 is each time. The NAME is
    ///
    /// * a function, whose NUMBER-th call fails with CODE, or `*`, for all but
    ///   `ncclCommGetAsyncError`;
    /// * `state`: CODE is what a communicator comes to when it is asked for the NUMBER-th time
    ///   while something is in progress;
    /// * `absent`: the NUMBER-th group that begins never makes progress;
    /// * `stuck`: the stream of the NUMBER-th group is held up until its communicator ends;
    /// * `silent`: nobody hears that another rank's communicator has ended.
    ///
    /// # Panics
    ///
    /// If it is none.
    pub fn fault(&self, text: &str) {
        let text = CString::new(text).expect("the text has no zero");
        // SAFETY: the function is declared so in `api`.
        let set: unsafe extern "C" fn(*const c_char) -> c_int =
            unsafe { std::mem::transmute(self.need("fake_nccl_fault")) };
        // SAFETY: the text ends with a zero.
        let code = unsafe { set(text.as_ptr()) };
        assert_eq!(code, 0, "{text:?} is no fault");
    }

    /// How often something came since faults were set; `injected`: how many faults; `live`: how
    /// many communicators have not ended.
    pub fn count(&self, name: &str) -> u64 {
        let name = CString::new(name).expect("the text has no zero");
        // SAFETY: the function is declared so in `api`.
        let count: unsafe extern "C" fn(*const c_char) -> u64 =
            unsafe { std::mem::transmute(self.need("fake_nccl_count")) };
        // SAFETY: the text ends with a zero.
        unsafe { count(name.as_ptr()) }
    }

    /// The mistakes found so far, which are then forgotten.
    pub fn take_reports(&self) -> Vec<String> {
        // SAFETY: the function is declared so in `api`.
        let take: unsafe extern "C" fn(*mut c_char, usize) =
            unsafe { std::mem::transmute(self.need("fake_nccl_take_reports")) };
        let mut room = vec![0_u8; 1 << 16];
        // SAFETY: there is as much room as is said.
        unsafe { take(room.as_mut_ptr().cast(), room.len()) };
        let end = room
            .iter()
            .position(|&byte| byte == 0)
            .unwrap_or(room.len());
        String::from_utf8_lossy(&room[..end])
            .lines()
            .map(String::from)
            .collect()
    }
}

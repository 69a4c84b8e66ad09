//! The functions of MPI that this library uses, with the types and constants of MPI's standard ABI
//! (MPI 5.0), so that no `mpi.h` is needed. They come from a library with this ABI, or from the
//! program, which then translates them to its own MPI.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fmt::Display;
use std::sync::OnceLock;

use super::{MpiObject, VARIABLE};
use crate::functions::{self, functions};
use umbo_base::error::{Error, Result};
use umbo_system::libraries::{Library, Scope};

/// MPI's description of a received message. It is large enough for that of any MPI.
#[derive(Clone, Copy, Default)]
#[repr(C, align(16))]
pub struct MessageStatus([u64; 8]);

pub const COMM_WORLD: MpiObject = std::ptr::without_provenance_mut(0x101);
pub const COMM_NULL: MpiObject = std::ptr::without_provenance_mut(0x100);
pub const BYTE: MpiObject = std::ptr::without_provenance_mut(0x247);
pub const INT64: MpiObject = std::ptr::without_provenance_mut(0x258);
pub const MIN: MpiObject = std::ptr::without_provenance_mut(0x22);
pub const ERRORS_RETURN: MpiObject = std::ptr::without_provenance_mut(0x143);
pub const REQUEST_NULL: MpiObject = std::ptr::without_provenance_mut(0x180);
pub const THREAD_SERIALIZED: c_int = 2048;
pub const SUCCESS: c_int = 0;

/// The most characters that MPI writes for an error or a name.
const TEXT: usize = 8192;

functions! {
    "";
    initialized = c"MPI_Initialized"(*mut c_int) -> c_int;
    finalized = c"MPI_Finalized"(*mut c_int) -> c_int;
    init_thread = c"MPI_Init_thread"(*mut c_int, *mut *mut *mut c_char, c_int, *mut c_int) -> c_int;
    query_thread = c"MPI_Query_thread"(*mut c_int) -> c_int;
    is_thread_main = c"MPI_Is_thread_main"(*mut c_int) -> c_int;
    finalize = c"MPI_Finalize"() -> c_int;
    get_processor_name = c"MPI_Get_processor_name"(*mut c_char, *mut c_int) -> c_int;
    error_string = c"MPI_Error_string"(c_int, *mut c_char, *mut c_int) -> c_int;
    abort = c"MPI_Abort"(MpiObject, c_int) -> c_int;
    comm_test_inter = c"MPI_Comm_test_inter"(MpiObject, *mut c_int) -> c_int;
    comm_idup = c"MPI_Comm_idup"(MpiObject, *mut MpiObject, *mut MpiObject) -> c_int;
    comm_free = c"MPI_Comm_free"(*mut MpiObject) -> c_int;
    comm_set_errhandler = c"MPI_Comm_set_errhandler"(MpiObject, MpiObject) -> c_int;
    comm_rank = c"MPI_Comm_rank"(MpiObject, *mut c_int) -> c_int;
    comm_size = c"MPI_Comm_size"(MpiObject, *mut c_int) -> c_int;
    isend = c"MPI_Isend"(
        *const c_void, c_int, MpiObject, c_int, c_int, MpiObject, *mut MpiObject
    ) -> c_int;
    irecv = c"MPI_Irecv"(
        *mut c_void, c_int, MpiObject, c_int, c_int, MpiObject, *mut MpiObject
    ) -> c_int;
    ibcast = c"MPI_Ibcast"(
        *mut c_void, c_int, MpiObject, c_int, MpiObject, *mut MpiObject
    ) -> c_int;
    iallreduce = c"MPI_Iallreduce"(
        *const c_void, *mut c_void, c_int, MpiObject, MpiObject, MpiObject, *mut MpiObject
    ) -> c_int;
    test = c"MPI_Test"(*mut MpiObject, *mut c_int, *mut MessageStatus) -> c_int;
    cancel = c"MPI_Cancel"(*mut MpiObject) -> c_int;
    get_count = c"MPI_Get_count"(*const MessageStatus, MpiObject, *mut c_int) -> c_int;
}

impl Functions {
    /// Converts a code to an error that begins with `operation`, unless the code is success.
    pub fn check(&self, code: c_int, operation: impl Display) -> Result<()> {
        if code == SUCCESS {
            return Ok(());
        }
        let mut buffer = vec![0_u8; TEXT];
        let mut length = 0;
        // SAFETY: the buffer is larger than any MPI requires, and ends in a NUL.
        let known = unsafe {
            (self.error_string)(code, buffer.as_mut_ptr().cast(), &raw mut length) == SUCCESS
        };
        let text = CStr::from_bytes_until_nul(&buffer)
            .unwrap_or_default()
            .to_string_lossy();
        let text = if known { text.trim() } else { "without a text" };
        Err(Error::Unavailable(format!(
            "{operation}: MPI says {code}, {text}"
        )))
    }

    /// A number for the machine on which this process runs. It is the same for all processes on the
    /// machine.
    pub fn machine(&self) -> Result<u64> {
        let mut buffer = vec![0_u8; TEXT];
        let mut length = 0;
        // SAFETY: as for the text of an error in `check`.
        let code =
            unsafe { (self.get_processor_name)(buffer.as_mut_ptr().cast(), &raw mut length) };
        self.check(code, "MPI_Get_processor_name")?;
        let name = CStr::from_bytes_until_nul(&buffer).unwrap_or_default();
        // This is FNV-1a, which is the same in every process, however it was built.
        Ok(name
            .to_bytes()
            .iter()
            .fold(0xcbf2_9ce4_8422_2325, |hash, &byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            }))
    }
}

/// The usual names of a library with the ABI.
const NAMES: [&str; 2] = ["libmpi_abi.so.1", "libmpi_abi.so.0"];

/// The advice for an MPI without the ABI.
const ADAPTER: &str = "for Open MPI 4 and 5 and MPICH 4 link umbo::mpi (find_package(umbo \
                       COMPONENTS mpi)), whose header makes the communicator then";

/// The functions of the library that is found at run time. It is the library at `path`; without a
/// path, the one that the variable names; without the variable, the one with a usual name. It is
/// opened once and stays loaded.
pub fn of_a_library(path: Option<&str>) -> Result<Functions> {
    static OPENED: OnceLock<(Library, Functions)> = OnceLock::new();
    if let Some((_, functions)) = OPENED.get() {
        return Ok(*functions);
    }
    let opened = open(path)?;
    Ok(OPENED.get_or_init(|| opened).1)
}

fn open(path: Option<&str>) -> Result<(Library, Functions)> {
    refuse_another_mpi()?;
    // SAFETY: the initialisers of an MPI library are written to be run.
    let opened = unsafe { functions::open(path, VARIABLE, &NAMES, Scope::Everybody) };
    let (library, name) = opened.map_err(|problems| {
        Error::Unavailable(format!(
            "no MPI library with the standard ABI was found: {problems}. Put its folder into \
             LD_LIBRARY_PATH, or its path into {VARIABLE}; {ADAPTER}"
        ))
    })?;
    let find = |symbol: &CStr| library.symbol(symbol);
    // SAFETY: the library stays loaded, and its function of this name is that of the standard.
    unsafe { check_abi(&find) }.map_err(|problem| {
        Error::Unavailable(format!(
            "{name} is not an MPI library with the standard ABI, since {problem}; {ADAPTER}"
        ))
    })?;
    // SAFETY: the library reports that it has the standard ABI.
    let functions = unsafe { Functions::new(&find, &name) }?;
    Ok((library, functions))
}

/// Checks that MPI has the standard ABI, and returns the reason if it does not. A library may have
/// the function that reports the version of the ABI without having the standard ABI. It then
/// reports version -1, such as MPICH 5's `libmpi.so.12`.
///
/// # Safety
/// `find` returns for a name MPI's function of that name, or null.
unsafe fn check_abi(find: &dyn Fn(&CStr) -> *mut c_void) -> std::result::Result<(), String> {
    let found = find(c"MPI_Abi_get_version");
    if found.is_null() {
        return Err("it has no MPI_Abi_get_version".into());
    }
    // SAFETY: the caller's promise; the type is that of the standard.
    let get_version: unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int =
        unsafe { std::mem::transmute(found) };
    let mut major = -1;
    let mut minor = -1;
    // SAFETY: it may be called at any time, also before MPI is initialised.
    let code = unsafe { get_version(&raw mut major, &raw mut minor) };
    match (code, major) {
        (SUCCESS, 1..) => Ok(()),
        (SUCCESS, _) => Err(format!(
            "its MPI_Abi_get_version says {major}.{minor}, which is an ABI of its own (of MPICH 5 \
             libmpi_abi.so.1 has the standard one)"
        )),
        (code, _) => Err(format!("its MPI_Abi_get_version fails with {code}")),
    }
}

/// Fails if the program has another MPI: two MPIs cannot be used in one process.
fn refuse_another_mpi() -> Result<()> {
    let program = Library::program();
    let has = |name: &str| {
        let name = CString::new(name).unwrap_or_default();
        !program.symbol(&name).is_null()
    };
    if !has("MPI_Init") {
        return Ok(());
    }
    // SAFETY: the program's function of this name belongs to its MPI.
    unsafe { check_abi(&|name| program.symbol(name)) }.map_err(|problem| {
        Error::precondition(format!(
            "the program has an MPI library without the standard ABI, since {problem}; {ADAPTER}"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    unsafe extern "C" fn standard(major: *mut c_int, minor: *mut c_int) -> c_int {
        // SAFETY: the caller passes pointers to two numbers.
        unsafe { (major.write(1), minor.write(0)) };
        SUCCESS
    }

    unsafe extern "C" fn abi_of_its_own(major: *mut c_int, minor: *mut c_int) -> c_int {
        // SAFETY: as above.
        unsafe { (major.write(-1), minor.write(-1)) };
        SUCCESS
    }

    unsafe extern "C" fn fails(_: *mut c_int, _: *mut c_int) -> c_int {
        5
    }

    #[test]
    fn an_abi_of_its_own_is_not_the_standard_one() {
        type Get = unsafe extern "C" fn(*mut c_int, *mut c_int) -> c_int;
        let said = |get: Option<Get>| {
            let found = get.map_or(std::ptr::null_mut(), |get| get as *mut c_void);
            // SAFETY: it is such a function, or null.
            unsafe {
                check_abi(&|name| {
                    assert_eq!(name, c"MPI_Abi_get_version");
                    found
                })
            }
        };
        assert_eq!(said(Some(standard)), Ok(()));
        assert!(said(Some(abi_of_its_own)).unwrap_err().contains("-1.-1"));
        assert!(said(Some(fails)).unwrap_err().contains("fails with 5"));
        assert!(
            said(None)
                .unwrap_err()
                .contains("has no MPI_Abi_get_version")
        );
    }
}

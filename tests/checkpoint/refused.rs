//! What the system refuses: each call of each operation on files fails in turn, with each of
//! several errors. The status is that of the error, the message names the file, and nothing has
//! changed; no operation does with less than it would have had.
//!
//! The functions below stand before the C library's, for the whole program, and fail on threads
//! that ask for it.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use umbo_core::checkpoint::arrays::{load_npy, load_npz, save_npy, save_npz};
use umbo_core::checkpoint::{Manager, ManagerOptions, Number};
use umbo_core::device::DeviceId;
use umbo_core::diagnose::trace;
use umbo_core::error::{Result, Status};
use umbo_core::input::Dataset;
use umbo_core::tensor::Tensor;

use crate::scene::{Feature, Folder, Scene, shape};

thread_local! {
    /// The call that fails, counted from 1, with which error; 0: none does.
    static FAILING: Cell<(u64, c_int)> = const { Cell::new((0, 0)) };
    static SEEN: Cell<u64> = const { Cell::new(0) };
}

fn set_errno(error: c_int) {
    #[cfg(target_os = "linux")]
    use libc::__errno_location as place;
    #[cfg(not(target_os = "linux"))]
    use libc::__error as place;
    // SAFETY: the thread's own errno.
    unsafe { *place() = error };
}

/// Whether this call fails; errno says how.
fn fails() -> bool {
    let (at, error) = FAILING.get();
    if at == 0 {
        return false;
    }
    SEEN.set(SEEN.get() + 1);
    if SEEN.get() == at {
        set_errno(error);
    }
    SEEN.get() == at
}

macro_rules! interposed {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, $refused:expr;)*) => {$(
        /// SAFETY: as the C library's function of this name, which is called.
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> $result {
            if fails() {
                return $refused;
            }
            let name = concat!(stringify!($name), "\0");
            // SAFETY: the name ends in a zero; the C library has a function of this name and type.
            unsafe {
                let next = libc::dlsym(libc::RTLD_NEXT, name.as_ptr().cast());
                let next: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(next);
                next($($argument),*)
            }
        }
    )*};
}

interposed! {
    // The mode is passed as a function without `...` expects it, on all machines that this is for.
    open64(path: *const c_char, flags: c_int, mode: c_uint) -> c_int, -1;
    pread64(file: c_int, to: *mut c_void, bytes: usize, offset: i64) -> isize, -1;
    statx(
        folder: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut c_void
    ) -> c_int, -1;
    opendir(path: *const c_char) -> *mut c_void, std::ptr::null_mut();
    readdir64(folder: *mut c_void) -> *mut c_void, std::ptr::null_mut();
    mkdir(path: *const c_char, mode: c_uint) -> c_int, -1;
    write(file: c_int, from: *const c_void, bytes: usize) -> isize, -1;
    rename(from: *const c_char, to: *const c_char) -> c_int, -1;
}

/// The files that cannot be removed, for all threads.
static STAYING: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Whether the file can be removed from now on.
pub fn set_removable(path: &Path, removable: bool) {
    let mut staying = STAYING.lock().unwrap();
    match removable {
        true => staying.remove(path),
        false => staying.insert(path.to_owned()),
    };
}

/// SAFETY: as the C library's function of this name.
#[unsafe(no_mangle)]
unsafe extern "C" fn unlink(path: *const c_char) -> c_int {
    // SAFETY: the path ends in a zero.
    let name = Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ));
    let error = match STAYING.lock().unwrap().contains(name) {
        true => Some(libc::EPERM),
        false => fails().then(|| FAILING.get().1),
    };
    if let Some(error) = error {
        set_errno(error);
        return -1;
    }
    // SAFETY: the path is the caller's; this removes a file as `unlink` does.
    unsafe { libc::unlinkat(libc::AT_FDCWD, path, 0) }
}

/// Lets the call `at` of `operation` fail with this error. Returns `None` if there were fewer
/// calls.
pub fn with_failure<R>(at: u64, error: c_int, operation: impl FnOnce() -> R) -> Option<R> {
    SEEN.set(0);
    FAILING.set((at, error));
    let came = operation();
    FAILING.set((0, 0));
    (SEEN.get() >= at).then_some(came)
}

/// Waits for no disk: nobody cuts the power here.
#[unsafe(no_mangle)]
extern "C" fn fsync(_file: c_int) -> c_int {
    if fails() { -1 } else { 0 }
}

const ERRORS: [(c_int, Status); 12] = [
    (libc::EMFILE, Status::ResourceExhausted),
    (libc::ENFILE, Status::ResourceExhausted),
    (libc::ENOMEM, Status::ResourceExhausted),
    (libc::ENOSPC, Status::ResourceExhausted),
    (libc::EIO, Status::Unavailable),
    (libc::EAGAIN, Status::Unavailable),
    (libc::ESTALE, Status::Unavailable),
    (libc::ELOOP, Status::InvalidArgument),
    (libc::ENOTDIR, Status::InvalidArgument),
    (libc::ENAMETOOLONG, Status::InvalidArgument),
    (libc::EACCES, Status::PermissionDenied),
    (libc::EROFS, Status::PermissionDenied),
];

/// What an operation has come to, in words.
type Operation<'a> = (&'a str, &'a dyn Fn() -> Result<String>);

#[test]
fn what_the_system_refuses_is_returned() {
    let folder = Folder::new();
    let path = |name: &str| folder.path(name);
    let scene = Scene::new("adam", Feature::Plain, 1);
    let options = ManagerOptions {
        asynchronous: false,
        max_best_to_keep: 1,
        ..Default::default()
    };
    let checkpoints = path("checkpoints");
    let create = || Manager::new(Arc::clone(&scene.checkpoint), &checkpoints, options);
    let manager = create().unwrap();
    let number = |number| {
        scene
            .checkpoint
            .set_number("epoch", Number::Integer(number))
            .unwrap()
    };
    for step in 1..=3 {
        scene.train(1);
        number(step as i64);
        manager.save(step, Some(step as f64), true).unwrap();
    }
    let array = Tensor::from_slice::<f32>(&[1.0, 2.0], shape(&[2]), DeviceId::HOST).unwrap();
    save_npy(&array, &path("array.npy")).unwrap();
    save_npz(&[("array", &array)], &path("array.npz")).unwrap();
    std::fs::write(path("array.idx"), [0, 0, 8, 1, 0, 0, 0, 2, 5, 6]).unwrap();
    let described = |dataset: Dataset| Ok(format!("{:?}", dataset.element_spec()));
    // Of which step the state is, beside what came back.
    let state = || format!("{:?}", scene.checkpoint.number("epoch").unwrap());
    let with_state = |said: String| format!("{said}, {}", state());
    let weights = manager.path(3);
    let operations: [Operation<'_>; 17] = [
        ("restore_latest", &|| {
            Ok(with_state(format!("{:?}", manager.restore_latest()?)))
        }),
        ("restore_best", &|| {
            Ok(with_state(format!("{:?}", manager.restore_best()?)))
        }),
        ("latest", &|| Ok(format!("{:?}", manager.latest()?))),
        ("best", &|| Ok(format!("{:?}", manager.best()?))),
        ("steps", &|| Ok(format!("{:?}", manager.steps()?))),
        ("restore", &|| {
            scene
                .checkpoint
                .restore(&manager.path(2))
                .map(|()| with_state(String::new()))
        }),
        ("load_weights", &|| {
            scene
                .checkpoint
                .load_weights(&weights, None)
                .map(|()| state())
        }),
        ("save", &|| {
            scene
                .checkpoint
                .save(&path("saved"))
                .map(|()| String::new())
        }),
        ("save_weights", &|| {
            scene
                .checkpoint
                .save_weights(&path("saved"))
                .map(|()| String::new())
        }),
        ("manager's save", &|| {
            Ok(format!("{}", manager.save(4, None, true)?))
        }),
        ("manager", &|| Ok(format!("{:?}", create()?.options()))),
        ("load_npy", &|| {
            Ok(format!(
                "{:?}",
                load_npy(&path("array.npy"))?.to_vec::<f32>()?
            ))
        }),
        ("load_npz", &|| {
            Ok(format!(
                "{:?}",
                load_npz(&path("array.npz"), "array")?.to_vec::<f32>()?
            ))
        }),
        ("dataset of .npy", &|| {
            described(Dataset::from_npy_file(path("array.npy"))?)
        }),
        ("dataset of .npz", &|| {
            described(Dataset::from_npz_file(path("array.npz"), None)?)
        }),
        ("dataset of IDX", &|| {
            described(Dataset::from_idx_files(&[path("array.idx")], None)?)
        }),
        ("trace", &|| {
            trace::start(&path("trace.json"), 100)?;
            trace::stop().map(|_| String::new())
        }),
    ];
    for (name, operation) in operations {
        number(9);
        let expected = operation().unwrap();
        let mut refused = 0;
        for (error, status) in ERRORS {
            for at in 1.. {
                number(9);
                let case = || {
                    format!(
                        "{name}, call {at}, {}",
                        std::io::Error::from_raw_os_error(error)
                    )
                };
                let Some(came) = with_failure(at, error, operation) else {
                    break;
                };
                match came {
                    Ok(came) => assert_eq!(came, expected, "{}", case()),
                    Err(failure) => {
                        refused += 1;
                        assert_eq!(failure.status(), status, "{}: {failure}", case());
                        let place = folder.path("");
                        let names = failure.to_string().contains(place.to_str().unwrap());
                        assert!(names, "{}: {failure}", case());
                        assert_eq!(state(), "Integer(9)", "{}", case());
                    }
                }
            }
        }
        assert!(
            refused >= ERRORS.len(),
            "{name} was refused {refused} times"
        );
    }
}

/// A save that fails has changed nothing, and one that succeeds has: also where a file system does
/// not synchronise folders, or cannot just now.
#[test]
fn a_refused_save_leaves_the_old_file() {
    let folder = Folder::new();
    let path = folder.path("saved");
    let scene = Scene::new("sgd", Feature::Plain, 1);
    let number = |number| {
        scene
            .checkpoint
            .set_number("epoch", Number::Integer(number))
            .unwrap()
    };
    let unsupported = [
        libc::EINVAL,
        libc::ENOTSUP,
        libc::ENOSYS,
        libc::EBADF,
        libc::EROFS,
    ];
    for error in ERRORS
        .map(|(error, _)| error)
        .into_iter()
        .chain(unsupported)
    {
        let mut saved = 0;
        let mut refused = 0;
        for at in 1.. {
            number(1);
            scene.checkpoint.save(&path).unwrap();
            number(2);
            SEEN.set(0);
            FAILING.set((at, error));
            let came = scene.checkpoint.save(&path);
            FAILING.set((0, 0));
            if SEEN.get() < at {
                break;
            }
            match came {
                Ok(()) => saved += 1,
                Err(_) => refused += 1,
            }
            let expected = if came.is_ok() { 2 } else { 1 };
            scene.checkpoint.restore(&path).unwrap();
            let found = scene.checkpoint.number("epoch").unwrap();
            assert_eq!(
                found,
                Number::Integer(expected),
                "call {at}, {error}: {came:?}"
            );
            assert_eq!(folder.names(), ["saved"], "call {at}, {error}: {came:?}");
        }
        // What is behind the rename, such as synchronising the folder, is never a failure of the
        // save.
        assert!(saved >= 1 && refused >= 4, "{error}: {saved}, {refused}");
    }
}

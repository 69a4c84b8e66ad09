//! Running tests under the fake driver.
//!
//! A driver is looked for where `LD_LIBRARY_PATH` said when the process started, so a test that
//! wants the fake one runs itself once more, as a process of its own:
//!
//! ```text
//! #[test]
//! fn trains_on_two_devices() {
//!     let Some(control) = fake_cuda::harness::under_driver(&[("FAKE_CUDA_DEVICES", "2")]) else {
//!         return; // The other process ran the test, and it passed.
//!     };
//!     // ...
//!     assert_eq!(control.reports(), [] as [&str; 0]);
//! }
//! ```

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::Control;

const INSIDE: &str = "FAKE_CUDA_INSIDE";

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
        "libfake_cuda.so",
        "deps/libfake_cuda.so",
        "../libfake_cuda.so",
    ];
    names
        .iter()
        .map(|name| folder.join(name))
        .find(|path| path.exists())
        .unwrap_or_else(|| {
            panic!(
                "libfake_cuda.so is not in {}: build the package fake-cuda",
                folder.display()
            )
        })
}

/// A folder in which the fake driver has the names by which a driver is looked for, or the folder
/// that UMBO_TEST_DRIVER names: of a driver that answers the same questions on a real card
/// (tests/one_card).
///
/// # Panics
///
/// If the folder cannot be made.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        if let Some(other) = env::var_os("UMBO_TEST_DRIVER") {
            return other.into();
        }
        let library = library();
        let folder = library.with_file_name("fake_cuda_driver");
        fs::create_dir_all(&folder).expect("the folder of the fake driver can be made");
        for name in ["libcuda.so.1", "libcuda.so"] {
            let link = folder.join(name);
            if fs::read_link(&link).is_ok_and(|target| target == library) {
                continue;
            }
            // Several tests may do this at once: each puts a whole link in place.
            let own_link = folder.join(format!("{name}.{}", std::process::id()));
            let made = std::os::unix::fs::symlink(&library, &own_link);
            made.and_then(|()| fs::rename(&own_link, &link))
                .expect("the driver can be linked");
        }
        folder
    })
}

/// `LD_LIBRARY_PATH` with the fake driver before everything else.
pub fn library_path() -> OsString {
    let mut path = OsString::from(folder());
    if let Some(others) = env::var_os("LD_LIBRARY_PATH").filter(|others| !others.is_empty()) {
        path.push(":");
        path.push(others);
    }
    path
}

/// A command whose process finds the fake driver.
pub fn command(program: impl AsRef<std::ffi::OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env("LD_LIBRARY_PATH", library_path());
    command
}

/// Runs the test that calls this once more in a process that finds the fake driver, with
/// `settings` in its environment. In that process it returns the driver; otherwise it returns
/// `None` after the other process ended well.
///
/// # Panics
///
/// If the test fails there, or does not run there.
pub fn under_driver(settings: &[(&str, &str)]) -> Option<Control> {
    if env::var_os(INSIDE).is_some() {
        let control = Control::open().expect("libcuda.so.1 is not the fake driver");
        return Some(control);
    }
    let thread = std::thread::current();
    let name = thread
        .name()
        .filter(|name| *name != "main")
        .expect("a test runs on its own thread");
    let program = env::current_exe().expect("the program knows where it is");
    let output = command(program)
        .args([
            name,
            "--exact",
            "--nocapture",
            "--include-ignored",
            "--test-threads=1",
        ])
        .env(INSIDE, "1")
        .envs(settings.iter().copied())
        .output()
        .expect("the test can be run once more");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success() && text.contains("test result: ok. 1 passed"),
        "{name} under the fake driver: {}\n{text}\n{errors}",
        output.status
    );
    // Counts that a test prints are of use to who runs it.
    print!("{text}");
    None
}

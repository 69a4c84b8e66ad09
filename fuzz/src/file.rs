//! A file in memory, whose path functions that read files can be given.

/// Calls `read` with the path of a file that holds `bytes`. The file is gone afterwards, and what
/// `read` has mapped of it stays as it was.
#[cfg(target_os = "linux")]
pub fn holding<T>(bytes: &[u8], read: impl FnOnce(&std::path::Path) -> T) -> T {
    use std::fs::File;
    use std::io::{Seek, Write};
    use std::os::fd::{AsRawFd, FromRawFd};
    use std::path::PathBuf;

    // SAFETY: the name is a C string, and the number that comes back is a new file of this process.
    let mut file = unsafe {
        let number = libc::memfd_create(c"fuzz".as_ptr(), libc::MFD_CLOEXEC);
        assert!(number >= 0, "no file in memory");
        File::from_raw_fd(number)
    };
    file.write_all(bytes)
        .and_then(|()| file.rewind())
        .expect("memory for the file");
    read(&PathBuf::from(format!(
        "/proc/self/fd/{}",
        file.as_raw_fd()
    )))
}

/// The same with a file of the system's folder for such.
#[cfg(not(target_os = "linux"))]
pub fn holding<T>(bytes: &[u8], read: impl FnOnce(&std::path::Path) -> T) -> T {
    let path = new_path();
    std::fs::write(&path, bytes).expect("room for the file");
    let result = read(&path);
    std::fs::remove_file(&path).expect("a file of ours");
    result
}

/// A path that no file has.
fn new_path() -> std::path::PathBuf {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("umbo-fuzz-{}-{number}", std::process::id());
    std::env::temp_dir().join(name)
}

/// What `write` writes into a file whose path it is given.
pub fn written_by(write: impl FnOnce(&std::path::Path)) -> Vec<u8> {
    let path = new_path();
    write(&path);
    let bytes = std::fs::read(&path).expect("the file that was written");
    std::fs::remove_file(&path).expect("a file of ours");
    bytes
}

//! A file in memory, whose path functions that read files can be given.

use std::fs::File;
use std::io::{Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::path::PathBuf;

/// Calls `read` with the path of a file that holds `bytes`. The file is gone afterwards, and what
/// `read` has mapped of it stays as it was.
pub fn holding<T>(bytes: &[u8], read: impl FnOnce(&std::path::Path) -> T) -> T {
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

/// What `write` writes into a file whose path it is given.
pub fn written_by(write: impl FnOnce(&std::path::Path)) -> Vec<u8> {
    use std::sync::atomic::{AtomicUsize, Ordering};
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let name = format!("umbo-fuzz-{}-{number}", std::process::id());
    let path = std::env::temp_dir().join(name);
    write(&path);
    let bytes = std::fs::read(&path).expect("the file that was written");
    std::fs::remove_file(&path).expect("a file of ours");
    bytes
}

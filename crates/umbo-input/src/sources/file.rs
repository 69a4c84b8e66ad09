//! Files with elements of tensors: opening them, what their headers describe, and the errors that
//! occur.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use umbo_base::error::{Error, Result};
use umbo_tensor::{DType, Shape};

/// The error for a file that does not have the expected format.
pub(crate) fn wrong(path: &Path, problem: impl std::fmt::Display) -> Error {
    invalid!("path", "'{}': {problem}", path.display())
}

/// The error for a damaged file.
pub fn damaged(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::DataLoss(format!("'{}': {problem}", path.display()))
}

/// The error for a failed read: the system's error, or DATA_LOSS if the reader does not understand
/// the bytes.
pub fn failed(path: &Path, error: &io::Error) -> Error {
    if error.raw_os_error().is_some() || error.kind() == io::ErrorKind::OutOfMemory {
        return Error::of_system(format_args!("'{}'", path.display()), error);
    }
    damaged(path, format!("cannot be read or decompressed: {error}"))
}

/// Opens a regular file that is not empty.
pub fn open(path: &Path) -> Result<File> {
    // The type is checked before the file is opened, because opening a pipe would wait for a
    // writer.
    let metadata = fs::metadata(path).map_err(|error| failed(path, &error))?;
    if !metadata.is_file() {
        return Err(wrong(path, "not a regular file"));
    }
    if metadata.len() == 0 {
        return Err(damaged(path, "the file is empty"));
    }
    File::open(path).map_err(|error| failed(path, &error))
}

/// The elements that a file's header describes.
pub struct FileElements {
    /// Their type.
    pub dtype: DType,
    /// The shape of the array.
    pub shape: Shape,
    /// The bytes that they take in the file.
    pub data_bytes: u64,
    /// Whether the most significant byte of an element comes first.
    pub big_endian: bool,
}

impl FileElements {
    /// The error for a file whose number of bytes does not fit the elements.
    pub fn wrong_length(&self, path: &Path, present: &str) -> Error {
        damaged(
            path,
            format!(
                "its header says {} of shape {}, {} bytes of elements, but {present} there",
                self.dtype, self.shape, self.data_bytes
            ),
        )
    }
}

/// Converts the bytes of elements from those of a file to those of memory.
pub fn to_memory(dtype: DType, big_endian: bool, bytes: &mut [u8]) {
    if dtype == DType::Bool {
        // In a file any byte except 0 is true; in memory only 1 is.
        bytes
            .iter_mut()
            .for_each(|byte| *byte = u8::from(*byte != 0));
    } else if big_endian {
        bytes
            .chunks_exact_mut(dtype.size())
            .for_each(<[u8]>::reverse);
    }
}

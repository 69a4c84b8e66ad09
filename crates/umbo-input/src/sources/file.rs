//! Files of arrays: opening them, reading their elements, and the errors that occur.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::sources::memory;
use umbo_base::error::memory::filled;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_kernels::rows;
use umbo_tensor::{DType, Layout, MAX_RANK, Shape, Tensor, TensorMut};

/// The number of bytes that are decompressed or converted at a time: a multiple of every element's
/// size.
const CHUNK: usize = 64 << 10;

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

/// Maps a regular file that is not empty into memory.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    memory::map(&open(path)?).map_err(|error| failed(path, &error))
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

    /// Elements of this shape. INVALID_ARGUMENT if its rank is not supported. DATA_LOSS if they
    /// would not fit into memory.
    pub(crate) fn new(
        path: &Path,
        dtype: DType,
        sizes: &[usize],
        big_endian: bool,
    ) -> Result<FileElements> {
        if sizes.len() > MAX_RANK {
            let problem = format!(
                "{} dimensions; at most {MAX_RANK} are supported",
                sizes.len()
            );
            return Err(wrong(path, problem));
        }
        let too_large = |_| damaged(path, format!("its header claims a shape of {sizes:?}"));
        let shape = Shape::new(sizes).map_err(too_large)?;
        let data_bytes = shape.bytes(dtype).map_err(too_large)? as u64;
        Ok(FileElements {
            dtype,
            shape,
            data_bytes,
            big_endian,
        })
    }

    /// Checks that the file has exactly the bytes of the elements.
    pub(crate) fn check_length(&self, path: &Path, present: u64) -> Result<()> {
        match present == self.data_bytes {
            true => Ok(()),
            false => Err(self.wrong_length(path, &format!("{present} are"))),
        }
    }

    /// The elements after the first `offset` bytes of a mapped file. Their bytes are those of
    /// memory.
    pub(crate) fn mapped(&self, map: Mmap, offset: usize) -> Result<Tensor> {
        let storage = Arc::new(memory::mapped_storage(map));
        Tensor::from_storage(storage, self.dtype, Layout::row_major(self.shape), offset)
    }

    /// Whether the bytes in the file equal the bytes of the elements in this machine's memory.
    pub(crate) fn as_in_memory(&self) -> bool {
        // In a file any byte except 0 is true; in memory only 1 is.
        self.dtype != DType::Bool
            && (self.dtype.size() == 1 || self.big_endian == cfg!(target_endian = "big"))
    }

    /// Reads the elements into memory, in the machine's byte order. It reads no more than the
    /// header describes, and one byte to check that there is no more.
    pub(crate) fn read(&self, path: &Path, stream: &mut impl Read) -> Result<Tensor> {
        Tensor::made(self.dtype, self.shape, DeviceId::HOST, |to| {
            self.read_into(path, stream, to)
        })
    }

    fn read_into(&self, path: &Path, stream: &mut impl Read, to: &mut TensorMut) -> Result<()> {
        let mut target = to.writing()?;
        let mut chunk = filled(CHUNK, 0, "bytes to read a file")?;
        let bytes = self.data_bytes as usize;
        let mut done = 0;
        while done < bytes {
            let part = &mut chunk[..CHUNK.min(bytes - done)];
            let got = read_up_to(path, stream, part)?;
            if got < part.len() {
                return Err(self.wrong_length(path, &format!("{} are", done + got)));
            }
            to_memory(self.dtype, self.big_endian, part);
            rows::write_bytes(&mut target, done, part)?;
            done += part.len();
        }
        if read_up_to(path, stream, &mut [0])? > 0 {
            return Err(self.wrong_length(path, "more are"));
        }
        Ok(())
    }
}

/// Reads as much as there is, up to the length of `target`.
pub(crate) fn read_up_to(path: &Path, stream: &mut impl Read, target: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < target.len() {
        match stream.read(&mut target[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(path, &error)),
        }
    }
    Ok(got)
}

/// Fills `target`. Messages name its contents by `what`.
pub(crate) fn fill(
    path: &Path,
    stream: &mut impl Read,
    target: &mut [u8],
    what: &str,
) -> Result<()> {
    if read_up_to(path, stream, target)? < target.len() {
        return Err(damaged(path, format!("the file ends within {what}")));
    }
    Ok(())
}

/// Converts the bytes of elements from those of a file to those of memory.
pub fn to_memory(dtype: DType, big_endian: bool, bytes: &mut [u8]) {
    if dtype == DType::Bool {
        // In a file any byte except 0 is true; in memory only 1 is.
        bytes
            .iter_mut()
            .for_each(|byte| *byte = u8::from(*byte != 0));
    } else if big_endian != cfg!(target_endian = "big") {
        bytes
            .chunks_exact_mut(dtype.size())
            .for_each(<[u8]>::reverse);
    }
}

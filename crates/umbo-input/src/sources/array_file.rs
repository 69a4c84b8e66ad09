//! Files of arrays: mapping them, and reading their elements.

#![expect(unsafe_code, reason = "mapped files")]

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use memmap2::Mmap;

use crate::sources::file::{FileElements, damaged, failed, open, to_memory, wrong};
use umbo_base::error::Result;
use umbo_base::error::memory::filled;
use umbo_device::DeviceId;
use umbo_kernels::rows;
use umbo_tensor::storage::Storage;
use umbo_tensor::{DType, Layout, MAX_RANK, Shape, Tensor, TensorMut};

/// The number of bytes that are decompressed or converted at a time: a multiple of every element's
/// size.
const CHUNK: usize = 64 << 10;

/// Maps a regular file that is not empty into memory.
pub(crate) fn map(path: &Path) -> Result<Mmap> {
    map_file(&open(path)?).map_err(|error| failed(path, &error))
}

/// Maps a file into memory for reading.
fn map_file(file: &File) -> std::io::Result<Mmap> {
    // SAFETY: the map is private and read-only. The documentation of every reader requires that
    // nobody shortens or rewrites the file while it is mapped, as with any program that maps
    // its data. Nothing else in memory depends on these bytes.
    unsafe { Mmap::map(file) }
}

/// A read-only storage over a mapped file, which stays mapped as long as the storage lives.
fn mapped_storage(map: Mmap) -> Storage {
    let data = map.as_ptr().cast_mut();
    let bytes = map.len();
    // SAFETY: the map owns these bytes, which a file initialises, and does not move them when it is
    // itself moved into the box. It is dropped with the storage. The storage is declared
    // read-only.
    unsafe { Storage::foreign(data, bytes, DeviceId::HOST, true, Box::new(map)) }
}

impl FileElements {
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
        let storage = Arc::new(mapped_storage(map));
        Tensor::from_storage(storage, self.dtype, Layout::row_major(self.shape), offset)
    }

    /// Whether the bytes in the file equal the bytes of the elements in this machine's memory.
    pub(crate) fn as_in_memory(&self) -> bool {
        // In a file any byte except 0 is true; in memory only 1 is.
        self.dtype != DType::Bool && (self.dtype.size() == 1 || !self.big_endian)
    }

    /// Reads the elements into memory. It reads no more than the header describes, and one byte to
    /// check that there is no more.
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

/// Fills `target`. Messages name its contents by `section`.
pub(crate) fn fill(
    path: &Path,
    stream: &mut impl Read,
    target: &mut [u8],
    section: &str,
) -> Result<()> {
    if read_up_to(path, stream, target)? < target.len() {
        return Err(damaged(path, format!("the file ends within {section}")));
    }
    Ok(())
}

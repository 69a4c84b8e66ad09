//! IDX files, the format of MNIST and its kin.
//!
//! Two zero bytes, a type code, the rank; the size of each dimension as a big-endian 32-bit
//! number; the elements in row-major order, big-endian. (Y. LeCun, C. Cortes, C. Burges: "The
//! MNIST database of handwritten digits", section "The IDX file format".)

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::input::dataset::Dataset;
use crate::input::memory;
use crate::kernels::rows;
use crate::tensor::{DType, Layout, MAX_RANK, Shape, Tensor};
use crate::values::Value;

/// No DEFLATE stream expands further than this (RFC 1951: a match of 258 bytes takes 2 bits).
const LARGEST_EXPANSION: u64 = 1032;

/// How much is decompressed or converted at a time: a multiple of every element's size.
const CHUNK: usize = 64 << 10;

impl Dataset {
    /// The slices along dimension 0 of the array in an IDX file, plain or compressed by gzip.
    ///
    /// Plain files of 8-bit elements are mapped into memory: they must not be rewritten or
    /// shortened while the dataset or an element of it is in use (a read past the new end would
    /// stop the process). Others are read, decompressed and converted at the call.
    ///
    /// INVALID_ARGUMENT: not an IDX file, or an array that has no slices. DATA_LOSS: the file is
    /// shorter or longer than its header says, or damaged. NOT_FOUND, PERMISSION_DENIED: as the
    /// system says. RESOURCE_EXHAUSTED: no memory for the array.
    pub fn from_idx_file(path: impl AsRef<Path>) -> Result<Dataset> {
        let path = path.as_ref();
        let array = read(path)?;
        if array.shape().rank() == 0 {
            return Err(wrong(path, "it holds a scalar, which has no slices"));
        }
        Dataset::from_tensor_slices(&Value::Tensor(array))
    }
}

fn wrong(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::invalid("path", format!("'{}': {problem}", path.display()))
}

fn damaged(path: &Path, problem: impl std::fmt::Display) -> Error {
    Error::DataLoss(format!("'{}': {problem}", path.display()))
}

fn failed(path: &Path, error: &io::Error) -> Error {
    let message = format!("'{}': {error}", path.display());
    match error.kind() {
        io::ErrorKind::NotFound => Error::NotFound(message),
        io::ErrorKind::PermissionDenied => Error::PermissionDenied(message),
        io::ErrorKind::OutOfMemory => Error::ResourceExhausted(message),
        _ => Error::DataLoss(message),
    }
}

fn read(path: &Path) -> Result<Tensor> {
    // Asked before opening: opening a pipe would wait for a writer.
    let metadata = fs::metadata(path).map_err(|error| failed(path, &error))?;
    if !metadata.is_file() {
        return Err(wrong(path, "not a regular file"));
    }
    if metadata.len() == 0 {
        return Err(damaged(path, "the file is empty"));
    }
    let file = File::open(path).map_err(|error| failed(path, &error))?;
    let map = memory::map(&file).map_err(|error| failed(path, &error))?;
    if map.starts_with(&[0x1f, 0x8b]) {
        let mut stream = MultiGzDecoder::new(&map[..]);
        let header = Header::read(path, &mut stream)?;
        if header.data_bytes / LARGEST_EXPANSION > map.len() as u64 {
            return Err(damaged(
                path,
                format!(
                    "its header claims {} bytes of elements, more than {} compressed bytes can \
                     hold",
                    header.data_bytes,
                    map.len()
                ),
            ));
        }
        return header.convert(path, &mut stream);
    }
    let mut rest = &map[..];
    let header = Header::read(path, &mut rest)?;
    let present = rest.len() as u64;
    if present != header.data_bytes {
        return Err(header.wrong_length(path, &format!("{present} are")));
    }
    if header.dtype.size() > 1 {
        return header.convert(path, &mut rest);
    }
    let offset = map.len() - rest.len();
    let storage = Arc::new(memory::mapped_storage(map));
    Tensor::from_storage(storage, header.dtype, Layout::row_major(header.shape), offset)
}

struct Header {
    dtype: DType,
    shape: Shape,
    data_bytes: u64,
}

impl Header {
    fn read(path: &Path, stream: &mut impl Read) -> Result<Header> {
        let mut magic = [0; 4];
        fill(path, stream, &mut magic, "its magic number")?;
        let dtype = match magic {
            [0, 0, 0x08, _] => DType::UInt8,
            [0, 0, 0x09, _] => DType::Int8,
            [0, 0, 0x0b, _] => DType::Int16,
            [0, 0, 0x0c, _] => DType::Int32,
            [0, 0, 0x0d, _] => DType::Float32,
            [0, 0, 0x0e, _] => DType::Float64,
            [0, 0, code, _] => {
                return Err(wrong(
                    path,
                    format!(
                        "not an IDX file: type code {code:#04x}; there are 0x08, 0x09, 0x0b, \
                         0x0c, 0x0d and 0x0e"
                    ),
                ));
            }
            _ => {
                return Err(wrong(
                    path,
                    format!("not an IDX file: it starts with {magic:02x?}, not with two zeros"),
                ));
            }
        };
        let rank = usize::from(magic[3]);
        if rank > MAX_RANK {
            return Err(wrong(path, format!("rank {rank}; at most {MAX_RANK} is supported")));
        }
        let mut sizes = [0usize; MAX_RANK];
        for size in &mut sizes[..rank] {
            let mut bytes = [0; 4];
            fill(path, stream, &mut bytes, "its header")?;
            *size = u32::from_be_bytes(bytes) as usize;
        }
        let sizes = &sizes[..rank];
        let too_large = |_| damaged(path, format!("its header claims a shape of {sizes:?}"));
        let shape = Shape::new(sizes).map_err(too_large)?;
        let data_bytes = shape.bytes(dtype).map_err(too_large)? as u64;
        Ok(Header { dtype, shape, data_bytes })
    }

    fn wrong_length(&self, path: &Path, present: &str) -> Error {
        damaged(
            path,
            format!(
                "its header says {} of shape {}, {} bytes of elements, but {present} there",
                self.dtype, self.shape, self.data_bytes
            ),
        )
    }

    /// Reads the elements into memory, in the machine's byte order. Reads no more than the header
    /// says, and one byte to see that there is no more.
    fn convert(&self, path: &Path, stream: &mut impl Read) -> Result<Tensor> {
        let tensor = Tensor::uninitialized(self.dtype, self.shape, DeviceId::HOST)?;
        let mut target = tensor.writing()?;
        let mut chunk = Vec::new();
        chunk
            .try_reserve_exact(CHUNK)
            .map_err(|_| Error::ResourceExhausted(format!("{CHUNK} bytes to read a file")))?;
        chunk.resize(CHUNK, 0);
        let bytes = self.data_bytes as usize;
        let mut done = 0;
        while done < bytes {
            let part = &mut chunk[..CHUNK.min(bytes - done)];
            let got = read_up_to(path, stream, part)?;
            if got < part.len() {
                return Err(self.wrong_length(path, &format!("{} are", done + got)));
            }
            if cfg!(target_endian = "little") && self.dtype.size() > 1 {
                part.chunks_exact_mut(self.dtype.size()).for_each(<[u8]>::reverse);
            }
            rows::write_bytes(&mut target, done, part)?;
            done += part.len();
        }
        if read_up_to(path, stream, &mut [0])? > 0 {
            return Err(self.wrong_length(path, "more are"));
        }
        Ok(tensor)
    }
}

/// Reads as much of `target` as there is.
fn read_up_to(path: &Path, stream: &mut impl Read, target: &mut [u8]) -> Result<usize> {
    let mut got = 0;
    while got < target.len() {
        match stream.read(&mut target[got..]) {
            Ok(0) => break,
            Ok(count) => got += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(damaged(path, format!("cannot be decompressed: {error}"))),
        }
    }
    Ok(got)
}

fn fill(path: &Path, stream: &mut impl Read, target: &mut [u8], what: &str) -> Result<()> {
    if read_up_to(path, stream, target)? < target.len() {
        return Err(damaged(path, format!("the file ends within {what}")));
    }
    Ok(())
}

//! Tensors as NumPy's files: `.npy` for one array, and `.npz` for several named arrays.
//!
//! The input module reads them. They are written in version 1.0 of the format, in C order,
//! little-endian. An archive is not compressed, like those of `numpy.savez`. Files are replaced as
//! a whole.

use std::io::Write;
use std::path::Path;

use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

use crate::atomic::{AtomicFile, failed};
use crate::writer::bytes;
use umbo_base::error::Result;
use umbo_input::sources::npy::CODES;
pub use umbo_input::sources::npy::read_array as load_npy;
pub use umbo_input::sources::npz::read_array as load_npz;
use umbo_tensor::Tensor;

/// Elements begin at multiples of this.
const ALIGNMENT: usize = 64;

/// Replaces the file at `path` by a `.npy` file with the elements of `tensor`.
pub fn save_npy(tensor: &Tensor, path: &Path) -> Result<()> {
    let tensor = tensor.on_host()?.to_contiguous()?;
    let elements = bytes(&tensor)?;
    let mut file = AtomicFile::create(path)?;
    file.write(&header(&tensor))?;
    file.write(elements)?;
    file.finish()
}

/// Replaces the file at `path` by a `.npz` file with these arrays.
///
/// INVALID_ARGUMENT: no arrays, a name that appears twice.
pub fn save_npz(arrays: &[(&str, &Tensor)], path: &Path) -> Result<()> {
    if arrays.is_empty() {
        return Err(invalid!("count", "0; an archive has one array or more"));
    }
    let refused = |error| match error {
        ZipError::Io(error) => failed(path, "writing", &error),
        error => invalid!("names", "{error}"),
    };
    let file = AtomicFile::create(path)?;
    let mut archive = ZipWriter::new(&file.file);
    for (name, tensor) in arrays {
        let tensor = tensor.on_host()?.to_contiguous()?;
        let header = header(&tensor);
        let elements = bytes(&tensor)?;
        let is_large = header.len() as u64 + elements.len() as u64 >= u64::from(u32::MAX);
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Stored)
            .large_file(is_large);
        archive
            .start_file(format!("{name}.npy"), options)
            .map_err(refused)?;
        for part in [&header, elements] {
            archive
                .write_all(part)
                .map_err(|error| failed(path, "writing", &error))?;
        }
    }
    archive.finish().map_err(refused)?;
    file.finish()
}

/// The bytes before the elements.
fn header(tensor: &Tensor) -> Vec<u8> {
    let dtype = tensor.dtype();
    let code = CODES
        .iter()
        .find(|(_, known)| *known == dtype)
        .map_or("", |(code, _)| code);
    let order = if dtype.size() == 1 { '|' } else { '<' };
    let sizes: String = tensor
        .shape()
        .iter()
        .map(|size| format!("{size}, "))
        .collect();
    // A tuple of one item ends with a comma, and others do not.
    let sizes = match tensor.shape().rank() {
        1 => sizes.trim_end(),
        _ => sizes.trim_end_matches(", "),
    };
    let text =
        format!("{{'descr': '{order}{code}', 'fortran_order': False, 'shape': ({sizes}), }}");
    // The magic number, the version, and the length of the rest: the text, blanks and a line feed.
    const START: usize = 10;
    let length = (START + text.len() + 1).next_multiple_of(ALIGNMENT) - START;
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((length as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header.resize(START + length - 1, b' ');
    header.push(b'\n');
    header
}

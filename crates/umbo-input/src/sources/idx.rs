//! IDX files, the format of MNIST and similar data sets.
//!
//! Two zero bytes, a type code, the rank; the size of each dimension as a big-endian 32-bit
//! number; the elements in row-major order, big-endian. (Y. LeCun, C. Cortes, C. Burges: "The
//! MNIST database of handwritten digits", section "The IDX file format".)

use std::io::Read;
use std::path::Path;

use flate2::bufread::GzDecoder;

use crate::dataset::Dataset;
use crate::sources::array_file;
use crate::sources::file::{FileElements, wrong};
use umbo_base::error::Result;
use umbo_base::error::memory::collect;
use umbo_tensor::{DType, Tensor};

impl Dataset {
    /// The slices along dimension 0 of the arrays in IDX files, which are plain or compressed by
    /// gzip. The arrays, such as images and labels, must have the same number of slices. The
    /// elements have the structure of those of [`Dataset::from_named_arrays`].
    ///
    /// Plain files of 8-bit elements are mapped into memory. They must not be rewritten or
    /// shortened while the dataset or an element of it is in use, because a read past the new
    /// end would stop the process. Other files are read, decompressed and converted by this
    /// call.
    ///
    /// INVALID_ARGUMENT: not an IDX file, or an array that has no slices. DATA_LOSS: the file is
    /// shorter or longer than its header says, or damaged. NOT_FOUND, PERMISSION_DENIED: as the
    /// system reports. RESOURCE_EXHAUSTED: no memory for the array.
    pub fn from_idx_files(paths: &[impl AsRef<Path>], names: Option<&[&str]>) -> Result<Dataset> {
        let arrays = paths.iter().map(|path| read(path.as_ref()));
        Dataset::from_named_arrays(collect(arrays, "arrays")?, names, "paths")
    }
}

fn read(path: &Path) -> Result<Tensor> {
    let map = array_file::map(path)?;
    if map.starts_with(&[0x1f, 0x8b]) {
        let mut stream = Members(Some(GzDecoder::new(&map[..])));
        let elements = read_header(path, &mut stream)?;
        return elements.read(path, &mut stream);
    }
    let mut rest = &map[..];
    let elements = read_header(path, &mut rest)?;
    elements.check_length(path, rest.len() as u64)?;
    if elements.dtype.size() > 1 {
        return elements.read(path, &mut rest);
    }
    let offset = map.len() - rest.len();
    elements.mapped(map, offset)
}

/// The members of a gzip file, one after the other. Zeros may follow the last one, as tapes and
/// other media in blocks leave them.
struct Members<'a>(Option<GzDecoder<&'a [u8]>>);

impl Read for Members<'_> {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        while let Some(decoder) = &mut self.0 {
            let count = decoder.read(target)?;
            if count > 0 || target.is_empty() {
                return Ok(count);
            }
            let rest = *decoder.get_ref();
            self.0 = rest
                .iter()
                .any(|byte| *byte != 0)
                .then(|| GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// Reads the header and nothing after it.
fn read_header(path: &Path, stream: &mut impl Read) -> Result<FileElements> {
    let mut magic = [0; 4];
    array_file::fill(path, stream, &mut magic, "its magic number")?;
    let dtype = match magic {
        [0, 0, 0x08, _] => DType::UInt8,
        [0, 0, 0x09, _] => DType::Int8,
        [0, 0, 0x0b, _] => DType::Int16,
        [0, 0, 0x0c, _] => DType::Int32,
        [0, 0, 0x0d, _] => DType::Float32,
        [0, 0, 0x0e, _] => DType::Float64,
        _ => {
            let problem = format!(
                "not an IDX file: it starts with {magic:02x?}, not with two zeros and 08, 09, 0b, \
                 0c, 0d or 0e"
            );
            return Err(wrong(path, problem));
        }
    };
    let mut sizes = vec![0; usize::from(magic[3])];
    for size in &mut sizes {
        let mut bytes = [0; 4];
        array_file::fill(path, stream, &mut bytes, "its header")?;
        *size = u32::from_be_bytes(bytes) as usize;
    }
    FileElements::new(path, dtype, &sizes, true)
}

//! NumPy's `.npy` files.
//!
//! `\x93NUMPY`, two bytes of version, the length of the header (16 bits in version 1, 32 in
//! versions 2 and 3, little-endian), the header, the elements. The header is a Python dictionary
//! in ASCII or UTF-8: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }` and blanks.
//! (NumPy, "NEP 1 — A simple file format for NumPy arrays".)

use std::io::Read;
use std::path::Path;

use crate::dataset::Dataset;
use crate::sources::array_file;
use crate::sources::file::{FileElements, damaged, wrong};
use umbo_base::error::{Error, Result};
use umbo_base::text::shortened;
use umbo_tensor::{DType, Shape, Tensor};

/// The header of an array of rank 8 has some 200 bytes. A header longer than this limit is damaged
/// or hostile.
const LONGEST_HEADER: usize = 64 << 10;

impl Dataset {
    /// The slices along dimension 0 of the array in a `.npy` file.
    ///
    /// All dtypes of Umbo are read. NumPy writes the bfloat16 of other packages as `V2`, so this is
    /// read as bfloat16. Files in the machine's byte order and in C order are mapped into
    /// memory. They must not be rewritten or shortened while the dataset or an element of it is
    /// in use, because a read past the new end would stop the process. Files in another byte
    /// order or in Fortran order, and files of bool, are read and converted by this call.
    ///
    /// INVALID_ARGUMENT: not a `.npy` file, an array that has no slices, rank above 8.
    /// UNIMPLEMENTED: a dtype that Umbo lacks, such as objects or text. DATA_LOSS: the file is
    /// shorter or longer than its header says, or damaged. NOT_FOUND, PERMISSION_DENIED: as the
    /// system reports. RESOURCE_EXHAUSTED: no memory for the array.
    pub fn from_npy_file(path: impl AsRef<Path>) -> Result<Dataset> {
        Dataset::from_named_arrays(vec![read(path.as_ref(), true)?], None, "path")
    }
}

/// Reads the array in a `.npy` file into memory of its own. Fails as [`Dataset::from_npy_file`]
/// does.
pub fn read_array(path: &Path) -> Result<Tensor> {
    read(path, false)
}

/// Reads the array, or maps it into memory if that is allowed and possible.
fn read(path: &Path, may_map: bool) -> Result<Tensor> {
    let map = array_file::map(path)?;
    let mut rest = &map[..];
    let header = NpyHeader::read(path, &mut rest)?;
    header.elements.check_length(path, rest.len() as u64)?;
    let elements = &header.elements;
    let offset = map.len() - rest.len();
    let is_aligned = offset % elements.dtype.size() == 0;
    if may_map && header.is_row_major() && elements.as_in_memory() && is_aligned {
        return elements.mapped(map, offset);
    }
    header.read_elements(path, &mut rest)
}

/// The contents of a file's header.
pub(crate) struct NpyHeader {
    pub(crate) elements: FileElements,
    fortran_order: bool,
    /// The number of bytes before the elements.
    pub(crate) bytes: u64,
}

impl NpyHeader {
    /// Reads the header and nothing after it.
    pub(crate) fn read(path: &Path, stream: &mut impl Read) -> Result<NpyHeader> {
        let mut magic = [0; 8];
        array_file::fill(path, stream, &mut magic, "its magic number")?;
        let [start @ .., major, minor] = magic;
        if &start != b"\x93NUMPY" {
            return Err(wrong(
                path,
                format!("not a .npy file: it starts with {start:02x?}"),
            ));
        }
        let length_bytes = match major {
            1 => 2,
            2 | 3 => 4,
            _ => {
                let problem = format!("version {major}.{minor} of the format; 1, 2 and 3 are read");
                return Err(Error::Unimplemented(format!(
                    "'{}': {problem}",
                    path.display()
                )));
            }
        };
        let mut length = [0; 4];
        array_file::fill(path, stream, &mut length[..length_bytes], "its header")?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST_HEADER {
            return Err(damaged(
                path,
                format!("a header of {length} bytes; {LONGEST_HEADER} are more than any needs"),
            ));
        }
        let mut text = vec![0; length];
        array_file::fill(path, stream, &mut text, "its header")?;
        let text = String::from_utf8(text).map_err(|_| damaged(path, "its header is not text"))?;
        let mut header = NpyHeader::parse(path, &text)?;
        header.bytes = (magic.len() + length_bytes + length) as u64;
        Ok(header)
    }

    /// Parses a header, of which only the order of the three entries, blanks and quotes may differ
    /// from what NumPy writes.
    fn parse(path: &Path, text: &str) -> Result<NpyHeader> {
        let characters = text.chars().filter(|character| !character.is_whitespace());
        let compact: String = characters
            .map(|c| if c == '"' { '\'' } else { c })
            .collect();
        if compact.contains("'descr':[") {
            return Err(lacking(path, "an array of records"));
        }
        let bad = || {
            damaged(
                path,
                format!("its header is not understood: {}", shortened(text)),
            )
        };
        let ((order, code), fortran_order, sizes) = entries(&compact).ok_or_else(bad)?;
        let descr = || shortened(&format!("{order}{code}"));
        let big_endian = match order {
            "<" | "|" | "=" => false,
            ">" => true,
            "" if !code.is_empty() => false,
            _ => {
                return Err(damaged(
                    path,
                    format!("its header has a dtype '{}'", descr()),
                ));
            }
        };
        let by_code = CODES
            .into_iter()
            .find(|(known, _)| *known == code)
            .map(|(_, dtype)| dtype);
        // NumPy also reads its names of dtypes, such as 'float32'.
        let by_name = || {
            DType::ALL
                .into_iter()
                .find(|dtype| dtype.to_string() == code)
        };
        let dtype = match by_code.or_else(by_name) {
            Some(dtype) => dtype,
            None if code.starts_with('O') => return Err(lacking(path, "Python objects")),
            None => return Err(lacking(path, &format!("dtype '{}'", descr()))),
        };
        let elements = FileElements::new(path, dtype, &sizes, big_endian)?;
        Ok(NpyHeader {
            elements,
            fortran_order,
            bytes: 0,
        })
    }

    fn is_row_major(&self) -> bool {
        !self.fortran_order || self.elements.shape.rank() < 2
    }

    /// Reads the elements into memory, in C order.
    pub(crate) fn read_elements(&self, path: &Path, stream: &mut impl Read) -> Result<Tensor> {
        if self.is_row_major() {
            return self.elements.read(path, stream);
        }
        // Fortran order is C order with the axes reversed.
        let rank = self.elements.shape.rank();
        let mut sizes = self.elements.shape.to_vec();
        sizes.reverse();
        let reversed = FileElements {
            shape: Shape::new(&sizes)?,
            ..self.elements
        };
        let axes: Vec<usize> = (0..rank).rev().collect();
        reversed
            .read(path, stream)?
            .transpose(&axes)?
            .to_contiguous()
    }
}

/// The codes of dtypes, without the order of bytes. NumPy has no bfloat16, and other packages write
/// it like this.
pub const CODES: [(&str, DType); 13] = [
    ("f2", DType::Float16),
    ("V2", DType::BFloat16),
    ("f4", DType::Float32),
    ("f8", DType::Float64),
    ("i1", DType::Int8),
    ("i2", DType::Int16),
    ("i4", DType::Int32),
    ("i8", DType::Int64),
    ("u1", DType::UInt8),
    ("u2", DType::UInt16),
    ("u4", DType::UInt32),
    ("u8", DType::UInt64),
    ("b1", DType::Bool),
];

fn lacking(path: &Path, problem: &str) -> Error {
    let path = path.display();
    Error::Unimplemented(format!(
        "'{path}': {problem}; integers, floats and bool are read"
    ))
}

/// The order of bytes and the code of the dtype, whether the elements are in Fortran order, and the
/// sizes, in a header without blanks.
fn entries(compact: &str) -> Option<((&str, &str), bool, Vec<usize>)> {
    let body = compact.strip_prefix("{'")?.strip_suffix('}')?;
    let body = body.strip_suffix(',').unwrap_or(body);
    let mut entries: Vec<_> = body
        .split(",'")
        .map(|entry| entry.split_once("':"))
        .collect::<Option<_>>()?;
    entries.sort_unstable();
    let [
        ("descr", descr),
        ("fortran_order", order @ ("True" | "False")),
        ("shape", shape),
    ] = entries[..]
    else {
        return None;
    };
    let descr = descr.strip_prefix('\'')?.strip_suffix('\'')?;
    let shape = shape.strip_prefix('(')?.strip_suffix(')')?;
    let sizes = shape.split_terminator(',').map(|size| {
        // Python 2 wrote `3L` for 3.
        size.strip_suffix('L').unwrap_or(size).parse().ok()
    });
    // Without an order, it is that of the machine.
    let descr = match descr.split_at_checked(1) {
        Some((order, code)) if !order.starts_with(char::is_alphabetic) => (order, code),
        _ => ("", descr),
    };
    Some((descr, order == "True", sizes.collect::<Option<_>>()?))
}

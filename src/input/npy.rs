//! NumPy's `.npy` files.
//!
//! `\x93NUMPY`, two bytes of version, the length of the header (16 bits in version 1, 32 in
//! versions 2 and 3, little-endian), the header, the elements. The header is a Python dictionary
//! in ASCII or UTF-8: `{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }` and blanks.
//! (NumPy, "NEP 1 — A simple file format for NumPy arrays".)

use std::io::Read;
use std::path::Path;

use crate::error::{Error, Result};
use crate::input::dataset::Dataset;
use crate::input::file::{self, FileElements, damaged, wrong};
use crate::tensor::{DType, Shape, Tensor};

/// The header of an array of rank 8 has some 200 bytes. A header longer than this limit is damaged or hostile.
const LONGEST_HEADER: usize = 64 << 10;

impl Dataset {
    /// The slices along dimension 0 of the array in a `.npy` file.
    ///
    /// All dtypes of Umbo are read. NumPy writes the bfloat16 of other packages as `V2`, so this is read as bfloat16.
    /// Files in the machine's byte order and in C order are mapped into memory. They must not be rewritten or shortened
    /// while the dataset or an element of it is in use, because a read past the new end would stop the process. Files
    /// in another byte order or in Fortran order, and files of bool, are read and converted by this call.
    ///
    /// INVALID_ARGUMENT: not a `.npy` file, an array that has no slices, rank above 8. UNIMPLEMENTED: a dtype that Umbo
    /// lacks, such as objects or text. DATA_LOSS: the file is shorter or longer than its header says, or damaged.
    /// NOT_FOUND, PERMISSION_DENIED: as the system reports. RESOURCE_EXHAUSTED: no memory for the array.
    pub fn from_npy_file(path: impl AsRef<Path>) -> Result<Dataset> {
        let path = path.as_ref();
        Dataset::from_named_arrays(vec![file::with_slices(path, read_mapped(path)?)?], None)
    }
}

/// Reads the array in a `.npy` file into memory of its own. Fails as [`Dataset::from_npy_file`] does.
pub(crate) fn read_array(path: &Path) -> Result<Tensor> {
    let map = file::map(path)?;
    let mut rest = &map[..];
    let header = NpyHeader::read(path, &mut rest)?;
    header.elements.check_length(path, rest.len() as u64)?;
    header.read_elements(path, &mut rest)
}

fn read_mapped(path: &Path) -> Result<Tensor> {
    let map = file::map(path)?;
    let mut rest = &map[..];
    let header = NpyHeader::read(path, &mut rest)?;
    header.elements.check_length(path, rest.len() as u64)?;
    let (elements, offset) = (&header.elements, map.len() - rest.len());
    let is_aligned = offset % elements.dtype.size() == 0;
    if header.is_row_major() && elements.as_in_memory() && is_aligned {
        return elements.mapped(map, offset);
    }
    header.read_elements(path, &mut rest)
}

/// The contents of a file's header.
pub(super) struct NpyHeader {
    pub(super) elements: FileElements,
    fortran_order: bool,
    /// The number of bytes before the elements.
    pub(super) bytes: u64,
}

impl NpyHeader {
    /// Reads the header and nothing after it.
    pub(super) fn read(path: &Path, stream: &mut impl Read) -> Result<NpyHeader> {
        let mut magic = [0; 8];
        file::fill(path, stream, &mut magic, "its magic number")?;
        let [start @ .., major, minor] = magic;
        if &start != b"\x93NUMPY" {
            return Err(wrong(path, format!("not a .npy file: it starts with {start:02x?}")));
        }
        let length_bytes = match major {
            1 => 2,
            2 | 3 => 4,
            _ => {
                let problem = format!("version {major}.{minor} of the format; 1, 2 and 3 are read");
                return Err(Error::Unimplemented(format!("'{}': {problem}", path.display())));
            }
        };
        let mut length = [0; 4];
        file::fill(path, stream, &mut length[..length_bytes], "its header")?;
        let length = u32::from_le_bytes(length) as usize;
        if length > LONGEST_HEADER {
            return Err(damaged(
                path,
                format!("a header of {length} bytes; {LONGEST_HEADER} are more than any needs"),
            ));
        }
        let mut text = vec![0; length];
        file::fill(path, stream, &mut text, "its header")?;
        let text = String::from_utf8(text).map_err(|_| damaged(path, "its header is not text"))?;
        let mut header = NpyHeader::parse(path, &text)?;
        header.bytes = (magic.len() + length_bytes + length) as u64;
        Ok(header)
    }

    fn parse(path: &Path, text: &str) -> Result<NpyHeader> {
        let mut words = HeaderWords { rest: text };
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        let bad = || damaged(path, format!("its header is not understood: {}", shortened(text)));
        words.take("{").ok_or_else(bad)?;
        while words.take("}").is_none() {
            let key = words.string().ok_or_else(bad)?;
            words.take(":").ok_or_else(bad)?;
            let again = match key {
                "descr" => descr.replace(descriptor(path, &mut words, text)?).is_some(),
                "fortran_order" => {
                    let order = match words.take("True") {
                        Some(()) => true,
                        None => words.take("False").map(|()| false).ok_or_else(bad)?,
                    };
                    fortran_order.replace(order).is_some()
                }
                "shape" => shape.replace(words.sizes().ok_or_else(bad)?).is_some(),
                _ => return Err(bad()),
            };
            if again {
                return Err(bad());
            }
            if words.take(",").is_none() {
                words.take("}").ok_or_else(bad)?;
                break;
            }
        }
        if !words.rest.trim().is_empty() {
            return Err(bad());
        }
        let ((dtype, big_endian), fortran_order, sizes) = descr
            .zip(fortran_order)
            .zip(shape)
            .map(|((descr, order), shape)| (descr, order, shape))
            .ok_or_else(bad)?;
        let elements = FileElements::new(path, dtype, &sizes, big_endian)?;
        Ok(NpyHeader { elements, fortran_order, bytes: 0 })
    }

    fn is_row_major(&self) -> bool {
        !self.fortran_order || self.elements.shape.rank() < 2
    }

    /// Reads the elements into memory, in C order.
    pub(super) fn read_elements(&self, path: &Path, stream: &mut impl Read) -> Result<Tensor> {
        if self.is_row_major() {
            return self.elements.read(path, stream);
        }
        // Fortran order is C order with the axes reversed.
        let rank = self.elements.shape.rank();
        let mut sizes = self.elements.shape.to_vec();
        sizes.reverse();
        let reversed = FileElements { shape: Shape::new(&sizes)?, ..self.elements };
        let axes: Vec<usize> = (0..rank).rev().collect();
        reversed.read(path, stream)?.transpose(&axes)?.to_contiguous()
    }
}

/// The dtype that `descr` names, and whether it is in big-endian order.
fn descriptor(path: &Path, words: &mut HeaderWords<'_>, text: &str) -> Result<(DType, bool)> {
    let lacking = |what: &str| {
        Error::Unimplemented(format!(
            "'{}': {what}; integers, floats and bool are read",
            path.display()
        ))
    };
    let Some(descr) = words.string() else {
        if words.rest.trim_start().starts_with('[') {
            return Err(lacking("an array of records"));
        }
        return Err(damaged(path, format!("its header is not understood: {}", shortened(text))));
    };
    let (order, code) = descr.split_at_checked(1).unwrap_or((descr, ""));
    let big_endian = match order {
        "<" => false,
        ">" => true,
        "|" | "=" => cfg!(target_endian = "big"),
        _ => return Err(damaged(path, format!("its header has a dtype '{}'", shortened(descr)))),
    };
    let dtype = match code {
        "f2" => DType::Float16,
        "V2" => DType::BFloat16,
        "f4" => DType::Float32,
        "f8" => DType::Float64,
        "i1" => DType::Int8,
        "i2" => DType::Int16,
        "i4" => DType::Int32,
        "i8" => DType::Int64,
        "u1" => DType::UInt8,
        "u2" => DType::UInt16,
        "u4" => DType::UInt32,
        "u8" => DType::UInt64,
        "b1" => DType::Bool,
        "O" | "O8" | "O4" => return Err(lacking("Python objects")),
        _ => return Err(lacking(&format!("dtype '{}'", shortened(descr)))),
    };
    Ok((dtype, big_endian))
}

/// The start of a text from a file, escaped for a message.
pub(super) fn shortened(text: &str) -> String {
    let mut start: String = text.chars().take(60).flat_map(char::escape_debug).collect();
    if text.chars().nth(60).is_some() {
        start.push_str("...");
    }
    start
}

/// A parser of Python literals, with the few forms that headers use.
struct HeaderWords<'a> {
    rest: &'a str,
}

impl<'a> HeaderWords<'a> {
    /// Skips `word`, if it is next.
    fn take(&mut self, word: &str) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(word)?;
        Some(())
    }

    /// A text in quotes without escapes.
    fn string(&mut self) -> Option<&'a str> {
        let rest = self.rest.trim_start();
        let quote = rest.chars().next().filter(|quote| matches!(quote, '\'' | '"'))?;
        let (string, rest) = rest[1..].split_once(quote)?;
        self.rest = rest;
        (!string.contains('\\')).then_some(string)
    }

    /// A tuple of sizes. Python 2 wrote `3L` for 3.
    fn sizes(&mut self) -> Option<Vec<usize>> {
        self.take("(")?;
        let mut sizes = Vec::new();
        while self.take(")").is_none() {
            let rest = self.rest.trim_start();
            let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
            sizes.push(rest[..digits].parse().ok()?);
            self.rest = rest[digits..].strip_prefix('L').unwrap_or(&rest[digits..]);
            if self.take(",").is_none() {
                self.take(")")?;
                break;
            }
        }
        Some(sizes)
    }
}

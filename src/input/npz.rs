//! NumPy's `.npz` files: zip archives of `.npy` files, one for each array.

use std::io::{Cursor, Read, Seek};
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{Error, Result};
use crate::executor::computing;
use crate::input::dataset::Dataset;
use crate::input::file::{self, LARGEST_EXPANSION, damaged, failed, wrong};
use crate::input::npy::NpyHeader;
use crate::tensor::Tensor;
use crate::text::shortened;
use crate::values::Value;

impl Dataset {
    /// The slices along dimension 0 of the arrays in a `.npz` file. Elements are structs, and each field has the name
    /// of an array. `names` selects the arrays and their order. Without it, all arrays are read in the order of the
    /// file. The arrays are read by this call, several at a time.
    ///
    /// INVALID_ARGUMENT: not a `.npz` file, an entry that is not an array or whose name leads out of the archive, a
    /// repeated name, no arrays, arrays without slices or with different numbers of slices. NOT_FOUND: no array with a
    /// name, no file. UNIMPLEMENTED: encryption, a compression other than DEFLATE, a dtype that Umbo lacks. DATA_LOSS:
    /// the file is damaged, or declares more data than its bytes can hold. PERMISSION_DENIED: as the system reports.
    /// RESOURCE_EXHAUSTED: no memory for the arrays.
    pub fn from_npz_file(path: impl AsRef<Path>, names: Option<&[&str]>) -> Result<Dataset> {
        let path = path.as_ref();
        let map = file::map(path)?;
        let (archive, entries) = open(path, &map)?;
        let chosen: Vec<usize> = match names {
            None => (0..entries.len()).collect(),
            Some(names) => names
                .iter()
                .map(|name| position(path, &entries, name, "names"))
                .collect::<Result<_>>()?,
        };
        if chosen.is_empty() {
            return Err(wrong(path, "no arrays; give the name of one or more"));
        }
        // Each array is a separate stream, so several are decompressed at a time.
        let read = |&index: &usize| read_entry(path, &mut archive.clone(), index);
        let arrays = computing::map(&chosen, map.len(), read)?;
        let mut fields = Vec::new();
        for (index, array) in chosen.into_iter().zip(arrays) {
            fields.push((entries[index].as_str().into(), Value::Tensor(array?)));
        }
        Dataset::from_tensor_slices(&Value::structure(fields)?)
    }
}

/// Reads the array with this name in a `.npz` file into memory of its own. Fails as [`Dataset::from_npz_file`] does.
pub fn read_array(path: &Path, name: &str) -> Result<Tensor> {
    let map = file::map(path)?;
    let (mut archive, entries) = open(path, &map)?;
    let index = position(path, &entries, name, "name")?;
    read_entry(path, &mut archive, index)
}

/// A file's bytes, opened as an archive.
type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// The archive, and the names of its arrays.
fn open<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Archive<'a>, Vec<String>)> {
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| refused(path, error))?;
    let entries = entries(path, &mut archive, bytes.len() as u64)?;
    Ok((archive, entries))
}

/// The position of the array with this name.
fn position(path: &Path, entries: &[String], name: &str, argument: &str) -> Result<usize> {
    entries.iter().position(|entry| entry == name).ok_or_else(|| {
        Error::NotFound(format!(
            "{argument}: '{}' has no array '{name}'; it has {}",
            path.display(),
            shortened(&entries.join(", "))
        ))
    })
}

fn refused(path: &Path, error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => failed(path, &error),
        ZipError::UnsupportedArchive(what) => {
            Error::Unimplemented(format!("'{}': {what}", path.display()))
        }
        ZipError::InvalidArchive(what) => wrong(path, format!("not a .npz file: {what}")),
        error => damaged(path, error),
    }
}

/// The names of the arrays, in the order of the archive. All entries are checked.
fn entries(
    path: &Path,
    archive: &mut ZipArchive<impl Read + Seek>,
    length: u64,
) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let mut compressed = 0u64;
    for index in 0..archive.len() {
        let entry = archive.by_index_raw(index).map_err(|error| refused(path, error))?;
        let name = entry.name().map_err(|error| refused(path, error))?;
        let array = name
            .strip_suffix(".npy")
            .filter(|array| !array.is_empty() && !array.contains(['/', '\\', '\0', ':']));
        let Some(array) = array else {
            return Err(wrong(
                path,
                format!(
                    "an entry '{}'; the entries of a .npz file are arrays, NAME.npy, without \
                     folders",
                    shortened(&name)
                ),
            ));
        };
        if entry.encrypted() {
            let problem = format!("'{}' is encrypted", shortened(array));
            return Err(Error::Unimplemented(format!("'{}': {problem}", path.display())));
        }
        names.push(array.to_owned());
        // In a valid file, no two entries share bytes.
        compressed = compressed.saturating_add(entry.compressed_size());
        let expansion = entry.compressed_size().saturating_add(1) as u128;
        if compressed > length
            || u128::from(entry.size()) > expansion * u128::from(LARGEST_EXPANSION)
        {
            return Err(damaged(
                path,
                format!(
                    "'{}' claims {} bytes, more than its part of the file can hold",
                    shortened(array),
                    entry.size()
                ),
            ));
        }
    }
    Ok(names)
}

fn read_entry(
    path: &Path,
    archive: &mut ZipArchive<impl Read + Seek>,
    index: usize,
) -> Result<Tensor> {
    let mut entry = archive.by_index(index).map_err(|error| refused(path, error))?;
    let claimed = entry.size();
    let header = NpyHeader::read(path, &mut entry)?;
    if header.elements.data_bytes.checked_add(header.bytes) != Some(claimed) {
        let present = format!("{} are", claimed.saturating_sub(header.bytes));
        return Err(header.elements.wrong_length(path, &present));
    }
    // This reads to the end, where the checksum is compared.
    header.read_elements(path, &mut entry)
}

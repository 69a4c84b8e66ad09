//! NumPy's `.npz` files: zip archives of `.npy` files, one for each array.

use std::io::Cursor;
use std::path::Path;

use zip::result::ZipError;
use zip::{CompressionMethod, ZipArchive};

use crate::dataset::Dataset;
use crate::sources::array_file;
use crate::sources::file::{damaged, failed, wrong};
use crate::sources::npy::NpyHeader;
use umbo_base::error::{Error, Result};
use umbo_base::text::shortened;
use umbo_executor::computing;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

impl Dataset {
    /// The slices along dimension 0 of the arrays in a `.npz` file. Elements are structs, and each
    /// field has the name of an array. `names` selects the arrays and their order. Without it,
    /// all arrays are read in the order of the file. The arrays are read by this call, several
    /// at a time.
    ///
    /// Entries that are not called `NAME.npy` are ignored.
    ///
    /// INVALID_ARGUMENT: not a `.npz` file, a repeated name, no arrays, arrays without slices or
    /// with different numbers of slices. NOT_FOUND: no array with a name, no file.
    /// UNIMPLEMENTED: encryption, a compression other than DEFLATE, a dtype that Umbo lacks.
    /// DATA_LOSS: the file is damaged. PERMISSION_DENIED: as the system reports.
    /// RESOURCE_EXHAUSTED: no memory for the arrays.
    pub fn from_npz_file(path: impl AsRef<Path>, names: Option<&[&str]>) -> Result<Dataset> {
        let path = path.as_ref();
        let map = array_file::map(path)?;
        let (archive, arrays) = open(path, &map)?;
        let chosen: Vec<usize> = match names {
            None => (0..arrays.len()).collect(),
            Some(names) => names
                .iter()
                .map(|name| position(path, &arrays, name, "names"))
                .collect::<Result<_>>()?,
        };
        if chosen.is_empty() {
            return Err(wrong(path, "no arrays; give the name of one or more"));
        }
        // Each array is a separate stream, so several are decompressed at a time.
        let read = |&position: &usize| read_entry(path, &mut archive.clone(), arrays[position].1);
        let values = computing::map(&chosen, map.len(), read)?;
        let mut fields = Vec::new();
        for (position, value) in chosen.into_iter().zip(values) {
            fields.push((arrays[position].0.as_str().into(), Value::Tensor(value?)));
        }
        Dataset::from_tensor_slices(&Value::structure(fields)?)
    }
}

/// Reads the array with this name in a `.npz` file into memory of its own. Fails as
/// [`Dataset::from_npz_file`] does.
pub fn read_array(path: &Path, name: &str) -> Result<Tensor> {
    let map = array_file::map(path)?;
    let (mut archive, arrays) = open(path, &map)?;
    let position = position(path, &arrays, name, "name")?;
    read_entry(path, &mut archive, arrays[position].1)
}

/// A file's bytes, opened as an archive.
type Archive<'a> = ZipArchive<Cursor<&'a [u8]>>;

/// The names of the arrays in an archive, each with the index of its entry.
type Arrays = Vec<(String, usize)>;

/// The archive, and its arrays.
fn open<'a>(path: &Path, bytes: &'a [u8]) -> Result<(Archive<'a>, Arrays)> {
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| refused(path, error))?;
    let mut arrays = Vec::new();
    for (index, name) in archive.file_names().enumerate() {
        let name = name.map_err(|error| refused(path, error))?;
        // Other entries, such as folders and texts, are none of the arrays.
        arrays.extend(
            name.strip_suffix(".npy")
                .map(|name| (name.to_owned(), index)),
        );
    }
    Ok((archive, arrays))
}

/// The position of the array with this name.
fn position(path: &Path, arrays: &Arrays, name: &str, argument: &str) -> Result<usize> {
    arrays
        .iter()
        .position(|(array, _)| array == name)
        .ok_or_else(|| {
            let names: Vec<&str> = arrays.iter().map(|(name, _)| &name[..]).collect();
            Error::NotFound(format!(
                "{argument}: '{}' has no array '{name}'; it has {}",
                path.display(),
                shortened(&names.join(", "))
            ))
        })
}

fn refused(path: &Path, error: ZipError) -> Error {
    match error {
        ZipError::Io(error) => failed(path, &error),
        ZipError::UnsupportedArchive(problem) => {
            Error::Unimplemented(format!("'{}': {problem}", path.display()))
        }
        ZipError::InvalidArchive(problem) => wrong(path, format!("not a .npz file: {problem}")),
        error => damaged(path, error),
    }
}

fn read_entry(path: &Path, archive: &mut Archive<'_>, index: usize) -> Result<Tensor> {
    let mut entry = archive
        .by_index(index)
        .map_err(|error| refused(path, error))?;
    let method = entry.compression();
    if !matches!(
        method,
        CompressionMethod::Stored | CompressionMethod::Deflated
    ) {
        let path = path.display();
        let problem = format!("compressed by {method}; uncompressed arrays and DEFLATE are read");
        return Err(Error::Unimplemented(format!("'{path}': {problem}")));
    }
    let claimed = entry.size();
    let header = NpyHeader::read(path, &mut entry)?;
    if header.elements.data_bytes.checked_add(header.bytes) != Some(claimed) {
        let present = format!("{} are", claimed.saturating_sub(header.bytes));
        return Err(header.elements.wrong_length(path, &present));
    }
    // This reads to the end, where the checksum is compared.
    header.read_elements(path, &mut entry)
}

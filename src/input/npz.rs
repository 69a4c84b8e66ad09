//! NumPy's `.npz` files: zip archives of `.npy` files, one for each array.

use std::io::Cursor;
use std::path::Path;

use zip::ZipArchive;
use zip::result::ZipError;

use crate::error::{Error, Result};
use crate::executor::computing;
use crate::input::dataset::Dataset;
use crate::input::file::{self, damaged, failed, wrong};
use crate::input::npy::NpyHeader;
use crate::tensor::Tensor;
use crate::text::shortened;
use crate::values::Value;

impl Dataset {
    /// The slices along dimension 0 of the arrays in a `.npz` file. Elements are structs, and each field has the name
    /// of an array. `names` selects the arrays and their order. Without it, all arrays are read in the order of the
    /// file. The arrays are read by this call, several at a time.
    ///
    /// INVALID_ARGUMENT: not a `.npz` file, an entry that is not an array, a repeated name, no arrays, arrays without
    /// slices or with different numbers of slices. NOT_FOUND: no array with a name, no file. UNIMPLEMENTED: encryption,
    /// a compression other than DEFLATE, a dtype that Umbo lacks. DATA_LOSS: the file is damaged. PERMISSION_DENIED: as
    /// the system reports. RESOURCE_EXHAUSTED: no memory for the arrays.
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
    let archive = ZipArchive::new(Cursor::new(bytes)).map_err(|error| refused(path, error))?;
    let names = archive.file_names().map(|name| {
        let name = name.map_err(|error| refused(path, error))?;
        name.strip_suffix(".npy").map(str::to_owned).ok_or_else(|| {
            let entry = shortened(&name);
            wrong(
                path,
                format!("an entry '{entry}'; the entries of a .npz file are arrays, NAME.npy"),
            )
        })
    });
    let names = names.collect::<Result<_>>()?;
    Ok((archive, names))
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

fn read_entry(path: &Path, archive: &mut Archive<'_>, index: usize) -> Result<Tensor> {
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

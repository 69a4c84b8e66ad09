//! The stand-in for files of arrays in a library without the feature `files`: functions that fail
//! with UNIMPLEMENTED.

use std::path::Path;

use crate::dataset::Dataset;
use umbo_base::error::{Error, Result};

fn refused<T>() -> Result<T> {
    Err(Error::left_out("files of arrays", "files"))
}

impl Dataset {
    /// Fails: there is nothing that would read the file.
    pub fn from_npy_file(_path: impl AsRef<Path>) -> Result<Dataset> {
        refused()
    }

    /// Fails: there is nothing that would read the file.
    pub fn from_npz_file(_path: impl AsRef<Path>, _names: Option<&[&str]>) -> Result<Dataset> {
        refused()
    }

    /// Fails: there is nothing that would read the files.
    pub fn from_idx_files(_paths: &[impl AsRef<Path>], _names: Option<&[&str]>) -> Result<Dataset> {
        refused()
    }
}

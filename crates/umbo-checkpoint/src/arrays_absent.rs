//! The stand-in for tensors in NumPy's files in a library without the feature `files`: functions
//! that fail with UNIMPLEMENTED.

use std::path::Path;

use umbo_base::error::{Error, Result};
use umbo_tensor::Tensor;

fn refused<T>() -> Result<T> {
    Err(Error::left_out("files of arrays", "files"))
}

/// Fails: there is nothing that would write the file.
pub fn save_npy(_tensor: &Tensor, _path: &Path) -> Result<()> {
    refused()
}

/// Fails: there is nothing that would write the file.
pub fn save_npz(_arrays: &[(&str, &Tensor)], _path: &Path) -> Result<()> {
    refused()
}

/// Fails: there is nothing that would read the file.
pub fn load_npy(_path: &Path) -> Result<Tensor> {
    refused()
}

/// Fails: there is nothing that would read the file.
pub fn load_npz(_path: &Path, _name: &str) -> Result<Tensor> {
    refused()
}

//! A file from copies of what it is to hold.

use std::path::Path;

use serde_json::{Map, Value as Json};

use crate::checkpoint::atomic::AtomicFile;
use crate::checkpoint::header;
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// What is to be in a file, apart from all objects: nobody changes it any more.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By the names that they have in the file; contiguous.
    pub(super) tensors: Vec<(String, Tensor)>,
    /// By name: kinds, and what is not a tensor.
    pub(super) objects: Map<String, Json>,
    /// How many steps the strategy has begun.
    pub(super) steps: u64,
    /// What a manager says about the file.
    pub(super) saved: Map<String, Json>,
}

impl Snapshot {
    /// Puts the tensors in their order: the widest elements first, so that all begin at multiples of
    /// their sizes, and then by name.
    pub(super) fn sort(&mut self) {
        self.tensors.sort_by(|(left, one), (right, other)| {
            other.dtype().size().cmp(&one.dtype().size()).then_with(|| left.cmp(right))
        });
    }

    /// Replaces the file at `path` by one with this in it.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        if cfg!(target_endian = "big") {
            let problem = "checkpoints are not written on machines that are big-endian";
            return Err(Error::Unimplemented(problem.into()));
        }
        let mut checksums = Vec::with_capacity(self.tensors.len());
        for (name, tensor) in &self.tensors {
            checksums.push(crc32fast::hash(bytes(name, tensor)?));
        }
        let header = header::encode(self, &checksums)?;
        let mut file = AtomicFile::create(path)?;
        file.write(&header)?;
        for (name, tensor) in &self.tensors {
            file.write(bytes(name, tensor)?)?;
        }
        file.finish()
    }
}

fn bytes<'a>(name: &str, tensor: &'a Tensor) -> Result<&'a [u8]> {
    let bytes = tensor.reading()?.as_bytes();
    bytes.ok_or_else(|| Error::Internal(format!("the copy of '{name}' is not contiguous")))
}

//! A file from copies of what it is to hold.

use std::collections::BTreeMap;
use std::path::Path;

use crc32fast::Hasher;
use serde_json::{Map, Value as Json};

use crate::checkpoint::atomic::AtomicFile;
use crate::checkpoint::header;
use crate::checkpoint::parts::{PartFile, remove_parts};
use crate::error::{Error, Result};
use crate::executor::computing;
use crate::tensor::{Shape, Tensor};

/// One thread computes the checksum of so many bytes of a tensor at least, if it has as many.
const PIECE: usize = 1 << 20;

/// How several ranks divide a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Division {
    /// Of the whole.
    pub shape: Shape,
    /// Where the parts begin and end, in elements.
    pub boundaries: Vec<usize>,
}

/// What is to be in a file, apart from all objects: nobody changes it any more.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By the names that they have in the file; contiguous.
    pub(super) tensors: Vec<(String, Tensor)>,
    /// Of those that several ranks divide, of which the tensors are this rank's parts, in a row: how.
    pub(super) divided: BTreeMap<String, Division>,
    /// The parts of the other ranks, in their order.
    pub(super) parts: Vec<PartFile>,
    /// By name: kinds, and what is not a tensor.
    pub(super) objects: Map<String, Json>,
    /// How many steps the strategy has begun.
    pub(super) steps: u64,
    /// What is probably not as the program means it.
    pub(super) doubt: Option<String>,
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
        self.begin(path)?.finish()?;
        // Of a checkpoint of several ranks that was here.
        remove_parts(path, |_| true);
        Ok(())
    }

    /// Writes a file with this in it, which is to be given the name `path`.
    pub(super) fn begin(&self, path: &Path) -> Result<AtomicFile> {
        let (header, _) = self.header(&self.checksums()?)?;
        let mut file = AtomicFile::create(path)?;
        self.write_to(&mut file, &header)?;
        Ok(file)
    }

    /// Of the tensors, in their order.
    pub(super) fn checksums(&self) -> Result<Vec<u32>> {
        if cfg!(target_endian = "big") {
            let problem = "checkpoints are not written on machines that are big-endian";
            return Err(Error::Unimplemented(problem.into()));
        }
        let (mut pieces, mut all) = (Vec::new(), 0);
        for (index, (name, tensor)) in self.tensors.iter().enumerate() {
            let bytes = bytes(name, tensor)?;
            pieces.extend(bytes.chunks(PIECE).map(|piece| (index, piece)));
            all += bytes.len();
        }
        let hashed = computing::map(&pieces, all, |&(_, piece)| {
            let mut hasher = Hasher::new();
            hasher.update(piece);
            hasher
        })?;
        let mut checksums = vec![Hasher::new(); self.tensors.len()];
        for ((index, _), of_piece) in pieces.iter().zip(&hashed) {
            checksums[*index].combine(of_piece);
        }
        Ok(checksums.into_iter().map(Hasher::finalize).collect())
    }

    /// The header of a file with this in it, whose tensors have these checksums, and its own.
    pub(super) fn header(&self, checksums: &[u32]) -> Result<(Vec<u8>, u32)> {
        header::encode(self, checksums)
    }

    /// Writes the header and all tensors.
    pub(super) fn write_to(&self, file: &mut AtomicFile, header: &[u8]) -> Result<()> {
        file.write(header)?;
        self.tensors.iter().try_for_each(|(name, tensor)| file.write(bytes(name, tensor)?))
    }
}

fn bytes<'a>(name: &str, tensor: &'a Tensor) -> Result<&'a [u8]> {
    let bytes = tensor.reading()?.as_bytes();
    bytes.ok_or_else(|| Error::Internal(format!("the copy of '{name}' is not contiguous")))
}

//! Writes a file from a snapshot; with several ranks, also a part for each.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use crc32fast::Hasher;

use crate::atomic::AtomicFile;
use crate::header::{self, EncodedHeader};
use crate::parts::{PartFile, part_name, parts_of, remove_parts};
use crate::snapshot::Snapshot;
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result};
use umbo_base::files::Place;
use umbo_executor::computing;
use umbo_strategy::Strategy;
use umbo_strategy::ranks::{Call, CollectiveKind, Ranks, agreement};
use umbo_tensor::Tensor;

/// The smallest number of bytes of a tensor whose checksum one thread computes, if the tensor has
/// as many.
const PIECE: usize = 1 << 20;

/// A rank's part of a checkpoint of several ranks. It has no name yet.
pub(super) struct WrittenPart {
    ranks: Arc<Ranks>,
    /// The checkpoint's file.
    path: PathBuf,
    /// The number of this save, and those of the saves that had parts before.
    save: u64,
    known: Vec<u64>,
    /// This rank's file, or why it could not be written.
    file: Result<AtomicFile>,
}

impl WrittenPart {
    /// Gives all ranks' files their names, that of the checkpoint last. All ranks make this call.
    /// If it fails on one rank, it fails on all.
    pub(super) fn finish(self) -> Result<()> {
        let WrittenPart {
            ranks,
            path,
            save,
            known,
            file,
        } = self;
        let is_first = ranks.rank() == 0;
        let part = file.and_then(|file| match is_first {
            true => Ok(Some(file)),
            false => file.finish().map(|()| None),
        });
        let done = match start_collective(&ranks, &"the parts of a checkpoint", part) {
            Ok(Some(file)) => file.finish(),
            Ok(None) => Ok(()),
            Err(error) => {
                // The parts are kept if the existing checkpoint has the same contents.
                if is_first && !known.contains(&save) {
                    // No rank writes any more, and no file names these parts.
                    remove_parts(&path, |number| number == save);
                }
                return Err(error);
            }
        };
        let is_done = done.is_ok();
        start_collective(&ranks, &"the end of a checkpoint", done)?;
        if is_first && is_done {
            remove_parts(&path, |number| number != save);
        }
        Ok(())
    }
}

impl Snapshot {
    /// Replaces the file at `path` by one with these contents.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        replace(self.begin(path)?)
    }

    /// Writes this rank's part of the checkpoint that replaces the one at `path`. All ranks make
    /// this call, each with its own snapshot. If it succeeds here, it has on all ranks, and all of
    /// them continue with [`WrittenPart::finish`], also those on which the writing has failed.
    pub(super) fn write_part(mut self, strategy: &Strategy, path: &Path) -> Result<WrittenPart> {
        let ranks = Arc::clone(strategy.ranks());
        let is_first = ranks.rank() == 0;
        let prepared = Place::of(path).and_then(|place| {
            // These are the saves of the checkpoint that is to be replaced. They are listed before
            // any rank writes.
            let known: Vec<u64> = match is_first {
                true => parts_of(&place.path).map(|(number, _)| number).collect(),
                false => Vec::new(),
            };
            let checksums = self.checksums()?;
            let header = header::encode(&self, &checksums)?;
            // Parts are beside the file itself, even if the path is a symbolic link.
            Ok((place.path, known, checksums, header))
        });
        let checksum = prepared
            .as_ref()
            .map_or(0, |(.., header)| u64::from(header.crc32.0));
        let call = Call {
            numbers: [checksum, 0],
            ..Call::to(CollectiveKind::State, &"the beginning of a checkpoint")
        };
        let (collective, (path, known, checksums, header)) =
            ranks.start_collective(call, prepared)?;
        let checksums_of_ranks: Vec<u64> =
            collective.numbers().map(|[checksum, _]| checksum).collect();
        drop(collective);
        let save = agreement(&checksums_of_ranks);
        let file = self.begin_part(&ranks, &path, save, header, &checksums, &checksums_of_ranks);
        Ok(WrittenPart {
            ranks,
            path,
            save,
            known,
            file,
        })
    }

    /// Writes this rank's file. That of the first rank names the parts of the others.
    fn begin_part(
        &mut self,
        ranks: &Ranks,
        path: &Path,
        save: u64,
        header: EncodedHeader,
        checksums: &[Crc32],
        checksums_of_ranks: &[u64],
    ) -> Result<AtomicFile> {
        let name = |rank| part_name(path, save, rank, ranks.size());
        if ranks.rank() != 0 {
            let mut file = AtomicFile::create(&path.with_file_name(name(ranks.rank())?.as_str()))?;
            self.write_to(&mut file, &header)?;
            return Ok(file);
        }
        for (rank, &checksum) in checksums_of_ranks.iter().enumerate().skip(1) {
            self.parts.push(PartFile {
                file: name(rank)?,
                crc32: Crc32(checksum as u32),
            });
        }
        // The header of the file contains the checksums of the parts' metadata.
        let header = header::encode(self, checksums)?;
        let mut file = AtomicFile::create(path)?;
        self.write_to(&mut file, &header)?;
        Ok(file)
    }

    /// Writes a file with these contents, which will be given the name `path`.
    pub(super) fn begin(&self, path: &Path) -> Result<AtomicFile> {
        let header = header::encode(self, &self.checksums()?)?;
        let mut file = AtomicFile::create(path)?;
        self.write_to(&mut file, &header)?;
        Ok(file)
    }

    /// The checksums of the tensors, in their order.
    pub(super) fn checksums(&self) -> Result<Vec<Crc32>> {
        let mut pieces = Vec::new();
        let mut all = 0;
        for (index, saved) in self.tensors.iter().enumerate() {
            let bytes = bytes(&saved.tensor)?;
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
        let checksums = checksums.into_iter().map(Hasher::finalize);
        Ok(checksums.map(Crc32).collect())
    }

    /// Writes the header and all tensors.
    pub(super) fn write_to(&self, file: &mut AtomicFile, header: &EncodedHeader) -> Result<()> {
        let mut parts = Vec::with_capacity(1 + self.tensors.len());
        parts.push(&header.bytes[..]);
        for saved in &self.tensors {
            parts.push(bytes(&saved.tensor)?);
        }
        file.write_all_of(&parts)
    }

    /// Calls `write` with the bytes of the header and of all tensors, in their order.
    pub(super) fn write_with(
        &self,
        header: &EncodedHeader,
        write: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        write(&header.bytes)?;
        self.tensors
            .iter()
            .try_for_each(|saved| write(bytes(&saved.tensor)?))
    }
}

/// Gives the file of a checkpoint of one rank its name.
pub(super) fn replace(file: AtomicFile) -> Result<()> {
    let target = file.target().to_owned();
    file.finish()?;
    // These are parts of an earlier checkpoint of several ranks.
    remove_parts(&target, |_| true);
    Ok(())
}

fn start_collective<T>(
    ranks: &Arc<Ranks>,
    purpose: &dyn std::fmt::Display,
    prepared: Result<T>,
) -> Result<T> {
    ranks
        .start_collective(Call::to(CollectiveKind::State, purpose), prepared)
        .map(|(_, value)| value)
}

/// The elements of a contiguous tensor, as they are in a file.
pub(super) fn bytes(tensor: &Tensor) -> Result<&[u8]> {
    let bytes = tensor.reading()?.as_bytes();
    bytes.ok_or_else(|| Error::Internal("a contiguous tensor is not contiguous".into()))
}

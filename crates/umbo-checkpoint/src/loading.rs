//! Reads many tensors of a file at once: in pieces, by several threads, into memory that the
//! threads share.
//!
//! A piece is read from the system in parts that fit into a processor's caches. The checksum of
//! each part is computed while it is there, so that it costs little beside the reading. The
//! checksums of pieces are combined to those of the tensors.

use std::io;

use crc32fast::Hasher;

use crate::reader::CheckpointFile;
use crate::source::Source;
use crate::wanted::{One, Values, WantedTensors, lost};
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result};
use umbo_executor::computing;
use umbo_input::sources::file::{FileElements, damaged, failed, to_memory};
use umbo_tensor::{DType, Shape, Tensor};

/// The smallest number of bytes of a tensor that one thread reads, if the tensor has as many.
const PIECE: usize = 1 << 20;

/// A number of bytes that fits into a processor's caches.
const PART: usize = 128 << 10;

/// Up to this number of bytes, no other thread is used.
const LEAST: usize = 512 << 10;

/// A piece of a tensor's bytes.
struct ReadPiece<'a> {
    tensor: usize,
    offset: u64,
    to: &'a mut [u8],
    /// The checksum of the bytes read so far, if there is one to compare it with.
    checksum: Option<Hasher>,
    outcome: io::Result<()>,
}

impl ReadPiece<'_> {
    fn read(&mut self, source: &Source<'_>) {
        let mut offset = self.offset;
        for part in self.to.chunks_mut(PART) {
            self.outcome = source.read_exact_at(part, offset);
            if self.outcome.is_err() {
                return;
            }
            if let Some(checksum) = &mut self.checksum {
                checksum.update(part);
            }
            offset += part.len() as u64;
        }
    }
}

impl CheckpointFile<'_> {
    /// Reads all wanted tensors of this file.
    pub(super) fn read_wanted(&self, wanted: &WantedTensors) -> Result<Values> {
        let of_file = wanted.0.iter().filter_map(|one| match one {
            One::OfFile(name, dtype, shape) => Some((&name[..], *dtype, *shape)),
            One::Read(_) => None,
        });
        let of_file: Vec<_> = of_file.collect();
        let mut read = self.read_all(&of_file)?.into_iter();
        let values = wanted.0.iter().map(|one| match one {
            One::OfFile(..) => read.next().ok_or_else(lost),
            One::Read(tensor) => Ok(tensor.clone()),
        });
        values.collect::<Result<_>>().map(Values)
    }

    /// Reads all elements of tensors with these dtypes and shapes. The tensors are in this file
    /// itself, not in a part.
    pub(super) fn read_all(&self, wanted: &[(&str, DType, Shape)]) -> Result<Vec<Tensor>> {
        let kinds: Vec<_> = wanted
            .iter()
            .map(|&(_, dtype, shape)| (dtype, shape))
            .collect();
        Tensor::in_shared_blocks(&kinds, |mut targets| {
            self.read_bytes(wanted, &mut targets)?;
            for (&(_, dtype, _), target) in wanted.iter().zip(targets) {
                to_memory(dtype, false, target);
            }
            Ok(())
        })
    }

    /// Reads the bytes of tensors, and compares their checksums.
    fn read_bytes(&self, wanted: &[(&str, DType, Shape)], targets: &mut [&mut [u8]]) -> Result<()> {
        let bytes: usize = targets.iter().map(|target| target.len()).sum();
        let mut pieces = Vec::with_capacity(wanted.len() + bytes / PIECE);
        for (tensor, (&(name, ..), target)) in wanted.iter().zip(targets).enumerate() {
            let mut offset = self.start_of(name)?;
            let is_compared = self.checksum_of(name).is_some();
            let mut rest = &mut **target;
            // A tensor without elements also has a checksum.
            loop {
                let (to, behind) = rest.split_at_mut(PIECE.min(rest.len()));
                let piece_offset = offset;
                let count = to.len() as u64;
                let checksum = is_compared.then(Hasher::new);
                pieces.push(ReadPiece {
                    tensor,
                    offset: piece_offset,
                    to,
                    checksum,
                    outcome: Ok(()),
                });
                (offset, rest) = (offset + count, behind);
                if rest.is_empty() {
                    break;
                }
            }
        }
        let at_a_time = (LEAST * pieces.len())
            .checked_div(bytes)
            .unwrap_or_default()
            .max(1);
        computing::for_each(&mut pieces, at_a_time, |piece| piece.read(&self.source));
        self.check(wanted, &pieces)
    }

    /// Returns the error of the first tensor of which a piece could not be read, or whose checksum
    /// is wrong.
    fn check(&self, wanted: &[(&str, DType, Shape)], pieces: &[ReadPiece]) -> Result<()> {
        for of_tensor in pieces.chunk_by(|piece, next| piece.tensor == next.tensor) {
            let (name, dtype, shape) = wanted[of_tensor[0].tensor];
            if let Some(error) = of_tensor
                .iter()
                .find_map(|piece| piece.outcome.as_ref().err())
            {
                return Err(match error.kind() {
                    io::ErrorKind::UnexpectedEof => self.cut_off(name, dtype, shape)?,
                    _ => failed(&self.path, error),
                });
            }
            let Some(expected) = self.checksum_of(name) else {
                continue;
            };
            let mut found = Hasher::new();
            of_tensor
                .iter()
                .filter_map(|piece| piece.checksum.as_ref())
                .for_each(|of_piece| found.combine(of_piece));
            let found = Crc32(found.finalize());
            if found != expected {
                let problem = format!(
                    "damaged: tensor '{name}' has checksum {found}, and should have {expected}"
                );
                return Err(damaged(&self.path, problem));
            }
        }
        Ok(())
    }

    /// The error for a file that was truncated within this tensor after it was opened.
    fn cut_off(&self, name: &str, dtype: DType, shape: Shape) -> Result<Error> {
        let length = self
            .source
            .length()
            .map_err(|error| failed(&self.path, &error))?;
        let there = length.saturating_sub(self.start_of(name)?);
        let data_bytes = shape.bytes(dtype)? as u64;
        let elements = FileElements {
            dtype,
            shape,
            data_bytes,
            big_endian: false,
        };
        Ok(elements.wrong_length(&self.path, &format!("{there} are")))
    }
}

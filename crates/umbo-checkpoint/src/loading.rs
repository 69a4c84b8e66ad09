//! Reads many tensors of a file at once: in pieces, by several threads, into memory that the
//! threads share.
//!
//! Tensors that lie side by side in the file are read side by side, thousands of small ones at
//! once. A piece is read from the system in parts that fit into a processor's caches. The checksum
//! of each part is computed while it is there, so that it costs little beside the reading. The
//! checksums of the pieces of a tensor are combined.

use std::io;

use crc32fast::Hasher;

use crate::reader::CheckpointFile;
use crate::source::Source;
use crate::wanted::{One, PlacedTensor, Values, WantedTensors, lost};
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result};
use umbo_executor::computing;
use umbo_input::sources::file::{FileElements, damaged, failed, to_memory};
use umbo_tensor::shared_blocks::SharedBlock;
use umbo_tensor::{DType, Tensor};

/// The most bytes that a thread reads at once.
const PIECE: usize = 1 << 20;

/// A number of bytes that fits into a processor's caches.
const PART: usize = 128 << 10;

/// Up to this number of bytes, no other thread is used.
const LEAST: usize = 512 << 10;

/// Bytes that lie one behind the other in the file and in memory: of a part of a tensor, or of
/// several tensors.
struct ReadPiece<'a> {
    offset: u64,
    to: &'a mut [u8],
    parts: Vec<TensorPart>,
    outcome: io::Result<()>,
}

/// The bytes of a tensor that are in a piece.
struct TensorPart {
    /// The number of the tensor among those that are read.
    tensor: usize,
    bytes: usize,
    /// Of the bytes that were read, if there is a checksum to compare it with.
    checksum: Option<Hasher>,
}

impl ReadPiece<'_> {
    fn read(&mut self, source: &Source<'_>) {
        let mut offset = self.offset;
        let mut parts = self.parts.iter_mut().map(|part| (part.bytes, part));
        let mut current = parts.next();
        for read in self.to.chunks_mut(PART) {
            self.outcome = source.read_exact_at(read, offset);
            if self.outcome.is_err() {
                return;
            }
            offset += read.len() as u64;
            let mut read = &*read;
            while let Some((left, part)) = &mut current {
                let (of_part, behind) = read.split_at(read.len().min(*left));
                if let Some(checksum) = &mut part.checksum {
                    checksum.update(of_part);
                }
                *left -= of_part.len();
                read = behind;
                if *left > 0 {
                    break;
                }
                current = parts.next();
            }
        }
    }
}

/// A piece that is not in memory yet.
struct PlannedPiece {
    /// The byte of its block at which it begins.
    start: usize,
    offset: u64,
    bytes: usize,
    parts: Vec<TensorPart>,
}

impl PlannedPiece {
    /// An empty piece at a place in its block and in the file.
    fn at((start, offset): (usize, u64)) -> PlannedPiece {
        PlannedPiece {
            start,
            offset,
            bytes: 0,
            parts: Vec::new(),
        }
    }

    /// Whether what is at this place lies directly behind it, and some of it fits in.
    fn takes(&self, (start, offset): (usize, u64)) -> bool {
        self.start + self.bytes == start
            && self.offset + self.bytes as u64 == offset
            && self.bytes < PIECE
    }
}

impl CheckpointFile<'_> {
    /// Reads all wanted tensors of this file.
    pub(super) fn read_wanted(&self, wanted: &WantedTensors) -> Result<Values> {
        let of_file = wanted.0.iter().filter_map(|one| match one {
            One::OfFile(placed) => Some(*placed),
            One::Read(_) => None,
        });
        let of_file: Vec<_> = of_file.collect();
        let read = self.read_all(&of_file)?;
        if of_file.len() == wanted.0.len() {
            return Ok(Values(read));
        }
        let mut read = read.into_iter();
        let values = wanted.0.iter().map(|one| match one {
            One::OfFile(_) => read.next().ok_or_else(lost),
            One::Read(tensor) => Ok(tensor.clone()),
        });
        values.collect::<Result<_>>().map(Values)
    }

    /// Reads all elements of tensors that are in this file itself.
    pub(super) fn read_all(&self, wanted: &[PlacedTensor]) -> Result<Vec<Tensor>> {
        let mut offsets = Vec::with_capacity(wanted.len());
        for placed in wanted {
            offsets.push(self.place_of(placed.position)?.1);
        }
        if offsets.is_sorted() {
            return self.read_in_order(wanted, &offsets);
        }
        // What lies side by side in the file is read together.
        let mut order: Vec<usize> = (0..wanted.len()).collect();
        order.sort_by_key(|&index| offsets[index]);
        let in_order: Vec<_> = order.iter().map(|&index| wanted[index]).collect();
        offsets.sort_unstable();
        let read = self.read_in_order(&in_order, &offsets)?;
        let mut tensors: Vec<Option<Tensor>> = vec![None; wanted.len()];
        for (index, tensor) in order.into_iter().zip(read) {
            tensors[index] = Some(tensor);
        }
        tensors
            .into_iter()
            .map(|tensor| tensor.ok_or_else(lost))
            .collect()
    }

    /// The same for tensors in the order of the file, in which they begin at `offsets`.
    fn read_in_order(&self, wanted: &[PlacedTensor], offsets: &[u64]) -> Result<Vec<Tensor>> {
        let kinds: Vec<_> = wanted
            .iter()
            .map(|placed| (placed.dtype, placed.shape))
            .collect();
        Tensor::in_shared_blocks(&kinds, |mut blocks| {
            self.read_bytes(wanted, offsets, &mut blocks)?;
            if wanted.iter().all(|placed| placed.dtype != DType::Bool) {
                return Ok(());
            }
            let mut all = wanted.iter();
            for SharedBlock { bytes, starts } in blocks {
                for (start, placed) in starts.into_iter().zip(&mut all) {
                    let target = &mut bytes[start..][..placed.shape.bytes(placed.dtype)?];
                    to_memory(placed.dtype, false, target);
                }
            }
            Ok(())
        })
    }

    /// Reads the bytes of tensors, and compares their checksums.
    fn read_bytes(
        &self,
        wanted: &[PlacedTensor],
        offsets: &[u64],
        blocks: &mut [SharedBlock<'_>],
    ) -> Result<()> {
        let mut pieces = Vec::new();
        let mut bytes = 0;
        let mut first = 0;
        for block in blocks {
            bytes += block.bytes.len();
            let behind = first + block.starts.len();
            self.add_pieces(wanted, offsets, first, block, &mut pieces)?;
            first = behind;
        }
        let at_a_time = (LEAST * pieces.len())
            .checked_div(bytes)
            .unwrap_or_default()
            .max(1);
        computing::for_each(&mut pieces, at_a_time, |piece| piece.read(&self.source));
        self.check(wanted, &pieces)
    }

    /// Divides a block, whose tensors are those of `wanted` from `first` on, into pieces.
    fn add_pieces<'b>(
        &self,
        wanted: &[PlacedTensor],
        offsets: &[u64],
        first: usize,
        block: &'b mut SharedBlock<'_>,
        pieces: &mut Vec<ReadPiece<'b>>,
    ) -> Result<()> {
        let mut planned: Vec<PlannedPiece> = Vec::new();
        for (tensor, &start) in (first..).zip(&block.starts) {
            let PlacedTensor {
                position,
                dtype,
                shape,
            } = wanted[tensor];
            let bytes = shape.bytes(dtype)?;
            let is_compared = self.checksum_of(position).is_some();
            let mut done = 0;
            // A tensor without elements also has a checksum.
            loop {
                let place = (start + done, offsets[tensor] + done as u64);
                let last = match planned.last_mut().filter(|last| last.takes(place)) {
                    Some(last) => last,
                    None => {
                        planned.push(PlannedPiece::at(place));
                        continue;
                    }
                };
                let taken = (PIECE - last.bytes).min(bytes - done);
                last.bytes += taken;
                last.parts.push(TensorPart {
                    tensor,
                    bytes: taken,
                    checksum: is_compared.then(Hasher::new),
                });
                done += taken;
                if done == bytes {
                    break;
                }
            }
        }
        let mut rest = &mut *block.bytes;
        let mut at = 0;
        for piece in planned {
            let (_, from_piece) = rest.split_at_mut(piece.start - at);
            let (to, behind) = from_piece.split_at_mut(piece.bytes);
            (rest, at) = (behind, piece.start + piece.bytes);
            pieces.push(ReadPiece {
                offset: piece.offset,
                to,
                parts: piece.parts,
                outcome: Ok(()),
            });
        }
        Ok(())
    }

    /// Returns the error of the first piece that could not be read, or of the first tensor whose
    /// checksum is wrong.
    fn check(&self, wanted: &[PlacedTensor], pieces: &[ReadPiece<'_>]) -> Result<()> {
        for piece in pieces {
            if let Err(error) = &piece.outcome {
                return Err(self.unread(wanted, piece, error)?);
            }
        }
        let mut parts = pieces.iter().flat_map(|piece| &piece.parts).peekable();
        while let Some(TensorPart {
            tensor, checksum, ..
        }) = parts.next()
        {
            let position = wanted[*tensor].position;
            let Some((expected, checksum)) = self.checksum_of(position).zip(checksum.as_ref())
            else {
                continue;
            };
            let mut found = checksum.clone();
            while let Some(next) = parts.next_if(|next| next.tensor == *tensor) {
                next.checksum.iter().for_each(|next| found.combine(next));
            }
            let found = Crc32(found.finalize());
            if found != expected {
                let (name, _) = self.place_of(position)?;
                let problem = format!(
                    "damaged: tensor '{name}' has checksum {found}, and should have {expected}"
                );
                return Err(damaged(&self.path, problem));
            }
        }
        Ok(())
    }

    /// The error for a piece that could not be read: of a file that was truncated after it was
    /// opened, or of the system.
    fn unread(
        &self,
        wanted: &[PlacedTensor],
        piece: &ReadPiece<'_>,
        error: &io::Error,
    ) -> Result<Error> {
        if error.kind() != io::ErrorKind::UnexpectedEof {
            return Ok(failed(&self.path, error));
        }
        let length = self
            .source
            .length()
            .map_err(|error| failed(&self.path, &error))?;
        let mut end = piece.offset;
        let cut_off = piece.parts.iter().find(|part| {
            end += part.bytes as u64;
            end > length
        });
        let tensor = cut_off
            .or(piece.parts.first())
            .map_or(0, |part| part.tensor);
        let PlacedTensor {
            position,
            dtype,
            shape,
        } = wanted[tensor];
        let there = length.saturating_sub(self.place_of(position)?.1);
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

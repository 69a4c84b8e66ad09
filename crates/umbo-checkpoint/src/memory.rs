//! Checkpoints in memory of the caller: the bytes that a file would have.

use std::mem::MaybeUninit;

use crate::bundle::Checkpoint;
use crate::header;
use crate::reader::CheckpointFile;
use crate::snapshot::{SavedTensor, Snapshot};
use umbo_base::checksum::Crc32;
use umbo_base::error::{Error, Result, memory};

impl Checkpoint {
    /// Writes the bytes to `memory` that [`Checkpoint::save`] would write to a file, and returns
    /// their number. If they are more than fit there, nothing is written.
    ///
    /// With several ranks UNIMPLEMENTED, unless they are elastic: then each rank may do so for
    /// itself, also after a failure of the communicator, and the bytes are those that one process
    /// alone would write. Otherwise as [`Checkpoint::save`].
    pub fn save_to_memory(&self, memory: &mut [MaybeUninit<u8>]) -> Result<usize> {
        let ranks = self.strategy().ranks();
        if !ranks.is_alone() && !ranks.are_elastic() {
            return Err(Error::Unimplemented(
                "a checkpoint of several ranks in memory: each rank writes its part to a file; \
                 save to a file, or make the strategies elastic"
                    .into(),
            ));
        }
        self.with_state(|snapshot| snapshot.write_to_memory(memory))
    }

    /// The same bytes in memory of the library, for another checkpoint of this process.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        self.with_state(|snapshot| {
            let header = header::encode(snapshot, &snapshot.checksums()?)?;
            let mut all = Vec::new();
            snapshot.write_with(&header, &mut |bytes| {
                memory::reserve(&mut all, bytes.len(), "bytes of a checkpoint")?;
                all.extend_from_slice(bytes);
                Ok(())
            })?;
            Ok(all)
        })
    }

    /// Restores all state from the bytes of a file, as [`Checkpoint::restore`]. With several ranks,
    /// all ranks give the same bytes.
    pub fn restore_from_memory(&self, bytes: &[u8]) -> Result<()> {
        drop(self.strategy().try_lock_between_steps()?);
        self.restore_opened(CheckpointFile::in_memory(bytes))
    }
}

impl Snapshot {
    /// Writes the bytes of a file with these contents, if they fit. Returns their number in any
    /// case.
    pub(super) fn write_to_memory(&self, memory: &mut [MaybeUninit<u8>]) -> Result<usize> {
        // Checksums have the same number of digits, whatever they are.
        let unknown = vec![Crc32(0); self.tensors.len()];
        let mut size = header::encode(self, &unknown)?.bytes.len();
        for SavedTensor { tensor, .. } in &self.tensors {
            size += tensor.shape().bytes(tensor.dtype())?;
        }
        if size > memory.len() {
            return Ok(size);
        }
        let header = header::encode(self, &self.checksums()?)?;
        let mut rest = &mut *memory;
        self.write_with(&header, &mut |bytes| {
            let (target, behind) = std::mem::take(&mut rest)
                .split_at_mut_checked(bytes.len())
                .ok_or_else(|| Error::Internal("a checkpoint has more bytes than before".into()))?;
            for (to, from) in target.iter_mut().zip(bytes) {
                to.write(*from);
            }
            rest = behind;
            Ok(())
        })?;
        Ok(size)
    }
}

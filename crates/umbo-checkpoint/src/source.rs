//! The bytes that a checkpoint is read from: those of a file, or memory of the caller.

use std::fs::File;
use std::io;

use umbo_system::files;

/// The bytes of a checkpoint.
pub(super) enum Source<'m> {
    /// An open file.
    File(File),
    /// Memory of the caller.
    Memory(&'m [u8]),
}

impl Source<'_> {
    /// The number of bytes.
    pub(super) fn length(&self) -> io::Result<u64> {
        match self {
            Source::File(file) => file.metadata().map(|metadata| metadata.len()),
            Source::Memory(bytes) => Ok(bytes.len() as u64),
        }
    }

    /// Fills `target` with the bytes from `offset` on.
    pub(super) fn read_exact_at(&self, target: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Source::File(file) => files::read_exact_at(file, target, offset),
            Source::Memory(bytes) => {
                let end = io::ErrorKind::UnexpectedEof;
                let start = usize::try_from(offset).map_err(|_| end)?;
                let from = bytes
                    .get(start..)
                    .and_then(|rest| rest.get(..target.len()))
                    .ok_or(end)?;
                target.copy_from_slice(from);
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_ends_where_its_bytes_end() {
        let source = Source::Memory(&[1, 2, 3]);
        assert_eq!(source.length().unwrap(), 3);
        let read = |count, offset| {
            let mut target = vec![0; count];
            source
                .read_exact_at(&mut target, offset)
                .map(|()| target)
                .map_err(|error| error.kind())
        };
        assert_eq!(read(2, 1), Ok(vec![2, 3]));
        assert_eq!(read(0, 3), Ok(vec![]));
        for (count, offset) in [(2, 2), (1, 3), (0, 4), (1, u64::MAX)] {
            assert_eq!(read(count, offset), Err(io::ErrorKind::UnexpectedEof));
        }
    }
}

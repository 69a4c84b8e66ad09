//! Which thread of a launch last wrote and read each byte, and which of them are ordered.
//!
//! Each thread has an identity, a number that changes at every barrier. They grow from launch to
//! launch, from block to block and from barrier to barrier, so that one comparison tells whether
//! an access was before all that could conflict. Identities are even; volatile accesses leave an
//! odd one.

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    /// They do not conflict with each other.
    Volatile,
}

/// The identities in use.
pub struct Identities {
    next: u32,
    launch: u32,
    block: u32,
    epoch: u32,
}

impl Identities {
    /// Identities from `first` on.
    pub fn new(first: u32) -> Identities {
        Identities {
            next: first + 2,
            launch: first,
            block: first,
            epoch: first,
        }
    }

    /// The first identity that was never used.
    pub fn end(&self) -> u32 {
        self.next
    }

    /// A block of so many threads starts.
    pub fn begin_block(&mut self, threads: u32) {
        self.block = self.next;
        self.begin_epoch(threads);
    }

    /// All threads of the block have met.
    pub fn begin_epoch(&mut self, threads: u32) {
        self.epoch = self.next;
        self.next = self.epoch + 2 + 2 * threads;
    }

    /// The identity of a thread by its number in its block.
    pub fn of(&self, thread: u32) -> u32 {
        self.epoch + 2 + 2 * thread
    }

    fn touch(&self, me: u32, kind: Kind, first: u32, writer: &mut u32, reader: &mut u32) -> bool {
        let ordered =
            |other: u32| other == me || other < first || (self.block..self.epoch).contains(&other);
        let both_volatile = kind == Kind::Volatile && *writer & 1 == 1;
        let mut clash = !both_volatile && !ordered(*writer);
        if kind == Kind::Read {
            if ordered(*reader) {
                *reader = me;
            } else {
                // What stands for several threads that read: of this epoch, or of the launch.
                *reader = if *reader >= self.epoch {
                    self.epoch
                } else {
                    self.launch
                };
            }
        } else {
            clash |= !ordered(*reader);
            *writer = if kind == Kind::Write {
                me
            } else {
                self.epoch + 1
            };
        }
        clash
    }

    /// Notes an access to shared memory, of which each block has its own, or to global memory; true
    /// if it conflicts with one of another thread that nothing orders.
    #[inline]
    pub fn access(
        &self,
        shared: bool,
        me: u32,
        kind: Kind,
        writers: &mut [u32],
        readers: &mut [u32],
    ) -> bool {
        let first = if shared { self.block } else { self.launch };
        // Nearly always nobody else was here in this launch.
        let mut fresh = true;
        for (writer, reader) in writers.iter().zip(readers.iter()) {
            fresh &= *writer < first || *writer == me;
            fresh &= *reader < first || *reader == me;
        }
        if fresh {
            match kind {
                Kind::Read => readers.fill(me),
                Kind::Write => writers.fill(me),
                Kind::Volatile => writers.fill(self.epoch + 1),
            }
            return false;
        }
        let mut clash = false;
        for (writer, reader) in writers.iter_mut().zip(readers.iter_mut()) {
            clash |= self.touch(me, kind, first, writer, reader);
        }
        clash
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two accesses to one byte by threads of one block, with `between` in between.
    fn pair(first: (u32, Kind), second: (u32, Kind), between: impl Fn(&mut Identities)) -> bool {
        let mut ids = Identities::new(2);
        ids.begin_block(64);
        let mut writer = [0];
        let mut reader = [0];
        assert!(!ids.access(false, ids.of(first.0), first.1, &mut writer, &mut reader));
        between(&mut ids);
        ids.access(false, ids.of(second.0), second.1, &mut writer, &mut reader)
    }

    #[test]
    fn conflicts_need_two_threads_a_write_and_no_barrier() {
        use Kind::*;
        for first in [Read, Write, Volatile] {
            for second in [Read, Write, Volatile] {
                let conflict = first != second || first == Write;
                assert_eq!(
                    pair((0, first), (1, second), |_| {}),
                    conflict,
                    "{first:?} {second:?}"
                );
                assert_eq!(
                    pair((0, first), (1, second), |ids| ids.begin_block(64)),
                    conflict
                );
                assert!(!pair((0, first), (40, second), |ids| ids.begin_epoch(64)));
                assert!(first == Volatile || !pair((0, first), (0, second), |_| {}));
            }
        }
    }

    #[test]
    fn many_readers_are_remembered() {
        for (readers, barrier) in [(3, false), (3, true), (64, false), (64, true)] {
            let mut ids = Identities::new(2);
            ids.begin_block(64);
            let mut w = [0];
            let mut r = [0];
            for reader in 0..readers {
                assert!(!ids.access(false, ids.of(reader), Kind::Read, &mut w, &mut r));
            }
            if barrier {
                ids.begin_epoch(64);
            }
            let clash = ids.access(false, ids.of(0), Kind::Write, &mut w, &mut r);
            assert_eq!(clash, !barrier, "{readers}");
        }
    }
}

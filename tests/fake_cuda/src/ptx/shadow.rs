//! Which thread of a launch last wrote and read each byte, and which of them are ordered.
//!
//! Each thread has an identity, a number that changes at every barrier. They grow from launch to
//! launch, from block to block and from barrier to barrier, so that one comparison tells whether
//! an access was before all that could conflict. Identities are even; accesses of atomic
//! operations leave an odd one.

/// What an access does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Read,
    Write,
    /// Atomic operations and those that tell other threads: they do not conflict with each other.
    Atomic,
}

/// A warp's identities: one for several of its threads at once, one spare, two for each lane.
const WARP: u32 = 66;

/// The identities in use.
pub struct Identities {
    next: u32,
    launch: u32,
    block: u32,
    epoch: u32,
    /// Of each warp: where its present identities begin, and earlier ones since the last barrier.
    warps: Vec<(u32, Vec<u32>)>,
    /// Blocks of this launch so far, and those that told the others with a fence and an atomic
    /// operation that they were finished.
    blocks: u32,
    told: u32,
    /// This block did so, or was told by all blocks before.
    has_told: bool,
    fenced: bool,
}

/// A thread and what it is ordered after.
#[derive(Clone, Copy)]
pub struct Who {
    pub identity: u32,
    pub warp: u32,
}

impl Identities {
    /// Identities from `first` on.
    pub fn new(first: u32) -> Identities {
        Identities {
            next: first + 2,
            launch: first,
            block: first,
            epoch: first,
            warps: vec![],
            blocks: 0,
            told: 0,
            has_told: false,
            fenced: false,
        }
    }

    /// The first identity that was never used.
    pub fn end(&self) -> u32 {
        self.next
    }

    /// A block of so many threads starts.
    pub fn begin_block(&mut self, threads: u32) {
        self.block = self.next;
        self.blocks += 1;
        self.has_told = false;
        self.fenced = false;
        self.begin_epoch(threads);
    }

    /// All threads of the block have met.
    pub fn begin_epoch(&mut self, threads: u32) {
        self.epoch = self.next;
        let warps = threads.div_ceil(32);
        let first = self.epoch + 2;
        self.warps = (0..warps).map(|warp| (first + warp * WARP, vec![])).collect();
        self.next = first + warps * WARP;
    }

    /// Threads of a warp have met.
    pub fn begin_warp(&mut self, warp: u32) {
        let (present, earlier) = &mut self.warps[warp as usize];
        earlier.push(*present);
        *present = self.next;
        self.next += WARP;
    }

    /// The thread of a number in its block.
    pub fn who(&self, thread: u32) -> Who {
        let warp = thread / 32;
        Who { identity: self.warps[warp as usize].0 + 2 + 2 * (thread % 32), warp }
    }

    /// A thread let its writes be seen.
    pub fn fence(&mut self) {
        self.fenced = true;
    }

    /// A thread did an atomic operation in global memory. After fences in all blocks, one that
    /// comes later may read what the earlier ones wrote.
    pub fn tell(&mut self) {
        if self.fenced && !self.has_told {
            self.has_told = true;
            if self.told == self.blocks - 1 {
                self.launch = self.block;
            }
            self.told += 1;
        }
    }

    fn ordered(&self, me: Who, other: u32, first: u32) -> bool {
        other < first
            || (self.block..self.epoch).contains(&other)
            || self.warps[me.warp as usize]
                .1
                .iter()
                .any(|first| (*first..first + WARP).contains(&other))
    }

    /// What stands for several threads that read.
    fn several(&self, me: Who, other: u32) -> u32 {
        let first = self.warps[me.warp as usize].0;
        if (first..first + WARP).contains(&other) {
            first
        } else if other >= self.epoch {
            self.epoch
        } else {
            self.launch
        }
    }

    fn touch(&self, me: Who, kind: Kind, first: u32, writer: &mut u32, reader: &mut u32) -> bool {
        let atomics = kind == Kind::Atomic && *writer & 1 == 1;
        let mut clash = *writer != me.identity && !atomics && !self.ordered(me, *writer, first);
        match kind {
            Kind::Read => {
                if *reader != me.identity {
                    let alone = self.ordered(me, *reader, first);
                    *reader = if alone { me.identity } else { self.several(me, *reader) };
                }
            }
            Kind::Write | Kind::Atomic => {
                clash |= *reader != me.identity && !self.ordered(me, *reader, first);
                *writer = if kind == Kind::Write { me.identity } else { self.epoch + 1 };
            }
        }
        clash
    }

    /// Notes an access to global memory; true if it conflicts with one of another thread that
    /// nothing orders.
    #[inline]
    pub fn access(&self, me: Who, kind: Kind, writers: &mut [u32], readers: &mut [u32]) -> bool {
        self.access_since(self.launch, me, kind, writers, readers)
    }

    /// As above, for shared memory, of which each block has its own.
    pub fn access_shared(
        &self,
        me: Who,
        kind: Kind,
        writers: &mut [u32],
        readers: &mut [u32],
    ) -> bool {
        self.access_since(self.block, me, kind, writers, readers)
    }

    #[inline]
    fn access_since(
        &self,
        first: u32,
        me: Who,
        kind: Kind,
        writers: &mut [u32],
        readers: &mut [u32],
    ) -> bool {
        // Nearly always nobody else was here in this launch.
        let mut fresh = true;
        for (writer, reader) in writers.iter().zip(readers.iter()) {
            fresh &= *writer < first || *writer == me.identity;
            fresh &= *reader < first || *reader == me.identity;
        }
        if fresh {
            match kind {
                Kind::Read => readers.fill(me.identity),
                Kind::Write => writers.fill(me.identity),
                Kind::Atomic => writers.fill(self.epoch + 1),
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

    /// Two accesses to one byte by the threads `a` and `b`, with `between` in between.
    fn pair(first: (u32, Kind), second: (u32, Kind), between: impl Fn(&mut Identities)) -> bool {
        let mut ids = Identities::new(2);
        ids.begin_block(64);
        let (mut writer, mut reader) = ([0], [0]);
        assert!(!ids.access(ids.who(first.0), first.1, &mut writer, &mut reader));
        between(&mut ids);
        ids.access(ids.who(second.0), second.1, &mut writer, &mut reader)
    }

    #[test]
    fn conflicts_need_two_threads_a_write_and_no_barrier() {
        use Kind::*;
        for first in [Read, Write, Atomic] {
            for second in [Read, Write, Atomic] {
                let both_read = first == Read && second == Read;
                let both_atomic = first == Atomic && second == Atomic;
                let conflict = !both_read && !both_atomic;
                assert_eq!(
                    pair((0, first), (40, second), |_| {}),
                    conflict,
                    "{first:?} {second:?}"
                );
                assert_eq!(pair((0, first), (1, second), |_| {}), conflict);
                assert_eq!(pair((0, first), (1, second), |ids| ids.begin_block(64)), conflict);
                assert!(!pair((0, first), (40, second), |ids| ids.begin_epoch(64)));
                if first != Atomic {
                    assert!(!pair((0, first), (0, second), |_| {}));
                    assert!(!pair((0, first), (1, second), |ids| ids.begin_warp(0)));
                    assert_eq!(pair((0, first), (40, second), |ids| ids.begin_warp(0)), conflict);
                }
            }
        }
    }

    #[test]
    fn many_readers_are_remembered() {
        for (readers, barrier, clash) in
            [(0..3, 0, true), (0..3, 1, false), (0..64, 1, false), (0..64, 0, true)]
        {
            let mut ids = Identities::new(2);
            ids.begin_block(64);
            let (mut w, mut r) = ([0], [0]);
            for reader in readers.clone() {
                assert!(!ids.access(ids.who(reader), Kind::Read, &mut w, &mut r));
            }
            if barrier == 1 {
                ids.begin_epoch(64);
            }
            assert_eq!(ids.access(ids.who(0), Kind::Write, &mut w, &mut r), clash, "{readers:?}");
        }
        let mut ids = Identities::new(2);
        ids.begin_block(64);
        let (mut w, mut r) = ([0], [0]);
        for reader in 0..32 {
            ids.access(ids.who(reader), Kind::Read, &mut w, &mut r);
        }
        ids.begin_warp(0);
        assert!(!ids.access(ids.who(0), Kind::Write, &mut w, &mut r));
    }

    #[test]
    fn the_last_block_may_read_what_all_told() {
        for told in [true, false] {
            let mut ids = Identities::new(2);
            let (mut w, mut r) = ([0], [0]);
            ids.begin_block(32);
            ids.access(ids.who(0), Kind::Write, &mut w, &mut r);
            if told {
                ids.fence();
            }
            ids.tell();
            ids.begin_block(32);
            ids.fence();
            ids.tell();
            assert_eq!(ids.access(ids.who(5), Kind::Read, &mut w, &mut r), !told);
        }
    }
}

//! What ranks send, by the kind of the collective.

use std::ops::{AddAssign, Sub};

/// The kinds of collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Least and greatest numbers.
    Vote,
    /// Descriptors of all ranks.
    Descriptors,
    /// Other records of all ranks, up to 4 KiB each: who contributed to which variable, metrics.
    Records,
    /// Parts of gradients.
    AllToAll,
    /// New weights.
    AllGather,
    /// First values of variables.
    Broadcast,
}

impl Kind {
    /// All kinds, with their names.
    pub const ALL: [(Kind, &str); 6] = [
        (Kind::Vote, "votes"),
        (Kind::Descriptors, "descriptors"),
        (Kind::Records, "records"),
        (Kind::AllToAll, "all-to-all"),
        (Kind::AllGather, "all-gather"),
        (Kind::Broadcast, "broadcasts"),
    ];
}

/// What one rank has sent in collectives of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Collective calls.
    pub calls: u64,
    /// Messages to other ranks.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// What one rank has sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([Count; Kind::ALL.len()]);

impl Counts {
    /// The counts of one kind.
    pub fn of(&self, kind: Kind) -> Count {
        self.0[kind as usize]
    }

    /// The same, to be changed.
    pub(crate) fn of_mut(&mut self, kind: Kind) -> &mut Count {
        &mut self.0[kind as usize]
    }

    /// The greater of both counts, kind by kind.
    pub fn most(mut self, other: &Counts) -> Counts {
        for (count, other) in self.0.iter_mut().zip(&other.0) {
            count.calls = count.calls.max(other.calls);
            count.messages = count.messages.max(other.messages);
            count.bytes = count.bytes.max(other.bytes);
        }
        self
    }
}

impl AddAssign for Count {
    fn add_assign(&mut self, other: Count) {
        self.calls += other.calls;
        self.messages += other.messages;
        self.bytes += other.bytes;
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        for (count, other) in self.0.iter_mut().zip(&other.0) {
            *count += *other;
        }
    }
}

impl Sub for Counts {
    type Output = Counts;

    fn sub(mut self, before: Counts) -> Counts {
        for (count, before) in self.0.iter_mut().zip(&before.0) {
            count.calls -= before.calls;
            count.messages -= before.messages;
            count.bytes -= before.bytes;
        }
        self
    }
}

//! The descriptors of all ranks. If all of them say the same, none is sent: a vote about a hash of
//! them shows it, which takes a few messages of each rank however many ranks there are.

use std::iter;

use super::descriptor::{BYTES, CollectiveKind, Descriptor, MAGIC};
use super::group::Ranks;
use super::quantities::agreement;
use umbo_base::error::{Result, Status};
use umbo_base::observe::{self, Phase};

/// The vote of a rank that has failed, which has to say how. It can be negated: an engine may find
/// the greatest number by way of the least of the negated ones.
const FAILED: i64 = -i64::MAX;

/// The descriptors of all ranks, in rank order.
pub(super) enum Descriptors {
    /// All of so many ranks have sent what this rank has sent, except for texts and steps.
    Alike(Descriptor, usize),
    /// The descriptor of each rank.
    Each(Vec<Descriptor>),
}

impl Descriptor {
    /// The number for the vote. It is the same on ranks that have not failed, lay descriptors out
    /// alike, and send the same for programs, which do not read texts and steps.
    fn vote(&self) -> i64 {
        if self.status != Status::Ok {
            return FAILED;
        }
        let hash = agreement(&(
            MAGIC,
            self.kind as u8,
            [self.strategy, self.series, self.operation],
            [self.agreement, self.length],
            self.numbers,
        ));
        (hash as i64).max(FAILED + 1)
    }
}

impl Ranks {
    /// Exchanges descriptors: by a vote, and one by one if they are not alike.
    pub(super) fn exchange(&self, descriptor: &Descriptor) -> Result<Descriptors> {
        let number = descriptor.vote();
        let vote = {
            let _span = observe::span(Phase::Exchange);
            self.engine.vote(number)?
        };
        if vote.least == vote.greatest && number != FAILED {
            return Ok(Descriptors::Alike(descriptor.clone(), self.size()));
        }
        let _span = observe::span(Phase::Exchange);
        let bytes = self.gather_alike(&descriptor.encode())?;
        bytes
            .chunks(BYTES)
            .enumerate()
            .map(|(rank, bytes)| Descriptor::decode(bytes, rank))
            .collect::<Result<_>>()
            .map(Descriptors::Each)
    }
}

impl Descriptors {
    /// The descriptors, if they are not alike; nothing, if they are.
    pub fn that_differ(&self) -> &[Descriptor] {
        match self {
            Descriptors::Alike(..) => &[],
            Descriptors::Each(descriptors) => descriptors,
        }
    }

    /// The kind of the collective, which is the same on all ranks.
    pub fn kind(&self) -> CollectiveKind {
        self.of(0).kind
    }

    /// The text of this rank, whose number is `rank`: texts of others may differ unseen.
    pub fn text(&self, rank: usize) -> &str {
        &self.of(rank).text
    }

    fn of(&self, rank: usize) -> &Descriptor {
        match self {
            Descriptors::Alike(descriptor, _) => descriptor,
            Descriptors::Each(descriptors) => &descriptors[rank],
        }
    }

    fn iter(&self) -> impl Iterator<Item = &Descriptor> {
        let (alike, each) = match self {
            Descriptors::Alike(descriptor, ranks) => (Some((descriptor, *ranks)), &[][..]),
            Descriptors::Each(descriptors) => (None, descriptors.as_slice()),
        };
        let alike = alike.map(|(descriptor, ranks)| iter::repeat_n(descriptor, ranks));
        alike.into_iter().flatten().chain(each)
    }

    /// The numbers of each rank.
    pub fn numbers(&self) -> impl Iterator<Item = [u64; 2]> {
        self.iter().map(|descriptor| descriptor.numbers)
    }

    /// The number of bytes each rank sends to all others.
    pub fn lengths(&self) -> impl Iterator<Item = usize> {
        self.iter().map(|descriptor| descriptor.length as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn descriptor() -> Descriptor {
        Descriptor {
            kind: CollectiveKind::Gradients,
            status: Status::Ok,
            strategy: 1,
            series: 2,
            operation: 3,
            step: 4,
            agreement: 5,
            numbers: [6, 7],
            length: 8,
            text: "an update".into(),
        }
    }

    #[test]
    fn votes_differ_where_programs_would_read_different_descriptors() {
        let vote = descriptor().vote();
        let changed = |change: &dyn Fn(&mut Descriptor)| {
            let mut descriptor = descriptor();
            change(&mut descriptor);
            descriptor.vote()
        };
        let changes: [&dyn Fn(&mut Descriptor); 8] = [
            &|it| it.kind = CollectiveKind::Commit,
            &|it| it.strategy += 1,
            &|it| it.series += 1,
            &|it| it.operation += 1,
            &|it| it.agreement += 1,
            &|it| it.numbers[0] += 1,
            &|it| it.numbers[1] += 1,
            &|it| it.length += 1,
        ];
        for (at, change) in changes.iter().enumerate() {
            assert_ne!(changed(change), vote, "{at}");
        }
        assert_eq!(changed(&|it| it.text.clear()), vote);
        assert_eq!(changed(&|it| it.step += 1), vote);
        assert_eq!(changed(&|it| it.status = Status::Internal), FAILED);
        assert_ne!(vote, FAILED);
    }

    #[test]
    fn descriptors_that_are_alike_read_as_those_of_each_rank() {
        let alike = Descriptors::Alike(descriptor(), 3);
        let each = Descriptors::Each(vec![descriptor(); 3]);
        assert!(alike.numbers().eq(each.numbers()) && alike.numbers().count() == 3);
        assert!(alike.lengths().eq(each.lengths()));
        assert_eq!(alike.text(2), each.text(2));
        assert_eq!(
            (alike.that_differ().len(), each.that_differ().len()),
            (0, 3)
        );
    }
}

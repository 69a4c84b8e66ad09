//! What ranks tell each other before they exchange gradients: who has contributed to what, and with
//! which weight.

use crate::error::Result;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::wire::{Reader, Writer};
use crate::strategy::ranks::{Gathered, Ranks};

/// Who has contributed to what, of all ranks.
pub(in crate::optimizer) struct Participation {
    ranks: Vec<OfRank>,
    /// Whether what a rank says of runs before is what all ranks have accumulated together.
    before_is_of_all: bool,
}

/// What one rank has contributed.
pub(in crate::optimizer) struct OfRank {
    /// The weight of the runs that it has accumulated.
    weight_before: f64,
    /// Which variables these wrote.
    before: Bits,
    /// In the last run.
    pub replicas: Vec<OfReplica>,
}

/// What one replica has contributed in the last run.
pub(in crate::optimizer) struct OfReplica {
    pub weight: f64,
    wrote: Bits,
}

/// A bit for each variable.
struct Bits(Vec<u64>);

impl Bits {
    fn write(to: &mut Writer, variables: usize, is_set: impl Fn(usize) -> bool) -> Result<()> {
        let words = variables.div_ceil(64);
        to.number(words as u64)?;
        (0..words).try_for_each(|word| {
            let of_word = word * 64..variables.min((word + 1) * 64);
            to.number(of_word.filter(|&at| is_set(at)).fold(0, |bits, at| bits | 1 << (at % 64)))
        })
    }

    fn read(from: &mut Reader<'_>) -> Result<Bits> {
        (0..from.count()?).map(|_| from.number()).collect::<Result<_>>().map(Bits)
    }

    fn has(&self, variable: usize) -> bool {
        self.0.get(variable / 64).is_some_and(|word| word >> (variable % 64) & 1 == 1)
    }
}

impl OfReplica {
    /// Whether it counts for variable `index`.
    pub fn wrote(&self, index: usize) -> bool {
        self.weight != 0.0 && self.wrote.has(index)
    }
}

impl OfRank {
    /// The replicas that count for variable `index`.
    pub fn writers(&self, index: usize) -> impl Iterator<Item = &OfReplica> {
        self.replicas.iter().filter(move |replica| replica.wrote(index))
    }

    /// Whether it has anything for variable `index`.
    pub fn wrote(&self, index: usize) -> bool {
        self.before.has(index) || self.writers(index).next().is_some()
    }
}

impl Participation {
    /// What this rank has to announce.
    pub fn write(sources: &Sources<'_>) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        let variables = sources.variables().len();
        to.float(sources.accumulation.weight)?;
        Bits::write(&mut to, variables, |index| sources.accumulation.has_before(index))?;
        to.number(sources.contributions.count() as u64)?;
        for replica in 0..sources.contributions.count() {
            to.float(sources.contributions.weight(replica))?;
            let wrote = |index| sources.contributions.has_written(replica, index);
            Bits::write(&mut to, variables, wrote)?;
        }
        Ok(to.done())
    }

    /// What all ranks have announced.
    pub fn read(ranks: &Ranks, participation: &Gathered) -> Result<Participation> {
        let read = |(rank, bytes): (usize, &[u8])| {
            let mut from = Reader::new(rank, bytes);
            let (weight_before, before) = (from.float()?, Bits::read(&mut from)?);
            let replicas = (0..from.count()?)
                .map(|_| Ok(OfReplica { weight: from.float()?, wrote: Bits::read(&mut from)? }))
                .collect::<Result<_>>()?;
            Ok(OfRank { weight_before, before, replicas })
        };
        let before_is_of_all = ranks.has_fixed_replicas();
        let ranks = participation.iter().enumerate().map(read).collect::<Result<_>>()?;
        Ok(Participation { ranks, before_is_of_all })
    }

    /// What each rank has announced.
    pub fn ranks(&self) -> &[OfRank] {
        &self.ranks
    }

    /// The weights of all runs and replicas, added as one process adds them.
    pub fn total_weight(&self) -> f64 {
        let known = if self.before_is_of_all { 1 } else { self.ranks.len() };
        let before: f64 = self.ranks.iter().take(known).map(|rank| rank.weight_before).sum();
        before + self.weight_of_run()
    }

    /// The weights of all replicas in the last run.
    pub fn weight_of_run(&self) -> f64 {
        let replicas = self.ranks.iter().flat_map(|rank| &rank.replicas);
        replicas.map(|replica| replica.weight).sum()
    }

    /// Whether anybody has contributed to variable `index` in the last run.
    pub fn has_variable_of_run(&self, index: usize) -> bool {
        self.ranks.iter().any(|rank| rank.writers(index).next().is_some())
    }

    /// Whether anybody has contributed to variable `index`.
    pub fn has_variable(&self, index: usize) -> bool {
        self.ranks.iter().any(|rank| rank.wrote(index))
    }
}

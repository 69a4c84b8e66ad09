//! The participation mask, which ranks exchange before gradients: which replica contributed to
//! which variable, and with which weight.

use std::iter;
use std::sync::Arc;

use crate::apply::sources::GradientSources;
use crate::gradients::contributions::Contributions;
use umbo_base::error::Result;
use umbo_strategy::ranks::wire::{Reader, Writer};

/// The variables to which each replica of all ranks contributed.
#[derive(Clone, Default)]
pub(crate) struct Participation {
    ranks: Arc<[Arc<RankParticipation>]>,
    /// The ranks that contributed to other variables than the rank before them: few, or the first
    /// one alone, however many ranks there are.
    differing: Arc<[usize]>,
}

/// The participation of one rank.
pub(crate) struct RankParticipation {
    /// The weight of the runs that it has accumulated.
    weight_before: f64,
    /// The variables that these runs wrote.
    before: Bits,
    /// The participation of each replica in the last run.
    pub replicas: Vec<ReplicaParticipation>,
}

/// The participation of one replica in the last run.
pub(crate) struct ReplicaParticipation {
    pub weight: f64,
    wrote: Bits,
}

/// A bit for each variable.
#[derive(PartialEq, Eq)]
struct Bits(Vec<u64>);

impl Bits {
    fn write(to: &mut Writer, variables: usize, is_set: impl Fn(usize) -> bool) -> Result<()> {
        let words = variables.div_ceil(64);
        to.number(words as u64)?;
        (0..words).try_for_each(|word| {
            let of_word = word * 64..variables.min((word + 1) * 64);
            to.number(
                of_word
                    .filter(|&at| is_set(at))
                    .fold(0, |bits, at| bits | 1 << (at % 64)),
            )
        })
    }

    fn read(from: &mut Reader<'_>) -> Result<Bits> {
        (0..from.count()?)
            .map(|_| from.number())
            .collect::<Result<_>>()
            .map(Bits)
    }

    fn has(&self, variable: usize) -> bool {
        self.0
            .get(variable / 64)
            .is_some_and(|word| word >> (variable % 64) & 1 == 1)
    }
}

impl ReplicaParticipation {
    /// Whether it counts for variable `index`.
    pub fn wrote(&self, index: usize) -> bool {
        self.weight != 0.0 && self.wrote.has(index)
    }
}

impl RankParticipation {
    /// The replicas that count for variable `index`.
    pub fn writers(&self, index: usize) -> impl Iterator<Item = &ReplicaParticipation> {
        self.replicas
            .iter()
            .filter(move |replica| replica.wrote(index))
    }

    /// Whether it has something for the same variables as another rank, of as many replicas.
    fn writes_like(&self, other: &RankParticipation) -> bool {
        let replicas = || self.replicas.iter().zip(&other.replicas);
        self.before == other.before
            && self.replicas.len() == other.replicas.len()
            && replicas().all(|(one, other)| {
                (one.weight == 0.0) == (other.weight == 0.0) && one.wrote == other.wrote
            })
    }

    fn read(rank: usize, bytes: &[u8]) -> Result<RankParticipation> {
        let mut from = Reader::new(rank, bytes);
        // As ranks check their own: a sum of weights may be too large to be finite.
        let weight_before = from.float()?;
        if weight_before.is_nan() || weight_before < 0.0 {
            return Err(from.damaged());
        }
        let before = Bits::read(&mut from)?;
        let replicas = (0..from.count()?)
            .map(|_| {
                let weight = from.float()?;
                if !(weight.is_finite() && weight >= 0.0) {
                    return Err(from.damaged());
                }
                Ok(ReplicaParticipation {
                    weight,
                    wrote: Bits::read(&mut from)?,
                })
            })
            .collect::<Result<_>>()?;
        Ok(RankParticipation {
            weight_before,
            before,
            replicas,
        })
    }

    /// Whether it has anything for variable `index`.
    pub fn wrote(&self, index: usize) -> bool {
        self.before.has(index) || self.writers(index).next().is_some()
    }
}

impl Participation {
    /// Encodes this rank's participation.
    pub fn write(sources: &GradientSources<'_>) -> Result<Vec<u8>> {
        let mut to = Writer::default();
        let variables = sources.variables().len();
        to.float(sources.accumulation.weight)?;
        Bits::write(&mut to, variables, |index| {
            sources.accumulation.has_before(index)
        })?;
        let Contributions { replicas, step } = sources.contributions;
        to.number(replicas.len() as u64)?;
        for replica in replicas {
            to.float(replica.weight())?;
            Bits::write(&mut to, variables, |index| {
                replica.viewed.in_step(index, step)
            })?;
        }
        Ok(to.done())
    }

    /// Decodes the participation of all ranks, in rank order.
    pub fn read<'b>(of_ranks: impl Iterator<Item = &'b [u8]>) -> Result<Participation> {
        let read = |(rank, bytes)| RankParticipation::read(rank, bytes).map(Arc::new);
        let ranks = of_ranks.enumerate().map(read);
        let ranks = ranks.collect::<Result<Arc<[Arc<RankParticipation>]>>>()?;
        let differs = |rank: &usize| *rank == 0 || !ranks[*rank].writes_like(&ranks[*rank - 1]);
        let differing = (0..ranks.len()).filter(differs).collect();
        Ok(Participation { ranks, differing })
    }

    /// The participation of `ranks` ranks that all have sent these bytes.
    pub fn alike(bytes: &[u8], ranks: usize) -> Result<Participation> {
        let of_each = Arc::new(RankParticipation::read(0, bytes)?);
        Ok(Participation {
            ranks: iter::repeat_n(of_each, ranks).collect(),
            differing: Arc::new([0]),
        })
    }

    /// The participation of each rank.
    pub fn ranks(&self) -> &[Arc<RankParticipation>] {
        &self.ranks
    }

    /// The participation of ranks, without those that contributed to the same variables as the rank
    /// before them.
    pub fn distinct(&self) -> impl Iterator<Item = &RankParticipation> {
        self.differing.iter().map(|&rank| &*self.ranks[rank])
    }

    /// The weights of all runs and replicas, added as one process adds them.
    pub fn total_weight(&self) -> f64 {
        let before: f64 = self.ranks.iter().map(|rank| rank.weight_before).sum();
        let replicas = self.ranks.iter().flat_map(|rank| &rank.replicas);
        before + replicas.map(|replica| replica.weight).sum::<f64>()
    }

    /// Whether any replica has contributed to variable `index`.
    pub fn has_variable(&self, index: usize) -> bool {
        self.distinct().any(|rank| rank.wrote(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A weight, and the variables that were written.
    type Wrote<'a> = (f64, &'a [usize]);

    /// A rank that has accumulated `before`, with the weight of each replica and the variables that
    /// it wrote.
    fn encoded(before: Wrote<'_>, replicas: &[Wrote<'_>], variables: usize) -> Vec<u8> {
        let mut to = Writer::default();
        let bits = |to: &mut Writer, wrote: &[usize]| {
            Bits::write(to, variables, |index| wrote.contains(&index)).unwrap();
        };
        to.float(before.0).unwrap();
        bits(&mut to, before.1);
        to.number(replicas.len() as u64).unwrap();
        for (weight, wrote) in replicas {
            to.float(*weight).unwrap();
            bits(&mut to, wrote);
        }
        to.done()
    }

    /// All that an exchange asks of a participation.
    fn answers(given: &Participation, variables: usize) -> String {
        let of_rank = |rank: &RankParticipation| {
            let wrote: Vec<bool> = (0..variables).map(|index| rank.wrote(index)).collect();
            let writers: Vec<Vec<f64>> = (0..variables)
                .map(|index| rank.writers(index).map(|replica| replica.weight).collect())
                .collect();
            format!("{wrote:?} {writers:?}")
        };
        let ranks: Vec<String> = given.ranks().iter().map(|rank| of_rank(rank)).collect();
        let distinct: Vec<String> = given.distinct().map(of_rank).collect();
        let has: Vec<bool> = (0..variables)
            .map(|index| given.has_variable(index))
            .collect();
        format!("{ranks:?} {distinct:?} {has:?} {:?}", given.total_weight())
    }

    #[test]
    fn ranks_that_sent_the_same_are_read_as_alike() {
        let variables = 70;
        let nothing: &[usize] = &[];
        let cases: [(Wrote<'_>, &[Wrote<'_>]); 5] = [
            ((0.0, &[]), &[]),
            ((0.0, &[]), &[(3.0, &[0, 69]), (2.5, &[64])]),
            ((0.1, &[5]), &[(0.3, &[0, 1, 2]), (0.0, &[3])]),
            ((0.7, &[63, 64]), &[(0.0, &[1])]),
            ((0.0, &[]), &[(0.1, nothing); 3]),
        ];
        for (before, replicas) in cases {
            let bytes = encoded(before, replicas, variables);
            for ranks in [1, 2, 3, 100] {
                let alike = Participation::alike(&bytes, ranks).unwrap();
                let read = Participation::read(iter::repeat_n(&bytes[..], ranks)).unwrap();
                let all = [&alike, &read].map(|given| answers(given, variables));
                assert_eq!(all[0], all[1], "{ranks} ranks of {before:?} {replicas:?}");
                assert_eq!((alike.ranks().len(), alike.distinct().count()), (ranks, 1));
            }
        }
    }

    /// A rank that differs from its neighbours only by its weights is none of the distinct ones.
    #[test]
    fn distinct_ranks_are_those_that_wrote_other_variables() {
        let one = encoded((0.0, &[]), &[(1.0, &[0])], 3);
        let heavy = encoded((0.0, &[]), &[(2.0, &[0])], 3);
        let other = encoded((0.0, &[]), &[(1.0, &[2])], 3);
        let none = encoded((0.0, &[]), &[(0.0, &[2])], 3);
        let all = [&one, &heavy, &other, &other, &none, &one];
        let read = Participation::read(all.into_iter().map(|bytes| &bytes[..])).unwrap();
        assert_eq!(*read.differing, [0, 2, 4, 5]);
        assert_eq!(read.total_weight(), 6.0);
        let wrote: Vec<bool> = (0..3).map(|index| read.has_variable(index)).collect();
        assert_eq!(wrote, [true, false, true]);
    }
}

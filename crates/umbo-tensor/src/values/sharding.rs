//! How several ranks divide the elements of a variable. Each rank updates one part.

use std::iter;
use std::ops::Range;
use std::sync::Arc;

use umbo_kernels::update::chunks::TILE;

/// Bits of a word.
const BITS: usize = u64::BITS as usize;

/// A part of a variable for each rank, one after the other, and the index of this process's part.
/// Inner boundaries are at multiples of [`TILE`] elements, so that norms can be computed from those
/// of the parts. A list of boundaries for each of thousands of small variables would be larger than
/// the variables, so ranks have a bit each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSharding {
    elements: usize,
    ranks: usize,
    /// The number of tiles that each rank has at least.
    tiles: usize,
    /// A bit for each rank: whether it has one more.
    one_more: Arc<[u64]>,
    rank: usize,
}

impl VariableSharding {
    /// The position at which the part of rank `rank` begins, after those of the ranks before it,
    /// of which `more` have one tile more than the others.
    fn start(&self, rank: usize, more: usize) -> usize {
        ((rank * self.tiles + more) * TILE).min(self.elements)
    }

    /// Whether rank `rank` has one tile more than others.
    fn has_one_more(&self, rank: usize) -> bool {
        self.one_more[rank / BITS] >> (rank % BITS) & 1 == 1
    }

    /// The part of rank `rank`.
    pub fn of(&self, rank: usize) -> Range<usize> {
        let (words, rest) = self.one_more.split_at(rank / BITS);
        let before = rest[0] & ((1 << (rank % BITS)) - 1);
        let more = words.iter().chain([&before]);
        let more = more.map(|word| word.count_ones() as usize).sum();
        let end = self.start(rank + 1, more + usize::from(self.has_one_more(rank)));
        self.start(rank, more)..end
    }

    /// The part of this process.
    pub fn own(&self) -> Range<usize> {
        self.of(self.rank)
    }

    /// The parts of all ranks, in their order.
    pub fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        let mut more = 0;
        (0..self.ranks).map(move |rank| {
            let start = self.start(rank, more);
            more += usize::from(self.has_one_more(rank));
            start..self.start(rank + 1, more)
        })
    }

    /// The ranks whose parts are not empty, in their order, and their parts. The time that this
    /// takes depends on the number of these parts rather than on that of all ranks.
    pub fn parts_with_elements(&self) -> impl Iterator<Item = (usize, Range<usize>)> {
        let mut more = 0;
        let words = self.one_more.iter().enumerate();
        words.flat_map(move |(at, &word)| {
            let first = at * BITS;
            let all = (self.ranks - first).min(BITS);
            let before = more;
            more += word.count_ones() as usize;
            // Of ranks that have no tile but one more, there are few.
            let mut left = match self.tiles {
                0 => word,
                _ => u64::MAX >> (BITS - all),
            };
            iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                let rank = first + bit as usize;
                let more = before + (word & ((1 << bit) - 1)).count_ones() as usize;
                let end = self.start(rank + 1, more + (word >> bit & 1) as usize);
                Some((rank, self.start(rank, more)..end))
            })
        })
    }

    /// The positions at which the parts begin, and the end of the last one.
    pub fn boundaries(&self) -> Vec<usize> {
        let ends = self.parts().map(|part| part.end);
        iter::once(0).chain(ends).collect()
    }
}

/// For each rank, how many bytes it has of all divided variables.
#[derive(Debug)]
pub struct Loads(Vec<u64>);

impl Loads {
    /// The loads of `ranks` ranks before any variable is divided.
    pub fn new(ranks: usize) -> Loads {
        Loads(vec![0; ranks])
    }

    /// Divides a variable of `elements` elements of `size` bytes each, for rank `rank`. All ranks
    /// get the same number of tiles. The remaining tiles go to the ranks that have the least so
    /// far, so that small variables are also spread over all ranks. All ranks that divide the
    /// same variables in the same order get the same result.
    pub fn divide(&mut self, rank: usize, elements: usize, size: usize) -> VariableSharding {
        let ranks = self.0.len();
        let tiles = elements.div_ceil(TILE);
        let mut one_more = vec![0; ranks.div_ceil(BITS)];
        let rest = tiles % ranks;
        if rest > 0 {
            let mut by_load: Vec<usize> = (0..ranks).collect();
            by_load.select_nth_unstable_by_key(rest, |&rank| (self.0[rank], rank));
            by_load[..rest]
                .iter()
                .for_each(|&rank| one_more[rank / BITS] |= 1 << (rank % BITS));
        }
        let sharding = VariableSharding {
            elements,
            ranks,
            tiles: tiles / ranks,
            one_more: one_more.into(),
            rank,
        };
        for (rank, part) in sharding.parts_with_elements() {
            self.0[rank] += (part.len() * size) as u64;
        }
        sharding
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_elements_and_loads_differ_by_a_tile() {
        for ranks in [1, 2, 3, 4, 5, 6, 7, 8, 63, 64, 65, 130] {
            let mut loads = vec![Loads::new(ranks), Loads::new(ranks)];
            for step in 0..300 {
                let elements = [0, 1, 7, 1024, 1025, 5000, 33, 100_000, 1 << 20][step * 5 % 9];
                let divided: Vec<VariableSharding> = loads
                    .iter_mut()
                    .enumerate()
                    .map(|(rank, loads)| loads.divide(rank % ranks, elements, 4))
                    .collect();
                assert_eq!(divided[0].boundaries(), divided[1].boundaries());
                let mut end = 0;
                for part in divided[0].parts() {
                    assert_eq!(part.start, end);
                    assert!(part.is_empty() || part.start.is_multiple_of(TILE));
                    end = part.end;
                }
                assert_eq!(end, elements);
                assert!(
                    (0..ranks)
                        .map(|rank| divided[0].of(rank))
                        .eq(divided[0].parts())
                );
                let parts = divided[0].parts().enumerate();
                let with_elements = parts.filter(|(_, part)| !part.is_empty());
                assert!(with_elements.eq(divided[0].parts_with_elements()));
                assert_eq!(divided[0].own(), divided[0].of(0));
                assert_eq!(divided[1].own(), divided[1].of(1 % ranks));
                let least = loads[0].0.iter().min();
                let most = loads[0].0.iter().max();
                // The last tile of a variable may be shorter.
                assert!(
                    most.unwrap() - least.unwrap() <= 2 * 4 * TILE as u64,
                    "{loads:?}"
                );
            }
        }
    }

    /// All numbers of up to twelve tiles over up to six ranks, from all loads of a tile more or
    /// less, and the largest variables.
    #[test]
    fn parts_have_every_element_once_at_all_small_widths() {
        let largest = isize::MAX as usize;
        let small = (0..12).flat_map(|tiles| [0, 1, TILE - 1].map(|rest| tiles * TILE + rest));
        let all: Vec<usize> = small
            .chain([largest - TILE, largest - 1, largest])
            .collect();
        for (ranks, loaded) in (1..7).flat_map(|ranks| (0..1 << ranks).map(move |at| (ranks, at))) {
            for &elements in &all {
                let load = |rank| u64::from(loaded >> rank & 1 == 1) * TILE as u64;
                let mut loads = Loads((0..ranks).map(load).collect());
                let before = loads.0.clone();
                let divided = loads.divide(0, elements, 1);
                let mut end = 0;
                for (rank, part) in divided.parts().enumerate() {
                    assert_eq!(part, divided.of(rank));
                    assert_eq!(part.start, end);
                    assert!(part.is_empty() || part.start.is_multiple_of(TILE));
                    assert_eq!(loads.0[rank] - before[rank], part.len() as u64);
                    end = part.end;
                }
                assert_eq!(end, elements);
                let parts = divided.parts().enumerate();
                let with_elements = parts.filter(|(_, part)| !part.is_empty());
                assert!(with_elements.eq(divided.parts_with_elements()));
                let parts = divided.parts();
                let tiles: Vec<usize> = parts.map(|part| part.len().div_ceil(TILE)).collect();
                let (least, most) = (tiles.iter().min(), tiles.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1, "{divided:?}");
            }
        }
    }
}

//! How several ranks divide the elements of a variable. Each rank updates one part.

use std::ops::Range;
use std::sync::Arc;

use umbo_kernels::update::chunks::TILE;

/// A part of a variable for each rank, one after the other, and the index of this process's part.
/// Inner boundaries are at multiples of [`TILE`] elements, so that norms can be computed from those
/// of the parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VariableSharding {
    boundaries: Arc<[usize]>,
    rank: usize,
}

impl VariableSharding {
    /// The part of rank `rank`.
    pub fn of(&self, rank: usize) -> Range<usize> {
        self.boundaries[rank]..self.boundaries[rank + 1]
    }

    /// The part of this process.
    pub fn own(&self) -> Range<usize> {
        self.of(self.rank)
    }

    /// The parts of all ranks, in their order.
    pub fn parts(&self) -> impl Iterator<Item = Range<usize>> {
        self.boundaries.windows(2).map(|pair| pair[0]..pair[1])
    }

    /// The positions at which the parts begin, and the end of the last one.
    pub fn boundaries(&self) -> &[usize] {
        &self.boundaries
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
        let mut by_load: Vec<usize> = (0..ranks).collect();
        by_load.sort_by_key(|&rank| (self.0[rank], rank));
        let mut counts = vec![tiles / ranks; ranks];
        by_load[..tiles % ranks]
            .iter()
            .for_each(|&rank| counts[rank] += 1);
        let mut boundaries = Vec::with_capacity(ranks + 1);
        boundaries.push(0);
        let mut end = 0;
        for (count, load) in counts.iter().zip(&mut self.0) {
            let start = end;
            end = (start + count * TILE).min(elements);
            *load += ((end - start) * size) as u64;
            boundaries.push(end);
        }
        VariableSharding {
            boundaries: boundaries.into(),
            rank,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_all_elements_and_loads_differ_by_a_tile() {
        for ranks in 1..9 {
            let mut loads = vec![Loads::new(ranks), Loads::new(ranks)];
            for step in 0..300 {
                let elements = [0, 1, 7, 1024, 1025, 5000, 33, 100_000, 1 << 20][step * 5 % 9];
                let divided: Vec<VariableSharding> = loads
                    .iter_mut()
                    .enumerate()
                    .map(|(rank, loads)| loads.divide(rank % ranks, elements, 4))
                    .collect();
                assert_eq!(divided[0].boundaries, divided[1].boundaries);
                let mut end = 0;
                for part in divided[0].parts() {
                    assert_eq!(part.start, end);
                    assert!(part.is_empty() || part.start.is_multiple_of(TILE));
                    end = part.end;
                }
                assert_eq!(end, elements);
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
                let parts = divided.parts();
                let tiles: Vec<usize> = parts.map(|part| part.len().div_ceil(TILE)).collect();
                let (least, most) = (tiles.iter().min(), tiles.iter().max());
                assert!(most.unwrap() - least.unwrap() <= 1, "{divided:?}");
            }
        }
    }
}

//! Work on many arrays in one entry of the worker set. The work is divided by bytes, across the
//! borders of arrays.
//!
//! Entering the set costs about a microsecond. Entering it for each of thousands of small arrays
//! would cost as much each time. So all arrays are treated as one sequence, and workers get ranges
//! of it: many small arrays, or a part of a large one.

use std::ops::Range;

use crate::workers;

/// The arrays, and how they are divided.
#[derive(Debug, Default)]
pub struct Pieces {
    pieces: Vec<Piece>,
}

#[derive(Debug)]
struct Piece {
    /// The number of its first element.
    first: usize,
    elements: usize,
    /// Inner boundaries are at multiples of this many elements.
    block: usize,
    /// The memory traffic of this piece and of all before it.
    end: usize,
}

/// A range that one worker works on.
pub struct WorkerRange<'a> {
    pieces: &'a [Piece],
    worker: usize,
    bytes: Range<usize>,
}

/// Elements of one piece that belong to only one worker.
#[derive(Clone, Debug)]
pub struct PiecePart(Range<usize>);

impl PiecePart {
    /// The elements.
    pub fn range(&self) -> Range<usize> {
        self.0.clone()
    }
}

impl Pieces {
    /// Removes all pieces and keeps the memory.
    pub fn clear(&mut self) {
        self.pieces.clear();
    }

    /// Adds an array of `elements`, each of which costs `bytes` of memory traffic (at least one
    /// byte is counted). Workers share it at multiples of `block` elements.
    pub fn push(&mut self, elements: usize, block: usize, bytes: usize) {
        self.push_part(0..elements, block, bytes);
    }

    /// The same for a part of an array, which begins at a multiple of `block`.
    pub fn push_part(&mut self, part: Range<usize>, block: usize, bytes: usize) {
        let elements = part.len();
        let end = self
            .bytes()
            .saturating_add(elements.saturating_mul(bytes.max(1)));
        self.pieces.push(Piece {
            first: part.start,
            elements,
            block: block.max(1),
            end,
        });
    }

    /// The number of pieces.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// The memory traffic of all pieces together.
    pub fn bytes(&self) -> usize {
        self.pieces.last().map_or(0, |piece| piece.end)
    }

    /// Calls `body` with ranges, on as many workers at the same time as the work is worth, at most
    /// `most`. Together, the parts of the ranges are all elements, each in one part. The result
    /// must not depend on which thread works on which range.
    ///
    /// Allocates nothing; panics as [`workers::for_each_range`] does. (`&mut` prevents two threads
    /// from dividing the same pieces at the same time.)
    pub fn for_each_range(&mut self, most: usize, body: &(dyn Fn(WorkerRange<'_>) + Sync)) {
        let pieces = &*self.pieces;
        workers::for_each_byte_range(most, self.bytes(), &|worker, bytes| {
            body(WorkerRange {
                pieces,
                worker,
                bytes,
            });
        });
    }
}

impl<'a> WorkerRange<'a> {
    /// The number of the worker, from 0 on. A worker works on one range after the other.
    pub fn worker(&self) -> usize {
        self.worker
    }

    /// The parts of pieces that make up the range: for each, the number of the piece, and the
    /// elements. Pieces without elements have no part.
    pub fn parts(self) -> impl Iterator<Item = (usize, PiecePart)> + use<'a> {
        let WorkerRange { pieces, bytes, .. } = self;
        let first = pieces.partition_point(|piece| piece.end <= bytes.start);
        let mut start = first.checked_sub(1).map_or(0, |before| pieces[before].end);
        let of_range = pieces
            .iter()
            .enumerate()
            .skip(first)
            .map_while(move |(index, piece)| {
                let whole = start..piece.end;
                start = piece.end;
                (whole.start < bytes.end).then(|| (index, piece.part(&whole, &bytes)))
            });
        of_range.filter(|(_, part)| !part.0.is_empty())
    }
}

impl Piece {
    /// The elements of this piece that belong to a range. The piece has the bytes `whole`.
    fn part(&self, whole: &Range<usize>, range: &Range<usize>) -> PiecePart {
        let boundary = |byte: usize| {
            if byte >= whole.end || self.elements == 0 {
                return self.elements;
            }
            if byte <= whole.start {
                return 0;
            }
            let bytes = byte.saturating_sub(whole.start) as u128;
            let element = (bytes * self.elements as u128 / whole.len() as u128) as usize;
            element - element % self.block
        };
        PiecePart(self.first + boundary(range.start)..self.first + boundary(range.end))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parking_lot::Mutex;

    #[test]
    fn shares_have_every_element_once() {
        let lists: [&[usize]; 6] = [
            &[],
            &[0],
            &[1],
            &[1 << 20],
            &[5, 0, 1 << 18, 64, 64, 63, 0, 0, 100_000, 1],
            &[64; 3000],
        ];
        for (elements, block) in lists
            .iter()
            .flat_map(|list| [(list, 1), (list, 64), (list, 4096)])
        {
            for (most, every_third) in [(1, 12), (2, 12), (3, 12), (7, 12), (1, 0), (3, 0)] {
                let mut pieces = Pieces::default();
                for (index, &elements) in elements.iter().enumerate() {
                    pieces.push(
                        elements,
                        block,
                        if index % 3 == 1 { every_third } else { 12 },
                    );
                }
                let seen = Mutex::new(Vec::new());
                pieces.for_each_range(most, &|range| {
                    assert!(range.worker() < most);
                    for (index, part) in range.parts() {
                        seen.lock()
                            .push((index, part.range().start, part.range().end));
                    }
                });
                let mut seen = seen.into_inner();
                seen.sort_unstable();
                let mut parts = seen.into_iter().peekable();
                for (index, &elements) in elements.iter().enumerate() {
                    let mut end = 0;
                    while let Some((_, start, stop)) = parts.next_if(|part| part.0 == index) {
                        assert!(start == end && start.is_multiple_of(block) && stop > start);
                        end = stop;
                    }
                    assert_eq!(end, elements);
                }
                assert!(parts.next().is_none());
            }
        }
    }

    /// Cuts the bytes of all pieces at two places, and looks for each element.
    fn check_cuts(list: &[(usize, usize, usize)], cuts: &[usize]) {
        let mut pieces = Pieces::default();
        for &(elements, block, bytes) in list {
            pieces.push_part(block..block + elements, block, bytes);
        }
        for &one in cuts {
            for &other in cuts.iter().filter(|&&other| other >= one) {
                let mut ends: Vec<usize> = list.iter().map(|piece| piece.1).collect();
                for bytes in [0..one, one..other, other..pieces.bytes()] {
                    let (pieces, worker) = (&*pieces.pieces, 0);
                    let range = WorkerRange {
                        pieces,
                        worker,
                        bytes,
                    };
                    for (index, part) in range.parts() {
                        let part = part.range();
                        assert_eq!(part.start, ends[index], "{list:?}, {one}, {other}");
                        assert!(part.start.is_multiple_of(list[index].1));
                        ends[index] = part.end;
                    }
                }
                for (&(elements, block, _), end) in list.iter().zip(ends) {
                    assert_eq!(end, block + elements, "{list:?}, {one}, {other}");
                }
            }
        }
    }

    #[test]
    fn cuts_have_every_element_once_at_all_small_widths() {
        let lists = |elements: usize, blocks: usize, bytes: Range<usize>| {
            let sizes =
                (0..=elements).flat_map(move |it| (1..=blocks).map(move |block| (it, block)));
            let pieces = sizes.flat_map(|(it, block)| bytes.clone().map(move |b| (it, block, b)));
            pieces.collect::<Vec<_>>()
        };
        let all = |list: &[(usize, usize, usize)]| {
            let bytes: usize = list.iter().map(|piece| piece.0 * piece.2.max(1)).sum();
            check_cuts(list, &(0..=bytes).collect::<Vec<_>>());
        };
        for one in lists(4, 3, 0..3) {
            all(&[one]);
            lists(4, 3, 0..3)
                .into_iter()
                .for_each(|other| all(&[one, other]));
        }
        for one in lists(2, 2, 1..3) {
            for other in lists(2, 2, 1..3) {
                lists(2, 2, 1..3)
                    .into_iter()
                    .for_each(|last| all(&[one, other, last]));
            }
        }
    }

    /// More bytes than a number can count, as of one array with long updates.
    #[test]
    fn cuts_of_the_largest_array_have_every_element_once() {
        const MOST: usize = isize::MAX as usize;
        for elements in [MOST / 2, MOST - 1000] {
            for bytes in [1, 2, 3, 40, usize::MAX] {
                let cuts = [0, 1, 64, MOST, MOST + 1, usize::MAX - 1, usize::MAX];
                let whole = elements.saturating_mul(bytes);
                let cuts: Vec<usize> = cuts.into_iter().filter(|&cut| cut <= whole).collect();
                check_cuts(&[(elements, 1, bytes)], &cuts);
                check_cuts(&[(elements, 64, bytes)], &cuts);
            }
        }
    }
}

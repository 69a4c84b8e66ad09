//! How the cards of a process are divided into logical GPUs.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::device::cuda::gpu::Place;

/// The most logical GPUs that a card can be split into.
pub(super) const MAX_PER_CARD: u32 = 64;

/// The logical GPUs of each card that was split: how many bytes each may have. A card that is not here
/// is one logical GPU with all of its memory.
#[derive(Debug)]
pub(super) struct LogicalGpus {
    limits: BTreeMap<u32, Box<[Option<u64>]>>,
    /// The streams that the program gave, by the numbers of logical GPUs.
    streams: BTreeMap<u32, usize>,
    /// And the memory pools.
    pools: BTreeMap<u32, usize>,
}

impl LogicalGpus {
    /// Each card is one.
    pub(super) const fn new() -> LogicalGpus {
        LogicalGpus { limits: BTreeMap::new(), streams: BTreeMap::new(), pools: BTreeMap::new() }
    }

    /// Splits a card anew. What was said of GPUs that get other numbers counts no more.
    pub(super) fn split(&mut self, card: u32, limits: Box<[Option<u64>]>) {
        self.streams.split_off(&self.on_card(card).start);
        self.pools.split_off(&self.on_card(card).start);
        self.limits.insert(card, limits);
    }

    /// Has a logical GPU work on a stream of the program's, or again on one of its own.
    pub(super) fn set_stream(&mut self, index: u32, stream: Option<usize>) {
        match stream {
            Some(stream) => self.streams.insert(index, stream),
            None => self.streams.remove(&index),
        };
    }

    /// Has a logical GPU's memory come from a pool of the program's, or again from the card's.
    pub(super) fn set_pool(&mut self, index: u32, pool: Option<usize>) {
        match pool {
            Some(pool) => self.pools.insert(index, pool),
            None => self.pools.remove(&index),
        };
    }

    fn of_card(&self, card: u32) -> u32 {
        self.limits.get(&card).map_or(1, |limits| limits.len() as u32)
    }

    /// How many there are on `cards` cards.
    pub(super) fn count(&self, cards: u32) -> u32 {
        (0..cards).map(|card| self.of_card(card)).sum()
    }

    /// The numbers of those on a card.
    pub(super) fn on_card(&self, card: u32) -> Range<u32> {
        let first = self.count(card);
        first..first + self.of_card(card)
    }

    /// Where the one with this number is to be found, of those on `cards` cards.
    pub(super) fn place(&self, index: u32, cards: u32) -> Option<Place> {
        let card = (0..cards).find(|&card| self.on_card(card).contains(&index))?;
        let part = (index - self.on_card(card).start) as usize;
        let limit = self.limits.get(&card).and_then(|limits| limits[part]);
        let of = |given: &BTreeMap<u32, usize>| given.get(&index).copied();
        Some(Place { index, card, limit, stream: of(&self.streams), pool: of(&self.pools) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_run_over_the_cards() {
        let mut gpus = LogicalGpus::new();
        assert_eq!((gpus.count(0), gpus.count(3)), (0, 3));
        gpus.split(1, [Some(10), None, Some(30)].into());
        assert_eq!((gpus.count(3), gpus.on_card(1), gpus.on_card(2)), (5, 1..4, 4..5));
        let at = |index, card, limit| Some(Place { index, card, limit, stream: None, pool: None });
        assert_eq!(gpus.place(0, 3), at(0, 0, None));
        assert_eq!(gpus.place(1, 3), at(1, 1, Some(10)));
        assert_eq!(gpus.place(3, 3), at(3, 1, Some(30)));
        assert_eq!(gpus.place(4, 3), at(4, 2, None));
        assert_eq!(gpus.place(5, 3), None);
        gpus.set_stream(0, Some(70));
        gpus.set_stream(4, Some(71));
        gpus.set_pool(4, Some(72));
        let last = gpus.place(4, 3).unwrap();
        assert_eq!((last.stream, last.pool), (Some(71), Some(72)));
        gpus.split(1, [None].into());
        let streams = [0, 1, 2].map(|index| gpus.place(index, 3).unwrap().stream);
        assert_eq!(streams, [Some(70), None, None]);
    }
}

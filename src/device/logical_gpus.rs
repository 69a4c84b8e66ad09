//! How the cards of a process are divided into logical GPUs.

use std::collections::BTreeMap;
use std::ops::Range;

use crate::device::cuda::gpu::GpuAddress;

/// The most logical GPUs that a card can be split into.
pub(super) const MAX_PER_CARD: u32 = 64;

/// A logical GPU: its card, and which part of that it is. Unlike its number it stays when another card is
/// split.
type CardPart = (u32, u32);

/// The logical GPUs of each card that was split: how many bytes each may have. A card that is not here
/// is one logical GPU with all of its memory.
#[derive(Debug)]
pub(super) struct LogicalGpus {
    limits: BTreeMap<u32, Box<[Option<u64>]>>,
    given: BTreeMap<CardPart, GivenResources>,
}

/// What the program has given for a logical GPU: addresses of a stream to work on, and of a memory pool.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GivenResources {
    pub(super) stream: Option<usize>,
    pub(super) pool: Option<usize>,
}

impl LogicalGpus {
    /// Each card is one.
    pub(super) const fn new() -> LogicalGpus {
        LogicalGpus { limits: BTreeMap::new(), given: BTreeMap::new() }
    }

    /// Splits a card anew. Streams and pools that were given stay with their parts of cards, whose numbers
    /// may be others now; those of parts that go away are forgotten.
    pub(super) fn split(&mut self, card: u32, limits: Box<[Option<u64>]>) {
        self.given.retain(|&(on, part), _| on != card || (part as usize) < limits.len());
        self.limits.insert(card, limits);
    }

    /// What was given for the logical GPU with this number.
    pub(super) fn given(&mut self, index: u32) -> &mut GivenResources {
        self.given.entry(self.part(index)).or_default()
    }

    /// The one with this number, however many cards there are.
    fn part(&self, index: u32) -> CardPart {
        let (mut card, mut part) = (0, index);
        while part >= self.of_card(card) {
            (card, part) = (card + 1, part - self.of_card(card));
        }
        (card, part)
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
    pub(super) fn place(&self, index: u32, cards: u32) -> Option<GpuAddress> {
        let (card, part) = self.part(index);
        if card >= cards {
            return None;
        }
        let limit = self.limits.get(&card).and_then(|limits| limits[part as usize]);
        let GivenResources { stream, pool } =
            self.given.get(&(card, part)).copied().unwrap_or_default();
        Some(GpuAddress { index, card, limit, stream, pool })
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
        let at =
            |index, card, limit| Some(GpuAddress { index, card, limit, stream: None, pool: None });
        assert_eq!(gpus.place(0, 3), at(0, 0, None));
        assert_eq!(gpus.place(1, 3), at(1, 1, Some(10)));
        assert_eq!(gpus.place(3, 3), at(3, 1, Some(30)));
        assert_eq!(gpus.place(4, 3), at(4, 2, None));
        assert_eq!(gpus.place(5, 3), None);
    }

    /// Every split of every card, before and after which each part of a card has what was given for it.
    #[test]
    fn what_was_given_stays_with_its_part_of_a_card() {
        const CARDS: u32 = 3;
        for before in 0..27u32 {
            let count_of = |card: u32| before / 3u32.pow(card) % 3 + 1;
            let mut gpus = LogicalGpus::new();
            for card in 0..CARDS {
                gpus.split(card, vec![None; count_of(card) as usize].into());
            }
            for index in 0..gpus.count(CARDS) {
                let address = 100 + index as usize;
                gpus.given(index).stream = Some(address);
                gpus.given(index).pool = (index % 2 == 0).then_some(2 * address);
            }
            let given = |gpus: &LogicalGpus, card: u32, part: u32| {
                let place = gpus.place(gpus.on_card(card).start + part, CARDS).unwrap();
                assert_eq!(place.card, card);
                (place.stream, place.pool)
            };
            for (split, count) in
                (0..CARDS).flat_map(|card| (1..=3).map(move |count| (card, count)))
            {
                let mut after =
                    LogicalGpus { limits: gpus.limits.clone(), given: gpus.given.clone() };
                after.split(split, vec![Some(1); count as usize].into());
                for card in 0..CARDS {
                    for part in after.on_card(card).zip(0..).map(|(_, part)| part) {
                        let expected = match part < count_of(card) {
                            true => given(&gpus, card, part),
                            false => (None, None),
                        };
                        assert_eq!(given(&after, card, part), expected, "{card}.{part}");
                    }
                }
                assert_eq!(after.place(after.count(CARDS), CARDS), None);
            }
        }
    }
}

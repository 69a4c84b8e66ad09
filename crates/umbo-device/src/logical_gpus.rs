//! How the cards of a process are split into logical GPUs.

use std::collections::BTreeMap;
use std::ops::Range;

/// The place where a logical GPU is: what the registry of devices stores about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuAddress {
    /// Its index among the logical GPUs.
    pub index: u32,
    /// The card's number.
    pub card: u32,
    /// The number of bytes it may use; `None` if it may use all that the card has.
    pub limit: Option<u64>,
    /// The address of the external stream that it works on, if it has no stream of its own.
    pub stream: Option<usize>,
    /// The address of the external memory pool from which its memory comes, in place of the card's
    /// pool.
    pub pool: Option<usize>,
}

/// The most logical GPUs that a card can be split into.
pub(super) const MAX_PER_CARD: u32 = 64;

/// A logical GPU as a card and the number of its part. Unlike the number of the logical GPU, this
/// does not change when another card is split.
type CardPart = (u32, u32);

/// For each card that was split, the limits in bytes of its logical GPUs. A card that is not here
/// is one logical GPU with all of its memory.
#[derive(Debug)]
pub(super) struct LogicalGpus {
    limits: BTreeMap<u32, Box<[Option<u64>]>>,
    given: BTreeMap<CardPart, GivenResources>,
}

/// External resources of a logical GPU: the addresses of a stream and of a memory pool of the
/// program.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct GivenResources {
    pub(super) stream: Option<usize>,
    pub(super) pool: Option<usize>,
}

impl LogicalGpus {
    /// The state in which each card is one logical GPU.
    pub(super) const fn new() -> LogicalGpus {
        LogicalGpus {
            limits: BTreeMap::new(),
            given: BTreeMap::new(),
        }
    }

    /// Splits a card anew. External streams and pools stay with their parts of cards, even if the
    /// parts get other numbers. Those of parts that no longer exist are dropped.
    pub(super) fn split(&mut self, card: u32, limits: Box<[Option<u64>]>) {
        self.given
            .retain(|&(on, part), _| on != card || (part as usize) < limits.len());
        self.limits.insert(card, limits);
    }

    /// The external resources of the logical GPU with this number.
    pub(super) fn given(&mut self, index: u32) -> &mut GivenResources {
        self.given.entry(self.part(index)).or_default()
    }

    /// The logical GPU with this number as a part of a card, for any number of cards.
    fn part(&self, index: u32) -> CardPart {
        let mut card = 0;
        let mut part = index;
        while part >= self.of_card(card) {
            (card, part) = (card + 1, part - self.of_card(card));
        }
        (card, part)
    }

    fn of_card(&self, card: u32) -> u32 {
        self.limits
            .get(&card)
            .map_or(1, |limits| limits.len() as u32)
    }

    /// The number of logical GPUs `cards` cards have.
    pub(super) fn count(&self, cards: u32) -> u32 {
        (0..cards).map(|card| self.of_card(card)).sum()
    }

    /// The numbers of a card's logical GPUs.
    pub(super) fn on_card(&self, card: u32) -> Range<u32> {
        let first = self.count(card);
        first..first + self.of_card(card)
    }

    /// The place of the logical GPU with this number, if `cards` cards have it.
    pub(super) fn place(&self, index: u32, cards: u32) -> Option<GpuAddress> {
        let (card, part) = self.part(index);
        if card >= cards {
            return None;
        }
        let limit = self
            .limits
            .get(&card)
            .and_then(|limits| limits[part as usize]);
        let GivenResources { stream, pool } =
            self.given.get(&(card, part)).copied().unwrap_or_default();
        Some(GpuAddress {
            index,
            card,
            limit,
            stream,
            pool,
        })
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
        assert_eq!(
            (gpus.count(3), gpus.on_card(1), gpus.on_card(2)),
            (5, 1..4, 4..5)
        );
        let at = |index, card, limit| {
            Some(GpuAddress {
                index,
                card,
                limit,
                stream: None,
                pool: None,
            })
        };
        assert_eq!(gpus.place(0, 3), at(0, 0, None));
        assert_eq!(gpus.place(1, 3), at(1, 1, Some(10)));
        assert_eq!(gpus.place(3, 3), at(3, 1, Some(30)));
        assert_eq!(gpus.place(4, 3), at(4, 2, None));
        assert_eq!(gpus.place(5, 3), None);
    }

    /// Tests every split of every card: before and after it, each part of a card has its own
    /// external resources.
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
                let mut after = LogicalGpus {
                    limits: gpus.limits.clone(),
                    given: gpus.given.clone(),
                };
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

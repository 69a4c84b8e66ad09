//! State that ranks have in memory: all ranks get that of the one that is furthest.
//!
//! Elastic ranks meet anew when one has died, leaves or joins. Each brings the state after the last
//! step that has counted on it, or none if it joins. A rank that was cut off within a commit point
//! may be a step behind. The state of the first rank among those with the most steps is sent to
//! all, unless all have it.

use crate::bundle::Checkpoint;
use crate::reader::CheckpointFile;
use umbo_base::error::{Error, Result};
use umbo_strategy::ranks::{Call, CollectiveKind, Ranks, zeros};

/// How many bytes are sent at once.
const PIECE: usize = 16 << 20;

/// A rank's state, as it offers it to the others.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Offer {
    /// The number of steps, plus 1; 0 if the rank has no state.
    steps: u64,
    bytes: u64,
    checksum: u64,
}

/// An offer as ranks exchange it.
const OFFER: usize = 3 * size_of::<u64>();

impl Offer {
    fn of(bytes: &[u8]) -> Result<Offer> {
        if bytes.is_empty() {
            return Ok(Offer::default());
        }
        let file = CheckpointFile::in_memory(bytes)?;
        Ok(Offer {
            steps: file.own()?.steps.0.saturating_add(1),
            bytes: bytes.len() as u64,
            checksum: file.checksum().map_or(0, |checksum| checksum.0.into()),
        })
    }

    fn encode(self) -> [u8; OFFER] {
        let mut encoded = [0; OFFER];
        let words = [self.steps, self.bytes, self.checksum];
        for (place, word) in encoded.chunks_exact_mut(size_of::<u64>()).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        encoded
    }

    fn decode(encoded: &[u8]) -> Offer {
        let (words, _) = encoded.as_chunks();
        let word = |at: usize| words.get(at).map_or(0, |&word| u64::from_le_bytes(word));
        Offer {
            steps: word(0),
            bytes: word(1),
            checksum: word(2),
        }
    }
}

impl Checkpoint {
    /// Restores the state of the rank that is furthest from what the ranks have in memory, as
    /// [`Checkpoint::restore`]. Each gives what its [`Checkpoint::save_to_memory`] has written, or
    /// nothing.
    ///
    /// NOT_FOUND: no rank gives anything.
    pub fn restore_from_ranks(&self, bytes: &[u8]) -> Result<()> {
        let ranks = self.strategy().ranks();
        let is_between_steps = self.strategy().try_lock_between_steps().map(drop);
        let offer = is_between_steps.and_then(|()| Offer::of(bytes));
        let received = match ranks.is_alone() {
            true => (offer?.steps > 0).then_some(None).ok_or_else(nobody),
            false => receive(ranks, bytes, offer),
        }?;
        self.restore_opened(CheckpointFile::in_memory(
            received.as_deref().unwrap_or(bytes),
        ))
    }
}

/// The state of the rank that is furthest; none if it is that of this rank, `bytes`.
fn receive(ranks: &Ranks, bytes: &[u8], offer: Result<Offer>) -> Result<Option<Vec<u8>>> {
    let purpose = "the restoring of what ranks have in memory";
    let call = Call {
        length: OFFER,
        ..Call::to(CollectiveKind::Value, &purpose)
    };
    let (mut collective, own_offer) = ranks.start_collective(call, offer)?;
    let gathered = collective.all_gather(&own_offer.encode())?;
    drop(collective);
    let offers: Vec<Offer> = gathered.iter().map(Offer::decode).collect();
    let most = offers.iter().map(|offer| offer.steps).max().unwrap_or(0);
    let root = offers.iter().position(|offer| offer.steps == most);
    let Some(root) = root.filter(|_| most > 0) else {
        return Err(nobody());
    };
    let furthest = offers[root];
    if offers.iter().all(|offer| *offer == furthest) {
        return Ok(None);
    }
    let lacks = own_offer != furthest;
    let length = usize::try_from(furthest.bytes).unwrap_or(usize::MAX);
    // The others receive a piece at a time, and leave it.
    let memory = zeros(if lacks { length } else { length.min(PIECE) });
    let call = Call::to(CollectiveKind::Value, &"the memory for what a rank has");
    let (mut collective, mut memory) = ranks.start_collective(call, memory)?;
    for start in (0..length).step_by(PIECE) {
        let end = length.min(start.saturating_add(PIECE));
        let piece = match lacks {
            true => &mut memory[start..end],
            false => &mut memory[..end - start],
        };
        if ranks.rank() == root {
            piece.copy_from_slice(&bytes[start..end]);
        }
        collective.broadcast(root, piece)?;
    }
    Ok(lacks.then_some(memory))
}

fn nobody() -> Error {
    Error::NotFound(
        "data: no rank has any state, as at the beginning of a training; give what was saved to \
         memory on a rank that has trained"
            .into(),
    )
}

//! How ranks learn of each other's failures. They use the communicator from which NCCL's was made:
//! its calls end on all ranks, whatever NCCL does.

use crate::communicator::Communicator;
use umbo_base::error::{Error, Result, Status};

/// The number of a rank that has not failed.
const WHOLE: i64 = i64::MAX;

/// The number of bytes that describe a failure: the code of its status, the length of the text, and
/// the text.
const FAILURE_BYTES: usize = 1024;

/// Returns `outcome` if no rank has failed. All ranks call it. If some ranks have failed, all get
/// an error: those with a failure of their own get that one, and the others get the first rank's
/// failure, with its rank.
///
/// Some failures, such as a wait that timed out, may be caused by another rank. Other failures come
/// before them. A rank that has only such a failure gets the first rank's failure, too.
pub fn agree<T>(base: &dyn Communicator, outcome: Result<T>) -> Result<T> {
    let rank = base.rank();
    let size = base.size();
    let class = outcome.as_ref().err().map(class);
    let number = class.map_or(WHOLE, |class| (class as usize * size + rank) as i64);
    let vote = match base.vote(number) {
        Ok(vote) => vote,
        // If this rank has failed itself, that failure came first.
        Err(error) => return Err(outcome.err().unwrap_or(error)),
    };
    if vote.least == WHOLE {
        return outcome;
    }
    let first = usize::try_from(vote.least).unwrap_or(0) % size;
    let common = exchange_error(base, first, outcome.as_ref().err());
    match outcome {
        Err(error) if first == rank || class == Some(Class::Own) => {
            Err(error.within(format!("rank {rank}")))
        }
        _ => Err(common?),
    }
}

/// The cause of a failure. All ranks get the failure of the first class that occurs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Own,
    /// The failure may be another rank's: this rank has waited and timed out.
    Waited,
    /// The failure is another rank's.
    OfOtherRank,
}

fn class(error: &Error) -> Class {
    match error.unnamed() {
        Error::DeadlineExceeded(_) => Class::Waited,
        Error::Rank { .. } => Class::OfOtherRank,
        _ => Class::Own,
    }
}

/// The failure of rank `first`, which sends it to all other ranks.
fn exchange_error(
    base: &dyn Communicator,
    first: usize,
    own_error: Option<&Error>,
) -> Result<Error> {
    let mut bytes = [0_u8; FAILURE_BYTES];
    if let Some(error) = own_error.filter(|_| first == base.rank()) {
        let text = error.to_string();
        let length = text.floor_char_boundary(FAILURE_BYTES - 8);
        bytes[..4].copy_from_slice(&error.status().code().to_le_bytes());
        bytes[4..8].copy_from_slice(&(length as u32).to_le_bytes());
        bytes[8..8 + length].copy_from_slice(&text.as_bytes()[..length]);
    }
    base.broadcast(&mut bytes, first)?;
    let number = |at: usize| [bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]];
    let status = Status::from_code(i32::from_le_bytes(number(0))).unwrap_or(Status::Unavailable);
    let length = (u32::from_le_bytes(number(4)) as usize).min(FAILURE_BYTES - 8);
    let text = String::from_utf8_lossy(&bytes[8..8 + length]);
    let message = format!("rank {first} failed: {}: {text}", status.name());
    Ok(Error::Rank {
        rank: Some(first),
        status,
        message,
    })
}

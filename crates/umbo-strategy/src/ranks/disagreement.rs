//! Messages about ranks that disagree: at which operation each rank is; if all are at the same
//! operation, the first quantity that differs.

use std::fmt;

use super::descriptor::{CollectiveKind, Descriptor, PASS_ENDED};
use super::group::Ranks;
use super::quantities::{Quantities, prefixes};
use super::series::Ended;
use umbo_base::error::{Result, Status};

/// Bytes of a quantity on the wire.
const BYTES: usize = 512;

/// Up to this many quantities are compared, so that the comparison takes little memory.
const MOST: u64 = 1 << 16;

/// The advice to ranks whose input differs.
const SAME_BATCHES: &str = "of a dataset that is distributed over the ranks all ranks must read \
     the same batches, of which each gets its part: the same data and operations, with the same \
     counts and seeds, and as many elements taken. Where each rank is to read data of its own, \
     distribute the dataset without sharding, or from a function. Where rows differ only because \
     functions draw random numbers on each rank, set compared_steps to 0";

/// Up to this many ranks are listed in a message.
const NAMED: usize = 8;

/// A quantity, and its value on each rank that has it.
pub(super) struct QuantityDifference {
    name: String,
    values: Vec<(usize, String)>,
}

/// Whether all ranks are at the same operation with equal quantities.
pub(super) fn all_agree(descriptors: &[Descriptor]) -> bool {
    let mut agreed = descriptors.iter().filter_map(Descriptor::agreed);
    let first = agreed.next();
    descriptors
        .iter()
        .all(|other| other.is_with(&descriptors[0]))
        && agreed.all(|other| Some(other) == first)
}

/// Whether all ranks are at the same operation, but with different quantities.
pub(super) fn differ_in_quantities(descriptors: &[Descriptor]) -> bool {
    let is_there =
        |other: &Descriptor| other.text == descriptors[0].text && other.is_with(&descriptors[0]);
    descriptors.iter().all(is_there) && !all_agree(descriptors)
}

/// A name and a value as ranks exchange them: cut to fit, with a zero byte in between.
fn packed(name: &str, value: &str) -> [u8; BYTES] {
    let name = cut(name, BYTES / 2 - 1);
    let value = cut(value, BYTES - name.len() - 1);
    let mut bytes = [0; BYTES];
    bytes[..name.len()].copy_from_slice(name.as_bytes());
    bytes[name.len() + 1..name.len() + 1 + value.len()].copy_from_slice(value.as_bytes());
    bytes
}

impl Ranks {
    /// The first quantity that differs between ranks; `quantities` are this rank's. A collective
    /// call.
    pub(super) fn first_difference(
        &self,
        quantities: &Quantities<'_>,
    ) -> Result<Option<QuantityDifference>> {
        let mut hashes = prefixes(quantities);
        let counts = self.words(&[hashes.len() as u64])?;
        // After its last quantity a rank agrees with all ranks that have the same number of
        // quantities.
        let end = !(hashes.len() as u64);
        let all = counts.iter().max().map_or(0, |&all| all.min(MOST) as usize);
        hashes.resize(all, end);
        if all == 0 {
            return Ok(None);
        }
        let hashes = self.words(&hashes)?;
        // A rank without quantities differs in none.
        let hashes_of_ranks = hashes
            .chunks(all)
            .zip(&counts)
            .filter(|(_, count)| **count > 0);
        let hashes_of_ranks: Vec<&[u64]> = hashes_of_ranks.map(|(hashes, _)| hashes).collect();
        let differs = |at: &usize| {
            hashes_of_ranks
                .iter()
                .any(|rank_hashes| rank_hashes[*at] != hashes_of_ranks[0][*at])
        };
        let Some(first) = (0..all).find(differs) else {
            return Ok(None);
        };
        let mut name = String::new();
        let mut value = "nothing".to_owned();
        let mut at = 0;
        quantities(&mut |its_name, quantity| {
            if at == first {
                (name, value) = (its_name.to_string(), quantity.to_string());
            }
            at += 1;
        });
        let gathered = self.gather_alike(&packed(&name, &value))?;
        let lines: Vec<(String, String)> = gathered
            .chunks(BYTES)
            .map(|bytes| {
                let text = String::from_utf8_lossy(bytes);
                let (name, value) = text.split_once('\0').unwrap_or((&text, ""));
                (name.to_owned(), value.trim_end_matches('\0').to_owned())
            })
            .collect();
        let name = lines
            .iter()
            .map(|(name, _)| name)
            .find(|name| !name.is_empty());
        let name = name.cloned().unwrap_or_default();
        let lines = lines
            .into_iter()
            .enumerate()
            .filter(|(rank, _)| counts[*rank] > 0);
        let values = lines.map(|(rank, (its_name, value))| match its_name == name {
            true => (rank, value),
            false if its_name.is_empty() => (rank, value),
            false => (rank, format!("{its_name} {value}")),
        });
        let values = values.collect();
        Ok(Some(QuantityDifference { name, values }))
    }

    /// Gathers the same number of words from each rank.
    fn words(&self, words: &[u64]) -> Result<Vec<u64>> {
        let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let gathered = self.gather_alike(&words)?;
        Ok(gathered
            .as_chunks()
            .0
            .iter()
            .map(|&word| u64::from_le_bytes(word))
            .collect())
    }
}

/// The error of ranks that disagree; it names the quantity of `difference`, if it is known.
pub(super) fn disagreement(
    descriptors: &[Descriptor],
    difference: Option<&QuantityDifference>,
) -> Ended {
    let (subject, odd) = match difference {
        Some(QuantityDifference { name, values }) => {
            let (groups, odd) = groups(values);
            let line =
                |(value, ranks): &(&String, Vec<usize>)| format!("{value} on {}", Named(ranks));
            let lines: Vec<String> = groups.iter().map(line).collect();
            let about = descriptors[0].about();
            (
                format!(
                    " at {about}: {}{name} is {}",
                    odd_one(odd.as_deref()),
                    lines.join(", ")
                ),
                odd,
            )
        }
        None => {
            let places: Vec<_> = descriptors
                .iter()
                .map(Descriptor::about)
                .enumerate()
                .collect();
            let (groups, odd) = groups(&places);
            let line = |(place, ranks): &Group<'_>| {
                let verb = if ranks.len() == 1 { "is" } else { "are" };
                format!("{} {verb} at {place}", Named(ranks))
            };
            let lines: Vec<String> = groups.iter().map(line).collect();
            let alike = descriptors
                .iter()
                .all(|other| other.text == descriptors[0].text);
            let hint = if alike {
                ", but with other shapes, names or options"
            } else {
                ""
            };
            (
                format!(": {}{}{hint}", odd_one(odd.as_deref()), lines.join("; ")),
                odd,
            )
        }
    };
    let advice = match (difference, descriptors[0].kind) {
        (Some(_), CollectiveKind::Run) => SAME_BATCHES,
        _ => {
            "all ranks must run the same program: the same calls in the same order, with the same \
             options"
        }
    };
    let rank = the_one(odd.as_deref());
    let message = format!("the ranks disagree{subject}; {advice}");
    Ended {
        rank,
        status: Status::FailedPrecondition,
        message,
    }
}

/// The error if the passes of some ranks have ended and other ranks begin another step of their
/// epoch.
pub(super) fn lengths_differ(descriptors: &[Descriptor]) -> Option<Ended> {
    let has_ended = |it: &Descriptor| it.kind == CollectiveKind::Run && it.numbers[0] == PASS_ENDED;
    let ended = descriptors.iter().filter(|it| has_ended(it));
    // All ranks have made the same steps so far.
    let steps = ended.clone().map(|it| it.numbers[1]).max()?;
    if ended.count() == descriptors.len() {
        return None;
    }
    let lengths: Vec<(usize, String)> = descriptors
        .iter()
        .map(|it| match has_ended(it) {
            true => format!("{} steps of the epoch", it.numbers[1]),
            false => format!("{} or more", steps + 1),
        })
        .enumerate()
        .collect();
    let (groups, odd) = groups(&lengths);
    let line = |(length, ranks): &Group<'_>| format!("{length} on {}", Named(ranks));
    let lines: Vec<String> = groups.iter().map(line).collect();
    let message = format!(
        "the ranks disagree at the end of a pass: {}its length is {}; {SAME_BATCHES}",
        odd_one(odd.as_deref()),
        lines.join(", ")
    );
    Some(Ended {
        rank: the_one(odd.as_deref()),
        status: Status::FailedPrecondition,
        message,
    })
}

/// The rank that differs from the others, if there is only one.
fn the_one(odd: Option<&[usize]>) -> Option<usize> {
    odd.and_then(|odd| <[usize; 1]>::try_from(odd).ok())
        .map(|[rank]| rank)
}

/// A value, and the ranks that have it.
type Group<'a> = (&'a String, Vec<usize>);

/// Groups ranks by value, the value of more than half of them last; and the ranks that do not have
/// that value.
fn groups(values: &[(usize, String)]) -> (Vec<Group<'_>>, Option<Vec<usize>>) {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for &(rank, ref value) in values {
        match groups.iter_mut().find(|(known, _)| *known == value) {
            Some((_, ranks)) => ranks.push(rank),
            None => groups.push((value, vec![rank])),
        }
    }
    let most = groups
        .iter()
        .position(|(_, ranks)| 2 * ranks.len() > values.len());
    let odd = most.map(|most| {
        let majority = groups.remove(most);
        let mut odd: Vec<usize> = groups.iter().flat_map(|(_, ranks)| ranks.clone()).collect();
        odd.sort_unstable();
        groups.push(majority);
        odd
    });
    (groups, odd)
}

fn odd_one(odd: Option<&[usize]>) -> String {
    match odd {
        Some(odd) if odd.len() == 1 => format!("{} differs from the others: ", Named(odd)),
        Some(odd) if !odd.is_empty() => format!("{} differ from the others: ", Named(odd)),
        _ => String::new(),
    }
}

/// Formats a list of ranks.
struct Named<'a>(&'a [usize]);

impl fmt::Display for Named<'_> {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.0.iter().take(NAMED).map(usize::to_string).collect();
        match (shown.as_slice(), self.0.len().saturating_sub(NAMED)) {
            ([one], _) => write!(to, "rank {one}"),
            ([some @ .., last], 0) => write!(to, "ranks {} and {last}", some.join(", ")),
            (some, more) => write!(to, "ranks {} and {more} more", some.join(", ")),
        }
    }
}

fn cut(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_ranks_are_named_first() {
        let values = |text: &str| -> Vec<(usize, String)> {
            text.chars().map(String::from).enumerate().collect()
        };
        for (all, odd, expected) in [
            ("ab", None, "a: rank 0, b: rank 1"),
            ("aab", Some(vec![2]), "b: rank 2, a: ranks 0 and 1"),
            ("abb", Some(vec![0]), "a: rank 0, b: ranks 1 and 2"),
            ("abc", None, "a: rank 0, b: rank 1, c: rank 2"),
            (
                "abaca",
                Some(vec![1, 3]),
                "b: rank 1, c: rank 3, a: ranks 0, 2 and 4",
            ),
            (
                "aaaaaaaaaab",
                Some(vec![10]),
                "b: rank 10, a: ranks 0, 1, 2, 3, 4, 5, 6, 7 and 2 more",
            ),
        ] {
            let all = values(all);
            let (groups, came) = groups(&all);
            assert_eq!(came, odd);
            let lines: Vec<String> = groups
                .iter()
                .map(|(value, ranks)| format!("{value}: {}", Named(ranks)))
                .collect();
            assert_eq!(lines.join(", "), expected);
        }
    }
}

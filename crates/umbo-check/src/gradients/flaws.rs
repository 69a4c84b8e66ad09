//! Mistakes that one split shows if it runs twice.

use super::GradientCase;
use super::splits::to_mean;
use crate::dry_run::DryRunPart;
use crate::report::{Finding, Verdict};
use crate::vectors::{LinearCombination, difference};

impl GradientCase<'_> {
    /// The results of each replica in the runs that were made twice, with the replica's number and
    /// whether the split was the usual one.
    fn twice(&self) -> impl Iterator<Item = (&DryRunPart, &DryRunPart, usize, bool)> {
        self.evidence.repeated().flat_map(|(once, again)| {
            let is_split = std::ptr::eq(once, &self.evidence.split);
            let parts = once.iter().zip(again).enumerate();
            parts.map(move |(replica, (once, again))| (once, again, replica, is_split))
        })
    }

    pub(super) fn not_overwritten(&self) -> Option<Finding> {
        self.twice().find_map(|(once, again, replica, _)| {
            let (_, once) = once.counted(self.index)?;
            let (_, again) = again.counted(self.index)?;
            let stale = |element: usize| again[element].is_nan() && !once[element].is_nan();
            let first_stale = (0..once.len()).find(|&element| stale(element))?;
            let count = (0..once.len()).filter(|&element| stale(element)).count();
            let elements = match count {
                1 => format!(
                    "{} of replica {replica}'s buffer is",
                    self.place(first_stale)
                ),
                _ => format!(
                    "{} elements of replica {replica}'s buffer, {} first, are",
                    count,
                    self.place(first_stale)
                ),
            };
            // Adding to a buffer of zeros leaves the sum. Not writing to it leaves zero.
            let added_to = |element| stale(element) && once[element] != 0.0;
            let text = match (0..once.len()).any(added_to) {
                true => format!(
                    "{elements} added to, though it was viewed with OVERWRITE, so that what an \
                     earlier step left there is added in; view it with ADD, which zeroes it"
                ),
                false => format!(
                    "{elements} not written, though it was viewed with OVERWRITE, so that what \
                     an earlier step left there is used; write all elements, or view it with ADD, \
                     which zeroes it"
                ),
            };
            Some(self.finding(Verdict::NotOverwritten, text).at(first_stale))
        })
    }

    pub(super) fn not_finite(&self) -> Option<Finding> {
        self.evidence.runs().find_map(|parts| {
            parts.iter().enumerate().find_map(|(replica, part)| {
                let (_, gradient) = part.counted(self.index)?;
                let element = gradient.iter().position(|element| !element.is_finite())?;
                let text = format!(
                    "{} is {} on replica {replica}, whose part has {} examples",
                    self.place(element),
                    gradient[element],
                    part.examples
                );
                Some(self.finding(Verdict::NotFinite, text).at(element))
            })
        })
    }

    pub(super) fn not_repeatable(&self) -> Option<Finding> {
        self.twice().find_map(|(once, again, replica, is_split)| {
            let examples = once.examples.max(1) as f64;
            // The text uses the units of a mean, if the callback reduces as declared.
            let factor = to_mean(self.declared, self.evidence.rows as f64, examples);
            let once = LinearCombination::of(
                once.counted(self.index)
                    .map(|(_, gradient)| (factor, gradient)),
            );
            let again = LinearCombination::of(
                again
                    .counted(self.index)
                    .map(|(_, gradient)| (factor, gradient)),
            );
            let found = difference(&once, &again, &self.measure);
            if !found.exceeds {
                return None;
            }
            let place = self.place(found.element);
            let element = found.element;
            let a = once.at(element) / factor;
            let b = again.at(element) / factor;
            let cause = if is_split && self.evidence.others.is_some() {
                "this happens on several replicas and not on one: they seem to write memory that \
                 they share, such as a scratch buffer or a sum in the user data"
            } else {
                "random numbers that are not keyed by example, or state that one run leaves for \
                 the next"
            };
            let text = format!(
                "two runs with the same examples differ: {place} of replica {replica} is {a:.6e} \
                 and then {b:.6e}; {cause}"
            );
            Some(
                self.finding(Verdict::NotRepeatable, text)
                    .at(element)
                    .by(found.relative),
            )
        })
    }
}

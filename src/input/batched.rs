//! How often the elements of datasets were batched, and what is said of those that should have been once.

use std::sync::atomic::Ordering;

use crate::error::{Error, Result};
use crate::input::dataset::Dataset;
use crate::input::distribute::part_spec;
use crate::input::facts::Facts;
use crate::input::spec::ElementSpec;
use crate::observe::strict;

/// How often elements were batched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Batched {
    /// They are single rows of arrays.
    Never,
    Once,
    /// They are batches of batches.
    Twice,
}

impl Facts {
    /// How often the elements were batched, as far as that is certain.
    pub(super) fn times_batched(&self) -> Option<Batched> {
        self.batched.as_ref().map(|(often, _)| *often)
    }

    /// Whether the log was not told yet what [`Dataset::times_batched`] means. Once; thereafter it is known.
    fn is_so_far_unsaid(&self) -> bool {
        let said = self.batched.as_ref();
        said.is_some_and(|(_, said)| !said.swap(true, Ordering::Relaxed))
    }
}

/// Looks whether the elements are batches, as far as that is certain. The log is told once of a dataset.
pub(super) fn check_batches(dataset: &Dataset, replicas: usize, is_strict: bool) -> Result<()> {
    let elements = dataset.element_spec();
    // What cannot be split at all fails for that.
    let has_rows =
        || elements.map(&mut |leaf| part_spec(leaf, replicas).map(ElementSpec::Leaf)).is_ok();
    let what: &dyn Fn() -> String = match dataset.facts().times_batched() {
        Some(Batched::Never) if replicas > 1 && has_rows() => &|| {
            format!(
                "a dataset that nothing has batched is split over {replicas} replicas: its elements \
                 ({elements}) are single rows of arrays, and each replica gets a part of each row as its \
                 examples; batch the dataset before distributing it, or, if the rows are batches, rebatch \
                 it to their size"
            )
        },
        Some(Batched::Twice) => &|| {
            format!(
                "a dataset that was batched twice is distributed: its elements ({elements}) are batches of \
                 batches, and what counts as an example is a batch; batch it once, or rebatch it to have \
                 batches of another size. If that is meant, map the elements to what they are"
            )
        },
        _ => return Ok(()),
    };
    if !(is_strict || strict::is_on() || dataset.facts().is_so_far_unsaid()) {
        return Ok(());
    }
    strict::suspect(is_strict, |what| Error::invalid("dataset", what), what)
}

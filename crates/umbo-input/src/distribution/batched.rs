//! A check that the elements to distribute were batched exactly once, and shuffled before.

use crate::distribution::split::part_spec;
use crate::elements::spec::ElementSpec;
use crate::properties::{Batched, DatasetProperties};
use crate::transforms::suspects::check_shuffled_batches;
use umbo_base::error::{Error, Result};
use umbo_base::observe::strict;

/// Checks whether the elements are batches, as far as that is certain. If they are not, it warns.
pub(crate) fn check_batches(
    properties: &DatasetProperties,
    replicas: usize,
    is_strict: bool,
) -> Result<()> {
    let elements = &properties.spec;
    // A dataset that cannot be split at all fails later, with an error of its own.
    let has_rows = || {
        elements
            .map(&mut |leaf| part_spec(leaf, replicas).map(ElementSpec::Leaf))
            .is_ok()
    };
    let message: &dyn Fn() -> String = match properties.batched {
        Some(Batched::Never) if replicas > 1 && has_rows() => &|| {
            format!(
                "a dataset that nothing has batched is split over {replicas} replicas: its \
                 elements ({elements}) are single rows of arrays, and each replica gets a part of \
                 each row as its examples; batch the dataset before distributing it, or, if the \
                 rows are batches, rebatch it to their size"
            )
        },
        Some(Batched::Twice) => &|| {
            format!(
                "a dataset that was batched twice is distributed: its elements ({elements}) are \
                 batches of batches, and each batch is treated as one example; batch it once, or \
                 rebatch it to have batches of another size. If that is meant, map the elements \
                 to what they are"
            )
        },
        _ => return check_shuffled_batches(&properties.order, is_strict),
    };
    strict::warn_or_fail(
        is_strict,
        |message| Error::invalid("dataset", message),
        message,
    )
}

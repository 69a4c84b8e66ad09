//! The number of elements a dataset has.

/// The number of elements one pass over a dataset yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// Exactly this number.
    Exact(u64),
    /// The pass never ends.
    Endless,
    /// The pass never ends, unless a dataset of an unknown number of elements that it repeats
    /// proves to be empty.
    EndlessUnlessEmpty,
    /// The number is found only by iterating.
    Unknown,
}

impl Cardinality {
    /// The number, if it is known and finite.
    pub(crate) fn exact(self) -> Option<u64> {
        match self {
            Cardinality::Exact(count) => Some(count),
            Cardinality::Endless | Cardinality::EndlessUnlessEmpty | Cardinality::Unknown => None,
        }
    }

    /// Whether a pass is endless for all that is known before it.
    pub(crate) fn is_endless(self) -> bool {
        matches!(self, Cardinality::Endless | Cardinality::EndlessUnlessEmpty)
    }

    /// The cardinality of a dataset that may have another number of elements; it is endless if this
    /// one is.
    pub(crate) fn of_unknown_end(self) -> Cardinality {
        match self {
            Cardinality::Endless | Cardinality::EndlessUnlessEmpty => self,
            Cardinality::Exact(_) | Cardinality::Unknown => Cardinality::Unknown,
        }
    }

    /// An upper bound of how many elements one pass holds, if there is one.
    pub(crate) fn bound(self) -> Option<usize> {
        self.exact().and_then(|count| usize::try_from(count).ok())
    }

    /// Whether a whole pass may have `count` elements.
    pub(crate) fn admits(self, count: u64) -> bool {
        match self {
            Cardinality::Exact(exact) => count <= exact,
            // What is taken of a dataset that proves to be empty, and repeated, has no elements.
            Cardinality::Endless => count == 0,
            Cardinality::EndlessUnlessEmpty | Cardinality::Unknown => true,
        }
    }

    pub(crate) fn map(self, map: impl FnOnce(u64) -> u64) -> Cardinality {
        match self {
            Cardinality::Exact(count) => Cardinality::Exact(map(count)),
            Cardinality::Endless | Cardinality::EndlessUnlessEmpty | Cardinality::Unknown => self,
        }
    }
}

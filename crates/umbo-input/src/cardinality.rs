//! The number of elements a dataset has.

/// The number of elements one pass over a dataset yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// Exactly this number.
    Exact(u64),
    /// The pass never ends.
    Endless,
    /// The number is found only by iterating.
    Unknown,
}

impl Cardinality {
    /// The number, if it is known and finite.
    pub(crate) fn exact(self) -> Option<u64> {
        match self {
            Cardinality::Exact(count) => Some(count),
            Cardinality::Endless | Cardinality::Unknown => None,
        }
    }

    /// The cardinality of a dataset that may have another number of elements; it is endless if this
    /// one is.
    pub(crate) fn of_unknown_end(self) -> Cardinality {
        match self {
            Cardinality::Endless => Cardinality::Endless,
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
            // An endless repetition of a dataset that turns out to be empty has no elements.
            Cardinality::Endless => count == 0,
            Cardinality::Unknown => true,
        }
    }

    pub(crate) fn map(self, map: impl FnOnce(u64) -> u64) -> Cardinality {
        match self {
            Cardinality::Exact(count) => Cardinality::Exact(map(count)),
            Cardinality::Endless | Cardinality::Unknown => self,
        }
    }
}

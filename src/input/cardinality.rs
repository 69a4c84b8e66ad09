//! How many elements a dataset has.

/// How many elements one pass over a dataset yields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cardinality {
    /// Exactly so many.
    Exact(u64),
    /// It never ends.
    Endless,
    /// Only iterating shows it.
    Unknown,
}

impl Cardinality {
    /// The number as the C API gives it: -1 for endless, -2 for unknown.
    pub fn code(self) -> i64 {
        match self {
            // No source is larger, and products that would be are unknown.
            Cardinality::Exact(count) => i64::try_from(count).unwrap_or(-2),
            Cardinality::Endless => -1,
            Cardinality::Unknown => -2,
        }
    }

    /// The number, if it is known and finite.
    pub(super) fn exact(self) -> Option<u64> {
        match self {
            Cardinality::Exact(count) => Some(count),
            Cardinality::Endless | Cardinality::Unknown => None,
        }
    }

    /// What is known of as many elements or others, where endless stays endless.
    pub(super) fn of_unknown_end(self) -> Cardinality {
        match self {
            Cardinality::Endless => Cardinality::Endless,
            Cardinality::Exact(_) | Cardinality::Unknown => Cardinality::Unknown,
        }
    }

    /// An upper bound for what one pass holds, if there is one.
    pub(super) fn bound(self) -> Option<usize> {
        match self {
            Cardinality::Exact(count) => usize::try_from(count).ok(),
            Cardinality::Endless | Cardinality::Unknown => None,
        }
    }

    /// Whether a whole pass may hold so many.
    pub(super) fn admits(self, count: u64) -> bool {
        match self {
            Cardinality::Exact(exact) => count <= exact,
            // Repeats without end of what turns out to be empty.
            Cardinality::Endless => count == 0,
            Cardinality::Unknown => true,
        }
    }

    pub(super) fn map(self, map: impl FnOnce(u64) -> u64) -> Cardinality {
        match self {
            Cardinality::Exact(count) => Cardinality::Exact(map(count)),
            other => other,
        }
    }
}

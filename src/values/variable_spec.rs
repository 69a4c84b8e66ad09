//! What a variable is, beside its value: what its maker says of it.

use crate::text::Text;

/// How values that replicas assign are combined. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
pub enum Aggregation {
    /// Assigning in replica context is an error.
    None = 0,
    /// The replicas' values are added.
    Sum = 1,
    /// The sum divided by the number of replicas.
    Mean = 2,
    /// Replica 0's value counts.
    OnlyFirstReplica = 3,
}

impl Aggregation {
    /// The mode with this number, if there is one.
    pub fn from_code(code: i32) -> Option<Aggregation> {
        use Aggregation::*;
        [None, Sum, Mean, OnlyFirstReplica].into_iter().find(|mode| *mode as i32 == code)
    }

    /// The mode's name, such as `ONLY_FIRST_REPLICA`.
    pub fn name(self) -> &'static str {
        match self {
            Aggregation::None => "NONE",
            Aggregation::Sum => "SUM",
            Aggregation::Mean => "MEAN",
            Aggregation::OnlyFirstReplica => "ONLY_FIRST_REPLICA",
        }
    }
}

/// When copies of a variable would be synchronised, if there were copies: recorded, and without
/// effect on storage. The numbers are those of the C constants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[expect(missing_docs, reason = "the names are the reference's")]
pub enum Synchronization {
    Auto = 0,
    None = 1,
    OnWrite = 2,
    OnRead = 3,
}

impl Synchronization {
    /// The mode with this number, if there is one.
    pub fn from_code(code: i32) -> Option<Synchronization> {
        use Synchronization::*;
        [Auto, None, OnWrite, OnRead].into_iter().find(|mode| *mode as i32 == code)
    }
}

/// What a variable is, beside its value.
#[derive(Clone, Debug)]
pub struct VariableSpec {
    /// The name; names need not differ.
    pub name: Text,
    /// Whether an optimizer should change it.
    pub trainable: bool,
    /// See [`Synchronization`].
    pub synchronization: Synchronization,
    /// See [`Aggregation`].
    pub aggregation: Aggregation,
    /// The strategy in whose scope it was made; 0 is no strategy.
    pub strategy: u64,
}

//! The properties of a variable other than its value, which its maker sets.

use umbo_base::text::Text;

/// How values that replicas assign are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregation {
    /// Assigning in replica context is an error.
    None,
    /// The replicas' values are added.
    Sum,
    /// The sum divided by the number of replicas.
    Mean,
    /// Replica 0's value counts.
    OnlyFirstReplica,
}

impl Aggregation {
    /// The mode's name, such as `ONLY_FIRST_REPLICA`.
    pub fn name(self) -> &'static str {
        ["NONE", "SUM", "MEAN", "ONLY_FIRST_REPLICA"][self as usize]
    }
}

/// The moments at which copies of a variable on several devices would be synchronised. There are
/// no such copies here; the mode only decides whether an optimizer changes a variable by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are the reference's")]
pub enum Synchronization {
    Auto,
    None,
    OnWrite,
    OnRead,
}

/// The properties of a variable other than its value.
#[derive(Clone, Debug)]
pub struct VariableSpec {
    /// The name. Several variables may have the same name.
    pub name: Text,
    /// Whether an optimizer should change it.
    pub trainable: bool,
    /// See [`Aggregation`].
    pub aggregation: Aggregation,
    /// The strategy in whose scope it was made; 0 means none.
    pub strategy: u64,
}

//! Results, apart from the handles they came from.

use std::collections::BTreeMap;

use crate::environment::Bound;
use crate::failure::{Result, wrong};
use crate::literal::Literal;
use crate::values;

/// A result in the form of an expectation.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// A tensor.
    Tensor(Literal),
    /// A per-replica value.
    PerReplica(Vec<Outcome>),
    /// A tuple.
    Tuple(Vec<Outcome>),
    /// A list that is a value.
    ListNest(Vec<Outcome>),
    /// A struct.
    Struct(BTreeMap<String, Outcome>),
    /// A host list.
    List(Vec<Outcome>),
    /// The steps of an iteration and why it stopped.
    Steps(Vec<Outcome>, &'static str),
    /// Row-sparse elements.
    IndexedSlices {
        /// The rows.
        values: Literal,
        /// Which rows they are.
        indices: Literal,
        /// The shape of the whole.
        dense_shape: Vec<i64>,
    },
    /// What a variable holds.
    Variable(Literal),
    /// An element spec: dtype, and the shape unless even the rank is unknown.
    Spec(&'static str, Option<Vec<Option<i64>>>),
    /// A text.
    Text(String),
    /// Nothing.
    None,
}

impl Outcome {
    /// What a name is bound to.
    pub fn of(bound: &Bound) -> Result<Outcome> {
        let all = |items: &[Bound]| items.iter().map(Outcome::of).collect::<Result<Vec<_>>>();
        match bound {
            Bound::Value(value) => values::outcome(value),
            Bound::List(items) => Ok(Outcome::List(all(items)?)),
            Bound::Steps(items, end) => Ok(Outcome::Steps(all(items)?, end)),
            Bound::Known(outcome) => Ok(outcome.clone()),
            other => wrong(format!("there is no expectation of {other:?}")),
        }
    }
}

//! Options of a check.

/// When two numbers count as the same.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CheckOptions {
    /// The largest difference, as a fraction of the terms that a number is the sum of. `None`: what
    /// sums of so many examples may differ by when they are added in another order.
    pub relative_tolerance: Option<f64>,
    /// A difference that never counts.
    pub absolute_tolerance: f64,
}

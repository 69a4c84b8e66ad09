//! Options of a check.

/// The tolerances within which two numbers count as equal.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CheckOptions {
    /// The largest difference, as a fraction of the terms whose sum the number is. With `None`,
    /// the difference that may arise if sums of this many examples are added in another order.
    pub relative_tolerance: Option<f64>,
    /// A difference up to this value never counts.
    pub absolute_tolerance: f64,
}

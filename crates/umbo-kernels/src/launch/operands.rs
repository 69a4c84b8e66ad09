//! The operands of the kernels for updates.

use crate::dtype::DType;
use crate::launch::launcher::{Address, plain};
use crate::update::rules::RuleStep;
use crate::update::weighted_sum::Clipping;

plain! {
    /// One replica's gradient of a variable, and the factor with which it enters the sum.
    pub struct DeviceContribution of 16 bytes {
        /// Contiguous elements, as many as the sum has.
        pub gradient: Address,
        /// The factor of each element.
        pub factor: f64,
    }
}

/// The gradient of one variable: the sum of factor × contribution, in float64, divided and rounded
/// once to the variable's type.
#[derive(Clone, Copy, Debug)]
pub struct Gradient<'a> {
    /// The variable's type.
    pub dtype: DType,
    /// The number of elements the sum has.
    pub elements: u64,
    /// The type of the contributions: the variable's or a narrower one.
    pub gradient_dtype: DType,
    /// The contributions, in replica order.
    pub contributions: &'a [DeviceContribution],
    /// The float64 elements at which the sum starts, as many as it has.
    pub accumulated: Option<Address>,
    /// The divisor of the sum.
    pub divisor: f64,
}

/// Some rows of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableRows<'a> {
    /// The numbers of the rows, which ascend.
    pub numbers: &'a [usize],
    /// The elements of one row.
    pub elements: u64,
    /// The number of rows the table has.
    pub table_rows: usize,
}

/// The update of one variable.
#[derive(Clone, Copy, Debug)]
pub struct DeviceUpdate<'a> {
    /// The gradient. If the update has rows, the sum is over their elements, one row after the
    /// other, and has no contributions.
    pub gradient: Gradient<'a>,
    /// How the gradient is clipped.
    pub clipping: Clipping,
    /// The factor of the weight that is added to the gradient after clipping.
    pub l2: f64,
    /// The operation on each element. For a rule that measures, the norms are taken, and its
    /// rate is multiplied by the trust ratio. Without a step, the gradient is written into the
    /// only state, as a rule would get it: clipped, and with the L2 term.
    pub step: Option<RuleStep>,
    /// Contiguous elements.
    pub weights: Address,
    /// Contiguous tensors of state, as many as the step has.
    pub slots: &'a [Address],
    /// The rows that are updated; `None` if all are.
    pub rows: Option<TableRows<'a>>,
    /// A 32-bit number that becomes 1 if an element of the gradient is not finite. Else it is not
    /// changed.
    pub not_finite: Option<Address>,
}

//! What the kernels of updates work on.

use crate::kernels::cuda::queue::{Address, plain};
use crate::kernels::dtype::DType;
use crate::kernels::update::rules::RuleStep;
use crate::kernels::update::weighted_sum::Clipping;

plain! {
    /// One replica's gradient of a variable, and the factor with which it enters the sum.
    pub struct GpuContribution of 16 bytes {
        /// Contiguous elements, as many as the sum has.
        pub gradient: Address,
        /// What each is multiplied with.
        pub factor: f64,
    }
}

/// The gradient of one variable: the sum of factor × contribution, in float64, divided and rounded
/// once to the variable's type.
#[derive(Clone, Copy, Debug)]
pub struct Gradient<'a> {
    /// The variable's type.
    pub dtype: DType,
    /// How many elements the sum has.
    pub elements: u64,
    /// The type of the contributions: the variable's or a narrower one.
    pub gradient_dtype: DType,
    /// In replica order.
    pub contributions: &'a [GpuContribution],
    /// As many float64 elements where the sum starts.
    pub accumulated: Option<Address>,
    /// What the sum is divided by.
    pub divisor: f64,
}

/// Rows of a table.
#[derive(Clone, Copy, Debug)]
pub struct TableRows<'a> {
    /// Their numbers, which ascend.
    pub numbers: &'a [usize],
    /// The elements of one row.
    pub elements: u64,
    /// How many rows the table has.
    pub of: usize,
}

/// The update of one variable.
#[derive(Clone, Copy, Debug)]
pub struct GpuUpdate<'a> {
    /// What it is updated by. If it has rows, the sum is about those, one after the other, and has
    /// no contributions.
    pub gradient: Gradient<'a>,
    /// What is done to the gradient first.
    pub clipping: Clipping,
    /// What times the weight is added to the gradient after clipping.
    pub l2: f64,
    /// What is done to each element. For LAMB the norms are measured; its last scalar is what
    /// their quotient is multiplied with. Without a step the gradient is written as a rule gets it, with what
    /// clips it and the L2 term, in place of the only state.
    pub step: Option<RuleStep>,
    /// Contiguous elements.
    pub weights: Address,
    /// As many tensors of state as the step has, contiguous.
    pub slots: &'a [Address],
    /// The rows that are updated; all if it is not said.
    pub rows: Option<TableRows<'a>>,
    /// A 32-bit number that becomes 1 if an element of the gradient is not finite, and else stays
    /// as it is.
    pub not_finite: Option<Address>,
}

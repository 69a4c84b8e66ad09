//! The distributions of the first values of variables.

use crate::machinery::prelude::*;
use umbo_core::values::initial::{Distribution, DistributionForm};

/// The elements of a new variable: the same on every machine (see `initial_seed`).
pub type umbo_initial = i32;

/// No distribution: a tensor or an initializer says it.
pub const UMBO_INITIAL_NONE: umbo_initial = 0;
/// Zeros, of any dtype. All other distributions are for floats.
pub const UMBO_INITIAL_ZEROS: umbo_initial = 1001;
/// `initial_mean`.
pub const UMBO_INITIAL_CONSTANT: umbo_initial = 1002;
/// Uniform from `initial_mean` - `initial_spread` to `initial_mean` + `initial_spread`.
pub const UMBO_INITIAL_UNIFORM: umbo_initial = 1003;
/// Normal, with the mean `initial_mean` and the standard deviation `initial_spread`.
pub const UMBO_INITIAL_NORMAL: umbo_initial = 1004;
/// Uniform within the square root of 6 / (fan in + fan out). Of a matrix these are the rows and the
/// columns; of a convolution's kernel its last two sizes, each times the product of the others; of
/// a vector its size.
pub const UMBO_INITIAL_GLOROT_UNIFORM: umbo_initial = 1005;
/// Normal of variance 2 / (fan in + fan out), nothing beyond two standard deviations.
pub const UMBO_INITIAL_GLOROT_NORMAL: umbo_initial = 1006;
/// Uniform within the square root of 6 / fan in.
pub const UMBO_INITIAL_HE_UNIFORM: umbo_initial = 1007;
/// Normal of variance 2 / fan in, nothing beyond two standard deviations.
pub const UMBO_INITIAL_HE_NORMAL: umbo_initial = 1008;

/// The distribution that the options ask for.
pub(crate) fn distribution(options: &umbo_variable_options) -> Result<Option<Distribution>> {
    let mean = options.initial_mean;
    let spread = options.initial_spread;
    one_of!(options.initial, "options.initial", {
        UMBO_INITIAL_NONE => None,
        UMBO_INITIAL_ZEROS => Some(Distribution::Zeros),
        UMBO_INITIAL_CONSTANT => Some(Distribution::Constant(mean)),
        UMBO_INITIAL_UNIFORM => Some(Distribution::Uniform { mean, spread }),
        UMBO_INITIAL_NORMAL => Some(Distribution::Normal { mean, spread }),
        UMBO_INITIAL_GLOROT_UNIFORM => Some(Distribution::Glorot(DistributionForm::Uniform)),
        UMBO_INITIAL_GLOROT_NORMAL => Some(Distribution::Glorot(DistributionForm::TruncatedNormal)),
        UMBO_INITIAL_HE_UNIFORM => Some(Distribution::He(DistributionForm::Uniform)),
        UMBO_INITIAL_HE_NORMAL => Some(Distribution::He(DistributionForm::TruncatedNormal)),
    })
}

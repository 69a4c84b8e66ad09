//! The form in which ranks send their replicas' contributions.

use crate::apply::sources::GradientSources;
use umbo_kernels::dtype::DType;
use umbo_strategy::ranks::Ranks;

/// Whether a rank adds up what its replicas contribute to several runs before it sends that.
pub(crate) fn sums_are_sent(sources: &GradientSources<'_>) -> bool {
    sources.accumulation.runs > 0
}

/// The form in which a rank sends its replicas' contributions to a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum WireForm {
    /// Each contribution unsummed, of this type.
    Contributions(DType),
    /// The sum of them and of the earlier runs, in float64.
    Sum,
}

impl WireForm {
    /// For a variable that is not row-sparse, to which replicas contribute elements of type
    /// `dtype`: the form with fewer bytes. With a fixed global replica count it is always the
    /// contributions, since the bits must not depend on how replicas are distributed over
    /// ranks.
    pub fn of_dense(ranks: &Ranks, sources: &GradientSources<'_>, dtype: DType) -> WireForm {
        let replicas = ranks.replicas().iter().copied().max().unwrap_or(1);
        match ranks.has_fixed_replicas() {
            false if replicas * dtype.size() > size_of::<f64>() => WireForm::Sum,
            _ => WireForm::of_rows(sources, dtype),
        }
    }

    /// The form for a row-sparse variable.
    pub fn of_rows(sources: &GradientSources<'_>, dtype: DType) -> WireForm {
        match sums_are_sent(sources) {
            true => WireForm::Sum,
            false => WireForm::Contributions(dtype),
        }
    }

    /// The type of the elements that are sent.
    pub fn dtype(self) -> DType {
        match self {
            WireForm::Contributions(dtype) => dtype,
            WireForm::Sum => DType::Float64,
        }
    }
}

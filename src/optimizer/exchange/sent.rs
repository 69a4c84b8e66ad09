//! What ranks send each other of what their replicas have contributed.

use crate::kernels::dtype::DType;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::Ranks;

/// Whether a rank adds up what its replicas contribute to several runs before it sends that.
pub(in crate::optimizer) fn sums_are_sent(ranks: &Ranks, sources: &Sources<'_>) -> bool {
    sources.accumulation.runs > 0 && !ranks.has_fixed_replicas()
}

/// What a rank sends of its replicas' contributions to a variable.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::optimizer) enum Sent {
    /// Each of them as it is, of this type.
    Contributions(DType),
    /// The sum of them and of the runs before, in float64.
    Sum,
}

impl Sent {
    /// Of a variable that is not row-sparse, to which replicas contribute elements of type `dtype`: what has
    /// fewer bytes. If the number of all replicas was chosen, the bits must not depend on how they are spread
    /// over ranks.
    pub fn of_dense(ranks: &Ranks, sources: &Sources<'_>, dtype: DType) -> Sent {
        let replicas = ranks.replicas().iter().copied().max().unwrap_or(1);
        match ranks.has_fixed_replicas() {
            false if replicas * dtype.size() > size_of::<f64>() => Sent::Sum,
            _ => Sent::of_rows(ranks, sources, dtype),
        }
    }

    /// Of a row-sparse variable.
    pub fn of_rows(ranks: &Ranks, sources: &Sources<'_>, dtype: DType) -> Sent {
        match sums_are_sent(ranks, sources) {
            true => Sent::Sum,
            false => Sent::Contributions(dtype),
        }
    }

    /// The type that goes from rank to rank.
    pub fn dtype(self) -> DType {
        match self {
            Sent::Contributions(dtype) => dtype,
            Sent::Sum => DType::Float64,
        }
    }
}

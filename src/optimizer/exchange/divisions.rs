//! Which part of dense gradients each rank adds up.

use super::parts::bytes_of;
use crate::device::DeviceId;
use crate::error::Result;
use crate::optimizer::sources::Sources;
use crate::strategy::ranks::Ranks;
use crate::tensor::{DType, Shape, Tensor};
use crate::values::division::{Division, Loads};

/// How the variables that are not row-sparse are divided of which `is_selected` says that an update is about
/// them, and maybe others. What each rank updates as a whole is added up in parts all the same.
pub(super) fn divisions(
    ranks: &Ranks,
    sources: &Sources<'_>,
    is_selected: impl Fn(usize) -> bool,
) -> impl Iterator<Item = (usize, Division)> {
    // What each rank accumulates of its own part must be its part in all runs.
    let is_fixed = ranks.has_chosen_replicas();
    let variables = sources.variables();
    let mut loads = Loads::new(ranks.size());
    let dense = (0..variables.len())
        .filter(move |&index| (is_fixed || is_selected(index)) && !sources.is_row_sparse(index));
    dense.map(move |index| {
        let (variable, rank) = (&variables[index], ranks.rank());
        let elements = variable.shape().elements();
        let division = match variable.division() {
            Some(division) => division.clone(),
            None => loads.divide(rank, elements, variable.dtype().size()),
        };
        (index, division)
    })
}

/// How variable `index` is divided where the number of replicas was chosen, if it is not row-sparse.
pub(in crate::optimizer) fn division_of(
    ranks: &Ranks,
    sources: &Sources<'_>,
    index: usize,
) -> Option<Division> {
    let mut all = divisions(ranks, sources, |_| true);
    all.find(|(of, _)| *of == index).map(|(_, division)| division)
}

/// What this rank, which has a number of replicas that was chosen, has accumulated of its part of variable
/// `index`: float64, in a row. Nothing of a variable that no run wrote.
pub(in crate::optimizer) fn accumulated_here(
    ranks: &Ranks,
    sources: &Sources<'_>,
    index: usize,
) -> Result<Option<Tensor>> {
    let Some(sum) = sources.accumulated(index) else { return Ok(None) };
    let Some(division) = division_of(ranks, sources, index) else { return Ok(None) };
    let (own, host) = (division.own(), DeviceId::HOST);
    let shape = Shape::new(&[own.len()])?;
    Tensor::from_bytes(DType::Float64, shape, bytes_of(sum, &own), host).map(Some)
}

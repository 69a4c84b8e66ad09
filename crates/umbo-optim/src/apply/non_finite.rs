//! Messages about gradients that are not finite.

use crate::apply::sources::GradientSources;
use crate::gradients::contributions::Contributions;
use crate::gradients::replica::GradientBuffer;
use umbo_base::error::Error;
use umbo_base::observe::log::{self, Level};
use umbo_kernels::float::gradient_element::{GradientElement, for_gradient_dtype};
use umbo_kernels::instruction_set::Instructions;
use umbo_tensor::Tensor;
use umbo_tensor::values::variable::Variable;

/// The error of an apply that fails because the gradient of variable `index` is not finite.
pub(crate) fn not_finite(sources: &GradientSources<'_>, index: usize) -> Error {
    let variable = &sources.variables()[index];
    let contributions = sources.contributions;
    let step = sources.shown_step();
    let gradient = format!("the gradient of {variable:?}");
    let way_out = "nothing was changed. Have such applies skipped, or run the step again with \
                   other gradients";
    let problem = match first(contributions, index, variable) {
        Some(Found {
            replica,
            place,
            value,
        }) => {
            format!(
                "{gradient} is not finite: step {step}, replica {replica}, element {place:?} is \
                 {value}; {way_out}"
            )
        }
        None => format!(
            "{gradient}, or its norm, is not finite in step {step}, though what each replica \
             submitted in this step is: the sum is too large, or an accumulated run was not \
             finite; {way_out}"
        ),
    };
    Error::invalid("gradients", problem)
}

/// Logs that `variable` was updated with a gradient that is not finite.
pub(crate) fn warn_of(variable: &Variable, step: u64) {
    log::log(Level::Warning, || {
        format!(
            "the gradient of {variable:?} in step {step} is not finite (NaN or infinite), and was \
             applied as it is. The optimizer's setting for gradients that are not finite can have \
             such applies skipped, or fail and name replica and element. This optimizer does not \
             say so again; reports of applies do"
        )
    });
}

struct Found {
    replica: usize,
    place: Vec<usize>,
    value: f64,
}

/// The first element that is not finite among what replicas submitted to variable `index`.
fn first(contributions: Contributions<'_>, index: usize, variable: &Variable) -> Option<Found> {
    contributions
        .writers(index)
        .find_map(|(replica, _, buffer)| {
            let (place, value) = match buffer {
                GradientBuffer::Dense(dense) => {
                    let (element, value) = first_element(&dense.home(contributions.step))?;
                    (variable.shape().coordinates(element), value)
                }
                GradientBuffer::Rows(rows) => {
                    rows.pieces().iter().find_map(|(indices, values)| {
                        let (element, value) = first_element(values)?;
                        let of_row = variable.shape().elements() / variable.shape().first()?;
                        let row = *indices.to_vec::<i64>().ok()?.get(element / of_row)? as usize;
                        Some((
                            variable
                                .shape()
                                .coordinates(row * of_row + element % of_row),
                            value,
                        ))
                    })?
                }
            };
            Some(Found {
                replica,
                place,
                value,
            })
        })
}

/// The first element that is not finite: where, and what it is.
fn first_element(tensor: &Tensor) -> Option<(usize, f64)> {
    for_gradient_dtype!(tensor.dtype(), G => {
        let numbers = tensor.to_vec::<G>().ok()?.into_iter();
        let wide = numbers.map(|number| G::widened(Instructions::BASELINE, [number])[0]);
        wide.enumerate().find(|(_, number)| !number.is_finite())
    })
}

//! Options of gradients, and which variables can have gradients.

use std::collections::HashMap;

use umbo_base::error::{Error, Result};
use umbo_kernels::float::{gradient_element, real};
use umbo_tensor::DType;
use umbo_tensor::values::variable::Variable;

/// Options of gradients.
#[derive(Clone, Copy, Debug)]
pub struct GradientsOptions<'a> {
    /// The number of applies that make one update, at least 1. An apply updates variables only when
    /// it is the last of them; those before add to a sum. The update is that of one run with all of
    /// the contributions: one weighted sum, divided by the weight of all runs.
    pub accumulation_steps: u64,
    /// The element type of the gradients, if it is not that of their variables: float16 or
    /// bfloat16 for float32 variables, float32 or float16 for bfloat16 ones.
    pub dtype: Option<DType>,
    /// For each variable whether its gradients are row-sparse, which costs no buffers of its size;
    /// or empty, if none are. Such a variable has one dimension at least.
    pub row_sparse: &'a [bool],
}

impl GradientsOptions<'_> {
    /// Refuses options that make no sense, alone or for these variables, and variables that cannot
    /// have gradients in the strategy with id `strategy`.
    pub(crate) fn check(&self, strategy: u64, variables: &[Variable]) -> Result<()> {
        if self.accumulation_steps == 0 {
            return Err(invalid!("accumulation_steps", "0; must be at least 1"));
        }
        check_variables(strategy, variables)?;
        check_dtype(variables, self.dtype)?;
        check_row_sparse(variables, self.row_sparse)
    }

    /// Whether the gradients of variable `index` are row-sparse.
    pub(crate) fn is_row_sparse(&self, index: usize) -> bool {
        self.row_sparse.get(index).copied().unwrap_or(false)
    }
}

impl Default for GradientsOptions<'_> {
    fn default() -> Self {
        GradientsOptions {
            accumulation_steps: 1,
            dtype: None,
            row_sparse: &[],
        }
    }
}

fn check_variables(strategy: u64, variables: &[Variable]) -> Result<()> {
    if variables.is_empty() {
        return Err(invalid!(
            "variables",
            "none; gradients are of one variable or more"
        ));
    }
    let mut known = HashMap::with_capacity(variables.len());
    for (index, variable) in variables.iter().enumerate() {
        let wrong = |problem: String| {
            Err(Error::invalid(
                format!("variables[{index}] ('{}')", variable.name()),
                problem,
            ))
        };
        if variable.spec().strategy != strategy {
            return wrong(
                "made by a strategy other than this one, or by none; make it in this one's scope"
                    .into(),
            );
        }
        if !variable.dtype().is_float() {
            return wrong(format!(
                "{} has no gradient; float32, float64 and bfloat16 have",
                variable.dtype()
            ));
        }
        check_computing(index, variable)?;
        if let Some(first) = known.insert(variable.key(), index) {
            return wrong(format!(
                "the same variable as variables[{first}]; list it once"
            ));
        }
    }
    Ok(())
}

/// Refuses a variable of floats that cannot be updated.
fn check_computing(index: usize, variable: &Variable) -> Result<()> {
    let dtype = variable.dtype();
    let name = variable.name();
    if !real::is_supported(real::computing(dtype)) {
        return Err(Error::Unimplemented(format!(
            "variables[{index}] ('{name}'): gradients of {dtype} in this version; use float32, \
             float64 or bfloat16"
        )));
    }
    if !real::is_supported(dtype) && !variable.device().is_host_memory() {
        return Err(Error::Unimplemented(format!(
            "variables[{index}] ('{name}'): it is {dtype} and lies on a GPU; only such variables \
             in host memory are updated. Make it float32, and view it as {dtype}"
        )));
    }
    Ok(())
}

fn check_dtype(variables: &[Variable], dtype: Option<DType>) -> Result<()> {
    let Some(dtype) = dtype else { return Ok(()) };
    for (index, variable) in variables.iter().enumerate() {
        if !gradient_element::is_supported(variable.dtype(), dtype) {
            return Err(invalid!(
                "dtype",
                "{dtype} for the gradients of variables[{index}] ('{}'), which is {}; float32 \
                 and bfloat16 variables have gradients of float32, bfloat16 or float16, float64 \
                 ones of their own type",
                variable.name(),
                variable.dtype()
            ));
        }
    }
    Ok(())
}

fn check_row_sparse(variables: &[Variable], row_sparse: &[bool]) -> Result<()> {
    if ![0, variables.len()].contains(&row_sparse.len()) {
        let problem = format!(
            "{} choices for {} variables",
            row_sparse.len(),
            variables.len()
        );
        return Err(Error::invalid("row_sparse", problem));
    }
    let row_sparse = row_sparse.iter().zip(variables).enumerate();
    for (index, (&is_row_sparse, variable)) in row_sparse {
        if is_row_sparse && variable.shape().rank() == 0 {
            let name = format!("row_sparse[{index}]");
            return Err(invalid!(
                name,
                "{variable:?} is a scalar, which has no rows"
            ));
        }
        if is_row_sparse && !real::is_supported(variable.dtype()) {
            return Err(Error::Unimplemented(format!(
                "row_sparse[{index}]: {variable:?}; rows of float32 and float64 variables are \
                 updated. Make its gradients without row_sparse, or the table float32"
            )));
        }
    }
    Ok(())
}

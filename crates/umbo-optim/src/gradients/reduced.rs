//! Inspection of the gradients that an apply would use, without applying them.

use std::sync::Arc;

use crate::apply::launcher::{Launcher, launcher_of};
use crate::apply::sources::GradientSources;
use crate::exchange::Exchange;
use crate::gradients::Gradients;
use crate::gradients::row_sums::Summing;
use crate::state::Optimizer;
use umbo_base::error::{Error, Result};
use umbo_kernels::float::real;
use umbo_strategy::Strategy;
use umbo_strategy::commit::CommitAction;
use umbo_strategy::context::{Current, current};
use umbo_strategy::ranks::{AddQuantity, Ranks};
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

/// The gradient of variable `index` that the next apply would use: reduced over replicas and
/// accumulated runs, without the loss scale of `optimizer` (if there is one), before clipping and
/// weight decay, in the variable's dtype, or in float32 for bfloat16. For a row-sparse variable it
/// is the contributed rows, ascending, as indexed slices; for any other variable it is a tensor.
/// The waiting contributions stay.
///
/// Waits for a step that is running on another thread. FAILED_PRECONDITION within a step, where an
/// apply would be refused because nothing was submitted, and if all weights are 0. NOT_FOUND: no
/// replica wrote the variable, or runs are accumulated while it is frozen. INVALID_ARGUMENT: an
/// optimizer of another strategy.
///
/// With several ranks this is a collective call: all ranks make it, exchange their contributions to
/// the variable, and get the gradient of all ranks.
pub fn reduced(
    gradients: &Arc<Gradients>,
    index: usize,
    optimizer: Option<&Arc<Optimizer>>,
) -> Result<Value> {
    let count = gradients.variables().len();
    if index >= count {
        let problem = format!("{index} is not in [0, {count}), the variables of the gradients");
        return Err(Error::out_of_range("index", problem));
    }
    if optimizer.is_some_and(|optimizer| optimizer.strategy() != gradients.strategy()) {
        return Err(invalid!(
            "optimizer",
            "made for a strategy other than the gradients"
        ));
    }
    let strategy = Strategy::with_id(gradients.strategy()).ok_or_else(|| {
        Error::precondition(
            "gradients: their strategy was released; keep that as long as they are used",
        )
    })?;
    if matches!(current(), Current::Replica(_)) || strategy.current_step().is_some() {
        return Err(Error::precondition(
            "gradients: they are reduced when the step is over; look at them after the run",
        ));
    }
    let ranks = strategy.ranks();
    let mut inspect = InspectGradient {
        gradients,
        index,
        optimizer,
        ranks,
        found: None,
    };
    strategy.change(&mut inspect)?;
    inspect
        .found
        .ok_or_else(|| Error::Internal("a look at gradients found nothing".into()))
}

/// An inspection is a commit action that changes nothing. So it has the step lock: no step and no
/// apply is in progress.
struct InspectGradient<'a> {
    gradients: &'a Arc<Gradients>,
    index: usize,
    optimizer: Option<&'a Arc<Optimizer>>,
    ranks: &'a Ranks,
    found: Option<Value>,
}

impl InspectGradient<'_> {
    /// Whether runs are accumulated without the variable: it is frozen.
    fn is_left_out(&self) -> bool {
        let gradients = self.gradients;
        let index = self.index;
        let Some(optimizer) = self.optimizer else {
            return gradients.accumulation().is_left_out(index);
        };
        let accumulates = gradients.accumulation_steps() > 1 || gradients.accumulation().runs > 0;
        accumulates && optimizer.lock().group(&gradients.variables()[index]).frozen
    }
}

impl CommitAction for InspectGradient<'_> {
    fn prepare(&mut self) -> Result<()> {
        let gradients = self.gradients;
        let index = self.index;
        let variable = &gradients.variables()[index];
        // If there is no new run, the accumulated gradients are inspected: a flush would apply
        // those.
        let contributions = gradients.applicable(None, true)?;
        let launcher = launcher_of(gradients.variables())?;
        let _claim = gradients.claim()?;
        let scale = |optimizer: &Arc<Optimizer>| optimizer.lock().loss_scale_of(contributions.step);
        let unscale = 1.0 / self.optimizer.map_or(1.0, scale);
        let weight = contributions.total_weight() + gradients.accumulation().weight;
        let is_left_out = self.is_left_out();
        let mut sources = GradientSources::new(gradients, contributions, weight, unscale);
        let purpose = format_args!("a look at the gradient of {variable:?}");
        let further = |add: &mut AddQuantity<'_>| {
            add(&"the variable", variable.name().as_str().into());
            add(&"the factor that undoes the loss scale", unscale.into());
            add(&"whether the variable is frozen", is_left_out.into());
        };
        let exchange = if self.ranks.is_alone() {
            None
        } else {
            Some(Exchange::begin(
                self.ranks, gradients, &sources, &purpose, &further, false,
            )?)
        };
        sources.weigh(exchange.as_ref().map_or(weight, Exchange::total_weight));
        if sources.total_weight == 0.0 {
            return Err(Error::precondition(
                "gradients: all weights are 0; an apply would do nothing",
            ));
        }
        if is_left_out {
            return Err(Error::NotFound(format!(
                "index: {variable:?} is frozen, and gradients of frozen variables are not \
                 accumulated; an apply would not update it"
            )));
        }
        let has_variable = match &exchange {
            Some(exchange) => exchange.has_variable(index),
            None => sources.has_variable(index),
        };
        if !has_variable {
            return Err(Error::NotFound(format!(
                "index: no replica contributed to {variable:?}; an apply would not update it"
            )));
        }
        let dense = match &exchange {
            Some(exchange) => exchange.inspect(&mut sources, index, launcher)?,
            None => {
                sources.merge_own_rows(&|other| other == index, Summing::AtOnce)?;
                None
            }
        };
        self.found = Some(match dense {
            Some(dense) => Value::Tensor(dense),
            None => gradient(&sources, index, launcher)?,
        });
        Ok(())
    }

    fn commit(&mut self) {}
}

/// The gradient of variable `index`, from the sources of this process.
fn gradient(sources: &GradientSources<'_>, index: usize, launcher: Launcher) -> Result<Value> {
    let variable = &sources.variables()[index];
    let dtype = real::computing(variable.dtype());
    let shape = variable.shape();
    let device = variable.device();
    let Some(rows) = sources.rows(index) else {
        let gradient = Tensor::uninitialized(dtype, shape, device)?;
        launcher.write_gradient(sources, index, &gradient)?;
        return Ok(Value::Tensor(gradient));
    };
    let values = Tensor::uninitialized(dtype, shape.with_size(0, rows.rows().len()), device)?;
    launcher.write_gradient(sources, index, &values)?;
    Value::indexed_slices(values, rows.indices(device)?, shape)
}

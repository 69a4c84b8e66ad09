//! The quantities that must be equal on all ranks before they exchange gradients or new weights.

use crate::apply::plan::TreatmentPlan;
use crate::apply::sources::GradientSources;
use crate::apply::workspace::ApplyWorkspace;
use crate::gradients::Gradients;
use crate::rules::UpdateRule;
use crate::state::average::{AverageKind, Averaging};
use crate::state::memory::OptimizerMemory;
use crate::state::settings::StateBits;
use umbo_strategy::ranks::AddQuantity;

/// Adds which variables are frozen and which are selected: a rank that froze other variables would
/// send other bytes.
pub(crate) fn add_selected(
    work: &ApplyWorkspace,
    plan: &TreatmentPlan,
    sources: &GradientSources<'_>,
    add: &mut AddQuantity<'_>,
) {
    for (index, variable) in sources.variables().iter().enumerate() {
        let frozen = !plan.updates(index);
        add(
            &format_args!("whether '{}' is frozen", variable.name()),
            frozen.into(),
        );
    }
    for item in &work.items {
        let name = sources.variables()[item.index].name();
        add(&"the next variable that is updated", name.as_str().into());
    }
}

/// Adds the quantities of gradients that must be equal on all ranks.
pub(crate) fn add_gradients(gradients: &Gradients, add: &mut AddQuantity<'_>) {
    add(
        &"the number of variables",
        gradients.variables().len().into(),
    );
    for (index, variable) in gradients.variables().iter().enumerate() {
        let name = variable.name();
        add(
            &format_args!("the name of variable {index}"),
            name.as_str().into(),
        );
        add(
            &format_args!("the type of '{name}'"),
            variable.dtype().name().into(),
        );
        let dtype = gradients.dtype(index);
        add(
            &format_args!("the type of the gradient of '{name}'"),
            dtype.name().into(),
        );
        add(
            &format_args!("the shape of '{name}'"),
            variable.shape()[..].into(),
        );
        let shards = variable.sharding().map(|sharding| sharding.boundaries());
        let shards = shards.as_deref();
        add(&format_args!("where '{name}' is divided"), shards.into());
        let is_row_sparse = gradients.is_row_sparse(index);
        add(
            &format_args!("whether the gradient of '{name}' is row-sparse"),
            is_row_sparse.into(),
        );
    }
    let reduction = format!("{:?}", gradients.loss_reduction());
    add(&"the reduction of the losses", reduction.as_str().into());
    add(
        &"the number of accumulation steps",
        gradients.accumulation_steps().into(),
    );
}

/// Adds the settings of an update that must be equal on all ranks, since each rank computes weights
/// for all.
pub(crate) fn add_settings(
    state: &OptimizerMemory,
    plan: &TreatmentPlan,
    work: &ApplyWorkspace,
    sources: &GradientSources<'_>,
    rule: &dyn UpdateRule,
    learning_rate: f64,
    add: &mut AddQuantity<'_>,
) {
    add(&"the update rule", rule.name().into());
    add(&"the learning rate", learning_rate.into());
    for (name, value) in rule.settings() {
        add(&format_args!("the rule's {name}"), value.into());
    }
    add(&"the weight decay", state.settings.weight_decay.into());
    add(
        &"the global clip norm",
        state.settings.global_clip_norm.into(),
    );
    add(&"the clip value", state.settings.clip_value.into());
    let is_coded = state.settings.state_bits == StateBits::Eight;
    add(&"whether states have 8 bits", is_coded.into());
    let seed = state.settings.stochastic_rounding;
    add(&"whether weights are rounded", seed.is_some().into());
    add(&"the seed of the rounding", seed.unwrap_or(0).into());
    for (name, value) in averaging_numbers(state.settings.averaging) {
        add(&format_args!("the option {name}"), value.into());
    }
    for item in &work.items {
        let name = sources.variables()[item.index].name();
        let group = &plan.treatments[item.index].group;
        let rates = state.rates(group, rule, learning_rate);
        add(
            &format_args!("the learning rate of '{name}'"),
            rates.learning_rate.into(),
        );
        add(
            &format_args!("the weight decay of '{name}'"),
            rates.weight_decay.into(),
        );
        for scalar in item
            .update
            .iter()
            .flat_map(|update| &update.scalars.running)
        {
            let quantity =
                format_args!("a scalar that the updates of '{name}' so far have come to");
            add(&quantity, (*scalar).into());
        }
    }
}

/// The numbers of a moving average of weights, by the names of the C options.
fn averaging_numbers(averaging: Option<Averaging>) -> [(&'static str, Option<f64>); 4] {
    let of_kind = averaging.map(|averaging| match averaging.kind {
        AverageKind::Mean => (1.0, 0.0),
        AverageKind::Exponential { decay, warmup } => (decay, f64::from(warmup)),
    });
    [
        ("average_decay", of_kind.map(|(decay, _)| decay)),
        ("average_warmup", of_kind.map(|(_, warmup)| warmup)),
        (
            "average_start",
            averaging.map(|averaging| averaging.start as f64),
        ),
        (
            "average_interval",
            averaging.map(|averaging| averaging.interval as f64),
        ),
    ]
}

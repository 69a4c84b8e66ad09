//! Gradients of all replicas, and the optimizers that apply them centrally.
//!
//! Replicas write gradients into buffers of their own and submit them with a weight
//! ([`gradients`]; `contribute`, from inside of a callback; `accumulation`, over several runs;
//! [`inspection`], in a step that is not to count). Of large row-sparse variables they contribute
//! some rows ([`rows`]), and an apply merges those (`row_sums`). Applying ([`mod@apply`];
//! [`action`]) reduces the buffers and updates the variables in one pass by a rule ([`rule`]; one
//! file each) whose state is held once, on the variables' device ([`state`]). What happens around
//! the rule is in [`settings`].

mod accumulation;
pub mod action;
pub mod adagrad;
pub mod adam;
pub mod adamw;
pub mod apply;
mod contribute;
mod contributions;
pub mod ftrl;
pub mod gradients;
mod gradients_options;
pub mod inspection;
pub mod lamb;
pub mod momentum;
mod plan;
mod replica;
pub mod rmsprop;
mod row_buffer;
mod row_sums;
pub mod rows;
pub mod rule;
pub mod settings;
pub mod sgd;
mod sources;
pub mod state;
mod variables;
mod work;

pub use action::ApplyAction;
pub use apply::{ApplyOptions, ApplyReport, Outcome, apply, apply_with};
pub use gradients::{GradientMode, Gradients, LossReduction};
pub use gradients_options::GradientsOptions;
pub use rows::AddedRows;
pub use rule::UpdateRule;
pub use settings::{Group, LossScaling, NonFinite, Settings};
pub use state::Optimizer;

//! Gradients of all replicas, and the optimizers that apply them centrally.
//!
//! Replicas write gradients into buffers of their own and submit them with a weight
//! ([`gradients`]; `contribute`, from inside of a callback). Applying ([`apply`]) reduces the buffers and updates the variables in one pass
//! by a rule ([`rule`]; one file each) whose state is held once, on the variables' device
//! ([`state`]).

pub mod adam;
pub mod apply;
mod contribute;
pub mod gradients;
pub mod momentum;
pub mod rule;
pub mod sgd;
pub mod state;

pub use apply::{ApplyAction, ApplyReport, Outcome, apply};
pub use gradients::{GradientMode, Gradients, LossReduction};
pub use rule::UpdateRule;
pub use state::Optimizer;

//! Gradients of all replicas, and the optimizers that apply them centrally.
//!
//! Replicas write gradients into buffers of their own and submit them with a weight
//! ([`gradients`]; `contribute`, from inside of a callback; `accumulation`, over several runs;
//! [`inspection`], in a step that is not to count). Of large row-sparse variables they contribute
//! some rows ([`rows`]), and an apply merges those (`row_sums`). Applying ([`mod@apply`];
//! [`action`]) reduces the buffers and updates the variables in one pass by a rule ([`rule`]; one
//! file each) whose state is held once, on the variables' device ([`state`]). What happens around
//! the rule is in [`settings`].
//!
//! The files in layers. A file uses those of earlier layers, and of its own those named before it:
//!
//! 1. `rule` and the rules; `settings`, `gradients_options`; `report`: what can be chosen, and what is
//!    told.
//! 2. `plan`: what an optimizer does with each of some variables. `workspace`: the memory of applies.
//!    `variables`: what an optimizer keeps for each variable.
//! 3. `state`: an optimizer. `saved`: its state as a whole, taken out and put back.
//! 4. `row_buffer`, `rows`, `lent`, `replica`: what one replica writes or lends. `row_sums`, `accumulation`: sums of several runs.
//!    `contributions`: what all have submitted.
//! 5. `phase`, `gradients`; `lifecycle`: from a step to its apply; `writing`: what a replica writes in a
//!    step; `contribute` and `inspection`, which write and look at them; `strict`, which
//!    looks for mistakes of callbacks; `saved_gradients`.
//! 6. `sources`: what the gradients of one apply are made of. `work`: what is done to all variables, by a
//!    `launcher`: `host`, the workers, or `on_gpu`, a GPU's kernels.
//! 7. `reduced`: a look at what an apply would take; `reduced_over_ranks`: the same of several ranks. `action`: an apply as a change of central state. `apply`: in which context it happens when.
//!
//! The strategy knows of all this only what [`crate::strategy::commit`] has names for.

mod accumulation;
pub mod action;
pub mod adagrad;
pub mod adam;
pub mod apply;
mod contribute;
mod contributions;
pub mod custom;
pub mod custom_kernels;
mod exchange;
pub mod ftrl;
pub mod gradients;
mod gradients_options;
mod host;
pub mod inspection;
mod launcher;
mod lent;
mod lifecycle;
pub mod momentum;
mod non_finite;
mod on_gpu;
mod phase;
mod plan;
pub mod reduced;
mod reduced_over_ranks;
mod replica;
mod report;
pub mod rmsprop;
mod row_buffer;
mod row_sums;
pub mod rows;
pub mod rule;
pub mod saved;
pub mod saved_gradients;
pub mod settings;
pub mod sgd;
mod sources;
pub mod state;
mod strict_buffers;
mod variable_states;
mod work;
mod workspace;
mod writing;

pub use action::ApplyAction;
pub use apply::{Outcome, apply, apply_with};
pub use gradients::{GradientMode, Gradients, LossReduction};
pub use gradients_options::GradientsOptions;
pub use report::{ApplyOptions, ApplyReport};
pub use rows::AddedRows;
pub use rule::UpdateRule;
pub use settings::{Group, LossScaling, NonFinite, Settings};
pub use state::Optimizer;

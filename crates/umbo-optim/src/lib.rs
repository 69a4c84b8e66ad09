#![doc = include_str!("README.md")]
#![deny(unsafe_code)]
#![allow(
    rustdoc::private_intra_doc_links,
    reason = "these pages are for those who change the core: they are made with private items"
)]

#[macro_use]
extern crate umbo_base;

mod accumulation;
pub mod action;
pub mod adagrad;
pub mod adam;
pub mod apply;
mod contribute;
mod contributions;
pub mod custom;
mod custom_kernels;
mod exchange;
pub mod ftrl;
mod gpu_operands;
pub mod gradients;
mod gradients_options;
mod guard;
mod host;
pub mod inspection;
mod launcher;
mod launchers;
mod lending;
mod lent;
mod lifecycle;
mod means;
pub mod momentum;
mod non_finite;
mod on_gpu;
mod phase;
mod plan;
pub mod reduced;
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
pub use apply::{Applied, apply, apply_with};
pub use gradients::{GradientMode, Gradients, LossReduction};
pub use gradients_options::GradientsOptions;
pub use report::{ApplyOptions, ApplyReport};
pub use rows::AddedRows;
pub use rule::UpdateRule;
pub use settings::{LossScaling, NonFinite, Settings, VariableGroup};
pub use state::Optimizer;

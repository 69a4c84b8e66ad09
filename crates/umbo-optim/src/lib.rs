#![doc = include_str!("README.md")]
#![deny(unsafe_code)]
#[macro_use]
extern crate umbo_base;

pub mod apply;
mod exchange;
pub mod gradients;
pub mod rules;
pub mod state;

/// The names of the optional parts that this crate was built with.
pub const FEATURES: &[&str] = &[
    #[cfg(feature = "rules-extra")]
    "rules-extra",
];

pub use apply::action::ApplyAction;
pub use apply::report::{ApplyOptions, ApplyReport};
pub use apply::{Applied, apply, apply_with};
pub use gradients::options::GradientsOptions;
pub use gradients::rows::AddedRows;
pub use gradients::{GradientMode, Gradients, LossReduction};
pub use rules::UpdateRule;
pub use state::Optimizer;
pub use state::average::{AverageKind, Averaging};
pub use state::schedule::{NamedSchedule, Plateau, PlateauState, ScheduleKind};
pub use state::settings::{LossScaling, NonFinite, Settings, StateBits, VariableGroup};

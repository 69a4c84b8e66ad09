//! Gradients and optimizers, driven as a strategy drives them.

mod certificate;
mod contract;
mod failures;
mod oracle;
mod setup;
mod steady;

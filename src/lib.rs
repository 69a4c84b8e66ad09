//! Umbo: central-storage data-parallel training for C and C++.

pub mod cross_device;
pub mod device;
pub mod error;
pub mod kernels;
pub mod optimizer;
pub mod strategy;
pub mod tensor;
pub mod values;

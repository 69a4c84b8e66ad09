//! Umbo: central-storage data-parallel training for C and C++.

pub mod device;
pub mod error;
pub mod input;
pub mod kernels;
pub mod strategy;
pub mod tensor;
pub mod values;

//! Umbo: central-storage data-parallel training for C and C++.

pub mod cross_device;
pub mod device;
pub mod error;
pub mod ffi;
pub mod kernels;
pub mod observe;
pub mod cross_device;
pub mod strategy;
pub mod tensor;
pub mod values;

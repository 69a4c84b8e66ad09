//! Floating-point elements: which there are, and how they are converted.

pub mod gradient_element;
pub mod half_precision;
pub mod lanes;
pub mod narrow;
pub mod real;

//! Floating-point elements: their types and their conversions.

pub mod gradient_element;
pub mod half_precision;
pub mod lanes;
pub mod narrow;
pub mod real;

//! Matrices of float32 numbers: products, and the nearest orthogonal matrix.

pub mod orthogonal;
pub mod product;
mod register_tile;

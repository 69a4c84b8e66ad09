//! The loops over memory. A kernel takes plain views and knows nothing of tensors, replicas or C.

pub mod dtype;
pub mod half_precision;
pub mod instruction_set;
pub mod layout;
pub mod reduction;
pub mod strided;
pub mod view;

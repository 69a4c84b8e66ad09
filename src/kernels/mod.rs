//! The loops over memory. A kernel takes plain views and knows nothing of tensors, replicas or C.

pub mod dtype;
pub mod layout;
pub mod rows;
pub mod view;

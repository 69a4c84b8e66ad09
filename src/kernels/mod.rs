//! The loops over memory. A kernel takes plain views and knows nothing of tensors, replicas or C.

pub mod accumulate;
pub mod combine;
pub mod concatenate;
pub mod copy;
pub mod dtype;
pub mod gradient_element;
pub mod half_precision;
pub mod half_sums;
pub mod instruction_set;
pub mod layout;
pub mod measure;
pub mod narrow;
pub mod over_axes;
pub mod over_replicas;
mod prefetch;
pub mod probe;
pub mod real;
pub mod reduction;
pub mod row_order;
pub mod row_sum;
pub mod rows;
pub mod scatter;
pub mod streaming;
pub mod strided;
pub mod update;
pub mod view;
pub mod weighted_sum;

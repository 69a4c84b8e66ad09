//! The elements of a dataset: their structure, their memory, and how several become one.

pub(crate) mod element_buffer;
pub(crate) mod leaves;
pub(crate) mod padding;
pub(crate) mod spec;
pub(crate) mod stack;
pub(crate) mod window;

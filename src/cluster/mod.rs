//! Clusters: which tasks there are, and which of them this process is.

pub mod resolver;

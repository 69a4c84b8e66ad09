//! Descriptions of variables as most tests want them.

use umbo_core::strategy::variables::NewVariable;
use umbo_core::values::variable::{Aggregation, Synchronization};

/// One that says nothing of training and synchronisation.
pub fn new_variable(name: &str, aggregation: Aggregation) -> NewVariable {
    NewVariable {
        name: name.into(),
        trainable: None,
        synchronization: Synchronization::Auto,
        aggregation,
    }
}

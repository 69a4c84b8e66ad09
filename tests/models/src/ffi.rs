//! The C layer's hazard records.

mod model;

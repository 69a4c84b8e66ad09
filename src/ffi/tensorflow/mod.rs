//! What only programs need that follow the reference call by call: other names, deep copies, and what
//! a central storage strategy answers with UNIMPLEMENTED. `umbo/tensorflow.h` declares it.

pub mod collective;
pub mod input;
pub mod lists;
pub mod logical_device;
pub mod strategy;
pub mod update;
pub mod variable;
pub mod variable_creator;

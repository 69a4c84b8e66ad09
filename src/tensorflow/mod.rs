//! The functions for programs that follow the reference call by call: the default strategy, deep
//! copies, variable creators, destinations. `umbo/tensorflow.h` declares it, and has other names
//! inline.

pub mod collective;
pub mod input;
pub mod lists;
pub mod strategy;
pub mod variable_creator;

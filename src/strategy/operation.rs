//! What replicas do together: the operations that synchronise.

use std::fmt;

use super::symbol;
use crate::collectives::ReduceOp;

/// What is compared between the replicas: they must all ask for the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A merge call of the caller's; the number tells functions apart.
    MergeCall {
        /// The address of the function.
        function: usize,
    },
    /// An all-reduce.
    AllReduce(ReduceOp),
    /// An all-gather along this axis.
    AllGather(i64),
    /// An assignment to a variable.
    Assign {
        /// [`crate::values::variable::Variable::key`].
        variable: usize,
        /// The variable's name, for messages.
        name: String,
        /// `assign`, `assign_add` or `assign_sub`.
        kind: &'static str,
    },
    /// An assignment to several variables.
    AssignAll {
        /// Their keys, in order.
        variables: Vec<usize>,
        /// The name of the first, for messages.
        first: String,
    },
    /// An optimizer's apply; the numbers tell optimizers and gradients apart.
    Apply {
        /// The address of the optimizer.
        optimizer: usize,
        /// The address of the gradients.
        gradients: usize,
        /// The options, as a number that only the optimizer understands.
        options: u8,
    },
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::MergeCall { function } => {
                write!(formatter, "merge_call of {}", symbol::of_function(*function))
            }
            Operation::AllReduce(op) => write!(formatter, "all_reduce {}", op.name()),
            Operation::AllGather(axis) => write!(formatter, "all_gather along axis {axis}"),
            Operation::Assign { name, kind, .. } => write!(formatter, "{kind} to '{name}'"),
            Operation::AssignAll { variables, first } => {
                write!(formatter, "assign to {} variables from '{first}' on", variables.len())
            }
            Operation::Apply { optimizer, gradients, options } => {
                write!(
                    formatter,
                    "apply of gradients {gradients:#x} by optimizer {optimizer:#x} with options \
                     {options:#x}"
                )
            }
        }
    }
}

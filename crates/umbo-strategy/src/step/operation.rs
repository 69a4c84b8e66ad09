//! Synchronising operations of replicas.

use std::fmt;

use umbo_base::text::Text;
use umbo_tensor::collectives::ReduceOp;
use umbo_tensor::values::variable::Variable;

/// A synchronising operation. All replicas must ask for an equal one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A merge call of the program; the address distinguishes functions.
    MergeCall {
        /// The address of the function.
        function: usize,
    },
    /// An all-reduce.
    AllReduce(ReduceOp),
    /// An all-gather along this axis.
    AllGather(i64),
    /// An assignment to variables.
    Assign {
        /// [`umbo_tensor::values::variable::Variable::key`] of each, in order.
        variables: Vec<usize>,
        /// The name of the first, for messages.
        first: String,
        /// `assign`, `assign_add` or `assign_sub`.
        kind: &'static str,
    },
    /// An optimizer's apply; the addresses distinguish optimizers and gradients, what is for
    /// messages does not have to.
    Apply {
        /// The address of the optimizer.
        optimizer: usize,
        /// The address of the gradients.
        gradients: usize,
        /// The options, in words; none for the defaults.
        options: &'static str,
        /// The name of the optimizer's rule, for messages.
        rule: Text,
        /// The name of the first variable, for messages.
        first: Text,
        /// The number of variables, for messages.
        variables: usize,
    },
}

impl Operation {
    /// A write to `variables`, of this kind.
    pub(crate) fn writing(variables: &[Variable], kind: &'static str) -> Operation {
        let first = variables
            .first()
            .map_or_else(String::new, |first| first.name().to_string());
        Operation::Assign {
            variables: variables.iter().map(Variable::key).collect(),
            first,
            kind,
        }
    }

    /// How this differs from another call where the words of both may be the same.
    pub(crate) fn difference(&self, other: &Operation) -> Option<&'static str> {
        match (self, other) {
            (
                Operation::Apply {
                    optimizer,
                    gradients,
                    ..
                },
                Operation::Apply {
                    optimizer: by,
                    gradients: other_gradients,
                    ..
                },
            ) => match (optimizer == by, gradients == other_gradients) {
                (true, true) => None,
                (true, false) => Some("the gradients are different ones"),
                (false, true) => Some("the optimizers are different ones"),
                (false, false) => Some("the gradients and the optimizers are different ones"),
            },
            (
                Operation::Assign { variables, .. },
                Operation::Assign {
                    variables: other_gradients,
                    ..
                },
            ) if variables != other_gradients && self.to_string() == other.to_string() => {
                Some(match variables.len() {
                    1 => "the variables are different ones of the same name",
                    _ => "the variables are not the same, or not in the same order",
                })
            }
            _ => None,
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Operation::MergeCall { function } => {
                write!(formatter, "merge_call of the function at {function:#x}")
            }
            Operation::AllReduce(op) => write!(formatter, "all_reduce {}", op.name()),
            Operation::AllGather(axis) => write!(formatter, "all_gather along axis {axis}"),
            Operation::Assign {
                variables,
                first,
                kind,
            } => match variables.len() {
                1 => write!(formatter, "{kind} to '{first}'"),
                count => write!(formatter, "{kind} to {count} variables from '{first}' on"),
            },
            Operation::Apply {
                options,
                rule,
                first,
                variables,
                ..
            } => {
                write!(formatter, "apply of gradients of '{first}'")?;
                match variables {
                    0 | 1 => {}
                    2 => formatter.write_str(" and another variable")?,
                    more => write!(formatter, " and {} other variables", more - 1)?,
                }
                write!(formatter, " by an optimizer with the rule {rule}")?;
                if options.is_empty() {
                    Ok(())
                } else {
                    write!(formatter, ", with {options}")
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(
        optimizer: usize,
        gradients: usize,
        options: &'static str,
        variables: usize,
    ) -> Operation {
        let rule = "adam".into();
        let first = "w".into();
        Operation::Apply {
            optimizer,
            gradients,
            options,
            rule,
            first,
            variables,
        }
    }

    fn assign(variable: usize, name: &str, kind: &'static str) -> Operation {
        Operation::Assign {
            variables: vec![variable],
            first: name.into(),
            kind,
        }
    }

    fn assign_all(variables: &[usize]) -> Operation {
        Operation::Assign {
            variables: variables.into(),
            first: "w".into(),
            kind: "assign",
        }
    }

    #[test]
    fn operations_have_descriptions() {
        let by = "by an optimizer with the rule adam";
        for (operation, words) in [
            (
                apply(1, 2, "", 1),
                format!("apply of gradients of 'w' {by}"),
            ),
            (
                apply(1, 2, "flush", 2),
                format!("apply of gradients of 'w' and another variable {by}, with flush"),
            ),
            (
                apply(1, 2, "", 3),
                format!("apply of gradients of 'w' and 2 other variables {by}"),
            ),
            (assign(1, "w", "assign_add"), "assign_add to 'w'".to_owned()),
            (
                assign_all(&[1, 2]),
                "assign to 2 variables from 'w' on".to_owned(),
            ),
        ] {
            assert_eq!(operation.to_string(), words);
        }
    }

    #[test]
    fn operations_with_equal_descriptions_name_their_difference() {
        for (one, other, difference) in [
            (
                apply(1, 2, "", 1),
                apply(1, 3, "", 1),
                Some("the gradients are different ones"),
            ),
            (
                apply(1, 2, "", 1),
                apply(4, 2, "", 1),
                Some("the optimizers are different ones"),
            ),
            (
                apply(1, 2, "", 1),
                apply(4, 3, "", 1),
                Some("the gradients and the optimizers are different ones"),
            ),
            // The texts differ.
            (apply(1, 2, "", 1), apply(1, 2, "flush", 1), None),
            (assign(1, "w", "assign"), assign(2, "b", "assign"), None),
            (assign(1, "w", "assign"), assign(1, "w", "assign_sub"), None),
            (
                assign(1, "w", "assign"),
                assign(2, "w", "assign"),
                Some("the variables are different ones of the same name"),
            ),
            (
                assign_all(&[1, 2]),
                assign_all(&[1, 3]),
                Some("the variables are not the same, or not in the same order"),
            ),
            (assign_all(&[1, 2]), assign_all(&[1]), None),
            (Operation::AllGather(0), Operation::AllGather(1), None),
        ] {
            assert!(one != other);
            assert_eq!(one.difference(&other), difference);
        }
    }
}

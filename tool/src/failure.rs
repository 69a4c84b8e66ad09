//! The reasons why a command has no report.

use std::fmt::{self, Display, Formatter};
use std::path::Path;

use umbo_core::error::Error;

/// The reason why a command has no report.
#[derive(Debug)]
pub enum Failure {
    /// The command line is wrong.
    CommandLine(lexopt::Error),
    /// The command line is right, but the task cannot be done.
    Task(String),
}

impl Failure {
    /// The failure for a wrong command line.
    pub fn wrong(problem: impl Into<String>) -> Failure {
        Failure::CommandLine(problem.into().into())
    }

    /// The failure for a file that cannot be read or written, or whose contents are not as
    /// expected.
    pub fn of_file(path: &Path, problem: impl Display) -> Failure {
        Failure::Task(format!("{}: {problem}", path.display()))
    }
}

impl Failure {
    /// The failure for a file that the library could not write. Its error names the file.
    pub fn of_output(error: Error) -> Failure {
        Failure::Task(error.to_string())
    }
}

impl From<lexopt::Error> for Failure {
    fn from(error: lexopt::Error) -> Failure {
        Failure::CommandLine(error)
    }
}

impl From<Error> for Failure {
    /// Values that the library refuses come from the command line.
    fn from(error: Error) -> Failure {
        match error {
            Error::InvalidArgument { .. } | Error::OutOfRange { .. } => {
                Failure::wrong(error.to_string())
            }
            error => Failure::Task(error.to_string()),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Failure::CommandLine(error) => error.fmt(formatter),
            Failure::Task(problem) => problem.fmt(formatter),
        }
    }
}

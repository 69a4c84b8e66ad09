//! Everything that can fail, by cause, and the canonical status of each cause.
//!
//! The core returns [`Error`]; the C layer converts it to a status code and a message. A message
//! names the argument, what was wrong with it and what would be right. Failures of several replicas
//! are returned together in [`Error::Replicas`], in replica order.

pub mod memory;
mod shortage;
mod system;

use std::any::Any;
use std::borrow::Cow;
use std::fmt;

pub use shortage::Shortage;

/// The result of everything in the core that can fail.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// An object that a callback attached to its failure, such as a C++ exception. It is returned
/// unchanged in the thread that called the library. Dropping it releases it.
pub type Payload = Box<dyn Any + Send>;

/// The text of a panic, if it has one.
pub fn panic_text(panic: &(dyn Any + Send)) -> Option<&str> {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str))
}

enum_with_all! {
    /// The canonical status codes, with their usual numbers.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    #[repr(i32)]
    #[expect(missing_docs, reason = "the names are the field's standard terms")]
    pub enum Status {
        Ok = 0,
        Cancelled = 1,
        Unknown = 2,
        InvalidArgument = 3,
        DeadlineExceeded = 4,
        NotFound = 5,
        AlreadyExists = 6,
        PermissionDenied = 7,
        ResourceExhausted = 8,
        FailedPrecondition = 9,
        Aborted = 10,
        OutOfRange = 11,
        Unimplemented = 12,
        Internal = 13,
        Unavailable = 14,
        DataLoss = 15,
    }
}

impl Status {
    /// The status with this code, if there is one.
    pub fn from_code(code: i32) -> Option<Status> {
        usize::try_from(code)
            .ok()
            .and_then(|index| Self::ALL.get(index).copied())
    }

    /// The code's number.
    pub fn code(self) -> i32 {
        self as i32
    }

    /// The code's canonical name, such as `INVALID_ARGUMENT`.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; Status::ALL.len()] = [
            "OK",
            "CANCELLED",
            "UNKNOWN",
            "INVALID_ARGUMENT",
            "DEADLINE_EXCEEDED",
            "NOT_FOUND",
            "ALREADY_EXISTS",
            "PERMISSION_DENIED",
            "RESOURCE_EXHAUSTED",
            "FAILED_PRECONDITION",
            "ABORTED",
            "OUT_OF_RANGE",
            "UNIMPLEMENTED",
            "INTERNAL",
            "UNAVAILABLE",
            "DATA_LOSS",
        ];
        NAMES[self as usize]
    }
}

/// All errors, by cause.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument has a wrong value, shape, dtype or name.
    #[error("{argument}: {problem}")]
    InvalidArgument {
        /// The argument as the caller knows it.
        argument: Cow<'static, str>,
        /// The mistake, and a right value.
        problem: String,
    },
    /// An axis, index or position is out of range.
    #[error("{argument}: {problem}")]
    OutOfRange {
        /// The argument as the caller knows it.
        argument: Cow<'static, str>,
        /// The mistake, and a right value.
        problem: String,
    },
    /// The call is right, but not now or not here: a wrong context, a wrong order, a strategy that
    /// drains.
    #[error("{0}")]
    FailedPrecondition(String),
    /// A device, file or name does not exist.
    #[error("{0}")]
    NotFound(String),
    /// Memory, threads or another resource were not available.
    #[error("{0}")]
    ResourceExhausted(Shortage),
    /// This strategy or this build does not offer it.
    #[error("{0}")]
    Unimplemented(String),
    /// The library offers it, but a driver or a device that it needs is not available now.
    #[error("{0}")]
    Unavailable(String),
    /// The operating system refused access.
    #[error("{0}")]
    PermissionDenied(String),
    /// A file or stream is damaged.
    #[error("{0}")]
    DataLoss(String),
    /// It was stopped on request, or because another replica failed.
    #[error("{0}")]
    Cancelled(String),
    /// It was not finished at the deadline.
    #[error("{0}")]
    DeadlineExceeded(String),
    /// A defect of this library.
    #[error("{0}; this is a defect of umbo, please report it")]
    Internal(String),
    /// A callback of the caller reported a failure.
    #[error("{message}")]
    Callback {
        /// The status the callback returned.
        status: Status,
        /// The message of the callback.
        message: String,
        /// The object that the callback attached.
        payload: Option<Payload>,
    },
    /// One or more replicas failed; all of them are listed.
    #[error("{0}")]
    Replicas(ReplicaFailures),
    /// Another process of this training failed, is at another point of the program, or cannot be
    /// reached.
    #[error("{message}")]
    Rank {
        /// The rank of that process, if it is known.
        rank: Option<usize>,
        /// The status of that process, or of the failure as a whole.
        status: Status,
        /// The message.
        message: String,
    },
    /// Another error, in a part of the work.
    #[error("{place}{}{error}", if error.replicas().is_some() { "\n" } else { ": " })]
    Within {
        /// The part.
        place: String,
        /// The error in this part.
        error: Box<Error>,
    },
    /// Another error, of a dataset's item that did not just take the place of one item: what
    /// follows it follows in a different place than without the failure. See [`Error::shifting`].
    #[error("{0}")]
    Shifting(Box<Error>),
    /// Another error, of a limit of the request for a dataset's item, which has ended the request
    /// before the item was there. The next request continues where this one has stopped.
    #[error("{0}")]
    Interrupted(Box<Error>),
    /// Another error, of an operation that the caller knows by this name.
    #[error("{operation}: {error}")]
    Named {
        /// The name of the operation that the caller called.
        operation: Cow<'static, str>,
        /// The error. It is neither named itself nor one of replicas. See [`Error::named`].
        error: Box<Error>,
    },
}

impl Error {
    /// The error for a wrong value, shape, dtype or name of `argument`.
    pub fn invalid(argument: impl Into<Cow<'static, str>>, problem: impl Into<String>) -> Error {
        Error::InvalidArgument {
            argument: argument.into(),
            problem: problem.into(),
        }
    }

    /// The error if the axis, index or position `argument` is out of range.
    pub fn out_of_range(
        argument: impl Into<Cow<'static, str>>,
        problem: impl Into<String>,
    ) -> Error {
        Error::OutOfRange {
            argument: argument.into(),
            problem: problem.into(),
        }
    }

    /// The error for a call that is right, but not now or not here.
    pub fn precondition(problem: impl Into<String>) -> Error {
        Error::FailedPrecondition(problem.into())
    }

    /// The error for a part of the library that it was built without: what the part offers, and the
    /// feature of the build that brings it.
    pub fn left_out(part: &str, feature: &str) -> Error {
        Error::Unimplemented(format!(
            "{part}: this library was built without the feature '{feature}'; one that was built \
             with it is needed"
        ))
    }

    /// Returns this error with the name of the failed operation in front of its message. If the
    /// error already has a name, it keeps it: that is the name of the innermost operation,
    /// which failed by itself. Failures of replicas stay as they are, because their messages
    /// name the replicas.
    pub fn named(self, operation: impl Into<Cow<'static, str>>) -> Error {
        match self {
            Error::Named { .. } | Error::Replicas(_) => self,
            error => Error::Named {
                operation: operation.into(),
                error: Box::new(error),
            },
        }
    }

    /// Returns this error as one of a part of the work.
    pub fn within(self, place: impl Into<String>) -> Error {
        Error::Within {
            place: place.into(),
            error: Box::new(self),
        }
    }

    /// Returns this error as one behind which a dataset's items follow in other places, so that
    /// they no longer belong to the items of other datasets. If the item comes again, the error
    /// stays as it is.
    pub fn shifting(self) -> Error {
        match self {
            error if error.comes_again() => error,
            error @ Error::Shifting(_) => error,
            error => Error::Shifting(Box::new(error)),
        }
    }

    /// Returns the error that [`Error::shifting`] was called on.
    pub fn not_shifting(self) -> Error {
        match self {
            Error::Shifting(error) => *error,
            error => error,
        }
    }

    /// Whether a request for a dataset's item has failed with this error, and the item comes with
    /// another request: nothing is lost where memory was lacking, and where a limit has ended the
    /// request.
    pub fn comes_again(&self) -> bool {
        self.status() == Status::ResourceExhausted || self.is_interruption()
    }

    /// Whether a limit of the request has ended it ([`Error::Interrupted`]).
    pub fn is_interruption(&self) -> bool {
        match self {
            Error::Interrupted(_) => true,
            Error::Shifting(error) | Error::Named { error, .. } | Error::Within { error, .. } => {
                error.is_interruption()
            }
            _ => false,
        }
    }

    /// This error without the name of an operation, and without the part in which it occurred.
    pub fn unnamed(&self) -> &Error {
        match self {
            Error::Shifting(error)
            | Error::Interrupted(error)
            | Error::Named { error, .. }
            | Error::Within { error, .. } => error.unnamed(),
            error => error,
        }
    }

    /// The failures of replicas, if this error consists of them.
    pub fn replicas(&self) -> Option<&ReplicaFailures> {
        match self.unnamed() {
            Error::Replicas(failures) => Some(failures),
            _ => None,
        }
    }

    /// The canonical status of this error.
    pub fn status(&self) -> Status {
        match self {
            Error::InvalidArgument { .. } => Status::InvalidArgument,
            Error::OutOfRange { .. } => Status::OutOfRange,
            Error::FailedPrecondition(_) => Status::FailedPrecondition,
            Error::NotFound(_) => Status::NotFound,
            Error::ResourceExhausted(_) => Status::ResourceExhausted,
            Error::Unimplemented(_) => Status::Unimplemented,
            Error::Unavailable(_) => Status::Unavailable,
            Error::PermissionDenied(_) => Status::PermissionDenied,
            Error::DataLoss(_) => Status::DataLoss,
            Error::Cancelled(_) => Status::Cancelled,
            Error::DeadlineExceeded(_) => Status::DeadlineExceeded,
            Error::Internal(_) => Status::Internal,
            Error::Callback { status, .. } | Error::Rank { status, .. } => *status,
            Error::Replicas(failures) => failures.status(),
            Error::Shifting(error)
            | Error::Interrupted(error)
            | Error::Named { error, .. }
            | Error::Within { error, .. } => error.status(),
        }
    }
}

/// One replica's failure.
#[derive(Debug)]
pub struct ReplicaFailure {
    /// The replica's id.
    pub replica: usize,
    /// The canonical name of its compute device.
    pub device: String,
    /// Its error.
    pub error: Error,
    /// Whether it was stopped because of another replica, a deadline or a cancellation, and did
    /// not fail by itself.
    pub stopped: bool,
}

/// The failures of one step, in replica order; never empty.
#[derive(Debug)]
pub struct ReplicaFailures {
    /// A sentence about the step as a whole, such as which replica waited where. It may be empty.
    pub summary: String,
    /// The status of the step, if it is not that of the first failed replica.
    pub overruling_status: Option<Status>,
    /// One record for each replica that failed or was stopped.
    pub failures: Vec<ReplicaFailure>,
}

impl ReplicaFailures {
    /// The status of the step: that of the first failed replica in replica order. Replicas that
    /// were stopped because of another one count only if no other failed.
    pub fn status(&self) -> Status {
        self.overruling_status
            .or_else(|| {
                let first_cause = self.failures.iter().find(|failure| !failure.stopped);
                first_cause
                    .or(self.failures.first())
                    .map(|failure| failure.error.status())
            })
            .unwrap_or(Status::Internal)
    }

    /// A shorter text for places with little space: without the names of devices, and without
    /// replicas that were stopped because others failed.
    pub fn brief(&self) -> String {
        let all_were_stopped = self.failures.iter().all(|failure| failure.stopped);
        let mut lines = Vec::new();
        if !self.summary.is_empty() {
            lines.push(self.summary.clone());
        }
        for ReplicaFailure {
            replica,
            error,
            stopped,
            ..
        } in &self.failures
        {
            if *stopped && !(all_were_stopped && self.summary.is_empty()) {
                continue;
            }
            let status = match error.status() {
                status if status == self.status() => String::new(),
                status => format!("{}: ", status.name()),
            };
            lines.push(format!("replica {replica}: {status}{error}"));
        }
        lines.join("\n")
    }
}

impl fmt::Display for ReplicaFailures {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        if !self.summary.is_empty() {
            formatter.write_str(&self.summary)?;
            separator = "\n";
        }
        for failure in &self.failures {
            let ReplicaFailure {
                replica,
                device,
                error,
                ..
            } = failure;
            let status = error.status().name();
            // The rest of the name is the same for all.
            let device = device
                .rsplit_once("/device:")
                .map_or(device.as_str(), |(_, short)| short);
            write!(
                formatter,
                "{separator}replica {replica} ({device}): {status}"
            )?;
            // The part that all messages share was written above. The name of the called operation
            // may precede it.
            let text = error.to_string();
            let own_text = match text.strip_suffix(&self.summary) {
                Some(name) if !self.summary.is_empty() => name.trim_end_matches(": "),
                _ => &text,
            };
            if !own_text.is_empty() {
                write!(formatter, ": {own_text}")?;
            }
            separator = "\n";
        }
        Ok(())
    }
}

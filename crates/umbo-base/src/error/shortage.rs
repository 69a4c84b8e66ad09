//! The resources that can be exhausted.

use std::io;

use crate::error::Error;

/// A resource that was not available, and the request for it.
#[derive(Debug, thiserror::Error)]
pub enum Shortage {
    /// Memory for a list of items.
    #[error("there is not enough memory for {count} {items}")]
    Items {
        /// The number of items.
        count: usize,
        /// The items, in the plural.
        items: String,
    },
    /// Memory for an object whose size says nothing to the caller.
    #[error("there is not enough memory for {0}")]
    Object(String),
    /// A number of bytes.
    #[error("there is not enough memory: {bytes} bytes {purpose}")]
    Bytes {
        /// The number of bytes.
        bytes: usize,
        /// The device or the purpose, with a preposition: `on CPU:0`.
        purpose: String,
    },
    /// A thread.
    #[error("no thread '{name}' with a stack of {stack_bytes} bytes: {cause}")]
    Thread {
        /// The name that it would have had.
        name: String,
        /// The size of its stack.
        stack_bytes: usize,
        /// The reason of the system.
        cause: io::Error,
    },
    /// A resource that the system, a driver or another library has refused.
    #[error("{operation}: {reason}")]
    Refused {
        /// The operation that needed it, and the file or the device.
        operation: String,
        /// The reason of who refused it.
        reason: String,
    },
    /// A request beyond a limit of this library or of the program.
    #[error("{0}")]
    Limit(String),
}

impl Error {
    /// The error if there is no memory for an object whose size says nothing to the caller.
    #[cold]
    pub fn no_memory_for(object: impl Into<String>) -> Error {
        Error::ResourceExhausted(Shortage::Object(object.into()))
    }

    /// The error if there are no `bytes` bytes on a device or for a purpose, which is named with a
    /// preposition.
    #[cold]
    pub fn no_bytes(bytes: usize, purpose: impl Into<String>) -> Error {
        let purpose = purpose.into();
        Error::ResourceExhausted(Shortage::Bytes { bytes, purpose })
    }

    /// The error for a request beyond a limit, which `problem` names.
    #[cold]
    pub fn beyond_limit(problem: impl Into<String>) -> Error {
        Error::ResourceExhausted(Shortage::Limit(problem.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Status;

    #[test]
    fn messages_say_which_resource_is_lacking() {
        let items = Shortage::Items {
            count: 3,
            items: "names".into(),
        };
        let thread = Shortage::Thread {
            name: "umbo-worker-1".into(),
            stack_bytes: 4096,
            cause: io::Error::other("too many"),
        };
        // The file's name begins like a number of bytes.
        let refused = Shortage::Refused {
            operation: "5.npy: reading it".into(),
            reason: "too many files".into(),
        };
        let expected = [
            (
                Error::ResourceExhausted(items),
                "there is not enough memory for 3 names",
            ),
            (
                Error::no_memory_for("a row"),
                "there is not enough memory for a row",
            ),
            (
                Error::no_bytes(64, "on CPU:0"),
                "there is not enough memory: 64 bytes on CPU:0",
            ),
            (
                Error::ResourceExhausted(thread),
                "no thread 'umbo-worker-1' with a stack of 4096 bytes: too many",
            ),
            (
                Error::ResourceExhausted(refused),
                "5.npy: reading it: too many files",
            ),
            (Error::beyond_limit("9 of 8 are used"), "9 of 8 are used"),
        ];
        for (error, message) in expected {
            assert_eq!(error.to_string(), message);
            assert_eq!(error.status(), Status::ResourceExhausted);
        }
    }
}

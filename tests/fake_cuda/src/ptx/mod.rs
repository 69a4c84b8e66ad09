//! PTX: reading it, and executing it thread by thread with every access checked.

pub mod arithmetic;
pub mod bits16;
pub mod block;
pub mod convert;
pub mod decode;
pub mod execute;
pub mod kernel;
pub mod lexer;

pub mod names;
pub mod parser;
pub mod select;
pub mod shadow;
pub mod shared;
pub mod special;
pub mod types;
pub mod view;

/// Why a module cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub line: u32,
    pub text: String,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "line {}: {}", self.line, self.text)
    }
}

/// The outcome of reading PTX.
pub type Read<T> = Result<T, Problem>;

/// A problem in a line.
pub fn problem<T>(line: u32, text: impl Into<String>) -> Read<T> {
    Err(Problem { line, text: text.into() })
}

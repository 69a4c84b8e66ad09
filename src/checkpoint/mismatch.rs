//! Differences between a file and the objects that are to be restored from it.

use std::path::Path;

use crate::error::Error;
use crate::tensor::{DType, Shape};
use crate::text::with_article;

/// One difference.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum Mismatch {
    /// An object that was added is not in the file.
    #[error("missing: the file has no {kind} '{name}'")]
    MissingObject {
        /// Its kind.
        kind: &'static str,
        /// Its name in the checkpoint.
        name: String,
    },
    /// A part of an object is not in the file.
    #[error("missing: the file has no tensor '{0}'")]
    MissingTensor(String),
    /// The file has an object that was not added.
    #[error("unexpected: the file has {kind} '{name}', which was not added")]
    UnexpectedObject {
        /// Its kind in the file.
        kind: String,
        /// Its name in the file.
        name: String,
    },
    /// The file has a tensor that belongs to no object that was added.
    #[error("unexpected: the file has a tensor '{0}', which nothing here takes")]
    UnexpectedTensor(String),
    /// One name is used for objects of different kinds.
    #[error("kind: '{name}' is {} here, {} in the file", with_article(.here), with_article(.there))]
    Kind {
        /// The name.
        name: String,
        /// The kind here.
        here: &'static str,
        /// The kind in the file.
        there: String,
    },
    /// A tensor has another dtype.
    #[error("dtype: {name} is {here} here, {there} in the file")]
    DType {
        /// The tensor's name, in quotes.
        name: String,
        /// The dtype here.
        here: DType,
        /// The dtype in the file.
        there: String,
    },
    /// A tensor has another shape.
    #[error("shape: {name} has {here} here, {there} in the file")]
    Shape {
        /// The tensor's name, in quotes.
        name: String,
        /// The shape here.
        here: Shape,
        /// The shape in the file, as a list.
        there: String,
    },
    /// Something else differs, or is invalid.
    #[error("{object}: {problem}")]
    Other {
        /// The object.
        object: String,
        /// What differs.
        problem: String,
    },
}

/// All differences as one error, if there are any.
pub(super) fn as_error(path: &Path, mismatches: &[Mismatch]) -> Option<Error> {
    if mismatches.is_empty() {
        return None;
    }
    let (count, noun) = match mismatches.len() {
        1 => (1, "mismatch"),
        count => (count, "mismatches"),
    };
    let list: String = mismatches.iter().map(|mismatch| format!("\n  {mismatch}")).collect();
    let path = path.display();
    let problem = format!("'{path}' does not fit, and nothing was changed; {count} {noun}:{list}");
    Some(Error::invalid("path", problem))
}

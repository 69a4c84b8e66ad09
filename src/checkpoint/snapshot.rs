//! What is to be in a file, apart from the objects that it was copied of.

use std::collections::BTreeMap;

use serde_json::{Map, Value as Json};

use crate::checkpoint::parts::PartFile;
use crate::tensor::{Shape, Tensor};

/// How several ranks divide a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SavedSharding {
    /// Of the whole.
    pub shape: Shape,
    /// Where the parts begin and end, in elements.
    pub boundaries: Vec<usize>,
}

/// What is to be in a file, apart from all objects: nobody changes it any more.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// By the names that they have in the file; contiguous.
    pub(super) tensors: Vec<(String, Tensor)>,
    /// Of those that several ranks divide, of which the tensors are this rank's parts, in a row: how.
    pub(super) divided: BTreeMap<String, SavedSharding>,
    /// The parts of the other ranks, in their order.
    pub(super) parts: Vec<PartFile>,
    /// By name: kinds, and what is not a tensor.
    pub(super) objects: Map<String, Json>,
    /// How many steps the strategy has begun.
    pub(super) steps: u64,
    /// What is probably not as the program means it.
    pub(super) doubt: Option<String>,
    /// What a manager says about the file.
    pub(super) saved: Map<String, Json>,
}

impl Snapshot {
    /// Puts the tensors in their order: the widest elements first, so that all begin at multiples of
    /// their sizes, and then by name.
    pub(super) fn sort(&mut self) {
        self.tensors.sort_by(|(left, one), (right, other)| {
            other.dtype().size().cmp(&one.dtype().size()).then_with(|| left.cmp(right))
        });
    }
}

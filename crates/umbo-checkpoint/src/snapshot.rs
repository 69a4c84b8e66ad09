//! The contents of a file, independent of the objects from which they were copied.

use std::collections::BTreeMap;

use crate::metadata::{ManagerNotes, SavedObject, SavedSharding};
use crate::parts::PartFile;
use umbo_tensor::Tensor;

/// A tensor in the file.
#[derive(Debug)]
pub(super) struct SavedTensor {
    pub name: String,
    /// The elements, which are contiguous.
    pub tensor: Tensor,
    /// Whether it is a variable, and so an object of its own.
    pub is_variable: bool,
}

/// The contents of a file, independent of all objects. They do not change any more.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The tensors, in their order in the file.
    pub(super) tensors: Vec<SavedTensor>,
    /// How several ranks divide tensors, by the tensors' names. For these, `tensors` has only this
    /// rank's elements.
    pub(super) sharded: BTreeMap<String, SavedSharding>,
    /// The parts of the other ranks, in their order.
    pub(super) parts: Vec<PartFile>,
    /// The kinds of objects and their values that are not tensors, by the objects' names, without
    /// the variables. On ranks after the first, only the values that each rank has for itself.
    pub(super) objects: BTreeMap<String, SavedObject>,
    /// The number of steps the strategy has begun.
    pub(super) steps: u64,
    /// A probable mistake of the program, for a warning.
    pub(super) warning: Option<String>,
    /// The file is for other programs, too: variables alone.
    pub(super) is_for_others: bool,
    /// A manager's notes about the file.
    pub(super) manager: Option<ManagerNotes>,
}

impl Snapshot {
    /// Sorts the tensors. Those with the widest elements come first, so that all begin at multiples
    /// of their sizes. Tensors with elements of one width are sorted by name.
    pub(super) fn sort(&mut self) {
        self.tensors.sort_by(|one, other| {
            let widths = other.tensor.dtype().size().cmp(&one.tensor.dtype().size());
            widths.then_with(|| one.name.cmp(&other.name))
        });
    }

    /// The positions of the tensors in the order of their names.
    pub(super) fn by_name(&self) -> Vec<usize> {
        let mut order: Vec<usize> = (0..self.tensors.len()).collect();
        order.sort_by(|&one, &other| self.tensors[one].name.cmp(&self.tensors[other].name));
        order
    }
}

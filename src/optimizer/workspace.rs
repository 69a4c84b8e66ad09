//! The memory that applies work in. What is done in it stands in `work`.

use std::sync::atomic::AtomicBool;

use crate::executor::pieces::Pieces;
use crate::kernels::update::measure::{ChunkSums, Squares};
use crate::kernels::update::weighted_sum::Contribution;
use crate::optimizer::on_gpu::Ready;
use crate::optimizer::rule::Scalars;
use crate::values::buffer::OfCopies;
use parking_lot::Mutex;

/// The memory that an apply works in. One apply leaves it to the next, so that a steady step
/// allocates nothing.
#[derive(Default)]
pub(super) struct Work {
    pub(super) items: Vec<Item>,
    pub(super) pieces: Pieces,
    pub(super) sums: Vec<ChunkSums<2>>,
    /// For each share of the work, the contributions to the variable that it is at.
    pub(super) contributions: Vec<Mutex<Vec<Contribution<'static>>>>,
    /// Memory of the GPU that holds the variables, if one does, from the apply's preparation to its end.
    pub(super) ready: Option<Ready>,
}

/// One variable of an apply.
#[derive(Default)]
pub(super) struct Item {
    /// Which of the gradients' variables it is.
    pub(super) index: usize,
    /// Where the sums of its chunks begin.
    pub(super) first_sum: usize,
    /// What has been accumulated of it does not count.
    pub(super) fresh: bool,
    /// Its gradient was kept when it was measured.
    pub(super) kept: bool,
    /// It is divided among the ranks: the gradient of this rank's part was kept, and what was measured are
    /// these squares of all parts, if they were.
    pub(super) divided: bool,
    pub(super) squares: Option<Squares>,
    /// An element of the gradient that was applied is not finite.
    pub(super) not_finite: AtomicBool,
    /// Once it is prepared.
    pub(super) update: Option<Update>,
}

impl Item {
    /// The variables of `items` whose updates were prepared, and these.
    pub(super) fn prepared(items: &[Item]) -> impl Iterator<Item = (usize, &Update)> {
        items.iter().filter_map(|item| Some((item.index, item.update.as_ref()?)))
    }
}

/// A prepared update: where the optimizer keeps the variable's state, which of the variable's
/// buffers it writes, which low-precision copies of that along with it, and its scalars.
pub(super) struct Update {
    pub(super) position: usize,
    pub(super) buffer: usize,
    /// Once it is about to be done.
    pub(super) copies: OfCopies<bool>,
    pub(super) l2: f64,
    pub(super) scalars: Scalars,
}

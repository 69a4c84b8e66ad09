//! The memory that applies work in. What is done in it stands in `work`.

use std::ops::Range;
use std::sync::atomic::AtomicBool;

use crate::executor::pieces::Pieces;
use crate::kernels::update::chunks::ChunkSums;
use crate::kernels::update::measure::Squares;
use crate::kernels::update::weighted_sum::Contribution;
use crate::kernels::view::Span;
use crate::optimizer::exchange::buffers::{Scratch, Words};
use crate::optimizer::exchange::shards::Shards;
use crate::optimizer::gpu_operands::Ready;
use crate::optimizer::rule::Scalars;
use crate::values::buffer::OfCopies;
use crate::values::division::Division;
use crate::values::variable::Variable;
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
    /// What several ranks exchange gradients in.
    pub(super) exchange: Memory,
}

/// What exchanges work in.
#[derive(Default)]
pub(super) struct Memory {
    pub(super) send: Words,
    pub(super) receive: Words,
    pub(super) scratch: Scratch,
    /// How the variables of the update are divided whose weights have landed.
    pub(super) shards: Option<Shards>,
}

/// One variable of an apply, or several that are updated as one.
#[derive(Default)]
pub(super) struct Item {
    /// Which of the gradients' variables it is: the first of those that are updated as one.
    pub(super) index: usize,
    /// How many of these there are. They have as many elements each, and follow each other in memory.
    pub(super) count: usize,
    /// Where the sums of its chunks begin.
    pub(super) first_sum: usize,
    /// What has been accumulated of it does not count.
    pub(super) fresh: bool,
    /// Its gradient, if it was put into host memory when it was measured or exchanged; if it is divided, this
    /// rank's part of it.
    pub(super) gradient: Option<Span<'static>>,
    /// It is divided among the ranks, of which each updates its part. What was measured are these squares of all
    /// parts, if they were.
    pub(super) divided: bool,
    pub(super) squares: Option<Squares>,
    /// An element of the gradient that was applied is not finite.
    pub(super) not_finite: AtomicBool,
    /// Once it is prepared.
    pub(super) update: Option<Update>,
}

impl Item {
    /// Which elements an update is about, of `variable` and of those that follow it.
    pub(super) fn own(&self, variable: &Variable) -> Range<usize> {
        let division = variable.division().filter(|_| self.divided);
        division.map_or(0..self.count * variable.shape().elements(), Division::own)
    }

    /// Which variables it is.
    pub(super) fn variables(&self) -> Range<usize> {
        self.index..self.index + self.count
    }

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

//! The memory that applies work in. The operations are in `work`.

use std::ops::Range;
use std::slice;
use std::sync::atomic::AtomicBool;

use crate::apply::device_operands::ReservedMemory;
use crate::exchange::buffers::AlignedBytes;
use crate::exchange::shards::Shards;
use crate::rules::Scalars;
use parking_lot::Mutex;
use umbo_executor::pieces::Pieces;
use umbo_kernels::update::chunks::ChunkSums;
use umbo_kernels::update::squares::Squares;
use umbo_kernels::update::weighted_sum::Contribution;
use umbo_kernels::view::Span;
use umbo_tensor::values::buffer::OfCopies;
use umbo_tensor::values::sharding::VariableSharding;
use umbo_tensor::values::variable::Variable;

/// The memory that an apply works in. The next apply uses it again, so that a steady step allocates
/// nothing.
#[derive(Default)]
pub(crate) struct ApplyWorkspace {
    pub(crate) items: Vec<UpdateGroup>,
    /// The value of [`Variable::layout_epoch`] when items of several variables were selected.
    pub(crate) changes: u64,
    pub(crate) pieces: Pieces,
    pub(crate) sums: Vec<ChunkSums<2>>,
    /// For each worker, the contributions to the variable that it is at.
    pub(crate) contributions: Vec<Mutex<Vec<Contribution<'static>>>>,
    /// Memory of the device that holds the variables, from the apply's preparation to its end.
    pub(crate) ready: Option<ReservedMemory>,
    /// Memory for the exchange of gradients.
    pub(crate) exchange: ExchangeMemory,
}

/// The memory that exchanges work in.
#[derive(Default)]
pub(crate) struct ExchangeMemory {
    pub(crate) send: AlignedBytes,
    pub(crate) receive: AlignedBytes,
    /// The sharding of the update, if each rank makes that of its part.
    pub(crate) shards: Option<Shards>,
}

/// One variable of an apply, or several that are updated as one.
#[derive(Default)]
pub(crate) struct UpdateGroup {
    /// The index of its first variable among those of the gradients.
    pub(crate) index: usize,
    /// How many variables it has. They have the same number of elements, and follow each other in
    /// memory.
    pub(crate) count: usize,
    /// Where the sums of its chunks are.
    pub(crate) sums: Range<usize>,
    /// Its accumulated sum does not count.
    pub(crate) fresh: bool,
    /// Its gradient, if it was put into host memory when it was measured or exchanged; if it is
    /// divided, this rank's part of it.
    pub(crate) gradient: Option<Span<'static>>,
    /// It is sharded: each rank updates its part. If the gradient was measured, these are the
    /// squares of all parts.
    pub(crate) divided: bool,
    pub(crate) squares: Option<Squares>,
    /// An element of the gradient that was applied is not finite.
    pub(crate) not_finite: AtomicBool,
    /// The prepared update, if there is one.
    pub(crate) update: Option<PreparedUpdate>,
}

impl ApplyWorkspace {
    /// Calls `inspect` with the index of each variable and the squares of its gradient, which was
    /// measured.
    pub(crate) fn for_each_squares(&self, mut inspect: impl FnMut(usize, Squares)) {
        for item in &self.items {
            let sums = &self.sums[item.sums.clone()];
            match item.squares {
                Some(squares) => inspect(item.index, squares),
                None if item.count == 1 => inspect(item.index, Squares::of_chunks(sums)),
                // Each variable is one chunk.
                None => item.variables().zip(sums).for_each(|(index, of_variable)| {
                    inspect(index, Squares::of_chunks(slice::from_ref(of_variable)));
                }),
            }
        }
    }
}

impl UpdateGroup {
    /// The elements that an update covers, of `variable` and of the item's other variables.
    pub(crate) fn own(&self, variable: &Variable) -> Range<usize> {
        let sharding = variable.sharding().filter(|_| self.divided);
        sharding.map_or(
            0..self.count * variable.shape().elements(),
            VariableSharding::own,
        )
    }

    /// The indices of its variables.
    pub(crate) fn variables(&self) -> Range<usize> {
        self.index..self.index + self.count
    }

    /// The variables of `items` whose updates were prepared, and these.
    pub(crate) fn prepared(
        items: &[UpdateGroup],
    ) -> impl Iterator<Item = (usize, &PreparedUpdate)> {
        items
            .iter()
            .filter_map(|item| Some((item.index, item.update.as_ref()?)))
    }
}

/// A prepared update: where the optimizer keeps the variable's state, which of the variable's
/// buffers it writes, which low-precision copies it also writes, and its scalars.
pub(crate) struct PreparedUpdate {
    pub(crate) position: usize,
    pub(crate) buffer: usize,
    /// Set just before the update is carried out.
    pub(crate) copies: OfCopies<bool>,
    pub(crate) l2: f64,
    pub(crate) scalars: Scalars,
}

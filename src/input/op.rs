//! The operations that datasets consist of: what follows from each for the elements, and what a saved position
//! says of it.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::batch_parameters::BatchParameters;
use crate::input::cache::Cached;
use crate::input::cardinality::Cardinality;
use crate::input::concatenate;
use crate::input::facts::{self, Batched, Facts};
use crate::input::file_shares;
use crate::input::files::FileList;
use crate::input::generator::Generated;
use crate::input::map::Map;
use crate::input::range::Range;
use crate::input::rebatch::Rebatch;
use crate::input::repeat;
use crate::input::shard::Shard;
use crate::input::shuffle::Shuffle;
use crate::input::slices::Arrays;
use crate::input::spec::ElementSpec;
use crate::input::take;
use crate::input::zip::{self, Zip};
use crate::values::Value;

/// An operation with its parameters. What it is applied to stands beside it in the dataset.
#[derive(Clone)]
pub(super) enum Op {
    // Sources, which are applied to nothing.
    /// Rows of arrays.
    Slices(Arc<Arrays>, ElementSpec),
    /// Elements in memory.
    Tensors(Arc<Vec<Value>>, ElementSpec),
    Range(Range),
    Generator(Generated),
    Files(FileList),

    // Which items come when, whatever they are.
    /// The first so many.
    Take(u64),
    /// All but the first so many.
    Skip(u64),
    Shard(Shard),
    Shuffle(Shuffle),
    /// So many rounds; none: without end.
    Repeat(Option<u64>),
    Cache(Cached),

    // What becomes of the elements.
    /// So many made ahead.
    Prefetch(usize),
    Map(Map),
    Batch(BatchParameters),
    PaddedBatch(BatchParameters),
    Rebatch(Rebatch),
    Zip(Zip),
    Concatenate,
}

/// What is known of the elements that an operation makes of those of `inputs`.
///
/// INVALID_ARGUMENT: elements that the operation cannot be applied to; too many operations.
pub(super) fn facts(op: &Op, inputs: &[&Facts]) -> Result<Facts> {
    let Some(&first) = inputs.first() else { return source(op) };
    let count = first.cardinality;
    let mut facts = Facts::above(first, inputs)?;
    match op {
        Op::Take(most) => {
            facts.reorder(take::first(count, *most));
            facts.take_rows(first, 0..*most)?;
            if *most < u64::MAX {
                facts.need_all_files("take");
            }
        }
        Op::Skip(least) => {
            facts.reorder(count.map(|all| all.saturating_sub(*least)));
            facts.take_rows(first, *least..u64::MAX)?;
            if *least > 0 {
                facts.need_all_files("skip");
            }
        }
        Op::Shard(shard) => {
            facts.reorder(count.map(|all| shard.of(all)));
            if shard.shards > 1 {
                facts.need_all_files("shard");
            }
        }
        Op::Shuffle(_) => facts.reorder(count),
        Op::Repeat(rounds) => {
            facts.reorder(repeat::times(count, *rounds));
            if *rounds != Some(1) {
                facts.have_partial_batches();
            }
        }
        Op::Cache(_) => {
            facts.reorder(count);
            facts.rows.clone_from(&first.rows);
        }
        Op::Prefetch(_) => facts.rows = None,
        Op::Map(map) => {
            // A batch stays a batch of as many rows, as far as anybody knows.
            facts.set_file_rows(first.rows_of_batches());
            facts.replace(map.spec.clone());
        }
        Op::Batch(batch) | Op::PaddedBatch(batch) => {
            facts.replace(batch.spec(&first.spec)?);
            facts.cardinality = count.map(|count| batch.batches(count));
            facts.batches = Some(batch.size_of(count));
            facts.batch(match first.times_batched() {
                None | Some(Batched::Never) => Batched::Once,
                Some(Batched::Once | Batched::Twice) => Batched::Twice,
            });
        }
        Op::Rebatch(rebatch) => {
            facts.replace(rebatch.spec(&first.spec)?);
            facts.cardinality = count.of_unknown_end();
            facts.set_file_rows(rebatch.rows());
            match first.times_batched() {
                Some(Batched::Twice) => facts.batched.clone_from(&first.batched),
                _ => facts.batch(Batched::Once),
            }
        }
        Op::Zip(zip) => {
            facts.replace(zip.spec(inputs)?);
            facts.cardinality = zip::shortest(inputs);
            facts.batches = facts::common_batch_size(inputs);
            facts.batched = facts::common_batched(inputs);
            facts.rows = zip::rows(inputs)?;
            facts.files = inputs.iter().find_map(|input| input.files.clone());
            // Which elements meet is only known where all are read.
            facts.need_all_files("zip");
        }
        Op::Concatenate => {
            facts.replace(concatenate::spec(inputs)?);
            facts.cardinality = concatenate::total(inputs);
            facts.batches = facts::common_batch_size(inputs)
                .map(|size| size.with_total(size.total.filter(|_| inputs.len() == 1)));
            facts.have_partial_batches();
            facts.batched = facts::common_batched(inputs);
            facts.files = file_shares::joined(inputs);
        }
        Op::Slices(..) | Op::Tensors(..) | Op::Range(_) | Op::Generator(_) | Op::Files(_) => {
            return Err(Error::Internal("a source that is applied to a dataset".into()));
        }
    }
    Ok(facts)
}

/// What is known of the elements of a source.
fn source(op: &Op) -> Result<Facts> {
    Ok(match op {
        Op::Slices(arrays, spec) => Facts::of_arrays(spec.clone(), arrays),
        Op::Tensors(elements, spec) => {
            Facts::source(spec.clone(), Cardinality::Exact(elements.len() as u64))
        }
        Op::Range(range) => Facts::source(Range::spec(), Cardinality::Exact(range.count)),
        Op::Generator(generated) => Facts::source(generated.spec.clone(), Cardinality::Unknown),
        Op::Files(list) => list.facts(),
        _ => return Err(nothing()),
    })
}

/// The error of an operation that is applied to nothing.
pub(super) fn nothing() -> Error {
    Error::Internal("an operation that is applied to nothing".into())
}

impl Op {
    /// The same operation, which shares nothing with passes of this one.
    pub(super) fn anew(&self) -> Op {
        match self {
            Op::Shuffle(shuffle) => Op::Shuffle(shuffle.anew()),
            Op::Cache(_) => Op::Cache(Cached::default()),
            op => op.clone(),
        }
    }

    /// The operation in words. They are a part of saved positions: everything on which the meaning of a position
    /// depends, and nothing that changes neither which items come nor what passes save.
    pub(super) fn words(&self, inputs: usize) -> String {
        match self {
            Op::Slices(arrays, _) => arrays.to_string(),
            Op::Tensors(elements, _) => format!("{} elements in memory", elements.len()),
            Op::Range(range) => range.to_string(),
            Op::Generator(generated) => format!("generator of {}", generated.spec),
            Op::Files(list) => list.to_string(),
            Op::Take(most) => format!("the first {most}"),
            Op::Skip(least) => format!("all but the first {least}"),
            Op::Shard(shard) => format!("shard {} of {}", shard.index, shard.shards),
            Op::Shuffle(shuffle) => shuffle.to_string(),
            Op::Repeat(Some(rounds)) => format!("{rounds} rounds"),
            Op::Repeat(None) => "rounds without end".into(),
            Op::Cache(_) => "cache".into(),
            Op::Prefetch(_) => "made ahead".into(),
            Op::Map(map) => format!("map to {}", map.spec),
            Op::Batch(batch) => format!("batch {batch}"),
            Op::PaddedBatch(batch) => format!("padded batch {batch}"),
            Op::Rebatch(rebatch) => rebatch.to_string(),
            Op::Zip(_) => format!("{inputs} datasets side by side"),
            Op::Concatenate => format!("{inputs} datasets one after the other"),
        }
    }
}

//! Several datasets one after the other.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{BatchSize, Dataset, Kind};
use crate::input::position::{Description, Mark, Reader};
use crate::input::stage::{Pass, Stage};
use crate::input::zip::common_batch_size;
use crate::values::Value;

impl Dataset {
    /// The elements of the datasets, one dataset after the other. Their elements have the same
    /// structure, dtypes and ranks; sizes in which they differ are unknown in the element spec.
    ///
    /// INVALID_ARGUMENT: no datasets, elements of another structure, dtype or rank.
    pub fn concatenate(datasets: &[Dataset]) -> Result<Dataset> {
        let (first, others) = datasets
            .split_first()
            .ok_or_else(|| Error::invalid("datasets", "none; concatenate takes one or more"))?;
        let mut spec = first.element_spec().clone();
        for (position, other) in others.iter().enumerate() {
            spec = spec.common(other.element_spec(), &|| {
                Error::invalid(
                    "datasets",
                    format!(
                        "the elements of dataset {} are {}, those of dataset 0 {}; structure, \
                         dtypes and ranks must be the same",
                        position + 1,
                        other.element_spec(),
                        first.element_spec()
                    ),
                )
            })?;
        }
        let cardinality =
            datasets.iter().map(Dataset::cardinality).fold(Cardinality::Exact(0), followed_by);
        let inputs = datasets.iter().map(Dataset::stream).collect();
        let kind = Kind::Stream(Arc::new(Concatenate { inputs }));
        let alone = datasets.len() == 1;
        let size = common_batch_size(datasets);
        let size = size.map(|size| BatchSize { total: size.total.filter(|_| alone), ..size });
        let concatenated = Dataset::batched(spec, cardinality, kind, size).made_of(datasets)?;
        let concatenated = concatenated.batched_as(datasets);
        let concatenated = concatenated.remade_joined(datasets, Dataset::concatenate);
        Ok(concatenated.with_several_partial_batches())
    }
}

fn followed_by(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::*;
    match (one, other) {
        (Endless, _) | (_, Endless) => Endless,
        (Unknown, _) | (_, Unknown) => Unknown,
        (Exact(one), Exact(other)) => one.checked_add(other).map_or(Unknown, Exact),
    }
}

struct Concatenate {
    inputs: Vec<Arc<dyn Stage<Value>>>,
}

impl Stage<Value> for Concatenate {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let inputs = self.inputs.iter().map(|input| input.start());
        let inputs = inputs.collect::<Result<_>>()?;
        Ok(Box::new(ConcatenatePass { inputs, current: 0 }))
    }

    fn describe(&self, to: &mut Description) {
        to.stage(format!("{} datasets one after the other", self.inputs.len()));
        self.inputs.iter().for_each(|input| input.describe(to));
    }
}

struct ConcatenatePass {
    inputs: Vec<Box<dyn Pass<Value>>>,
    current: usize,
}

impl Pass<Value> for ConcatenatePass {
    fn next(&mut self) -> Result<Option<Value>> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            if let Some(element) = input.next()? {
                return Ok(Some(element));
            }
            self.current += 1;
        }
        Ok(None)
    }

    fn restart(&mut self) -> Result<()> {
        self.current = 0;
        self.inputs.iter_mut().try_for_each(|input| input.restart())
    }

    fn save(&self, to: &mut Mark) {
        to.push(self.current as u64);
        self.inputs.iter().for_each(|input| input.save(to));
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.current = from.index(self.inputs.len(), "the present dataset")?;
        self.inputs.iter_mut().try_for_each(|input| input.restore(from))
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        let mut skipped = 0;
        while let Some(input) = self.inputs.get_mut(self.current) {
            skipped += input.skip(count - skipped)?;
            if skipped == count {
                break;
            }
            self.current += 1;
        }
        Ok(skipped)
    }

    fn passes_freely(&self) -> bool {
        self.inputs.iter().all(|input| input.passes_freely())
    }

    fn reserve(&mut self, items: usize) {
        self.inputs.iter_mut().for_each(|input| input.reserve(items));
    }

    fn announce(&mut self) {
        self.inputs.iter_mut().for_each(|input| input.announce());
    }
}

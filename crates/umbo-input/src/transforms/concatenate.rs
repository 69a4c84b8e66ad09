//! Several datasets one after the other.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::spec::ElementSpec;
use crate::passes::IteratorStage;
use crate::passes::given::Stop;
use crate::passes::position::{StateReader, StateWriter};
use crate::passes::signature::Signature;
use crate::properties::{DatasetProperties, common_batch_size, common_batched};
use crate::sources::file_shares;
use umbo_base::error::Result;
use umbo_tensor::values::Value;

impl Dataset {
    /// Concatenates the datasets. Their elements have the same structure, dtypes and ranks. Sizes
    /// in which they differ are unknown in the element spec.
    ///
    /// INVALID_ARGUMENT: no datasets, elements that differ in structure, dtype or rank.
    pub fn concatenate(datasets: &[Dataset]) -> Result<Dataset> {
        if datasets.is_empty() {
            return Err(invalid!("datasets", "none; concatenate takes one or more"));
        }
        Dataset::of(Arc::new(Concatenate), datasets)
    }
}

struct Concatenate;

impl Operation for Concatenate {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let mut properties = DatasetProperties::above(inputs)?;
        properties.replace(common_spec(inputs)?);
        properties.cardinality = total(inputs);
        properties.batches = common_batch_size(inputs);
        properties.batched = common_batched(inputs);
        properties.files =
            file_shares::joined(inputs, "concatenate with what is not made of files");
        Ok(properties)
    }

    fn signature(&self, inputs: usize) -> Signature {
        Signature::new("concatenate").with("inputs", inputs)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        Ok(Box::new(ConcatenatePass {
            inputs: dataset.start_inputs()?,
            current: 0,
        }))
    }
}

/// The spec that the elements of all datasets have in common.
pub(super) fn common_spec(inputs: &[&DatasetProperties]) -> Result<ElementSpec> {
    let first = &inputs[0].spec;
    let mut specs = inputs.iter().map(|input| &input.spec).enumerate();
    specs.try_fold(first.clone(), |common, (position, spec)| {
        common.common(spec, &|| {
            invalid!(
                "datasets",
                "the elements of dataset {position} are {spec}, those of dataset 0 {first}; \
                 structure, dtypes and ranks must be the same"
            )
        })
    })
}

/// How many elements the datasets have together.
pub(super) fn total(inputs: &[&DatasetProperties]) -> Cardinality {
    inputs
        .iter()
        .map(|input| input.cardinality)
        .fold(Cardinality::Exact(0), followed_by)
}

fn followed_by(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::*;
    match (one, other) {
        (Endless, _) | (_, Endless) => Endless,
        (EndlessUnlessEmpty, _) | (_, EndlessUnlessEmpty) => EndlessUnlessEmpty,
        (Unknown, _) | (_, Unknown) => Unknown,
        (Exact(one), Exact(other)) => one.checked_add(other).map_or(Unknown, Exact),
    }
}

struct ConcatenatePass {
    inputs: Vec<Box<dyn IteratorStage<Value>>>,
    current: usize,
}

impl IteratorStage<Value> for ConcatenatePass {
    fn next(&mut self) -> Result<Option<Value>> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            if let Some(element) = input.next()? {
                return Ok(Some(element));
            }
            self.current += 1;
        }
        Ok(None)
    }

    fn skip(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        while let Some(input) = self.inputs.get_mut(self.current) {
            input.skip(left, stop)?;
            if *left == 0 {
                break;
            }
            self.current += 1;
        }
        Ok(())
    }

    fn certain(&self) -> Option<Cardinality> {
        let mut inputs = self.inputs.iter().map(|input| input.certain());
        inputs.try_fold(Cardinality::Exact(0), |all, input| {
            Some(followed_by(all, input?))
        })
    }

    fn skip_rounds(&mut self, rounds: u64, items: u64) {
        let mut left = items;
        for input in &mut self.inputs {
            let all = input
                .certain()
                .and_then(Cardinality::exact)
                .unwrap_or(u64::MAX);
            input.skip_rounds(rounds, left);
            left = left.saturating_sub(all);
        }
    }

    fn restart(&mut self) -> Result<()> {
        self.current = 0;
        self.inputs.iter_mut().try_for_each(|input| input.restart())
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.current as u64);
        self.inputs.iter().for_each(|input| input.save(to));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.current = from.index(self.inputs.len(), "the present dataset")?;
        self.inputs
            .iter_mut()
            .try_for_each(|input| input.restore(from))
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        self.inputs.iter_mut().for_each(|input| visit(&mut **input));
    }
}

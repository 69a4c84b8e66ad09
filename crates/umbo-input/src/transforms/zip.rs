//! Combines several datasets side by side.

use std::panic::resume_unwind;
use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::element_buffer::{BufferPool, Reusable, in_use};
use crate::elements::spec::ElementSpec;
use crate::passes::IteratorStage;
use crate::passes::pending_item::{Filled, PendingItem};
use crate::passes::position::{Rounds, StateReader, StateWriter};
use crate::passes::signature::Signature;
use crate::properties::{DatasetProperties, RowFacts, common_batch_size, common_batched};
use crate::sources::slices::Arrays;
use umbo_base::error::{Error, Result};
use umbo_base::observe::strict;
use umbo_base::text::Text;
use umbo_executor::pool::Outcome;
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;
use umbo_tensor::values::nest::{Nest, NestKind};

impl Dataset {
    /// Element i consists of element i of each dataset: a tuple or, with `names`, a struct whose
    /// fields have these names. The dataset ends with the first input that ends. If other
    /// inputs have more elements, these are left out, which the log reports if the numbers are
    /// known.
    ///
    /// If element i of one dataset fails, element i of all datasets is passed over, and the first
    /// failure is returned. A failure of an operation that puts several elements together or in
    /// another order (a batch, a rebatch, a shuffle, a file that cannot be opened) shifts the
    /// elements behind it. It is returned, too; then FAILED_PRECONDITION, since the elements
    /// that follow do not belong together, and then the end. After RESOURCE_EXHAUSTED nothing is
    /// lost.
    ///
    /// INVALID_ARGUMENT: no datasets, a number of names other than that of datasets, a name twice.
    pub fn zip(datasets: &[Dataset], names: Option<&[&str]>) -> Result<Dataset> {
        if datasets.is_empty() {
            return Err(invalid!("datasets", "none; zip takes one or more"));
        }
        if let Some(names) = names.filter(|names| names.len() != datasets.len()) {
            return Err(invalid!(
                "names",
                "{} names for {} datasets",
                names.len(),
                datasets.len()
            ));
        }
        let names = names.map(|names| Arc::new(names.iter().map(|&name| name.into()).collect()));
        let zipped = Dataset::of(Arc::new(Zip { names }), datasets)?;
        warn_of_lengths(datasets)?;
        Ok(zipped)
    }
}

#[derive(Clone)]
struct Zip {
    names: Option<Arc<Vec<Text>>>,
}

impl Operation for Zip {
    fn properties(&self, inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        let mut properties = DatasetProperties::above(inputs)?;
        let specs = inputs.iter().map(|input| input.spec.clone());
        properties.replace(match &self.names {
            None => ElementSpec::tuple(specs.collect())?,
            Some(names) => ElementSpec::structure(names.iter().cloned().zip(specs).collect())?,
        });
        properties.cardinality = shortest(inputs);
        properties.batches = common_batch_size(inputs);
        properties.batched = common_batched(inputs);
        properties.rows = rows(inputs)?;
        properties.files = inputs.iter().find_map(|input| input.files.clone());
        // Only a pass over all files determines which elements are combined.
        properties.need_all_files("zip");
        Ok(properties)
    }

    fn signature(&self, inputs: usize) -> Signature {
        Signature::new("zip").with("inputs", inputs)
    }

    fn start(&self, dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        let inputs = dataset.start_inputs()?;
        let taken = inputs
            .iter()
            .map(|input| PendingItem::of(&**input))
            .collect();
        let mut pass = ZipPass {
            zip: self.clone(),
            inputs,
            taken,
            failure: None,
            state: State::Paired,
            nothing: Value::Tensor(Tensor::scalar(0u8)?),
            pool: BufferPool::new(),
        };
        pass.reserve(1);
        Ok(Box::new(pass))
    }
}

/// The arrays of all datasets, if the elements of each dataset are all rows of some arrays.
fn rows(inputs: &[&DatasetProperties]) -> Result<Option<RowFacts>> {
    let all = || inputs.iter().map_while(|input| input.rows_in_order());
    if all().count() < inputs.len() {
        return Ok(None);
    }
    let rows = all().map(|arrays| arrays.rows).min().unwrap_or(0);
    let mut components = Vec::new();
    for arrays in all() {
        components.extend(arrays.part(0, rows)?.components);
    }
    Ok(Some(RowFacts {
        arrays: Arc::new(Arrays { components, rows }),
        in_order: true,
    }))
}

/// Logs a warning if datasets are known to have different numbers of elements. In a strict process
/// this is an error. An endless dataset is meant to end with the others.
fn warn_of_lengths(datasets: &[Dataset]) -> Result<()> {
    let known = datasets.iter().enumerate();
    let known =
        known.filter_map(|(position, dataset)| Some((dataset.cardinality().exact()?, position)));
    let shortest = known.clone().min();
    let longest = known.max();
    match (shortest, longest) {
        (Some((least, short)), Some((most, long))) if least != most => {
            let message = || {
                format!(
                    "datasets of different lengths are zipped: dataset {short} has {least} \
                     elements, dataset {long} has {most}; what lies past the end of the shorter \
                     is left out"
                )
            };
            strict::warn_or_fail(
                false,
                |message| Error::invalid("datasets", message),
                message,
            )
        }
        _ => Ok(()),
    }
}

/// The number of elements that come before the first of the datasets ends.
fn shortest(inputs: &[&DatasetProperties]) -> Cardinality {
    inputs
        .iter()
        .map(|input| input.cardinality)
        .reduce(shorter)
        .unwrap_or(Cardinality::Unknown)
}

fn shorter(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::*;
    match (one, other) {
        (Exact(0), _) | (_, Exact(0)) => Exact(0),
        (Unknown, _) | (_, Unknown) => Unknown,
        (Endless, other) => other,
        (one, Endless) => one,
        (EndlessUnlessEmpty, EndlessUnlessEmpty) => EndlessUnlessEmpty,
        // If the endless one proves to be empty, there is no element.
        (EndlessUnlessEmpty, Exact(_)) | (Exact(_), EndlessUnlessEmpty) => Unknown,
        (Exact(one), Exact(other)) => Exact(one.min(other)),
    }
}

struct ZipPass {
    zip: Zip,
    inputs: Vec<Box<dyn IteratorStage<Value>>>,
    /// The inputs' items for the current element. They stay if another input lacks memory, so that
    /// the inputs stay in step.
    taken: Vec<PendingItem<Value>>,
    /// The first failure among these items. It is returned once all inputs have passed theirs
    /// over.
    failure: Option<Outcome<Error>>,
    state: State,
    nothing: Value,
    pool: BufferPool<Zipped>,
}

/// The possible continuations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next items of the inputs belong together.
    Paired,
    /// An input's items were shifted by a failure, which was returned.
    Shifted,
    Ended,
}

impl State {
    const ALL: [State; 3] = [State::Paired, State::Shifted, State::Ended];
}

impl ZipPass {
    /// Takes the next item of each input, and notes the first failure. Returns whether there is an
    /// item of each, or its failure. If an input lacks memory, the next call tries again with
    /// it.
    fn fill(&mut self) -> Result<bool> {
        for (input, taken) in self.inputs.iter_mut().zip(&mut self.taken) {
            match taken.fill_or_pass_over(&mut **input)? {
                Filled::Place => {}
                Filled::End => return Ok(false),
                Filled::Failed(failure) => drop(self.failure.get_or_insert(failure)),
            }
        }
        Ok(true)
    }

    /// Drops the items of the current element.
    fn pass_over(&mut self) {
        self.taken.iter_mut().for_each(|taken| drop(taken.take()));
    }

    /// The failure, after which the next items follow if they still belong together.
    fn failed(&mut self, failure: Outcome<Error>) -> Error {
        let error = failure.unwrap_or_else(|panic| resume_unwind(panic));
        if matches!(error, Error::Shifting(_))
            && self.inputs.len() > 1
            && self.state == State::Paired
        {
            self.state = State::Shifted;
        }
        error
    }
}

impl IteratorStage<Value> for ZipPass {
    fn next(&mut self) -> Result<Option<Value>> {
        match self.state {
            State::Paired => {}
            State::Shifted => {
                self.state = State::Ended;
                return Err(shifted());
            }
            State::Ended => return Ok(None),
        }
        // Once the idle elements of this pass are released, the inputs can use the memory that they
        // held.
        self.pool.release_idle();
        let is_whole = self.fill()?;
        if !is_whole {
            self.state = State::Ended;
        }
        let failure = self.failure.take();
        if !is_whole || failure.is_some() {
            self.pass_over();
            return failure.map_or(Ok(None), |failure| Err(self.failed(failure)));
        }
        let names = self.zip.names.as_ref().map(|names| &names[..]);
        let buffer = self
            .pool
            .claim(|| Ok(Zipped::new(names, self.inputs.len(), &self.nothing)))?;
        for (index, taken) in self.taken.iter_mut().enumerate() {
            if let Some(element) = taken.take() {
                *buffer.item_mut(index).ok_or_else(in_use)? = element;
            }
        }
        Ok(Some(buffer.value.clone()))
    }

    fn restart(&mut self) -> Result<()> {
        self.failure = None;
        // If an input cannot begin, nothing comes: the others would be ahead of it.
        self.state = State::Ended;
        let mut inputs = self.inputs.iter_mut().zip(&mut self.taken);
        inputs.try_for_each(|(input, taken)| taken.restart(&mut **input))?;
        self.state = State::Paired;
        Ok(())
    }

    fn save(&self, to: &mut StateWriter) {
        to.push(self.state as u64);
        for (input, taken) in self.inputs.iter().zip(&self.taken) {
            taken.save(&**input, to);
        }
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.failure = None;
        self.state = State::ALL[from.index(State::ALL.len() - 1, "the state of a zip")?];
        let mut inputs = self.inputs.iter_mut().zip(&mut self.taken);
        inputs.try_for_each(|(input, taken)| taken.restore(&mut **input, from))
    }

    fn rounds(&mut self, to: &mut Rounds) {
        for (input, taken) in self.inputs.iter_mut().zip(&self.taken) {
            taken.rounds(&mut **input, to);
        }
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        let mut inputs = self.inputs.iter_mut().zip(&mut self.taken);
        inputs.try_for_each(|(input, taken)| taken.go_back(&mut **input, to))
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        self.inputs.iter_mut().for_each(|input| visit(&mut **input));
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        self.inputs(&mut |input| input.reserve(items));
    }
}

fn shifted() -> Error {
    Error::precondition(
        "the elements of the zipped datasets do not belong together after the failure before \
         this one, which came from below a batch, a shuffle or files and has shifted one of them; \
         zip first, and batch and shuffle the pairs. The pass ends here",
    )
}

/// An element whose items are the elements of the inputs.
struct Zipped {
    value: Value,
    nothing: Value,
}

impl Zipped {
    fn new(names: Option<&[Text]>, count: usize, nothing: &Value) -> Zipped {
        let kind = names.map_or(NestKind::Tuple, |names| NestKind::Struct(names.into()));
        let value = Value::nest(Nest::new(kind, vec![nothing.clone(); count]));
        Zipped {
            value,
            nothing: nothing.clone(),
        }
    }

    fn item_mut(&mut self, index: usize) -> Option<&mut Value> {
        self.value.items_mut()?.get_mut(index)
    }
}

impl Reusable for Zipped {
    fn release(&mut self) -> bool {
        for index in 0..self.value.count() {
            let nothing = self.nothing.clone();
            match self.item_mut(index) {
                Some(item) => *item = nothing,
                None => return false,
            }
        }
        true
    }
}

//! Several datasets side by side.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{BatchSize, Dataset, Kind};
use crate::input::frame::{Pool, Reusable, in_use};
use crate::input::position::{Description, Mark, Reader, unfit};
use crate::input::slices::Arrays;
use crate::input::spec::ElementSpec;
use crate::input::stage::{Pass, Stage};
use crate::input::trail::{Saved, Trail, Wanted};
use crate::observe::strict;
use crate::tensor::Tensor;
use crate::text::Text;
use crate::values::Value;

impl Dataset {
    /// Element i consists of element i of each dataset: a tuple, or with `names` a struct whose
    /// fields have these names. It ends with the first that ends. If others have more elements, which
    /// are left out, the log says so: now, where the numbers are known and finite, else when the end
    /// is found; once.
    ///
    /// INVALID_ARGUMENT: no datasets, another number of names than of datasets, a name twice.
    pub fn zip(datasets: &[Dataset], names: Option<&[&str]>) -> Result<Dataset> {
        if datasets.is_empty() {
            return Err(Error::invalid("datasets", "none; zip takes one or more"));
        }
        let specs = datasets.iter().map(|dataset| dataset.element_spec().clone());
        let spec = match names {
            None => ElementSpec::tuple(specs.collect())?,
            Some(names) if names.len() == datasets.len() => {
                let fields = names.iter().map(|&name| name.into()).zip(specs);
                ElementSpec::structure(fields.collect())?
            }
            Some(names) => {
                return Err(Error::invalid(
                    "names",
                    format!("{} names for {} datasets", names.len(), datasets.len()),
                ));
            }
        };
        let warned = warn_of_lengths(datasets)?;
        let arrays = |dataset| match Dataset::kind(dataset) {
            Kind::Rows(arrays, None) => Some(arrays),
            _ => None,
        };
        if datasets.iter().all(|dataset| arrays(dataset).is_some()) {
            let all = || datasets.iter().filter_map(arrays);
            let rows = all().map(|arrays| arrays.rows).min().unwrap_or(0);
            let mut components = Vec::new();
            for arrays in all() {
                components.extend(arrays.part(0, rows)?.components);
            }
            return Dataset::of_arrays(spec, Arrays { components, rows }).made_of(datasets);
        }
        let cardinality = datasets
            .iter()
            .map(Dataset::cardinality)
            .reduce(shorter)
            .unwrap_or(Cardinality::Unknown);
        let inputs = datasets.iter().map(Dataset::stream).collect();
        let names = names.map(|names| Arc::new(names.iter().map(|&name| name.into()).collect()));
        let warned = Arc::new(AtomicBool::new(warned));
        let finite = |dataset: &Dataset| dataset.cardinality() != Cardinality::Endless;
        let first_finite = datasets.iter().position(finite).unwrap_or(0);
        let stage = Arc::new(Zip { names, inputs, first_finite, warned });
        let size = common_batch_size(datasets);
        let zipped = Dataset::batched(spec, cardinality, Kind::Stream(stage), size);
        // Which elements meet is known to who reads all.
        let zipped = zipped.made_of(datasets)?.batched_as(datasets);
        Ok(zipped.only_of_all_files(datasets, "zip"))
    }
}

/// Says in the log if datasets are known to have different numbers of elements, which a strict process
/// refuses. One without end is meant to end with the others. Returns whether there is no more to say.
fn warn_of_lengths(datasets: &[Dataset]) -> Result<bool> {
    let known = datasets.iter().enumerate().filter_map(|(position, dataset)| {
        dataset.cardinality().bound().map(|count| (count, position))
    });
    let (Some(shortest), Some(longest)) = (known.clone().min(), known.max()) else {
        return Ok(false);
    };
    if shortest.0 != longest.0 {
        let what = || {
            format!(
                "datasets of different lengths are zipped: dataset {} has {} elements, dataset {} \
                 has {}; what lies behind the end of the shorter is left out",
                shortest.1, shortest.0, longest.1, longest.0
            )
        };
        strict::suspect(false, |what| Error::invalid("datasets", what), what)?;
        return Ok(true);
    }
    Ok(datasets.iter().all(|dataset| dataset.cardinality() != Cardinality::Unknown))
}

/// The batch size of the datasets if it is known of all and the same.
pub(super) fn common_batch_size(datasets: &[Dataset]) -> Option<BatchSize> {
    let mut sizes = datasets.iter().map(Dataset::batch_size);
    let first = sizes.next()??;
    sizes.try_fold(first, |all, size| {
        let size = size.filter(|size| size.rows == all.rows)?;
        let one_partial = all.one_partial && size.one_partial;
        let total = all.total.filter(|_| all.total == size.total);
        Some(BatchSize { one_partial, total, ..size })
    })
}

fn shorter(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::*;
    match (one, other) {
        (Exact(0), _) | (_, Exact(0)) => Exact(0),
        (Unknown, _) | (_, Unknown) => Unknown,
        (Endless, other) => other,
        (one, Endless) => one,
        (Exact(one), Exact(other)) => Exact(one.min(other)),
    }
}

struct Zip {
    names: Option<Arc<Vec<Text>>>,
    inputs: Vec<Arc<dyn Stage<Value>>>,
    /// The first dataset that may end.
    first_finite: usize,
    /// Whether the log has been told of different lengths, or there is nothing to tell.
    warned: Arc<AtomicBool>,
}

impl Stage<Value> for Zip {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let inputs = self.inputs.iter().map(|input| input.start()).collect::<Result<Vec<_>>>()?;
        let nothing = Value::Tensor(Tensor::scalar(0u8)?);
        let taken = inputs.iter().map(|_| Taken::default()).collect();
        let names = self.names.clone();
        let (warned, pool) = (Arc::clone(&self.warned), Pool::new());
        let first_finite = self.first_finite;
        let mut pass =
            ZipPass { names, inputs, first_finite, warned, taken, ended: false, nothing, pool };
        pass.reserve(1);
        Ok(Box::new(pass))
    }

    fn describe(&self, to: &mut Description) {
        to.stage(format!("{} datasets side by side", self.inputs.len()));
        self.inputs.iter().for_each(|input| input.describe(to));
    }
}

struct ZipPass {
    names: Option<Arc<Vec<Text>>>,
    inputs: Vec<Box<dyn Pass<Value>>>,
    first_finite: usize,
    warned: Arc<AtomicBool>,
    /// What the inputs have given for the element at hand. It stays if another fails, so that
    /// the inputs keep in step.
    taken: Vec<Taken>,
    ended: bool,
    nothing: Value,
    pool: Pool<Zipped>,
}

/// What an input has given for the element at hand, and how it came by it.
#[derive(Default)]
struct Taken {
    element: Option<Value>,
    trail: Trail,
}

impl ZipPass {
    fn let_go(&mut self) {
        for taken in &mut self.taken {
            taken.element = None;
            taken.trail.clear();
        }
    }
}

impl Pass<Value> for ZipPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.ended {
            return Ok(None);
        }
        // The inputs can use again what only idle elements of ours hold.
        self.pool.release_idle();
        for (position, input) in self.inputs.iter_mut().enumerate() {
            let taken = &mut self.taken[position];
            if taken.element.is_none() {
                taken.element = taken.trail.next(&mut **input)?;
            }
            if taken.element.is_none() {
                self.ended = true;
                // Those before have given an element, those behind were not asked.
                let longer = self.first_finite;
                let warns = position > longer && !self.warned.swap(true, Ordering::Relaxed);
                self.let_go();
                let what = || {
                    format!(
                        "datasets of different lengths are zipped: dataset {position} has ended and \
                         dataset {longer} has not; what lies behind the end of the shorter is left out"
                    )
                };
                if warns {
                    strict::suspect(false, Error::precondition, what)?;
                }
                return Ok(None);
            }
        }
        let names = self.names.as_ref().map(|names| &names[..]);
        let frame = self.pool.claim(|| Ok(Zipped::new(names, self.inputs.len(), &self.nothing)))?;
        for (index, taken) in self.taken.iter_mut().enumerate() {
            taken.trail.clear();
            if let Some(element) = taken.element.take() {
                *frame.item_mut(index).ok_or_else(in_use)? = element;
            }
        }
        Ok(Some(frame.value.clone()))
    }

    fn restart(&mut self) -> Result<()> {
        self.let_go();
        self.ended = false;
        self.inputs.iter_mut().try_for_each(|input| input.restart())
    }

    fn save(&self, to: &mut Mark) {
        to.push_flag(self.ended);
        for (input, taken) in self.inputs.iter().zip(&self.taken) {
            taken.trail.save(&**input, to);
        }
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.ended = from.flag()?;
        for (input, taken) in self.inputs.iter_mut().zip(&mut self.taken) {
            let saved = Saved::read(from)?;
            taken.element = None;
            let element = &mut taken.element;
            taken.trail.restore(&saved, &mut **input, Wanted::All, &mut |taken| match element
                .replace(taken)
            {
                None => Ok(()),
                Some(_) => Err(unfit("two elements of one dataset side by side")),
            })?;
        }
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        if count == 0 || self.ended {
            return Ok(0);
        }
        if self.taken.iter().any(|taken| taken.element.is_some()) {
            return Ok(if self.next()?.is_some() { 1 + self.skip(count - 1)? } else { 0 });
        }
        let mut least = count;
        for input in &mut self.inputs {
            least = least.min(input.skip(count)?);
        }
        self.ended = least < count;
        Ok(least)
    }

    fn passes_freely(&self) -> bool {
        self.inputs.iter().all(|input| input.passes_freely())
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        for input in &mut self.inputs {
            input.reserve(items);
        }
    }

    fn announce(&mut self) {
        self.inputs.iter_mut().for_each(|input| input.announce());
    }
}

/// An element whose items are the elements of the inputs.
struct Zipped {
    value: Value,
    nothing: Value,
}

impl Zipped {
    fn new(names: Option<&[Text]>, count: usize, nothing: &Value) -> Zipped {
        let items = (0..count).map(|_| nothing.clone());
        let value = match names {
            None => Value::Tuple(Arc::new(items.collect())),
            Some(names) => Value::Struct(Arc::new(names.iter().cloned().zip(items).collect())),
        };
        Zipped { value, nothing: nothing.clone() }
    }

    fn item_mut(&mut self, index: usize) -> Option<&mut Value> {
        match &mut self.value {
            Value::Tuple(items) => Arc::get_mut(items)?.get_mut(index),
            Value::Struct(fields) => Arc::get_mut(fields)?.get_mut(index).map(|(_, field)| field),
            _ => None,
        }
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

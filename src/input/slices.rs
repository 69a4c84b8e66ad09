//! Arrays as sources: element i consists of row i of each array.

use std::sync::Arc;

use crate::error::memory::collect;
use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Kind};
use crate::input::frame::{Frame, Pool};
use crate::input::memory;
use crate::input::position::{Description, Mark, Reader};
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::input::stage::{Pass, Stage};
use crate::tensor::{Layout, Tensor};
use crate::values::Value;

/// Arrays with the same number of rows, in the order of the element's leaves.
pub(super) struct Arrays {
    pub(super) components: Vec<Tensor>,
    pub(super) rows: u64,
}

impl Dataset {
    /// The slices of tensors along dimension 0: element i consists of row i of each tensor, in
    /// the structure of `components` (a tensor, or a nest of tensors whose dimensions 0 agree).
    ///
    /// The tensors are shared, not copied: batches of consecutive rows are read-only views of
    /// them. They must not be written while the dataset or an element of it is in use.
    ///
    /// INVALID_ARGUMENT: a scalar, dimensions 0 that differ, per-replica values, variables, no
    /// tensor at all. UNIMPLEMENTED: memory that the CPU cannot address.
    pub fn from_tensor_slices(components: &Value) -> Result<Dataset> {
        let mut tensors = Vec::new();
        let spec = describe(components, &mut tensors)?;
        let rows = tensors
            .first()
            .map(|tensor: &Tensor| tensor.shape()[0] as u64)
            .ok_or_else(|| Error::invalid("components", "they contain no tensor"))?;
        if let Some(position) = tensors.iter().position(|other| other.shape()[0] as u64 != rows) {
            return Err(Error::invalid(
                "components",
                format!(
                    "dimension 0 differs: {rows} in tensor 0 (shape {}), {} in tensor {position} \
                     (shape {}); row i of each tensor belongs to element i",
                    tensors[0].shape(),
                    tensors[position].shape()[0],
                    tensors[position].shape()
                ),
            ));
        }
        Ok(Dataset::of_arrays(spec, Arrays { components: tensors, rows }))
    }

    /// As [`Dataset::from_tensor_slices`], of a struct of `arrays` with these names; without names of a
    /// tuple, or of a single array itself.
    pub fn from_named_arrays(arrays: Vec<Tensor>, names: Option<&[&str]>) -> Result<Dataset> {
        let mut arrays = arrays.into_iter().map(Value::Tensor);
        let components = match names {
            Some(names) => {
                let names = names.iter().map(|&name| name.into());
                Value::structure(names.zip(arrays).collect())?
            }
            None if arrays.len() == 1 => arrays.next().unwrap_or_else(Value::nothing),
            None => Value::tuple(arrays.collect())?,
        };
        Dataset::from_tensor_slices(&components)
    }

    /// The rows of arrays in their own order.
    pub(super) fn of_arrays(spec: ElementSpec, arrays: Arrays) -> Dataset {
        let cardinality = Cardinality::Exact(arrays.rows);
        Dataset::new(spec, cardinality, Kind::Rows(Arc::new(arrays), None))
    }
}

/// The spec of the slices of `components`, whose tensors it collects.
fn describe(components: &Value, tensors: &mut Vec<Tensor>) -> Result<ElementSpec> {
    ElementSpec::describe(components, "components", &mut |tensor| {
        let shape = tensor.shape();
        let Some((_, row)) = shape.split_first() else {
            return Err(Error::invalid(
                "components",
                "a scalar has no slices; give it a dimension 0",
            ));
        };
        tensors.push(memory::read_only(tensor)?);
        Ok(LeafSpec { dtype: tensor.dtype(), shape: row.iter().copied().map(Some).collect() })
    })
}

impl Arrays {
    /// Rows `start` to before `stop`; shares memory.
    pub(super) fn part(&self, start: u64, stop: u64) -> Result<Arrays> {
        let parts = self.components.iter();
        let parts = parts.map(|tensor| tensor.slice(0, start as usize, stop as usize, 1));
        Ok(Arrays { components: collect(parts, "tensors")?, rows: stop - start })
    }
}

impl Arrays {
    /// What they are, for the description of a pipeline: their contents are not compared.
    pub(super) fn describe(&self, to: &mut Description) {
        use std::fmt::Write;
        let mut words = format!("arrays of {} rows:", self.rows);
        for array in &self.components {
            // A text takes whatever is written.
            let _ = write!(words, " {}{}", array.dtype(), array.shape().without(0));
        }
        to.stage(words);
    }
}

/// All row numbers, in order.
pub(super) struct InOrder {
    rows: u64,
}

impl InOrder {
    pub(super) fn of(arrays: &Arrays) -> InOrder {
        InOrder::numbers(arrays.rows)
    }

    pub(super) fn numbers(count: u64) -> InOrder {
        InOrder { rows: count }
    }
}

impl Stage<u64> for InOrder {
    fn start(&self) -> Result<Box<dyn Pass<u64>>> {
        Ok(Box::new(InOrderPass { next: 0, rows: self.rows }))
    }

    fn describe(&self, _to: &mut Description) {
        // The arrays, whose rows these are, are described with what reads them.
    }
}

struct InOrderPass {
    next: u64,
    rows: u64,
}

impl Pass<u64> for InOrderPass {
    fn next(&mut self) -> Result<Option<u64>> {
        let row = self.next;
        if row == self.rows {
            return Ok(None);
        }
        self.next += 1;
        Ok(Some(row))
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }

    fn save(&self, to: &mut Mark) {
        to.push(self.next);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.next = from.at_most(self.rows, "the next row")?;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        let skipped = count.min(self.rows - self.next);
        self.next += skipped;
        Ok(skipped)
    }

    fn passes_freely(&self) -> bool {
        true
    }

    fn reserve(&mut self, _items: usize) {}

    fn announce(&mut self) {}
}

/// Single rows as elements: views, nothing is copied.
pub(super) struct Elements {
    pub(super) arrays: Arc<Arrays>,
    pub(super) order: Arc<dyn Stage<u64>>,
    pub(super) spec: ElementSpec,
}

impl Stage<Value> for Elements {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        Ok(Box::new(ElementsPass {
            arrays: Arc::clone(&self.arrays),
            order: self.order.start()?,
            spec: self.spec.clone(),
            pool: Pool::new(),
        }))
    }

    fn describe(&self, to: &mut Description) {
        to.stage("rows one by one".into());
        self.order.describe(to);
        self.arrays.describe(to);
    }
}

struct ElementsPass {
    arrays: Arc<Arrays>,
    order: Box<dyn Pass<u64>>,
    spec: ElementSpec,
    pool: Pool<Frame>,
}

impl Pass<Value> for ElementsPass {
    fn next(&mut self) -> Result<Option<Value>> {
        // Memory first, so that a row is not lost for want of it.
        let frame = self.pool.claim(|| Frame::new(&self.spec))?;
        let Some(row) = self.order.next()? else { return Ok(None) };
        frame.fill(&mut |leaf, slot| {
            let source = &self.arrays.components[leaf];
            let (whole, offset) = source.layout().slice(0, row as usize, row as usize + 1, 1)?;
            let layout = Layout::strided(whole.shape.without(0), &whole.strides()[1..])?;
            slot.view(source, layout, offset)
        })?;
        Ok(Some(frame.value()))
    }

    fn restart(&mut self) -> Result<()> {
        self.order.restart()
    }

    fn save(&self, to: &mut Mark) {
        self.order.save(to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.order.restore(from)
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        self.order.skip(count)
    }

    fn passes_freely(&self) -> bool {
        self.order.passes_freely()
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn announce(&mut self) {
        self.order.announce();
    }
}

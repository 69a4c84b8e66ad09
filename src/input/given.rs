//! Elements that the caller has made.

use std::sync::Arc;

use crate::error::memory::list;
use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Kind};
use crate::input::memory;
use crate::input::position::{Description, Mark, Reader};
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::input::stage::{Pass, Stage};
use crate::tensor::Tensor;
use crate::values::Value;

impl Dataset {
    /// One element: `element`, a tensor or a nest of tensors. The tensors are shared, not copied,
    /// and must not be written while the dataset or its element is in use.
    ///
    /// INVALID_ARGUMENT: per-replica values, variables, no tensor at all.
    pub fn from_tensors(element: &Value) -> Result<Dataset> {
        let spec =
            ElementSpec::describe(element, "element", &mut |tensor| Ok(LeafSpec::of(tensor)))?;
        if spec.leaves() == 0 {
            return Err(Error::invalid("element", "it contains no tensor"));
        }
        Ok(of_elements(spec, vec![memory::read_only_value(element)?]))
    }

    /// One element for each tensor. They have one dtype and rank; their shapes may differ, so that
    /// the element spec has no sizes. They are shared as by [`Dataset::from_tensors`].
    ///
    /// INVALID_ARGUMENT: no tensors, another dtype or rank.
    pub fn elements(tensors: &[Tensor]) -> Result<Dataset> {
        let first = tensors.first().ok_or_else(|| {
            Error::invalid("tensors", "none; give one or more, which say the dtype and rank")
        })?;
        let mut elements = list(tensors.len(), "elements")?;
        for (position, tensor) in tensors.iter().enumerate() {
            if tensor.dtype() != first.dtype() || tensor.shape().rank() != first.shape().rank() {
                return Err(Error::invalid(
                    "tensors",
                    format!(
                        "tensor {position} is {} of shape {}, tensor 0 is {} of shape {}; all have \
                         one dtype and rank",
                        tensor.dtype(),
                        tensor.shape(),
                        first.dtype(),
                        first.shape()
                    ),
                ));
            }
            elements.push(Value::Tensor(memory::read_only(tensor)?));
        }
        let shape = vec![None; first.shape().rank()];
        Ok(of_elements(ElementSpec::Leaf(LeafSpec { dtype: first.dtype(), shape }), elements))
    }
}

fn of_elements(spec: ElementSpec, elements: Vec<Value>) -> Dataset {
    let cardinality = Cardinality::Exact(elements.len() as u64);
    let stage = Given { elements: Arc::new(elements) };
    Dataset::new(spec, cardinality, Kind::Stream(Arc::new(stage)))
}

struct Given {
    elements: Arc<Vec<Value>>,
}

impl Stage<Value> for Given {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        Ok(Box::new(GivenPass { elements: Arc::clone(&self.elements), next: 0 }))
    }

    fn describe(&self, to: &mut Description) {
        to.stage(format!("{} elements in memory", self.elements.len()));
    }
}

struct GivenPass {
    elements: Arc<Vec<Value>>,
    next: usize,
}

impl Pass<Value> for GivenPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let element = self.elements.get(self.next).cloned();
        self.next += usize::from(element.is_some());
        Ok(element)
    }

    fn restart(&mut self) -> Result<()> {
        self.next = 0;
        Ok(())
    }

    fn save(&self, to: &mut Mark) {
        to.push(self.next as u64);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.next = from.index(self.elements.len(), "the next element")?;
        Ok(())
    }

    fn skip(&mut self, count: u64) -> Result<u64> {
        let skipped = count.min((self.elements.len() - self.next) as u64);
        self.next += skipped as usize;
        Ok(skipped)
    }

    fn passes_freely(&self) -> bool {
        true
    }

    fn reserve(&mut self, _items: usize) {}

    fn announce(&mut self) {}
}

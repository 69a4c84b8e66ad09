//! Arrays as sources. Element i consists of row i of each array.

use std::sync::Arc;

use serde_json::Value as Json;

use crate::cardinality::Cardinality;
use crate::elements::element_buffer::{BufferPool, ElementBuffer};
use crate::elements::spec::{ElementSpec, LeafSpec};
use crate::passes::IteratorStage;
use crate::passes::given::{Given, Stop};
use crate::passes::position::{Rounds, StateReader, StateWriter};
use crate::passes::signature::Signature;
use crate::{passes::indexed, sources::memory};
use umbo_base::error::Result;
use umbo_base::error::memory::collect;
use umbo_tensor::values::Value;
use umbo_tensor::{Layout, Tensor};

/// Arrays with the same number of rows, in the order of the element's leaves.
pub(crate) struct Arrays {
    pub(crate) components: Vec<Tensor>,
    pub(crate) rows: u64,
}

/// The spec of the slices of `components`, which are the argument of this name. The tensors of
/// `components` are added to `tensors`.
pub(crate) fn describe(
    components: &Value,
    argument: &'static str,
    tensors: &mut Vec<Tensor>,
) -> Result<ElementSpec> {
    ElementSpec::describe(components, argument, &mut |tensor| {
        let shape = tensor.shape();
        let Some((_, row)) = shape.split_first() else {
            return Err(invalid!(
                argument,
                "a scalar has no slices; give it a dimension 0"
            ));
        };
        tensors.push(memory::read_only(tensor)?);
        Ok(LeafSpec {
            dtype: tensor.dtype(),
            shape: row.iter().copied().map(Some).collect(),
        })
    })
}

impl Arrays {
    /// The signature of the arrays as a source. Their contents are not compared.
    pub(crate) fn signature(&self) -> Signature {
        let rows_of = |array: &Tensor| {
            let shape = array.shape().without(0);
            Json::from(&LeafSpec {
                dtype: array.dtype(),
                shape: shape.iter().copied().map(Some).collect(),
            })
        };
        let components: Vec<Json> = self.components.iter().map(rows_of).collect();
        Signature::new("arrays")
            .with("rows", self.rows)
            .with("components", components)
    }

    /// The rows [`start`, `stop`). They share memory with these arrays.
    pub(crate) fn part(&self, start: u64, stop: u64) -> Result<Arrays> {
        let parts = self.components.iter();
        let parts = parts.map(|tensor| tensor.slice(0, start as usize, stop as usize, 1));
        Ok(Arrays {
            components: collect(parts, "tensors")?,
            rows: stop - start,
        })
    }
}

/// A pass over the row numbers [0, `rows`), in order.
pub(crate) fn in_order(rows: u64) -> Box<dyn IteratorStage<u64>> {
    indexed::start(Ok, rows)
}

/// A pass over single rows as elements. They are views; nothing is copied.
pub(crate) fn elements(
    arrays: &Arc<Arrays>,
    spec: &ElementSpec,
    order: Box<dyn IteratorStage<u64>>,
) -> Box<dyn IteratorStage<Value>> {
    let arrays = Arc::clone(arrays);
    let spec = spec.clone();
    Box::new(ElementsPass {
        arrays,
        order,
        spec,
        pool: BufferPool::new(),
    })
}

struct ElementsPass {
    arrays: Arc<Arrays>,
    order: Box<dyn IteratorStage<u64>>,
    spec: ElementSpec,
    pool: BufferPool<ElementBuffer>,
}

impl IteratorStage<Value> for ElementsPass {
    fn next(&mut self) -> Result<Option<Value>> {
        // The buffer is claimed first, so that no row is lost if there is no memory.
        let buffer = self.pool.claim(|| ElementBuffer::new(&self.spec))?;
        let Some(row) = self.order.next()? else {
            return Ok(None);
        };
        buffer.fill(&mut |leaf, slot| {
            let source = &self.arrays.components[leaf];
            let (whole, offset) = source
                .layout()
                .slice(0, row as usize, row as usize + 1, 1)?;
            let layout = Layout::strided(whole.shape.without(0), &whole.strides()[1..])?;
            slot.view(source, layout, offset)
        })?;
        Ok(Some(buffer.value()))
    }

    fn skip(&mut self, left: &mut u64, stop: &Stop) -> Result<()> {
        self.order.skip(left, stop)
    }

    fn certain(&self) -> Option<Cardinality> {
        self.order.certain()
    }

    fn skip_rounds(&mut self, rounds: u64, items: u64) {
        self.order.skip_rounds(rounds, items);
    }

    fn restart(&mut self) -> Result<()> {
        self.order.restart()
    }

    fn save(&self, to: &mut StateWriter) {
        self.order.save(to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.order.restore(from)
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
    }

    fn rounds(&mut self, to: &mut Rounds) {
        self.order.rounds(to);
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        self.order.go_back(to)
    }

    fn announce(&mut self, given: &Given) {
        self.order.announce(given);
    }
}

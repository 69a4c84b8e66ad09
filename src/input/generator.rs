//! Elements that the caller makes while they are asked for.

use std::sync::Arc;

use crate::error::Result;
use crate::input::cardinality::Cardinality;
use crate::input::dataset::{Dataset, Kind};
use crate::input::spec::ElementSpec;
use crate::input::stage::{Pass, Stage};
use crate::values::Value;

/// One pass through elements that the caller makes. Used by one thread at a time, which need not
/// be the same one each time.
pub trait Generator: Send {
    /// The next element, or nothing at the end. Not called again after the end before
    /// [`Generator::reset`]. After an error it may be called again.
    fn next(&mut self) -> Result<Option<Value>>;

    /// Goes back to the beginning.
    fn reset(&mut self) -> Result<()>;
}

type Begin = Arc<dyn Fn() -> Result<Box<dyn Generator>> + Send + Sync>;

impl Dataset {
    /// The elements of generators, which are as `element_spec` says. `begin` makes a generator
    /// for each pass, when its first element is asked for; passes know nothing of each other.
    ///
    /// INVALID_ARGUMENT: a spec without tensors, or with per-replica values; while iterating, an
    /// element that is not as the spec says.
    pub fn from_generator(
        element_spec: ElementSpec,
        begin: impl Fn() -> Result<Box<dyn Generator>> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        element_spec.check_describes_elements("element_spec")?;
        let stage = Generated { begin: Arc::new(begin), spec: element_spec.clone() };
        Ok(Dataset::new(element_spec, Cardinality::Unknown, Kind::Stream(Arc::new(stage))))
    }
}

struct Generated {
    begin: Begin,
    spec: ElementSpec,
}

impl Stage<Value> for Generated {
    fn start(&self) -> Result<Box<dyn Pass<Value>>> {
        let (begin, spec) = (Arc::clone(&self.begin), self.spec.clone());
        Ok(Box::new(GeneratedPass { begin, spec, generator: None, ended: false }))
    }
}

struct GeneratedPass {
    begin: Begin,
    spec: ElementSpec,
    /// None until the first element is asked for.
    generator: Option<Box<dyn Generator>>,
    ended: bool,
}

impl Pass<Value> for GeneratedPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.ended {
            return Ok(None);
        }
        let generator = match &mut self.generator {
            Some(generator) => generator,
            None => self.generator.insert((self.begin)()?),
        };
        let element = generator.next()?;
        match &element {
            Some(element) => self.spec.check(element, "an element of a generator")?,
            None => self.ended = true,
        }
        Ok(element)
    }

    fn restart(&mut self) -> Result<()> {
        if let Some(generator) = &mut self.generator {
            generator.reset()?;
        }
        self.ended = false;
        Ok(())
    }

    fn reserve(&mut self, _items: usize) {}

    fn announce(&mut self) {}
}

//! Elements that the caller makes on request.

use std::sync::Arc;

use crate::cardinality::Cardinality;
use crate::dataset::{Dataset, Operation};
use crate::elements::spec::ElementSpec;
use crate::passes::IteratorStage;
use crate::passes::position::{MOST_AGAIN, Rounds, StateReader, StateWriter, unfit};
use crate::passes::signature::Signature;
use crate::properties::DatasetProperties;
use umbo_base::error::Result;
use umbo_tensor::values::Value;

/// The largest number of resets that a position may ask for. Each is repeated.
const MOST_RESETS: u64 = 1 << 20;

/// One pass over elements that the caller makes. Only one thread at a time uses it, not always the
/// same one.
pub trait Generator: Send {
    /// The next element, or nothing at the end. After the end it is not called again before
    /// [`Generator::reset`]. After an error it may be called again.
    fn next(&mut self) -> Result<Option<Value>>;

    /// Goes back to the beginning. A new generator that replaces another one is also reset, as
    /// often as the other one was.
    fn reset(&mut self) -> Result<()>;
}

type Begin = Arc<dyn Fn() -> Result<Box<dyn Generator>> + Send + Sync>;

impl Dataset {
    /// The elements of generators, which match `element_spec`. `begin` makes a generator for each
    /// pass when its first element is requested. Passes are independent of each other.
    ///
    /// The position of a generator can be restored only by repeating its calls. A restored pass
    /// begins a generator, resets it as often as the other one was, and requests as many
    /// elements as the other one has returned since then. The new generator must return the
    /// same elements.
    ///
    /// INVALID_ARGUMENT: a spec without tensors, or with per-replica values; while iterating, an
    /// element that does not match the spec.
    pub fn from_generator(
        element_spec: ElementSpec,
        begin: impl Fn() -> Result<Box<dyn Generator>> + Send + Sync + 'static,
    ) -> Result<Dataset> {
        element_spec.check_describes_elements("element_spec")?;
        let generated = Generated {
            begin: Arc::new(begin),
            spec: element_spec,
        };
        Dataset::of(Arc::new(generated), &[])
    }
}

#[derive(Clone)]
struct Generated {
    begin: Begin,
    spec: ElementSpec,
}

impl Operation for Generated {
    fn properties(&self, _inputs: &[&DatasetProperties]) -> Result<DatasetProperties> {
        Ok(DatasetProperties::source(
            self.spec.clone(),
            Cardinality::Unknown,
        ))
    }

    fn signature(&self, _inputs: usize) -> Signature {
        Signature::new("generator").with("element_spec", &self.spec)
    }

    fn start(&self, _dataset: &Dataset) -> Result<Box<dyn IteratorStage<Value>>> {
        Ok(Box::new(GeneratedPass {
            generated: self.clone(),
            generator: None,
            begun: false,
            done: Done::default(),
            next: None,
            ended: false,
        }))
    }
}

struct GeneratedPass {
    generated: Generated,
    /// None until the first element is requested, and after a generator was reset too often.
    generator: Option<Box<dyn Generator>>,
    /// Whether a generator is in use, so that another round resets it.
    begun: bool,
    done: Done,
    /// An element that came while the pass restored another pass's position, and that the other
    /// pass had not yet received.
    next: Option<Value>,
    ended: bool,
}

/// The state of a generator.
#[derive(Clone, Copy, Default)]
struct Done {
    /// The number of times that it was reset.
    resets: u64,
    /// The number of elements it has returned since.
    elements: u64,
    /// The number of times that it has failed since.
    failures: u64,
    /// The number of times that it has failed since it returned the last element.
    last_failures: u64,
}

impl GeneratedPass {
    /// Requests the next element from the generator.
    fn ask(&mut self) -> Result<Option<Value>> {
        let generator = match &mut self.generator {
            Some(generator) => generator,
            None => {
                let mut generator = (self.generated.begin)()?;
                (0..self.done.resets).try_for_each(|_| generator.reset())?;
                self.begun = true;
                self.generator.insert(generator)
            }
        };
        let element = generator.next();
        match &element {
            Ok(Some(_)) => {
                self.done.elements += 1;
                self.done.last_failures = 0;
            }
            Ok(None) => self.ended = true,
            Err(_) => {
                self.done.failures += 1;
                self.done.last_failures += 1;
            }
        }
        element
    }

    /// Repeats with a new generator what was done with another one. The other one may have failed
    /// for reasons that no longer exist, or at elements that fail again. So elements are
    /// counted, and at most as many failures are ignored as the other one had.
    fn repeat(&mut self, other: Done) -> Result<()> {
        let generator = self.generator.insert((self.generated.begin)()?);
        for _ in 0..other.resets {
            generator.reset()?;
        }
        let still_fails = |done: &Done| done.failures > other.failures;
        while self.done.elements < other.elements {
            match self.ask() {
                Ok(Some(_)) => {}
                Ok(None) => {
                    let had = self.done.elements;
                    let wanted = other.elements;
                    let problem = format!("a generator ended after {had} elements of {wanted}");
                    return Err(unfit(&problem));
                }
                Err(error) if still_fails(&self.done) => return Err(error),
                Err(_) => {}
            }
        }
        while self.done.last_failures < other.last_failures && !self.ended {
            match self.ask() {
                Ok(Some(element)) => {
                    self.next = Some(element);
                    break;
                }
                Err(error) if still_fails(&self.done) => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}

impl IteratorStage<Value> for GeneratedPass {
    fn next(&mut self) -> Result<Option<Value>> {
        if self.ended {
            return Ok(None);
        }
        let element = match self.next.take() {
            Some(element) => {
                self.done.elements += 1;
                self.done.last_failures = 0;
                Some(element)
            }
            None => self.ask()?,
        };
        if let Some(element) = &element {
            self.generated
                .spec
                .check(element, "an element of a generator")?;
        }
        Ok(element)
    }

    fn restart(&mut self) -> Result<()> {
        if self.begun {
            self.generator
                .as_mut()
                .map_or(Ok(()), |generator| generator.reset())?;
            let resets = self.done.resets + 1;
            self.done = Done {
                resets,
                ..Done::default()
            };
        }
        self.next = None;
        self.ended = false;
        Ok(())
    }

    fn save(&self, to: &mut StateWriter) {
        let Done {
            resets,
            elements,
            failures,
            last_failures,
        } = self.done;
        to.push_flag(self.begun);
        to.push_flag(self.ended);
        [resets, elements, failures, last_failures]
            .into_iter()
            .for_each(|number| to.push(number));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        let begun = from.flag()?;
        let ended = from.flag()?;
        let done = Done {
            resets: from.at_most(MOST_RESETS, "how often a generator was reset")?,
            elements: from.elements(MOST_AGAIN)?,
            failures: from.number()?,
            last_failures: from.number()?,
        };
        (self.generator, self.begun) = (None, begun);
        (self.next, self.ended) = (None, false);
        self.done = Done {
            resets: done.resets,
            ..Done::default()
        };
        if begun {
            // At the end, only another round can follow.
            self.repeat(if ended { self.done } else { done })?;
        }
        self.done = done;
        self.ended |= ended;
        Ok(())
    }

    fn rounds(&mut self, to: &mut Rounds) {
        to.push_flag(self.begun);
        to.push(self.done.resets);
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        let begun = to.flag()?;
        let resets = to.number()?;
        // A reset cannot be undone. The next round has a new generator, which is reset as often as
        // this one was to be.
        if (self.begun, self.done.resets) != (begun, resets) {
            self.generator = None;
            self.begun = begun;
            self.done = Done {
                resets,
                ..Done::default()
            };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elements::spec::LeafSpec;
    use umbo_tensor::DType;

    struct Endless;

    impl Generator for Endless {
        fn next(&mut self) -> Result<Option<Value>> {
            Ok(Some(Value::Tensor(umbo_tensor::Tensor::scalar(0)?)))
        }

        fn reset(&mut self) -> Result<()> {
            Ok(())
        }
    }

    /// A position is a text from outside, and restoring it ends in any case.
    #[test]
    fn impossible_element_counts_are_refused() {
        let spec = ElementSpec::Leaf(LeafSpec {
            dtype: DType::Int32,
            shape: vec![],
        });
        let dataset = Dataset::from_generator(spec, || Ok(Box::new(Endless) as _)).unwrap();
        let restored = |resets, elements| {
            let mut pass = crate::passes::Pipeline::start(&dataset).unwrap();
            pass.restore(&mut StateReader::new(&[1, 0, resets, elements, 0, 0]))
        };
        restored(MOST_RESETS, 3).unwrap();
        assert!(
            restored(u64::MAX, 0)
                .unwrap_err()
                .to_string()
                .contains("reset is 1844")
        );
        assert!(
            restored(0, 1 << 60)
                .unwrap_err()
                .to_string()
                .contains("make again is 1152")
        );
    }
}

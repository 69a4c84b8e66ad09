//! Several datasets one after the other.

use crate::error::{Error, Result};
use crate::input::cardinality::Cardinality;
use crate::input::facts::Facts;
use crate::input::pass::Pass;
use crate::input::position::{StateReader, StateWriter};
use crate::input::spec::ElementSpec;
use crate::values::Value;

/// What the elements of all datasets have in common.
pub(super) fn spec(inputs: &[&Facts]) -> Result<ElementSpec> {
    let first = &inputs[0].spec;
    let mut specs = inputs.iter().map(|input| &input.spec).enumerate();
    specs.try_fold(first.clone(), |common, (position, spec)| {
        common.common(spec, &|| {
            Error::invalid(
                "datasets",
                format!(
                    "the elements of dataset {position} are {spec}, those of dataset 0 {first}; structure, \
                     dtypes and ranks must be the same"
                ),
            )
        })
    })
}

/// How many elements the datasets have together.
pub(super) fn total(inputs: &[&Facts]) -> Cardinality {
    inputs.iter().map(|input| input.cardinality).fold(Cardinality::Exact(0), followed_by)
}

fn followed_by(one: Cardinality, other: Cardinality) -> Cardinality {
    use Cardinality::*;
    match (one, other) {
        (Endless, _) | (_, Endless) => Endless,
        (Unknown, _) | (_, Unknown) => Unknown,
        (Exact(one), Exact(other)) => one.checked_add(other).map_or(Unknown, Exact),
    }
}

pub(super) fn start(inputs: Vec<Box<dyn Pass<Value>>>) -> Box<dyn Pass<Value>> {
    Box::new(ConcatenatePass { inputs, current: 0 })
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

    fn save(&self, to: &mut StateWriter) {
        to.push(self.current as u64);
        self.inputs.iter().for_each(|input| input.save(to));
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.current = from.index(self.inputs.len(), "the present dataset")?;
        self.inputs.iter_mut().try_for_each(|input| input.restore(from))
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn Pass<Value>)) {
        self.inputs.iter_mut().for_each(|input| visit(&mut **input));
    }
}

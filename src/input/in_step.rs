//! Datasets of which each rank has its own: all ranks make as many steps as the one with the most.

use std::fmt;
use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::Result;
use crate::input::distribute_options::DistributeOptions;
use crate::input::file_shares::Listed;
use crate::input::padded::hold;
use crate::input::position::{Mark, Reader};
use crate::input::spec::{ElementSpec, LeafSpec};
use crate::input::stage::Pass;
use crate::input::trail::{Saved, Trail, Wanted};
use crate::strategy::ranks::{Call, Kind, Ranks, Tell};
use crate::tensor::{Shape, Tensor};
use crate::text::Text;
use crate::values::Value;

/// The ranks that take elements together, each of a dataset of its own.
#[derive(Clone, Debug)]
pub(super) struct Together {
    ranks: Arc<Ranks>,
    /// The end comes when one rank has no element, so that there is none without rows.
    drops_partial: bool,
    /// The list of files of which each rank reads some, if they do: how many, a hash of their names, the
    /// first.
    files: Option<(usize, u64, Text)>,
}

impl Together {
    pub(super) fn new(ranks: &Arc<Ranks>, options: &DistributeOptions) -> Together {
        let (ranks, drops_partial) = (Arc::clone(ranks), options.drop_partial_step);
        Together { ranks, drops_partial, files: None }
    }

    /// The same ranks, which read some of these files each.
    pub(super) fn reading(self, files: &Listed) -> Together {
        Together { files: Some((files.count, files.names, files.first.clone())), ..self }
    }
}

impl fmt::Display for Together {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the next element of a distributed dataset")?;
        match &self.files {
            None => Ok(()),
            Some((count, _, first)) => {
                write!(formatter, " of {count} files, of which the first is '{first}'")
            }
        }
    }
}

/// Gives elements while any rank has one: the ranks meet for each. A rank that has none any more gets
/// elements without rows.
pub(super) struct InStepPass {
    together: Together,
    spec: ElementSpec,
    /// Where the component of each replica is to be.
    devices: Arc<[DeviceId]>,
    /// The element at hand. It stays if the ranks cannot agree.
    taken: Vec<Value>,
    /// What stands for an element if there is none.
    nothing: Option<Value>,
    trail: Trail,
    ended: bool,
    input: Box<dyn Pass<Value>>,
}

impl InStepPass {
    /// Of elements like `spec`, for replicas on `devices`.
    pub(super) fn new(
        together: Together,
        spec: ElementSpec,
        devices: Arc<[DeviceId]>,
        mut input: Box<dyn Pass<Value>>,
    ) -> InStepPass {
        input.reserve(1);
        let (taken, nothing, trail) = (Vec::new(), None, Trail::default());
        InStepPass { together, spec, devices, taken, nothing, trail, ended: false, input }
    }

    fn take(&mut self) -> Result<()> {
        if self.taken.is_empty() && !self.ended {
            match self.trail.next(&mut *self.input)? {
                Some(element) => self.taken.push(element),
                None => self.ended = true,
            }
        }
        // Before the ranks meet: a step that they have agreed on must not fail on one of them.
        if self.taken.is_empty() && self.nothing.is_none() && !self.together.drops_partial {
            self.nothing = Some(nothing(&self.spec, &self.devices)?);
        }
        Ok(())
    }

    fn let_go(&mut self) {
        self.taken.clear();
        self.trail.clear();
    }
}

impl Pass<Value> for InStepPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let own = self.take();
        let has = !self.taken.is_empty();
        let Together { ranks, drops_partial, files } = &self.together;
        // Ranks whose lists differ would read some files twice and others not at all.
        let quantities = |tell: &mut Tell<'_>| {
            tell(&"the number of files", files.as_ref().map(|files| files.0).into());
            tell(&"the first file", files.as_ref().map(|files| files.2.as_str()).into());
            tell(&"the hash of the list of files", files.as_ref().map(|files| files.1).into());
        };
        let numbers = [u64::from(has), 0];
        let call = Call { numbers, ..Call::to(Kind::Input, &self.together).agreeing(&quantities) };
        let (meeting, ()) = ranks.meet(call, own)?;
        let (mut any, mut all) = (false, true);
        for [has, _] in meeting.numbers() {
            any |= has != 0;
            all &= has != 0;
        }
        drop(meeting);
        let ends = !any || (*drops_partial && !all);
        let element = self.taken.pop();
        self.let_go();
        if ends {
            self.ended = true;
            return Ok(None);
        }
        Ok(element.or_else(|| self.nothing.take()))
    }

    fn restart(&mut self) -> Result<()> {
        self.let_go();
        self.ended = false;
        self.input.restart()
    }

    fn save(&self, to: &mut Mark) {
        to.push_flag(self.ended);
        self.trail.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.ended = from.flag()?;
        let saved = Saved::read(from)?;
        let taken = &mut self.taken;
        taken.clear();
        self.trail
            .restore(&saved, &mut *self.input, Wanted::All, &mut |element| hold(taken, element, 1))
    }

    fn reserve(&mut self, items: usize) {
        self.input.reserve(items);
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}

/// An element like `spec` without rows, where it has any: scalars are zero.
fn nothing(spec: &ElementSpec, devices: &[DeviceId]) -> Result<Value> {
    let items = |items: &Arc<Vec<ElementSpec>>| {
        items.iter().map(|item| nothing(item, devices)).collect::<Result<Vec<_>>>()
    };
    match spec {
        ElementSpec::Leaf(leaf) => of_no_rows(leaf, devices[0]).map(Value::Tensor),
        ElementSpec::PerReplica(_, leaf) => {
            let parts = devices.iter().map(|&device| of_no_rows(leaf, device));
            Value::per_replica(parts.collect::<Result<_>>()?)
        }
        ElementSpec::Tuple(of) => Value::tuple(items(of)?),
        ElementSpec::List(of) => Value::list(items(of)?),
        ElementSpec::Struct(fields) => {
            let field = |(name, spec): &(_, ElementSpec)| {
                let name: &crate::text::Text = name;
                Ok((name.clone(), nothing(spec, devices)?))
            };
            Value::structure(fields.iter().map(field).collect::<Result<_>>()?)
        }
    }
}

fn of_no_rows(leaf: &LeafSpec, device: DeviceId) -> Result<Tensor> {
    let mut sizes: Vec<usize> = leaf.shape.iter().map(|size| size.unwrap_or(0)).collect();
    if let Some(rows) = sizes.first_mut() {
        *rows = 0;
    }
    Ok(Tensor::zeros(leaf.dtype, Shape::new(&sizes)?, device)?.with_examples(0))
}

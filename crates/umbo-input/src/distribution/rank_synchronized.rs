//! Datasets of which each rank has its own. All ranks make as many steps as the rank with the most.

use std::fmt;
use std::sync::Arc;

use crate::distribution::options::DistributeOptions;
use crate::elements::spec::ElementSpec;
use crate::passes::IteratorStage;
use crate::passes::pending_item::PendingItem;
use crate::passes::position::{Rounds, StateReader, StateWriter};
use crate::properties::Files;
use umbo_base::error::Result;
use umbo_device::DeviceId;
use umbo_strategy::ranks::{AddQuantity, Call, CollectiveKind, Ranks};
use umbo_tensor::Tensor;
use umbo_tensor::values::Value;

/// The ranks that take elements together. Each has its own dataset.
#[derive(Clone, Debug)]
pub(crate) struct RankGroup {
    ranks: Arc<Ranks>,
    /// Whether the end comes when the first rank has no element, so that no rank gets elements
    /// without rows.
    drops_partial: bool,
    /// The list of files, if each rank reads some of them.
    files: Option<Files>,
}

impl RankGroup {
    pub(crate) fn new(ranks: &Arc<Ranks>, options: &DistributeOptions) -> RankGroup {
        let ranks = Arc::clone(ranks);
        let drops_partial = options.drop_partial_step;
        RankGroup {
            ranks,
            drops_partial,
            files: None,
        }
    }

    /// The same ranks, each of which reads some of `files`.
    pub(crate) fn reading(self, files: &Files) -> RankGroup {
        RankGroup {
            files: Some(files.clone()),
            ..self
        }
    }
}

impl fmt::Display for RankGroup {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "the next element of a distributed dataset")?;
        match &self.files {
            None => Ok(()),
            Some(Files { count, first, .. }) => {
                write!(
                    formatter,
                    " of {count} files, of which the first is '{first}'"
                )
            }
        }
    }
}

/// Returns elements as long as any rank has one. The ranks communicate for each element. A rank
/// whose dataset has ended gets elements without rows.
pub(crate) struct RankSynchronizedPass {
    group: RankGroup,
    spec: ElementSpec,
    /// The device of each replica's component.
    devices: Arc<[DeviceId]>,
    /// The current element. It stays if the ranks cannot agree.
    taken: PendingItem<Value>,
    /// The element without rows that replaces a missing one.
    nothing: Option<Value>,
    ended: bool,
    input: Box<dyn IteratorStage<Value>>,
}

impl RankSynchronizedPass {
    /// A pass over elements like `spec`, for replicas on `devices`.
    pub(crate) fn new(
        group: RankGroup,
        spec: ElementSpec,
        devices: Arc<[DeviceId]>,
        mut input: Box<dyn IteratorStage<Value>>,
    ) -> RankSynchronizedPass {
        input.reserve(1);
        let taken = PendingItem::of(&*input);
        RankSynchronizedPass {
            group,
            spec,
            devices,
            taken,
            nothing: None,
            ended: false,
            input,
        }
    }

    fn take(&mut self) -> Result<()> {
        self.ended = self.ended || !self.taken.fill(&mut *self.input)?;
        // This is made before the ranks communicate, because a step on which they have agreed must
        // not fail on one of them.
        if !self.taken.is_some() && self.nothing.is_none() && !self.group.drops_partial {
            self.nothing = Some(nothing(&self.spec, &self.devices)?);
        }
        Ok(())
    }
}

impl IteratorStage<Value> for RankSynchronizedPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let prepared = self.take();
        let has = self.taken.is_some();
        let RankGroup {
            ranks,
            drops_partial,
            files,
        } = &self.group;
        // If the ranks' lists differed, some files would be read twice and others not at all.
        let quantities = |add: &mut AddQuantity<'_>| {
            add(
                &"the number of files",
                files.as_ref().map(|files| files.count).into(),
            );
            add(
                &"the first file",
                files.as_ref().map(|files| files.first.as_str()).into(),
            );
            add(
                &"the hash of the list of files",
                files.as_ref().map(|files| files.names).into(),
            );
        };
        let numbers = [u64::from(has), 0];
        let call = Call {
            numbers,
            ..Call::to(CollectiveKind::Input, &self.group).agreeing(&quantities)
        };
        let (collective, ()) = ranks.start_collective(call, prepared)?;
        let mut any = false;
        let mut all = true;
        for [has, _] in collective.numbers() {
            any |= has != 0;
            all &= has != 0;
        }
        drop(collective);
        let ends = !any || (*drops_partial && !all);
        let element = self.taken.take();
        if ends {
            self.ended = true;
            return Ok(None);
        }
        Ok(element.or_else(|| self.nothing.take()))
    }

    fn restart(&mut self) -> Result<()> {
        self.ended = false;
        self.taken.restart(&mut *self.input)
    }

    /// Positions have the same form as those of a single rank. The end needs no place in them: an
    /// input that has ended says so again.
    fn save(&self, to: &mut StateWriter) {
        self.taken.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut StateReader<'_>) -> Result<()> {
        self.ended = false;
        self.taken.restore(&mut *self.input, from)
    }

    fn rounds(&mut self, to: &mut Rounds) {
        self.taken.rounds(&mut *self.input, to);
    }

    fn go_back(&mut self, to: &mut StateReader<'_>) -> Result<()> {
        self.taken.go_back(&mut *self.input, to)
    }

    fn inputs(&mut self, visit: &mut dyn FnMut(&mut dyn IteratorStage<Value>)) {
        visit(&mut *self.input);
    }
}

/// An element like `spec` without rows. Scalars in it are zero.
fn nothing(spec: &ElementSpec, devices: &[DeviceId]) -> Result<Value> {
    spec.value(&mut |leaf, replica| {
        let zeros = Tensor::zeros(leaf.dtype, leaf.empty_shape()?, devices[replica])?;
        Ok(zeros.with_examples(0))
    })
}

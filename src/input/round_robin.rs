//! Whole elements dealt out, one to each replica.

use std::sync::Arc;

use crate::device::DeviceId;
use crate::error::{Error, Result};
use crate::input::frame::{self, Frame, Pool, Reusable};
use crate::input::held::lacks_memory;
use crate::input::leaves::Leaves;
use crate::input::memory;
use crate::input::numbering::Numbering;
use crate::input::padded::hold;
use crate::input::position::{Mark, Reader};
use crate::input::spec::ElementSpec;
use crate::input::split::examples;
use crate::input::stage::Pass;
use crate::input::trail::{Saved, Trail, Wanted};
use crate::tensor::origin::Share;
use crate::tensor::{DType, Layout, Shape, Tensor, TensorParts};
use crate::values::Value;

/// Step s gives replica k the element s·n + k of the input.
pub(super) struct DealPass {
    spec: ElementSpec,
    leaves: Leaves,
    /// Where each component is to be.
    devices: Arc<[DeviceId]>,
    drop_partial_step: bool,
    /// The elements of the step at hand. They stay if the next one fails, or if there is no memory for the
    /// step.
    taken: Vec<Value>,
    trail: Trail,
    ended: bool,
    /// What components are that no element was left for: no rows, or a scalar zero.
    zero: Tensor,
    input: Box<dyn Pass<Value>>,
    pool: Pool<Frame>,
    numbering: Numbering,
}

impl DealPass {
    /// A pass that deals the elements of `input` out to steps like `spec`, whose leaves are
    /// per-replica values. A last step for which there are not enough elements is left out or
    /// else completed.
    pub(super) fn new(
        spec: ElementSpec,
        devices: Arc<[DeviceId]>,
        drop_partial_step: bool,
        numbering: Numbering,
        mut input: Box<dyn Pass<Value>>,
    ) -> Result<DealPass> {
        input.reserve(devices.len().saturating_mul(2));
        // As many bytes as the largest dtype has.
        let zero =
            memory::read_only(&Tensor::zeros(DType::UInt64, Shape::scalar(), DeviceId::HOST)?)?;
        let (leaves, pool) = (Leaves::of(&spec), Pool::new());
        Ok(DealPass {
            spec,
            leaves,
            devices,
            drop_partial_step,
            taken: Vec::new(),
            trail: Trail::default(),
            ended: false,
            zero,
            input,
            pool,
            numbering,
        })
    }
}

impl DealPass {
    fn let_go(&mut self) {
        self.taken.clear();
        self.trail.clear();
    }

    fn deal(&mut self) -> Result<Option<Value>> {
        // The input can use again the elements that only idle steps of ours are views of.
        self.pool.release_idle();
        while self.taken.len() < self.devices.len() && !self.ended {
            match self.trail.next(&mut *self.input)? {
                Some(element) => self.taken.push(element),
                None => self.ended = true,
            }
        }
        let partial = self.taken.len() < self.devices.len();
        if self.taken.is_empty() || (partial && self.drop_partial_step) {
            self.let_go();
            return Ok(None);
        }
        let frame = self.pool.claim(|| Frame::new(&self.spec))?;
        let zero = (&self.zero, &self.numbering);
        let dealt = deal(&self.taken, &self.leaves, frame.value_mut(), &self.devices, zero);
        let step = dealt.map(|()| frame.value());
        if step.is_err() {
            // Elements that are on their GPUs already make room for others meanwhile.
            frame.release();
        }
        if !lacks_memory(&step) {
            self.let_go();
        }
        step.map(Some)
    }
}

impl Pass<Value> for DealPass {
    fn next(&mut self) -> Result<Option<Value>> {
        let next = self.deal();
        self.numbering.count(next)
    }

    fn restart(&mut self) -> Result<()> {
        self.numbering.restart();
        self.let_go();
        self.ended = false;
        self.input.restart()
    }

    fn save(&self, to: &mut Mark) {
        self.numbering.save(to);
        to.push_flag(self.ended);
        self.trail.save(&*self.input, to);
    }

    fn restore(&mut self, from: &mut Reader<'_>) -> Result<()> {
        self.numbering.restore(from)?;
        self.ended = from.flag()?;
        let saved = Saved::read(from)?;
        let (taken, replicas) = (&mut self.taken, self.devices.len());
        taken.clear();
        self.trail.restore(&saved, &mut *self.input, Wanted::All, &mut |element| {
            hold(taken, element, replicas)
        })
    }

    fn reserve(&mut self, items: usize) {
        self.pool.reserve(items);
        self.input.reserve(items.saturating_mul(self.devices.len()));
    }

    fn announce(&mut self) {
        self.input.announce();
    }
}

/// Makes component k of each leaf of `step` the leaf of element k.
fn deal(
    elements: &[Value],
    leaves: &Leaves,
    step: &mut Value,
    devices: &[DeviceId],
    (zero, numbering): (&Tensor, &Numbering),
) -> Result<()> {
    let (mut visited, mut all) = (0, 0);
    let ours = frame::for_each_tensor(step, &mut |component| {
        let (leaf, replica) = (visited / devices.len(), visited % devices.len());
        visited += 1;
        if replica == 0 {
            all = elements.iter().try_fold(0, |sum, element| {
                Ok::<_, Error>(sum + examples(leaves.tensor(element, leaf)?))
            })?;
        }
        match elements.get(replica) {
            Some(element) => {
                let source = leaves.tensor(element, leaf)?;
                let share = Some(numbering.share(examples(source), all));
                frame::view(component, source, *source.layout(), 0, devices[replica], share)?;
            }
            None => {
                let other = leaves.tensor(&elements[0], leaf)?;
                missing(component, other, devices[replica], (zero, numbering.share(0, all)))?;
            }
        }
        Ok(true)
    })?;
    if ours { Ok(()) } else { Err(frame::in_use()) }
}

/// Makes `component` what stands for an element that is not there: like `other`, without rows. A
/// scalar cannot be without rows and is zero.
fn missing(
    component: &mut Tensor,
    other: &Tensor,
    device: DeviceId,
    (zero, share): (&Tensor, Share),
) -> Result<()> {
    let shape = match other.shape().rank() {
        0 => Shape::scalar(),
        _ => other.shape().with_size(0, 0),
    };
    let (storage, offset) = zero.storage();
    let layout = Layout::row_major(shape);
    if !device.is_host_memory() {
        let like = Tensor::from_storage(Arc::clone(storage), other.dtype(), layout, offset)?;
        return frame::view(component, &like, layout, 0, device, Some(share));
    }
    let parts =
        TensorParts { storage, dtype: other.dtype(), layout, offset, device, share: Some(share) };
    if component.try_replace(&parts) { Ok(()) } else { Err(frame::in_use()) }
}

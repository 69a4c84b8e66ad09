//! Deals whole elements to replicas.

use std::sync::Arc;

use crate::distribution::local_replicas::LocalReplicas;
use crate::distribution::split::examples;
use crate::elements::element_buffer::{self, ElementBuffer, LeafBuffer};
use crate::elements::leaves::Leaves;
use crate::elements::spec::ElementSpec;
use crate::passes::batch_counter::BatchCounter;
use crate::passes::gathered::Make;
use crate::sources::memory;
use umbo_base::error::{Error, Result};
use umbo_device::DeviceId;
use umbo_tensor::origin::BatchShare;
use umbo_tensor::values::Value;
use umbo_tensor::{DType, Layout, Shape, Tensor, TensorParts};

/// In step s, replica k gets element s·n + k of the input, where n is the number of replicas.
pub(crate) struct Deal {
    leaves: Leaves,
    replicas: LocalReplicas,
    /// The component for which no element was left: it has no rows, or is a scalar zero.
    zero: Tensor,
}

impl Deal {
    /// Makes steps like `spec`, whose leaves are per-replica values. A step that lacks elements is
    /// completed.
    pub(crate) fn new(spec: &ElementSpec, replicas: &LocalReplicas) -> Result<Deal> {
        // It has as many bytes as the largest dtype.
        let zero = memory::read_only(&Tensor::zeros(
            DType::UInt64,
            Shape::scalar(),
            DeviceId::HOST,
        )?)?;
        Ok(Deal {
            leaves: Leaves::of(spec),
            replicas: replicas.clone(),
            zero,
        })
    }
}

impl Make for Deal {
    const IS_VIEW: bool = true;

    /// Makes a step. Component k of each leaf becomes the leaf of element k.
    fn make(
        &mut self,
        elements: &[Value],
        numbering: &BatchCounter,
        step: &mut ElementBuffer,
    ) -> Result<()> {
        let Deal {
            leaves,
            replicas,
            zero,
        } = self;
        let mut all = 0;
        let count = replicas.devices.len();
        step.fill(&mut |number,
                        LeafBuffer {
                            tensor: component, ..
                        }| {
            let leaf = number / count;
            let replica = number % count;
            if replica == 0 {
                all = elements.iter().try_fold(0, |sum, element| {
                    Ok::<_, Error>(sum + examples(leaves.tensor(element, leaf)?))
                })?;
            }
            let device = replicas.devices[replica];
            match elements.get(replicas.first + replica) {
                Some(element) => {
                    let source = leaves.tensor(element, leaf)?;
                    let share = Some(numbering.share(examples(source), all, None));
                    element_buffer::view(component, source, *source.layout(), 0, device, share)
                }
                None => {
                    let other = leaves.tensor(&elements[0], leaf)?;
                    missing(
                        component,
                        other,
                        device,
                        zero,
                        numbering.share(0, all, None),
                    )
                }
            }
        })
    }
}

/// Makes `component` the replacement for a missing element: like `other`, without rows. A scalar
/// cannot be without rows and becomes zero.
fn missing(
    component: &mut Tensor,
    other: &Tensor,
    device: DeviceId,
    zero: &Tensor,
    share: BatchShare,
) -> Result<()> {
    let shape = match other.shape().rank() {
        0 => Shape::scalar(),
        _ => other.shape().with_size(0, 0),
    };
    let (storage, offset) = zero.storage();
    let layout = Layout::row_major(shape);
    if !device.is_host_memory() {
        let like = Tensor::from_storage(Arc::clone(storage), other.dtype(), layout, offset)?;
        return element_buffer::view(component, &like, layout, 0, device, Some(share));
    }
    let parts = TensorParts {
        storage,
        dtype: other.dtype(),
        layout,
        offset,
        device,
        share: Some(share),
    };
    if component.try_replace(&parts) {
        Ok(())
    } else {
        Err(element_buffer::in_use())
    }
}

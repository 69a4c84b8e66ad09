//! Long chains of work, queued without a pause. Each part depends on the one before.

use umbo_core::collectives::{Assignment, combine_into};
use umbo_core::device::{DeviceId, DeviceKind, registry};
use umbo_core::error::Result;
use umbo_core::tensor::{Shape, Tensor};

use super::Checked;

/// The number of links in a chain.
const LINKS: u32 = 300;

/// Checks chains on `device`, and between it and each other GPU, with blocks of at most `bytes`
/// bytes.
pub fn check(device: DeviceId, bytes: usize) -> Result<Checked> {
    let mut checked = Checked::default();
    for elements in [1, 1000, 300_000].map(|elements: usize| elements.min(bytes / 4)) {
        let others = (0..registry::REGISTRY.logical_count(DeviceKind::Gpu)).map(|index| DeviceId {
            kind: DeviceKind::Gpu,
            index,
        });
        for other in others {
            let (end, expected) = chain(device, other, elements)?;
            let case =
                || format!("a chain of {LINKS} over {device} and {other}, {elements} elements");
            checked.compare(case, &end, &expected);
        }
    }
    Ok(checked)
}

/// Adds 1 and copies the sum, again and again. Returns the integers at both ends.
fn chain(one: DeviceId, other: DeviceId, elements: usize) -> Result<(Vec<i32>, Vec<i32>)> {
    let shape = Shape::new(&[elements])?;
    let start: Vec<i32> = (0..elements as i32).collect();
    let mut value = Tensor::from_slice(&start, shape, one)?;
    let ones = [one, other].map(|device| Tensor::from_slice(&vec![1; elements], shape, device));
    let [one_here, one_there] = ones;
    let one_here = one_here?;
    let one_there = one_there?;
    for link in 0..LINKS {
        let (next, addend) = if link % 2 == 0 {
            (other, &one_there)
        } else {
            (one, &one_here)
        };
        let mut sum = value.copied_to(next)?;
        if let Some(mut target) = sum.get_mut() {
            combine_into(Assignment::Add, &mut target, addend)?;
        }
        // The memory of the old value is released while copies from it are queued.
        value = sum;
    }
    let expected = start.iter().map(|number| number + LINKS as i32).collect();
    Ok((value.to_vec()?, expected))
}

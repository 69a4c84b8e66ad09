//! The simplest copies: the fastest possible speed of operations that only move bytes.

#![expect(unsafe_code, reason = "workers copy parts of one output side by side")]

use std::ops::Range;
use std::ptr;

use umbo_core::error::Result;
use umbo_core::executor::workers;
use umbo_core::kernels::instruction_set::Instructions;
use umbo_core::kernels::streaming;
use umbo_core::tensor::Tensor;

use super::memory::{Timed, whole};

/// How a copy moves its bytes.
#[derive(Clone, Copy, Debug)]
pub enum Copying {
    /// The C library's `memcpy`.
    Plain,
    /// Past the caches.
    Streaming,
}

/// Every way to copy all of `from`, one tensor after the other, into the contiguous `to`: with the
/// workers or only on this thread, plainly or past the caches. The fastest of them is the best
/// possible speed.
pub fn all<'a>(from: &'a [Tensor], to: &'a Tensor) -> Vec<Timed<'a>> {
    let ways = [false, true]
        .into_iter()
        .flat_map(|alone| [Copying::Plain, Copying::Streaming].map(|copying| (alone, copying)));
    ways.map(|(alone, copying)| whole(move || copy(from, to, alone, copying)))
        .collect()
}

/// An address that workers share.
#[derive(Clone, Copy)]
struct To(*mut u8);

// SAFETY: the workers write disjoint ranges.
unsafe impl Sync for To {}

impl To {
    /// The address `bytes` further on.
    ///
    /// # Safety
    /// The memory has at least this many bytes.
    unsafe fn at(&self, bytes: usize) -> *mut u8 {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(bytes) }
    }
}

fn copy(from: &[Tensor], to: &Tensor, alone: bool, copying: Copying) -> Result<()> {
    let views = from
        .iter()
        .map(Tensor::reading)
        .collect::<Result<Vec<_>>>()?;
    let sizes = from.iter().map(|from| from.shape().bytes(from.dtype()));
    let sizes = sizes.collect::<Result<Vec<usize>>>()?;
    let all: usize = sizes.iter().sum();
    // SAFETY: nobody else uses a benchmark's tensors while it measures.
    let mut output = unsafe { to.assume_exclusive() };
    let start = To(output.writing()?.data());
    assert!(
        to.shape().bytes(to.dtype())? >= all,
        "the output holds all inputs"
    );
    let part = |range: Range<usize>| {
        let mut begin = 0;
        for (view, &size) in views.iter().zip(&sizes) {
            let first = range.start.max(begin);
            let last = range.end.min(begin + size);
            if first < last {
                // SAFETY: the bytes are within the view, which is contiguous, and within the
                // output, of which no other worker writes this range.
                unsafe {
                    let from = view.data().add(first - begin);
                    match copying {
                        Copying::Plain => {
                            ptr::copy_nonoverlapping(from, start.at(first), last - first);
                        }
                        Copying::Streaming => {
                            let instructions = Instructions::chosen();
                            streaming::write(instructions, from, start.at(first), last - first);
                            streaming::finish();
                        }
                    }
                }
            }
            begin += size;
        }
    };
    match alone {
        true => part(0..all),
        false => workers::for_each_range(all, 2, &part),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use umbo_core::device::DeviceId;
    use umbo_core::tensor::Shape;

    use super::*;

    #[test]
    fn every_way_copies_all() {
        let parts: Vec<Tensor> = [3i32, 5, 7]
            .map(|value| {
                let shape = Shape::new(&[50_000]).unwrap();
                Tensor::from_slice(&[value; 50_000], shape, DeviceId::HOST).unwrap()
            })
            .into();
        let zeros = [0i32; 150_000];
        let shape = Shape::new(&[zeros.len()]).unwrap();
        for alone in [false, true] {
            for copying in [Copying::Plain, Copying::Streaming] {
                let output = Tensor::from_slice(&zeros, shape, DeviceId::HOST).unwrap();
                copy(&parts, &output, alone, copying).unwrap();
                let expected = [[3i32; 50_000], [5; 50_000], [7; 50_000]].concat();
                assert!(
                    output.to_vec::<i32>().unwrap() == expected,
                    "{alone} {copying:?}"
                );
            }
        }
    }
}

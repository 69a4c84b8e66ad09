//! What memory can do at best: a loop that only moves bytes, for comparison with those that
//! compute.
//!
//! A probe has the same streams as the operation that it stands beside: the same memory is read,
//! written, or read and written, by the same workers in the same ranges. All that it computes is
//! an exclusive or.

use std::ops::Range;

use crate::device::cpu::workers;
use crate::error::{Error, Result};
use crate::kernels::instruction_set::{Kernel, dispatch};
use crate::kernels::streaming::{self, LINE};
use crate::kernels::view::{View, ViewMut};

type Line = [u64; LINE / 8];

/// Reads all of `reads`, of which there are 1, 2, 4 or 8, writes something to `write` (past the
/// caches if `streaming` says so), and writes to each of `in_place`, at most three, what it held.
/// Bytes behind the last whole line are left out.
///
/// Fails with INVALID_ARGUMENT for other numbers of streams, and if one is not contiguous, does not
/// start at a line, or differs from the others in its bytes (`write` may have a multiple of them).
pub fn move_bytes(
    reads: &[View],
    write: Option<&ViewMut>,
    in_place: &[ViewMut],
    streaming: bool,
) -> Result<()> {
    let of = |data: *const u8, layout: &crate::kernels::layout::Layout, size: usize| {
        let whole = layout.is_contiguous() && data.addr().is_multiple_of(LINE);
        whole.then_some(layout.shape.elements() * size)
    };
    let of_mut = |view: &ViewMut| of(view.data(), view.layout(), view.dtype().size());
    let mut sizes = reads
        .iter()
        .map(|view| of(view.data(), view.layout(), view.dtype().size()))
        .chain(in_place.iter().map(of_mut));
    let bytes = sizes.next().flatten().filter(|&bytes| sizes.all(|size| size == Some(bytes)));
    let written = write.map_or(bytes, of_mut);
    let (Some(bytes), Some(written)) = (bytes, written) else {
        return Err(Error::invalid(
            "value",
            "the streams of a probe are contiguous, of one size, and start at a cache line",
        ));
    };
    let widening = written / bytes.max(1);
    if widening * bytes != written {
        return Err(Error::invalid("write", format!("{written} bytes; not a multiple of {bytes}")));
    }
    let streams = Streams { reads, write, in_place, streaming, lines: bytes / LINE, widening };
    match reads.len() {
        1 => streams.with_reads::<1>(),
        2 => streams.with_reads::<2>(),
        4 => streams.with_reads::<4>(),
        8 => streams.with_reads::<8>(),
        other => Err(Error::invalid("value", format!("{other} components; not 1, 2, 4 or 8"))),
    }
}

struct Streams<'a> {
    reads: &'a [View],
    write: Option<&'a ViewMut>,
    in_place: &'a [ViewMut],
    streaming: bool,
    lines: usize,
    /// Lines that are written for each line that is read.
    widening: usize,
}

impl Streams<'_> {
    fn with_reads<const R: usize>(&self) -> Result<()> {
        match self.in_place.len() {
            0 => self.run::<R, 0>(),
            1 => self.run::<R, 1>(),
            2 => self.run::<R, 2>(),
            3 => self.run::<R, 3>(),
            other => {
                return Err(Error::invalid("in_place", format!("{other} streams; at most 3")));
            }
        }
        Ok(())
    }

    fn run<const R: usize, const S: usize>(&self) {
        let written = if self.write.is_some() { self.widening } else { 0 };
        let streams = R + written + 2 * S;
        // Not known to the compiler, which could leave out what changes nothing.
        let mask = std::hint::black_box(0);
        workers::for_each_range(self.lines, streams * LINE, &|range| {
            dispatch(Lines::<R, S> {
                reads: std::array::from_fn(|stream| self.reads[stream].data().cast()),
                write: self.write.map(|view| view.data().cast()),
                in_place: std::array::from_fn(|stream| self.in_place[stream].data().cast()),
                streaming: self.streaming,
                widening: self.widening,
                mask,
                range,
            });
        });
    }
}

/// One worker's lines. `move_bytes` checked that all pointers have them.
struct Lines<const R: usize, const S: usize> {
    reads: [*const Line; R],
    write: Option<*mut Line>,
    in_place: [*mut Line; S],
    streaming: bool,
    widening: usize,
    mask: u64,
    range: Range<usize>,
}

impl<const R: usize, const S: usize> Kernel for Lines<R, S> {
    #[inline(always)]
    fn run(self) {
        for line in self.range {
            let mut sum = [0; LINE / 8];
            for read in self.reads {
                // SAFETY: the views have this line, their builders vouched for reading it, and
                // any bytes are integers.
                let more = unsafe { read.add(line).read() };
                sum.iter_mut().zip(more).for_each(|(sum, more)| *sum ^= more);
            }
            for stream in self.in_place {
                // SAFETY: as above, and the line is this worker's alone; with a mask of 0 it is
                // written as it was.
                unsafe {
                    let stream = stream.add(line);
                    let mut same = stream.read();
                    same.iter_mut().zip(sum).for_each(|(same, sum)| *same ^= sum & self.mask);
                    stream.write(same);
                }
            }
            let Some(write) = self.write else { continue };
            for place in 0..self.widening {
                // SAFETY: as above, for the `widening` lines that belong to this one; views that a
                // probe takes start at a line.
                unsafe {
                    let to = write.add(line * self.widening + place);
                    if self.streaming {
                        streaming::write_line((&raw const sum).cast(), to.cast());
                    } else {
                        to.write(sum);
                    }
                }
            }
        }
        streaming::finish();
    }
}

#[cfg(test)]
mod tests {
    use crate::device::DeviceId;
    use crate::tensor::{Shape, Tensor};

    #[test]
    fn a_probe_writes_its_output_and_keeps_what_is_in_place() {
        let shape = Shape::new(&[4096]).unwrap();
        let filled =
            |value: i32| Tensor::from_slice(&vec![value; 4096], shape, DeviceId::HOST).unwrap();
        let [read, other, kept, output] = [3, 5, 7, 0].map(filled);
        for streaming in [false, true] {
            output.fill_zeros().unwrap();
            let reads = [read.reading().unwrap(), other.reading().unwrap()];
            let in_place = [kept.writing().unwrap()];
            let write = output.writing().unwrap();
            super::move_bytes(&reads, Some(&write), &in_place, streaming).unwrap();
            assert!(output.to_vec::<i32>().unwrap().iter().all(|&value| value == 3 ^ 5));
            assert!(kept.to_vec::<i32>().unwrap().iter().all(|&value| value == 7));
            assert!(super::move_bytes(&reads[..0], Some(&write), &[], streaming).is_err());
        }
    }
}
